//! `openmps cdi`: specs of the container device interface, by which containers get a share of a GPU.

use crate::libraries::Libraries;
use crate::{daemon, output};
use anyhow::{Context, Result, bail};
use cdi::{Share, Stored};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make, list and remove device specs of containers (CDI), which give them a share of a GPU
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a spec: a container with its device gets the directory of a namespace and the libraries
    ///
    /// The container needs no device node, no host IPC, no host PIDs and no privileges. It sees the directory
    /// of its own namespace, so that namespace's limits apply to it, and it reaches no other one.
    #[command(after_help = "Examples:
  nvidia-cuda-mps-control namespace create batch --server=training
  openmps cdi generate --share training/batch --output /var/run/cdi
  podman run --device openmps.example/share=training-batch IMAGE PROGRAM
  openmps cdi generate --share a/one --share a/two --kind example.com/gpu     to standard output")]
    Generate(Generate),
    /// List the specs of shares that container runtimes find
    #[command(after_help = "Examples:
  openmps cdi list
  openmps cdi list --directory /etc/cdi --json")]
    List {
        /// Look there; may be given several times [default: /etc/cdi and /var/run/cdi]
        #[arg(long, value_name = "DIR")]
        directory: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove devices from the specs, and files that have no other
    #[command(after_help = "Examples:
  openmps cdi remove openmps.example/share=training-batch")]
    Remove {
        /// The devices, KIND=NAME; NAME alone is of the kind openmps.example/share
        #[arg(required = true, value_name = "DEVICE")]
        devices: Vec<String>,
        /// Look there; may be given several times [default: /etc/cdi and /var/run/cdi]
        #[arg(long, value_name = "DIR")]
        directory: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Generate {
    /// The namespace, SERVER/NAMESPACE, or SERVER for its default one; may be given several times. Without it
    /// the device is the daemon's own directory, by which root in a container may give it commands
    #[arg(long, value_name = "SERVER/NAMESPACE")]
    share: Vec<String>,
    /// Vendor and class of the devices
    #[arg(long, value_name = "VENDOR/CLASS", default_value = cdi::KIND)]
    kind: String,
    /// The device's name; of one share only [default: SERVER-NAMESPACE]
    #[arg(long)]
    name: Option<String>,
    /// The daemon's directory on the host [default: this user's daemon's]
    #[arg(long, value_name = "DIR")]
    pipe_directory: Option<PathBuf>,
    /// Where the container has the namespace's directory
    #[arg(long, value_name = "DIR", default_value = cdi::PIPE_IN_CONTAINER)]
    container_directory: PathBuf,
    /// The directory with openmps's libcuda.so.1 on the host [default: beside this program]
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// A variable for the container; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Write there: a file, or a directory in which the file is named after kind and device; - for standard
    /// output
    #[arg(short, long, value_name = "PATH", default_value = "-")]
    output: PathBuf,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Generate(arguments) => generate(arguments),
        What::List { directory, json } => list(directory, *json),
        What::Remove { devices, directory, json } => remove(devices, directory, *json),
    }
}

fn generate(arguments: &Generate) -> Result<ExitCode> {
    if arguments.name.is_some() && arguments.share.len() > 1 {
        bail!("--name is for one share: several are named after their namespaces");
    }
    let root = match &arguments.pipe_directory {
        Some(directory) => std::path::absolute(directory)?,
        None => daemon::pipe_directory(),
    };
    let libraries = match &arguments.libraries {
        Some(directory) => std::path::absolute(directory)?,
        None => Libraries::find()?.directory().to_path_buf(),
    };
    for name in cdi::LIBRARIES {
        if !libraries.join(name).is_file() {
            bail!("{name} is not in {}: --libraries says where it is", libraries.display());
        }
    }
    let mut environment = Vec::new();
    for word in &arguments.env {
        let Some((name, value)) = word.split_once('=') else {
            bail!("--env wants NAME=VALUE, not {word:?}");
        };
        environment.push((name.to_owned(), value.to_owned()));
    }
    let places = match arguments.share.is_empty() {
        true => vec![("default".to_owned(), root)],
        false => {
            let places = arguments.share.iter().map(|word| namespace(&root, word));
            places.collect::<Result<_>>()?
        }
    };
    let share = |(name, pipe_on_host): (String, PathBuf)| Share {
        kind: arguments.kind.clone(),
        device: arguments.name.clone().unwrap_or(name),
        pipe_on_host,
        pipe_in_container: arguments.container_directory.clone(),
        libraries: libraries.clone(),
        environment: environment.clone(),
    };
    let spec = cdi::spec(&places.into_iter().map(share).collect::<Vec<_>>())?;
    if arguments.output == Path::new("-") {
        output::print(&spec.to_json())?;
        return Ok(ExitCode::SUCCESS);
    }
    let device = match &spec.devices[..] {
        [one] => Some(one.name.as_str()),
        _ => None,
    };
    let (directory, file) = match arguments.output.is_dir() {
        true => (arguments.output.clone(), cdi::file_name(&spec.kind, device)?),
        false => file_of(&arguments.output)?,
    };
    let path = cdi::write(&spec, &directory, &file)
        .with_context(|| format!("writing {}", directory.join(&file).display()))?;
    if arguments.json {
        output::print_json(
            &json!({ "file": path, "devices": spec.devices().collect::<Vec<_>>() }),
        )?;
    } else {
        for device in spec.devices() {
            output::print(&format!("{device}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file's directory and name. Runtimes read it only by its ending.
fn file_of(path: &Path) -> Result<(PathBuf, String)> {
    let path = std::path::absolute(path)?;
    let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    match (path.parent(), name) {
        (Some(directory), Some(name)) if name.ends_with(".json") => {
            Ok((directory.to_owned(), name))
        }
        _ => bail!(
            "{} is no directory, and container runtimes read only files whose names end in .json",
            path.display()
        ),
    }
}

/// The device's name and the directory of a namespace.
fn namespace(root: &Path, word: &str) -> Result<(String, PathBuf)> {
    let (server, namespace) = word.split_once('/').unwrap_or((word, "default"));
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    if !is_name(server) || !is_name(namespace) {
        bail!("--share wants SERVER/NAMESPACE, not {word:?}");
    }
    let directory = root.join(server).join(namespace);
    if !directory.is_dir() {
        bail!(
            "{} is not there: `nvidia-cuda-mps-control server create {server}` and `namespace create \
             {namespace} --server={server}` make it, with a daemon of protocol 3",
            directory.display()
        );
    }
    Ok((format!("{server}-{namespace}"), directory))
}

fn found(directories: &[PathBuf]) -> Result<Vec<Stored>> {
    let default: Vec<PathBuf> = cdi::DIRECTORIES.iter().map(PathBuf::from).collect();
    let directories = if directories.is_empty() { &default } else { directories };
    let mut all = Vec::new();
    for directory in directories {
        let listed = cdi::list(directory);
        all.extend(listed.with_context(|| format!("reading {}", directory.display()))?);
    }
    Ok(all)
}

fn list(directories: &[PathBuf], as_json: bool) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for Stored { path, spec } in found(directories)? {
        for device in &spec.devices {
            let name = cdi::qualified(&spec.kind, &device.name);
            let pipe = device.container_edits.mounts.first().map(|mount| mount.host_path.clone());
            rows.push((name, pipe.unwrap_or_default(), path.clone()));
        }
    }
    if as_json {
        let row = |(device, pipe, file): &(String, PathBuf, PathBuf)| json!({ "device": device, "pipe_directory": pipe, "file": file });
        output::print_json(&json!({ "devices": rows.iter().map(row).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|(device, ..)| device.len()).max().unwrap_or(0);
    for (device, pipe, file) in rows {
        output::print(&format!("{device:<width$}  {}  {}\n", pipe.display(), file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(devices: &[String], directories: &[PathBuf], as_json: bool) -> Result<ExitCode> {
    let mut removed = Vec::new();
    for word in devices {
        let (kind, name) = word.split_once('=').unwrap_or((cdi::KIND, word));
        let before = removed.len();
        for Stored { path, mut spec } in found(directories)? {
            let count = spec.devices.len();
            spec.devices.retain(|device| spec.kind != kind || device.name != name);
            if spec.devices.len() == count {
                continue;
            }
            let (directory, file) = file_of(&path)?;
            let done = match spec.devices.is_empty() {
                true => cdi::remove(&directory, &file).map(drop),
                false => cdi::write(&spec, &directory, &file).map(drop),
            };
            done.with_context(|| format!("changing {}", path.display()))?;
            removed.push(cdi::qualified(kind, name));
        }
        if removed.len() == before {
            bail!(
                "there is no device {}: `openmps cdi list` lists them",
                cdi::qualified(kind, name)
            );
        }
    }
    if as_json {
        output::print_json(&json!({ "removed": removed }))?;
    }
    Ok(ExitCode::SUCCESS)
}
