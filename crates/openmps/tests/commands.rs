//! Commands: `openmps run`, `up`, `down` and `ps` at the command line, with real daemons. No
//! program here uses the device, so no server starts and the libraries may be empty files.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A home for one test: runtime directory, libraries; its daemon ends with it.
struct Home(PathBuf);

impl Home {
    fn new() -> Home {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("openmps-commands-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(path.join("lib")).unwrap();
        // No library at all, so that it does not count as a part of one.
        std::fs::write(path.join("lib/libcuda.so.1"), "stand-in ".repeat(9)).unwrap();
        Home(path)
    }

    /// Where this home's daemon lives.
    fn pipe(&self) -> PathBuf {
        self.0.join("openmps")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openmps"));
        command
            .args(arguments)
            .env_remove("CUDA_MPS_PIPE_DIRECTORY")
            .env_remove("CUDA_MPS_LOG_DIRECTORY")
            .env_remove("LD_LIBRARY_PATH")
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("OPENMPS_LIB_DIR", self.0.join("lib"))
            // A daemon of the machine's own is none of these tests' business.
            .env("OPENMPS_SYSTEM_DIRECTORY", self.0.join("system"))
            .stdin(Stdio::null());
        command
    }

    fn openmps(&self, arguments: &[&str]) -> Said {
        Said::from(self.command(arguments).output().unwrap())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mut down = self.command(&["down", "--timeout", "0"]);
        let _ = down.env("CUDA_MPS_PIPE_DIRECTORY", self.pipe()).output();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Output, errors, status.
#[derive(Debug, PartialEq, Eq)]
struct Said(String, String, i32);

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said(text(output.stdout), text(output.stderr), output.status.code().unwrap())
    }
}

#[test]
fn run_starts_a_daemon_once_and_says_so() {
    let home = Home::new();
    let script = "echo $CUDA_MPS_PIPE_DIRECTORY; echo $LD_LIBRARY_PATH; exit 7";
    let pipe = home.pipe().display().to_string();
    let environment = format!("{pipe}\n{}\n", home.0.join("lib").display());
    let Said(output, errors, status) = home.openmps(&["run", "--", "sh", "-c", script]);
    assert_eq!((output, status), (environment.clone(), 7));
    assert!(errors.starts_with("openmps: started a daemon (PID "), "{errors}");
    assert!(errors.ends_with(&format!(") in {pipe}; `openmps down` stops it\n")), "{errors}");
    let again = home.openmps(&["run", "sh", "-c", script]);
    assert_eq!(again, Said(environment, String::new(), 7));
    let mode = std::fs::metadata(home.pipe()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "no other user comes to a private daemon");
    assert!(home.pipe().join("control.log").exists());
}

#[test]
fn up_down_and_ps() {
    let home = Home::new();
    let json = |arguments: &[&str]| -> Value {
        let Said(output, errors, status) = home.openmps(arguments);
        assert_eq!((errors.as_str(), status), ("", 0));
        serde_json::from_str(&output).unwrap()
    };
    let Said(output, errors, status) = home.openmps(&["ps"]);
    assert_eq!((output.as_str(), status), ("", 1));
    assert!(errors.contains("no daemon runs in ") && errors.contains("`openmps up`"), "{errors}");
    assert_eq!(json(&["down", "--json"])["stopped"], false);
    let Said(output, errors, status) = home.openmps(&["ps", "--json"]);
    let nothing: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&nothing["running"], status), (&false.into(), 1));
    assert!(errors.contains("no daemon runs in "), "{errors}");

    let up = json(&["up", "--json"]);
    assert_eq!(
        (&up["started"], &up["pipe_directory"]),
        (&true.into(), &home.pipe().to_str().into())
    );
    let again = json(&["up", "--json"]);
    assert_eq!((&again["started"], &again["pid"]), (&false.into(), &up["pid"]));
    assert_eq!(json(&["ps", "--json"])["pid"], up["pid"]);
    let no_program = format!("no program uses the daemon in {}\n", home.pipe().display());
    assert_eq!(home.openmps(&["ps"]), Said(no_program, String::new(), 0));
    let down = json(&["down", "--json"]);
    assert_eq!((&down["stopped"], &down["pid"]), (&true.into(), &up["pid"]));
    assert!(!home.pipe().join("control").exists());
}

#[test]
fn a_program_that_shall_see_no_device_leaves_its_daemon_one() {
    for (list, inherited) in [("", false), ("-1", false), ("0", true)] {
        let home = Home::new();
        let up = home.command(&["up", "--json"]).env("CUDA_VISIBLE_DEVICES", list).output();
        let up: Value = serde_json::from_slice(&up.unwrap().stdout).unwrap();
        let environment = std::fs::read(format!("/proc/{}/environ", up["pid"])).unwrap();
        let mut variables = environment.split(|byte| *byte == 0);
        let there = variables.any(|variable| variable.starts_with(b"CUDA_VISIBLE_DEVICES="));
        assert_eq!(there, inherited, "{list:?}");
    }
}

#[test]
fn the_environments_directory_comes_first() {
    let home = Home::new();
    let other = home.0.join("other");
    let with = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        Said::from(command.env("CUDA_MPS_PIPE_DIRECTORY", &other).output().unwrap())
    };
    let Said(output, _, status) = with(&["run", "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY"]);
    assert_eq!((output, status), (format!("{}\n", other.display()), 0));
    assert!(other.join("control").exists() && !home.pipe().exists());
    assert_eq!(with(&["down"]).2, 0);
}

/// A traced program that has begun to run, in a process group of its own.
fn traced(home: &Home, trace: &std::path::Path) -> std::process::Child {
    let begun = home.0.join("begun");
    // It ends with its home at the latest.
    let loops = "trap 'exit 9' TERM; : > $0; while [ -e $0 ]; do sleep 0.1; done";
    let mut command = home.command(&["run", "--quiet", "--trace"]);
    command.arg(trace).args(["--", "sh", "-c", loops]).arg(&begun);
    let mut child = command.process_group(0).spawn().unwrap();
    while !begun.exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it runs");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child
}

#[test]
fn ctrl_c_ends_a_traced_program_and_the_trace_is_written() {
    let home = Home::new();
    let trace = home.0.join("trace.json");
    let mut child = traced(&home, &trace);
    let group = Pid::from_child(&child);
    kill_process_group(group, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(text.contains("traceEvents"), "{text}");
}

#[test]
fn a_signal_to_openmps_alone_goes_on_to_the_traced_program() {
    let home = Home::new();
    let trace = home.0.join("trace.pftrace");
    let mut child = traced(&home, &trace);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9), "as the program's trap says");
    assert!(trace.exists());
}

#[test]
fn a_trace_that_cannot_be_written_is_known_before_anything_starts() {
    let home = Home::new();
    let ran = home.0.join("ran");
    let program = ["--", "touch", ran.to_str().unwrap()];
    for (path, part) in
        [("/nonexistent/x", "No such file"), ("/tmp", "directory"), ("-", "the program's")]
    {
        let said = home.openmps(&[&["run", "--trace", path], &program[..]].concat());
        assert_eq!(said.2, 1, "{said:?}");
        assert!(said.1.contains(path) && said.1.contains(part), "{said:?}");
        assert!(!ran.exists() && !home.pipe().exists(), "{path}");
    }
    assert_eq!(home.openmps(&["up"]).2, 0);
    let said = home.openmps(&["trace", "-o", "/nonexistent/x", "--seconds", "60"]);
    assert!(said.1.contains("/nonexistent/x cannot be written: No such file"), "{said:?}");
}

#[test]
fn a_traced_program_s_status_stays_if_the_trace_finds_no_room() {
    let home = Home::new();
    let said = home.openmps(&["run", "-q", "--trace", "/dev/full", "--", "sh", "-c", "exit 7"]);
    assert_eq!(said.2, 7, "{said:?}");
    assert!(said.1.contains("there is no trace: writing /dev/full: No space"), "{said:?}");
    let said = home.openmps(&["run", "--trace", "/dev/null", "--", "sh", "-c", "exit 3"]);
    assert_eq!(said.2, 3, "{said:?}");
}

#[test]
fn a_trace_goes_to_standard_output_and_takes_fractions_of_a_second() {
    let home = Home::new();
    assert_eq!(home.openmps(&["up"]).2, 0);
    let output = home.command(&["trace", "-o", "-", "-s", "0.1"]).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("recording for 0.1 s"), "{output:?}");
    let said = home.openmps(&["trace", "-s", "soon"]);
    assert!(said.1.contains("more than 0 and at most"), "{said:?}");
}

#[test]
fn without_a_daemon_none_is_started() {
    let home = Home::new();
    let script = "test ! -e $CUDA_MPS_PIPE_DIRECTORY && echo $LD_LIBRARY_PATH";
    let lib = format!("{}\n", home.0.join("lib").display());
    let said = home.openmps(&["run", "--no-daemon", "--", "sh", "-c", script]);
    assert_eq!(said, Said(lib, String::new(), 0));
    assert!(!home.pipe().exists());
}

#[test]
fn programs_that_cannot_run_answer_as_in_a_shell() {
    let home = Home::new();
    let Said(_, errors, status) = home.openmps(&["run", "--no-daemon", "no-such-program"]);
    assert_eq!(status, 127);
    assert!(errors.starts_with("openmps: no-such-program: No such file"), "{errors}");
    assert_eq!(home.openmps(&["run", "--no-daemon", "/tmp"]).2, 126);
    assert_eq!(home.openmps(&["run"]).2, 2);
    assert_eq!(home.openmps(&["run", "no-such-program"]).2, 127);
    assert!(!home.pipe().exists(), "no daemon for a program that is not there");
}

#[test]
fn options_of_run_come_before_the_program() {
    let home = Home::new();
    let Said(_, errors, status) = home.openmps(&["run", "--no-daemons", "true"]);
    assert_eq!(status, 2);
    assert!(errors.contains("--no-daemon"), "{errors}");
    let said = home.openmps(&["run", "--no-daemon", "echo", "--quiet", "-n", "--", "x"]);
    assert_eq!(said, Said("--quiet -n -- x\n".into(), String::new(), 0));
}

#[test]
fn the_systems_daemon_is_found() {
    let home = Home::new();
    let system = home.0.join("system");
    let Said(_, errors, status) =
        Said::from(home.command(&["up"]).env("CUDA_MPS_PIPE_DIRECTORY", &system).output().unwrap());
    assert_eq!((errors.as_str(), status), ("", 0));
    let said = home.openmps(&["run", "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY"]);
    assert_eq!(said, Said(format!("{}\n", system.display()), String::new(), 0));
    assert_eq!(home.openmps(&["down"]).2, 0);
    assert!(!system.join("control").exists());
}

/// The same program as NVIDIA's shell, or its daemon.
fn control(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.arg0("nvidia-cuda-mps-control");
    command
}

#[test]
fn the_shell_finds_the_daemon_that_up_has_started() {
    let home = Home::new();
    let ask = || Said::from(control(&home, &["get_server_list"]).output().unwrap());
    let Said(_, errors, status) = ask();
    assert_eq!((errors.as_str(), status), ("Cannot find MPS control daemon process\n", 1));
    assert_eq!(home.openmps(&["up"]).2, 0);
    assert_eq!(ask(), Said(String::new(), String::new(), 0));
    let doctor = home.openmps(&["doctor"]);
    let line = format!("running in {} (this user's own directory)", home.pipe().display());
    assert!(doctor.0.contains(&line), "{doctor:?}");
    // The system's daemon comes before it, and the environment's before both.
    let system = home.0.join("system");
    let mut up = home.command(&["up"]);
    assert!(up.env("CUDA_MPS_PIPE_DIRECTORY", &system).output().unwrap().status.success());
    let of = |command: &mut Command| {
        let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        PathBuf::from(report["pipe_directory"].as_str().unwrap())
    };
    assert_eq!(of(&mut control(&home, &["report"])), system);
    let mut named = control(&home, &["report"]);
    assert_eq!(of(named.env("CUDA_MPS_PIPE_DIRECTORY", home.pipe())), home.pipe());
    assert_eq!(home.openmps(&["down"]).2, 0);
    assert!(!system.join("control").exists() && home.pipe().join("control").exists());
}

#[test]
fn run_keeps_the_server_and_the_namespace_of_protocol_3() {
    let home = Home::new();
    let file = home.0.join("mps.toml");
    std::fs::write(&file, "schema_version = \"1.0\"\n[servers.training.namespaces.batch]\n")
        .unwrap();
    let mut daemon = control(&home, &["-d", "-p", "3", "-a", file.to_str().unwrap()]);
    let said = Said::from(daemon.env("CUDA_MPS_PIPE_DIRECTORY", home.pipe()).output().unwrap());
    assert_eq!(said.2, 0, "{said:?}");
    for below in ["", "training", "training/batch"] {
        let directory = home.pipe().join(below);
        let mut run = home.command(&["run", "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY"]);
        let said = run.env("CUDA_MPS_PIPE_DIRECTORY", &directory).output().unwrap();
        assert_eq!(Said::from(said), Said(format!("{}\n", directory.display()), String::new(), 0));
    }
}

#[test]
fn a_list_of_devices_counts_once() {
    let home = Home::new();
    let shown = |list: &str| {
        let script = "echo ${CUDA_VISIBLE_DEVICES-none}";
        let mut command = home.command(&["run", "sh", "-c", script]);
        Said::from(command.env("CUDA_VISIBLE_DEVICES", list).output().unwrap()).0
    };
    assert_eq!(shown("2,1"), "0,1\n", "the daemon that is started for it has the list");
    assert_eq!(shown("0"), "0\n", "among the daemon's devices");
}

#[test]
fn accounting_tells_no_records_from_none_that_match() {
    let home = Home::new();
    let logs = home.0.join("logs");
    std::fs::create_dir(&logs).unwrap();
    let ask = |more: &[&str]| {
        home.openmps(&[&["accounting", "--logs", logs.to_str().unwrap()], more].concat())
    };
    let said = ask(&["--since", "2030-01-01"]);
    assert!(said.0.starts_with("nothing is written down in ") && said.2 == 0, "{said:?}");
    std::fs::write(logs.join("accounting.jsonl"), "{\"user\":\"ann\",\"uid\":4000000}\n").unwrap();
    for filter in [["--since", "2030-01-01"], ["--user", "root"]] {
        let said = ask(&filter);
        assert!(said.0.starts_with("no record matches, of 1 ") && said.2 == 0, "{said:?}");
    }
    assert!(ask(&["--user", "ann"]).0.contains("1 clients"));
    let said = ask(&["--user", "nosuch"]);
    assert!(said.1.contains("--user nosuch: there is no such user") && said.2 == 1, "{said:?}");
    let said = home.openmps(&["accounting", "--logs", "/nonexistent"]);
    assert!(said.1.contains("/nonexistent: there is no such directory"), "{said:?}");
    assert_eq!((said.0.as_str(), said.2), ("", 1));
}

#[test]
fn help_on_help_is_help() {
    let home = Home::new();
    let help = home.openmps(&["help"]);
    assert!(help.0.contains("Run programs:") && help.2 == 0, "{help:?}");
    assert_eq!(home.openmps(&["help", "--help"]), help);
    assert_eq!(home.openmps(&["help", "down", "-h"]), home.openmps(&["down", "--help"]));
}

#[test]
fn advise_says_that_it_started_a_daemon() {
    let home = Home::new();
    let said = home.openmps(&["advise", "--", "true"]);
    assert!(
        said.1.contains("started a daemon (PID ") && said.1.contains("`openmps down`"),
        "{said:?}"
    );
}

/// The answer to a scrape.
fn scraped(address: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_waits_for_a_daemon_and_has_the_token_of_its_file() {
    let home = Home::new();
    let file = home.0.join("token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let mut command = home.command(&["web", "--listen", "127.0.0.1:0", "--token-file"]);
    let mut page = command.arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(page.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("no daemon runs in "));
    let said = lines.next().unwrap();
    let address = said.split(['/', ' ']).find(|word| word.starts_with("127.0.0.1:")).unwrap();
    assert!(said.contains("?token=0123456789abcdef "), "{said}");
    assert!(scraped(address, "0123456789abcdef").contains("\nopenmps_up 0\n"));
    assert!(scraped(address, "fedcba9876543210").starts_with("HTTP/1.1 401"));
    home.openmps(&["up"]);
    let answer = scraped(address, "0123456789abcdef");
    assert!(answer.contains("\nopenmps_up{version="), "{answer}");
    page.kill().unwrap();
    page.wait().unwrap();
    let open = home.openmps(&["web", "--no-token", "--listen", "0.0.0.0:0"]);
    assert!(open.2 != 0 && open.1.contains("is not loopback"), "{open:?}");
}

#[test]
fn a_program_that_is_not_there_cannot_be_set() {
    let home = Home::new();
    assert_eq!(home.openmps(&["up"]).2, 0);
    let said = home.openmps(&["set", "4000000", "--sms", "1"]);
    let hint = "openmps: Invalid process 4000000! `openmps ps` lists the PIDs and IDs\n";
    assert_eq!(said, Said(String::new(), hint.into(), 1));
}

/// Every command that prints without a device.
const PRINTERS: &[&[&str]] = &[
    &["coverage"],
    &["coverage", "--json"],
    &["bench", "kernels", "--list"],
    &["doctor", "--json"],
    &["doctor", "--variables"],
    &["doctor"],
    &["up"],
    &["ps"],
    &["down"],
];

#[test]
fn a_reader_that_has_enough_ends_a_command_quietly() {
    let home = Home::new();
    for arguments in PRINTERS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = home.command(arguments).stdout(writer).output().unwrap();
        let said = Said::from(output);
        assert_eq!(said, Said(String::new(), String::new(), 0), "{arguments:?}");
    }
}

#[test]
fn output_that_finds_no_room_is_an_error() {
    let home = Home::new();
    for arguments in PRINTERS {
        let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let Said(_, errors, status) =
            home.command(arguments).stdout(full()).output().unwrap().into();
        assert_eq!(status, 1, "{arguments:?}");
        assert!(errors.contains("writing to standard output: No space"), "{arguments:?}: {errors}");
        let deaf = home.command(arguments).stdout(full()).stderr(full()).output().unwrap();
        assert_eq!(deaf.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn many_starts_share_one_daemon() {
    let home = Home::new();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = home.command(&["run", "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let pipe = format!("{}\n", home.pipe().display());
    let mut started = 0;
    for child in children {
        let Said(output, errors, status) = child.wait_with_output().unwrap().into();
        assert_eq!((output, status), (pipe.clone(), 0), "{errors}");
        started += errors.matches("started a daemon").count();
    }
    assert_eq!(started, 1);
}

#[test]
fn a_directory_that_others_can_write_is_refused() {
    let home = Home::new();
    std::fs::create_dir(home.pipe()).unwrap();
    std::fs::set_permissions(home.pipe(), PermissionsExt::from_mode(0o777)).unwrap();
    let Said(_, errors, status) = home.openmps(&["up"]);
    assert_eq!(status, 1);
    assert!(errors.contains("is not this user's alone"), "{errors}");
    let Said(output, _, status) = home.openmps(&["doctor"]);
    assert_eq!(status, 1);
    assert!(output.contains("is not this user's alone"), "{output}");
}

#[test]
fn missing_libraries_are_named_with_what_to_do() {
    let home = Home::new();
    std::fs::remove_file(home.0.join("lib/libcuda.so.1")).unwrap();
    let Said(_, errors, status) = home.openmps(&["run", "true"]);
    assert_eq!(status, 1);
    let expected = format!(
        "openmps: OPENMPS_LIB_DIR is {}, but libcuda.so.1 is not there\n",
        home.0.join("lib").display()
    );
    assert_eq!(errors, expected);
}

#[test]
fn doctor_names_a_limited_address_space() {
    let home = Home::new();
    let doctor = format!("ulimit -v 20000000; exec {} doctor", env!("CARGO_BIN_EXE_openmps"));
    let command = home.command(&[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", &doctor]).envs(command.get_envs().filter_map(|(n, v)| Some((n, v?))));
    let Said(output, _, status) = limited.output().unwrap().into();
    assert_eq!(status, 1);
    assert!(output.contains("19531 MiB of addresses a process"), "{output}");
}

#[test]
fn doctor_says_where_no_daemon_can_be_started() {
    let home = Home::new();
    let doctor = |directory: PathBuf| {
        let mut command = home.command(&["doctor", "--json"]);
        let Said(output, _, status) =
            command.env("CUDA_MPS_PIPE_DIRECTORY", directory).output().unwrap().into();
        let report: Value = serde_json::from_str(&output).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        (findings.into_iter().find(|finding| finding["topic"] == "daemon").unwrap(), status)
    };
    // Below a file, where not even root can make a directory.
    let (finding, status) = doctor(home.0.join("lib/libcuda.so.1/pipe"));
    assert_eq!((&finding["severity"], status), (&"problem".into(), 1), "{finding}");
    assert!(finding["text"].as_str().unwrap().contains("none can be started"), "{finding}");
    let (finding, _) = doctor(home.pipe().join("deeper"));
    assert_eq!(finding["severity"], "ok", "{finding}");
}

#[test]
fn another_users_runtime_directory_is_left_alone() {
    let home = Home::new();
    let me = std::fs::metadata(&home.0).unwrap().uid();
    // As `su` leaves it in the environment. A user that is not root has root's everywhere.
    let another = if me == 0 { home.0.join("another") } else { "/usr".into() };
    if me == 0 {
        std::fs::create_dir(&another).unwrap();
        std::os::unix::fs::chown(&another, Some(65534), None).unwrap();
    }
    let doctor = home.command(&["doctor"]).env("XDG_RUNTIME_DIR", another).output().unwrap();
    let Said(output, ..) = doctor.into();
    assert!(output.contains(&format!(" in /tmp/openmps-{me}")), "{output}");
}

#[test]
fn numbers_that_make_no_sense_are_refused_before_anything_starts() {
    let home = Home::new();
    for arguments in [
        ["demo", "--seconds", "1e30"],
        ["demo", "--seconds", "nan"],
        ["demo", "--processes", "1,65"],
        ["bench", "--seconds", "0"],
        ["bench", "--clients", "0"],
        ["down", "-t", "soon"],
        ["up", "--kernel-timeout", "soon"],
    ] {
        let Said(output, errors, status) = home.openmps(&arguments);
        assert_eq!((output.as_str(), status), ("", 2), "{arguments:?}");
        assert!(errors.contains(arguments[1]), "{arguments:?}: {errors}");
        assert!(!errors.contains("invalid digit"), "{arguments:?}: {errors}");
    }
}

#[test]
fn other_names_are_other_programs() {
    let home = Home::new();
    for (name, word) in [
        ("nvidia-cuda-mps-control", "CUDA MPS Control binary version: 13000"),
        ("nvidia-cuda-mps-server", "openmps"),
    ] {
        let link = home.0.join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_openmps"), &link).unwrap();
        let output = Command::new(&link).arg("-v").output().unwrap();
        let Said(output, _, status) = output.into();
        assert!(output.contains(word) && status == 0, "{name}: {output}");
        let help = Said::from(Command::new(&link).arg("--help").output().unwrap());
        assert!(help.0.contains(name) && help.2 == 0, "{help:?}");
    }
    let by_hand = Command::new(home.0.join("nvidia-cuda-mps-server")).output().unwrap();
    assert!(!by_hand.status.success());
}

#[test]
fn man_pages_and_completions_know_every_command() {
    let home = Home::new();
    let pages = home.0.join("man1");
    std::fs::create_dir(&pages).unwrap();
    let said = home.openmps(&["man", pages.to_str().unwrap()]);
    assert_eq!(said.2, 0, "{said:?}");
    let script = home.openmps(&["completions", "bash"]).0;
    let help = home.openmps(&["--help"]).0;
    let (_, commands) = help.split_once("Run programs:\n").expect("the help lists commands");
    let (commands, _) = commands.split_once("Options:").expect("the help lists options");
    let names = commands.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then_some(name)
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 8, "{help}");
    for name in names {
        let page = pages.join(format!("openmps-{name}.1"));
        assert!(page.exists(), "{}", page.display());
        let function = format!("openmps__subcmd__{}", name.replace('-', "__subcmd__"));
        assert!(script.contains(&function), "{name}");
    }
    let file = home.0.join("completions");
    std::fs::write(&file, &script).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&file).status().unwrap().success());
}

#[test]
fn options_that_a_running_daemon_was_not_started_with_are_a_failure() {
    let home = Home::new();
    let json = |arguments: &[&str]| -> (Value, i32) {
        let Said(output, _, status) = home.openmps(arguments);
        (serde_json::from_str(&output).unwrap(), status)
    };
    let (up, status) = json(&["up", "--json", "--hold-max", "2ms"]);
    assert_eq!((&up["started"], &up["applied"], status), (&true.into(), &true.into(), 0));
    let (again, status) = json(&["up", "--json", "--hold-max", "2ms"]);
    assert_eq!((&again["started"], &again["applied"], status), (&false.into(), &true.into(), 0));
    let (other, status) = json(&["up", "--json", "--hold-max", "3ms"]);
    assert_eq!((&other["applied"], status), (&false.into(), 1));
    let Said(_, errors, status) = home.openmps(&["up", "--standby"]);
    assert!(status == 1 && errors.contains("not started with OPENMPS_STANDBY"), "{errors}");
}

#[test]
fn variables_of_servers_are_named_where_a_daemon_runs_already() {
    let home = Home::new();
    let run = || {
        let mut command = home.command(&["run", "--quiet", "--", "true"]);
        Said::from(command.env("OPENMPS_SOFT_PROFILE", "k.tsv").output().unwrap())
    };
    assert_eq!(run(), Said(String::new(), String::new(), 0), "the daemon starts with it");
    assert_eq!(run(), Said(String::new(), String::new(), 0), "the daemon has it");
    home.openmps(&["down"]);
    home.openmps(&["up"]);
    let Said(_, errors, status) = run();
    assert_eq!((errors.lines().count(), status), (1, 0), "{errors}");
    assert!(errors.contains("OPENMPS_SOFT_PROFILE") && errors.contains("no effect"), "{errors}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_that_cannot_load_the_libraries_is_named() {
    // mov eax, 60; mov edi, 3; syscall: exit(3), without a loader.
    let code = [0xb8, 60, 0, 0, 0, 0xbf, 3, 0, 0, 0, 0x0f, 0x05];
    let mut elf = vec![0u8; 120];
    let mut put = |at: usize, bytes: &[u8]| elf[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    put(16, &[2, 0, 62, 0, 1, 0, 0, 0]);
    put(24, &0x40_0078_u64.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(52, &[64, 0, 56, 0, 1, 0]);
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    put(80, &0x40_0000_u64.to_le_bytes());
    put(88, &0x40_0000_u64.to_le_bytes());
    put(96, &132_u64.to_le_bytes());
    put(104, &132_u64.to_le_bytes());
    put(112, &4096_u64.to_le_bytes());
    elf.extend(code);
    let home = Home::new();
    let program = home.0.join("fixed");
    std::fs::write(&program, elf).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let Said(_, errors, status) = home.openmps(&["run", "-q", "--", program.to_str().unwrap()]);
    assert_eq!((errors.lines().count(), status), (1, 3), "{errors}");
    assert!(errors.contains("fixed is linked statically"), "{errors}");
    let Said(_, errors, _) = home.openmps(&["run", "-q", "--", "true"]);
    assert_eq!(errors, "", "nothing is said of one that can");
}

#[test]
fn doctor_says_that_the_daemon_s_program_is_gone() {
    let home = Home::new();
    let program = home.0.join("copy");
    std::fs::copy(env!("CARGO_BIN_EXE_openmps"), &program).unwrap();
    let mut up = Command::new(&program);
    let environment = home.command(&[]);
    let set = environment.get_envs().filter_map(|(name, value)| Some((name, value?)));
    assert!(up.arg("up").envs(set).output().unwrap().status.success());
    let problems = || {
        let Said(output, ..) = home.openmps(&["doctor", "--json"]);
        let report: Value = serde_json::from_str(&output).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        let wrong = |f: &Value| f["topic"] == "daemon" && f["severity"] == "problem";
        findings.into_iter().filter(wrong).map(|f| f["text"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(problems(), [""; 0]);
    std::fs::remove_file(&program).unwrap();
    assert!(problems()[0].contains("is gone"), "{:?}", problems());
    std::fs::write(&program, "another").unwrap();
    assert!(problems()[0].contains("has been replaced"), "{:?}", problems());
}

#[test]
fn advice_on_a_program_that_is_not_there_starts_no_daemon() {
    let home = Home::new();
    let Said(_, errors, status) = home.openmps(&["advise", "--", "./no-such-program"]);
    assert!(status == 1 && errors.contains("no such program"), "{errors}");
    assert!(!home.pipe().join("control").exists());
}
