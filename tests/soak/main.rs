//! The soak: an installation used hard for as long as wanted, with everything that programs, their
//! users and operators do to each other. `cargo xtask soak --help`.
//!
//! Every draw comes from the seed, so a seed repeats the same steps; what their processes do beside
//! each other is up to the machine. A failure says seed and step, and keeps the daemon's logs.

mod census;
mod draw;
mod mix;
mod plan;
mod program;
mod rounds;
mod stage;

use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Uses the product hard and looks that nothing breaks and nothing stays behind.
///
/// Without --of, a mix: programs of all samples start, run, are killed, terminated, stopped and
/// continued, exit, fault, fork, fill their queues, ask until they are refused; the daemon and its
/// servers end now and then in every way. Neighbours verify every result throughout. At each rest
/// descriptors, threads and memory of daemon and server must be back where they were.
///
/// With --of, rounds of one kind, each beside a verifying neighbour.
///
/// The installation is $OPENMPS_DIST, else the one whose tests/ this program lies in, else one that cargo
/// builds.
#[derive(Parser)]
#[command(name = "cargo xtask soak")]
pub struct Arguments {
    /// Minutes of the mix [default: 3]; with --of, at most so many, and fewer rounds then
    #[arg(long)]
    minutes: Option<f64>,
    /// What to draw from, to repeat a run [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Rounds of one kind instead of the mix
    #[arg(long, value_enum, requires = "rounds")]
    of: Option<rounds::Kind>,
    /// How many rounds
    #[arg(long, requires = "of")]
    rounds: Option<u32>,
    /// The program of the rounds and its arguments
    #[arg(long, default_value = "n_body --seconds 60")]
    program: String,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// What is in progress, for the line that says what failed.
pub struct Progress {
    seed: u64,
    begun: Instant,
    end: Option<Instant>,
    /// When the progress line came last; not at all for scripts.
    said: Option<Instant>,
    quiet: bool,
    /// Steps, or rounds.
    pub step: u64,
    /// What the step is.
    pub doing: String,
}

/// How often the progress line comes.
const SAY_PERIOD: Duration = Duration::from_secs(10);

impl Progress {
    /// Another step.
    pub fn next(&mut self, doing: String) {
        self.step += 1;
        self.doing = doing;
    }

    /// True once the time is up, if there is a limit.
    pub fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The progress line, if it is time for one.
    pub fn say(&mut self, state: impl FnOnce() -> String) {
        if !self.quiet && self.said.is_none_or(|said| said.elapsed() >= SAY_PERIOD) {
            self.said = Some(Instant::now());
            let seconds = self.begun.elapsed().as_secs();
            println!("soak: {seconds:>5} s, step {:>6}: {}", self.step, state());
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let from_clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let seed = arguments.seed.unwrap_or_else(from_clock);
    let quiet = arguments.json;
    if !quiet {
        println!("soak: seed {seed}");
    }
    let begun = Instant::now();
    let minutes = match arguments.of {
        None => Some(arguments.minutes.unwrap_or(3.0)),
        Some(_) => arguments.minutes,
    };
    let end = minutes.map(|minutes| begun + Duration::from_secs_f64(60.0 * minutes));
    let doing = String::new();
    let mut progress = Progress { seed, begun, end, said: None, quiet, step: 0, doing };
    let run = AssertUnwindSafe(|| match (arguments.of, arguments.rounds) {
        (Some(kind), Some(rounds)) => rounds::run(kind, rounds, &arguments.program, &mut progress),
        _ => mix::run(&mut progress),
    });
    let outcome = catch_unwind(run);
    let Progress { step, doing, .. } = progress;
    let seconds = begun.elapsed().as_secs();
    match outcome {
        Ok(summary) if quiet => {
            let rounds = arguments.of.map(|_| step);
            let report = serde_json::json!({
                "seed": seed, "steps": step, "rounds": rounds, "seconds": seconds,
                "summary": summary,
            });
            println!("{report}");
            ExitCode::SUCCESS
        }
        Ok(summary) => {
            println!("soak: seed {seed}: {step} steps in {seconds} s: {summary}");
            ExitCode::SUCCESS
        }
        Err(_) => {
            eprintln!("soak: FAILED at step {step} of seed {seed}: {doing}");
            ExitCode::FAILURE
        }
    }
}
