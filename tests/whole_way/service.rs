//! A service manager that follows the installed units: sockets that it holds, readiness, watchdog, restart. The
//! daemon is lost under it, and programs go on.

use crate::recovery::Neighbours;
use channel::socket::Listener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::{Running, Scene, Signal, dist, finish, signal, start, wait_until};

/// Programs that verify each result.
const PROGRAMS: [&str; 6] = ["vector_add", "reduction", "scan", "histogram", "n_body", "globals"];

/// What a unit file says: its keys with their values, in their order.
struct Unit(Vec<(String, String)>);

impl Unit {
    /// An installed unit of root's, whose directories are a scene's.
    fn installed(scene: &Scene, name: &str) -> Self {
        let path = dist().join("lib/systemd/system").join(name);
        let text = std::fs::read_to_string(&path).expect("the unit is installed");
        let (pipe, log) = (scene.pipe(), scene.file("log"));
        let text = text
            .replace("/run/nvidia-mps", pipe.to_str().expect("a path"))
            .replace("/var/log/nvidia-mps", log.to_str().expect("a path"));
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Self(lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
    }

    fn one(&self, key: &str) -> &str {
        self.all(key).first().unwrap_or_else(|| panic!("the unit has no {key}"))
    }
}

/// Does what the units say: systemd.service(5), systemd.socket(5), sd_listen_fds(3), sd_notify(3).
struct Manager {
    service: Unit,
    sockets: Vec<Listener>,
    notices: UnixDatagram,
    notify_at: std::path::PathBuf,
    /// In place of the unit's time.
    watchdog: Duration,
    heard: Instant,
    daemon: Running,
}

impl Manager {
    fn start(scene: &Scene, watchdog: Duration) -> Self {
        let service = Unit::installed(scene, "openmps.service");
        assert_eq!(service.one("Type"), "notify");
        assert_eq!(service.one("Restart"), "on-failure");
        assert!(service.one("WatchdogSec").parse::<u64>().expect("seconds") > 0);
        let sockets = service.one("Sockets").split_whitespace().map(|name| {
            let unit = Unit::installed(scene, name);
            let mode = u32::from_str_radix(unit.one("SocketMode"), 8).expect("a mode");
            let path = Path::new(unit.one("ListenSequentialPacket"));
            Listener::bind(path, mode).expect("a socket")
        });
        let sockets: Vec<Listener> = sockets.collect();
        let notify_at = scene.file("notify");
        let notices = UnixDatagram::bind(&notify_at).expect("a socket");
        notices.set_nonblocking(true).expect("it takes that");
        let daemon = run(scene, &service, &sockets, &notify_at, watchdog);
        let heard = Instant::now();
        let mut manager = Self { service, sockets, notices, notify_at, watchdog, heard, daemon };
        manager.await_readiness();
        manager
    }

    /// The notices since the last call, a line each.
    fn listen(&mut self) -> Vec<String> {
        let (mut bytes, mut lines) = ([0; 4096], Vec::new());
        while let Ok(length) = self.notices.recv(&mut bytes) {
            self.heard = Instant::now();
            lines.extend(String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned));
        }
        lines
    }

    fn await_readiness(&mut self) {
        wait_until("the daemon is ready", || self.listen().iter().any(|line| line == "READY=1"));
    }

    /// Ends the main process alone, as `KillMode=process` has it.
    fn end_daemon(&mut self, by: Signal) {
        assert_eq!(self.service.one("KillMode"), "process");
        signal(self.daemon.pid(), by);
        if by != Signal::KILL {
            // A stopped process takes no other signal.
            signal(self.daemon.pid(), Signal::CONT);
        }
        wait_until("it has ended", || !self.daemon.is_running());
    }

    /// Starts another one.
    fn follow_daemon(&mut self, scene: &Scene) {
        self.daemon = run(scene, &self.service, &self.sockets, &self.notify_at, self.watchdog);
        self.await_readiness();
    }

    /// Waits until the daemon was silent for the time of its watchdog, which ends it.
    fn watch(&mut self, scene: &Scene) {
        wait_until("the daemon is silent for too long", || {
            self.listen();
            self.heard.elapsed() > self.watchdog
        });
        self.end_daemon(Signal::ABORT);
        self.follow_daemon(scene);
    }

    /// Stops the service as the unit says.
    fn stop(self, scene: &Scene) {
        let mut words = self.service.one("ExecStop").split_whitespace();
        let mut stop = scene.command(Path::new(words.next().expect("a program")));
        finish(stop.args(words)).expect_success();
        self.daemon.wait().expect_success();
        assert!(self.sockets.iter().all(Listener::is_in_place), "the sockets are the manager's");
    }
}

fn run(
    scene: &Scene,
    service: &Unit,
    sockets: &[Listener],
    notify_at: &Path,
    watchdog: Duration,
) -> Running {
    // A process has its number for itself only when it runs: the shell says it, and becomes the daemon.
    let script = format!("export LISTEN_PID=$$ LISTEN_FDS={}; exec \"$@\"", sockets.len());
    let mut words = service.one("ExecStart").split_whitespace();
    let mut command: Command = scene.command(Path::new("/bin/sh"));
    command.args(["-c", &script, "sh"]).arg(words.next().expect("a program")).args(words);
    for variable in service.all("Environment") {
        let (name, value) = variable.split_once('=').expect("a variable");
        command.env(name, value);
    }
    command.env("NOTIFY_SOCKET", notify_at);
    command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
    let descriptors: Vec<i32> =
        sockets.iter().map(|socket| std::os::fd::AsFd::as_fd(socket).as_raw_fd()).collect();
    // SAFETY: only system calls are made, on descriptors that this process has open.
    unsafe {
        command.pre_exec(move || {
            // Out of the way of the numbers that they get.
            let copies = descriptors.iter().map(|fd| libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 64));
            for (number, copy) in (3..).zip(copies.collect::<Vec<_>>()) {
                if copy < 0 || libc::dup2(copy, number) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    start(&mut command)
}

/// Programs at work under a service.
struct Stage {
    scene: Scene,
    manager: Manager,
    neighbours: Neighbours,
    servers: Vec<u32>,
}

impl Stage {
    fn new(watchdog: Duration) -> Self {
        let scene = Scene::new();
        let manager = Manager::start(&scene, watchdog);
        let neighbours = Neighbours::start(&scene, &PROGRAMS);
        let servers = scene.servers();
        Self { scene, manager, neighbours, servers }
    }

    fn expect_nothing_noticed(self) {
        let scene = self.scene;
        // The next daemon has found them all, and one that comes now is served.
        wait_until("all are known", || scene.clients().len() == PROGRAMS.len());
        assert_eq!(scene.servers(), self.servers, "the server is the same");
        let new = finish(&mut scene.sample("vector_add", &["--json"])).expect_success();
        assert_eq!(new.json()["verified"], true, "{new:?}");
        self.neighbours.expect_nothing_noticed();
        self.manager.stop(&scene);
    }
}

/// A watchdog that no busy machine makes bite.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn programs_notice_nothing_of_a_service_whose_daemon_is_killed_and_started_again() {
    let mut stage = Stage::new(LONG);
    for _ in 0..10 {
        stage.manager.end_daemon(Signal::KILL);
        stage.manager.follow_daemon(&stage.scene);
    }
    stage.expect_nothing_noticed();
}

#[test]
fn a_program_that_comes_while_no_daemon_runs_waits_for_the_next_one() {
    let mut stage = Stage::new(LONG);
    stage.manager.end_daemon(Signal::KILL);
    let early = start(&mut stage.scene.sample("vector_add", &["--json"]));
    stage.manager.follow_daemon(&stage.scene);
    let early = early.wait().expect_success();
    assert_eq!(early.json()["verified"], true, "{early:?}");
    stage.expect_nothing_noticed();
}

#[test]
fn a_daemon_that_hangs_is_ended_by_its_watchdog_and_programs_notice_nothing() {
    // It speaks at half of the time.
    let mut stage = Stage::new(Duration::from_secs(4));
    let speaks = || stage.manager.listen().iter().any(|line| line == "WATCHDOG=1");
    wait_until("it feeds its watchdog", speaks);
    signal(stage.manager.daemon.pid(), Signal::STOP);
    stage.manager.watch(&stage.scene);
    stage.expect_nothing_noticed();
}
