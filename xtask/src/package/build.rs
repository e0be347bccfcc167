//! Build for old systems: cargo-zigbuild links against the symbols of an old glibc, also on a new system.
//!
//! It and zig come as Python wheels into the ignored folder of third-party programs.

use super::floor::{Glibc, OF_PROGRAMS, OF_THE_REST};
use crate::dist::{self, Built, Linker, run};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that were tried.
const TOOLS: &[&str] = &["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];
/// What is built.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Crates that become libraries which programs load.
const CLIENT: &[&str] = &["client", "nvml", "nvtx", "runtime-compilers"];
/// Crates of what starts on its own.
const REST: &[&str] = &["openmps", "soft-gpu", "samples"];

/// The crate of the node agent of Kubernetes, which is in images only.
const AGENT: &str = "openmps-k8s";

/// Crates whose code is in a package; images have the node agent too.
pub(super) fn shipped(has_agent: bool) -> Vec<&'static str> {
    CLIENT.iter().chain(REST).copied().chain(has_agent.then_some(AGENT)).collect()
}

/// Builds for old systems and lays that out; returns the directory. Its units start a program at a path.
pub(super) fn installation(
    root: &Path,
    epoch: u64,
    program: &Path,
    has_agent: bool,
) -> Result<PathBuf> {
    let tools = tools(root)?;
    let folder = dist::target_directory(root).join("package");
    let build = |name: &str, crates: &[&str], floor: Glibc| -> Result<PathBuf> {
        let target = folder.join(name);
        let mut build = zigbuild(root, &tools, crates, floor)?;
        run(build.env("CARGO_TARGET_DIR", &target).env("SOURCE_DATE_EPOCH", epoch.to_string()))?;
        Ok(target.join(TARGET).join("release"))
    };
    // Apart, since cargo takes a library for current that was linked for another glibc.
    let client = build("client", CLIENT, OF_PROGRAMS)?;
    let rest = build("rest", REST, OF_THE_REST)?;
    let to = folder.join("dist");
    if to.exists() {
        std::fs::remove_dir_all(&to).with_context(|| format!("removing {}", to.display()))?;
    }
    let linker = linker(&tools);
    dist::lay_out(&Built { client: &client, rest: &rest, linker: &linker }, &to, program)?;
    if has_agent {
        let agent = build("agent", &[AGENT], OF_THE_REST)?;
        std::fs::copy(agent.join(AGENT), to.join("bin").join(AGENT))
            .with_context(|| format!("copying {AGENT}"))?;
    }
    Ok(to)
}

/// The C compiler of zig, for what programs load.
fn linker(tools: &Path) -> Linker {
    let target = format!("x86_64-linux-gnu.{OF_PROGRAMS}");
    let words = ["cc".into(), "-target".into(), OsString::from(target)];
    let command = std::iter::once(tools.join("python-zig").into()).chain(words).collect();
    Linker { command, unwinder: "-lunwind" }
}

/// Directories of this machine that sources are in: the repository, and cargo's.
pub(super) fn private_paths(root: &Path) -> Result<[String; 2]> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    Ok([root, &home].map(|path| path.display().to_string()))
}

/// A release build of crates for a floor, without this machine's paths in what it makes.
fn zigbuild(root: &Path, tools: &Path, crates: &[&str], floor: Glibc) -> Result<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools.to_path_buf()).chain(std::env::split_paths(&path));
    let paths = private_paths(root)?;
    let flags =
        format!("--remap-path-prefix={}=. --remap-path-prefix={}=cargo", paths[0], paths[1]);
    let mut command = Command::new(tools.join("cargo-zigbuild"));
    command.current_dir(root).env("PATH", std::env::join_paths(path)?).env("RUSTFLAGS", flags);
    command.args(["zigbuild", "--release", "--target", &format!("{TARGET}.{floor}")]);
    command.args(["--lib", "--bins"]);
    command.args(crates.iter().flat_map(|name| ["--package", name]));
    Ok(command)
}

/// The folder with cargo-zigbuild and zig, which are fetched if they are not there.
fn tools(root: &Path) -> Result<PathBuf> {
    let folder = root.join(".third-party/packaging");
    let programs = folder.join("bin");
    let there = |name: &str| programs.join(name).is_file();
    if !there("cargo-zigbuild") || !there("python-zig") {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            .context("making a Python environment for cargo-zigbuild (python3 with venv)")?;
        run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(TOOLS))
            .context("fetching cargo-zigbuild and zig, which needs a network or a local index")?;
    }
    Ok(programs)
}
