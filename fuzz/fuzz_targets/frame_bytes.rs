//! See `unfazed::fuzzing::frame_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::frame_bytes(data));
