//! The control daemon and its shell.
