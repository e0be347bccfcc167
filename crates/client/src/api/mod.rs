//! The functions that are answered by hand, grouped by the chapters of CUDA's manual.
#![allow(non_snake_case, reason = "functions keep cuda.h's names")]

pub(crate) mod version;
