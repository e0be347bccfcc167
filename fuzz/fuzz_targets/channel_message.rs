//! Any bytes as a message of a socket: `cargo +nightly fuzz run channel_message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| channel::oracle::message(bytes));
