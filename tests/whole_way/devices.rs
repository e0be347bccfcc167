//! Several devices: programs that use all of the software GPU's, alone and through a daemon.

use tests::{Scene, dist, finish, start, wait_until};

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

#[test]
fn a_graph_has_conditional_nodes_of_another_device() {
    let mut scene = Scene::new();
    for peer in ["1", "0"] {
        let mut sample = scene.sample_alone("device_graphs", &["--loop"]);
        sample.env(DEVICES.0, DEVICES.1).env("OPENMPS_SOFT_PEER", peer);
        let ended = finish(&mut sample).expect_success();
        assert_eq!(ended.stdout.trim(), "conditional nodes of device 3 ok");
    }
    scene.start_daemon_with(&[DEVICES]);
    let ended = finish(&mut scene.sample("device_graphs", &["--loop"])).expect_success();
    assert_eq!(
        (ended.stdout.trim(), ended.errors().as_str()),
        ("conditional nodes of device 3 ok", "")
    );
}

#[test]
fn a_client_found_by_a_relative_path_finds_the_software_gpu_beside_it() {
    let scene = Scene::new();
    let mut sample = scene.sample_alone("vector_add", &["--iterations", "1"]);
    sample.env_remove("OPENMPS_LIB_DIR").env("LD_LIBRARY_PATH", "lib/openmps").current_dir(dist());
    finish(&mut sample).expect_success();
}

/// Two devices whose servers are as with NVIDIA's driver: programs share a context, and calls wait for all of
/// its work while no program can launch.
const LIKE_A_DRIVER: [(&str, &str); 4] = [
    ("OPENMPS_SOFT_DEVICES", "2"),
    ("OPENMPS_SOFT_TENANTS", "0"),
    ("OPENMPS_SOFT_CONTEXT_WAITS", "1"),
    ("OPENMPS_SOFT_THREADS", "4"),
];

#[test]
fn a_program_gets_windows_in_which_one_that_ended_had_another_devices_memory() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&LIKE_A_DRIVER);
    // The context of the first device is never idle: sessions that end wait for that.
    let stop = scene.file("stop");
    let name = stop.to_str().expect("a path").to_owned();
    let spins = ["--kernel", "clock", "--work", "2000000", "--until", &name];
    let busy = start(&mut scene.sample("spin", &spins));
    wait_until("it is at its server", || scene.clients().contains(&busy.pid()));
    for _ in 0..3 {
        finish(&mut scene.sample("devices", &[])).expect_success();
        let ended =
            finish(&mut scene.sample("vector_add", &["--iterations", "1"])).expect_success();
        assert_eq!(ended.errors(), "");
    }
    std::fs::write(&stop, "").expect("the file that stops the program");
    busy.wait().expect_success();
}

#[test]
fn two_trainings_on_both_devices_load_code_beside_each_others_collectives() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&LIKE_A_DRIVER);
    let barrier = scene.file("barrier");
    let path = barrier.to_str().expect("a path").to_owned();
    let trainings: Vec<_> = ["1", "2"]
        .iter()
        .map(|seed| {
            let words = ["--pattern", "collectives", "--seed", seed, "--barrier", &path];
            // As PyTorch's ranks name the place where they meet.
            let mut training = scene.sample("training", &words);
            training.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", format!("2950{seed}"));
            start(&mut training)
        })
        .collect();
    for training in &trainings {
        let ready = scene.file(&format!("barrier.ready.{}", training.pid()));
        wait_until("the program is ready", || ready.exists());
    }
    std::fs::write(&barrier, "").expect("the file that starts them");
    for training in trainings {
        let ended = training.wait().expect_success();
        assert_eq!((ended.stdout.trim(), ended.errors().as_str()), ("12 steps: right", ""));
    }
    let log = scene.log("control.log");
    assert!(log.contains("gets a server of its own: job 127.0.0.1:2950"), "{log}");
}

#[test]
fn a_pipeline_of_two_devices_in_one_program_loads_code_on_the_way() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&LIKE_A_DRIVER);
    let ended = finish(&mut scene.sample("training", &["--pattern", "pipeline"])).expect_success();
    assert_eq!((ended.stdout.trim(), ended.errors().as_str()), ("12 steps: right", ""));
}

#[test]
fn programs_that_load_the_same_code_at_once_all_get_it() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&LIKE_A_DRIVER);
    let words = ["--pattern", "pipeline", "--iterations", "6"];
    let programs: Vec<_> = (0..4).map(|_| start(&mut scene.sample("training", &words))).collect();
    for program in programs {
        let ended = program.wait().expect_success();
        assert_eq!((ended.stdout.trim(), ended.errors().as_str()), ("6 steps: right", ""));
    }
}
