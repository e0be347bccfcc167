//! Sessions at the command line: what is printed, and the exit status.

use crate::harness::{Setting, names, wait_until};
use std::os::unix::fs::PermissionsExt;

crate::tests! {
    commands_print_what_nvidias_do,
    wrong_commands_say_why,
    empty_lines_are_no_commands,
    a_limit_beyond_the_device_is_said,
    without_a_daemon,
    scripts_may_lack_the_last_newline,
    help_and_version_need_no_daemon,
    files_and_logs,
    a_second_instance_is_refused,
    start_errors_are_printed_by_the_starter,
    commands_of_later_say_so,
    sessions_are_named_by_pid_and_by_id,
    variables_that_do_nothing_are_reported,
    a_limit_of_files_is_reported,
    report_is_json,
}

fn ok(text: impl Into<String>) -> (String, i32) {
    (text.into(), 0)
}

fn failed(text: impl Into<String>) -> (String, i32) {
    (text.into(), 1)
}

/// Compared with what was captured from NVIDIA's shell, PIDs put in.
fn commands_print_what_nvidias_do() {
    let setting = Setting::new();
    let _daemon = setting.start();
    assert_eq!(setting.command("get_server_list"), ok(""));
    assert_eq!(setting.command("ps"), ok(""));

    let one = setting.client(None).unwrap();
    let two = setting.client(None).unwrap();
    let (server, one_pid, two_pid) = (one.server, one.pid(), two.pid());
    assert_eq!(server, two.server, "one server for one user");
    assert_eq!(setting.command("get_server_list"), ok(format!("{server}\n")));
    assert_eq!(setting.command(&format!("get_server_status {server}")), ok("ACTIVE\n"));
    let clients = format!("{one_pid}\n{two_pid}\n");
    assert_eq!(setting.command(&format!("get_client_list {server}")), ok(clients));

    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace.to_str().unwrap().trim_start_matches("pid:[").trim_end_matches(']');
    let row = |pid: u32, id: u32| {
        format!(
            "{pid:<10}{id:<10}{server:<15}GPU-d0a1cf3e-b77a-11c2    {namespace:<15}/tmp/hold      \n"
        )
    };
    let header = "PID       ID        SERVER         DEVICE                    \
                  NAMESPACE      COMMAND        \n";
    let table = format!("{header}{}{}", row(one_pid, 1), row(two_pid, 2));
    assert_eq!(setting.command("ps"), ok(&table));
    assert_eq!(setting.command(&format!("ps -p {server}")), ok(&table));

    let devices = format!("[0] 00:06.0, NVIDIA H200\n{one_pid}.1\n{two_pid}.2\n");
    assert_eq!(setting.command("get_device_client_list"), ok(&devices));
    assert_eq!(setting.command(&format!("get_device_client_list {server}")), ok(&devices));

    let section = "Device Ordinal,PCI IDs,UUID,Name,Attributes\n\
                   0,0000:00.06.00,GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d,NVIDIA H200,N/A\n";
    let query = format!("Default\n{section}\nServer {server}\n{section}");
    assert_eq!(setting.command("device_query --csv"), ok(query));

    let terminate = format!("terminate_client {server} {one_pid}");
    assert_eq!(setting.command(&terminate), ok("0\n"));
    assert_eq!(
        setting.command(&format!("terminate_client {server} 999999")),
        failed("Invalid process 999999!\n1\n")
    );
    // A user that the system does not have, and the number that is none to setuid.
    for uid in ["4294967294", "4294967295"] {
        let (text, status) = setting.command(&format!("start_server -uid {uid}"));
        assert!(text.starts_with(&format!("there is no user with the id {uid}")), "{text}");
        assert_eq!(status, 1);
    }
    let me = rustix::process::geteuid().as_raw();
    assert_eq!(setting.command(&format!("start_server -uid {me}")), ok(""));
    assert_eq!(setting.command(&format!("shutdown_server {server}")), ok(""));
    assert_eq!(setting.command(&format!("get_server_status {server}")), ok("ACTIVE\n"));
    assert!(setting.command("report").0.contains("\"state\":\"SHUTTING_DOWN\""));
    drop((one, two));
    wait_until("the server ends", || {
        !setting.command("get_server_list").0.contains(&server.to_string())
    });
    assert_eq!(setting.command("quit"), ok(""));
}

fn empty_lines_are_no_commands() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let outcome = setting.script("\n  \nget_server_list\n\r\n\n");
    assert_eq!((outcome.output.as_str(), outcome.errors.as_str(), outcome.status), ("", "", 0));
}

fn a_limit_beyond_the_device_is_said() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let set = "set_default_device_pinned_mem_limit 0";
    assert_eq!(setting.command(&format!("{set} 4G")), (String::new(), 0));
    assert_eq!(
        setting.command(&format!("{set} 99999999G")),
        ("The device has 141G: a limit beyond that limits nothing\n".into(), 0)
    );
    let (text, status) = setting.command(&format!("{set} 999999999999G"));
    assert!(status == 1 && text.contains("is too large"), "{text}");
}

fn wrong_commands_say_why() {
    let setting = Setting::new();
    let _daemon = setting.start();
    for (line, text) in [
        ("bogus", "Unknown command \"bogus\"\n"),
        ("get_server", "Unknown command \"get_server\"\n"),
        ("get_servr_list", "Unknown command \"get_servr_list\"\nDid you mean get_server_list?\n"),
        ("get_active_thread_percentage 1", "Server 1 not found\n"),
        (
            "get_client_list",
            "Server 0 not found\nThe PID of a server is wanted: get_server_list prints them\n",
        ),
        ("get_client_list 1", "Server 1 not found\n"),
        ("get_server_status x", "Server x not found\n"),
        ("ps -p 1", "Server 1 not found\n"),
        ("ps 1", "usage: ps [-p <server PID>]\n"),
        ("shutdown_server 1 -f", "Server 1 not found\n"),
        ("terminate_client 1", "usage: terminate_client <server PID> <client PID | id:ID>\n"),
        ("start_server", "A user id (UID) is required to start a new server\n"),
        ("start_server -uid me", "\"me\" is not a user id\n"),
        ("quit -t 1x", "quit -t wants seconds from 0 to 604800, got \"1x\"\n"),
        ("get_server_list 1", "get_server_list takes no argument, but \"1\" was given\n"),
    ] {
        assert_eq!(setting.command(line), failed(text), "{line}");
    }
    let long = "x".repeat(5000);
    let outcome = setting.control(&[&long]);
    assert_eq!(outcome.status, 1);
    assert_eq!(outcome.errors, "a command may have 4096 bytes, this one has 5000\n");
}

fn without_a_daemon() {
    let setting = Setting::new();
    let expected = ("Cannot find MPS control daemon process\n".to_owned(), 1);
    let outcome = setting.control(&["get_server_list"]);
    assert_eq!((outcome.errors, outcome.status), expected);
    let outcome = setting.script("get_server_list\n");
    assert_eq!((outcome.errors, outcome.status), expected);
}

fn scripts_may_lack_the_last_newline() {
    let setting = Setting::new();
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    let server = client.server;
    let outcome = setting.script(&format!("get_server_list\nget_server_status {server}"));
    assert_eq!((outcome.output, outcome.status), (format!("{server}\nACTIVE\n"), 0));
    let outcome = setting.script("get_server_list\n\nbogus\n");
    let text = format!("{server}\nUnknown command \"bogus\"\n");
    assert_eq!((outcome.output, outcome.status), (text, 1));
    let outcome = setting.script("bogus\nget_server_list\n");
    assert_eq!(outcome.status, 1, "what failed first counts");
    drop(client);
    // The shell outlives the daemon.
    let outcome = setting.script("quit\nps\n");
    assert_eq!(outcome.errors, "Cannot find MPS control daemon process\n");
    assert_eq!(outcome.status, 1);
    wait_until("the daemon ends", || !crate::harness::is_daemon(daemon.pid));
}

fn help_and_version_need_no_daemon() {
    let setting = Setting::new();
    let help = setting.control(&["--help"]);
    assert_eq!(help.status, 0);
    for word in ["-d, --daemon", "get_server_list", "terminate_client", "CUDA_MPS_PIPE_DIRECTORY"] {
        assert!(help.output.contains(word), "{word}");
    }
    let version = setting.control(&["-v"]);
    assert!(version.output.starts_with("CUDA MPS Control binary version: 13000\n"));
    let wrong = setting.control(&["--nonsense"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.errors.contains("unknown option \"--nonsense\""), "{}", wrong.errors);
}

fn files_and_logs() {
    let setting = Setting::new();
    let daemon = setting.start();
    assert_eq!(
        names(&setting.pipe),
        ["control", "control_lock", "control_privileged", "log", "nvidia-cuda-mps-control.pid"]
    );
    let mode = |name: &str| {
        std::fs::symlink_metadata(setting.pipe.join(name)).unwrap().permissions().mode() & 0o777
    };
    let modes = ["control", "control_lock", "control_privileged", "log"].map(mode);
    assert_eq!(modes, [0o666, 0o600, 0o755, 0o600]);
    let client = setting.client(None).unwrap();
    let (pid, server) = (client.pid(), client.server);
    drop(client);
    assert_eq!(setting.command("get_server_list").0, format!("{server}\n"));
    setting.wait_for_closed_shells(1);
    assert_eq!(setting.command("quit -t 1"), ok(""));
    assert_eq!(names(&setting.pipe), [""; 0]);

    let me = rustix::process::geteuid().as_raw();
    let pipe = setting.pipe.display();
    let expected = [
        format!("Starting control daemon using socket {pipe}/control"),
        format!(
            "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={pipe}"
        ),
        "CUDA MPS Control binary version: 13000".to_owned(),
        "Accepting connection...".to_owned(),
        format!(
            "NEW CLIENT {pid} from user {me}: Server is not ready, push client to pending list"
        ),
        format!("Starting new server {server} for user {me}"),
        format!("NEW SERVER {server}: Ready"),
        format!("NEW CLIENT {pid} from user {me}: Server already exists"),
        "NEW UI".to_owned(),
        "Cmd:get_server_list".to_owned(),
        format!("{server}"),
        "UI closed".to_owned(),
        "NEW UI".to_owned(),
        "Cmd:quit -t 1".to_owned(),
        "quit command issued with timeout of 1".to_owned(),
        format!("Try shutting down server {server}, backoff is disabled"),
        format!("Server {server} exited with status 0"),
        "Exit with status 0".to_owned(),
    ];
    let log = setting.control_log();
    let stamp = format!(" Control {:5}] ", daemon.pid);
    let lines: Vec<&str> = log.lines().map(|line| line.split_once(&stamp).expect(line).1).collect();
    // When it is found out lies between start and end.
    let device = "Device 0: NVIDIA H200 (uuid GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d)";
    assert_eq!(lines.iter().filter(|line| **line == device).count(), 1);
    let lines: Vec<&str> = lines.into_iter().filter(|line| *line != device).collect();
    assert_eq!(lines[..expected.len()], expected);
    wait_until("the server's line", || !setting.server_log().is_empty());
    assert_eq!(setting.server_log(), "Startup\n");
}

fn a_second_instance_is_refused() {
    let setting = Setting::new();
    let daemon = setting.start();
    for flag in ["-d", "-f"] {
        let outcome = setting.control(&[flag]);
        assert_eq!(outcome.errors, "An instance of this daemon is already running\n");
        assert_eq!(outcome.status, 1);
    }
    assert_eq!(setting.daemon_pid(), daemon.pid);
    assert_eq!(setting.command("get_server_list"), ok(""));
}

fn start_errors_are_printed_by_the_starter() {
    let mut setting = Setting::new();
    setting.pipe = setting.scratch.0.join("x".repeat(100));
    let outcome = setting.control(&["-d"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.errors.contains("a socket's path allows at most"), "{}", outcome.errors);

    let file = setting.scratch.0.join("file");
    std::fs::write(&file, "").unwrap();
    setting.pipe = file.join("pipe");
    let outcome = setting.control(&["-d"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.errors.contains("file/pipe"), "{}", outcome.errors);

    setting.pipe = file.clone();
    let outcome = setting.control(&["-d"]);
    let expected = format!("the pipe directory {} is a file: set CUDA_MPS", file.display());
    assert!(outcome.errors.starts_with(&expected), "{}", outcome.errors);

    // A log directory that cannot be is no reason not to start.
    setting.pipe = setting.scratch.0.join("pipe");
    let mut command = setting.program(crate::stand_in::CONTROL);
    let output =
        command.arg("-d").env("CUDA_MPS_LOG_DIRECTORY", file.join("logs")).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cannot write logs in") && errors.contains("they are written in"));
    assert!(setting.pipe.join("control.log").exists());
    assert_eq!(setting.command("quit"), ok(""));
}

fn commands_of_later_say_so() {
    let setting = Setting::new();
    let _daemon = setting.start();
    for name in ["lspart", "sm_partition add x 1"] {
        let text = format!("Unknown command \"{name}\"\nThe daemon has to be started with -S\n");
        assert_eq!(setting.command(name), failed(text));
    }
    // What asks whether the daemon lives (Kubernetes' device plugin) gets its answer.
    assert_eq!(setting.command("get_default_active_thread_percentage"), ok("100.0\n"));
    let server = setting.client(None).unwrap().server;
    assert_eq!(setting.command(&format!("get_active_thread_percentage {server}")), ok("100.0\n"));
}

fn report_is_json() {
    let setting = Setting::new();
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    let (text, status) = setting.command("report");
    assert_eq!(status, 0);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["pid"], &report["stopping"]), (&daemon.pid.into(), &false.into()));
    assert_eq!(report["servers"][0]["pid"], client.server);
    let row = &report["servers"][0]["clients"][0];
    assert_eq!((&row["pid"], &row["kernels"]), (&client.pid().into(), &7.into()));
    assert_eq!(row["memory_bytes"], 1 << 20);
    assert!(!setting.control_log().contains("Cmd:report"));
}

fn sessions_are_named_by_pid_and_by_id() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let (one, two) = (setting.client(None).unwrap(), setting.client(None).unwrap());
    let server = one.server;
    for name in [&two.pid().to_string(), "id:2", "id:1"] {
        assert_eq!(setting.command(&format!("terminate_client {server} {name}")), ok("0\n"));
    }
    for name in ["id:3", "id:0", "0", "2"] {
        let text = format!("Invalid process {name}!\n1\n");
        assert_eq!(setting.command(&format!("terminate_client {server} {name}")), failed(text));
    }
}

fn variables_that_do_nothing_are_reported() {
    let setting = Setting::new();
    let mut start = setting.program(crate::stand_in::CONTROL);
    start.arg("-d").env("CUDA_MPS_CLIENT_PRIORITY", "7").env("OPENMPS_CPUS", "3-1");
    assert!(start.output().unwrap().status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    let report: control::report::Report =
        serde_json::from_str(&setting.command("report").0).unwrap();
    for (name, allowed) in [("CUDA_MPS_CLIENT_PRIORITY", "0 (normal)"), ("OPENMPS_CPUS", "0-3,8")] {
        let warning = report.warnings.iter().find(|text| text.contains(name)).expect(name);
        assert!(warning.contains(allowed), "{warning}");
        assert!(setting.control_log().contains(warning.as_str()), "{warning}");
    }
}

fn a_limit_of_files_is_reported() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let setting = Setting::new();
    let before = getrlimit(Resource::Nofile);
    // The soft limit alone is raised again; what is inherited is both.
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..before }).unwrap();
    let soft = setting.start();
    setrlimit(Resource::Nofile, before).unwrap();
    let report = || -> control::report::Report {
        serde_json::from_str(&setting.command("report").0).unwrap()
    };
    assert_eq!(report().descriptors_max, before.maximum);
    drop(soft);
    let start = setting.program(crate::stand_in::CONTROL);
    let shell = std::process::Command::new("bash")
        .args(["-c", "ulimit -n 128; exec -a stand-in-control \"$0\" -d"])
        .arg(std::env::current_exe().unwrap())
        .envs(start.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output();
    assert!(shell.unwrap().status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    assert_eq!(report().descriptors_max, Some(128));
    assert!(report().warnings[0].starts_with("only 128 open files are allowed (ulimit -Hn)"));
    assert!(setting.control_log().contains("only 128 open files are allowed"));
}
