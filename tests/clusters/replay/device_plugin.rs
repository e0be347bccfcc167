//! NVIDIA's device plugin: `cmd/mps-control-daemon/mps/{daemon,manager}.go`, `internal/plugin/mps.go`.

use crate::node::{Daemon, Node, background, can_unshare, is_root, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{finish, wait_until};

/// Memory of a device, MiB, and pods that share it.
const TOTAL_MIB: u64 = 4096;
const REPLICAS: u64 = 4;
const DEVICE: [(&str, &str); 1] = [("OPENMPS_SOFT_MEMORY", "4G")];

/// A resource's directories; the slash of its name stays.
fn resource(node: &Node, name: &str) -> (PathBuf, PathBuf) {
    let of = |part: &str| node.directory(&format!("mps/{name}/{part}"), 0o755);
    (of("pipe"), of("log"))
}

/// `daemon.Start`: the compute mode, `-d` with two variables, a limit for each device's index, a share, `.started`.
fn start(node: &Node, name: &str, uuids: &[String], visible: Option<&str>) -> Daemon {
    for uuid in uuids {
        node.smi(&format!("-i {uuid} -c EXCLUSIVE_PROCESS")).expect_success();
    }
    let (pipe, log) = resource(node, name);
    let mut command = node.control(&pipe, &log);
    command.arg("-d");
    if let Some(visible) = visible {
        command.env("CUDA_VISIBLE_DEVICES", visible);
    }
    assert_eq!(finish(&mut command).expect_success().stdout, "");
    for index in 0..uuids.len() {
        let limit =
            format!("set_default_device_pinned_mem_limit {index} {}M", TOTAL_MIB / REPLICAS);
        assert_eq!(node.echo(&pipe, &limit).expect_success().stdout, "");
    }
    let share = format!("set_default_active_thread_percentage {}", 100 / REPLICAS);
    assert_eq!(node.echo(&pipe, &share).expect_success().stdout, "25.0\n");
    fs::write(node.path(format!("mps/{name}/.started")), "").expect("a mark");
    Daemon::of(&pipe)
}

/// `daemon.Stop`.
fn stop(node: &Node, name: &str, uuids: &[String]) {
    let (pipe, log) = resource(node, name);
    assert_eq!(node.echo(&pipe, "quit").expect_success().stdout, "");
    for uuid in uuids {
        node.smi(&format!("-i {uuid} -c DEFAULT")).expect_success();
    }
    fs::remove_file(node.path(format!("mps/{name}/.started"))).expect("the mark goes");
    fs::remove_dir_all(log).expect("the logs go");
}

fn is_healthy(node: &Node, pipe: &Path) -> bool {
    node.echo(pipe, "get_default_active_thread_percentage").status == 0
}

#[test]
fn a_resource_is_shared_from_start_to_stop() {
    let node = Node::with_device(&DEVICE);
    let uuids = node.uuids();
    let (pipe, log) = resource(&node, "nvidia.com/gpu");
    assert!(!is_healthy(&node, &pipe), "before");
    let daemon = start(&node, "nvidia.com/gpu", &uuids, None);
    // The log is followed from its first line on.
    let tail =
        background(Command::new("tail").args(["-n", "+1", "-f"]).arg(log.join("control.log")));
    fs::write(node.path("mps/.ready"), "").expect("a mark");
    assert!(is_healthy(&node, &pipe), "while it runs");

    // As many pods as there are replicas, each with a quarter; EXCLUSIVE_PROCESS is the server's.
    let done = node.path("done");
    let pods: Vec<_> =
        (0..REPLICAS).map(|_| background(&mut node.computes_until(&pipe, &done))).collect();
    let clients = node.wait_for_clients(&pipe, REPLICAS as usize);
    let report = node.report(&pipe);
    let sms = report["devices"][0]["counts"]["sms"].as_u64().expect("SMs");
    for client in &clients {
        let limits = &client["limits"];
        assert_eq!(limits["memory_bytes"].as_u64(), Some((TOTAL_MIB / REPLICAS) << 20), "{client}");
        assert_eq!(limits["sms"].as_u64(), Some(sms / REPLICAS), "{client}");
    }
    let outside = finish(&mut node.computes(&node.path("none")));
    assert!(outside.stderr.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{}", outside.stderr);
    // Three vectors of 384 MiB are more than 1 GiB.
    let greedy = finish(&mut node.sample(
        &pipe,
        "vector_add",
        &["--size", "100663296", "--iterations", "1"],
    ));
    assert!(greedy.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{}", greedy.stderr);
    fs::write(&done, "").expect("the pods end");
    for pod in pods {
        pod.wait().expect_success();
    }

    drop(tail);
    stop(&node, "nvidia.com/gpu", &uuids);
    wait_until("the daemon has ended", || !daemon.is_there());
    assert!(!is_healthy(&node, &pipe), "afterwards");
    finish(&mut node.computes(&node.path("none"))).expect_success();
}

/// Device plugin #2056: the daemon has CUDA_VISIBLE_DEVICES, and an index is one of that list's.
#[test]
fn indices_of_limits_are_those_of_the_visible_devices() {
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "3"), DEVICE[0]]);
    let uuids = node.uuids();
    assert_eq!(uuids.len(), 3);
    let visible = format!("{},{}", uuids[2], uuids[0]);
    let daemon = start(&node, "nvidia.com/gpu.shared", &uuids[..1], Some(&visible));
    let (pipe, _) = resource(&node, "nvidia.com/gpu.shared");
    let done = node.path("done");
    let pod = background(&mut node.computes_until(&pipe, &done));
    let client = node.wait_for_clients(&pipe, 1).remove(0);
    assert_eq!(client["device_uuid"], uuids[2].as_str(), "its first device is the list's first");
    assert_eq!(client["limits"]["memory_bytes"].as_u64(), Some((TOTAL_MIB / REPLICAS) << 20));
    fs::write(&done, "").expect("the pod ends");
    pod.wait().expect_success();
    let second = node.ask(&pipe, "get_default_device_pinned_mem_limit 1").expect_success().stdout;
    let third = node.ask(&pipe, "get_default_device_pinned_mem_limit 2");
    assert_ne!((second.trim(), third.stdout.trim()), ("1024M", "1024M"), "only index 0 was set");
    stop(&node, "nvidia.com/gpu.shared", &uuids[..1]);
    wait_until("the daemon has ended", || !daemon.is_there());
}

/// SIGHUP of the config manager: every daemon is ended by `quit` and started anew in its directory, which containers
/// have mounted.
#[test]
fn a_reload_ends_the_daemon_and_its_successor_serves_the_same_directory() {
    let node = Node::with_device(&DEVICE);
    let uuids = node.uuids();
    let first = start(&node, "nvidia.com/gpu", &uuids, None);
    let (pipe, _) = resource(&node, "nvidia.com/gpu");
    // A container that was started before the reload: in its own mount namespace the directory is at another place.
    let go = node.path("go");
    let script = r#"set -e
mount --bind "$PIPE" /mnt
export CUDA_MPS_PIPE_DIRECTORY=/mnt
"$@"
while ! test -e "$GO"; do sleep 0.05; done
exec "$@""#;
    let program = node.computes(&pipe);
    let container = can_unshare().then(|| {
        let mut command = node.bare("unshare");
        command.args(["-U", "-r", "-m", "sh", "-c", script, "sh"]).arg(program.get_program());
        command.args(program.get_args()).env("PIPE", &pipe).env("GO", &go);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LD_LIBRARY_PATH", tests::dist().join("lib/openmps"));
        background(&mut command)
    });
    finish(&mut node.computes(&pipe)).expect_success();
    let log = node.path("mps/nvidia.com/gpu/log/control.log");
    if container.is_some() {
        wait_until("the container has computed", || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            log.matches("NEW CLIENT").count() >= 2 && node.clients(&pipe).is_empty()
        });
    }
    stop(&node, "nvidia.com/gpu", &uuids);
    wait_until("the daemon has ended", || !first.is_there());
    let _second = start(&node, "nvidia.com/gpu", &uuids, None);
    fs::write(&go, "").expect("the container goes on");
    match container {
        Some(container) => {
            container.wait().expect_success();
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(log.contains("NEW CLIENT"), "it came to the second daemon: {log}");
        }
        None => skipped("unshare makes no namespaces here"),
    }
    // With a program that computes, quit waits for it; with a time it says how long.
    let done = node.path("done");
    let pod = background(&mut node.computes_until(&pipe, &done));
    node.wait_for_clients(&pipe, 1);
    let mut quit = node.control(&pipe, &node.path("no-log"));
    let mut quit = background(quit.arg("quit"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(quit.is_running(), "it waits for the pod");
    let log = fs::read_to_string(&log).unwrap_or_default();
    assert!(log.contains("quit command issued"), "{log}");
    fs::write(&done, "").expect("the pod ends");
    pod.wait().expect_success();
    quit.wait().expect_success();
}

/// The plugin's pod asks every 30 s from its own mount namespace, and without `hostPID` from its own PID namespace.
#[test]
fn the_plugin_asks_from_other_namespaces() {
    if !is_root() || !can_unshare() {
        return skipped("root and unshare are wanted");
    }
    let node = Node::with_device(&DEVICE);
    let uuids = node.uuids();
    let _daemon = start(&node, "nvidia.com/gpu", &uuids, None);
    let (pipe, _) = resource(&node, "nvidia.com/gpu");
    let script = r#"mount --bind "$MPS" /mnt && echo -n get_default_active_thread_percentage |
CUDA_MPS_PIPE_DIRECTORY=/mnt/nvidia.com/gpu/pipe exec "$CONTROL""#;
    let mut command = node.bare("unshare");
    command.args(["-m", "-p", "-f", "--mount-proc", "sh", "-c", script]);
    command.env("MPS", node.path("mps")).env("CONTROL", node.path("bin/nvidia-cuda-mps-control"));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let asked = finish(&mut command).expect_success();
    assert_eq!(asked.stdout, "25.0\n", "{asked:?}");
    assert!(pipe.join("control").exists());
}
