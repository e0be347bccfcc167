//! Commands, variables, files and log lines held against what NVIDIA's daemon was seen to do on an H200
//! (driver 580, binary version 13000): the same bytes, but a failure says why and exits with 1.

use crate::harness::{Daemon, Setting, names, wait_until};
use crate::stand_in::CONTROL;
use control::report::Report;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};

crate::tests! {
    commands_print_the_captured_bytes,
    without_a_daemon_and_with_a_second_one,
    files_of_the_pipe_directory,
    help_lists_what_nvidias_does,
    control_log_tells_a_client_s_life,
    variables_of_daemon_and_client,
    quit_waits_for_clients,
}

/// What a command printed there, and how it ends here.
enum Printed {
    /// The same, with status 0.
    Same(&'static str),
    /// The same after words that say why, with status 1; NVIDIA's shell says only this, with status 0.
    After(&'static str),
    /// The same at the beginning, with status 1.
    Before(&'static str),
}

use Printed::{After, Before, Same};

const UUID: &str = "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d";
const PS_HEAD: &str =
    "PID       ID        SERVER         DEVICE                    NAMESPACE      COMMAND        \n";

/// With one server and two clients. SERVER, ONE, TWO and INODE stand for numbers, <...> pads to a column.
const COMMANDS: &[(&str, Printed)] = &[
    ("get_server_list", Same("SERVER\n")),
    (
        "ps",
        Same(
            "PS_HEAD<ONE,10><1,10><SERVER,15>GPU-d0a1cf3e-b77a-11c2    <INODE,15>/tmp/hold      \n\
                 <TWO,10><2,10><SERVER,15>GPU-d0a1cf3e-b77a-11c2    <INODE,15>/tmp/hold      \n",
        ),
    ),
    (
        "ps -p SERVER",
        Same(
            "PS_HEAD<ONE,10><1,10><SERVER,15>GPU-d0a1cf3e-b77a-11c2    <INODE,15>/tmp/hold      \n\
                           <TWO,10><2,10><SERVER,15>GPU-d0a1cf3e-b77a-11c2    <INODE,15>/tmp/hold      \n",
        ),
    ),
    ("get_client_list SERVER", Same("ONE\nTWO\n")),
    ("get_client_list 1", Before("Server 1 not found\n")),
    ("get_server_status 1", Before("Server 1 not found\n")),
    ("set_active_thread_percentage 1 50", Before("Server 1 not found\n")),
    ("get_client_list", Before("Server 0 not found\n")),
    ("get_server_status SERVER", Same("ACTIVE\n")),
    ("get_device_client_list", Same("[0] 00:06.0, NVIDIA H200\nONE.1\nTWO.2\n")),
    ("get_device_client_list SERVER", Same("[0] 00:06.0, NVIDIA H200\nONE.1\nTWO.2\n")),
    ("device_query", Same("Default\nDEVICES\nServer SERVER\nDEVICES")),
    ("device_query --csv", Same("Default\nCSV\nServer SERVER\nCSV")),
    ("get_default_active_thread_percentage", Same("100.0\n")),
    ("set_default_active_thread_percentage 150", After("100.0\n")),
    ("set_default_active_thread_percentage 0", After("100.0\n")),
    ("set_default_active_thread_percentage abc", After("100.0\n")),
    ("set_default_active_thread_percentage 40", Same("40.0\n")),
    ("get_default_active_thread_percentage", Same("40.0\n")),
    ("set_active_thread_percentage SERVER 55.5", Same("55.5\n")),
    ("get_active_thread_percentage SERVER", Same("55.5\n")),
    ("get_default_device_pinned_mem_limit 0", Same("")),
    ("set_default_device_pinned_mem_limit 0 xyz", After("")),
    ("set_default_device_pinned_mem_limit 0 1G", Same("")),
    ("get_default_device_pinned_mem_limit 0", Same("1G\n")),
    ("get_default_device_pinned_mem_limit 5", Same("")),
    ("set_device_pinned_mem_limit SERVER 0 2G", Same("")),
    ("get_device_pinned_mem_limit SERVER 0", Same("2G\n")),
    ("set_default_client_priority 7", Before("Invalid priority value - must be 0 or 1!\n")),
    ("get_default_client_priority", Same("0\n")),
    ("set_default_client_priority 1", Same("")),
    ("get_default_client_priority", Same("1\n")),
    ("terminate_client SERVER 999999", Before("Invalid process 999999!\n1\n")),
    ("terminate_client SERVER ONE", Same("0\n")),
    ("start_server", Before("A user id (UID) is required to start a new server\n")),
    ("start_server -uid UID", Same("")),
    ("bogus", Before("Unknown command \"bogus\"\n")),
    // To an empty line NVIDIA's says `Unknown command ""`. It is no mistake of a script's, so nothing is said here.
    ("", Same("")),
    ("lspart", Before("Unknown command \"lspart\"\n")),
    ("sm_partition add x 1", Before("Unknown command \"sm_partition add x 1\"\n")),
    // There a wrong number is taken for 1 s.
    ("quit -t 1x", After("")),
    ("shutdown_server SERVER", Same("")),
];

fn devices(csv: bool) -> String {
    match csv {
        true => format!(
            "Device Ordinal,PCI IDs,UUID,Name,Attributes\n0,0000:00.06.00,{UUID},NVIDIA H200,N/A\n"
        ),
        false => format!(
            "Device Ordinal  PCI IDs        UUID                                      Name                              Attributes\n\
             0               0000:00.06.00  {UUID}  NVIDIA H200                       N/A\n"
        ),
    }
}

/// `<word,width>` as a column.
fn padded(text: &str) -> String {
    let mut parts = text.split('<');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (column, rest) = part.split_once('>').expect("a column's end");
        let (word, width) = column.split_once(',').expect("a width");
        let width: usize = width.parse().expect("a number");
        out.push_str(&format!("{word:width$}{rest}"));
    }
    out
}

fn commands_print_the_captured_bytes() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let (one, two) = (setting.client(None).unwrap(), setting.client(None).unwrap());
    let inode = std::fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().into_owned();
    let inode = inode.trim_start_matches("pid:[").trim_end_matches(']').to_owned();
    let filled = |text: &str| {
        let text = text
            .replace("PS_HEAD", PS_HEAD)
            .replace("SERVER,15", &format!("{},15", one.server))
            .replace("DEVICES", &devices(false))
            .replace("CSV", &devices(true))
            .replace("INODE", &inode)
            .replace("ONE", &one.pid().to_string())
            .replace("TWO", &two.pid().to_string())
            .replace("UID\n", "\u{1}")
            .replace("-uid UID", &format!("-uid {}", rustix::process::geteuid().as_raw()));
        // The header's own words are no place holders.
        let text = text
            .replace("ID        SERVER  ", "\u{2}")
            .replace("Server SERVER", &format!("Server {}", one.server));
        text.replace("SERVER", &one.server.to_string())
            .replace('\u{2}', "ID        SERVER  ")
            .replace('\u{1}', "UID\n")
    };
    for (line, printed) in COMMANDS {
        let line = filled(line);
        let outcome = setting.script(&format!("{line}\n"));
        let (text, status) = (outcome.output.as_str(), outcome.status);
        match printed {
            Same(wanted) => {
                assert_eq!((text, status), (padded(&filled(wanted)).as_str(), 0), "{line}");
            }
            After(wanted) => {
                let reason = text.strip_suffix(wanted).unwrap_or_else(|| panic!("{line}: {text}"));
                assert!(status == 1 && reason.ends_with('\n'), "{line}: {status} {text}");
            }
            Before(wanted) => {
                assert!(status == 1 && text.starts_with(wanted), "{line}: {status} {text}");
            }
        }
    }
    drop((one, two));
    wait_until("the server has ended", || setting.command("get_server_list").0.is_empty());
    assert_eq!(setting.command("ps"), (String::new(), 0), "no client, no table");
}

fn without_a_daemon_and_with_a_second_one() {
    let setting = Setting::new();
    for line in ["get_server_list", "quit", "bogus"] {
        let outcome = setting.control(&[line]);
        let wanted = ("", "Cannot find MPS control daemon process\n", 1);
        assert_eq!((outcome.output.as_str(), outcome.errors.as_str(), outcome.status), wanted);
    }
    let _daemon = setting.start();
    let outcome = setting.control(&["-d"]);
    assert!(outcome.errors.starts_with("An instance of this daemon is already running\n"));
    assert_eq!(outcome.status, 1);
}

fn files_of_the_pipe_directory() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let files =
        ["control", "control_lock", "control_privileged", "log", "nvidia-cuda-mps-control.pid"];
    assert_eq!(names(&setting.pipe), files);
    let file = |name: &str| std::fs::symlink_metadata(setting.pipe.join(name)).unwrap();
    let mode = |name: &str| file(name).permissions().mode() & 0o7777;
    assert!(file("control").file_type().is_socket() && file("log").file_type().is_fifo());
    assert!(file("control_privileged").file_type().is_socket());
    let modes = ["control", "control_lock", "control_privileged", "log"].map(mode);
    // NVIDIA's lock file is 0666 and its FIFO 0777; that any user could hold the one, and keep daemons out,
    // and write lines as a server's into the other is not repeated.
    assert_eq!(modes, [0o666, 0o600, 0o755, 0o600]);
}

fn help_lists_what_nvidias_does() {
    let setting = Setting::new();
    let outcome = setting.control(&["--help"]);
    assert_eq!((outcome.status, outcome.errors.as_str()), (0, ""));
    for word in [
        "Usage: nvidia-cuda-mps-control [options] [command]",
        "-h, --help",
        "-d, --daemon",
        "-f, --foreground",
        "-M, --multiuser-server",
        "-q, ",
        "get_server_list",
        "get_server_status <PID>",
        "start_server -uid <user id>",
        "shutdown_server <PID> [-f]",
        "get_client_list <PID>",
        "get_device_client_list [<PID>]",
        "ps [-p <PID>]",
        "terminate_client <server PID> <client PID>",
        "set_default_active_thread_percentage",
        "get_default_active_thread_percentage",
        "set_active_thread_percentage",
        "get_active_thread_percentage",
        "set_default_device_pinned_mem_limit",
        "get_default_device_pinned_mem_limit",
        "set_device_pinned_mem_limit",
        "get_device_pinned_mem_limit",
        "set_default_client_priority",
        "get_default_client_priority",
        "device_query [<PID>] [--csv]",
        "sm_partition",
        "lspart",
        "quit [-t ",
    ] {
        assert!(outcome.output.contains(word), "{word}");
    }
}

fn control_log_tells_a_client_s_life() {
    let setting = Setting::new();
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    let (server, uid) = (client.server, rustix::process::geteuid().as_raw());
    let second = setting.client(None).unwrap();
    setting.command("get_server_list");
    setting.wait_for_closed_shells(1);
    let (one, two) = (client.pid(), second.pid());
    drop((client, second));
    setting.command("quit -t 1");
    wait_until("the daemon ends", || !crate::harness::is_daemon(daemon.pid));
    let log = setting.control_log();
    let pipe = setting.pipe.display();
    let mut rest = log.as_str();
    for line in [
        format!("Starting control daemon using socket {pipe}/control"),
        format!(
            "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={pipe}"
        ),
        "CUDA MPS Control binary version: 13000".to_owned(),
        "Accepting connection...".to_owned(),
        format!(
            "NEW CLIENT {one} from user {uid}: Server is not ready, push client to pending list"
        ),
        format!("Starting new server {server} for user {uid}"),
        format!("NEW SERVER {server}: Ready"),
        format!("NEW CLIENT {one} from user {uid}: Server already exists"),
        format!("NEW CLIENT {two} from user {uid}: Server already exists"),
        "NEW UI".to_owned(),
        "Cmd:get_server_list".to_owned(),
        format!(" {server}"),
        "UI closed".to_owned(),
        "quit command issued with timeout of 1".to_owned(),
        format!("Try shutting down server {server}, backoff is disabled"),
        format!("Server {server} exited with status 0"),
        "Exit with status 0".to_owned(),
    ] {
        let at = rest.find(&line).unwrap_or_else(|| panic!("{line:?} in order: {log}"));
        rest = &rest[at + line.len()..];
    }
    for line in log.lines() {
        let (stamp, _) = line.split_once("] ").expect("a stamp");
        let role = format!(" Control {:5}", daemon.pid);
        assert!(stamp.starts_with('[') && stamp.ends_with(&role), "{line}");
    }
}

/// A variable of the daemon, of the client, and what the client is given: SMs of 132, MiB of memory, priority.
type Row = (&'static str, Option<&'static str>, Option<&'static str>, (u32, Option<u64>, u8));

const VARIABLES: &[Row] = &[
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", None, None, (132, None, 0)),
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Some("50"), None, (66, None, 0)),
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", None, Some("25"), (32, None, 0)),
    // A program can only have less.
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Some("25"), Some("50"), (32, None, 0)),
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Some("50"), Some("25"), (32, None, 0)),
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", Some("150"), None, (132, None, 0)),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Some("0=1G,1=512MB"), None, (132, Some(1024), 0)),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", None, Some("0=512MB"), (132, Some(512), 0)),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Some("0=1G"), Some("0=2G"), (132, Some(1024), 0)),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Some("GPU-d0a1=2G"), Some("0=1G"), (132, Some(1024), 0)),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", Some("1=1G"), None, (132, None, 0)),
    ("CUDA_MPS_CLIENT_PRIORITY", Some("1"), None, (132, None, 1)),
    ("CUDA_MPS_CLIENT_PRIORITY", None, Some("1"), (132, None, 1)),
    ("CUDA_MPS_CLIENT_PRIORITY", Some("1"), Some("0"), (132, None, 0)),
    ("CUDA_MPS_CLIENT_PRIORITY", Some("7"), None, (132, None, 0)),
];

fn variables_of_daemon_and_client() {
    for (name, of_daemon, of_client, (sms, mib, priority)) in VARIABLES {
        let mut setting = Setting::new();
        let mut start = setting.program(CONTROL);
        start.arg("-d").envs(of_daemon.map(|value| (*name, value)));
        assert!(start.output().unwrap().status.success());
        let _daemon = Daemon { pid: setting.daemon_pid() };
        setting.client_environment = of_client.iter().map(|value| (*name, *value)).collect();
        let _client = setting.client(None).unwrap();
        let report: Report = serde_json::from_str(&setting.command("report").0).unwrap();
        let given = &report.servers[0].clients[0].limits;
        let memory = mib.map(|mib| mib << 20);
        assert_eq!(
            (given.sms, given.memory_bytes, given.priority),
            (*sms, memory, *priority),
            "{name}: daemon {of_daemon:?}, client {of_client:?}"
        );
    }
}

fn quit_waits_for_clients() {
    let setting = Setting::new();
    let daemon = setting.start();
    let client = setting.client(None).unwrap();
    let mut shell = setting.program(CONTROL).arg("quit").spawn().unwrap();
    let report = || -> Report { serde_json::from_str(&setting.command("report").0).unwrap() };
    wait_until("it is reported", || report().stopping);
    assert!(shell.try_wait().unwrap().is_none() && crate::harness::is_daemon(daemon.pid));
    drop(client);
    assert!(shell.wait().unwrap().success());
    wait_until("the daemon ends", || !crate::harness::is_daemon(daemon.pid));
}
