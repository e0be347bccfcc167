//! Programs of one user have equal shares of the device.

use serde_json::Value;
use tests::{Scene, Signal, finish, signal, start, wait_until};

fn report(scene: &Scene) -> Value {
    serde_json::from_str(&scene.openmps(&["ps", "--json"]).expect_success().stdout).expect("JSON")
}

/// Time that threads spent in the blocks of a client, ns, as `openmps ps` says.
fn worker_ns(scene: &Scene, pid: u32) -> u64 {
    let report = report(scene);
    let servers = report["servers"].as_array().expect("a list of servers");
    let mut clients = servers.iter().flat_map(|s| s["clients"].as_array().expect("a list"));
    let client = clients.find(|client| client["pid"] == pid);
    client.and_then(|client| client["work"]["worker_ns"].as_u64()).unwrap_or(0)
}

#[test]
fn a_program_that_fills_the_device_for_ever_leaves_others_their_share() {
    let scene = Scene::with_daemon();
    let mut greedy = start(&mut scene.sample("endless", &["--fill"]));
    wait_until("its blocks run", || worker_ns(&scene, greedy.pid()) > 5_000_000);
    finish(&mut scene.sample("vector_add", &["--iterations", "20"])).expect_success();
    signal(greedy.pid(), Signal::STOP);
    finish(&mut scene.sample("vector_add", &["--iterations", "20"])).expect_success();
    signal(greedy.pid(), Signal::CONT);
    assert!(greedy.is_running(), "the others did not wait for its end");
    greedy.kill();
    greedy.wait();
}

#[test]
fn a_program_is_told_the_sms_of_its_share() {
    let scene = Scene::with_daemon();
    let told = |share: &str| {
        let mut probe = scene.sample("probe", &["--json"]);
        probe.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share);
        let answer = finish(&mut probe).expect_success().json();
        answer["devices"][0]["attributes"]["multiprocessors"].as_u64()
    };
    assert_eq!(["25", "50", "100"].map(told), [Some(2), Some(4), Some(8)]);
}

/// Kernels that a program has submitted.
fn kernels_of(scene: &Scene, pid: u32) -> u64 {
    let report = report(scene);
    let servers = report["servers"].as_array().expect("a list of servers");
    let mut clients = servers.iter().flat_map(|s| s["clients"].as_array().expect("a list"));
    let client = clients.find(|client| client["pid"] == pid);
    client.and_then(|client| client["kernels"].as_u64()).unwrap_or(0)
}

#[test]
fn programs_with_shares_come_beside_an_endless_kernel_and_find_green_contexts() {
    let mut scene = Scene::new();
    // As with NVIDIA's driver.
    let settings = [
        ("OPENMPS_SOFT_TENANTS", "0"),
        ("OPENMPS_SOFT_CONTEXT_WAITS", "1"),
        ("OPENMPS_SOFT_THREADS", "4"),
        ("OPENMPS_SOFT_SMS", "32"),
    ];
    scene.start_daemon_with(&settings);
    let stop = scene.file("stop").to_str().expect("a path").to_owned();
    let with = |share: &str, words: &[&str]| {
        let mut program = scene.sample("vector_add", words);
        program.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share);
        program
    };
    // The first one of its share; its code stays loaded.
    finish(&mut with("50", &["--iterations", "1"])).expect_success();
    wait_until("that of the next one is made", || {
        let log = scene.log("server.log");
        let made = log.lines().filter(|line| line.contains("Green contexts are made ahead: SMs "));
        let made: String = made.collect();
        // The first one may have made its own itself.
        made.contains("16 to 31")
    });
    let barrier = scene.file("endless");
    let name = barrier.to_str().expect("a path");
    let mut endless = start(&mut scene.sample("endless", &["--barrier", name]));
    let ready = scene.file(&format!("endless.ready.{}", endless.pid()));
    wait_until("the endless kernel is loaded", || ready.exists());
    std::fs::write(&barrier, "").expect("the barrier opens");
    wait_until("it runs", || kernels_of(&scene, endless.pid()) > 0);
    // A green context that was not there would be made when the endless kernel has ended.
    let words = ["--until", &stop, "--verify-each"];
    let programs: Vec<_> = (0..2).map(|_| start(&mut with("50", &words))).collect();
    for program in &programs {
        wait_until("it works", || kernels_of(&scene, program.pid()) > 0);
    }
    let context = report(&scene)["servers"][0]["context"].clone();
    assert_eq!(context["waiting"], serde_json::json!([]), "{context}");
    // One with another share has to wait, and is told for whom.
    let mut late = start(&mut with("25", &words));
    wait_until("it is known who waits for whom", || {
        let told = scene.openmps(&["ps"]).expect_success().stdout;
        let client = format!("making a green context for client {} ", late.pid());
        let of = format!("waits for work of {} ", endless.pid());
        told.lines().any(|line| line.contains(&client) && line.contains(&of))
    });
    late.kill();
    late.wait();
    wait_until("it is given up", || {
        scene.log("server.log").contains("making a green context is given up after ")
    });
    std::fs::write(&stop, "").expect("the file that stops the programs");
    for program in programs {
        assert_eq!(program.wait().expect_success().errors(), "");
    }
    endless.kill();
    endless.wait();
    let log = scene.log("server.log");
    assert!(!log.contains("its share of SMs is not kept"), "{log}");
}
