//! Session: a user's directory in which the blocks of a document run, one after the other.
//!
//! It has an installation in `~/openmps`, the sources where a document says so, the samples and programs of the
//! documents' own (`./train`, `./serve`) in the working directory, and a daemon on the software GPU.

use super::markdown::{Block, Kind, Line, Stands};
use super::transcript::first_missing;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tests::{PATIENCE, Patience, Running, Scene, dist, finish, start, wait_until};

/// Programs that documents run in the reader's place; here each is a short sample.
const PROGRAMS: &[&str] = &["train", "serve", "program", "simulation"];
/// The directory of NVIDIA's MPS, in the place of which the session has one of its own.
const DEFAULT_PIPE: &str = "/tmp/nvidia-mps";
/// Between two looks at a block that runs.
const LOOK: Duration = Duration::from_millis(20);
/// Marks a command's end in the output, with its status behind it.
const END: char = '\u{1f}';

/// A document's session.
pub struct Session {
    scene: Scene,
    work: PathBuf,
    /// A program that is a client all the while, and the file that ends it.
    client: Option<(Running, PathBuf)>,
    /// The device's UUID, once a block has asked for it.
    device: Option<String>,
}

impl Session {
    /// A new one, in which no daemon runs. `root` is the repository's.
    pub fn new(root: &Path) -> Self {
        let scene = Scene::new();
        let (home, work) = (scene.file("home"), scene.file("work"));
        for folder in [&home, &work, &work.join("target")] {
            fs::create_dir_all(folder).expect("a directory of the session");
        }
        let samples = dist().join("lib/openmps/samples");
        let link = |to: &Path, at: PathBuf| symlink(to, at).expect("a link of the session");
        link(dist(), home.join("openmps"));
        link(&samples, work.join("target/debug"));
        for folder in ["samples", "docs", "bench", "tests"] {
            link(&root.join(folder), work.join(folder));
        }
        for entry in fs::read_dir(&samples).expect("samples") {
            let entry = entry.expect("a sample");
            let name = work.join(entry.file_name());
            if !name.exists() {
                link(&entry.path(), name);
            }
        }
        for name in PROGRAMS {
            let path = work.join(name);
            let sample = samples.join("n_body");
            let text = format!("#!/bin/sh\nexec {} --iterations 2 \"$@\"\n", sample.display());
            fs::write(&path, text).expect("a program");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may run");
        }
        Self { scene, work, client: None, device: None }
    }

    /// Runs a block; what is wrong with it, in words.
    ///
    /// # Errors
    /// That is.
    pub fn run(&mut self, block: &Block) -> Result<(), String> {
        if self.device.is_none() && block.stands.iter().any(|(_, of)| *of == Stands::Device) {
            self.device = Some(self.device_uuid(block));
        }
        match block.daemon {
            Some(true) => self.start_daemon(block),
            Some(false) => self.stop_daemon(),
            None => {}
        }
        let text = |line: &str| self.in_place(block, line);
        match &block.kind {
            Kind::Text | Kind::NotRun(_) => Ok(()),
            Kind::File(name) => {
                let lines: Vec<String> = block.lines.iter().map(|line| text(line)).collect();
                fs::write(self.work.join(name), lines.join("\n")).map_err(|e| e.to_string())
            }
            Kind::OutputOf(command) => {
                let shown: Vec<&str> = block.lines.iter().map(String::as_str).collect();
                self.judge(&[(text(command), 0)], block, &shown)
            }
            Kind::Commands | Kind::Transcript => {
                let (mut commands, mut shown) = (Vec::new(), Vec::new());
                for part in block.parts() {
                    match part {
                        Line::Command(line) => commands.push((text(line), shown.len())),
                        Line::Output(line) => shown.push(line),
                    }
                }
                if block.kind == Kind::Commands && !shown.is_empty() {
                    return Err("it shows output and is not marked as a transcript".to_owned());
                }
                self.judge(&commands, block, &shown)
            }
        }
    }

    /// A line of the document with what the reader puts in the place of its words.
    fn in_place(&self, block: &Block, line: &str) -> String {
        let pipe = self.scene.pipe();
        let mut line = line.replace(DEFAULT_PIPE, pipe.to_str().expect("a path"));
        for (word, stands) in &block.stands {
            let number = match stands {
                Stands::Client => self.client.as_ref().expect("a client").0.pid(),
                Stands::Server => self.scene.servers()[0],
                Stands::User => rustix::process::geteuid().as_raw(),
                Stands::Device => {
                    let uuid = self.device.as_deref().expect("a device");
                    line = line.replace(word, &uuid[..word.len().min(uuid.len())]);
                    continue;
                }
            };
            line = line.replace(word, &number.to_string());
        }
        line
    }

    /// A command in the session's environment.
    fn command(&self, program: &Path, block: &Block) -> Command {
        let mut command = self.scene.command(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = dist().join("bin");
        let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
        command
            .current_dir(&self.work)
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("OPENMPS_LIB_DIR")
            .env("HOME", self.scene.file("home"))
            .env("PATH", std::env::join_paths(paths).expect("a path"))
            .envs(block.environment.iter().map(|(name, value)| {
                (name, value.replace("DIST", dist().to_str().expect("a path")))
            }))
            .stdin(Stdio::null());
        command
    }

    /// The UUID of the session's one device, which a daemon of this question's own says.
    fn device_uuid(&self, block: &Block) -> String {
        self.scene.openmps(&["down", "--timeout", "0"]);
        let control = dist().join("bin/nvidia-cuda-mps-control");
        finish(self.command(&control, block).arg("-d")).expect_success();
        let said = finish(self.command(&control, block).arg("device_query")).expect_success();
        self.scene.openmps(&["down", "--timeout", "0"]);
        let mut words = said.stdout.split(|c: char| c.is_whitespace() || c == ',');
        words.find(|word| word.starts_with("GPU-")).expect("a UUID").to_owned()
    }

    fn start_daemon(&mut self, block: &Block) {
        let openmps = dist().join("bin/openmps");
        finish(self.command(&openmps, block).arg("up")).expect_success();
        if self.client.is_none() && !block.stands.is_empty() {
            let until = self.scene.file("until");
            let arguments = ["--until", until.to_str().expect("a path")];
            self.client = Some((start(&mut self.scene.sample("vector_add", &arguments)), until));
            wait_until("the program is a client", || !self.scene.clients().is_empty());
        }
    }

    /// Ends the daemon, if one runs, and its clients.
    pub fn stop_daemon(&mut self) {
        if let Some((client, until)) = self.client.take() {
            fs::write(until, "").expect("the file that ends it");
            client.wait();
        }
        self.scene.openmps(&["down", "--timeout", "0"]);
    }

    /// Runs commands in one shell, and looks at statuses and output. A command with a number comes when as many of
    /// the lines are there, as the reader sees them before typing on.
    fn judge(
        &self,
        commands: &[(String, usize)],
        block: &Block,
        shown: &[&str],
    ) -> Result<(), String> {
        let shown: Vec<&str> =
            shown.iter().copied().filter(|line| !line.trim().is_empty()).collect();
        let printed = self.scene.file("printed");
        let output = fs::File::create(&printed).expect("a file for the output");
        let ends = "printf '\\n\\037%d\\n' $?";
        let steps = self.scene.file("steps");
        let _ = fs::remove_dir_all(&steps);
        fs::create_dir(&steps).expect("a directory for steps");
        let step = |number: usize| steps.join(number.to_string());
        let script: String = commands
            .iter()
            .map(|(command, after)| {
                let there = step(*after).display().to_string();
                let wait = match after {
                    0 => String::new(),
                    _ => format!("until [ -e {there} ]; do sleep 0.05; done\n"),
                };
                format!("{wait}{command}\n{ends}\n")
            })
            .collect();
        let mut shell = self.command(Path::new("bash"), block);
        shell.args(["-c", &script]).process_group(0);
        shell.stderr(output.try_clone().expect("the same file")).stdout(output);
        let mut shell = shell.spawn().expect("bash runs");
        let mut patience = Patience::of(PATIENCE);
        let user = user();
        let judged = loop {
            let ended = shell.try_wait().expect("it is our child").is_some();
            let text = String::from_utf8_lossy(&fs::read(&printed).expect("output")).into_owned();
            let missing = first_missing(&shown, &text, &user);
            for (_, after) in commands {
                if first_missing(&shown[..*after], &text, &user).is_none() {
                    fs::write(step(*after), "").expect("a file for a step");
                }
            }
            if ended {
                break statuses(commands, &text).and_then(|()| match missing {
                    Some(line) => Err(format!("`{line}` is not what is printed:\n{text}")),
                    None => Ok(()),
                });
            }
            if !shown.is_empty() && missing.is_none() {
                // A command that goes on is ended as the reader ends it. The others have succeeded.
                let over = text.matches(END).count();
                break statuses(&commands[..over.min(commands.len())], &text);
            }
            if patience.is_out() {
                break Err(match missing {
                    Some(line) => format!("`{line}` is not printed:\n{text}"),
                    None => format!("it does not end:\n{text}"),
                });
            }
            std::thread::sleep(LOOK);
        };
        end_group(&mut shell);
        judged
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop_daemon();
    }
}

/// An error with the first command that failed.
fn statuses(commands: &[(String, usize)], text: &str) -> Result<(), String> {
    let statuses: Vec<&str> =
        text.split(END).skip(1).map(|rest| rest.lines().next().unwrap_or_default()).collect();
    for (number, (command, _)) in commands.iter().enumerate() {
        match statuses.get(number) {
            Some(&"0") => {}
            status => {
                let status = status.unwrap_or(&"none");
                return Err(format!("`{command}` has status {status}:\n{text}"));
            }
        }
    }
    Ok(())
}

/// Interrupts what the shell has left, then kills it. Daemons are sessions of their own and stay.
fn end_group(shell: &mut Child) {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        if kill_process_group(Pid::from_child(shell), signal).is_err() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let _ = shell.wait();
}

/// This user's name, as `ps` prints it.
fn user() -> String {
    let name = Command::new("id").arg("-un").output().expect("id runs").stdout;
    String::from_utf8_lossy(&name).trim().to_owned()
}
