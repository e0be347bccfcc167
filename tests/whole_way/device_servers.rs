//! Several devices: a server each, peers' memory through them, and a fault that stays on its device.

use tests::{Scene, finish, start, wait_until};

const DEVICES: &[(&str, &str)] = &[("OPENMPS_SOFT_DEVICES", "3"), ("OPENMPS_SOFT_TENANTS", "0")];

#[test]
fn kernels_and_copies_reach_peers_through_their_servers() {
    let mut scene = Scene::new();
    scene.start_daemon_with(DEVICES);
    let arguments = ["--json", "--iterations", "2", "--size", "5000"];
    let report = finish(&mut scene.sample("peers", &arguments)).expect_success().json();
    assert_eq!((&report["devices"], &report["verified"]), (&3.into(), &true.into()), "{report}");
    assert_eq!(scene.servers().len(), 3, "a server each");
}

#[test]
fn memory_and_events_of_two_devices_are_shared_by_two_processes_and_within_one() {
    let mut scene = Scene::new();
    scene.start_daemon_with(DEVICES);
    let ended = finish(&mut scene.sample("sharing", &[])).expect_success();
    assert_eq!(ended.stdout.trim(), "3 devices: shared within a process and between two");
    // The numbers of the devices differ from the daemon's.
    let mut sample = scene.sample("sharing", &[]);
    let ended = finish(sample.env("CUDA_VISIBLE_DEVICES", "2,0")).expect_success();
    assert_eq!(ended.stdout.trim(), "2 devices: shared within a process and between two");
    // Both processes use one device.
    let mut sample = scene.sample("sharing", &[]);
    let ended = finish(sample.env("CUDA_VISIBLE_DEVICES", "1")).expect_success();
    assert_eq!(ended.stdout.trim(), "1 devices: shared within a process and between two");
}

#[test]
fn a_fault_on_one_device_is_not_noticed_on_another() {
    let mut scene = Scene::new();
    scene.start_daemon_with(DEVICES);
    let enough = scene.file("enough");
    let until = ["--until", enough.to_str().expect("a path"), "--verify-each", "--json"];
    let mut neighbour = scene.sample("vector_add", &until);
    let mut neighbour = start(neighbour.env("CUDA_VISIBLE_DEVICES", "1"));
    wait_until("the neighbour is there", || scene.clients().len() == 1);
    let server = scene.servers();
    let mut fault = scene.sample("fault", &[]);
    let fault = finish(fault.env("CUDA_VISIBLE_DEVICES", "0"));
    let text = format!("{}{}", fault.stdout, fault.stderr);
    assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{fault:?}");
    assert!(neighbour.is_running() && scene.servers().contains(&server[0]));
    std::fs::write(&enough, "").expect("the neighbour is told to end");
    let report = neighbour.wait().expect_success().json();
    assert_eq!(report["verified"], true);
}
