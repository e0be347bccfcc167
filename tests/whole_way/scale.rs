//! Many clients at once.

use tests::{Scene, finish, start, wait_until};

#[test]
fn sixty_four_clients_work_at_once() {
    let scene = Scene::with_daemon();
    let go = scene.file("go");
    let barrier = go.to_str().expect("a path");
    let arguments = ["--iterations", "5", "--json", "--barrier", barrier];
    let programs: Vec<_> =
        (0..64).map(|_| start(&mut scene.sample("vector_add", &arguments))).collect();
    wait_until("all of them are connected", || {
        scene.servers().len() == 1 && scene.clients().len() == 64
    });
    std::fs::write(&go, "").expect("the barrier opens");
    for program in programs {
        assert_eq!(program.wait().expect_success().json()["verified"], true);
    }
    wait_until("all of them are gone", || scene.clients().is_empty());
}

/// Takes a minute of two cores, so it is a command of its own:
/// `cargo test -p tests --test whole_way -- --ignored thousand --nocapture`.
#[test]
#[ignore = "takes a minute or more"]
fn a_thousand_and_twenty_four_clients_work_at_once_and_one_more_is_refused() {
    const CLIENTS: usize = 1024;
    let scene = Scene::with_daemon();
    let go = scene.file("go");
    let barrier = go.to_str().expect("a path");
    let arguments = ["--iterations", "5", "--json", "--barrier", barrier];
    let began = std::time::Instant::now();
    let mut programs = Vec::new();
    // In groups: as many processes that load at once as this would keep a small machine swapping.
    for group in 1..=CLIENTS / 32 {
        programs.extend((0..32).map(|_| start(&mut scene.sample("vector_add", &arguments))));
        wait_until("a group is connected", || scene.clients().len() == 32 * group);
    }
    println!("{CLIENTS} clients are connected after {:.1} s", began.elapsed().as_secs_f64());
    let refused = finish(&mut scene.sample("vector_add", &["--iterations", "1"]));
    assert_ne!(refused.status, 0);
    let name = "MPS_MAX_CLIENTS_REACHED";
    assert!(refused.stderr.contains(name), "{}", refused.stderr);
    assert!(scene.log("control.log").contains("most clients, 1024"), "{name}");
    std::fs::write(&go, "").expect("the barrier opens");
    for program in programs {
        assert_eq!(program.wait().expect_success().json()["verified"], true);
    }
    println!("all have ended after {:.1} s", began.elapsed().as_secs_f64());
    wait_until("all of them are gone", || scene.clients().is_empty());
}
