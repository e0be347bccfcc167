//! Modules of a client: checking images, preparing and loading them, and their functions and variables.

pub(super) mod code;
pub(super) mod image;
pub(super) mod loading;
pub(super) mod table;
