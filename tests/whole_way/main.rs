//! The whole way: unmodified programs, client library, daemon, server, software GPU.

mod ahead;
mod answers;
mod checks;
mod containers;
mod counters;
mod coverage;
mod device_servers;
mod devices;
mod documents;
mod ends;
mod faults;
mod host_memory;
mod installation;
mod isolation;
mod kernels;
mod limits;
mod memory;
mod memory_accounting;
mod recovery;
mod results;
mod scale;
mod scheduling;
mod shares;
mod traces;
mod users;
mod waits;
