//! See `fuzz_bodies::sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::sse(data));
