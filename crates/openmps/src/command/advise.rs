//! `openmps advise`: what sharing would gain, for a program or for the clients that run.

use super::top::source;
use crate::daemon;
use crate::libraries::Libraries;
use crate::output;
use anyhow::{Context, Result, bail};
use cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY;
use observe::advise::{
    Advice, Machine, Measured, Observed, analyse, describe, of_clients, predict,
};
use observe::rates::{Rates, Reading};
use observe::source::{Daemon, Source};
use std::ffi::OsString;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// From one look at the program to the next.
const LOOK: Duration = Duration::from_millis(50);

/// Say what sharing the device would gain, and why
///
/// Runs a program alone and looks at what it leaves of the device; then runs 2, 4 and 8 copies of it
/// at once and says what they gain together. The program should do the same work each time and end by
/// itself. Without a program, the clients that run are looked at for a second, and what is said of
/// copies is predicted.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps advise -- ./train --steps 100
  openmps advise --copies 2,4 -- python3 infer.py
  openmps advise                              the clients that run
  openmps advise --json -- ./simulation | jq '.measured'")]
pub(crate) struct Arguments {
    /// How many copies to measure; 1: none, only predict
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2u32, 4, 8])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    copies: Vec<u32>,
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
        let (_, mut source) = source()?;
        let all = of_clients(&mut source, Duration::from_secs(1))?;
        if arguments.json {
            output::print_json(&all)?;
        } else if all.is_empty() {
            output::print("no program uses the daemon; `openmps advise -- PROGRAM` runs one\n")?;
        } else {
            all.iter().try_for_each(print)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let libraries = Libraries::find()?;
    let (report, _) = daemon::find_or_start(&libraries)?;
    let mut source = Daemon::new(&report.pipe_directory);
    if source.report()?.programs() > 0 {
        bail!("other programs use the daemon: what is measured beside them says little");
    }
    let start = |quiet: bool| -> Result<Child> {
        let mut command = super::run::prepared(&libraries, &arguments.command)?;
        command.env(CUDA_MPS_PIPE_DIRECTORY, &report.pipe_directory).stdin(Stdio::null());
        if quiet {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        } else {
            // Standard output is for the advice.
            command.stdout(Stdio::null());
        }
        command.spawn().with_context(|| format!("running {}", arguments.command[0].display()))
    };
    // Once without looking: code is compiled and kept.
    succeed(start(false)?)?;
    let (seconds, observed, counts, machine) = alone(&mut source, start(true)?)?;
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
        let children = (0..copies).map(|_| start(true)).collect::<Result<Vec<_>>>()?;
        children.into_iter().try_for_each(succeed)?;
        let together = begun.elapsed().as_secs_f64();
        let gain = f64::from(copies) * seconds / together;
        advice.measured.push(Measured {
            copies,
            seconds: together,
            gain,
            each: gain / f64::from(copies),
            predicted: predict(&observed, copies),
        });
    }
    advice.words = describe(&advice);
    if arguments.json {
        output::print_json(&advice)?
    } else {
        print(&advice)?
    }
    Ok(ExitCode::SUCCESS)
}

fn succeed(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    if !status.success() {
        bail!("the program failed ({status}): advice needs one that ends well");
    }
    Ok(())
}

/// What a program does alone: its time, what it had of the device in all of it, its kernels.
fn alone(
    source: &mut Daemon,
    mut child: Child,
) -> Result<(f64, Observed, Vec<control::counts::Kernel>, Machine)> {
    let begun = Instant::now();
    let mut readings: Option<(Reading, Reading)> = None;
    let mut kernels = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let report = source.report()?;
        if report.programs() > 0 {
            let now = Reading { at: Instant::now(), report };
            readings = Some(match readings.take() {
                None => (now.clone(), now),
                Some((first, _)) => (first, now),
            });
            if let Some(client) = source.counts()?.into_iter().next()
                && !client.kernels.is_empty()
            {
                kernels = client.kernels;
            }
        }
        std::thread::sleep(LOOK);
    };
    let seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        bail!("the program failed ({status}): advice needs one that ends well");
    }
    let Some((first, last)) = readings.filter(|(first, last)| last.at > first.at) else {
        bail!(
            "the program ended before it could be looked at, or used no device: give it more work, \
             for a second at least"
        );
    };
    let stretch = last.at - first.at;
    let rates = Rates::between(Some(&first), &last);
    let (Some(client), Some(device)) = (rates.clients.first(), rates.devices.first()) else {
        bail!("the program did not use the device for long enough to be looked at");
    };
    let machine = Machine::of(device.sms, device.memory_total);
    // Its start and end, without the device, are a part of its time too.
    let mut observed = Observed::of_rates(client, stretch);
    let part = stretch.as_secs_f64() / seconds.max(1e-9);
    observed.busy *= part;
    observed.sm_share *= part;
    observed.occupancy *= part;
    observed.seconds = seconds;
    Ok((seconds, observed, kernels, machine))
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
