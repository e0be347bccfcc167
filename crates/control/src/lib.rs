//! The control daemon and its shell.

#![forbid(unsafe_code)]
