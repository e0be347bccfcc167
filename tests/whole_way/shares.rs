//! Programs of one user have equal shares of the device.

use serde_json::Value;
use tests::{Scene, finish, start, wait_until};

/// Time that threads spent in the blocks of a client, ns, as `openmps ps` says.
fn worker_ns(scene: &Scene, pid: u32) -> u64 {
    let report = scene.openmps(&["ps", "--json"]).expect_success();
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
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
    let signal = |signal| {
        // SAFETY: sends a signal to our own child, which has not been waited for.
        unsafe { libc::kill(greedy.pid().cast_signed(), signal) };
    };
    finish(&mut scene.sample("vector_add", &["--iterations", "20"])).expect_success();
    signal(libc::SIGSTOP);
    finish(&mut scene.sample("vector_add", &["--iterations", "20"])).expect_success();
    signal(libc::SIGCONT);
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
