//! Any steps of a hostile client at a ring: `cargo +nightly fuzz run channel_ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| channel::oracle::ring(&channel::oracle::words_of(bytes)));
