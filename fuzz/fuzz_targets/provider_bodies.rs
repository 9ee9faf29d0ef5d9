//! See `unfazed::fuzzing::provider_bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unfazed::fuzzing::provider_bodies(data));
