//! Several devices: programs that use all of the software GPU's, alone and through a daemon.

use tests::{Scene, finish};

const DEVICES: (&str, &str) = ("OPENMPS_SOFT_DEVICES", "4");

#[test]
fn a_program_uses_all_devices_without_a_daemon() {
    let scene = Scene::new();
    let mut sample = scene.sample("devices", &[]);
    sample.env(DEVICES.0, DEVICES.1);
    let ended = finish(&mut sample).expect_success();
    assert_eq!(ended.stdout.trim(), "4 devices ok, with peer access");
}

#[test]
fn a_program_uses_all_devices_through_a_daemon() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[DEVICES]);
    let mut sample = scene.sample("devices", &[]);
    let ended = finish(&mut sample).expect_success();
    assert_eq!(ended.stdout.trim(), "4 devices ok, with peer access");
    // The client's list is of the daemon's devices.
    let mut sample = scene.sample("devices", &[]);
    sample.env("CUDA_VISIBLE_DEVICES", "2,0");
    let ended = finish(&mut sample).expect_success();
    assert_eq!(ended.stdout.trim(), "2 devices ok, with peer access");
    let mut sample = scene.sample("devices", &[]);
    sample.env("CUDA_VISIBLE_DEVICES", "1");
    let ended = finish(&mut sample).expect_success();
    assert_eq!(ended.stdout.trim(), "1 devices ok, without peer access");
}
