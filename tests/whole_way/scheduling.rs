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
    let endless = ["--until", stop.to_str().expect("a path")];
    let mut heavy = start(scene.sample("n_body", &endless).env("OPENMPS_CLASS", "weight=3"));
    let mut light = start(&mut scene.sample("n_body", &endless));
    let pids = [heavy.pid(), light.pid()];
    wait_until("both run", || pids.iter().all(|pid| worker_ns(&scene, *pid) > 0));
    scene.openmps(&["set", "--scheduling", "policy=weighted,in-flight=1ms"]).expect_success();
    // What each has had of the device, and how long its work was held for that.
    let times = || {
        pids.map(|pid| {
            let client = client(&scene, pid);
            let had = client["work"]["worker_ns"].as_u64().expect("a time");
            (had, client["scheduling"]["held_ns"].as_u64().expect("a time"))
        })
    };
    // On a busy machine a program itself may be late, and has no work waiting: its weight is its part of
    // the time in which it had some. Three parts of four and one of four are promised.
    let mut before = times();
    wait_until("each has its part of the time in which it had work", || {
        let now = times();
        let had = [0, 1].map(|of| now[of].0 - before[of].0);
        if had[0] + had[1] < 2_000_000_000 {
            return false;
        }
        let part = |of: usize| {
            let held = now[of].1 - before[of].1;
            had[of] as f64 / (had[of] + held) as f64
        };
        let parts = [0, 1].map(part);
        before = now;
        parts[0] > 0.5 && parts[1] < 0.4
    });
    heavy.kill();
    light.kill();
    heavy.wait();
    light.wait();
}

#[test]
fn what_was_set_for_a_program_goes_with_it_to_the_next_server() {
    let scene = Scene::with_daemon();
    let stop = scene.file("stop");
    let endless = ["--until", stop.to_str().expect("a path")];
    let mut program = start(scene.sample("vector_add", &endless).env("OPENMPS_CLASS", "latency"));
    let pid = program.pid();
    let worked = || client(&scene, pid)["kernels"].as_u64().unwrap_or(0) > 0;
    wait_until("it has launched kernels", worked);
    let set = ["set", &pid.to_string(), "--class", "batch", "--weight", "3", "--memory", "1G"];
    scene.openmps(&[&set[..], &["--sms", "4"]].concat()).expect_success();
    let has = || {
        let client = client(&scene, pid);
        let (limits, scheduling) = (&client["limits"], &client["scheduling"]);
        [
            scheduling["class"].clone(),
            scheduling["settings"].clone(),
            limits["memory_bytes"].clone(),
            limits["memory_by"].clone(),
            limits["sms"].clone(),
            limits["sms_by"].clone(),
        ]
    };
    let before = has();
    assert_eq!(before[0], "batch");
    scene.control("upgrade").expect_success();
    wait_until("it launches kernels at the next server", worked);
    assert_eq!(has(), before);
    program.kill();
    program.wait();
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
