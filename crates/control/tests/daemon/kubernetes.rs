//! Kubernetes: what NVIDIA's device plugin and DRA driver do with a daemon, step by step.

use crate::harness::{ClientProcess, Daemon, NOBODY, Setting, is_root, wait_until};
use crate::stand_in::{CONTROL, DEVICES};
use control::report::Report;
use std::io::Write;
use std::process::{Command, Output, Stdio};

crate::tests! {
    the_device_plugin_starts_limits_watches_and_stops_it,
    the_dra_driver_s_pod_starts_limits_and_follows_the_log,
    the_daemon_of_nvidia_s_fractions_takes_its_file_and_quit_by_a_pipe,
}

/// The control program with the two directories in its environment and nothing else, as the plugin runs it:
/// no PATH, no HOME.
fn bare(setting: &Setting) -> Command {
    let mut command = setting.program(CONTROL);
    command.env_clear();
    command.env("CUDA_MPS_PIPE_DIRECTORY", &setting.pipe);
    command.env("CUDA_MPS_LOG_DIRECTORY", setting.logs()).env(DEVICES, setting.devices.to_string());
    command
}

/// `echo` of a command into the control program, by a pipe and without an end of line.
fn echo(setting: &Setting, command: &str) -> Output {
    let mut child = bare(setting).stdin(Stdio::piped()).spawn().expect("to run");
    let mut input = child.stdin.take().expect("a pipe");
    // Without a daemon the program may end before it reads, as with echo.
    let _ = input.write_all(command.as_bytes());
    drop(input);
    child.wait_with_output().expect("to end")
}

fn said(output: Output) -> (String, bool) {
    (String::from_utf8(output.stdout).expect("text"), output.status.success())
}

/// `cmd/mps-control-daemon/mps/daemon.go`: directories, `-d`, a limit a device by index, a share, a look
/// whether it lives, `quit`. Its log tailer prints control.log from the beginning.
fn the_device_plugin_starts_limits_watches_and_stops_it() {
    let mut setting = Setting::new();
    setting.devices = 2;
    for directory in [&setting.pipe, &setting.logs()] {
        std::fs::create_dir_all(directory).unwrap();
    }
    let alive = || said(echo(&setting, "get_default_active_thread_percentage"));
    assert!(!alive().1, "not alive before");
    let started = bare(&setting).arg("-d").output().unwrap();
    assert!(started.status.success(), "{started:?}");
    let _daemon = Daemon { pid: setting.daemon_pid() };
    let (memory_mib, replicas) = (143_771_u64, 4);
    for index in 0..2 {
        let line =
            format!("set_default_device_pinned_mem_limit {index} {}M", memory_mib / replicas);
        assert_eq!(said(echo(&setting, &line)), (String::new(), true), "{line}");
    }
    let line = format!("set_default_active_thread_percentage {}", 100 / replicas);
    assert_eq!(said(echo(&setting, &line)), ("25.0\n".to_owned(), true));
    assert_eq!(alive(), ("25.0\n".to_owned(), true));

    // Pods of two users, where root's daemon has them.
    let other = is_root().then_some(NOBODY);
    let clients = [setting.client(None).unwrap(), setting.client(other).unwrap()];
    let report: Report = serde_json::from_str(&setting.command("report").0).unwrap();
    let limits: Vec<_> =
        report.servers.iter().flat_map(|s| &s.clients).map(|c| &c.limits).collect();
    assert_eq!(limits.len(), 2);
    assert!(
        limits.iter().all(|l| (l.memory_bytes, l.sms) == (Some(35_942 << 20), 32)),
        "{limits:?}"
    );
    drop(clients);

    let log = setting.control_log();
    for line in [
        "Starting control daemon using socket ",
        "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=",
        "CUDA MPS Control binary version: ",
        "Accepting connection...",
        "Cmd:set_default_device_pinned_mem_limit 1 35942M",
        "Cmd:get_default_active_thread_percentage",
        "NEW SERVER",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(said(echo(&setting, "quit")), (String::new(), true));
    assert!(!alive().1, "not alive afterwards");
    assert!(!setting.pipe.join("control").exists());
}

/// `templates/mps-control-daemon.tmpl.yaml`: a shell with `set -e` that then follows control.log.
fn the_dra_driver_s_pod_starts_limits_and_follows_the_log() {
    let setting = Setting::new();
    std::fs::create_dir_all(setting.logs()).unwrap();
    let script = r#"set -e
rm -f "$CUDA_MPS_LOG_DIRECTORY/startup.log"
control -d
echo set_default_active_thread_percentage 50 | control
echo set_default_device_pinned_mem_limit GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d 10240M | control
echo "startup complete" > "$CUDA_MPS_LOG_DIRECTORY/startup.log"
exec tail -n +1 -f "$CUDA_MPS_LOG_DIRECTORY/control.log" > "$CUDA_MPS_LOG_DIRECTORY/followed"
"#;
    let own = std::env::current_exe().unwrap();
    let control = format!("control() {{ (exec -a {CONTROL} '{}' \"$@\"); }}\n", own.display());
    let inherited = setting.program(CONTROL);
    let mut pod = Command::new("bash");
    pod.args(["-c", &(control + script)]);
    pod.envs(inherited.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut pod = pod.env("CUDA_VISIBLE_DEVICES", "0").stdout(Stdio::null()).spawn().unwrap();
    let file = |name: &str| std::fs::read_to_string(setting.logs().join(name)).unwrap_or_default();
    wait_until("the pod's startup probe", || file("startup.log") == "startup complete\n");
    let _daemon = Daemon { pid: setting.daemon_pid() };
    let client = setting.client(None).unwrap();
    let report: Report = serde_json::from_str(&setting.command("report").0).unwrap();
    let limits = &report.servers[0].clients[0].limits;
    assert_eq!((limits.memory_bytes, limits.sms), (Some(10 << 30), 66));
    wait_until("the pod's log has the client", || {
        file("followed").contains(&format!("NEW CLIENT {} from user", client.pid()))
    });
    pod.kill().unwrap();
    pod.wait().unwrap();
}

/// `mpsd` of kai-gpu-fractioning: `-p 3 -m -f -a FILE` with a pipe as standard input, by which `quit` comes. Its file
/// has no schema_version, and programs of the daemon's own socket share no context.
fn the_daemon_of_nvidia_s_fractions_takes_its_file_and_quit_by_a_pipe() {
    let mut setting = Setting::new();
    let file = setting.scratch.0.join("mps-control.toml");
    let text = "[features.memacct]\nenabled=true\naudit_log=true\n\n[features.context-share]\nenabled=true\n\
                default_socket=\"off\"\n\n[servers.shared]\n";
    std::fs::write(&file, text).unwrap();
    let mut command = setting.program(CONTROL);
    command.args(["-p", "3", "-f", "-a"]).arg(&file);
    if is_root() {
        command.arg("-m");
    }
    let mut daemon = command.stdin(Stdio::piped()).spawn().unwrap();
    // Its liveness is `test -S` of this file.
    wait_until("its socket", || setting.pipe.join("control").exists());
    wait_until("it answers", || setting.control(&["server", "list"]).status == 0);
    let _guard = Daemon { pid: daemon.id() };
    let field = |name: &str| setting.command(&format!("namespace get default shared {name}"));
    assert_eq!(field("pipe_directory"), field("pipe-directory"));
    assert_eq!(
        field("pipe_directory").0.trim(),
        setting.pipe.join("shared/default").to_string_lossy()
    );
    assert_eq!(field("server_status"), field("server-status"));

    // The daemon's own socket is for time slicing, a namespace's for sharing.
    let alone = [setting.client(None).unwrap(), setting.client(None).unwrap()];
    let own = setting.pipe.clone();
    setting.pipe = own.join("shared/default");
    let shared: [ClientProcess; 2] = [setting.client(None).unwrap(), setting.client(None).unwrap()];
    setting.pipe = own;
    assert_ne!(alone[0].server, alone[1].server, "each has a server of its own");
    assert_eq!(shared[0].server, shared[1].server, "they share one");
    drop((alone, shared));

    let mut input = daemon.stdin.take().unwrap();
    input.write_all(b"namespace create a --server=shared\n").unwrap();
    wait_until("a command of the pipe", || setting.pipe.join("shared/a/control").exists());
    input.write_all(b"quit\n").unwrap();
    assert!(daemon.wait().unwrap().success());
    assert!(!setting.pipe.join("control").exists());

    // The end of the pipe is no command.
    let mut daemon = setting.program(CONTROL).arg("-f").stdin(Stdio::piped()).spawn().unwrap();
    drop(daemon.stdin.take());
    let _guard = Daemon { pid: daemon.id() };
    wait_until("it answers", || setting.control(&["get_server_list"]).status == 0);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(setting.command("quit"), (String::new(), 0));
    assert!(daemon.wait().unwrap().success());
}
