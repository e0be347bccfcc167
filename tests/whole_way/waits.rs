//! Every wait of a client ends when its server, its daemon or the client itself does, and standard
//! error says why. `blocked` is a program that waits in one driver call.

use locks::Mutex;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use tests::{Ended, Running, Scene, Signal, finish, signal, start, wait_until};

/// The state of a process' main thread: R, S, T, ...
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('-')
}

/// A program that waits at `at`: it has come to the call, and sleeps there.
fn start_blocked(scene: &Scene, at: &str, round: usize) -> Running {
    let go = scene.file(&format!("go-{at}-{round}"));
    let name = go.to_str().expect("a path");
    let program = start(&mut scene.sample("blocked", &["--at", at, "--barrier", name]));
    let pid = program.pid();
    let ready = scene.file(&format!("go-{at}-{round}.ready.{pid}"));
    wait_until("the program is ready", || ready.exists());
    std::fs::write(&go, "").expect("the barrier opens");
    // It sleeps for good once it sleeps so often in a row: the waits look around every 10 ms.
    // One that asks again and again is soon awake; it says the same error whenever it ends.
    let asks = at == "shared-event";
    let mut asleep = 0;
    wait_until("the program waits in its call", || {
        asleep = match state(pid) {
            'S' => asleep + 1,
            _ if asks => asleep,
            _ => 0,
        };
        asleep > 20
    });
    program
}

fn assert_ended(ended: &Ended, error: &str, why: &str) {
    let said = ended.errors().lines().filter(|line| line.starts_with("openmps: ")).count();
    assert_eq!((ended.status, said), (3, 1), "{ended:?}");
    assert!(ended.stderr.contains(&format!("the wait ended: {error}")), "{ended:?}");
    assert!(ended.stderr.contains(why), "{ended:?}");
    assert!(ended.stderr.contains("/server.log"), "{ended:?}");
}

/// Ends client, server and daemon in every way while a client waits there.
fn end_all_at(at: &str) {
    const TERMINATED: &str = "CUDA_ERROR_MPS_CLIENT_TERMINATED";
    const FAILED: &str = "CUDA_ERROR_MPS_RPC_FAILURE";
    // Endless kernels take all cores: one scene at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let mut scene = Scene::with_daemon();

    let mut killed = start_blocked(&scene, at, 0);
    let server = scene.servers();
    killed.kill();
    killed.wait();
    wait_until("the server knows that the client is gone", || scene.clients().is_empty());

    let terminated = start_blocked(&scene, at, 1);
    assert_eq!(scene.servers(), server, "it serves on");
    let pid = terminated.pid();
    scene.control(&format!("terminate_client {} {pid}", server[0])).expect_success();
    assert_ended(&terminated.wait(), TERMINATED, "was terminated at the server");

    let shut_down = start_blocked(&scene, at, 2);
    assert_eq!(scene.servers(), server, "it serves on");
    scene.control(&format!("shutdown_server {} -f", server[0])).expect_success();
    let why = format!("the server (PID {}) was shut down", server[0]);
    assert_ended(&shut_down.wait(), TERMINATED, &why);

    // A server that dies is no end: the program waits on at another one, or is told that its work
    // is lost.
    let mut orphan = start_blocked(&scene, at, 3);
    let server = scene.servers()[0];
    signal(server, Signal::KILL);
    wait_until("the program is at another server, or told", || {
        !orphan.is_running() || scene.servers() != [server] && scene.clients() == [orphan.pid()]
    });
    if orphan.is_running() {
        orphan.kill();
    }
    let ended = orphan.wait();
    assert!(ended.status == 128 + 9 || ended.stderr.contains(FAILED), "{ended:?}");
    wait_until("the server knows that it is gone", || scene.clients().is_empty());

    let asked = start_blocked(&scene, at, 4);
    signal(scene.servers()[0], Signal::TERM);
    assert_ended(&asked.wait(), TERMINATED, "was shut down");

    let orphan = start_blocked(&scene, at, 5);
    let mut orphan = orphan;
    let server = scene.servers()[0];
    scene.kill_daemon();
    assert!(orphan.is_running(), "a daemon's death is nothing to a program that has a server");
    signal(server, Signal::TERM);
    assert_ended(&orphan.wait(), TERMINATED, "was shut down");

    scene.start_daemon();
    let last = start_blocked(&scene, at, 6);
    let quit =
        start(scene.command(&tests::dist().join("bin/openmps")).args(["down", "--timeout", "0"]));
    assert_ended(&last.wait(), TERMINATED, "was shut down");
    quit.wait().expect_success();
    assert_eq!(scene.wait_for_daemon().status, 0);
}

macro_rules! waits {
    ($($test:ident $at:literal;)*) => {$(
        #[test]
        fn $test() {
            end_all_at($at);
        }
    )*};
}
waits! {
    a_wait_for_a_stream_ends "stream";
    a_wait_for_the_context_ends "context";
    a_wait_for_an_event_ends "event";
    a_wait_for_an_event_that_others_may_open_ends "shared-event";
    a_wait_for_room_in_the_ring_ends "room";
    a_wait_for_room_in_staging_ends "upload";
    a_wait_for_a_copy_to_pageable_memory_ends "download";
    a_wait_for_a_reply_ends "unload";
    a_wait_for_a_host_function_ends "host-function";
    a_wait_for_a_value_ends "value";
}

/// A program with its standard error in a file, so that a test can read on.
struct Watched {
    child: Child,
    stderr: std::path::PathBuf,
}

impl Watched {
    fn start(scene: &Scene, command: &mut Command, name: &str) -> Self {
        let stderr = scene.file(name);
        let file = File::create(&stderr).expect("a file");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        Self { child: child.expect("it starts"), stderr }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    fn wait_for_line(&self, text: &str) {
        wait_until("the program says what it waits for", || self.said().contains(text));
    }

    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the program ends", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.expect("it has ended")
    }

    fn expect_success(&mut self) {
        assert!(self.wait().success(), "{}", self.said());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_start_that_waits_for_what_is_stopped_says_so_and_goes_on() {
    let mut scene = Scene::with_daemon();
    let add = |scene: &Scene, name: &str| {
        Watched::start(scene, &mut scene.sample("vector_add", &["--iterations", "2"]), name)
    };
    let daemon = scene.daemon_pid();
    // A daemon that is continued, and one that is killed: then the program runs by itself.
    signal(daemon, Signal::STOP);
    let mut waits = add(&scene, "continued");
    waits.wait_for_line(&format!("(PID {daemon}), which is stopped: `kill -CONT {daemon}`"));
    signal(daemon, Signal::CONT);
    waits.expect_success();
    // A server that is continued, and one that is killed: then the daemon starts another.
    let server = scene.servers()[0];
    signal(server, Signal::STOP);
    let mut waits = add(&scene, "server-continued");
    waits.wait_for_line(&format!("its server (PID {server}) is stopped: `kill -CONT {server}`"));
    signal(server, Signal::CONT);
    waits.expect_success();
    signal(server, Signal::STOP);
    let mut waits = add(&scene, "server-killed");
    waits.wait_for_line(&format!("its server (PID {server}) is stopped"));
    signal(server, Signal::KILL);
    waits.expect_success();
    assert_ne!(scene.servers(), [server]);
    // A client that is killed while it waits costs nothing.
    signal(daemon, Signal::STOP);
    let killed = add(&scene, "client-killed");
    killed.wait_for_line("which is stopped");
    drop(killed);
    signal(daemon, Signal::CONT);
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
    signal(daemon, Signal::STOP);
    let mut waits = add(&scene, "daemon-killed");
    waits.wait_for_line("which is stopped");
    // Another thread waits for the one that asks the daemon: both end by themselves then.
    let blocked = &["--at", "start"];
    let mut first = Watched::start(&scene, &mut scene.sample("blocked", blocked), "first-calls");
    first.wait_for_line("which is stopped");
    scene.kill_daemon();
    waits.expect_success();
    assert_eq!(first.wait().code(), Some(3), "{}", first.said());
    assert!(first.said().contains("the wait ended: CUDA_SUCCESS"), "{}", first.said());
    assert!(Path::new(&scene.pipe()).exists());
}
