//! Classes and weights of programs, as ratios: the experiment of docs/scheduling.md in small.

use serde_json::Value;
use tests::{Scene, start, wait_until};

/// A client of the daemon, as `openmps ps` says.
fn client(scene: &Scene, pid: u32) -> Value {
    let report = scene.openmps(&["ps", "--json"]).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    let servers = report["servers"].as_array().expect("a list of servers");
    let mut clients = servers.iter().flat_map(|s| s["clients"].as_array().expect("a list"));
    clients.find(|client| client["pid"] == pid).cloned().unwrap_or_default()
}

/// Time that threads spent in the blocks of a client, ns.
fn worker_ns(scene: &Scene, pid: u32) -> u64 {
    client(scene, pid)["work"]["worker_ns"].as_u64().unwrap_or(0)
}

#[test]
fn device_time_follows_weights() {
    let scene = Scene::with_daemon();
    let stop = scene.file("stop");
    // Work for most of a second before a program waits: on a busy machine one that is ready too rarely would
    // have less than its share by itself.
    let endless =
        ["--size", "2048", "--work", "500", "--until", stop.to_str().expect("a path")];
    let mut heavy = start(scene.sample("n_body", &endless).env("OPENMPS_CLASS", "weight=3"));
    let mut light = start(&mut scene.sample("n_body", &endless));
    let pids = [heavy.pid(), light.pid()];
    wait_until("both run", || pids.iter().all(|pid| worker_ns(&scene, *pid) > 0));
    scene.openmps(&["set", "--scheduling", "policy=weighted,in-flight=1ms"]).expect_success();
    let times = || pids.map(|pid| worker_ns(&scene, pid));
    // Other programs of the machine take from one more than from the other at times, not always.
    let mut before = times();
    wait_until("one has three parts of four", || {
        let now = times();
        let [a, b] = [now[0] - before[0], now[1] - before[1]];
        if a + b < 5_000_000_000 {
            return false;
        }
        before = now;
        (0.68..0.82).contains(&(a as f64 / (a + b) as f64))
    });
    heavy.kill();
    light.kill();
    heavy.wait();
    light.wait();
}

#[test]
fn batch_makes_way_for_latency_and_goes_on() {
    let scene = Scene::with_daemon();
    let stop = scene.file("stop");
    let endless = ["--until", stop.to_str().expect("a path")];
    let mut batch = start(scene.sample("n_body", &endless).env("OPENMPS_CLASS", "batch"));
    wait_until("batch runs", || worker_ns(&scene, batch.pid()) > 0);
    let held = || client(&scene, batch.pid())["scheduling"]["held_ns"].as_u64().unwrap_or(0);
    assert_eq!(held(), 0, "alone it is never held");
    let mut critical = start(scene.sample("vector_add", &endless).env("OPENMPS_CLASS", "latency"));
    wait_until("batch is held while requests are there", || held() > 1_000_000);
    assert_eq!(client(&scene, critical.pid())["scheduling"]["held_ns"], 0);
    assert_eq!(client(&scene, critical.pid())["scheduling"]["class"], "latency");
    let kernels = || client(&scene, batch.pid())["kernels"].as_u64().unwrap_or(0);
    let before = kernels();
    wait_until("and runs in between", || kernels() > before + 50);
    critical.kill();
    critical.wait();
    batch.kill();
    batch.wait();
}
