//! Stress: the series of rounds that SPECIFICATION names, many beside each other, each part with a
//! daemon of its own. `cargo xtask stress --help`.

mod ledger;
mod runner;
mod series;

use clap::Parser;
use ledger::{Ledger, Outcome};
use series::{ALL, Unit};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Runs series of kills, terminations, ordinary ends, restarts, benchmarks, faults and the soak's mix
/// beside each other, and prints a table of what was done and found.
///
/// Each series is cut into parts; a part is a process with its own daemon on its share of the cores.
/// What has been done is kept in a file, so that a run that was too short is gone on with by the same
/// command. Ends with status 1 if a part has found anything, 2 if all is right so far and not all is
/// done.
///
/// The installation is $OPENMPS_DIST, else the one whose tests/ this program lies in (`cargo xtask dist
/// --release --tests --prefix DIR` lays that out: neither cargo nor the sources are needed then), else
/// one that cargo builds.
#[derive(Parser)]
#[command(name = "stress")]
struct Arguments {
    /// Parts at a time [default: the cores that may be used]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Ends after so many minutes: no part begins later, and one that runs half a minute longer is
    /// ended and does not count
    #[arg(long)]
    minutes: Option<f64>,
    /// How much of each series is wanted
    #[arg(long, default_value_t = 100.0)]
    percent: f64,
    /// Only series in whose names this occurs; may be given again
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The file of what has been done; what failed parts said is put beside it
    #[arg(long, value_name = "FILE", default_value = "stress.jsonl")]
    ledger: PathBuf,
    /// What to draw from [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Say what the series are, and end
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for series in ALL {
            let unit = if series.unit == Unit::Minutes { "minutes" } else { "rounds" };
            let how = series.arguments.join(" ");
            println!("{:<22} {:>6} {unit:<8} {} {how}", series.name, series.wanted, series.runner);
        }
        return ExitCode::SUCCESS;
    }
    match stress(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("stress: {error}");
            ExitCode::FAILURE
        }
    }
}

fn stress(arguments: &Arguments) -> std::io::Result<ExitCode> {
    let from_clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let seed = arguments.seed.unwrap_or_else(|| 1000 * from_clock());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = arguments.jobs.map_or(cores, usize::from);
    let end = arguments.minutes.map(|m| Instant::now() + Duration::from_secs_f64(60.0 * m));
    let share = arguments.percent / 100.0;
    let ledger = Ledger::open(&arguments.ledger, share, &arguments.only, seed)?;
    let ledger = Mutex::new(ledger);
    let output = arguments.ledger.with_extension("parts");
    std::fs::create_dir_all(&output)?;
    tests::dist();
    runner::adopt_orphans();
    println!("stress: {jobs} parts at a time on {cores} cores, seeds from {seed}");
    let cut_short = Mutex::new(0);
    std::thread::scope(|scope| {
        let work = |index| {
            runner::keep_to_share(index, jobs);
            loop {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(());
                }
                let minutes = left.map_or(f64::INFINITY, |left| left.as_secs_f64() / 60.0);
                let locked = || ledger.lock().expect("no holder panics");
                let Some(part) = locked().next(minutes) else { return Ok(()) };
                let begun = Instant::now();
                let outcome = runner::run(&part, end, &output);
                locked().record(&part, &outcome, begun.elapsed().as_secs_f64())?;
                match outcome {
                    Outcome::Well(_) => {}
                    Outcome::Finding(words) => println!("stress: {}: {words}", part.series.name),
                    Outcome::CutShort => *cut_short.lock().expect("no holder panics") += 1,
                }
            }
        };
        let workers: Vec<_> = (0..jobs).map(|index| scope.spawn(move || work(index))).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            runner::wait_for_ended_orphans();
            std::thread::sleep(Duration::from_millis(100));
        }
        let ends = workers.into_iter().map(|worker| worker.join().expect("a worker ends"));
        ends.collect::<std::io::Result<Vec<()>>>()
    })?;
    let ledger = ledger.into_inner().expect("no holder panics");
    let cut_short = cut_short.into_inner().expect("no holder panics");
    let orphans = runner::end_orphans();
    print!("{}", ledger.table());
    // What was ended in mid-work may have had daemons.
    let left_behind = cut_short == 0 && !orphans.is_empty();
    if left_behind {
        println!("stress: processes were left behind: {}", orphans.join("; "));
    }
    if cut_short > 0 {
        println!("stress: {cut_short} parts were ended when the time was up, and do not count");
    }
    // Empty unless a part has found something.
    let _ = std::fs::remove_dir(&output);
    Ok(match (ledger.has_findings() || left_behind, ledger.is_whole()) {
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(2),
        (false, true) => ExitCode::SUCCESS,
    })
}
