//! `OPENMPS_SOFT_CHECK=1`: programs without mistakes are not accused of any.

use super::results::{SAMPLES, arguments};
use tests::{Scene, dist, finish};

/// What checking said of kernels.
fn findings(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("openmps-soft: kernel ")).collect()
}

#[test]
fn samples_are_not_accused() {
    let mut scene = Scene::new();
    for (name, own) in SAMPLES {
        let mut sample = scene.sample_alone(name, &arguments(own));
        let ended = finish(sample.env("OPENMPS_SOFT_CHECK", "1")).expect_success();
        assert!(findings(&ended.stderr).is_empty(), "{name}: {}", ended.stderr);
        assert_eq!(ended.json()["verified"], true, "{name}");
    }
    scene.start_daemon_with(&[("OPENMPS_SOFT_CHECK", "1")]);
    for (name, own) in SAMPLES {
        let report = finish(&mut scene.sample(name, &arguments(own))).expect_success().json();
        assert_eq!(report["verified"], true, "{name}");
    }
    let log = scene.log("server.log");
    assert!(findings(&log).is_empty(), "{log}");
}

#[test]
fn whole_kernels_are_not_accused() {
    let scene = Scene::new();
    let mut kernels = scene.command(&dist().join("bin/openmps"));
    kernels.args(["bench", "kernels", "--check"]).env("OPENMPS_SOFT_CHECK", "1");
    let ended = finish(&mut kernels).expect_success();
    assert!(ended.stdout.contains("kernels gave"), "{}", ended.stdout);
    assert!(findings(&ended.stderr).is_empty(), "{}", ended.stderr);
}
