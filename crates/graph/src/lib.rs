//! CUDA graphs and stream capture, without a device.
//!
//! Two libraries offer the driver API to programs: the software GPU and the client. Graphs are
//! the same in both: a data structure that the program builds, by hand or by capturing streams.
//! Only what a node's parameters may be and how a finished graph runs differ, and that is what a
//! [`Backend`] says. Functions are in [`api`], one for each row of
//! [`cuda_api::graph_functions`]; what the functions of streams, events and memory ask about
//! captures is in [`Graphs`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`id`] | numbers of graphs and nodes, edges, handles |
//! | [`model`] | a graph: nodes and edges |
//! | [`node`] | what nodes do, as data |
//! | [`plan`] | a graph laid out flat, in an order in which it can run |
//! | [`conditional`] | nodes that choose what runs |
//! | [`capture`] | which streams capture, and what each operation means then |
//! | [`hooks`] | what operations of streams, events and memory ask first |
//! | [`exec`] | a graph that can be launched; [`launch`] does it |
//! | [`memory`] | memory that nodes allocate and free |
//! | [`store`] | all graphs of a process, by their handles |
//! | [`api`] | the driver API's functions |
//!
//! Invariants: a backend is never called with the tables locked, but for questions about
//! streams; node numbers are never used twice, so that a stale handle finds nothing.
#![allow(non_snake_case, reason = "functions keep cuda.h's names")]

pub mod api;
mod backend;
mod capture;
mod conditional;
#[cfg(test)]
mod counted;
mod dot;
mod exec;
mod hooks;
mod id;
mod lanes;
mod launch;
mod memory;
mod model;
mod node;
mod plan;
mod reuse;
mod store;
mod stream;

pub use backend::Backend;
pub use conditional::{ConditionalNode, Conditions, NumberedCondition, Rule};
pub use cuda_api::CopyEnd;
pub use hooks::{capture_alloc, capture_free, capture_launch, kernel_node};
pub use lanes::Lanes;
pub use memory::Allocation;
pub use node::{AllocNode, CopyNode, HostNode, KernelNode, NodeKind, Parameters};
pub use plan::{Dependency, Step};
pub use store::Graphs;
pub use stream::{StreamKey, StreamOrder};

pub use cuda_api::CUDA_MEMSET_NODE_PARAMS as FillNode;
