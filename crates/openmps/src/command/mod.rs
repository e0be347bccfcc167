//! The commands of `openmps`, a module each.

pub(crate) mod accounting;
pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod cdi;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod coverage;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod driver_root;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod ptx;
pub(crate) mod run;
pub(crate) mod set;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod upgrade;
pub(crate) mod web;
