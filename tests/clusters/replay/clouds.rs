//! Clouds: Amazon ECS, GKE, Bottlerocket.

use crate::node::{Node, background, is_root, skipped};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use tests::{dist, finish};

/// amazon-ecs-agent: /usr/bin/nvidia-cuda-mps-control, the unit nvidia-mps.service, /run/mps-ecs; a task's container has
/// a limit in MiB, and a percentage only if the task declares one.
#[test]
fn ecs_gives_tasks_unequal_shares() {
    // Its agent looks for the unit by this name: an alias of the installation's.
    let unit =
        fs::read_to_string(dist().join("lib/systemd/system/openmps.service")).expect("the unit");
    assert!(unit.contains("Alias=nvidia-mps.service"), "{unit}");
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "4G")]);
    let pipe = node.directory("run/mps-ecs", 0o755);
    let _daemon = node.start(&pipe, &node.path("log"), &[]);
    let done = node.path("done");
    let tasks = [(1024, Some("25")), (2048, None)].map(|(mib, percentage)| {
        let mut task = node.computes_until(&pipe, &done);
        task.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={mib}M"));
        task.envs(percentage.map(|of| ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", of)));
        background(&mut task)
    });
    let rows = node.wait_for_clients(&pipe, 2);
    let row = |memory: u64| {
        let found =
            rows.iter().find(|row| row["limits"]["memory_bytes"].as_u64() == Some(memory << 20));
        found.unwrap_or_else(|| panic!("{memory} MiB: {rows:?}"))
    };
    let sms = node.report(&pipe)["devices"][0]["counts"]["sms"].as_u64().expect("SMs");
    assert_eq!(row(1024)["limits"]["sms"].as_u64(), Some(sms / 4));
    assert!(row(2048)["limits"]["sms"].as_u64().is_none_or(|all| all == sms), "{}", row(2048));
    fs::write(&done, "").expect("they end");
    for task in tasks {
        task.wait().expect_success();
    }
}

/// container-engine-accelerators: the program below /usr/local/nvidia/bin, equal shares as n*100/max.
#[test]
fn gke_finds_the_program_elsewhere_and_gives_equal_shares() {
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "4G")]);
    let control = node.directory("usr/local/nvidia/bin", 0o755).join("nvidia-cuda-mps-control");
    symlink(dist().join("bin/openmps"), &control).expect("a link");
    let pipe = node.directory("tmp/nvidia-mps", 0o755);
    let own = |words: &[&str]| {
        let mut command = node.bare(&control);
        command.args(words).env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        command.env("CUDA_MPS_LOG_DIRECTORY", node.path("log"));
        command
    };
    finish(&mut own(&["-d"])).expect_success();
    let _daemon = crate::node::Daemon::of(&pipe);
    let health = crate::node::feed(&mut own(&[]), "get_default_active_thread_percentage");
    assert_eq!((health.status, health.stdout.as_str()), (0, "100.0\n"));
    let done = node.path("done");
    let pods: Vec<_> = (0..4)
        .map(|_| {
            let mut pod = node.computes_until(&pipe, &done);
            pod.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", (100 / 4).to_string());
            pod.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1024M");
            background(&mut pod)
        })
        .collect();
    let rows = node.wait_for_clients(&pipe, 4);
    assert!(
        rows.iter().all(|row| row["limits"]["memory_bytes"].as_u64() == Some(1 << 30)),
        "{rows:?}"
    );
    fs::write(&done, "").expect("they end");
    for pod in pods {
        pod.wait().expect_success();
    }
}

/// bottlerocket-core-kit: the pipe lies in /run/nvidia/mps; where /run/nvidia is 0700, programs of other users do not get
/// to it, and the log says which directory it is.
#[test]
fn bottlerocket_s_closed_parent_is_named() {
    if !is_root() {
        return skipped("root is wanted");
    }
    let node = Node::new();
    let pipe = node.directory("run/nvidia/mps/nvidia.com/gpu.shared/pipe", 0o755);
    let closed = node.directory("run/nvidia", 0o700);
    let log = node.path("log");
    let daemon = node.start(&pipe, &log, &[]);
    let text = fs::read_to_string(log.join("control.log")).expect("a log");
    let wanted = format!("cannot pass {}:", closed.display());
    assert!(text.contains(&wanted) && text.contains("chmod o+x"), "{text}");
    let mut pod = node.computes(&pipe);
    let refused = finish(pod.uid(41_004).gid(41_004).current_dir("/"));
    let came = |text: &str| text.contains("from user 41004");
    assert!(!came(&fs::read_to_string(log.join("control.log")).expect("a log")), "{refused:?}");
    drop(daemon);
    node.directory("run/nvidia", 0o755);
    fs::remove_dir_all(&log).expect("the logs go");
    let _daemon = node.start(&pipe, &log, &[]);
    let mut pod = node.computes(&pipe);
    finish(pod.uid(41_004).gid(41_004).current_dir("/")).expect_success();
    let text = fs::read_to_string(log.join("control.log")).expect("a log");
    assert!(came(&text) && !text.contains("cannot pass"), "{text}");
}
