//! Client containers: what little they have of the node, and NVIDIA's toolkit's own mount.

use crate::node::{Node, can_unshare, skipped};
use crate::podman;
use tests::{Ended, dist, finish};

/// A container with the daemon's directory and the libraries, as device plugins give them, and these options.
fn container(node: &Node, name: &str, words: &[&str], mount: &str) -> Ended {
    let root = podman::image(node, name);
    let libraries = format!("{}:/usr/local/openmps:ro", dist().join("lib/openmps").display());
    let mut all = vec!["-v", &libraries, "-e", "LD_LIBRARY_PATH=/usr/local/openmps", "-v", mount];
    all.extend(["-e", "CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe"]);
    // No program of the container falls back to a device of its own.
    all.extend(["-e", "OPENMPS_PROVIDER=vendor"]);
    all.extend(words);
    let program = "cat /proc/self/status; exec vector_add --iterations 2";
    finish(&mut podman::podman(&all, &root, &["sh", "-c", program]))
}

/// Only a variable and a bind: another user, no /dev/shm of the node's, no hostPID, a read-only root, the default seccomp
/// profile, a user namespace (`hostUsers: false`).
#[test]
fn a_container_needs_a_variable_and_a_directory() {
    let node = Node::new();
    if let Some(why) = podman::cannot(&node) {
        return skipped(&why);
    }
    let pipe = node.directory("mps/nvidia.com/gpu/pipe", 0o755);
    let _daemon = node.start(&pipe, &node.path("log"), &["-m"]);
    let mount = format!("{}:/mps/nvidia.com/gpu/pipe", pipe.display());
    for (name, words) in [
        ("root", &[][..]),
        ("other-user", &["--user", "41006:41006"]),
        ("read-only", &["--read-only", "--read-only-tmpfs=false", "--user", "41006:41006"]),
        ("user-namespace", &["--uidmap", "0:100000:65536"]),
        ("no-shm", &["--shm-size", "64k", "--user", "41006:41006", "--cap-drop", "all"]),
        ("no-new-rights", &["--security-opt", "no-new-privileges", "--user", "41006:41006"]),
    ] {
        let ended = container(&node, name, words, &mount);
        assert_eq!(ended.status, 0, "{name}: {ended:?}");
        let filtered = ended.stdout.contains("Seccomp:\t2");
        assert!(filtered, "{name} has the default profile: {}", ended.stdout);
    }
    let log = std::fs::read_to_string(node.path("log/control.log")).expect("a log");
    assert_eq!(log.matches(": Server already exists").count(), 6, "{log}");
    assert!(log.contains("from user 41006") && log.contains("from user 100000"), "{log}");
}

/// nvidia-container-toolkit mounts /tmp/nvidia-mps where it exists, by these options, and sets no variable.
#[test]
fn the_toolkit_s_own_mount_is_enough() {
    if !can_unshare() {
        return skipped("unshare makes no namespaces here");
    }
    let node = Node::new();
    let pipe = node.directory("tmp/nvidia-mps", 0o755);
    let _daemon = node.start(&pipe, &node.path("log"), &[]);
    let script = r#"set -e
mkdir -p /mnt/x && mount -t tmpfs none /mnt && mkdir /mnt/pipe && mount --bind "$PIPE" /mnt/pipe
mount --bind "$DIST" /srv
mount -t tmpfs none /run && mount -t tmpfs none /tmp && mkdir /tmp/nvidia-mps
mount --rbind -o nosuid,nodev,noexec /mnt/pipe /tmp/nvidia-mps
mount -o remount,bind,nosuid,nodev,noexec /tmp/nvidia-mps
unset OPENMPS_SOFT_DIR CUDA_CACHE_PATH
exec /srv/lib/openmps/samples/vector_add --iterations 2"#;
    let mut command = node.bare("unshare");
    command.args(["-U", "-r", "-m", "-p", "-f", "-i", "--mount-proc", "sh", "-c", script]);
    command.env("PIPE", &pipe).env("DIST", dist()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("LD_LIBRARY_PATH", "/srv/lib/openmps");
    finish(&mut command).expect_success();
    let log = std::fs::read_to_string(node.path("log/control.log")).expect("a log");
    assert!(log.contains("NEW CLIENT"), "it found the daemon without a variable: {log}");
}
