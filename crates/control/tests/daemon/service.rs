//! The daemon as a service: its settings file, sockets that a service manager holds, clients of the release
//! before, and the number by which lines about a client are found.

use crate::harness::{Daemon, Setting, is_daemon, kill, signal, wait_until};
use crate::stand_in::CONTROL;
use channel::socket::Listener;
use rustix::process::Signal;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;

crate::tests! {
    a_settings_file_is_taken_at_the_start_and_at_sighup,
    a_wrong_settings_file_starts_no_daemon_and_changes_none,
    sockets_of_a_service_manager_are_taken_and_stay,
    a_client_of_the_release_before_is_served_in_its_version,
    lines_about_a_client_have_its_number,
}

/// A daemon with that settings file.
fn with_file(setting: &Setting, text: &str) -> (Result<Daemon, String>, PathBuf) {
    let path = setting.scratch.0.join("openmps.toml");
    std::fs::write(&path, text).expect("the file");
    let mut command = setting.program(CONTROL);
    let output = command.arg("-d").env("OPENMPS_CONFIG", &path).output().expect("to run");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let daemon = match output.status.success() {
        true => Ok(Daemon { pid: setting.daemon_pid() }),
        false => Err(errors),
    };
    (daemon, path)
}

fn share(setting: &Setting) -> String {
    setting.command("get_default_active_thread_percentage").0
}

fn a_settings_file_is_taken_at_the_start_and_at_sighup() {
    let setting = Setting::new();
    let (daemon, path) = with_file(
        &setting,
        "[daemon]\nactive_thread_percentage = 25\nshare = \"1/n\"\n[server]\nwarm = \"1M\"\n",
    );
    let daemon = daemon.expect("it starts");
    assert_eq!(share(&setting), "25.0\n");
    let client = setting.client(None).expect("it is served");
    std::fs::write(&path, "[daemon]\nactive_thread_percentage = 50\nmultiuser_server = true\n")
        .expect("the file");
    signal(daemon.pid, Signal::HUP);
    wait_until("the file is read again", || setting.control_log().contains("settings changed"));
    assert_eq!(share(&setting), "50.0\n");
    let log = setting.control_log();
    assert!(log.contains("ACTIVE_THREAD_PERCENTAGE is 50, which holds"), "{log}");
    assert!(log.contains("OPENMPS_WARM is its default, which is for servers that start"), "{log}");
    // What a command has set stays if the file says the same as before.
    setting.command("set_default_active_thread_percentage 10");
    signal(daemon.pid, Signal::HUP);
    let times = || setting.control_log().matches("0 settings changed").count();
    wait_until("it is read once more", || times() == 1);
    assert_eq!(share(&setting), "10.0\n");
    assert!(is_daemon(daemon.pid));
    drop(client);
}

fn a_wrong_settings_file_starts_no_daemon_and_changes_none() {
    let setting = Setting::new();
    let (none, _) = with_file(&setting, "[daemon]\n\nstandbye = true\n");
    let said = none.err().expect("it does not start");
    assert!(said.contains("openmps.toml: line 3: ") && said.contains("standby"), "{said}");
    let (daemon, path) = with_file(&setting, "[daemon]\nactive_thread_percentage = 25\n");
    let daemon = daemon.expect("it starts");
    std::fs::write(&path, "[daemon]\nactive_thread_percentage = 250\n").expect("the file");
    signal(daemon.pid, Signal::HUP);
    wait_until("it is refused", || setting.control_log().contains("stay as they were"));
    assert_eq!(share(&setting), "25.0\n");
}

fn sockets_of_a_service_manager_are_taken_and_stay() {
    let setting = Setting::new();
    std::fs::create_dir(&setting.pipe).expect("the directory");
    let path = setting.pipe.join("control");
    let manager = Listener::bind(&path, 0o666).expect("the manager's socket");
    // A shell finds programs by PATH and names them by what it was given.
    let bin = setting.scratch.0.join("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let this = std::env::current_exe().expect("this program");
    std::os::unix::fs::symlink(this, bin.join(CONTROL)).expect("a link");
    let start = || {
        let script = format!(
            "exec 3<&0 </dev/null; PATH={}:$PATH; export LISTEN_PID=$$ LISTEN_FDS=1; exec {CONTROL} -f",
            bin.display()
        );
        let mut shell = std::process::Command::new("sh");
        for (name, value) in setting.program(CONTROL).get_envs() {
            shell.env(name, value.expect("nothing is taken away"));
        }
        let socket = manager.as_fd().try_clone_to_owned().expect("a descriptor");
        shell.args(["-c", &script]).stdin(Stdio::from(socket)).stderr(Stdio::null());
        shell.spawn().expect("to run")
    };
    let served = std::thread::scope(|scope| {
        // A program comes before there is a daemon, and is served when there is one.
        let early = scope.spawn(|| setting.client(None).map(|client| client.pid()));
        let mut first = start();
        let served = early.join().expect("no panic").expect("it is served");
        kill(first.id());
        first.wait().expect("it was killed");
        served
    });
    assert!(served > 0 && path.exists(), "the socket is the manager's");
    // Between two daemons as before the first one.
    std::thread::scope(|scope| {
        let next = scope.spawn(|| setting.client(None).map(|client| client.pid()));
        let mut second = start();
        next.join().expect("no panic").expect("it is served");
        signal(second.id(), Signal::TERM);
        second.wait().expect("it ends");
    });
    assert!(manager.is_in_place(), "an orderly end leaves it too");
}

fn a_client_of_the_release_before_is_served_in_its_version() {
    let mut setting = Setting::new();
    setting.client_environment.push(("STAND_IN_PROTOCOL", "2"));
    let _daemon = setting.start();
    let client = setting.client(None).expect("it is served");
    assert!(client.server > 0);
    setting.client_environment[0].1 = "3";
    setting.client(None).expect("so is one of this release");
}

fn lines_about_a_client_have_its_number() {
    let mut setting = Setting::new();
    setting.client_environment.push(("STAND_IN_REQUEST", "31"));
    let _daemon = setting.start();
    let _client = setting.client(None).expect("it is served");
    let log = setting.control_log();
    let line = log.lines().find(|line| line.contains("NEW CLIENT")).expect("a line");
    assert!(line.ends_with(" (request 0000001f)"), "{line}");
}
