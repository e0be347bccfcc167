//! `openmps advise`: what sharing would gain, for a program or for the clients that run.

mod ceilings;

use super::top::source;
use crate::daemon;
use crate::libraries::Libraries;
use crate::output;
use crate::processors;
use anyhow::{Context, Result, bail};
use control::accounting::{self, AccountingRecord};
use control::counts::Kernel;
use control::report::Report;
use cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY;
use observe::advise::{Advice, Machine, Measured, Observed, Watch, analyse, of_clients, predict};
use observe::rates::Rates;
use observe::reading::{ClientKey, Reading, clients};
use observe::source::{DaemonSource, ReportSource};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// From one look at the program to the next.
const LOOK: Duration = Duration::from_millis(50);
/// How long programs may take to launch kernels, and to end.
const STARTING: Duration = Duration::from_secs(180);
const ENDING: Duration = Duration::from_secs(10);
/// Copies that launch so many of the kernels of one alone do the same work.
const SAME_WORK: RangeInclusive<f64> = 0.9..=1.1;

/// Say what sharing the device would gain, and why
///
/// Runs a program alone and looks at what it leaves of the device; then runs 2, 4 and 8 copies of it
/// at once and says what they gain together. The program should do the same work each time and end by
/// itself; its whole time counts, with its start. For one that does not end, or starts slowly,
/// --seconds looks at its kernels once all copies run, and then ends them. Without a program, the
/// clients that run are looked at for a second, and what is said of copies is predicted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps advise -- ./train --steps 100
  openmps advise --copies 2,4 -- python3 infer.py
  openmps advise --seconds 5 -- ./serve       a program that does not end
  openmps advise                              the clients that run
  openmps advise --json -- ./simulation | jq '.measured'")]
pub(crate) struct Arguments {
    /// How many copies to measure; 1: none, only predict
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2u32, 4, 8])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: Vec<u32>,
    /// Look at the program for so long, from when all copies launch kernels, then end it
    #[arg(long, short, value_name = "NUMBER", requires = "command")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.command.is_empty() {
        return of_those_that_run(arguments.json);
    }
    let program = Path::new(&arguments.command[0]);
    if !super::run::is_there(program) {
        // No daemon is started for a slip of the pen.
        bail!("{}: no such program", program.display());
    }
    let mut trial = Trial::new(&arguments.command)?;
    let (alone, observed, counts, mut machine) = match arguments.seconds {
        None => trial.alone()?,
        Some(seconds) => trial.alone_for(Duration::from_secs(seconds.into()))?,
    };
    // Where the device counts instructions and bytes itself.
    if counts.iter().any(|kernel| kernel.thread_instructions > 0) {
        match ceilings::measure(&mut trial) {
            Ok(ceilings) => machine.ceilings = Some(ceilings),
            Err(error) => {
                trial.end();
                output::say(format_args!(
                    "what the device does at the most is not known: {error:#}"
                ));
            }
        }
    }
    let analysis = analyse(&observed, &counts, &machine);
    let command: Vec<String> =
        arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut advice = Advice { command: command.join(" "), analysis, ..Advice::default() };
    for copies in arguments.copies.iter().copied().filter(|copies| *copies > 1) {
        if u64::from(copies) > advice.analysis.fit {
            output::say(format_args!("{copies} copies do not fit the device's memory"));
            continue;
        }
        if !arguments.json {
            output::say(format_args!("measuring {copies} copies"));
        }
        let begun = Instant::now();
        let rate = match arguments.seconds {
            None => trial.together(copies),
            Some(seconds) => {
                let length = Duration::from_secs(seconds.into());
                trial.together_for(copies, length).map(|(rate, _)| rate)
            }
        };
        let rate = match rate {
            Ok(rate) => rate,
            // What was measured before is advice all the same.
            Err(error) => {
                trial.end();
                advice.failed = Some((copies, format!("{error:#}")));
                break;
            }
        };
        let gain = rate / alone;
        advice.measured.push(Measured {
            copies,
            seconds: begun.elapsed().as_secs_f64(),
            gain,
            each: gain / f64::from(copies),
            predicted: predict(&observed, copies),
        });
    }
    let advice = advice.with_neighbours(&trial.recorded, (machine.sms, machine.memory_bytes));
    if arguments.json {
        output::print_json(&advice)?
    } else {
        print(&advice)?
    }
    Ok(ExitCode::SUCCESS)
}

/// Advice on the clients of the daemon.
fn of_those_that_run(json: bool) -> Result<ExitCode> {
    let (report, mut source) = source()?;
    let recorded = recorded(&report);
    let devices: Vec<_> = report.servers.iter().flat_map(|server| &server.devices).collect();
    let device = devices.first().map(|device| (device.counts.sms, device.counts.memory_bytes));
    let all = of_clients(&mut source, Duration::from_secs(1))?;
    let with = |advice: Advice| advice.with_neighbours(&recorded, device.unwrap_or_default());
    let all: Vec<Advice> = all.into_iter().map(with).collect();
    if json {
        output::print_json(&all)?;
    } else if all.is_empty() {
        output::print("no program uses the daemon; `openmps advise -- PROGRAM` runs one\n")?;
    } else {
        all.iter().try_for_each(print)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What programs have used so far; nothing where that cannot be read.
fn recorded(report: &Report) -> Vec<AccountingRecord> {
    let read = report.log_directory.as_deref().map(accounting::read);
    read.and_then(Result::ok).unwrap_or_default()
}

/// What one alone does: how much a second, and what it had of the device meanwhile.
type Alone = (f64, Observed, Vec<Kernel>, Machine);

/// Runs a program, alone and with copies of itself, and looks at it. What still runs when it is
/// dropped is ended.
struct Trial<'a> {
    libraries: Libraries,
    pipe_directory: PathBuf,
    source: DaemonSource,
    words: &'a [OsString],
    running: Vec<Child>,
    /// What programs have used before.
    recorded: Vec<AccountingRecord>,
    /// Kernels of a run of the program alone.
    kernels_alone: u64,
    /// Processor time between the first and the last look.
    processor_time: ProcessorTime,
}

/// Processor time up to some time, or between two times.
#[derive(Clone, Copy, Default)]
struct ProcessorTime {
    /// Of the programs and their servers.
    own: Duration,
    /// Of all that the machine does.
    all: Duration,
}

impl ProcessorTime {
    fn since(self, before: Self) -> Self {
        let (own, all) = (self.own.saturating_sub(before.own), self.all.saturating_sub(before.all));
        Self { own, all }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Trial<'a> {
    fn new(words: &'a [OsString]) -> Result<Self> {
        let libraries = Libraries::find()?;
        let (report, started) = daemon::find_or_start(&libraries)?;
        if started {
            daemon::say_started(&report);
        }
        let recorded = recorded(&report);
        let pipe_directory = report.pipe_directory;
        let mut source = DaemonSource::new(&pipe_directory);
        if source.report()?.programs() > 0 {
            bail!(
                "other programs use the daemon, and what is measured beside them says little: wait for \
                 them, or set CUDA_MPS_PIPE_DIRECTORY to a directory of its own"
            );
        }
        let (running, kernels_alone) = (Vec::new(), 0);
        let processor_time = ProcessorTime::default();
        Ok(Self {
            libraries,
            pipe_directory,
            source,
            words,
            running,
            recorded,
            kernels_alone,
            processor_time,
        })
    }

    /// Processor time so far.
    fn processors_now(&self, reading: &Reading) -> ProcessorTime {
        let servers = reading.report.servers.iter().map(|server| server.pid);
        let own = self.running.iter().map(Child::id).chain(servers).map(processors::time_of).sum();
        ProcessorTime { own, all: processors::time_of_all() }
    }

    /// What was seen, with the processors that were used meanwhile.
    fn observed(&self, watch: &Watch) -> Result<(Observed, Machine)> {
        let Some((mut observed, machine)) = watch.observed() else {
            bail!(
                "the program ended before it could be looked at, or used no device: give it more work, \
                 for a second at least"
            );
        };
        let ProcessorTime { own, all } = self.processor_time;
        let length = Duration::from_secs_f64(observed.seconds);
        let part = |had| processors::part_of_machine(had, length);
        observed.processors = part(own);
        observed.others = part(all.saturating_sub(own));
        Ok((observed, machine))
    }

    /// Starts a copy; what it prints is of no interest, but for the errors of the first one.
    fn start(&mut self, quiet: bool) -> Result<()> {
        self.start_other(self.words, quiet)
    }

    /// Starts a program.
    fn start_other(&mut self, words: &[OsString], quiet: bool) -> Result<()> {
        let mut command = super::run::prepared(&self.libraries, words)?;
        command.env(CUDA_MPS_PIPE_DIRECTORY, &self.pipe_directory).stdin(Stdio::null());
        command.stdout(Stdio::null());
        if quiet {
            command.stderr(Stdio::null());
        }
        let child = command.spawn();
        let child = child.with_context(|| format!("running {}", words[0].display()))?;
        self.running.push(child);
        Ok(())
    }

    /// True if one still runs. Those that have ended, and well, are forgotten.
    fn one_runs(&mut self) -> Result<bool> {
        let mut ended = Vec::new();
        self.running.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            status => {
                ended.push(status);
                false
            }
        });
        for status in ended {
            status?.map_or(Ok(()), ended_well)?;
        }
        Ok(!self.running.is_empty())
    }

    /// Ends all, and waits until the daemon has seen it.
    fn end(&mut self) {
        for child in &mut self.running {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                // It may have ended already.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        let end = Instant::now() + ENDING;
        for mut child in self.running.drain(..) {
            while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(LOOK / 5);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The next run begins when nothing of the last one is left.
    fn until_empty(&mut self) -> Result<()> {
        let end = Instant::now() + ENDING;
        while self.source.report()?.programs() > 0 {
            if Instant::now() > end {
                bail!("programs of the last run are still at the daemon: `openmps ps` shows them");
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// One from its start to its end, which is what it does in a run.
    fn alone(&mut self) -> Result<Alone> {
        // Once without looking: code is compiled and kept.
        self.start(false)?;
        while self.one_runs()? {
            std::thread::sleep(LOOK);
        }
        self.until_empty()?;
        let begun = Instant::now();
        self.start(true)?;
        let mut watch: Option<Watch> = None;
        let mut processors_before = ProcessorTime::default();
        while self.one_runs()? {
            let now = Reading { at: Instant::now(), report: self.source.report()? };
            if now.report.programs() > 0 {
                let processors = self.processors_now(&now);
                match &mut watch {
                    Some(watch) => watch.look(&now),
                    None => {
                        processors_before = processors;
                        watch = Some(Watch::begin(&now));
                    }
                }
                self.processor_time = processors.since(processors_before);
                let counts = self.source.counts()?;
                watch.iter_mut().for_each(|watch| watch.counted(counts.clone()));
            }
            std::thread::sleep(LOOK);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let Some(watch) = watch else {
            bail!("the program used no device, or for less than {} ms", LOOK.as_millis());
        };
        self.kernels_alone = watch.launches();
        let (mut observed, machine) = self.observed(&watch)?;
        // Its start and end, without the device, are a part of its time too.
        let part = observed.seconds / seconds.max(1e-9);
        observed.busy *= part;
        observed.sm_share *= part;
        observed.occupancy *= part;
        observed.submitting *= part;
        observed.seconds = seconds;
        Ok((1.0 / seconds, observed, watch.kernels(), machine))
    }

    /// So many from the first one's start to the last one's end: runs a second, of the work that one does
    /// alone.
    fn together(&mut self, copies: u32) -> Result<f64> {
        self.until_empty()?;
        let begun = Instant::now();
        (0..copies).try_for_each(|_| self.start(true))?;
        let mut kernels: BTreeMap<ClientKey, u64> = BTreeMap::new();
        while self.one_runs()? {
            let report = self.source.report()?;
            kernels.extend(clients(&report).map(|(key, client)| (key, client.kernels)));
            std::thread::sleep(LOOK);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let each = kernels.values().sum::<u64>() as f64 / f64::from(copies);
        let of_alone = each / self.kernels_alone.max(1) as f64;
        // The last kernels before an end are not always seen.
        if SAME_WORK.contains(&of_alone) {
            return Ok(f64::from(copies) / seconds);
        }
        output::say(format_args!(
            "a copy launched {of_alone:.2} times the kernels of the program alone: it does not do the \
             same work each time, so kernels are compared and not runs"
        ));
        Ok(f64::from(copies) * of_alone / seconds)
    }

    /// One that is looked at for so long once it launches kernels: kernels a second.
    fn alone_for(&mut self, length: Duration) -> Result<Alone> {
        let (rate, watch) = self.together_for(1, length)?;
        let (observed, machine) = self.observed(&watch)?;
        Ok((rate, observed, watch.kernels(), machine))
    }

    /// So many that are looked at once all of them launch kernels: kernels a second, and what was seen.
    fn together_for(&mut self, copies: u32, length: Duration) -> Result<(f64, Watch)> {
        self.until_empty()?;
        for number in 0..copies {
            self.start(copies > 1 || number > 0)?;
        }
        let end = Instant::now() + STARTING;
        let mut before: BTreeMap<ClientKey, u64> = BTreeMap::new();
        // From when each has launched something and launches more: a start has kernels of its own.
        loop {
            let report = self.source.report()?;
            let now: BTreeMap<ClientKey, u64> =
                clients(&report).map(|(key, client)| (key, client.kernels)).collect();
            let goes_on = |(key, kernels): (&ClientKey, &u64)| {
                before.get(key).is_some_and(|earlier| *earlier > 0 && kernels > earlier)
            };
            if now.iter().filter(|row| goes_on(*row)).count() >= copies as usize {
                break;
            }
            before = now;
            self.all_run()?;
            if Instant::now() > end {
                bail!("after {} s not all copies launch kernels", STARTING.as_secs());
            }
            std::thread::sleep(4 * LOOK);
        }
        std::thread::sleep(length / 4);
        let first = Reading { at: Instant::now(), report: self.source.report()? };
        let processors_before = self.processors_now(&first);
        std::thread::sleep(length);
        let last = Reading { at: Instant::now(), report: self.source.report()? };
        self.processor_time = self.processors_now(&last).since(processors_before);
        let mut watch = Watch::begin(&first);
        watch.look(&last);
        watch.counted(self.source.counts()?);
        self.all_run()?;
        self.end();
        let rates = Rates::between(&first, &last);
        let rate = rates.clients.iter().map(|client| client.kernels_per_s).sum::<f64>();
        if rate <= 0.0 {
            bail!("no kernel was launched in {} s: look for longer", length.as_secs());
        }
        Ok((rate, watch))
    }

    fn all_run(&mut self) -> Result<()> {
        for child in &mut self.running {
            if let Some(status) = child.try_wait()? {
                ended_well(status)?;
                bail!("the program ended while it was looked at: leave out --seconds");
            }
        }
        Ok(())
    }
}

fn ended_well(status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("the program failed ({status}): advice needs one that ends well");
    }
    Ok(())
}

fn print(advice: &Advice) -> Result<()> {
    let mut text = String::new();
    match advice.pid {
        Some(pid) => text += &format!("{} (PID {pid})\n", advice.command),
        None => text += &format!("{}\n", advice.command),
    }
    for words in &advice.words {
        text += &format!("  {words}\n");
    }
    if !advice.measured.is_empty() {
        text += "  COPIES  SECONDS   GAIN   EACH  PREDICTED\n";
    }
    for m in &advice.measured {
        text += &format!(
            "  {:>6}  {:>7.2}  {:>4.2}x  {:>3.0} %  {:>8.2}x\n",
            m.copies,
            m.seconds,
            m.gain,
            100.0 * m.each,
            m.predicted
        );
    }
    output::print(&text)
}
