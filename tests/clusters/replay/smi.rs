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
        concat!("2, 580.0.", env!("CARGO_PKG_VERSION_MINOR"), "\n")
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

/// The elements of an XML log, each by its path, with its text if it has no elements.
fn paths(xml: &str) -> Vec<(String, String)> {
    let (mut path, mut found) = (Vec::new(), Vec::new());
    for line in xml.lines().map(str::trim).filter(|line| line.starts_with('<')) {
        let inside = line.trim_start_matches('<');
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(path.pop().as_deref(), name.strip_suffix('>'), "{line}");
            continue;
        }
        let (tag, rest) = inside.split_once('>').expect("a tag");
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let name = tag.split(' ').next().expect("a name");
        path.push(name.to_owned());
        found.push((path.join("/"), rest.split('<').next().unwrap_or_default().to_owned()));
        if rest.ends_with(&format!("</{name}>")) {
            path.pop();
        }
    }
    assert!(path.is_empty(), "{path:?}");
    found
}

/// `-q -x`: Telegraf, Nomad, Netdata and exporters read elements by their paths; `smi_elements.txt` has those that they
/// look for, as NVIDIA's program of release 590 writes them (`nvsmi_device_v13.dtd`).
#[test]
fn the_log_has_the_elements_that_plugins_read() {
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2"), ("OPENMPS_SOFT_MEMORY", "1G")]);
    let (pipe, log) = (node.directory("pipe", 0o755), node.path("log"));
    let _daemon = node.start(&pipe, &log, &[]);
    let done = node.path("done");
    let file = done.to_str().expect("a path");
    let mut program = node.sample(&pipe, "vector_add", &["--size", "4194304", "--until", file]);
    let program = background(&mut program);
    node.wait_for_clients(&pipe, 1);
    let ask = |line: &str| {
        let mut smi = node.bare(node.path("bin/nvidia-smi"));
        smi.args(line.split(' ')).env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
        finish(&mut smi).expect_success().stdout
    };
    let mut found = Vec::new();
    wait_until("the program has its memory", || {
        found = paths(&ask("-q -x"));
        let used = |(path, text): &(String, String)| {
            let mib = text.strip_suffix(" MiB").and_then(|mib| mib.parse::<u64>().ok());
            path.ends_with("process_info/used_memory") && mib >= Some(48)
        };
        found.iter().any(used)
    });
    let values = |path: &str| -> Vec<&str> {
        let path = format!("nvidia_smi_log/{path}");
        found.iter().filter(|(of, _)| *of == path).map(|(_, text)| text.as_str()).collect()
    };
    let recorded = include_str!("smi_elements.txt");
    let missing: Vec<&str> = recorded.lines().filter(|path| values(path).is_empty()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(values("gpu/uuid"), node.uuids());
    assert_eq!(values("gpu/minor_number"), ["0", "1"]);
    assert_eq!(values("gpu/fb_memory_usage/total"), ["1024 MiB"; 2]);
    assert_eq!(values("gpu/compute_mode"), ["Default"; 2]);
    assert_eq!(values("gpu/mig_mode/current_mig"), ["N/A"; 2]);
    assert_eq!(values("attached_gpus"), ["2"]);
    assert_eq!(values("gpu/processes/process_info/pid"), [program.pid().to_string()]);
    let one = paths(&ask("-q -x -i 1"));
    assert_eq!(one.iter().filter(|(path, _)| path == "nvidia_smi_log/gpu").count(), 1);

    let text = ask("-q");
    for line in ["GPU UUID", "Minor Number", "FB Memory Usage", "Total", "Used GPU Memory"] {
        assert!(text.lines().any(|of| of.trim_start().starts_with(line)), "{line}: {text}");
    }
    let mode = text.lines().find(|line| line.trim_start().starts_with("Compute Mode"));
    assert!(mode.is_some_and(|line| line.ends_with(": Default")), "{text}");
    fs::write(&done, "").expect("it ends");
    program.wait().expect_success();
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
