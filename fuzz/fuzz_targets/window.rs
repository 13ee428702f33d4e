//! See `fuzz_bodies::window`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_bodies::window(data));
