//! Many clients at once.

use tests::{Scene, start, wait_until};

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
