//! kai-gpu-fractioning (NvFractions, Run:ai's GPU fractions): `mpsd`, which keeps the daemon, and `fractiond`, which gives
//! containers their directories and limits.

use crate::node::{Daemon, Node, background, feed, is_root, skipped};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};
use tests::{finish, wait_until};

/// `/etc/nvidia-mps/mps-control.toml`.
const FILE: &str = "[features.memacct]\nenabled = true\naudit_log = true\n\n[features.context-share]\n\
                    enabled = true\ndefault_socket = \"off\"\n\n[servers.shared]\n";

/// `mpsd`: the daemon in the foreground with a pipe as standard input.
struct Mpsd {
    child: Child,
    daemon: Daemon,
}

impl Mpsd {
    fn start(node: &Node) -> Mpsd {
        let (pipe, log) =
            (node.path("run/nvidia-mps"), node.directory("var/log/nvidia-mps", 0o755));
        let file = node.directory("etc/nvidia-mps", 0o755).join("mps-control.toml");
        fs::write(&file, FILE).expect("the file");
        // What a daemon before left is removed.
        let _ = fs::remove_file(pipe.join("control"));
        let mut command = node.control(&pipe, &log);
        command.args(["-p", "3", "-m", "-f", "-a"]).arg(&file).stdin(Stdio::piped());
        command
            .env("NVIDIA_VISIBLE_DEVICES", "all")
            .env("NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("to run");
        // `test -S /run/nvidia-mps/control`
        wait_until("the readiness probe", || pipe.join("control").exists());
        wait_until("it answers", || node.ask(&pipe, "server list").status == 0);
        let daemon = Daemon { pid: child.id() };
        Mpsd { child, daemon }
    }

    /// `quit\n` to standard input; 60 s later it would be killed.
    fn stop(mut self) {
        self.child.stdin.take().expect("a pipe").write_all(b"quit\n").expect("to be read");
        assert!(self.child.wait().expect("to end").success());
        assert!(!self.daemon.is_there());
    }
}

impl Drop for Mpsd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn mpsd_starts_stops_and_starts_again_over_a_stale_socket() {
    if !is_root() {
        return skipped("root is wanted: -m");
    }
    let node = Node::new();
    let pipe = node.directory("run/nvidia-mps", 0o755);
    // A socket that a daemon before left, which no one listens at.
    drop(UnixListener::bind(pipe.join("control")).expect("a socket"));
    let mpsd = Mpsd::start(&node);
    // A second one while the first runs says so, and takes nothing away.
    let second =
        feed(node.control(&pipe, &node.path("log2")).args(["-p", "3", "-m", "-f"]), "quit\n");
    assert_ne!(second.status, 0, "{second:?}");
    assert!(second.stderr.contains("running"), "{}", second.stderr);
    node.ask(&pipe, "server list").expect_success();
    finish(&mut node.computes(&pipe.join("shared/default"))).expect_success();
    mpsd.stop();
    Mpsd::start(&node).stop();
}

#[test]
fn namespaces_live_as_the_operator_drives_them() {
    if !is_root() {
        return skipped("root is wanted: -m");
    }
    let node = Node::new();
    let pipe = node.path("run/nvidia-mps");
    let _mpsd = Mpsd::start(&node);
    let ask = |line: &str| node.ask(&pipe, line);
    let ok = |line: &str| ask(line).expect_success().stdout;
    ok("namespace create pod_1 --server=shared");
    ok("namespace set pod_1 --server=shared --active-thread-percentage=40");
    let directory = ok("namespace get pod_1 shared pipe_directory");
    assert_eq!(directory.trim(), pipe.join("shared/pod_1").to_str().expect("a path"));
    assert_eq!(ok("namespace get pod_1 shared active_thread_percentage").trim(), "40.0");
    // `default` is capped at a tenth.
    ok("namespace set default --server=shared --active-thread-percentage=10");
    let listed = ok("namespace list --server=shared --format=csv,noheader");
    assert!(listed.lines().count() == 2 && listed.contains("pod_1,shared,"), "{listed}");

    let done = node.path("done");
    let client = background(&mut node.computes_until(&pipe.join("shared/pod_1"), &done));
    node.wait_for_clients(&pipe, 1);
    // NVIDIA's daemon refuses this while a client is active (ErrCapChangeNeedsRestart).
    ok("namespace set pod_1 --server=shared --active-thread-percentage=60");
    let rows = ok("client list --format=csv,noheader");
    let pid = rows.trim().split(',').next().expect("a PID").to_owned();
    assert_eq!(pid, client.pid().to_string(), "{rows}");
    let refused = ask("namespace delete pod_1 --server=shared");
    assert!(refused.status != 0 && refused.stdout.contains("active clients"), "{refused:?}");
    ok(&format!("client terminate {pid}"));
    let ended = client.wait();
    assert!(ended.stderr.contains("CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{}", ended.stderr);
    wait_until("it is gone", || node.clients(&pipe).is_empty());
    ok("namespace delete pod_1 --server=shared");
    assert!(!pipe.join("shared/pod_1").exists());
    // A killed client leaves the server to the others.
    let mut killed = background(&mut node.computes_until(&pipe.join("shared/default"), &done));
    node.wait_for_clients(&pipe, 1);
    let server = ok("server get shared pid");
    killed.kill();
    finish(&mut node.computes(&pipe.join("shared/default"))).expect_success();
    assert_eq!(ok("server get shared pid"), server, "the server is the same");
    for name in ["Pod", "pod-1", "", "a/b"] {
        assert_ne!(ask(&format!("namespace create {name} --server=shared")).status, 0, "{name}");
    }
}

#[test]
fn paths_that_no_socket_can_have_are_refused() {
    let node = Node::new();
    let long = node.path("x".repeat(120));
    let started = finish(node.control(&long, &node.path("log")).args(["-d", "-p", "3"]));
    assert_ne!(started.status, 0);
    assert!(started.stderr.contains("a socket's path allows at most"), "{}", started.stderr);
    let pipe = node.path("pipe");
    let _daemon = node.start(&pipe, &node.path("log"), &["-p", "3"]);
    node.ask(&pipe, "server create shared").expect_success();
    let name = "n".repeat(64);
    let made = node.ask(&pipe, &format!("namespace create {name} --server=shared"));
    let directory = pipe.join("shared").join(&name).join("control");
    // Either it fits and programs can connect, or it was refused and left nothing.
    match made.status {
        0 => {
            drop(finish(&mut node.computes(directory.parent().expect("a folder"))).expect_success())
        }
        _ => assert!(!directory.exists(), "{made:?}"),
    }
}

/// A namespace's programs have its memory together, those that run too.
#[test]
fn a_namespace_s_memory_is_its_programs_together() {
    if !is_root() {
        return skipped("root is wanted: -m");
    }
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "1G")]);
    let pipe = node.path("run/nvidia-mps");
    let _mpsd = Mpsd::start(&node);
    let ok = |line: &str| node.ask(&pipe, line).expect_success();
    ok("namespace create pod_1 --server=shared");
    let limit =
        |size: &str| ok(&format!("namespace set pod_1 --server=shared --memory-limit={size}"));
    limit("96M");
    let directory = pipe.join("shared/pod_1");
    let takes = |mib: u64| {
        let size = ((mib << 20) / 12).to_string();
        let words = ["--size", &size, "--iterations", "1"];
        let ended = finish(&mut node.sample(&directory, "vector_add", &words));
        let is_refused = ended.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY");
        assert!(ended.status == 0 || is_refused, "{ended:?}");
        !is_refused
    };
    let done = node.path("done");
    let words = ["--size", "5000000", "--until", done.to_str().expect("a path")];
    let running = background(&mut node.sample(&directory, "vector_add", &words));
    node.wait_for_clients(&pipe, 1);
    assert!(takes(30));
    assert!(!takes(60), "57 MiB are taken of 96");
    limit("160M");
    wait_until("the command reaches the server", || takes(60));
    limit("40M");
    wait_until("a lower one too", || !takes(1));
    limit("none");
    wait_until("it is gone", || takes(200));
    fs::write(&done, "").expect("it ends");
    running.wait().expect_success();
}

/// `fractiond` mounts /run/nvidia-mps as it is (time-slicing), or shared/default (sm-sharing).
#[test]
fn both_mounts_of_fractiond_serve() {
    if !is_root() {
        return skipped("root is wanted: -m");
    }
    let node = Node::new();
    let pipe = node.path("run/nvidia-mps");
    let _mpsd = Mpsd::start(&node);
    let done = node.path("done");
    let programs: Vec<_> =
        [pipe.clone(), pipe.clone(), pipe.join("shared/default"), pipe.join("shared/default")]
            .iter()
            .map(|directory| background(&mut node.computes_until(directory, &done)))
            .collect();
    node.wait_for_clients(&pipe, 4);
    let report = node.report(&pipe);
    let servers = report["servers"].as_array().expect("servers");
    let mut counts: Vec<usize> =
        servers.iter().map(|server| server["clients"].as_array().map_or(0, Vec::len)).collect();
    counts.sort_unstable();
    counts.retain(|count| *count > 0);
    assert_eq!(counts, [1, 1, 2], "two with contexts of their own, two in one: {report}");
    fs::write(&done, "").expect("they end");
    for program in programs {
        program.wait().expect_success();
    }
}

/// `fractiond` gives a container NVIDIA_GPU_MEMORY_LIMIT; a kernel of 6.14 has the limit in `dmem.max` of its cgroup, with a
/// line for each region.
#[test]
fn limits_of_fractiond_and_of_the_kernel_bite() {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return skipped("there are no cgroups of version 2");
    };
    if !is_root() {
        return skipped("root is wanted: -m");
    }
    let mut node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "1G")]);
    let cgroups = node.path("cgroup");
    node.set("OPENMPS_CGROUP_ROOT", &cgroups);
    let directory = node.directory(&format!("cgroup/{}", own.trim_matches('/')), 0o755);
    let pci = node.smi("--query-gpu=pci.bus_id --format=csv,noheader").expect_success().stdout;
    let pipe = node.path("run/nvidia-mps");
    let _mpsd = Mpsd::start(&node);
    // Three vectors.
    let takes = |mib: u64, limit: Option<&str>| {
        let size = (mib << 20) / 12;
        let size = size.to_string();
        let mut program = node.sample(
            &pipe.join("shared/default"),
            "vector_add",
            &["--size", &size, "--iterations", "1"],
        );
        program.envs(limit.map(|limit| ("NVIDIA_GPU_MEMORY_LIMIT", limit)));
        let ended = finish(&mut program);
        let is_refused = ended.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY");
        assert!(ended.status == 0 || is_refused, "{ended:?}");
        !is_refused
    };
    assert!(takes(96, None) && takes(40, Some("64")) && !takes(96, Some("64")));
    let kernel = |mib: u64| {
        let text = format!("nvidia/{}/vidmem {}\n", pci.trim().to_lowercase(), mib << 20);
        fs::write(directory.join("dmem.max"), text).expect("the file");
    };
    kernel(80);
    assert!(!takes(96, None) && takes(60, None));
    // Raised while a program of the cgroup runs: it holds for those that come, and for the cgroup's account.
    let done = node.path("done");
    let file = done.to_str().expect("a path");
    let mut running = node.sample(
        &pipe.join("shared/default"),
        "vector_add",
        &["--size", "5000000", "--until", file],
    );
    let running = background(&mut running);
    node.wait_for_clients(&pipe, 1);
    assert!(!takes(40, None), "57 MiB are taken of 80");
    let limit_is = |mib: u64| {
        let report = node.report(&pipe);
        let servers = report["servers"].as_array().cloned().unwrap_or_default();
        let clients = servers.iter().filter_map(|of| of["clients"].as_array()).flatten();
        let mut limits = clients.map(|of| of["limits"]["memory_bytes"].as_u64());
        limits.any(|limit| limit == Some(mib << 20))
    };
    kernel(160);
    wait_until("the program that runs has it raised", || limit_is(160));
    assert!(takes(90, None));
    kernel(70);
    wait_until("and lowered", || limit_is(70));
    assert!(!takes(40, None));
    fs::write(&done, "").expect("it ends");
    running.wait().expect_success();
    fs::remove_file(directory.join("dmem.max")).expect("it goes");
    fs::remove_dir(&directory).expect("the cgroup goes");
    assert!(takes(96, None));
}
