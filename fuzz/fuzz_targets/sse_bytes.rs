//! See `unfazed::fuzzing::sse_bytes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::sse_bytes(data));
