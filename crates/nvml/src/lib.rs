//! `libnvidia-ml.so.1`: NVML, which monitoring tools and frameworks ask about the device before they
//! use it.
//!
//! On NVIDIA's driver every call goes to NVIDIA's own library. On the software GPU the questions
//! that have a true answer are answered; all others are NVML_ERROR_NOT_SUPPORTED, which tools show
//! as "N/A". Asking initialises no device, so it does not take fork() from a
//! program.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`entry`] | the exported symbols and where they lead |
//! | [`mode`] | which of the two it is |
//! | [`api`] | the functions on the software GPU |
//! | [`device`] | what they know: the device, its processes, how busy it is |
//! | [`status`], [`out`] | NVML's return codes; writing to where a caller said |

mod api;
mod device;
mod entry;
mod mode;
mod names_generated;
mod out;
mod status;
