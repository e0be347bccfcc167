//! Programs that run far ahead of the device come to their end: what waits for something later, from another
//! stream, another thread or the host, does not keep that from coming.

use tests::{Scene, finish};

/// The cases of the sample, with more than can be in flight.
const CASES: [(&str, &[&str]); 12] = [
    ("host-function", &["--launches", "40000"]),
    ("values", &["--streams", "6", "--launches", "750"]),
    ("values", &["--streams", "40", "--launches", "700"]),
    // One stream, of which a driver takes about 1000.
    ("values", &["--streams", "1", "--launches", "1000"]),
    ("values", &["--streams", "40", "--launches", "1000"]),
    ("mixed", &["--streams", "8", "--launches", "600"]),
    ("threads", &["--launches", "5000"]),
    ("graphs", &["--streams", "4", "--launches", "1500"]),
    ("host-functions", &["--launches", "20000"]),
    ("graph-host-functions", &["--launches", "2000"]),
    ("graph-gone", &[]),
    ("staging", &[]),
];

#[test]
fn a_program_far_ahead_of_its_device_comes_to_its_end() {
    let scene = Scene::with_daemon();
    for (case, arguments) in CASES {
        let ended = finish(scene.sample("ahead", &["--case", case]).args(arguments));
        assert!(ended.expect_success().stdout.contains("came to its end"), "{case}");
    }
}
