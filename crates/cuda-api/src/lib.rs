//! The CUDA driver API written down once: types, errors, the table of functions.
//!
//! Everything that has the API's shape is made from the rows here: providers' tables, the
//! client's exports, the server's dispatch, reports. This crate knows no transport, no device
//! and no process; it has no dependencies and needs no standard library but alloc.
#![no_std]
#![allow(non_snake_case, non_camel_case_types, reason = "functions and types keep cuda.h's names")]

extern crate alloc;

#[macro_use]
mod table_graph;
#[macro_use]
mod table;

pub mod advice;
pub mod array;
pub mod constants;
mod copy3d;
mod driver;
pub mod driver_version;
pub mod effects;
pub mod environment;
mod error;
pub mod extension;
pub mod handle;
mod jump;
pub mod limits;
pub mod link;
mod linked;
pub mod nearest;
pub mod pointer;
pub mod resource;
pub mod settings;
pub mod symbols;
mod types;
pub mod visible;
mod word;

pub mod attributes;

pub use copy3d::{CopyEnd, Memcpy3D};
pub use driver::{
    DriverTable, Policy, ROWS, Row, number, row_of_number, row_of_symbol, signature,
    wants_per_thread,
};
pub use error::{CudaError, ERROR_ROWS, ErrorRow, error_row, result_code, result_from_code};
pub use types::*;
pub use word::Word;
