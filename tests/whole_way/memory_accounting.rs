//! Memory accounting of cgroups: within its soft limit a program gets what another one has beyond its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Scene, dist, finish, skipped, start, wait_until};

/// A cgroup of version 2, removed in the end.
struct Cgroup {
    directory: PathBuf,
    /// As /proc/PID/cgroup has it.
    path: String,
}

impl Cgroup {
    /// One below this process's, if it can be made.
    fn new(name: &str) -> Option<Cgroup> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mut mounts = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let mount = mounts.next()?.split(' ').nth(1)?.to_owned();
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own =
            own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_end_matches('/').to_owned();
        let path = format!("{own}/openmps-test-{}-{name}", std::process::id());
        let directory = Path::new(&mount).join(path.trim_start_matches('/'));
        std::fs::create_dir(&directory).ok()?;
        let cgroup = Cgroup { directory, path };
        let tried =
            Command::new("sh").args(["-c", "echo $$ > \"$0\""]).arg(cgroup.processes()).output();
        tried.is_ok_and(|output| output.status.success()).then_some(cgroup)
    }

    fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// vector_add with so many words in each of its three vectors, in the cgroup.
    fn vector_add(&self, scene: &Scene, words: &str) -> Command {
        self.vector_add_for(scene, words, &["--iterations", "2"])
    }

    /// The same, for as long as is said.
    fn vector_add_for(&self, scene: &Scene, words: &str, how_long: &[&str]) -> Command {
        let mut command = scene.command("sh".as_ref());
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.processes());
        command.arg(dist().join("lib/openmps/samples/vector_add"));
        command.args(["--size", words]).args(how_long);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may not be gone yet.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_cgroup_gets_what_is_promised_to_it_and_no_more_than_it_may_have() {
    let Some(cgroup) = Cgroup::new("soft") else {
        return skipped("no cgroup of version 2 can be made here");
    };
    let mut scene = Scene::new();
    scene.start_daemon_with(&[("CUDA_MPS_PROTOCOL_VERSION", "3"), ("OPENMPS_SOFT_MEMORY", "256M")]);
    let control = |line: &str| scene.control(line).expect_success().stdout;
    control(&format!("memacct limit {} --soft-limit=128M --hard-limit=160M", cgroup.path));
    control("memacct set audit_log=true");
    // 144 of 256 MiB, for as long as it may.
    let greedy =
        start(&mut scene.sample("vector_add", &["--size", "12582912", "--seconds", "600"]));
    let used = || control("client list --format=csv,noheader");
    wait_until("the greedy one is a client", || used().lines().count() == 1);
    let report = || scene.openmps(&["ps", "--json"]).expect_success().stdout;
    wait_until("it has its memory", || {
        let report: serde_json::Value = serde_json::from_str(&report()).expect("JSON");
        report["servers"][0]["clients"][0]["memory_bytes"].as_u64() >= Some(144 << 20)
    });
    let refused = finish(&mut cgroup.vector_add(&scene, "10485760"));
    assert!(refused.status != 0, "memory is not accounted for yet: {refused:?}");

    control("feature enable memacct");
    // 120 MiB are within the soft limit.
    finish(&mut cgroup.vector_add(&scene, "10485760")).expect_success();
    let ended = greedy.wait();
    assert!(ended.stderr.contains("CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{ended:?}");
    let too_much = finish(&mut cgroup.vector_add(&scene, "16777216"));
    assert!(too_much.status != 0, "192 MiB are beyond the hard limit: {too_much:?}");
    let log = scene.log("control.log");
    assert_eq!(log.matches(" is terminated for client ").count(), 1, "{log}");
    assert!(
        control("memacct list --format=csv,noheader")
            .starts_with(&format!("{},-,128M,160M,", cgroup.path))
    );
}

/// NVML's functions are another way to the same limits: `nvmlDeviceSetMemoryLimits_v1` and its twin.
#[test]
fn nvml_sets_and_reads_a_cgroup_s_limits() {
    let Some(cgroup) = Cgroup::new("nvml") else {
        return skipped("no cgroup of version 2 can be made here");
    };
    let place = cgroup.directory.to_str().expect("a path");
    let nvml = |scene: &Scene, place: &str, limits: &[&str]| {
        finish(&mut scene.sample("memory", &[&["--cgroup", place], limits].concat()))
    };
    let mut scene = Scene::with_daemon();
    let other = nvml(&scene, place, &[]);
    assert!(other.stderr.contains("Limits_v1 answers 3"), "protocol 2 has none: {other:?}");
    scene.stop_daemon().expect_success();
    scene.start_daemon_with(&[("CUDA_MPS_PROTOCOL_VERSION", "3")]);
    let unlimited = format!("soft 0 hard {} used 0\n", u64::MAX);
    assert_eq!(nvml(&scene, place, &[]).expect_success().stdout, unlimited);
    let (soft, hard) = ("33554432", "67108865");
    let set = nvml(&scene, place, &["--limits", soft, hard]).expect_success();
    assert_eq!(set.stdout, format!("soft {soft} hard {hard} used 0\n"));
    let list = || scene.control("memacct list --format=csv,noheader").expect_success().stdout;
    assert!(list().starts_with(&cgroup.path) && list().contains(",32M,67108865B,"), "{}", list());
    // They hold without any other command, and what is used is told.
    let too_much = finish(&mut cgroup.vector_add(&scene, "10485760"));
    assert!(too_much.status != 0, "120 MiB are beyond 64: {too_much:?}");
    let go = scene.file("go");
    let until = ["--until", go.to_str().expect("a path")];
    let holds = start(&mut cgroup.vector_add_for(&scene, "1048576", &until));
    let used = || -> Option<u64> {
        let told = nvml(&scene, place, &[]).expect_success().stdout;
        told.trim().rsplit_once(' ')?.1.parse().ok()
    };
    wait_until("12 MiB are used", || used() >= Some(12 << 20));
    std::fs::write(&go, "").expect("the end");
    holds.wait().expect_success();
    wait_until("its session has ended", || used() == Some(0));
    for (place, limits, answer) in [
        ("/nowhere", &["--limits", soft, hard], "answers 6"),
        ("/proc", &["--limits", soft, hard], "answers 2"),
        (place, &["--limits", hard, soft], "answers 2"),
    ] {
        let refused = nvml(&scene, place, limits);
        assert!(refused.status != 0 && refused.stderr.contains(answer), "{place}: {refused:?}");
    }
    let cleared = nvml(&scene, place, &["--limits", "0", &u64::MAX.to_string()]).expect_success();
    assert_eq!((cleared.stdout, list()), (unlimited, String::new()));
    // Who switched it off knows why.
    scene.control("feature disable memacct").expect_success();
    let refused = nvml(&scene, place, &["--limits", soft, hard]);
    assert!(refused.stderr.contains("answers 29"), "{refused:?}");
}
