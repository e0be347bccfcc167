//! Programs with long kernels beside others, where programs share a context: each goes on at a server of
//! its own.

use std::time::Duration;
use tests::{Running, Scene, start, wait_until};

/// The server that a program is at.
fn server_of(scene: &Scene, pid: u32) -> Option<u64> {
    let servers = report(scene)["servers"].as_array().cloned().unwrap_or_default();
    let has = |server: &serde_json::Value| {
        let clients = server["clients"].as_array().cloned().unwrap_or_default();
        clients.iter().any(|client| client["pid"] == pid)
    };
    servers.iter().find(|server| has(server)).and_then(|server| server["pid"].as_u64())
}

fn report(scene: &Scene) -> serde_json::Value {
    serde_json::from_str(&scene.control("report").stdout).expect("a report")
}

/// A daemon whose programs share a context, and go on at servers of their own if they have long kernels.
fn scene() -> Scene {
    let mut scene = Scene::new();
    // It does not take counters.
    let settings = [
        ("OPENMPS_SOFT_TENANTS", "0"),
        ("OPENMPS_ISOLATE_LONG", "100ms"),
        ("OPENMPS_COUNTERS", "off"),
    ];
    scene.start_daemon_with(&settings);
    scene
}

/// A neighbour that waits until the file `barrier` is there, and a program with long kernels that goes on
/// until the file `stop` is; their servers, which are two by then.
fn start_both(scene: &Scene) -> ([Running; 2], [u64; 2]) {
    let name = |name: &str| scene.file(name).to_str().expect("a path").to_owned();
    let waits = ["--barrier", &name("barrier"), "--warm-up", "0", "--verify-each", "--json"];
    // A program that has no work yet cannot be taken for one with long kernels, however slow the machine.
    let neighbour = start(&mut scene.sample("vector_add", &waits));
    let ready = scene.file(&format!("barrier.ready.{}", neighbour.pid()));
    wait_until("the neighbour is ready", || ready.exists());
    let spins = ["--kernel", "clock", "--work", "400000000", "--until", &name("stop"), "--json"];
    let long = start(&mut scene.sample("spin", &spins));
    let mut servers = (None, None);
    wait_until("it is at a server of its own", || {
        servers = (server_of(scene, neighbour.pid()), server_of(scene, long.pid()));
        matches!(servers, (Some(one), Some(other)) if one != other)
    });
    ([neighbour, long], [servers.0, servers.1].map(|server| server.expect("a server")))
}

fn isolates(scene: &Scene, server: Option<u64>) -> serde_json::Value {
    let servers = report(scene)["servers"].as_array().cloned().unwrap_or_default();
    let server = servers.iter().find(|of| of["pid"].as_u64() == server);
    server.map(|server| server["isolates"].clone()).unwrap_or_default()
}

#[test]
fn a_daemon_is_replaced_while_a_program_is_alone_at_a_server_and_it_stays_alone() {
    let scene = scene();
    let ([neighbour, long], before) = start_both(&scene);
    assert_eq!(scene.control("upgrade").expect_success().stdout, "2 servers replaced\n");
    wait_until("another daemon has taken the place", || {
        scene.log("control.log").contains("has taken the place of version")
    });
    let mut server = None;
    wait_until("it is at the next server", || {
        server = server_of(&scene, long.pid());
        server.is_some_and(|server| !before.contains(&server))
    });
    assert_eq!(isolates(&scene, server), long.pid());
    // One that waits for a file comes with its next call.
    std::fs::write(scene.file("barrier"), "").expect("the file that starts the neighbour");
    assert_eq!(neighbour.wait().expect_success().errors(), "");
    // The new daemon replaces its servers likewise.
    assert_eq!(scene.control("upgrade").expect_success().status, 0);
    wait_until("it is alone again", || {
        let next = server_of(&scene, long.pid());
        next.is_some() && next != server && isolates(&scene, next) == long.pid()
    });
    std::fs::write(scene.file("stop"), "").expect("the file that stops the program");
    assert_eq!(long.wait().expect_success().errors(), "", "it notices nothing");
}

#[test]
fn a_program_with_long_kernels_goes_on_at_a_server_of_its_own() {
    let scene = scene();
    let ([neighbour, long], servers) = start_both(&scene);
    assert_eq!(isolates(&scene, Some(servers[1])), long.pid());
    std::fs::write(scene.file("barrier"), "").expect("the file that starts the neighbour");
    let ended = neighbour.wait().expect_success();
    assert_eq!((&ended.json()["verified"], ended.errors().as_str()), (&true.into(), ""));
    std::fs::write(scene.file("stop"), "").expect("the file that stops the program");
    let ended = long.wait().expect_success();
    assert_eq!(ended.errors(), "", "it notices nothing");
    wait_until("its server ends with it", || {
        let servers_left = scene.servers();
        !servers_left.iter().any(|pid| u64::from(*pid) == servers[1])
    });
    let log = scene.log("server.log");
    assert!(log.contains("it is to have a server of its own"), "{log}");
    assert!(log.contains("goes on at a server of its own"), "{log}");
}

#[test]
fn a_load_beside_an_endless_kernel_is_told_of_ends_with_its_client_and_leaves_others_their_time() {
    let (scene, neighbour, stop, mut endless) = beside_an_endless_kernel();
    let loader = start(&mut scene.sample("n_body", &[]));
    let waits_for = |pid: u32, whom: u32| {
        let waiting = report(&scene)["servers"][0]["context"]["waiting"].clone();
        waiting.as_array().is_some_and(|waiting| {
            waiting.iter().any(|of| {
                let text = |name: &str| of[name].as_str().unwrap_or_default().to_owned();
                text("client").starts_with(&format!("{pid} "))
                    && text("others").starts_with(&format!("{whom} "))
            })
        })
    };
    wait_until("it is known who waits for whom", || waits_for(loader.pid(), endless.pid()));
    let before = kernels_of(&scene, neighbour.pid());
    wait_until("the neighbour goes on", || kernels_of(&scene, neighbour.pid()) > before + 10);
    wait_until("the log says it", || {
        let log = scene.log("server.log");
        log.contains(" waits since ") && log.contains("which has made no progress for ")
    });
    let server = scene.servers()[0];
    let pid = loader.pid();
    scene.control(&format!("terminate_client {server} {pid}")).expect_success();
    assert_ne!(loader.wait().status, 0, "it was terminated");
    // The next one that waits is killed.
    let mut loader = start(&mut scene.sample("n_body", &[]));
    wait_until("the next one waits", || waits_for(loader.pid(), endless.pid()));
    loader.kill();
    wait_until("it is gone", || !scene.clients().contains(&loader.pid()));
    loader.wait();
    assert_eq!(scene.servers(), [server], "it serves on");
    assert!(scene.log("server.log").contains("is given up after "), "{}", scene.log("server.log"));
    std::fs::write(&stop, "").expect("the file that stops the neighbour");
    let ended = neighbour.wait().expect_success();
    assert_eq!(ended.errors(), "", "it notices nothing");
    endless.kill();
    endless.wait();
}

#[test]
fn a_load_behind_work_that_stands_is_made_at_a_server_of_its_own() {
    let (scene, mut neighbour, stop, mut endless) = beside_an_endless_kernel();
    // Its first load waits for the context until it has a server of its own.
    let ended = start(&mut scene.sample("n_body", &["--json"])).wait().expect_success();
    assert_eq!(ended.json()["verified"], true);
    assert_eq!(ended.errors(), "", "it notices nothing");
    let log = scene.log("server.log");
    assert!(log.contains("waits for the context behind work of"), "{log}");
    assert!(endless.is_running() && neighbour.is_running(), "the others are where they were");
    std::fs::write(&stop, "").expect("the file that stops the neighbour");
    let ended = neighbour.wait().expect_success();
    assert_eq!(ended.errors(), "", "it notices nothing");
    endless.kill();
    endless.wait();
}

/// A device as with NVIDIA's driver, on which a kernel without an end runs beside a verifying program: the scene,
/// the neighbour, the file that stops it, and the program of the kernel.
fn beside_an_endless_kernel() -> (Scene, Running, String, Running) {
    let mut scene = Scene::new();
    // As with NVIDIA's driver.
    let settings = [
        ("OPENMPS_SOFT_TENANTS", "0"),
        ("OPENMPS_SOFT_CONTEXT_WAITS", "1"),
        ("OPENMPS_SOFT_THREADS", "4"),
    ];
    scene.start_daemon_with(&settings);
    let stop = scene.file("stop").to_str().expect("a path").to_owned();
    let neighbour = start(&mut scene.sample("vector_add", &["--until", &stop, "--verify-each"]));
    wait_until("the neighbour works", || kernels_of(&scene, neighbour.pid()) > 0);
    let barrier = scene.file("endless");
    let name = barrier.to_str().expect("a path");
    let endless = start(&mut scene.sample("endless", &["--barrier", name]));
    let ready = scene.file(&format!("endless.ready.{}", endless.pid()));
    wait_until("the endless kernel is loaded", || ready.exists());
    std::fs::write(&barrier, "").expect("the barrier opens");
    wait_until("it runs", || kernels_of(&scene, endless.pid()) > 0);
    (scene, neighbour, stop, endless)
}

/// Kernels that a program has submitted.
fn kernels_of(scene: &Scene, pid: u32) -> u64 {
    let servers = report(scene)["servers"].as_array().cloned().unwrap_or_default();
    let clients =
        servers.iter().flat_map(|of| of["clients"].as_array().cloned().unwrap_or_default());
    let mut of_it = clients.filter(|client| client["pid"] == pid);
    of_it.find_map(|client| client["kernels"].as_u64()).unwrap_or(0)
}

#[test]
fn a_client_killed_within_a_call_of_the_driver_is_left_behind_by_the_others() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[("OPENMPS_SOFT_TENANTS", "0")]);
    let enough = scene.file("enough");
    let until = ["--until", enough.to_str().expect("a path"), "--verify-each", "--json"];
    let mut neighbour = start(&mut scene.sample("matrix_multiply", &until));
    wait_until("the neighbour is there", || scene.clients() == [neighbour.pid()]);
    let before = scene.servers();
    // More operations behind a value than the device's stream takes: the session waits within the driver.
    let graphs = ["--case", "graphs", "--streams", "400", "--launches", "1000"];
    let mut far = start(&mut scene.sample("ahead", &graphs));
    let in_flight = |scene: &Scene| {
        let report = scene.report();
        let clients =
            report["servers"][0]["clients"].as_array().expect("a list of clients").clone();
        let kernels = clients.iter().filter_map(|client| client["requests"]["in_flight"].as_u64());
        kernels.max().unwrap_or(0)
    };
    wait_until("its session waits", || {
        let before = in_flight(&scene);
        std::thread::sleep(Duration::from_millis(500));
        before > 250_000 && in_flight(&scene) == before
    });
    far.kill();
    far.wait();
    wait_until("another server serves", || scene.servers().iter().all(|pid| !before.contains(pid)));
    assert!(scene.log("server.log").contains("does not return"), "{}", scene.log("server.log"));
    assert!(neighbour.is_running(), "the neighbour went on");
    std::fs::write(&enough, "").expect("the neighbour is told to end");
    assert_eq!(neighbour.wait().expect_success().json()["verified"], true);
}
