//! Sockets between two ends in one process.
