//! `openmps-k8s`: the node agent, and what helps to set it up.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use openmps_k8s::daemon::ShareDaemon;
use openmps_k8s::driver::{DRIVER_NAME, Driver};
use openmps_k8s::gpu;
use openmps_k8s::libraries;
use openmps_k8s::parameters::Parameters;
use openmps_k8s::run;
use serde_json::Value;
use std::path::PathBuf;

/// Shares of a GPU for Kubernetes: a driver of Dynamic Resource Allocation (DRA)
///
/// A pod that asks for 44 SMs and 40 GiB of a GPU gets a namespace of the openmps server with these limits, and no
/// device node. The control daemon runs with `-p 3 -m`.
#[derive(Parser)]
#[command(name = "openmps-k8s", version, max_term_width = 100)]
#[command(after_help = "Examples:
  openmps-k8s agent --node node1                 Serve this node's kubelet
  openmps-k8s slice --node node1                 Print the ResourceSlice that the agent would publish
  openmps-k8s check share.json                   Say what is wrong with opaque parameters")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the kubelet of a node, in a pod of a DaemonSet or beside it
    Agent(Box<run::Options>),
    /// Print the ResourceSlice of a node whose control daemon runs here, as JSON
    Slice {
        /// The node's name
        #[arg(long, value_name = "NAME")]
        node: String,
        /// The control daemon's directory
        #[arg(long, value_name = "DIR", default_value = "/run/openmps")]
        pipe_directory: PathBuf,
        /// The DRA driver's name
        #[arg(long, value_name = "NAME", default_value = DRIVER_NAME)]
        driver_name: String,
    },
    /// Check a ShareConfig, the parameters of a class or a claim, as JSON
    Check {
        /// The file; - for standard input
        file: PathBuf,
        /// The DRA driver's name
        #[arg(long, value_name = "NAME", default_value = DRIVER_NAME)]
        driver_name: String,
    },
    /// Put the client libraries where containers get them from; files that are there already stay
    Libraries {
        /// The directory of an installation, lib/openmps
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// The directory on the host
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
}

fn driver(name: &str) -> Result<Driver> {
    Driver::new(name).map_err(anyhow::Error::msg)
}

fn main() -> Result<()> {
    match CommandLine::parse().command {
        Command::Agent(options) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            let result = runtime.block_on(run::run(*options));
            // A call to the daemon that does not return is no reason to stay.
            runtime.shutdown_background();
            result
        }
        Command::Slice { node, pipe_directory, driver_name } => {
            let driver = driver(&driver_name)?;
            let report = ShareDaemon::new(&pipe_directory, "shared").report()?;
            let gpus = gpu::of_report(&report);
            let devices: Vec<Value> = gpus.iter().map(|gpu| gpu.device(&driver, None)).collect();
            let slice = gpu::slice(&driver, (&node, ""), 1, &devices);
            let slice = slice.context("the control daemon reports no GPU: see `openmps doctor`")?;
            println!("{}", serde_json::to_string_pretty(&slice)?);
            Ok(())
        }
        Command::Check { file, driver_name } => {
            let text = match file.as_os_str() == "-" {
                true => std::io::read_to_string(std::io::stdin())?,
                false => std::fs::read_to_string(&file)
                    .with_context(|| format!("reading {}", file.display()))?,
            };
            let value: Value = serde_json::from_str(&text).context("it is no JSON")?;
            let read = Parameters::parse(&driver(&driver_name)?, &value)?;
            println!("{}", serde_json::to_string(&read)?);
            Ok(())
        }
        Command::Libraries { from, to } => {
            let files = libraries::place(&from, &to)
                .with_context(|| format!("from {} to {}", from.display(), to.display()))?;
            println!("{files} files are new in {}", to.display());
            Ok(())
        }
    }
}
