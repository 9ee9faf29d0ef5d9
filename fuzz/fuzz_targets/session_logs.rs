//! See `unfazed::fuzzing::session_logs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::session_logs(data));
