//! Programs give the same results whichever way they get at the device.

use std::path::Path;
use std::process::Command;
use tests::{Scene, dist, finish, start, wait_until};

/// Samples that run to an end, with arguments that keep them short.
pub(crate) const SAMPLES: &[(&str, &[&str])] = &[
    ("vector_add", &[]),
    ("matrix_multiply", &["--size", "64"]),
    ("reduction", &[]),
    ("histogram", &[]),
    ("n_body", &["--size", "128"]),
    ("mlp_inference", &[]),
    ("convnet_inference", &[]),
    ("spin", &["--work", "1000"]),
    ("pipeline", &[]),
    ("globals", &[]),
];

pub(crate) fn arguments<'a>(own: &[&'a str]) -> Vec<&'a str> {
    [own, &["--iterations", "3", "--warm-up", "1", "--json"]].concat()
}

#[test]
fn results_are_the_same_with_and_without_a_daemon() {
    let scene = Scene::with_daemon();
    for (name, own) in SAMPLES {
        let arguments = arguments(own);
        let shared = finish(&mut scene.sample(name, &arguments)).expect_success().json();
        let alone = finish(&mut scene.sample_alone(name, &arguments)).expect_success().json();
        assert_eq!(shared["verified"], true, "{name}: {shared}");
        assert_eq!(shared["checksum"], alone["checksum"], "{name}");
    }
    wait_until("no client is left", || scene.clients().is_empty());
}

#[test]
fn programs_that_share_do_not_mix_up_their_data() {
    let scene = Scene::with_daemon();
    let barrier = scene.file("all-are-there");
    let go = ["--barrier", barrier.to_str().expect("a temporary directory's path")];
    let mut running = Vec::new();
    for seed in ["1", "2", "3", "4"] {
        for (name, own) in &SAMPLES[..4] {
            let arguments = [&arguments(own)[..], &["--seed", seed, "--verify-each"]].concat();
            let expected = finish(&mut scene.sample_alone(name, &arguments)).expect_success();
            let program = start(&mut scene.sample(name, &[&arguments[..], &go].concat()));
            running.push((name, expected.json(), program));
        }
    }
    // None is through before the last has begun.
    for (name, _, program) in &mut running {
        let ready = scene.file(&format!("all-are-there.ready.{}", program.pid()));
        wait_until("all are ready", || ready.exists() || !program.is_running());
        assert!(ready.exists(), "{name} ended before it was told to begin");
    }
    assert_eq!(scene.clients().len(), running.len());
    std::fs::write(&barrier, "").expect("a file in the scene's directory");
    for (name, expected, program) in running {
        let report = program.wait().expect_success().json();
        assert_eq!(report["checksum"], expected["checksum"], "{name}");
    }
}

#[test]
fn memory_does_not_use_up_a_programs_descriptors() {
    let scene = Scene::with_daemon();
    let tour = scene.sample("api_tour", &[]);
    let mut limited = scene.command(Path::new("/bin/sh"));
    limited.args(["-c", "ulimit -S -n 256 && exec \"$0\" --only memory."]);
    limited.arg(tour.get_program());
    let said = finish(&mut limited).expect_success().stdout;
    assert!(said.contains("ok memory.alloc\n"), "{said}");
}

#[test]
fn the_driver_api_keeps_its_promises() {
    let scene = Scene::with_daemon();
    for (way, mut command) in [
        ("through openmps", scene.sample("api_tour", &[])),
        ("in-process", scene.sample_alone("api_tour", &[])),
    ] {
        let ended = finish(&mut command);
        assert_eq!(ended.status, 0, "{way}:\n{}\n{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.lines().filter(|line| line.starts_with("ok")).count() > 20, "{way}");
    }
}

#[test]
fn device_printf_reaches_the_programs_own_output() {
    let scene = Scene::with_daemon();
    let shared = finish(&mut scene.sample("printf", &[])).expect_success();
    let alone = finish(&mut scene.sample_alone("printf", &[])).expect_success();
    assert!(!alone.stdout.trim().is_empty());
    assert_eq!(shared.stdout, alone.stdout);
}

#[test]
fn a_program_that_is_to_see_no_device_sees_none() {
    let scene = Scene::with_daemon();
    let run = |list: &str| {
        let mut command = scene.sample("vector_add", &["--iterations", "1"]);
        finish(command.env("CUDA_VISIBLE_DEVICES", list))
    };
    run("0").expect_success();
    // There is one device.
    for list in ["", "-1", "1", "7,0", "GPU-nope", "MIG-7"] {
        let ended = run(list);
        assert_ne!(ended.status, 0);
        assert!(ended.stderr.contains("CUDA_ERROR_NO_DEVICE"), "{ended:?}");
    }
}

#[test]
fn an_image_without_ptx_is_named_once_on_standard_error() {
    let scene = Scene::with_daemon();
    for mut command in
        [scene.sample("unruly", &["image"]), scene.sample_alone("unruly", &["image"])]
    {
        let ended = finish(&mut command).expect_success();
        let said: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("no PTX")).collect();
        let [file, memory] = said[..] else { panic!("{}", ended.stderr) };
        assert!(file.contains("samples/unruly: the image has no PTX"), "{file}");
        assert!(file.contains("compile with -gencode arch=compute_80,code=compute_80"), "{file}");
        assert!(memory.contains("code made at run time: the image has no PTX"), "{memory}");
    }
}

#[test]
fn the_driver_reports_the_version_that_is_asked_for() {
    let scene = Scene::with_daemon();
    let version = |mut command: Command, asked: &str| {
        let ended = finish(command.env("OPENMPS_DRIVER_VERSION", asked)).expect_success();
        let mut lines = ended.stdout.lines();
        let found = lines.find_map(|line| line.strip_prefix("driver version "));
        (found.map(str::to_owned), ended.stderr)
    };
    for command in [Scene::sample, Scene::sample_alone] {
        let probe = || command(&scene, "probe", &[]);
        assert_eq!(version(probe(), "13.4").0.as_deref(), Some("13.4"));
        assert_eq!(version(probe(), "").0.as_deref(), Some("13.0"));
        let (found, said) = version(probe(), "13.40");
        assert_eq!(found.as_deref(), Some("13.0"));
        let line = "OPENMPS_DRIVER_VERSION is \"13.40\", which is not a version of CUDA 13, as 13.4; \
                    13.0 is reported";
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
    // A client that asks for nothing has its daemon's.
    let mut later = Scene::new();
    later.start_daemon_with(&[("OPENMPS_DRIVER_VERSION", "13.2")]);
    assert_eq!(version(later.sample("probe", &[]), "").0.as_deref(), Some("13.2"));
    assert_eq!(version(later.sample("probe", &[]), "13.5").0.as_deref(), Some("13.5"));
    let mut doctor = scene.command(&dist().join("bin/openmps"));
    let ended = finish(doctor.env("OPENMPS_DRIVER_VERSION", "13.4").arg("doctor"));
    assert!(ended.stdout.contains("CUDA 13.4, 1 device(s)"), "{ended:?}");
    // `openmps run` starts nothing.
    let mut run = scene.command(&dist().join("bin/openmps"));
    run.env("OPENMPS_DRIVER_VERSION", "newest").args(["run", "--no-daemon", "--", "true"]);
    let ended = finish(&mut run);
    assert_eq!(ended.status, 1);
    assert!(ended.stderr.contains("OPENMPS_DRIVER_VERSION is \"newest\""), "{ended:?}");
}

#[test]
fn a_program_that_requires_a_daemon_fails_without_one() {
    let scene = Scene::with_daemon();
    let require = |mut command: std::process::Command, value: &str| {
        finish(command.env("OPENMPS_REQUIRE", value))
    };
    let arguments = ["--iterations", "1"];
    require(scene.sample("vector_add", &arguments), "1").expect_success();
    require(scene.sample_alone("vector_add", &arguments), "0").expect_success();
    let ended = require(scene.sample_alone("vector_add", &arguments), "1");
    assert_ne!(ended.status, 0);
    assert!(ended.stderr.contains("CUDA_ERROR_MPS_CONNECTION_FAILED"), "{ended:?}");
    let said = "openmps: no daemon is found, and OPENMPS_REQUIRE wants one: `openmps up`";
    assert_eq!(ended.stderr.matches(said).count(), 1, "{ended:?}");
}

#[test]
fn what_did_not_work_is_said_on_demand() {
    let scene = Scene::with_daemon();
    // A check that has an allocation refused, and one that asks for memory of another API.
    let arguments = ["--only", "memory.alloc", "--only", "memory.external"];
    let traced = |level: &str| {
        let mut command = scene.sample("api_tour", &arguments);
        finish(command.env("OPENMPS_TRACE", level)).expect_success().stderr
    };
    let failed = "cuMemAlloc_v2 answers 1 (CUDA_ERROR_INVALID_VALUE)";
    let (errors, unsupported, summary) =
        (traced("errors"), traced("unsupported"), traced("summary"));
    assert!(errors.contains(failed), "{errors}");
    assert!(!unsupported.contains(failed) && !summary.contains(failed));
    assert!(unsupported.contains("cuImportExternalMemory is not supported\n"), "{unsupported}");
    assert!(
        summary.contains("cuImportExternalMemory is not supported: called 1 times"),
        "{summary}"
    );
    let calls = traced("calls");
    assert!(calls.contains(failed) && calls.contains("openmps: called cuMemAlloc_v2\n"), "{calls}");
    assert!(!calls.contains("called cuGraphLaunch"), "only what is called: {calls}");
    let off = traced("off");
    assert!(!off.contains("not supported") && !off.contains(failed), "{off}");
    assert!(!off.contains("called cu"), "{off}");
}
