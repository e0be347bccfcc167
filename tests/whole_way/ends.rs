//! Programs end in every way, and leave nothing behind.

use std::path::Path;
use std::time::Duration;
use tests::{Running, Scene, Signal, dist, finish, signal, start, wait_until};

/// Kills of one test: the promise is a hundred.
const KILLS: usize = 100;

/// Device memory of all clients, bytes, as `openmps ps` says.
fn memory_in_use(scene: &Scene) -> u64 {
    let report = scene.report();
    let servers = report["servers"].as_array().expect("a list of servers");
    servers
        .iter()
        .flat_map(|server| server["clients"].as_array().expect("a list of clients"))
        .map(|client| client["memory_bytes"].as_u64().expect("bytes"))
        .sum()
}

/// Starts `endless` and waits until its kernel runs: it says so.
fn start_endless(scene: &Scene, number: usize) -> Running {
    let go = scene.file(&format!("go-{number}"));
    let name = go.to_str().expect("a path");
    let program = start(&mut scene.sample("endless", &["--barrier", name]));
    let ready = scene.file(&format!("go-{number}.ready.{}", program.pid()));
    wait_until("the victim has work to do", || ready.exists());
    std::fs::write(&go, "").expect("the barrier opens");
    // From here on it launches and waits; where in that the signal meets it is left to chance.
    std::thread::sleep(Duration::from_millis(number as u64 % 20));
    program
}

#[test]
fn kill_9_in_mid_kernel_hurts_nobody() {
    let scene = Scene::with_daemon();
    let enough = scene.file("enough");
    let until = ["--until", enough.to_str().expect("a path"), "--verify-each", "--json"];
    let mut neighbour = start(&mut scene.sample("matrix_multiply", &until));
    wait_until("the neighbour is there", || {
        scene.servers().len() == 1 && scene.clients().len() == 1
    });
    let server = scene.servers();
    for number in 0..KILLS {
        let mut victim = start_endless(&scene, number);
        victim.kill();
        victim.wait();
    }
    wait_until("the victims are gone", || scene.clients() == [neighbour.pid()]);
    assert!(neighbour.is_running(), "the neighbour was there all the time");
    std::fs::write(&enough, "").expect("the neighbour is told to end");
    let report = neighbour.wait().expect_success().json();
    assert_eq!(report["verified"], true);
    assert_eq!(scene.servers(), server, "the server goes on");
    wait_until("all memory came back", || memory_in_use(&scene) == 0);
    assert!(!scene.log("server.log").contains("left behind"), "{}", scene.log("server.log"));
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
}

/// True if a process is there and is no zombie, which is its new parent's business.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

#[test]
fn kill_9_of_a_demonstration_ends_its_programs_and_the_next_one_clears_up() {
    let scene = Scene::new();
    let demonstration = |processes, seconds| {
        let mut demo = scene.command(&dist().join("bin/openmps"));
        demo.args(["demo", "--samples", "spin", "--processes", processes, "--seconds", seconds]);
        demo.env("TMPDIR", scene.pipe());
        demo
    };
    let left = || {
        let there = std::fs::read_dir(scene.pipe()).expect("the scene's directory");
        let names = there.map(|entry| entry.expect("an entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("openmps-scratch-")).count()
    };
    let mut demo = start(&mut demonstration("2", "3600"));
    // Its programs first take turns: those are what it has started by then.
    let children = format!("/proc/{0}/task/{0}/children", demo.pid());
    let started = || std::fs::read_to_string(&children).unwrap_or_default();
    wait_until("both programs run", || started().split_whitespace().count() == 2);
    let programs = started();
    demo.kill();
    demo.wait();
    for pid in programs.split_whitespace() {
        wait_until("its programs end", || !is_alive(pid));
    }
    assert_ne!(left(), 0, "a killed one has no time for that");
    finish(&mut demonstration("1", "0.1")).expect_success();
    assert_eq!(left(), 0);
}

#[test]
fn a_daemon_that_waits_for_its_last_program_takes_no_other_and_says_so() {
    let scene = Scene::with_daemon();
    let never = scene.file("never");
    let until = ["--until", never.to_str().expect("a path")];
    let program = start(&mut scene.sample("spin", &until));
    wait_until("it is at work", || scene.clients().contains(&program.pid()));
    let down = start(scene.command(&dist().join("bin/openmps")).arg("down"));
    wait_until("the daemon is to end", || scene.openmps(&["ps"]).stdout.contains("shutting down"));
    let up = scene.openmps(&["up"]);
    assert_eq!(up.status, 1, "{up:?}");
    assert!(up.stderr.contains("shutting down and waits for 1 program(s)"), "{up:?}");
    scene.openmps(&["down", "--timeout", "0"]).expect_success();
    down.wait().expect_success();
    assert_eq!(program.wait().status, 2);
    let again = scene.openmps(&["up"]).expect_success();
    assert!(again.stdout.starts_with("started a daemon"), "{again:?}");
    scene.openmps(&["down"]).expect_success();
}

#[test]
fn terminate_client_ends_a_kernel_that_loops_for_ever() {
    let scene = Scene::with_daemon();
    let endless = start_endless(&scene, 19);
    let server = scene.servers()[0];
    let answer = scene.control(&format!("terminate_client {server} {}", endless.pid()));
    assert_eq!(answer.expect_success().stdout, "0\n");
    let ended = endless.wait();
    assert_ne!(ended.status, 0);
    let text = format!("{}{}", ended.stdout, ended.stderr);
    assert!(text.contains("CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{text}");
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
}

#[test]
fn daemon_and_server_end_cleanly_on_sigterm() {
    let mut scene = Scene::with_daemon();
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
    let server = scene.servers()[0];
    let ended = scene.stop_daemon();
    assert_eq!(ended.status, 0, "{ended:?}");
    wait_until("the server is gone", || !std::path::Path::new(&format!("/proc/{server}")).exists());
    let left: Vec<_> = std::fs::read_dir(scene.pipe())
        .map(|entries| entries.filter_map(|e| Some(e.ok()?.file_name())).collect())
        .unwrap_or_default();
    assert!(!left.iter().any(|name| name == "control"), "{left:?}");
    // With the daemon gone programs run by themselves.
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
}

#[test]
fn a_client_whose_server_is_killed_goes_on_at_the_next_one() {
    let scene = Scene::with_daemon();
    let enough = scene.file("enough");
    let until = ["--until", enough.to_str().expect("a path"), "--verify-each"];
    let program = start(&mut scene.sample("spin", &until));
    wait_until("it is at work", || {
        scene.servers().len() == 1 && scene.clients().contains(&program.pid())
    });
    let server = scene.servers()[0];
    signal(server, Signal::KILL);
    wait_until("it is at another server", || {
        !scene.servers().contains(&server) && scene.clients().contains(&program.pid())
    });
    finish(&mut scene.sample("vector_add", &["--iterations", "2"])).expect_success();
    std::fs::write(&enough, "").expect("the program is told to end");
    let ended = program.wait().expect_success();
    assert_eq!(ended.errors(), "", "it noticed nothing");
}
