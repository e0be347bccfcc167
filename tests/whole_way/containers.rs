//! Programs in namespaces of their own, as in containers: only the pipe directory is shared with the daemon.

use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use tests::{Running, Scene, dist, finish, skipped, start, wait_until};

/// New user, mount, PID, IPC and network namespaces; the program is their first process.
const UNSHARE: &[&str] =
    &["-U", "-r", "-m", "-p", "-f", "-i", "-n", "--mount-proc", "--kill-child"];

/// What is done in the namespaces before the program begins: the pipe directory comes to another place, and
/// what else a program could share with the host's processes is hidden.
const PREPARE: &str = r#"set -e
mount --bind "$PIPE" /mnt
mount -t tmpfs none /dev/shm
mount -t tmpfs none "$HIDDEN"
export CUDA_MPS_PIPE_DIRECTORY=/mnt
unset CUDA_MPS_LOG_DIRECTORY OPENMPS_SOFT_DIR CUDA_CACHE_PATH
exec "$@""#;

/// Whether such namespaces can be made here.
fn can_unshare() -> bool {
    let script = "mount -t tmpfs none /dev/shm && mount --bind /tmp /mnt";
    let tried = Command::new("unshare").args(UNSHARE).args(["sh", "-c", script]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// A sample program in namespaces of its own.
fn contained(scene: &Scene, name: &str, arguments: &[&str]) -> Command {
    let mut command = scene.command("unshare".as_ref());
    command
        .args(UNSHARE)
        .args(["sh", "-c", PREPARE, "sh"])
        .arg(dist().join("lib/openmps/samples").join(name))
        .args(arguments)
        .env("PIPE", scene.pipe())
        .env("HIDDEN", scene.file(""));
    command
}

fn clients(scene: &Scene) -> Vec<Value> {
    let report = scene.openmps(&["ps", "--json"]).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let servers = report["servers"].as_array().expect("a list of servers");
    servers
        .iter()
        .flat_map(|server| server["clients"].as_array().cloned().unwrap_or_default())
        .collect()
}

#[test]
fn programs_in_namespaces_of_their_own_share_the_device() {
    if !can_unshare() {
        return skipped("unshare makes no namespaces here");
    }
    let scene = Scene::with_daemon();
    let holders: Vec<Running> =
        (0..2).map(|_| start(&mut contained(&scene, "spin", &["--seconds", "600"]))).collect();
    let outside = start(&mut scene.sample("spin", &["--seconds", "600"]));
    wait_until("all three launch kernels", || {
        let clients = clients(&scene);
        clients.len() == 3 && clients.iter().all(|client| client["kernels"].as_u64() > Some(0))
    });
    finish(&mut contained(&scene, "vector_add", &["--iterations", "5"])).expect_success();
    // It is listed until its session has ended.
    wait_until("that one is gone", || clients(&scene).len() == 3);

    let own = std::fs::metadata("/proc/self/ns/pid").expect("our namespace").ino();
    let mut namespaces: Vec<u64> =
        clients(&scene).iter().map(|c| c["pid_namespace"].as_u64().expect("an inode")).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    assert!(namespaces.len() == 3 && namespaces.contains(&own), "{namespaces:?} {own}");
    // The column of `ps`, and the client is terminated by its PID here.
    let table = scene.control("ps").expect_success().stdout;
    assert!(namespaces.iter().all(|inode| table.contains(&inode.to_string())), "{table}");
    let (server, program) = (scene.servers()[0], clients(&scene)[0]["pid"].clone());
    let ended = scene.control(&format!("terminate_client {server} {program}")).expect_success();
    assert_eq!(ended.stdout, "0\n");
    wait_until("it has ended", || clients(&scene).len() == 2);
    finish(&mut contained(&scene, "vector_add", &["--iterations", "5"])).expect_success();
    drop((holders, outside));
}
