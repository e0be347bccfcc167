//! Cross-version: another commit built beside this one, and programs, daemons and servers of both together.
//!
//! | run | programs' library | daemon and servers |
//! | --- | --- | --- |
//! | old client | the other commit's | this tree's |
//! | new client | this tree's | the other commit's |
//! | upgrade | the other commit's, at work | the other commit's, then this tree's, several times |
//!
//! Programs compare each result. With `--raise N` the other commit is built with its protocol's numbers N
//! higher, as a release to come would have them; from 2 on both have no version in common, and then each
//! side has to say so in one line with both versions.

use crate::dist::{self, run};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Programs at work during upgrades.
const PROGRAMS: usize = 3;
/// Packages of which an installation for this consists.
const PACKAGES: &[&str] = &["openmps", "client", "soft-gpu", "samples"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The other commit, branch or tag [default: the last tag, else this commit]
    revision: Option<String>,
    /// Build it with its protocol's numbers so much higher
    #[arg(long, default_value_t = 0)]
    raise: u16,
    /// Upgrades under load, there and back
    #[arg(long, default_value_t = 4)]
    upgrades: u32,
}

/// The file that an installation has when it is whole.
const COMPLETE: &str = "complete";

/// An installation of one side.
struct Side {
    name: String,
    prefix: PathBuf,
}

impl Side {
    fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    fn libraries(&self) -> PathBuf {
        self.prefix.join("lib/openmps")
    }
}

/// Builds both sides and runs all of it.
pub(crate) fn cross_version(arguments: &Arguments) -> Result<()> {
    let root = crate::root();
    let revision = match &arguments.revision {
        Some(revision) => revision.clone(),
        None => git(&root, &["describe", "--tags", "--abbrev=0"]).unwrap_or("HEAD".to_owned()),
    };
    let commit = git(&root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")])?;
    let short = &commit[..commit.len().min(12)];
    let work = dist::target_directory(&root).join("cross-version");
    let sources = work.join("sources");
    check_out(&root, &sources, &commit)?;
    if arguments.raise > 0 {
        raise(&sources, arguments.raise)?;
    }
    let name = format!("{short}+{}", arguments.raise);
    let is_built = work.join(&name).join(COMPLETE).exists();
    let old = match is_built {
        true => Side { prefix: work.join(&name), name },
        false => build(&sources, &work.join("target"), &work.join(&name), name)?,
    };
    let target = dist::target_directory(&root);
    let new = build(&root, &target, &work.join("this"), "this tree".to_owned())?;
    for side in [&old, &new] {
        let version = output(Command::new(side.program("openmps")).arg("--version"))?;
        println!("{}: {}", side.name, text(&version).trim());
    }
    let scene = Scene::new(&work)?;
    if arguments.raise > 1 {
        scene.says_both_versions(&old, &new)?;
        scene.says_both_versions(&new, &old)?;
        println!("no version in common: both sides say so, with both versions");
        return Ok(());
    }
    scene.programs_of_one_at_the_other(&old, &new)?;
    scene.programs_of_one_at_the_other(&new, &old)?;
    scene.upgrades_under_load(&old, &new, arguments.upgrades)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let said = output(Command::new("git").current_dir(root).args(arguments))?;
    ensure!(said.status.success(), "git {arguments:?}: {}", text(&said).trim());
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

/// Has a worktree at `to` with that commit's files in place of an earlier one.
fn check_out(root: &Path, to: &Path, commit: &str) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("a folder above")?)?;
    if to.join(".git").exists() {
        git(to, &["reset", "--hard", "--quiet", commit])?;
        return Ok(());
    }
    git(root, &["worktree", "prune"])?;
    let path = to.display().to_string();
    git(root, &["worktree", "add", "--detach", "--force", &path, commit]).map(drop)
}

/// Makes the protocol of a tree a later one: its numbers only.
fn raise(sources: &Path, by: u16) -> Result<()> {
    let path = sources.join("crates/channel/src/lib.rs");
    let text = std::fs::read_to_string(&path)?;
    let mut found = 0;
    let lines = text.lines().map(|line| {
        let name = ["pub const PROTOCOL_VERSION: u16 = ", "pub const PROTOCOL_VERSION_MIN: u16 = "];
        let number = name.iter().find_map(|name| {
            let number: u16 = line.strip_prefix(name)?.strip_suffix(';')?.parse().ok()?;
            Some((name, number))
        });
        number.map_or_else(
            || line.to_owned(),
            |(name, number)| {
                found += 1;
                format!("{name}{};", number + by)
            },
        )
    });
    let raised: Vec<String> = lines.collect();
    ensure!(found > 0, "{} names no version of a protocol", path.display());
    std::fs::write(&path, raised.join("\n") + "\n").with_context(|| format!("{}", path.display()))
}

/// Builds a tree and lays it out. Each tree has a target directory of its own: cargo tells crates apart by
/// their paths within a workspace.
fn build(sources: &Path, target: &Path, prefix: &Path, name: String) -> Result<Side> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(sources).env("CARGO_TARGET_DIR", target);
    cargo.args(["build", "--quiet", "--bins", "--lib"]);
    for package in PACKAGES {
        cargo.args(["-p", package]);
    }
    run(&mut cargo)?;
    let built = target.join("debug");
    let (bin, lib) = (prefix.join("bin"), prefix.join("lib/openmps"));
    for folder in [&bin, &lib.join("samples")] {
        std::fs::create_dir_all(folder)?;
    }
    dist::place(&built.join("openmps"), &bin.join("openmps"))?;
    for name in dist::PERSONALITIES {
        dist::link(Path::new("openmps"), &bin.join(name))?;
    }
    dist::place(&built.join("libcuda.so"), &lib.join("libcuda.so.1"))?;
    dist::link(Path::new("libcuda.so.1"), &lib.join("libcuda.so"))?;
    dist::place(&built.join("libopenmps_soft.so"), &lib.join("libopenmps-soft.so"))?;
    for sample in ["vector_add", "api_tour"] {
        dist::place(&built.join(sample), &lib.join("samples").join(sample))?;
    }
    std::fs::write(prefix.join(COMPLETE), "")?;
    Ok(Side { name, prefix: prefix.to_owned() })
}

fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("starting {command:?}"))
}

/// What a command has said, both ways.
fn text(output: &Output) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", of(&output.stdout), of(&output.stderr))
}

/// True for a line that says what its own side speaks; 0.1 had other words for it.
fn names_this_side(line: &str) -> bool {
    ["this build", "this is version"].iter().any(|words| line.contains(words))
}

/// A daemon that is ended with its scope.
struct Daemon<'a> {
    process: Child,
    scene: &'a Scene,
    side: &'a Side,
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let quit = ["quit", "-t", "0"];
        let _ = self
            .scene
            .command(self.side, &self.side.program("nvidia-cuda-mps-control"))
            .args(quit)
            .output();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Directories of a daemon and its programs.
struct Scene {
    pipe: PathBuf,
    log: PathBuf,
}

impl Scene {
    fn new(work: &Path) -> Result<Self> {
        // A socket's path is short; a build directory's need not be.
        let pipe = std::env::temp_dir().join(format!("openmps-cross-{}", std::process::id()));
        let log = work.join("log");
        for folder in [&pipe, &log] {
            std::fs::create_dir_all(folder)?;
        }
        Ok(Self { pipe, log })
    }

    /// A program with a side's libraries, at this scene's daemon.
    fn command(&self, side: &Side, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe)
            .env("CUDA_MPS_LOG_DIRECTORY", &self.log)
            .env("OPENMPS_PROVIDER", "soft")
            .env("LD_LIBRARY_PATH", side.libraries())
            .stdin(Stdio::null());
        command
    }

    fn control(&self, side: &Side, arguments: &[&str]) -> Result<Output> {
        let program = side.program("nvidia-cuda-mps-control");
        output(self.command(side, &program).args(arguments))
    }

    fn start<'a>(&'a self, side: &'a Side) -> Result<Daemon<'a>> {
        let program = side.program("nvidia-cuda-mps-control");
        let log = std::fs::File::create(self.log.join("daemon.err"))?;
        let mut command = self.command(side, &program);
        let process = command.arg("-f").stderr(log).spawn().context("starting the daemon")?;
        let daemon = Daemon { process, scene: self, side };
        let since = Instant::now();
        while !self.control(side, &["get_server_list"])?.status.success() {
            ensure!(since.elapsed() < PATIENCE, "the daemon of {} does not start", side.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    fn vector_add(&self, of: &Side, sample: &Side, arguments: &[&str]) -> Command {
        let mut command = self.command(of, &sample.libraries().join("samples/vector_add"));
        command.args(["--size", "20000", "--verify-each"]).args(arguments);
        command
    }

    /// Programs of one side at a daemon of the other; and each side's shell at it.
    fn programs_of_one_at_the_other(&self, client: &Side, daemon: &Side) -> Result<()> {
        let _daemon = self.start(daemon)?;
        let vectors = output(&mut self.vector_add(client, client, &["--iterations", "200"]))?;
        ensure!(vectors.status.success(), "vector_add: {}", text(&vectors));
        let tour = client.libraries().join("samples/api_tour");
        let tour = output(&mut self.command(client, &tour))?;
        ensure!(tour.status.success(), "api_tour: {}", text(&tour));
        let said = self.control(client, &["report"])?;
        ensure!(said.status.success(), "report: {}", text(&said));
        let ps = self.command(client, &client.program("openmps")).arg("ps").output()?;
        ensure!(ps.status.success(), "openmps ps: {}", text(&ps));
        println!("programs and shell of {} at the daemon of {}: good", client.name, daemon.name);
        Ok(())
    }

    /// Both sides have no version in common: program and shell say so in one line.
    fn says_both_versions(&self, client: &Side, daemon: &Side) -> Result<()> {
        let _daemon = self.start(daemon)?;
        let program = output(&mut self.vector_add(client, client, &["--iterations", "1"]))?;
        let shell = self.control(client, &["get_server_list"])?;
        for (what, said) in [("program", program), ("shell", shell)] {
            ensure!(!said.status.success(), "the {what} of {} goes on", client.name);
            let said = text(&said);
            let lines = said
                .lines()
                .filter(|line| line.contains("protocol version") && names_this_side(line));
            let lines: Vec<&str> = lines.collect();
            ensure!(!lines.is_empty(), "the {what} of {} says: {said}", client.name);
            println!("{what}: {}", lines[0]);
        }
        let log = std::fs::read_to_string(self.log.join("control.log")).unwrap_or_default();
        ensure!(log.contains("protocol version"), "control.log has nothing of it");
        Ok(())
    }

    /// Programs of `old` at work while servers and daemon become `new`, and again.
    fn upgrades_under_load(&self, old: &Side, new: &Side, upgrades: u32) -> Result<()> {
        let _daemon = self.start(old)?;
        let until = self.pipe.join("until");
        let path = until.display().to_string();
        let mut programs = Vec::new();
        for at in 0..PROGRAMS {
            let side = if at == 0 { new } else { old };
            let log = std::fs::File::create(self.log.join(format!("program-{at}.err")))?;
            let mut command = self.vector_add(side, side, &["--until", &path, "--json"]);
            programs.push(command.stdout(Stdio::piped()).stderr(log).spawn()?);
        }
        let said =
            self.command(new, &new.program("openmps")).args(["upgrade", "--check"]).output()?;
        println!("upgrade --check: {}", text(&said).trim().replace('\n', "; "));
        ensure!(said.status.success(), "upgrade --check: {}", text(&said));
        for at in 0..upgrades {
            std::thread::sleep(Duration::from_secs(1));
            let to = if at % 2 == 0 { new } else { old };
            let said = self.command(to, &to.program("openmps")).arg("upgrade").output()?;
            println!("upgrade to {}: {}", to.name, text(&said).trim().replace('\n', "; "));
            ensure!(said.status.success(), "upgrade {at} to {}: {}", to.name, text(&said));
            for (number, program) in programs.iter_mut().enumerate() {
                ensure!(program.try_wait()?.is_none(), "program {number} has ended");
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(&until, "")?;
        for (at, program) in programs.into_iter().enumerate() {
            let ended = program.wait_with_output()?;
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            if !ended.status.success() || !said.contains("\"verified\":true") {
                let errors = std::fs::read_to_string(self.log.join(format!("program-{at}.err")));
                bail!("program {at}: {} {said} {}", ended.status, errors.unwrap_or_default());
            }
            println!("program {at}: {}", said.trim());
        }
        println!("{upgrades} upgrades under {PROGRAMS} verifying programs: nothing lost");
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.pipe);
    }
}
