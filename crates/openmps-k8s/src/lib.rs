//! Kubernetes node agent: shares of a GPU as devices of Dynamic Resource Allocation (DRA).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`driver`] | the driver's name, and what is derived from it |
//! | [`quantity`] | Kubernetes quantities as whole numbers |
//! | [`parameters`] | ShareConfig, the opaque parameters of classes and claims |
//! | [`gpu`] | GPUs as the control daemon reports them, and as devices of a ResourceSlice |
//! | [`share`] | what a claim's allocation asks for |
//! | [`daemon`] | the control daemon's side: namespaces and their limits |
//! | [`cdi`] | the CDI spec of a claim |
//! | [`checkpoint`] | what is prepared on this node, a file a claim |
//! | [`prepare`] | prepare and unprepare, idempotent |
//! | [`api`] | calls of the Kubernetes API |
//! | [`kubelet`] | the sockets and services that the kubelet calls |
//! | [`health`] | health of devices: stream, taints |
//! | [`libraries`] | the client libraries on the host |
//! | [`metrics`] | the metrics page |
//! | [`agent`] | what the agent knows and does |
//! | [`run`] | the program: options, sockets, tasks |
//!
//! Invariants: a claim's checkpoint is written before anything is made for it, and goes last. A share's server
//! does not depend on this process: it may be killed and started at any time.
#![forbid(unsafe_code)]

pub mod agent;
pub mod api;
pub mod cdi;
pub mod checkpoint;
pub mod daemon;
pub mod driver;
pub mod gpu;
pub mod health;
pub mod joined;
pub mod kubelet;
pub mod libraries;
pub mod metrics;
pub mod parameters;
pub mod prepare;
pub mod proto;
pub mod quantity;
pub mod run;
pub mod share;
