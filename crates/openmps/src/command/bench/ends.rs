//! `openmps bench ends`: how soon what an endless kernel's client has is gone.

use crate::daemon;
use crate::group::{PrivateDaemon, Stage, check_interrupted};
use crate::output;
use crate::progress::Progress;
use anyhow::{Context, Result, bail, ensure};
use clap::builder::RangedU64ValueParser;
use control::directory::PipeDirectory;
use control::shell::Shell;
use serde::Serialize;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitCode};
use std::time::{Duration, Instant};

/// Measure how soon a client with an endless kernel is gone
///
/// A program whose kernel never ends is started through a daemon of this command's own, and ended:
/// by terminate_client, and by SIGKILL. Its kernel has ended when the command has its answer, or
/// when the daemon no longer lists the client.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps bench ends
  openmps bench ends --times 100 --json")]
pub(crate) struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// How often each kind of end is tried
    #[arg(long, value_name = "N", default_value_t = 30)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=TIMES_MAX))]
    times: usize,
}

/// Most tries of one run: each starts a program.
const TIMES_MAX: u64 = 10_000;
/// How long the kernel runs before it is ended.
const BEFORE: Duration = Duration::from_millis(20);
/// How long a client may take to be gone before the measurement gives up.
const GONE_MAX: Duration = Duration::from_secs(30);
/// From one look at the daemon's clients to the next.
const LOOK: Duration = Duration::from_micros(100);

#[derive(Serialize)]
struct Row {
    case: &'static str,
    times: usize,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

#[derive(Serialize)]
struct Output {
    rows: Vec<Row>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stage = Stage::new()?;
    let daemon = stage.daemon()?;
    let progress = Progress::new(2 * arguments.times as u64);
    let (mut answered, mut told, mut killed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.times {
        progress.say("terminate_client".to_owned());
        let (answer, program) = terminate(&stage, &daemon)?;
        answered.push(answer);
        told.push(program);
        progress.step();
    }
    for _ in 0..arguments.times {
        progress.say("SIGKILL".to_owned());
        killed.push(kill(&stage, &daemon)?);
        progress.step();
    }
    progress.finish();
    let rows = vec![
        row("terminate_client, to its answer", answered),
        row("terminate_client, to the program's error", told),
        row("SIGKILL, to the client's end", killed),
    ];
    if arguments.json {
        output::print_json(&Output { rows })?;
    } else {
        output::print(&table(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A program whose kernel runs.
struct Endless {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Endless {
    fn start(stage: &Stage, daemon: &PrivateDaemon) -> Result<Self> {
        check_interrupted()?;
        let mut child = stage.client(daemon, &stage.libraries().sample("endless"))?;
        let said = BufReader::new(child.stdout.take().context("a program has an output")?);
        let mut endless = Self { child, said };
        let line = endless.line()?;
        ensure!(line.contains("running"), "the program said {line:?}");
        std::thread::sleep(BEFORE);
        Ok(endless)
    }

    /// What it says next.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long until terminate_client answered, and until the program knew.
fn terminate(stage: &Stage, daemon: &PrivateDaemon) -> Result<(Duration, Duration)> {
    let mut endless = Endless::start(stage, daemon)?;
    let report = daemon::ask(daemon.pipe_directory())?.context("the daemon has ended")?;
    let server = report.servers.first().context("the client has a server")?.pid;
    let shell = Shell::new(PipeDirectory::new(daemon.pipe_directory()));
    let begin = Instant::now();
    let (text, status) = shell.ask(&format!("terminate_client {server} {}", endless.child.id()))?;
    let answer = begin.elapsed();
    ensure!(status == 0, "terminate_client: {}", text.trim());
    let line = endless.line()?;
    ensure!(line.contains("ended"), "the program said {line:?}");
    Ok((answer, begin.elapsed()))
}

/// How long until nothing is left of a client that was killed.
fn kill(stage: &Stage, daemon: &PrivateDaemon) -> Result<Duration> {
    let mut endless = Endless::start(stage, daemon)?;
    let pid = endless.child.id();
    let begin = Instant::now();
    endless.child.kill()?;
    loop {
        let report = daemon::ask(daemon.pipe_directory())?.context("the daemon has ended")?;
        let mut clients = report.servers.iter().flat_map(|server| &server.clients);
        if !clients.any(|client| client.pid == Some(pid)) {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > GONE_MAX {
            bail!("client {pid} was killed and is not gone");
        }
        std::thread::sleep(LOOK);
    }
}

fn row(case: &'static str, mut all: Vec<Duration>) -> Row {
    all.sort_unstable();
    let us = |share: f64| {
        let at = (all.len().saturating_sub(1) as f64 * share).round() as usize;
        all.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    Row { case, times: all.len(), p50_us: us(0.5), p99_us: us(0.99), max_us: us(1.0) }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<42} {:>9} {:>9} {:>9}\n", "us", "p50", "p99", "max");
    for row in rows {
        let Row { case, p50_us, p99_us, max_us, .. } = row;
        let _ = writeln!(text, "{case:<42} {p50_us:>9.0} {p99_us:>9.0} {max_us:>9.0}");
    }
    text
}
