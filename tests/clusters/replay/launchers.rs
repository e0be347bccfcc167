//! Launchers that start the daemon themselves: sglang-omni (`sglang_omni/mps/{control,runtime,devices}.py`).

use crate::node::{Daemon, Node, background};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::{finish, wait_until};

/// Its rule for who listens in a directory: the PID's file names a live process whose first word ends in the
/// program's name, with exactly this directory in its environment.
fn is_its_daemon(pipe: &Path) -> bool {
    let daemon = Daemon::of(pipe);
    let process = format!("/proc/{}", daemon.pid);
    std::mem::forget(daemon);
    let words = fs::read(format!("{process}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().unwrap_or_default();
    let variables = fs::read(format!("{process}/environ")).unwrap_or_default();
    let wanted = format!("CUDA_MPS_PIPE_DIRECTORY={}", pipe.display());
    String::from_utf8_lossy(first).ends_with("nvidia-cuda-mps-control")
        && variables.split(|byte| *byte == 0).any(|of| of == wanted.as_bytes())
}

fn digits(text: &str) -> Vec<u32> {
    text.lines().map(|line| line.parse().expect("digits alone")).collect()
}

#[test]
fn two_serves_of_a_gpu_share_one_daemon() {
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2")]);
    let uuid = node.uuids().remove(1);
    let (pipe, log) = (node.directory("mps-1/pipe", 0o700), node.directory("mps-1/log", 0o700));
    // `auto`: is there one? There is none.
    assert_ne!(node.echo(&pipe, "get_server_list").status, 0);
    let began = Instant::now();
    let mut start = node.control(&pipe, &log);
    finish(start.arg("-d").env("CUDA_VISIBLE_DEVICES", &uuid)).expect_success();
    let daemon = Daemon::of(&pipe);
    assert!(is_its_daemon(&pipe));
    let in_time = began.elapsed() < Duration::from_secs(10);
    assert!(in_time || std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 4));
    let none = node.echo(&pipe, "get_server_list").expect_success();
    assert_eq!(none.stdout, "", "nothing where there is none");

    // The second serve finds the daemon and starts none.
    assert!(is_its_daemon(&pipe));
    let done = node.path("done");
    let workers = [(); 2].map(|()| background(&mut node.computes_until(&pipe, &done)));
    node.wait_for_clients(&pipe, 2);
    let servers = digits(&node.echo(&pipe, "get_server_list").expect_success().stdout);
    assert_eq!(servers.len(), 1, "all workers have one server");
    let clients = |server: u32| {
        digits(&node.echo(&pipe, &format!("get_client_list {server}")).expect_success().stdout)
    };
    let mut attached = clients(servers[0]);
    attached.sort_unstable();
    let mut pids: Vec<u32> = workers.iter().map(tests::Running::pid).collect();
    pids.sort_unstable();
    assert_eq!(attached, pids);
    let status =
        || node.echo(&pipe, &format!("get_server_status {}", servers[0])).expect_success().stdout;
    assert_eq!(status().trim(), "ACTIVE");
    node.echo(&pipe, &format!("terminate_client {} {}", servers[0], pids[0])).expect_success();
    wait_until("the worker is gone", || clients(servers[0]).len() == 1);
    assert_eq!(status().trim(), "ACTIVE");
    fs::write(&done, "").expect("they end");
    let ended = workers.map(tests::Running::wait);
    assert_eq!(ended.iter().filter(|of| of.status == 0).count(), 1, "{ended:?}");

    node.echo(&pipe, "quit").expect_success();
    assert!(!daemon.is_there(), "it is gone when quit returns");
    fs::remove_dir_all(node.path("mps-1")).expect("the directories can be removed");
}

/// `--mps off`: the program runs by itself, although a directory is there.
#[test]
fn without_a_daemon_programs_run_by_themselves() {
    let node = Node::new();
    let pipe = node.directory("mps-0/pipe", 0o700);
    finish(&mut node.computes(&pipe)).expect_success();
}
