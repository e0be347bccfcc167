//! The options that all samples have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Options common to all samples. `None` where a sample has a default of its own.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Timed iterations; with --seconds, at most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Go on until this much time has passed, at least one iteration
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Go on until FILE exists, at least one iteration
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    pub until: Option<PathBuf>,
    /// Iterations before the clock starts
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warm_up: u64,
    /// Blocks of each launch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub blocks: Option<u32>,
    /// Problem size; what it counts depends on the sample
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub size: Option<u32>,
    /// Work for each element of the problem; what it counts depends on the sample
    #[arg(long, value_name = "N")]
    pub work: Option<u64>,
    /// Seed of the input data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Compare with the CPU after every iteration, not only after the last
    #[arg(long)]
    pub verify_each: bool,
    /// Report the N slowest turns, from one iteration's end to the next's with what was compared
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slowest: usize,
    /// The stream to work in
    #[arg(long, value_enum, default_value_t = StreamKind::Legacy)]
    pub stream: StreamKind,
    /// Which device
    #[arg(long, value_name = "ORDINAL", default_value_t = 0)]
    pub device: usize,
    /// Report as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Start the clock at this time (milliseconds since 1970)
    #[arg(long, value_name = "UNIX_MS", conflicts_with = "barrier")]
    pub start_at: Option<u64>,
    /// When ready, make FILE.ready.PID, and start the clock once FILE exists
    #[arg(long, value_name = "FILE")]
    pub barrier: Option<PathBuf>,
}

/// The streams that a program can work in without knowing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamKind {
    /// The default stream, which all blocking streams of the process synchronise with
    Legacy,
    /// The thread's own default stream
    PerThread,
    /// A stream made for the purpose, non-blocking
    Own,
}

/// For samples that have no options of their own.
#[derive(Args, Clone, Debug)]
pub struct NoExtra {}
