//! A server may die: programs beside one that faults, a server that is killed, replaced or stuck, on a
//! software GPU that is corrupted by a fault as hardware is.

use tests::{Entry, Running, Scene, Signal, finish, signal, start, wait_until};

/// Programs that verify each result.
const PROGRAMS: [&str; 4] = ["vector_add", "reduction", "scan", "histogram"];

/// A fault corrupts the software GPU's context, as hardware's.
const CORRUPTED: [(&str, &str); 1] = [("OPENMPS_SOFT_TENANTS", "0")];

/// What is shown in both protocols is shown in these.
const ENTRIES: [Entry; 3] = [Entry::Plain, Entry::Protocol3, Entry::Namespace];

fn scene_with(environment: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[&CORRUPTED[..], environment].concat());
    scene
}

fn scene_by(entry: Entry) -> Scene {
    let mut scene = Scene::new();
    entry.start(&mut scene, &CORRUPTED);
    scene
}

/// Programs that run until a file is there.
pub(crate) struct Neighbours {
    running: Vec<Running>,
    until: std::path::PathBuf,
}

impl Neighbours {
    /// Starts them, and waits until all are at the server.
    pub(crate) fn start(scene: &Scene, programs: &[&str]) -> Self {
        let until = scene.file("stop");
        let name = until.to_str().expect("a path");
        let arguments = ["--until", name, "--verify-each", "--json", "--size", "4096"];
        // Each step of these begins with what no step changes, and is waited for: all of it since the
        // last wait may be repeated, and `scan` changes in place what only kernels have made.
        let sample = |program: &&str| {
            let mut sample = scene.sample(program, &arguments);
            if *program == "scan" {
                sample.env("OPENMPS_REPLAY", "always");
            }
            start(&mut sample)
        };
        let running = programs.iter().map(sample).collect();
        let unaffected = Self { running, until };
        wait_until("the programs are there", || scene.clients().len() == programs.len());
        unaffected
    }

    /// Stops them: each went on to the end, and each of its results was right.
    pub(crate) fn expect_nothing_noticed(self) {
        std::fs::write(&self.until, "").expect("the file that stops them");
        for program in self.running {
            let ended = program.wait().expect_success();
            assert_eq!(ended.json()["verified"], true, "{ended:?}");
            assert_eq!(ended.errors(), "", "it notices nothing");
        }
    }
}

/// Kernels that a program has launched, as far as the server has submitted them.
fn kernels_of(scene: &Scene, pid: u32) -> u64 {
    let report: serde_json::Value =
        serde_json::from_str(&scene.control("report").stdout).expect("a report");
    let servers = report["servers"].as_array().expect("servers");
    let clients = servers.iter().filter_map(|server| server["clients"].as_array()).flatten();
    let mut of_it = clients.filter(|client| client["pid"] == pid);
    of_it.next().and_then(|client| client["kernels"].as_u64()).unwrap_or(0)
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

#[test]
fn programs_beside_one_that_faults_notice_nothing_whatever_the_fault() {
    let scene = scene_with(&[]);
    let unaffected = Neighbours::start(&scene, &PROGRAMS);
    let kinds = [
        "null-write",
        "null-read",
        "stray-write",
        "neighbour",
        "misaligned",
        "trap",
        "assert",
        "stack",
    ];
    for kind in kinds {
        let before = scene.servers();
        let fault = finish(&mut scene.sample("fault", &["--kind", kind])).expect_success();
        assert!(fault.stdout.contains("sticky true"), "{fault:?}");
        wait_until("another server serves", || {
            scene.servers().first().is_some_and(|first| !before.contains(first))
        });
    }
    unaffected.expect_nothing_noticed();
    let log = scene.log("server.log");
    for kernel in ["write_word", "read_word", "trap_now", "assert_not", "overflow_stack"] {
        // More often than never where it has a server of its own and has waited for a first launch there.
        let named = format!("its kernels {kernel}, the rarest launched ");
        let is_told = |line: &str| line.contains(&named) && line.ends_with("; it gets the error");
        assert!(log.lines().any(is_told), "{kernel}: {log}");
    }
}

#[test]
fn the_demonstration_of_faults_shows_right_results_beside_them() {
    let scene = Scene::new();
    let shown = scene.openmps(&["demo", "--faults", "--json"]).expect_success().stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["told"], true, "{shown}");
    let programs = shown["programs"].as_array().expect("programs");
    assert!(programs.len() == 3 && programs.iter().all(|of| of["right"] == true), "{shown}");
}

#[test]
fn programs_whose_server_is_killed_notice_nothing() {
    for entry in ENTRIES {
        let scene = scene_by(entry);
        let unaffected = Neighbours::start(&scene, &PROGRAMS);
        for _ in 0..5 {
            let server = scene.servers()[0];
            kill(server);
            wait_until("all are at another server", || {
                scene.servers() != [server] && scene.clients().len() == PROGRAMS.len()
            });
        }
        // One that is lost again before its first work does not count.
        wait_until("all recoveries from the last loss are counted", || {
            scene.report()["counters"]["recoveries"].as_u64() >= Some(PROGRAMS.len() as u64)
        });
        assert_eq!(scene.report()["counters"]["replays_refused"], 0);
        unaffected.expect_nothing_noticed();
    }
}

#[test]
fn a_program_keeps_the_memory_that_it_has_when_the_default_limit_is_less_at_the_next_server() {
    let scene = scene_with(&[]);
    let unaffected = Neighbours::start(&scene, &["vector_add", "reduction"]);
    scene.control("set_default_device_pinned_mem_limit 0 64K").expect_success();
    let pids: Vec<u32> = unaffected.running.iter().map(Running::pid).collect();
    for _ in 0..2 {
        wait_until("all have memory there", || pids.iter().all(|pid| kernels_of(&scene, *pid) > 2));
        let server = scene.servers()[0];
        kill(server);
        wait_until("all are at another server", || {
            scene.servers() != [server] && scene.clients().len() == 2
        });
    }
    // Who comes now has the limit.
    let refused = finish(&mut scene.sample("vector_add", &[]));
    assert!(refused.stderr.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{refused:?}");
    unaffected.expect_nothing_noticed();
}

/// Modules that programs have declared at a server that took the place of another one, and how many of them
/// were loaded only then.
fn declared(scene: &Scene) -> (u64, u64) {
    let log = scene.log("server.log");
    let lines = log.lines().filter_map(|line| line.split_once(" has restored what it had: "));
    let before = |text: &str, what: &str| -> u64 {
        let (before, _) = text.split_once(what).expect("a count");
        let digits = before.rsplit([' ', '(']).next().expect("a word");
        digits.parse().expect("a number")
    };
    let counts = lines.map(|(_, said)| (before(said, " modules"), before(said, " loaded now")));
    counts.fold((0, 0), |(all, now), (modules, loaded)| (all + modules, now + loaded))
}

/// A daemon whose servers load ahead what programs use.
fn scene_with_list(environment: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::new();
    let cache = scene.file("cache");
    let cache = cache.to_str().expect("a path").to_owned();
    let list = [
        ("OPENMPS_SOFT_TENANTS", "0"),
        ("OPENMPS_WARM", "64M"),
        ("CUDA_CACHE_PATH", cache.as_str()),
    ];
    scene.start_daemon_with(&[&list[..], environment].concat());
    scene
}

/// Waits until the server that serves has said what its clients have.
fn wait_for_held(scene: &Scene, images: usize) {
    wait_until("the server says what its clients have", || {
        let devices = std::fs::read_dir(scene.file("cache/openmps/warm")).into_iter().flatten();
        let files = devices.flatten().flat_map(|device| std::fs::read_dir(device.path())).flatten();
        let held =
            files.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "held"));
        let mut lines = held.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default());
        lines.any(|text| text.lines().count() == images)
    });
}

#[test]
fn a_server_in_standby_has_the_code_of_programs_whose_server_is_killed() {
    let scene = scene_with_list(&[("OPENMPS_STANDBY", "1")]);
    let unaffected = Neighbours::start(&scene, &PROGRAMS);
    for round in 1..=2 {
        wait_for_held(&scene, PROGRAMS.len());
        let server = scene.servers()[0];
        let serving = |pid: &u32| scene.control(&format!("get_server_status {pid}")).stdout;
        let stands_by = || {
            scene.servers().into_iter().find(|pid| *pid != server && serving(pid) == "STANDBY\n")
        };
        wait_until("a server stands by", || stands_by().is_some());
        // It says so at its start, or later of those that were not there then.
        let standby = stands_by().expect("just seen");
        let loaded = || -> usize {
            let log = scene.log("server.log");
            let lines = log.lines().filter(|line| line.contains(&format!(" {standby}] ")));
            let before = |line: &str, what: &str| -> Option<usize> {
                line.split_once(what)?.0.rsplit(' ').next()?.parse().ok()
            };
            lines
                .filter_map(|line| {
                    before(line, " images with ")
                        .or_else(|| before(line, " images of programs at other servers"))
                })
                .sum()
        };
        wait_until("it has loaded their code", || loaded() >= PROGRAMS.len());
        kill(server);
        wait_until("all have restored what they had", || {
            declared(&scene).0 == (round * PROGRAMS.len()) as u64
        });
        assert_eq!(declared(&scene).1, 0, "nothing is loaded in the pause");
    }
    unaffected.expect_nothing_noticed();
}

#[test]
fn an_upgrade_loads_the_programs_code_before_they_come() {
    let scene = scene_with_list(&[]);
    let unaffected = Neighbours::start(&scene, &PROGRAMS);
    for round in 1..=2 {
        wait_for_held(&scene, PROGRAMS.len());
        scene.control("upgrade").expect_success();
        wait_until("all have restored what they had", || {
            declared(&scene).0 == (round * PROGRAMS.len()) as u64
        });
        assert_eq!(declared(&scene).1, 0, "nothing is loaded in the pause");
    }
    unaffected.expect_nothing_noticed();
}

#[test]
fn batches_that_went_as_graphs_are_repeated_as_launches_are() {
    // One processor is too few for a program and its session.
    for settings in [&[("OPENMPS_LAUNCH_BATCHING", "on")][..], &OVERSUBSCRIBED] {
        kill_servers_of_batches(&scene_with(settings));
    }
}

/// Settings with which a program alone is too much for the processors.
const OVERSUBSCRIBED: [(&str, &str); 2] =
    [("OPENMPS_LAUNCH_BATCHING", "oversubscribed"), ("OPENMPS_CPUS", "0")];

fn kill_servers_of_batches(scene: &Scene) {
    // Twenty launches a step, which begins with what no step changes and is waited for.
    let arguments = ["--verify-each", "--json", "--size", "64", "--work", "20"];
    let until = scene.file("stop");
    let name = until.to_str().expect("a path");
    let running: Vec<Running> = (0..2)
        .map(|_| {
            let mut sample = scene.sample("n_body", &[&arguments[..], &["--until", name]].concat());
            start(sample.env("OPENMPS_REPLAY", "always"))
        })
        .collect();
    let pids: Vec<u32> = running.iter().map(Running::pid).collect();
    let unaffected = Neighbours { running, until };
    // Some steps at a server: the third time that a sequence comes it is a graph.
    let go_on_there = || {
        wait_until("all get on at their server", || {
            pids.iter().all(|pid| kernels_of(scene, *pid) >= 200)
        });
    };
    // A server says at a client's end how many of its launches went as graphs.
    wait_until("some launches go as graphs", || {
        go_on_there();
        scene.control("upgrade").expect_success();
        scene.log("server.log").contains(" launches went in ")
    });
    for _ in 0..8 {
        go_on_there();
        let server = scene.servers()[0];
        kill(server);
        wait_until("another server serves", || !scene.servers().contains(&server));
    }
    go_on_there();
    unaffected.expect_nothing_noticed();
}

/// A program whose kernels write variables, and read constants that the host has written.
#[test]
fn variables_of_modules_outlive_their_servers() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[]);
    let until = scene.file("stop");
    let name = until.to_str().expect("a path");
    let arguments = ["--until", name, "--verify-each", "--json", "--size", "4096"];
    // Each of its steps begins with a fill of the variable that its kernels count in.
    let mut sample = scene.sample("globals", &arguments);
    let running = vec![start(sample.env("OPENMPS_REPLAY", "always"))];
    let unaffected = Neighbours { running, until };
    wait_until("it is there", || scene.clients().len() == 1);
    for round in 0..4 {
        let server = scene.servers()[0];
        match round % 2 {
            0 => kill(server),
            _ => drop(scene.control("upgrade").expect_success()),
        }
        wait_until("it is at another server", || {
            !scene.servers().contains(&server) && scene.clients().len() == 1
        });
    }
    unaffected.expect_nothing_noticed();
}

#[test]
fn an_upgrade_replaces_servers_under_their_programs() {
    for entry in ENTRIES {
        let scene = scene_by(entry);
        let unaffected = Neighbours::start(&scene, &PROGRAMS);
        for _ in 0..3 {
            let old = scene.servers();
            let said = scene.control("upgrade").expect_success().stdout;
            assert_eq!(said, "1 server replaced\n");
            assert!(scene.servers().iter().all(|server| !old.contains(server)));
        }
        unaffected.expect_nothing_noticed();
    }
}

#[test]
fn the_daemon_itself_is_replaced_under_its_programs() {
    for entry in ENTRIES {
        let scene = scene_by(entry);
        let unaffected = Neighbours::start(&scene, &PROGRAMS);
        scene.control("set_default_active_thread_percentage 40").expect_success();
        for round in 1..=3 {
            let said = scene.control("upgrade").expect_success().stdout;
            assert_eq!(said, "1 server replaced\n");
            wait_until("another daemon has taken the place", || {
                scene.log("control.log").matches("has taken the place of version").count() == round
            });
            wait_until("all are at a server", || scene.clients().len() == PROGRAMS.len());
        }
        // It has the same settings, serves newcomers, and hears of its servers' ends and of who was there.
        let share = scene.control("get_default_active_thread_percentage").stdout;
        assert_eq!(share.trim(), "40.0");
        finish(&mut scene.sample("vector_add", &[])).expect_success();
        let server = scene.servers()[0];
        kill(server);
        wait_until("all are at another server", || {
            !scene.servers().contains(&server) && scene.clients().len() == PROGRAMS.len()
        });
        let logs = scene.file("log");
        let logs = logs.to_str().expect("a path");
        let text = scene.openmps(&["accounting", "--json", "--logs", logs]).expect_success().stdout;
        let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let written = written["clients"].as_array().expect("clients").iter();
        let of_killed = written.filter(|of| of["server"] == server && of["lost"] == true);
        assert_eq!(of_killed.count(), PROGRAMS.len(), "{text}");
        unaffected.expect_nothing_noticed();
    }
}

#[test]
fn servers_of_a_killed_daemon_serve_on_and_the_next_one_takes_them_over() {
    for entry in ENTRIES {
        let mut scene = scene_by(entry);
        let unaffected = Neighbours::start(&scene, &PROGRAMS);
        let server = scene.servers()[0];
        for round in 1..=2 {
            let until = scene.file(&format!("stop{round}"));
            let name = until.to_str().expect("a path");
            let without =
                start(&mut scene.sample("vector_add", &["--until", name, "--verify-each"]));
            wait_until("it is there", || scene.clients().len() == PROGRAMS.len() + 1);
            scene.kill_daemon();
            std::fs::write(&until, "").expect("the file that stops it");
            without.wait().expect_success();
            entry.go_on(&mut scene, &CORRUPTED);
            wait_until("the next daemon has the server", || scene.servers().contains(&server));
            wait_until("with its clients", || scene.clients().len() == PROGRAMS.len());
            let said = format!("Server {server} of the daemon before serves on, with ");
            assert_eq!(scene.log("control.log").matches(&said).count(), round);
            // Newcomers are served there, at addresses that the others do not have.
            finish(&mut scene.sample("vector_add", &[])).expect_success();
            assert_eq!(scene.servers(), [server]);
        }
        let log = scene.log(&entry.server_log());
        assert!(
            log.contains("Another control daemon is there"),
            "the next daemon has its log: {log}"
        );
        kill(server);
        wait_until("all are at another server", || {
            !scene.servers().contains(&server) && scene.clients().len() == PROGRAMS.len()
        });
        unaffected.expect_nothing_noticed();
    }
}

#[test]
fn sighup_has_the_program_take_over_that_was_installed_since() {
    let mut scene = Scene::new();
    let installed = scene.file("bin/openmps");
    let install = |name: &str| {
        let file = scene.file("bin").join(name);
        std::fs::create_dir_all(scene.file("bin")).expect("a directory");
        std::fs::copy(tests::dist().join("bin/openmps"), &file).expect("a copy of the program");
        file
    };
    std::fs::rename(install("first"), &installed).expect("it is installed");
    let control = scene.file("bin/nvidia-cuda-mps-control");
    std::os::unix::fs::symlink("openmps", &control).expect("its other name");
    let next = install("next");
    scene.start_daemon_of(&control, &[("OPENMPS_SOFT_TENANTS", "0")]);
    let unaffected = Neighbours::start(&scene, &PROGRAMS);
    let old = scene.servers();
    signal(scene.daemon_pid(), Signal::HUP);
    let opened = |times| {
        let log = scene.log("control.log");
        log.matches("Logs are opened again, as SIGHUP asks").count() == times
    };
    wait_until("it has heard that", || opened(1));
    assert_eq!(scene.servers(), old, "it is the same program");
    std::fs::rename(next, &installed).expect("it is installed");
    signal(scene.daemon_pid(), Signal::HUP);
    wait_until("another daemon has taken the place", || {
        scene.log("control.log").contains("has taken the place of version")
    });
    wait_until("all are at another server", || {
        !scene.servers().contains(&old[0]) && scene.clients().len() == PROGRAMS.len()
    });
    for pid in [scene.daemon_pid(), scene.servers()[0]] {
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).expect("a process");
        assert_eq!(runs, installed, "the one that was replaced is deleted");
    }
    unaffected.expect_nothing_noticed();
}

#[test]
fn an_endless_kernel_is_ended_by_its_servers_end_and_costs_others_nothing() {
    let scene = scene_with(&[("OPENMPS_STANDBY", "1")]);
    let unaffected = Neighbours::start(&scene, &["vector_add", "reduction"]);
    let server = scene.servers()[0];
    let standby = |scene: &Scene| {
        let words = scene
            .servers()
            .into_iter()
            .map(|pid| scene.control(&format!("get_server_status {pid}")));
        words.filter(|word| word.stdout == "STANDBY\n").count()
    };
    wait_until("a server stands by", || standby(&scene) == 1);
    let endless = start(&mut scene.sample("endless", &[]));
    wait_until("its kernel is under way", || kernels_of(&scene, endless.pid()) == 2);
    scene.control(&format!("terminate_client {server} {}", endless.pid())).expect_success();
    let ended = endless.wait();
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stdout.contains("CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{ended:?}");
    wait_until("its server is gone", || !scene.servers().contains(&server));
    wait_until("another one stands by", || standby(&scene) == 1);
    unaffected.expect_nothing_noticed();
}

#[test]
fn an_endless_kernel_that_keeps_all_others_from_the_device_is_ended_too() {
    let scene = scene_with(&[]);
    let unaffected = Neighbours::start(&scene, &["vector_add", "reduction"]);
    let server = scene.servers()[0];
    let endless = start(&mut scene.sample("endless", &["--fill"]));
    wait_until("its kernel is under way", || kernels_of(&scene, endless.pid()) == 2);
    // Of what they have launched by now nothing ever runs there.
    scene.control(&format!("terminate_client {server} {}", endless.pid())).expect_success();
    let ended = endless.wait();
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stdout.contains("CUDA_ERROR_MPS_CLIENT_TERMINATED"), "{ended:?}");
    wait_until("its server is gone", || !scene.servers().contains(&server));
    wait_until("the others are at another one", || scene.clients().len() == 2);
    unaffected.expect_nothing_noticed();
}

#[test]
fn a_watchdog_ends_whose_kernel_keeps_others_waiting_and_not_those() {
    let scene = scene_with(&[("OPENMPS_KERNEL_TIMEOUT_S", "1")]);
    let unaffected = Neighbours::start(&scene, &["vector_add", "reduction"]);
    let ended = finish(&mut scene.sample("endless", &["--fill"]));
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stdout.contains("CUDA_ERROR_LAUNCH_TIMEOUT"), "{ended:?}");
    unaffected.expect_nothing_noticed();
}

#[test]
fn a_watchdog_ends_a_kernel_that_takes_too_long() {
    let scene = scene_with(&[("OPENMPS_KERNEL_TIMEOUT_S", "1")]);
    let unaffected = Neighbours::start(&scene, &["vector_add"]);
    let ended = finish(&mut scene.sample("endless", &[]));
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stdout.contains("CUDA_ERROR_LAUNCH_TIMEOUT"), "{ended:?}");
    unaffected.expect_nothing_noticed();
}

#[test]
fn who_wants_nothing_repeated_is_told_and_can_go_on() {
    let scene = scene_with(&[]);
    let mut endless = scene.sample("endless", &[]);
    let endless = start(endless.env("OPENMPS_REPLAY", "never"));
    wait_until("its kernel is under way", || kernels_of(&scene, endless.pid()) == 2);
    kill(scene.servers()[0]);
    let ended = endless.wait();
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.stdout.contains("CUDA_ERROR_MPS_RPC_FAILURE"), "{ended:?}");
    assert!(ended.stderr.contains("was lost with work that cannot be repeated"), "{ended:?}");
}

#[test]
fn a_program_on_two_devices_does_not_wait_for_a_server_that_is_gone() {
    let scene = scene_with(&[("OPENMPS_SOFT_DEVICES", "2")]);
    let sample = ["--devices", "2", "--iterations", "60", "--size", "20000"];
    let peers = start(&mut scene.sample("peers", &sample));
    let at = |server: &u32| {
        let clients = scene.control(&format!("get_client_list {server}")).stdout;
        clients.split_whitespace().any(|pid| pid == peers.pid().to_string())
    };
    wait_until("it is at both servers", || scene.servers().iter().filter(|s| at(s)).count() == 2);
    // Its thread for the other device may be the only one that waits, for work of this one.
    kill(scene.servers()[0]);
    let ended = peers.wait();
    let told = ended.status == 2 && ended.stderr.contains("CUDA_ERROR_MPS_RPC_FAILURE");
    assert!(told || ended.status == 0, "right, or told: {ended:?}");
}
