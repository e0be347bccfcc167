//! Replay of what components do with the daemon: a file for each kind of component.

mod clients;
mod clouds;
mod device_plugin;
mod dra;
mod fractions;
mod hpc;
mod launchers;
mod smi;
