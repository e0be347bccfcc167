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

#[test]
fn where_a_fault_is_the_end_of_all_a_newcomer_gets_a_new_server_at_once() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[("OPENMPS_SOFT_TENANTS", "0")]);
    let until = scene.file("never");
    let until = until.to_str().expect("a path");
    let neighbour = start(&mut scene.sample("vector_add", &["--until", until]));
    let stopped = start(&mut scene.sample("vector_add", &["--until", until]));
    wait_until("both are there", || scene.clients().len() == 2);
    let signal = |signal| {
        // SAFETY: sends a signal to our own child, which has not been waited for.
        unsafe { libc::kill(stopped.pid().cast_signed(), signal) };
    };
    signal(libc::SIGSTOP);
    let old = scene.servers()[0];
    let fault = finish(&mut scene.sample("fault", &[]));
    assert!(fault.stdout.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{fault:?}");
    let ended = neighbour.wait();
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{ended:?}");
    // The old server still has the one that is stopped.
    let status = scene.control(&format!("get_server_status {old}")).expect_success().stdout;
    assert_eq!(status, "FAULT\n");
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
    assert!(scene.servers().contains(&old) && scene.servers().len() == 2);
    signal(libc::SIGCONT);
    assert_eq!(stopped.wait().status, 2);
    wait_until("the old server is gone", || !scene.servers().contains(&old));
}
