//! See `unfazed::fuzzing::json_repair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::json_repair(data));
