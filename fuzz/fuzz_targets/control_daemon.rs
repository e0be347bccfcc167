//! Any packets and command lines to a running control daemon: `cargo +nightly fuzz run control_daemon`.
//! The first byte says which socket and which of the two; lines are one a connection. Its servers are a
//! program that ends at once.
#![no_main]

use channel::message::{Command as Line, Message};
use channel::region::Region;
use channel::socket::SeqPacket;
use control::daemon::Programs;
use control::options::DaemonOptions;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Longest time for an answer: a daemon that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines of one input.
const LINES_MAX: usize = 16;
/// Commands after which this process is no daemon any more.
const ENDS: &[&str] = &["quit", "upgrade"];

struct NoServers;

impl Programs for NoServers {
    fn server(&self) -> Command {
        Command::new("/bin/true")
    }
    fn server_at(&self, _: &Path) -> Command {
        self.server()
    }
    fn daemon(&self) -> Command {
        self.server()
    }
    fn successor(&self, _: Option<&Path>) -> Command {
        self.server()
    }
}

/// Where it listens.
static PIPE: OnceLock<PathBuf> = OnceLock::new();

fn start() {
    let pipe = std::env::temp_dir().join(format!("openmps-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&pipe).expect("a directory for the daemon");
    // SAFETY: the process has one thread yet.
    unsafe {
        std::env::set_var("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        std::env::set_var("CUDA_MPS_LOG_DIRECTORY", &pipe);
    }
    let streams = [io::stdin().as_fd(), io::stdout().as_fd(), io::stderr().as_fd()]
        .map(|stream| stream.try_clone_to_owned().expect("a standard stream"));
    let directory = std::env::current_dir().expect("a working directory");
    std::thread::spawn(|| {
        let commands = control::command::connection::start;
        let ended = control::daemon::run(
            Box::new(NoServers),
            commands,
            true,
            DaemonOptions::default(),
            |_| {},
        );
        panic!("the daemon ended: {ended:?}");
    });
    while !pipe.join("control_privileged").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    PIPE.set(pipe).expect("it is started once");
    command("control_privileged", "get_server_list");
    // It has let go of streams and directory, which the fuzzer needs.
    std::env::set_current_dir(directory).expect("the working directory");
    let [input, output, error] = streams;
    rustix::stdio::dup2_stdin(input).expect("standard input");
    rustix::stdio::dup2_stdout(output).expect("standard output");
    rustix::stdio::dup2_stderr(error).expect("standard error");
}

fn connect(socket: &str) -> SeqPacket {
    let pipe = PIPE.get().expect("it runs");
    let connection = SeqPacket::connect(&pipe.join(socket), PATIENCE).expect("it listens");
    connection.set_receive_timeout(Some(PATIENCE)).expect("a time limit");
    connection
}

/// Gives a command line and waits for its whole answer.
fn command(socket: &str, text: &str) {
    let connection = connect(socket);
    let line = Message::Command(Line { text: text.to_owned() });
    // One that is too long for a message, or not taken, is answered by the connection's end.
    if connection.send(&line, &[]).is_err() {
        return;
    }
    while let Ok((Message::Reply(reply), _)) = connection.receive() {
        if !reply.more {
            return;
        }
    }
}

fn packet(socket: &str, bytes: &[u8]) {
    let region = Message::decode(bytes).is_ok_and(|message| message.fds() > 0);
    let region = region.then(|| Region::create().expect("a region").1);
    let fds: Vec<_> = region.iter().map(AsFd::as_fd).collect();
    let connection = connect(socket);
    if connection.send_bytes(bytes, &fds).is_ok() {
        // The packet has been read once a later command has been answered.
        command("control_privileged", "get_server_list");
    }
}

libfuzzer_sys::fuzz_target!(init: start(), |bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let socket = if kind & 1 == 0 { "control_privileged" } else { "control" };
    if kind & 2 == 0 {
        let Ok(text) = str::from_utf8(bytes) else { return };
        let ends = |line: &&str| !ENDS.contains(&line.split_whitespace().next().unwrap_or_default());
        text.lines().filter(ends).take(LINES_MAX).for_each(|line| command(socket, line));
    } else {
        // A command to end may be a packet as well.
        match Message::decode(bytes) {
            Ok(Message::Command(line)) => command(socket, line.text.replace("quit", "").replace("upgrade", "").as_str()),
            _ => packet(socket, bytes),
        }
    }
});
