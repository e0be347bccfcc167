//! Clusters: what Kubernetes components, cloud agents, batch systems and container runtimes do with the daemon, step
//! by step, with their commands, files and environments.
//!
//! `replay` has a file for each kind of component; `cdi`, `driver_root` and `podman` are about containers.

mod cdi;
mod driver_root;
mod events;
mod node;
mod podman;
mod replay;
