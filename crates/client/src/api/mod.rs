//! The functions that are answered by hand, grouped by the chapters of CUDA's manual.
//!
//! Each has its row's name and parameters, with [`In`](crate::boundary::In) and
//! [`Out`](crate::boundary::Out) in the place of pointers; one that has a per-thread variant takes
//! first which default stream NULL stands for.
#![allow(non_snake_case, reason = "functions keep cuda.h's names")]

mod array;
mod cache;
mod context;
mod copy;
mod copy3d;
mod copy3d_post;
mod device;
mod event;
mod export_table_host;
mod function;
mod graph;
mod green;
mod ipc;
mod launch;
mod library;
mod link;
mod managed;
mod memory;
mod memset;
mod module;
mod occupancy;
mod old_launch;
mod peer_copy;
mod pointer;
mod pool;
mod pool_share;
mod resource;
mod stream;
mod stream_attributes;
mod stream_values;
mod tensor;
mod texture;
mod version;
mod virtual_memory;

pub(crate) use array::*;
pub(crate) use cache::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use copy3d::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use function::*;
pub(crate) use graph::*;
pub(crate) use green::*;
pub(crate) use ipc::*;
pub(crate) use launch::*;
pub(crate) use library::*;
pub(crate) use link::*;
pub(crate) use managed::*;
pub(crate) use memory::*;
pub(crate) use memset::*;
pub(crate) use module::*;
pub(crate) use occupancy::*;
pub(crate) use old_launch::*;
pub(crate) use pointer::*;
pub(crate) use pool::*;
pub(crate) use pool_share::*;
pub(crate) use resource::*;
pub(crate) use stream::*;
pub(crate) use stream_attributes::*;
pub(crate) use stream_values::*;
pub(crate) use tensor::*;
pub(crate) use texture::*;
pub(crate) use version::*;
pub(crate) use virtual_memory::*;
