//! See `unfazed::fuzzing::policy_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::policy_text(data));
