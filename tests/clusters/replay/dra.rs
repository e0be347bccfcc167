//! NVIDIA's DRA driver: `templates/mps-control-daemon.tmpl.yaml`, a shell with `set -e` for each claim.

use crate::node::{Daemon, Node, background, can_unshare, is_root, skipped};
use std::fs;
use std::path::Path;
use tests::{Running, finish, wait_until};

/// The template's shell for a driver root without a shell of its own: programs of the root by PATH, libraries by
/// LD_LIBRARY_PATH.
const SCRIPT: &str = r#"set -e
rm -f "$ROOT/var/log/nvidia-mps/startup.log"
export PATH="$ROOT/usr/bin:$PATH"
export CUDA_MPS_PIPE_DIRECTORY="$ROOT/tmp/nvidia-mps"
export CUDA_MPS_LOG_DIRECTORY="$ROOT/var/log/nvidia-mps"
nvidia-cuda-mps-control -d $MULTIUSER
echo "set_default_active_thread_percentage $SHARE" | nvidia-cuda-mps-control
for limit in $LIMITS; do
    echo "set_default_device_pinned_mem_limit ${limit%=*} ${limit#*=}" | nvidia-cuda-mps-control
done
echo "startup complete" > "$CUDA_MPS_LOG_DIRECTORY/startup.log"
exec tail -n +1 -f "$CUDA_MPS_LOG_DIRECTORY/control.log"
"#;

struct Pod {
    _tail: Running,
    _daemon: Daemon,
}

/// A pod of the Deployment; it is ready by its startup probe.
fn pod(node: &Node, root: &str, uuids: &str, limits: &str, share: &str, multiuser: &str) -> Pod {
    node.directory(&format!("{root}/tmp/nvidia-mps"), 0o755);
    node.directory(&format!("{root}/var/log/nvidia-mps"), 0o755);
    let programs = node.directory(&format!("{root}/usr/bin"), 0o755);
    let control = programs.join("nvidia-cuda-mps-control");
    std::os::unix::fs::symlink(tests::dist().join("bin/openmps"), control).expect("a link");
    let mut command = node.bare("sh");
    command.args(["-c", SCRIPT]).env("PATH", "/usr/bin:/bin").env("ROOT", node.path(root));
    command.env("CUDA_VISIBLE_DEVICES", uuids).env("LIMITS", limits).env("SHARE", share);
    let tail = background(command.env("MULTIUSER", multiuser));
    let log = node.path(root).join("var/log/nvidia-mps/startup.log");
    wait_until("the startup probe", || {
        fs::read_to_string(&log).is_ok_and(|text| text == "startup complete\n")
    });
    Pod { _tail: tail, _daemon: Daemon::of(&node.path(root).join("tmp/nvidia-mps")) }
}

const DEVICES: [(&str, &str); 2] = [("OPENMPS_SOFT_DEVICES", "2"), ("OPENMPS_SOFT_MEMORY", "4G")];

#[test]
fn a_claim_s_pod_limits_by_uuid_and_serves_the_claim_s_container() {
    let node = Node::with_device(&DEVICES);
    let uuids = node.uuids();
    let _pod = pod(&node, "claim", &uuids[1], &format!("{}=512M", uuids[1]), "50", "");
    let pipe = node.path("claim/tmp/nvidia-mps");
    let done = node.path("done");
    let client = background(&mut node.computes_until(&pipe, &done));
    let row = node.wait_for_clients(&pipe, 1).remove(0);
    assert_eq!(row["device_uuid"], uuids[1].as_str());
    assert_eq!(row["limits"]["memory_bytes"].as_u64(), Some(512 << 20), "{row}");
    let sms = node.report(&pipe)["devices"][0]["counts"]["sms"].as_u64().expect("SMs");
    assert_eq!(row["limits"]["sms"].as_u64(), Some(sms / 2), "{row}");
    fs::write(&done, "").expect("it ends");
    client.wait().expect_success();
}

/// PR #1153: `-M` for claims of several users.
#[test]
fn a_multiuser_claim_serves_users_by_one_server() {
    if !is_root() {
        return skipped("root is wanted");
    }
    let node = Node::with_device(&DEVICES);
    let uuids = node.uuids();
    let _pod = pod(&node, "claim", &uuids[0], "", "100", "-M");
    let pipe = node.path("claim/tmp/nvidia-mps");
    let done = node.path("done");
    let users = [0, 41_003].map(|uid| {
        use std::os::unix::process::CommandExt;
        let mut program = node.computes_until(&pipe, &done);
        background(program.uid(uid).gid(uid).current_dir("/"))
    });
    node.wait_for_clients(&pipe, 2);
    assert_eq!(node.report(&pipe)["servers"].as_array().map(Vec::len), Some(1));
    fs::write(&done, "").expect("they end");
    for user in users {
        user.wait().expect_success();
    }
}

/// dra-driver #1283 says that MPS and shares of several GPUs exclude each other, since a process has one pipe directory
/// and there is a daemon for each claim. Here one daemon has all GPUs: its directory serves claims on two.
#[test]
fn one_directory_serves_a_container_with_claims_on_two_gpus() {
    let node = Node::with_device(&DEVICES);
    let uuids = node.uuids();
    let limits = format!("{}=512M {}=1024M", uuids[0], uuids[1]);
    let _pod = pod(&node, "root", &uuids.join(","), &limits, "50", "");
    let pipe = node.path("root/tmp/nvidia-mps");
    let script = r#"mount --bind "$PIPE" /mnt && CUDA_MPS_PIPE_DIRECTORY=/mnt exec "$@""#;
    let mut peers = node.sample(&pipe, "peers", &["--devices", "2", "--iterations", "3"]);
    if can_unshare() {
        let own = peers;
        peers = node.bare("unshare");
        peers.args(["-U", "-r", "-m", "sh", "-c", script, "sh"]).arg(own.get_program());
        peers.args(own.get_args()).env("PIPE", &pipe).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        peers.env("LD_LIBRARY_PATH", tests::dist().join("lib/openmps"));
    }
    finish(&mut peers).expect_success();
    // Each GPU's claim has its own limit.
    for (ordinal, mib) in [(0, 512), (1, 1024)] {
        let done = node.path(format!("done-{ordinal}"));
        let mut program = node.computes_until(&pipe, &done);
        let program = background(program.env("CUDA_VISIBLE_DEVICES", &uuids[ordinal]));
        let row = node.wait_for_clients(&pipe, 1).remove(0);
        assert_eq!(row["device_uuid"], uuids[ordinal].as_str());
        assert_eq!(row["limits"]["memory_bytes"].as_u64(), Some(mib << 20), "{row}");
        fs::write(&done, "").expect("it ends");
        program.wait().expect_success();
        wait_until("it is gone", || node.clients(&pipe).is_empty());
    }
    assert!(log_of(&node.path("root/var/log/nvidia-mps")).contains("NEW CLIENT"));
}

/// The template's other way, `RUN="chroot /driver-root sh -c"`, with a root that has a shell.
#[test]
fn the_daemon_starts_in_a_chroot_of_the_driver_root() {
    if !is_root() {
        return skipped("root is wanted");
    }
    let node = Node::with_device(&DEVICES);
    let root = crate::podman::root_file_system(&node, "driver-root");
    let script = r#"mkdir -p /tmp/nvidia-mps /var/log/nvidia-mps /dev/shm
export CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps CUDA_MPS_LOG_DIRECTORY=/var/log/nvidia-mps
nvidia-cuda-mps-control -d && echo set_default_active_thread_percentage 50 | nvidia-cuda-mps-control"#;
    let mounts = r#"mkdir -p "$ROOT/proc" "$ROOT/dev" "$ROOT$SOFT"
mount -t proc proc "$ROOT/proc" && mount --bind /dev "$ROOT/dev" && mount --bind "$SOFT" "$ROOT$SOFT"
exec chroot "$ROOT" sh -c "$RUN""#;
    let mut command = node.bare("unshare");
    command.args(["-m", "sh", "-c", mounts]).env("RUN", script).env("ROOT", &root);
    command.env("SOFT", node.path("soft")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let ended = finish(&mut command).expect_success();
    assert_eq!(ended.stdout, "50.0\n", "{ended:?}");
    let pipe = root.join("tmp/nvidia-mps");
    let _daemon = Daemon::of(&pipe);
    // From outside, by the directory alone.
    finish(&mut node.computes(&pipe)).expect_success();
    assert!(log_of(&root.join("var/log/nvidia-mps")).contains("NEW CLIENT"));
}

fn log_of(directory: &Path) -> String {
    fs::read_to_string(directory.join("control.log")).unwrap_or_default()
}
