//! The folder that NVIDIA's components take for the driver's: what lies in it, programs from it, and NVIDIA's container
//! toolkit with it (`tests/clusters/toolkit.sh` builds that).

use crate::node::{Daemon, Node, skipped};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Ended, dist, finish};

fn lay(node: &Node, words: &[&str]) -> Ended {
    let mut command = node.bare(dist().join("bin/openmps"));
    command.arg("driver-root").arg(node.path("root")).args(words);
    finish(&mut command)
}

#[cfg(target_arch = "aarch64")]
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

#[test]
fn a_driver_root_is_laid_used_laid_again_and_removed() {
    let node = Node::new();
    let root = node.path("root");
    let laid: Value =
        serde_json::from_str(&lay(&node, &["--json"]).expect_success().stdout).expect("JSON");
    let version = laid["driver_version"].as_str().expect("a version").to_owned();
    assert!(laid["software_gpu"] == true && version.starts_with("580."), "{laid}");
    for name in ["libcuda.so", "libnvidia-ml.so", "libopenmps-soft.so"] {
        let file = root.join(LIBRARIES).join(format!("{name}.{version}"));
        assert!(fs::symlink_metadata(&file).expect("it is there").is_file(), "{}", file.display());
    }
    assert_eq!(
        fs::read_link(root.join(LIBRARIES).join("libcuda.so.1")).expect("a link"),
        Path::new(&format!("libcuda.so.{version}"))
    );
    let again: Value =
        serde_json::from_str(&lay(&node, &["--json"]).expect_success().stdout).expect("JSON");
    assert_eq!(again["changed"].as_array().map(Vec::len), Some(0), "{again}");

    // Its programs, by the DRA driver's variables and no others.
    let own = |name: &str| {
        let mut command = node.bare(root.join("usr/bin").join(name));
        command.env("LD_LIBRARY_PATH", root.join(LIBRARIES));
        command
    };
    let listed = finish(own("nvidia-smi").arg("-L")).expect_success().stdout;
    assert_eq!(listed, node.smi("-L").stdout);
    let pipe = root.join("tmp/nvidia-mps");
    let mut start = own("nvidia-cuda-mps-control");
    start.arg("-d").env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
    finish(start.env("CUDA_MPS_LOG_DIRECTORY", root.join("var/log/nvidia-mps"))).expect_success();
    let daemon = Daemon::of(&pipe);
    let program = |libraries: PathBuf| {
        let mut program = node.computes(&pipe);
        program.env("LD_LIBRARY_PATH", libraries);
        finish(&mut program)
    };
    program(root.join(LIBRARIES)).expect_success();
    let log = fs::read_to_string(root.join("var/log/nvidia-mps/control.log")).expect("a log");
    assert!(log.contains("NEW CLIENT"), "{log}");
    let busy = lay(&node, &["--remove"]);
    assert!(busy.status != 0 && busy.stderr.contains("end it first"), "{busy:?}");
    // An update while it runs: the daemon and its socket stay.
    lay(&node, &["--nvidia-smi", "never"]).expect_success();
    assert!(!root.join("usr/bin/nvidia-smi").exists() && daemon.is_there());
    program(root.join(LIBRARIES)).expect_success();
    drop(daemon);

    // What the toolkit mounts, by version alone: the software GPU is found.
    let mounted = node.directory("mounted", 0o755);
    for name in ["libcuda.so", "libopenmps-soft.so"] {
        let name = format!("{name}.{version}");
        fs::copy(root.join(LIBRARIES).join(&name), mounted.join(&name)).expect("a copy");
    }
    for link in ["libcuda.so.1", "libcuda.so"] {
        std::os::unix::fs::symlink(format!("libcuda.so.{version}"), mounted.join(link))
            .expect("a link");
    }
    program(mounted).expect_success();

    lay(&node, &["--remove"]).expect_success();
    assert!(!root.exists(), "nothing is left");
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("mine"), "").expect("a file");
    let refused = lay(&node, &[]);
    assert!(refused.status != 0 && refused.stderr.contains("is not empty"), "{refused:?}");
}

/// NVIDIA's container toolkit, built as a Go module: a spec from the root, a container with it.
#[test]
fn nvidia_s_toolkit_makes_a_spec_of_it_and_podman_runs_a_program() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/toolkit.sh");
    let toolkit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.third-party/toolkit/nvidia-ctk");
    if !toolkit.is_file() {
        return skipped(
            "tests/clusters/toolkit.sh builds NVIDIA's container toolkit; it was not run",
        );
    }
    let ended = finish(Command::new("bash").arg(script).arg(dist()));
    match ended.status {
        77 => skipped(&ended.stderr),
        status => assert_eq!(status, 0, "{ended:?}"),
    }
}
