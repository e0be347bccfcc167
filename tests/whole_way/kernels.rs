//! Whole kernels on the software GPU give what the same algorithms give in C.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;
use tests::{Scene, dist, finish};

#[test]
fn kernels_give_what_c_gives() {
    let scene = Scene::new();
    let names = scene.openmps(&["bench", "kernels", "--check", "--list"]).expect_success();
    let report = scene.openmps(&["bench", "kernels", "--check"]).expect_success();
    let expected = format!("{} kernels gave", names.stdout.lines().count());
    assert!(report.stdout.starts_with(&expected), "{}", report.stdout);
}

#[test]
fn a_second_processor_is_measured_by_a_process_of_its_own() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let scene = Scene::new();
    let arguments = ["bench", "kernels", "--scaling", "--json", "--only", "saxpy"];
    let report = scene.openmps(&arguments).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    let [row] = &report["rows"].as_array().expect("rows")[..] else { panic!("{report}") };
    let figure = |name: &str| row[name].as_f64().expect("a number");
    assert_eq!((&row["kernel"], &row["unit"]), (&"saxpy".into(), &"Gelem/s".into()));
    assert!(figure("one") > 0.0 && figure("two") > 0.0, "{report}");
    let ratio = figure("two") / figure("one");
    assert!((figure("ratio") / ratio - 1.0).abs() < 1e-9, "{report}");
}

/// Files of native code, and when each was used last.
fn kept(scene: &Scene) -> BTreeMap<PathBuf, SystemTime> {
    let Ok(entries) = std::fs::read_dir(scene.file("cache/openmps/code")) else {
        return BTreeMap::new();
    };
    let used = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).expect("a file");
    entries.map(|e| e.expect("an entry").path()).map(|path| (path.clone(), used(&path))).collect()
}

#[test]
fn native_code_is_kept_for_the_next_process_and_checked_before_it_runs() {
    if !is_x86_feature_detected!("avx512bw") {
        return;
    }
    let scene = Scene::new();
    let run = |cache: &str| {
        let mut command = scene.command(&dist().join("bin/openmps"));
        command.env("OPENMPS_SOFT_TIER", "1").env("CUDA_CACHE_DISABLE", cache);
        command.args(["bench", "kernels", "--check", "--only", "saxpy"]);
        finish(&mut command).expect_success().stdout
    };
    let without = run("1");
    assert!(kept(&scene).is_empty());

    assert_eq!(run("0"), without);
    let first = kept(&scene);
    assert!(!first.is_empty());

    assert_eq!(run("0"), without);
    let second = kept(&scene);
    assert!(first.keys().eq(second.keys()), "{first:?} {second:?}");
    assert!(first.iter().all(|(path, used)| second[path] > *used), "{first:?} {second:?}");

    // A damaged file is made anew.
    for path in first.keys() {
        let mut content = std::fs::read(path).expect("a file");
        content.iter_mut().skip(64).for_each(|byte| *byte = 0xcc);
        std::fs::write(path, content).expect("ours");
    }
    let damaged: Vec<_> = first.keys().map(|p| std::fs::read(p).expect("a file")).collect();
    assert_eq!(run("0"), without);
    let mended: Vec<_> = first.keys().map(|p| std::fs::read(p).expect("a file")).collect();
    assert!(damaged.iter().zip(&mended).all(|(a, b)| a != b));
}
