//! Supervision: daemons and servers that start, crash, hang and end.

use crate::harness::{Setting, is_daemon, kill, names, signal, wait_until};
use crate::stand_in::CONTROL;
use control::report::Report;
use rustix::process::Signal;
use std::process::Stdio;

crate::tests! {
    one_of_many_starts_wins,
    a_killed_daemon_is_taken_over,
    signals_end_daemon_and_servers,
    clients_wait_for_a_slow_server,
    a_killed_server_is_replaced,
    a_server_that_crashes_is_not_started_over_and_over,
    a_server_that_cannot_start_says_why,
    a_server_that_talks_nonsense_is_ended,
    a_hung_server_is_named,
    a_server_that_will_not_end_is_killed,
    quit_waits_for_clients,
    a_quit_that_waits_can_be_cancelled,
    a_draining_server_takes_no_new_clients,
    a_server_that_fails_later_is_replaced,
    a_refused_termination_is_a_failure,
    after_a_fault_newcomers_get_a_new_server,
    an_idle_server_of_another_user_leaves,
    sighup_opens_the_logs_again,
    logs_that_were_moved_or_deleted_are_made_again,
    a_stopped_daemon_is_named,
    a_stopped_server_is_named,
}

fn one_of_many_starts_wins() {
    let setting = Setting::new();
    let children: Vec<_> =
        (0..8).map(|_| setting.program(CONTROL).arg("-d").spawn().unwrap()).collect();
    let mut started = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => started += 1,
            _ => assert_eq!(output.stderr, b"An instance of this daemon is already running\n"),
        }
    }
    assert_eq!(started, 1);
    assert_eq!(setting.command("quit"), (String::new(), 0));
}

fn a_killed_daemon_is_taken_over() {
    let setting = Setting::new();
    let first = setting.start();
    let client = setting.client(None).unwrap();
    kill(first.pid);
    assert_eq!(names(&setting.pipe).len(), 5, "its files are left");
    let second = setting.start();
    assert_ne!(first.pid, second.pid);
    let other = setting.client(None).unwrap();
    assert_ne!(client.server, other.server);
    drop((client, other));
    assert_eq!(setting.command("quit"), (String::new(), 0));
    assert_eq!(names(&setting.pipe), [""; 0]);
}

fn signals_end_daemon_and_servers() {
    for (number, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT")] {
        let setting = Setting::new();
        let mut child = setting.program(CONTROL).arg("-f").stderr(Stdio::null()).spawn().unwrap();
        wait_until("the daemon accepts", || setting.pipe.join("control").exists());
        let client = setting.client(None).unwrap();
        signal(child.id(), number);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{name}");
        assert!(!is_daemon(client.server), "{name}");
        assert_eq!(names(&setting.pipe), [""; 0], "{name}");
    }
}

fn clients_wait_for_a_slow_server() {
    let setting = Setting::with_behaviour("slow");
    let _daemon = setting.start();
    let clients: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| setting.client(None).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(clients.iter().all(|client| client.server == clients[0].server));
    let log = setting.control_log();
    assert_eq!(log.matches("Starting new server").count(), 1);
    assert!(log.contains("push client to pending list"));
}

fn a_killed_server_is_replaced() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    signal(client.server, Signal::KILL);
    let listed = format!("{}\n", client.server);
    wait_until("the daemon notices", || !setting.command("get_server_list").0.contains(&listed));
    let line = format!("Server {} was killed by signal 9", client.server);
    assert!(setting.control_log().contains(&line));
    let next = setting.client(None).unwrap();
    assert_ne!(next.server, client.server);
    // Its client is written down, although the server cannot say what it used.
    let book = std::fs::read_to_string(setting.logs().join("accounting.jsonl")).expect("a file");
    let lines: Vec<&str> = book.lines().filter(|line| line.contains("\"lost\":true")).collect();
    assert_eq!(lines.len(), 1, "{book}");
    assert!(lines[0].contains(&format!("\"server\":{},", client.server)), "{book}");
}

fn a_server_that_crashes_is_not_started_over_and_over() {
    let setting = Setting::with_behaviour("crash");
    let _daemon = setting.start();
    for _ in 0..3 {
        let refused = setting.client(None).err().unwrap();
        assert!(refused.starts_with("refused 805 the server did not start: server "), "{refused}");
        assert!(refused.ends_with("exited with status 3"), "{refused}");
    }
    // Now there is a pause of a second. Shells get an answer; a client waits and gets one after. A shell that
    // is slower than the pause has one more server started, and the next pause is longer.
    let me = rustix::process::geteuid().as_raw();
    let mut text = String::new();
    wait_until("a pause is reported", || {
        let (said, status) = setting.command(&format!("start_server -uid {me}"));
        assert_eq!(status, 1, "{said}");
        let started = said.starts_with("the server did not start: server ");
        text = said;
        !started
    });
    let counted = text.strip_prefix("the server failed ").and_then(|rest| rest.split_once(' '));
    let (count, rest) = counted.unwrap_or_else(|| panic!("{text}"));
    assert!(rest.starts_with("times, last: server "), "{text}");
    let count: usize = count.parse().unwrap();
    assert!(count >= 3, "{text}");
    let starts = || setting.control_log().matches("Starting new server").count();
    assert_eq!(starts(), count, "{text}");
    setting.client(None).err().unwrap();
    // The client is notified first, then the log.
    wait_until("the pause is logged", || {
        setting.control_log().contains(&format!("failed {} times, no new one for ", count + 1))
    });
    assert_eq!(starts(), count + 1, "{}", setting.control_log());
}

fn a_server_that_cannot_start_says_why() {
    let setting = Setting::with_behaviour("fail");
    let _daemon = setting.start();
    assert_eq!(
        setting.client(None).err().unwrap(),
        "refused 805 the server did not start: no device"
    );
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(
        setting.command(&format!("start_server -uid {user}")),
        ("the server did not start: no device\n".into(), 1)
    );
}

fn a_server_that_talks_nonsense_is_ended() {
    let setting = Setting::with_behaviour("garbage");
    let _daemon = setting.start();
    let refused = setting.client(None).err().unwrap();
    assert!(refused.contains("does not speak this protocol"), "{refused}");
    assert!(setting.control_log().contains("is not understood"));
}

fn a_hung_server_is_named() {
    let setting = Setting::with_behaviour("hang");
    let _daemon = setting.start();
    let me = rustix::process::geteuid().as_raw();
    assert_eq!(setting.command(&format!("start_server -uid {me}")), (String::new(), 0));
    let server = setting.command("get_server_list").0.trim().to_owned();
    let expected = (format!("Server {server} does not answer\n"), 1);
    assert_eq!(setting.command("ps"), expected);
    assert_eq!(setting.command(&format!("get_client_list {server}")), expected);
}

fn a_server_that_will_not_end_is_killed() {
    let setting = Setting::with_behaviour("stay");
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    assert_eq!(setting.command("quit -t 0"), (String::new(), 0));
    assert!(setting.control_log().contains("does not end, killing it"));
    assert!(!is_daemon(client.server));
    wait_until("the daemon ends", || !is_daemon(daemon.pid));
}

fn a_quit_that_waits_can_be_cancelled() {
    let setting = Setting::new();
    let daemon = setting.start();
    let cancel = || setting.command("cancel_quit");
    assert_eq!(cancel(), ("The daemon is not shutting down\n".to_owned(), 1));
    let client = setting.client(None).unwrap();
    let old = client.server;
    let mut shell = setting.program(CONTROL).args(["quit", "-t", "100"]).spawn().unwrap();
    let report = || -> Report { serde_json::from_str(&setting.command("report").0).unwrap() };
    wait_until("it is reported", || report().stopping);
    assert!(setting.client(None).is_err(), "no newcomers");
    assert_eq!(cancel(), (String::new(), 0));
    assert!(!shell.wait().unwrap().success(), "the daemon has not ended");
    assert!(!report().stopping);
    let newcomer = setting.client(None).unwrap();
    assert_ne!(newcomer.server, old, "the one that was asked to end does so");
    drop(client);
    wait_until("the old server ends", || !report().servers.iter().any(|of| of.pid == old));
    drop(newcomer);
    assert!(crate::harness::is_daemon(daemon.pid));
    assert_eq!(setting.command("quit"), (String::new(), 0));
}

fn quit_waits_for_clients() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let mut waiting = setting.program(CONTROL).arg("quit").spawn().unwrap();
    let report =
        || -> serde_json::Value { serde_json::from_str(&setting.command("report").0).unwrap() };
    wait_until("quit is heard", || report()["stopping"] == true);
    assert!(setting.control_log().contains("quit command issued"));
    let refused = setting.client(None).err().unwrap();
    assert_eq!(refused, "refused 807 the daemon is shutting down");
    assert!(waiting.try_wait().unwrap().is_none(), "a client is there");
    // Commands still work, and another quit can have it end at once.
    assert_eq!(setting.command("get_server_list").0, format!("{}\n", client.server));
    assert_eq!(setting.command("quit -t 0"), (String::new(), 0));
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    assert!(!setting.pipe.join("control").exists());
}

fn a_draining_server_takes_no_new_clients() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let old = setting.client(None).unwrap();
    assert_eq!(setting.command(&format!("shutdown_server {}", old.server)).1, 0);
    let new = setting.client(None).unwrap();
    assert_ne!(old.server, new.server);
    let list = format!("{}\n{}\n", old.server, new.server);
    assert_eq!(setting.command("get_server_list").0, list);
    assert_eq!(setting.command(&format!("shutdown_server {} -f", new.server)).1, 0);
    wait_until("it ends", || setting.command("get_server_list").0 == format!("{}\n", old.server));
}

/// A server that says why it fails when it is ready already: no client is sent to it any more, and
/// the next one starts.
fn a_server_that_fails_later_is_replaced() {
    let setting = Setting::with_behaviour("fail later");
    let _daemon = setting.start();
    let first = setting.client(None).unwrap();
    assert_eq!(setting.command(&format!("terminate_client {} 1", first.server)).1, 1);
    let pid = first.pid();
    // It fails when it has to terminate a client.
    assert_eq!(
        setting.command(&format!("terminate_client {} {pid}", first.server)),
        (format!("Server {} not found\n", first.server), 1)
    );
    let listed = format!("{}\n", first.server);
    wait_until("its end is noticed", || !setting.command("get_server_list").0.contains(&listed));
    let log = setting.control_log();
    assert!(log.contains(&format!("Server {} failed: no more\n", first.server)), "{log}");
    let next = setting.client(None).unwrap();
    assert_ne!(first.server, next.server);
}

fn a_refused_termination_is_a_failure() {
    let setting = Setting::with_behaviour("refuse");
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let pid = client.pid();
    assert_eq!(
        setting.command(&format!("terminate_client {} {pid}", client.server)),
        (format!("client {pid} could not be terminated: CUDA_ERROR_UNKNOWN\n999\n"), 1)
    );
}

/// The old server serves those that it has; no process waits for them. It is notified when it may end.
fn after_a_fault_newcomers_get_a_new_server() {
    let setting = Setting::with_behaviour("fault");
    let _daemon = setting.start();
    let old = setting.client(None).unwrap();
    // It meets its fault when it has to terminate a client.
    assert_eq!(setting.command(&format!("terminate_client {} id:1", old.server)).1, 0);
    assert_eq!(
        setting.command(&format!("get_server_status {}", old.server)),
        ("FAULT\n".into(), 0)
    );
    let new = setting.client(None).unwrap();
    assert_ne!(old.server, new.server);
    assert!(is_daemon(old.server), "its client is still there");
    let line = "has met a fatal fault: CUDA_ERROR_ILLEGAL_ADDRESS";
    assert!(setting.control_log().contains(line));
    let server = old.server;
    drop(old);
    wait_until("the old one ends", || !is_daemon(server));
}

fn an_idle_server_of_another_user_leaves() {
    if !crate::harness::is_root() {
        crate::skip("only root can be several users");
    }
    let setting = Setting::new();
    let started = setting.program(CONTROL).arg("-d").env("OPENMPS_IDLE_S", "1").output().unwrap();
    assert!(started.status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    let own = setting.client(None).unwrap().server;
    let (staying, other) = {
        let client = setting.client(Some(crate::harness::NOBODY)).unwrap();
        (setting.client(Some(crate::harness::NOBODY)).unwrap(), client.server)
    };
    // Root's own has been idle for longer than the other will have been.
    drop(staying);
    wait_until("the other one leaves", || {
        setting.command("get_server_list").0 == format!("{own}\n")
    });
    let log = setting.control_log();
    assert!(log.contains(&format!("Server {other} of user 65534 has had no client for 1 s")));
    let next = setting.client(Some(crate::harness::NOBODY)).unwrap();
    assert_ne!(next.server, other);
}

fn sighup_opens_the_logs_again() {
    let setting = Setting::new();
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    let logs = setting.logs();
    std::fs::rename(logs.join("control.log"), logs.join("control.log.1")).unwrap();
    signal(daemon.pid, Signal::HUP);
    wait_until("a new log", || logs.join("control.log").exists());
    wait_until("its line", || setting.control_log().contains("Logs are opened again, as SIGHUP"));
    assert!(is_daemon(daemon.pid) && is_daemon(client.server));
    assert_eq!(setting.command("get_server_list").0, format!("{}\n", client.server));
}

fn logs_that_were_moved_or_deleted_are_made_again() {
    let setting = Setting::new();
    let _daemon = setting.start();
    for name in ["control.log", "server.log"] {
        std::fs::remove_file(setting.logs().join(name)).unwrap();
    }
    let client = setting.client(None).unwrap();
    assert!(setting.control_log().contains(&format!("NEW CLIENT {}", client.pid())));
    wait_until("the server's line", || setting.server_log().contains("Startup"));
}

/// Continues a process at the end, in every case: a stopped one would outlive the test.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Stopped {
        signal(pid, Signal::STOP);
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, Signal::CONT);
    }
}

fn a_stopped_daemon_is_named() {
    let setting = Setting::new();
    let daemon = setting.start();
    let stopped = Stopped::new(daemon.pid);
    let pid = daemon.pid;
    for arguments in [&["ps"][..], &["quit"]] {
        let outcome = setting.control(arguments);
        let expected = format!(
            "the daemon in {} does not answer: it is stopped, kill -CONT {pid} lets it go on\n",
            setting.pipe.display()
        );
        assert_eq!((outcome.errors, outcome.status), (expected, 1), "{arguments:?}");
    }
    drop(stopped);
}

fn a_stopped_server_is_named() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let server = client.server;
    let stopped = Stopped::new(server);
    let text = format!(
        "Server {server} does not answer: it is stopped, kill -CONT {server} lets it go on\n"
    );
    assert_eq!(setting.command("ps"), (text.clone(), 1));
    // It is asked to end, and does not hear it.
    let outcome = setting.control(&["quit"]);
    assert_eq!((outcome.errors.lines().next(), outcome.status), (Some(text.trim_end()), 1));
    drop(stopped);
}
