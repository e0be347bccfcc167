//! Many clients at once.

use tests::{CLIENTS_MAX, Scene, compute_at_once};

#[test]
fn sixty_four_clients_work_at_once() {
    compute_at_once(&Scene::with_daemon(), 64, 64);
}

/// Takes a minute of two cores, so it is a command of its own: `cargo xtask scale`, or
/// `cargo test -p tests --test whole_way -- --ignored thousand --nocapture`.
#[test]
#[ignore = "takes a minute or more"]
fn a_thousand_and_twenty_four_clients_work_at_once_and_one_more_is_refused() {
    let group = compute_at_once(&Scene::with_daemon(), CLIENTS_MAX, 32);
    println!("{group:?}");
}
