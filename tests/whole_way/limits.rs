//! What an operator sets for a machine: compute modes; and what is written down of programs.

use serde_json::Value;
use tests::{Scene, finish, start, wait_until};

const REFUSED: &str = "CUDA_ERROR_DEVICE_UNAVAILABLE";

#[test]
fn compute_modes_refuse_what_they_say() {
    let mut scene = Scene::new();
    let set = |scene: &Scene, mode: &str| {
        scene.openmps(&["set", "--compute-mode", mode]).expect_success();
    };
    let alone =
        |scene: &Scene| finish(&mut scene.sample_alone("vector_add", &["--iterations", "1"]));
    let refused = |scene: &Scene| {
        let ended = alone(scene);
        assert_ne!(ended.status, 0);
        assert!(ended.stderr.contains(REFUSED), "{}", ended.stderr);
    };
    let bad = scene.openmps(&["set", "--compute-mode", "EXCLUSIVE_THREAD"]);
    assert_ne!(bad.status, 0);
    assert!(bad.stderr.contains("EXCLUSIVE_PROCESS or PROHIBITED"), "{}", bad.stderr);
    set(&scene, "prohibited");
    refused(&scene);
    set(&scene, "EXCLUSIVE_PROCESS");
    alone(&scene).expect_success();
    // One that is there keeps all others out; with a daemon that is its server.
    scene.start_daemon();
    let go = scene.file("go");
    let barrier = ["--iterations", "1", "--barrier", go.to_str().expect("a path")];
    let programs: Vec<_> =
        (0..2).map(|_| start(&mut scene.sample("vector_add", &barrier))).collect();
    wait_until("both programs share the device", || scene.clients().len() == 2);
    refused(&scene);
    // From now on no context is made, by the server neither; what is there stays.
    set(&scene, "PROHIBITED");
    let ended = finish(&mut scene.sample("vector_add", &["--iterations", "1"]));
    assert_ne!(ended.status, 0);
    assert!(ended.stderr.contains("PROHIBITED"), "{}", ended.stderr);
    std::fs::write(&go, "").expect("the barrier opens");
    for program in programs {
        program.wait().expect_success();
    }
    set(&scene, "DEFAULT");
    finish(&mut scene.sample("vector_add", &["--iterations", "1"])).expect_success();
}

/// What is written down, as JSON.
fn accounts(scene: &Scene) -> Value {
    let logs = scene.file("log");
    let logs = logs.to_str().expect("a path");
    let text = scene.openmps(&["accounting", "--json", "--logs", logs]).expect_success().stdout;
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_programs_used_is_kept_after_their_end_and_the_daemon_s() {
    let mut scene = Scene::with_daemon();
    assert_eq!(accounts(&scene)["clients"].as_array().map(Vec::len), Some(0));
    finish(&mut scene.sample("vector_add", &["--iterations", "3"])).expect_success();
    let is_there = |count| accounts(&scene)["clients"].as_array().map(Vec::len) == Some(count);
    wait_until("the program is written down", || is_there(1));
    scene.stop_daemon().expect_success();
    scene.start_daemon();
    finish(&mut scene.sample("vector_add", &["--iterations", "3"])).expect_success();
    let is_there = |count| accounts(&scene)["clients"].as_array().map(Vec::len) == Some(count);
    wait_until("the second one too", || is_there(2));
    let all = accounts(&scene);
    for client in all["clients"].as_array().expect("a list") {
        let number =
            |name: &str| client[name].as_u64().unwrap_or_else(|| panic!("{name}: {client}"));
        assert!(number("kernels") >= 3 && number("device_ns") > 0, "{client}");
        assert!(number("bytes_in") > 0 && number("bytes_out") > 0, "{client}");
        assert!(number("peak_memory_bytes") >= 1 << 20, "{client}");
        assert!(client["command"].as_str().is_some_and(|c| c.contains("vector_add")), "{client}");
    }
    let kernels = |list: &Value| -> u64 {
        let rows = list.as_array().expect("a list").iter();
        rows.map(|row| row["kernels"].as_u64().expect("a number")).sum()
    };
    assert_eq!(kernels(&all["users"]), kernels(&all["clients"]));
    let logs = scene.file("log");
    let logs = ["--logs", logs.to_str().expect("a path")];
    let csv =
        scene.openmps(&[&["accounting", "--csv"][..], &logs].concat()).expect_success().stdout;
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let later = ["accounting", "--since", "2999-01-01"];
    let none = scene.openmps(&[&later[..], &logs].concat()).expect_success().stdout;
    assert!(none.contains("no record matches"), "{none}");
}

#[test]
fn what_a_program_did_before_an_upgrade_is_written_down() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[("OPENMPS_SOFT_TENANTS", "0")]);
    let until = scene.file("stop");
    let name = until.to_str().expect("a path");
    let program = start(&mut scene.sample("vector_add", &["--until", name]));
    let kernels = || {
        let report = scene.openmps(&["ps", "--json"]).expect_success().json();
        report["servers"][0]["clients"][0]["kernels"].as_u64().unwrap_or(0)
    };
    wait_until("it has launched kernels", || kernels() > 0);
    scene.control("upgrade").expect_success();
    wait_until("it launches kernels at the next server", || kernels() > 0);
    std::fs::write(&until, "").expect("the file that stops it");
    program.wait().expect_success();
    let rows = || accounts(&scene)["clients"].as_array().cloned().unwrap_or_default();
    wait_until("both batches are written down", || rows().len() == 2);
    for row in rows() {
        assert!(row["kernels"].as_u64() > Some(0) && row["lost"] != true, "{row}");
    }
}
