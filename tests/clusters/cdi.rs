//! Specs of shares: a program in a container with one computes within its limits, and reaches nothing else.

use crate::node::{Node, background, skipped};
use crate::podman;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tests::{Ended, dist, finish, wait_until};

/// Where podman looks.
const SPECS: &str = "/var/run/cdi";

fn openmps(node: &Node, pipe: &Path, words: &[&str]) -> Ended {
    let mut command = node.bare(dist().join("bin/openmps"));
    command.args(words).env("CUDA_MPS_PIPE_DIRECTORY", pipe);
    finish(&mut command)
}

#[test]
fn specs_are_made_listed_and_removed() {
    let node = Node::new();
    let (pipe, log) = (node.path("pipe"), node.path("log"));
    let openmps = |words: &[&str]| openmps(&node, &pipe, words);
    let specs = node.directory("cdi", 0o755);
    let specs = specs.to_str().expect("a path");
    let missing = openmps(&["cdi", "generate", "--share", "training/batch"]);
    assert_ne!(missing.status, 0);
    assert!(missing.stderr.contains("namespace create"), "{}", missing.stderr);
    let _daemon = node.start(&pipe, &log, &["-p", "3"]);
    node.ask(&pipe, "server create training").expect_success();
    node.ask(&pipe, "namespace create batch --server=training").expect_success();

    let printed =
        openmps(&["cdi", "generate", "--share", "training/batch"]).expect_success().stdout;
    let spec: Value = serde_json::from_str(&printed).expect("JSON");
    let mounts = &spec["devices"][0]["containerEdits"]["mounts"];
    assert_eq!(mounts[0]["hostPath"], pipe.join("training/batch").to_str().expect("a path"));
    assert_eq!(mounts.as_array().map(Vec::len), Some(1), "the directory of the namespace alone");
    let first =
        openmps(&["cdi", "generate", "--share", "training/batch", "-o", specs]).expect_success();
    assert_eq!(first.stdout, "openmps.example/share=training-batch\n");
    let both = [
        "cdi",
        "generate",
        "--share",
        "training",
        "--share",
        "training/batch",
        "--kind",
        "x.org/gpu",
    ];
    let written =
        openmps(&[&both[..], &["--env", "A=b", "-o", specs, "--json"]].concat()).expect_success();
    assert!(written.stdout.contains("x.org/gpu=training-default"), "{}", written.stdout);
    let listed = openmps(&["cdi", "list", "--directory", specs, "--json"]).expect_success().stdout;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["devices"].as_array().map(Vec::len), Some(3), "{listed}");

    // One of two devices of a file, then the other, with which the file goes.
    for (device, left) in [("x.org/gpu=training-default", 2), ("x.org/gpu=training-batch", 1)] {
        openmps(&["cdi", "remove", device, "--directory", specs]).expect_success();
        let text = openmps(&["cdi", "list", "--directory", specs]).expect_success().stdout;
        assert_eq!(text.lines().count(), left, "{text}");
    }
    openmps(&["cdi", "remove", "training-batch", "--directory", specs]).expect_success();
    assert_eq!(fs::read_dir(specs).expect("a folder").count(), 0);
    assert_ne!(openmps(&["cdi", "remove", "training-batch", "--directory", specs]).status, 0);
    for wrong in [
        &["--share", "training/../x"][..],
        &["--share", "training/batch", "--kind", "nokind"],
        &["--share", "training/batch", "--name", "a b"],
        &["--share", "training/batch", "--output", "/tmp/spec.txt"],
        &["--share", "training", "--share", "training/batch", "--name", "a"],
        &["--share", "training/batch", "--env", "A"],
        &["--share", "training/batch", "--libraries", "/nonexistent"],
    ] {
        assert_ne!(openmps(&[&["cdi", "generate"], wrong].concat()).status, 0, "{wrong:?}");
    }
}

/// Removes a spec that podman reads, also if the test fails.
struct Spec(std::path::PathBuf);

impl Drop for Spec {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn a_container_with_a_share_computes_and_reaches_nothing_else() {
    let node = Node::with_device(&[("OPENMPS_SOFT_MEMORY", "4G")]);
    if let Some(why) = podman::cannot(&node) {
        return skipped(&why);
    }
    let (pipe, log) = (node.path("pipe"), node.path("log"));
    let _daemon = node.start(&pipe, &log, &["-p", "3", "-m"]);
    for line in [
        "server create shared",
        "namespace create one --server=shared",
        "namespace set one --server=shared --active-thread-percentage=25 --pinned-memory-limit=512M",
        "namespace create two --server=shared",
    ] {
        node.ask(&pipe, line).expect_success();
    }
    let kind = format!("test{}.example/share", std::process::id());
    let made = openmps(
        &node,
        &pipe,
        &[
            "cdi",
            "generate",
            "--share",
            "shared/one",
            "--kind",
            &kind,
            "--output",
            &format!("{SPECS}/{}.json", kind.replace('/', "-")),
        ],
    );
    let device = made.expect_success().stdout.trim().to_owned();
    let _spec = Spec(Path::new(SPECS).join(format!("{}.json", kind.replace('/', "-"))));

    let run = |name: &str, words: &[&str], script: &str| {
        let root = podman::image(&node, name);
        let all = [&["--device", &device, "-e", "OPENMPS_PROVIDER=vendor"], words].concat();
        finish(&mut podman::podman(&all, &root, &["sh", "-c", script]))
    };
    let compute = "exec vector_add --iterations 2";
    for (name, words) in [
        ("root", &[][..]),
        ("other-user", &["--user", "41007:41007"]),
        ("read-only", &["--read-only", "--read-only-tmpfs=false", "--user", "41007:41007"]),
        ("user-namespace", &["--uidmap", "0:100000:65536"]),
    ] {
        let ended = run(name, words, compute);
        assert_eq!(ended.status, 0, "{name}: {ended:?}");
    }
    let nodes =
        run("nodes", &[], "ls /dev; ls -A /run/openmps; test $NVIDIA_VISIBLE_DEVICES = void");
    assert_eq!(nodes.status, 0, "{nodes:?}");
    assert!(
        !nodes.stdout.contains("nvidia") && nodes.stdout.ends_with("control\n"),
        "{}",
        nodes.stdout
    );
    // As root in the container: no other socket in its place, no command that changes anything, no other namespace.
    let replace = run("replace", &[], "rm -f /run/openmps/control; test ! -e /run/openmps/control");
    assert_ne!(replace.status, 0, "{replace:?}");
    for command in [
        "server create mine",
        "namespace set one --server=shared --active-thread-percentage=100",
        "namespace delete two --server=shared --force",
        "quit -t 0",
    ] {
        let script = format!("exec nvidia-cuda-mps-control {command}");
        let asked = run(&format!("command-{}", command.len()), &[], &script);
        assert_ne!(asked.status, 0, "{command}: {asked:?}");
    }
    for directory in ["/run/openmps/../two", "/run/openmps/two", "/run/openmps/.."] {
        let script = format!("CUDA_MPS_PIPE_DIRECTORY={directory} exec vector_add --iterations 1");
        let other = run(&format!("other-{}", directory.len()), &[], &script);
        assert_ne!(other.status, 0, "{directory}: {other:?}");
    }
    assert_eq!(
        node.ask(&pipe, "namespace get one shared active-thread-percentage").stdout,
        "25.0\n"
    );

    // Its limits are the namespace's, also against variables of its own.
    let root = podman::image(&node, "limited");
    let words = [
        "--device",
        &device,
        "-e",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100",
        "--name",
        &format!("openmps-{}", std::process::id()),
    ];
    let limited =
        background(&mut podman::podman(&words, &root, &["vector_add", "--seconds", "600"]));
    let row = node.wait_for_clients(&pipe, 1).remove(0);
    let sms = node.report(&pipe)["devices"][0]["counts"]["sms"].as_u64().expect("SMs");
    assert_eq!(row["limits"]["sms"].as_u64(), Some(sms / 4), "{row}");
    assert_eq!(row["limits"]["memory_bytes"].as_u64(), Some(512 << 20), "{row}");
    finish(std::process::Command::new("podman").args(["rm", "-f", "-t", "0", words[5]]));
    drop(limited);
    wait_until("it is gone", || node.clients(&pipe).is_empty());
    let greedy = run("greedy", &[], "exec vector_add --size 100663296 --iterations 1");
    assert!(greedy.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{}", greedy.stderr);
}
