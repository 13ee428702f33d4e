//! See `fuzz_bodies::normalise`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::normalise(data));
