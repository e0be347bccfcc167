//! One program's fault is its own.

use tests::{Scene, finish, start, wait_until};

#[test]
fn a_faulting_program_gets_its_error_and_others_go_on() {
    let scene = Scene::with_daemon();
    let enough = scene.file("enough");
    let until = ["--until", enough.to_str().expect("a path"), "--verify-each", "--json"];
    let mut neighbour = start(&mut scene.sample("vector_add", &until));
    wait_until("the neighbour is there", || scene.clients().len() == 1);
    let server = scene.servers();
    for _ in 0..5 {
        let fault = finish(&mut scene.sample("fault", &[]));
        let text = format!("{}{}", fault.stdout, fault.stderr);
        assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{fault:?}");
    }
    assert!(neighbour.is_running(), "the neighbour was there all the time");
    let report = scene.openmps(&["ps", "--json"]).expect_success().json();
    let faults = report["faults"].as_array().expect("a list");
    let is_faulting = |fault: &&serde_json::Value| fault["is_faulting"] == true;
    assert_eq!(faults.iter().filter(is_faulting).count(), 5, "{faults:?}");
    assert!(faults[0]["why"].as_str().expect("words").contains("write_word"), "{faults:?}");
    let shown = scene.openmps(&["ps"]).expect_success().stdout;
    assert!(shown.contains(" has CUDA_ERROR_ILLEGAL_ADDRESS: "), "{shown}");
    assert!(shown.contains("1 more faults in --json"), "{shown}");
    std::fs::write(&enough, "").expect("the neighbour is told to end");
    let report = neighbour.wait().expect_success().json();
    assert_eq!(report["verified"], true);
    assert_eq!(scene.servers(), server, "the server that was there is still the one");
    let log = scene.log("server.log");
    assert!(log.contains("write_word"), "the kernel is named: {log}");
}

#[test]
fn a_fault_is_the_same_without_a_daemon() {
    let scene = Scene::new();
    let fault = finish(&mut scene.sample_alone("fault", &[]));
    let text = format!("{}{}", fault.stdout, fault.stderr);
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{fault:?}");
}
