//! Programs with long kernels beside others, where programs share a context: each goes on at a server of
//! its own.

use tests::{Scene, start, wait_until};

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

#[test]
fn a_program_with_long_kernels_goes_on_at_a_server_of_its_own() {
    let mut scene = Scene::new();
    // It does not take counters.
    let settings = [
        ("OPENMPS_SOFT_TENANTS", "0"),
        ("OPENMPS_ISOLATE_LONG", "100ms"),
        ("OPENMPS_COUNTERS", "off"),
    ];
    scene.start_daemon_with(&settings);
    // A program that has no work yet cannot be taken for one with long kernels, however slow the machine.
    let (barrier, stop) = (scene.file("barrier"), scene.file("stop"));
    let name = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
    let waits = ["--barrier", &name(&barrier), "--warm-up", "0", "--verify-each", "--json"];
    let neighbour = start(&mut scene.sample("vector_add", &waits));
    let ready = scene.file(&format!("barrier.ready.{}", neighbour.pid()));
    wait_until("the neighbour is ready", || ready.exists());
    let spins = ["--kernel", "clock", "--work", "400000000", "--until", &name(&stop), "--json"];
    let long = start(&mut scene.sample("spin", &spins));
    let mut servers = (None, None);
    wait_until("it is at a server of its own", || {
        servers = (server_of(&scene, neighbour.pid()), server_of(&scene, long.pid()));
        matches!(servers, (Some(one), Some(other)) if one != other)
    });
    let alone = report(&scene)["servers"].as_array().cloned().unwrap_or_default();
    let alone = alone.iter().find(|server| server["pid"].as_u64() == servers.1);
    assert_eq!(alone.map(|server| &server["isolates"]), Some(&long.pid().into()));
    std::fs::write(&barrier, "").expect("the file that starts the neighbour");
    let ended = neighbour.wait().expect_success();
    assert_eq!((&ended.json()["verified"], ended.stderr.as_str()), (&true.into(), ""));
    std::fs::write(&stop, "").expect("the file that stops the program");
    let ended = long.wait().expect_success();
    assert_eq!(ended.stderr, "", "it notices nothing");
    wait_until("its server ends with it", || {
        let servers_left = scene.servers();
        !servers_left.iter().any(|pid| Some(u64::from(*pid)) == servers.1)
    });
    let log = scene.log("server.log");
    assert!(log.contains("it is to have a server of its own"), "{log}");
    assert!(log.contains("goes on at a server of its own"), "{log}");
}
