//! A trace of a program has all that it did, from its first kernel to its last.

use serde_json::Value;
use tests::{Scene, dist, finish, wait_until};

/// The slices of a category in a trace that was written as JSON.
fn slices<'a>(trace: &'a Value, category: &str) -> Vec<&'a Value> {
    let events = trace["traceEvents"].as_array().expect("events").iter();
    events.filter(|event| event["ph"] == "B" && event["cat"] == category).collect()
}

#[test]
fn a_program_is_recorded_from_its_first_kernel_to_its_last() {
    let scene = Scene::with_daemon();
    // The first program has its server started, the second one finds it there.
    for name in ["first.json", "second.json"] {
        let path = scene.file(name);
        let sample = dist().join("lib/openmps/samples/vector_add");
        let mut command = scene.command(&dist().join("bin/openmps"));
        command.args(["run", "-q", "--trace"]).arg(&path).arg("--").arg(sample);
        command.args(["--warm-up", "2", "--iterations", "3", "--blocks", "2", "--size", "4096"]);
        finish(&mut command).expect_success();
        let text = std::fs::read_to_string(&path).expect("a trace");
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let kernels = slices(&trace, "kernel");
        assert_eq!(kernels.len(), 5, "{name}: {text}");
        for kernel in &kernels {
            assert_eq!(
                (&kernel["name"], &kernel["args"]["grid"]),
                (&"vector_add".into(), &"2 x 1 x 1".into())
            );
        }
        // Two blocks a launch, on one SM or two; two arrays in, one out.
        assert!((5..=10).contains(&slices(&trace, "sm").len()), "{name}: {text}");
        let copied = |what: &str| -> u64 {
            let copies = slices(&trace, "copy").into_iter().filter(|copy| copy["name"] == what);
            copies.map(|copy| copy["args"]["bytes"].as_u64().expect("bytes")).sum()
        };
        let array = 4 * 4096;
        assert_eq!(copied("copy to device"), 2 * array, "{name}: {text}");
        assert_eq!(copied("copy to host"), array, "{name}: {text}");
    }
}

#[test]
fn a_program_s_trace_has_no_other_program_s_kernels() {
    let scene = Scene::with_daemon();
    let sample = |name: &str| dist().join("lib/openmps/samples").join(name);
    let (path, ready, go) = (scene.file("own.json"), scene.file("ready"), scene.file("go"));
    let script = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.05; done; exec {} --iterations 3 --warm-up 2",
        ready.display(),
        go.display(),
        sample("vector_add").display()
    );
    let mut command = scene.command(&dist().join("bin/openmps"));
    command.args(["run", "-q", "--trace"]).arg(&path).args(["--", "sh", "-c", &script]);
    let traced = std::thread::spawn(move || finish(&mut command));
    wait_until("the traced program is there", || ready.exists());
    // It came since, and works while the other one is recorded.
    let mut other = scene.command(&sample("spin"));
    let mut other = other.args(["--blocks", "1", "--seconds", "600"]).spawn().expect("spin");
    wait_until("the other one works", || {
        let report: Value =
            serde_json::from_str(&scene.openmps(&["ps", "--json"]).stdout).expect("JSON");
        report.to_string().contains("spin")
    });
    std::fs::write(&go, "").expect("written");
    traced.join().expect("no panic").expect_success();
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    let text = std::fs::read_to_string(&path).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let kernels = slices(&trace, "kernel");
    assert_eq!(kernels.len(), 5, "{text}");
    assert!(kernels.iter().all(|kernel| kernel["name"] == "vector_add"), "{text}");
}

#[test]
fn a_program_is_recorded_by_events_where_the_device_keeps_no_records() {
    let mut scene = Scene::new();
    scene.start_daemon_with(&[("OPENMPS_SOFT_TENANTS", "0")]);
    let path = scene.file("events.json");
    let sample = dist().join("lib/openmps/samples/vector_add");
    let mut command = scene.command(&dist().join("bin/openmps"));
    command.args(["run", "-q", "--trace"]).arg(&path).arg("--").arg(sample);
    // As many as make batches, and some more.
    command.args(["--warm-up", "100", "--iterations", "3", "--blocks", "2", "--size", "4096"]);
    finish(&mut command).expect_success();
    let text = std::fs::read_to_string(&path).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let kernels = slices(&trace, "kernel");
    assert_eq!(kernels.len(), 103, "{text}");
    assert!(slices(&trace, "copy").len() >= 3, "{text}");
    // One stream: each begins when the one before it has ended, and none before it was submitted.
    let mut launches: Vec<(f64, &str)> = Vec::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        if event["cat"] == "kernel" || event["ph"] == "E" && event["tid"] == kernels[0]["tid"] {
            launches.push((
                event["ts"].as_f64().expect("a time"),
                event["ph"].as_str().expect("B or E"),
            ));
        }
    }
    assert!(launches.windows(2).all(|two| two[0].0 <= two[1].0), "{launches:?}");
}
