//! Several users under one daemon of root's, and users whom a name service other than files knows.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tests::{Ended, Running, Scene, dist, finish, is_root, skipped, start, wait_until};

/// Two users that no other test has.
const USERS: [u32; 2] = [41_001, 41_002];
/// Status of a script that cannot run here.
const CANNOT_RUN: i32 = 77;

/// The command as a user, with that user's own group and no other.
fn by(command: &mut Command, user: u32) -> &mut Command {
    command.uid(user).gid(user).current_dir("/").env("HOME", "/nonexistent")
}

fn reads(user: u32, path: &Path) -> bool {
    finish(by(Command::new("test").arg("-r").arg(path), user)).status == 0
}

/// A scene whose directories every user may enter, with root's daemon.
fn shared_scene() -> Scene {
    let mut scene = Scene::new();
    for name in ["soft", "cache"] {
        let directory = scene.file(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let all = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(directory, all).expect("its permissions");
    }
    scene.start_daemon();
    scene
}

fn shell(scene: &Scene, user: u32, line: &str) -> Ended {
    let mut command = scene.command(&dist().join("bin/nvidia-cuda-mps-control"));
    finish(by(command.args(line.split(' ')), user))
}

/// The clients that a user is told of: PID, user, server.
fn seen_by(scene: &Scene, user: u32) -> Vec<(u32, u32, u32)> {
    let mut command = scene.command(&dist().join("bin/openmps"));
    let report = finish(by(command.args(["ps", "--json"]), user)).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let number = |value: &Value| u32::try_from(value.as_u64().expect("a number")).expect("small");
    let mut rows = Vec::new();
    for server in report["servers"].as_array().expect("a list") {
        for client in server["clients"].as_array().expect("a list") {
            rows.push((number(&client["pid"]), number(&client["uid"]), number(&server["pid"])));
        }
    }
    rows
}

#[test]
fn two_users_share_a_device_and_know_nothing_of_each_other() {
    let sample = dist().join("lib/openmps/samples/spin");
    if !is_root() || !reads(USERS[0], &sample) {
        return skipped("only root is several users, and these have to read the installation");
    }
    let scene = shared_scene();
    let spin = |user| start(by(&mut scene.sample("spin", &["--seconds", "600"]), user));
    let programs: Vec<Running> = USERS.into_iter().map(spin).collect();
    wait_until("both are served at once", || seen_by(&scene, 0).len() == 2);
    for (user, other) in [(USERS[0], USERS[1]), (USERS[1], USERS[0])] {
        let all = seen_by(&scene, 0);
        let of = |uid: u32| *all.iter().find(|row| row.1 == uid).expect("a client of that user");
        let (mine, theirs) = (of(user), of(other));
        assert_ne!(mine.2, theirs.2, "servers of their own");
        // See.
        assert_eq!(seen_by(&scene, user), [mine]);
        assert_eq!(shell(&scene, user, "get_server_list").stdout, format!("{}\n", mine.2));
        let table = shell(&scene, user, "ps").expect_success().stdout;
        let pid = theirs.0.to_string();
        assert!(table.split_whitespace().all(|word| word != pid), "{table}");
        let asked = shell(&scene, user, &format!("get_client_list {}", theirs.2));
        assert_eq!((asked.status, asked.stdout), (1, format!("Server {} not found\n", theirs.2)));
        // Signal, end, change.
        for pid in [theirs.0, theirs.2] {
            let kill = finish(by(Command::new("sh").args(["-c", &format!("kill -0 {pid}")]), user));
            assert_ne!(kill.status, 0, "a signal to {pid}");
            // Attach and read: what these files ask for is what ptrace asks for.
            for file in ["mem", "maps", "environ", "fd/0"] {
                let read = format!("exec 3< /proc/{pid}/{file} && cat <&3 | head -c 1 | grep -q .");
                let read = finish(by(Command::new("bash").args(["-c", &read]), user));
                assert_ne!(read.status, 0, "/proc/{pid}/{file}");
            }
        }
        let ended = format!("terminate_client {} {}", theirs.2, theirs.0);
        let changed = format!("set {} sms=1", theirs.0);
        for line in [ended, changed, format!("shutdown_server {} -f", theirs.2)] {
            assert_eq!(shell(&scene, user, &line).status, 1, "{line}");
        }
        finish(by(&mut scene.sample("vector_add", &["--iterations", "5"]), user)).expect_success();
        // It is listed until its session has ended.
        wait_until("both go on, and no other", || seen_by(&scene, 0).len() == 2);
    }
    drop(programs);
}

/// libnss-extrausers knows users that no file of the system has, as LDAP's modules do.
#[test]
fn users_of_another_name_service_are_served() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("name_service.sh");
    let ended = finish(Command::new("bash").arg(script).arg(dist()));
    match ended.status {
        CANNOT_RUN => skipped(ended.stderr.trim()),
        _ => drop(ended.expect_success()),
    }
}
