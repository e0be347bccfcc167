//! Host memory budget: programs that pin all they can are refused, and the server is not killed for want of memory.

use std::path::PathBuf;
use std::process::Command;
use tests::{Scene, dist, skipped, start};

/// Limit of the cgroup that daemon and server are in, bytes.
const LIMIT_BYTES: u64 = 768 << 20;
/// What the device has, bytes, as the variable wants it: the software GPU's memory is the server's.
const DEVICE_MEMORY: &str = "128M";

/// A cgroup with a limit of memory, of version 1 or 2; removed in the end.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Self> {
        let name = format!("openmps-test-{}-memory", std::process::id());
        let of_version =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        of_version.into_iter().find_map(|(root, file)| {
            let group = Self(PathBuf::from(root).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            let limit = std::fs::write(group.0.join(file), LIMIT_BYTES.to_string());
            limit.is_ok().then_some(group)
        })
    }

    /// A command that enters it and starts another one.
    fn enter(&self, command: &mut Command) {
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may not be gone yet.
        for _ in 0..500 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn programs_that_pin_all_they_can_do_not_have_the_server_killed() {
    let Some(group) = Cgroup::new() else {
        return skipped("this user cannot limit the memory of a cgroup");
    };
    let mut scene = Scene::new();
    let mut daemon = scene.command("sh".as_ref());
    daemon.env("OPENMPS_SOFT_MEMORY", DEVICE_MEMORY);
    group.enter(&mut daemon);
    daemon.arg(dist().join("bin/nvidia-cuda-mps-control")).arg("-f");
    scene.wait_for_start(&mut daemon);
    // It verifies its results, beside the others and after them.
    let neighbour = start(&mut scene.sample("n_body", &["--seconds", "6", "--verify-each"]));
    let greedy = || {
        let arguments = ["--way", "cuMemHostAlloc", "--most", "4096", "--hold", "2", "--json"];
        start(&mut scene.sample("memory", &arguments))
    };
    let all: Vec<_> = std::iter::repeat_with(greedy).take(3).collect();
    let mut pinned_mib = 0;
    for one in all {
        let report = one.wait().expect_success().json();
        let row = &report["rows"][0];
        assert_eq!(row["error"], "CUDA_ERROR_OUT_OF_MEMORY", "{report}");
        pinned_mib += row["got_mib"].as_u64().expect("a number");
    }
    assert!(pinned_mib << 20 < LIMIT_BYTES, "{pinned_mib} MiB are more than the cgroup may have");
    neighbour.wait().expect_success();
    let log = scene.log("server.log");
    assert!(log.contains("host memory limit of"), "{log}");
    assert_eq!(log.matches("Server has started").count(), 1, "{log}");
}

/// A cgroup of version 2 with the subgroup that systemd would start the daemon in; removed in the end.
struct DelegatedCgroup(PathBuf);

impl DelegatedCgroup {
    fn new() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.find(|fields| fields.get(2) == Some(&"cgroup2"))?[1].to_owned();
        let name = format!("openmps-test-{}-delegated", std::process::id());
        let group = Self(PathBuf::from(mount).join(name));
        std::fs::create_dir_all(group.0.join("daemon")).ok()?;
        Some(group)
    }

    fn of_servers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a cgroup").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("server-")).collect()
    }
}

impl Drop for DelegatedCgroup {
    fn drop(&mut self) {
        for group in [self.0.join("daemon"), self.0.clone()] {
            for _ in 0..500 {
                if std::fs::remove_dir(&group).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_server_has_a_cgroup_of_its_own_where_the_service_manager_delegates_one() {
    let Some(group) = DelegatedCgroup::new() else {
        return skipped("this user cannot make a cgroup of version 2");
    };
    let mut scene = Scene::new();
    let mut daemon = scene.command("sh".as_ref());
    daemon.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
    daemon.arg(group.0.join("daemon/cgroup.procs"));
    daemon.arg(dist().join("bin/nvidia-cuda-mps-control")).arg("-f");
    scene.wait_for_start(&mut daemon);
    scene.sample("vector_add", &["--iterations", "1"]).status().expect("vector_add");
    let [server] = scene.servers()[..] else { panic!("one server: {:?}", scene.servers()) };
    let own = std::fs::read_to_string(format!("/proc/{server}/cgroup")).expect("its cgroups");
    let wanted = format!("/server-{server}");
    assert!(own.lines().any(|line| line.starts_with("0::") && line.ends_with(&wanted)), "{own}");
    assert_eq!(group.of_servers(), [format!("server-{server}")]);
    scene.stop_daemon().expect_success();
    tests::wait_until("its cgroup is removed", || group.of_servers().is_empty());
}
