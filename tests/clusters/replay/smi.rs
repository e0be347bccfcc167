//! nvidia-smi: the calls of device plugins, DRA drivers, prologs and launchers, on the software GPU.

use crate::node::{Node, background, is_root};
use std::fs;
use tests::{finish, wait_until};

#[test]
fn every_call_of_clusters_is_answered() {
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2"), ("OPENMPS_SOFT_MEMORY", "1G")]);
    let uuids = node.uuids();
    assert!(uuids.len() == 2 && uuids.iter().all(|uuid| uuid.starts_with("GPU-")), "{uuids:?}");
    let listed = node.smi("-L").expect_success().stdout;
    let second = listed.lines().nth(1).expect("a line");
    assert!(second.starts_with("GPU 1: ") && second.ends_with(&format!("(UUID: {})", uuids[1])));
    assert_eq!(node.smi(&format!("-i {} -L", uuids[1])).expect_success().stdout.lines().count(), 1);

    let query = |line: &str| node.smi(line).expect_success().stdout;
    let table = query("--query-gpu=index,memory.total,mig.mode.current --format=csv");
    assert_eq!(
        table,
        "index, memory.total [MiB], mig.mode.current\n0, 1024 MiB, [N/A]\n1, 1024 MiB, [N/A]\n"
    );
    assert_eq!(
        query("--query-gpu=memory.total,memory.used --format=csv,noheader,nounits -i 1"),
        "1024, 0\n"
    );
    assert_eq!(
        query("--query-gpu=count,driver_version --format=csv,noheader -i 0"),
        "2, 580.0.1\n"
    );
    assert_eq!(node.smi("-i 7 -L").status, 6);

    // The mode is of the device, and holds until it is set back.
    let mode = || query("--query-gpu=compute_mode --format=csv,noheader");
    assert_eq!(mode(), "Default\nDefault\n");
    for (set, name) in
        [("EXCLUSIVE_PROCESS", "Exclusive_Process"), ("0", "Default"), ("3", "Exclusive_Process")]
    {
        let said = node.smi(&format!("-i {} -c {set}", uuids[0])).expect_success().stdout;
        assert!(
            said.starts_with("Set compute mode to ") && said.ends_with("All done.\n"),
            "{said}"
        );
        assert!(mode().starts_with(name), "{}", mode());
    }
    let again = node.smi("-i 0 -c EXCLUSIVE_PROCESS").expect_success().stdout;
    assert!(again.starts_with("Compute mode is already set to EXCLUSIVE_PROCESS"), "{again}");
    // A device that no process has used yet, and all at once.
    node.smi(&format!("-i {} -c EXCLUSIVE_PROCESS", uuids[1])).expect_success();
    assert_eq!(mode(), "Exclusive_Process\nExclusive_Process\n");
    node.smi("-c DEFAULT").expect_success();
    assert_eq!(mode(), "Default\nDefault\n");

    let unknown = node.smi("-pl 300");
    assert_eq!(unknown.status, 2);
    assert!(unknown.stdout.contains("-pl is not known"), "{}", unknown.stdout);
}

/// sglang-omni and others look here whether their worker has attached.
#[test]
fn programs_of_a_daemon_are_listed_with_their_memory() {
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "1G")]);
    let (pipe, log) = (node.directory("pipe", 0o755), node.path("log"));
    let _daemon = node.start(&pipe, &log, &[]);
    let done = node.path("done");
    let file = done.to_str().expect("a path");
    let mut program = node.sample(&pipe, "vector_add", &["--size", "4194304", "--until", file]);
    let program = background(&mut program);
    node.wait_for_clients(&pipe, 1);
    let asked =
        "--query-compute-apps=pid,process_name,used_memory,gpu_uuid --format=csv,noheader,nounits";
    let mut smi = node.bare(node.path("bin/nvidia-smi"));
    smi.args(asked.split(' ')).env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
    let mut rows = String::new();
    wait_until("it has its memory", || {
        rows = finish(&mut smi).expect_success().stdout;
        rows.split(", ").nth(2).is_some_and(|mib| mib.parse::<u64>().is_ok_and(|mib| mib >= 48))
    });
    let cells: Vec<&str> = rows.trim().split(", ").collect();
    assert_eq!(cells[0], program.pid().to_string());
    assert!(cells[1].ends_with("vector_add") && cells[3] == node.uuids()[0], "{rows}");
    fs::write(&done, "").expect("it ends");
    program.wait().expect_success();
}

/// `nvidia-smi memory-limits`, as NVIDIA Dynamo's guide has it, with a daemon of protocol 3.
#[test]
fn limits_of_a_cgroup_are_set_and_read() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let rows = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let Some(mount) = rows.into_iter().find(|row| row.get(2) == Some(&"cgroup2")) else {
        return crate::node::skipped("no cgroup of version 2 is mounted");
    };
    if !is_root() {
        return crate::node::skipped("root is wanted");
    }
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "1G")]);
    let (pipe, log) = (node.directory("pipe", 0o755), node.path("log"));
    let smi = |line: &str| {
        let mut smi = node.bare(node.path("bin/nvidia-smi"));
        smi.args(line.split(' ')).env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        finish(&mut smi)
    };
    let group = mount[1];
    let without = smi(&format!("memory-limits --get -n {group}"));
    assert_eq!((without.status, without.stdout.trim()), (3, "Not Supported"), "no daemon");
    let _daemon = node.start(&pipe, &log, &["-p", "3"]);
    smi(&format!("memory-limits --set -n {group} --soft-limit 64 --hard-limit 128 -i 0"))
        .expect_success();
    let said = smi(&format!("memory-limits --get -n {group}")).expect_success().stdout;
    assert!(
        said.contains("Soft limit : 64 MiB") && said.contains("Hard limit : 128 MiB"),
        "{said}"
    );
    let wrong = smi(&format!("memory-limits --set -n {group} --soft-limit 256 --hard-limit 128"));
    assert_ne!(wrong.status, 0);
}
