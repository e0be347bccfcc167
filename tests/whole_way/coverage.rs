//! What the installation says of itself is true of its files.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::process::Command;
use tests::{Scene, dist, finish};

#[test]
fn coverage_counts_what_the_library_exports() {
    let report = Scene::new().openmps(&["coverage", "--json"]).expect_success();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}"));
    let parts: u64 =
        ["local", "post", "call", "special", "unsupported"].iter().map(|n| number(n)).sum();
    assert_eq!(parts, number("total"));

    let library = dist().join("lib/openmps/libcuda.so.1");
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let symbols = String::from_utf8(symbols.expect("nm, which comes with a linker").stdout);
    let symbols = symbols.expect("symbols are ASCII");
    let mut exported: Vec<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    let mut listed: Vec<&str> = report["functions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| f["name"].as_str().expect("a name"))
        .collect();
    listed.sort_unstable();
    assert_eq!(exported, listed, "cu* and nothing else");
}

/// `openmps` where nothing in the environment says where the libraries are: beside it.
fn installed(scene: &Scene, arguments: &[&str]) -> String {
    let mut command = scene.command(&dist().join("bin/openmps"));
    command.env_remove("OPENMPS_LIB_DIR").env_remove("LD_LIBRARY_PATH").args(arguments);
    finish(&mut command).expect_success().stdout
}

#[test]
fn doctor_finds_the_software_gpu_and_its_code_cache() {
    let scene = Scene::new();
    let findings = |topic: &str| -> Vec<String> {
        let report = installed(&scene, &["doctor", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let findings = report["findings"].as_array().expect("a list");
        let of_topic = findings.iter().filter(|finding| finding["topic"] == topic);
        of_topic.map(|finding| finding["text"].as_str().expect("a text").to_owned()).collect()
    };
    assert!(findings("provider")[0].starts_with("the software GPU, "));
    let meeting = format!("processes without a daemon meet in {}", scene.file("soft").display());
    assert_eq!(findings("turns"), [meeting]);
    let cache = scene.file("cache/openmps/code");
    let holds = |functions| {
        let beginning = format!("{}: {functions} functions, ", cache.display());
        let found = findings("code cache");
        assert!(found[0].starts_with(&beginning), "{found:?}");
    };
    holds(0);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&cache).expect("ours");
    std::fs::write(cache.join("0123"), "code").expect("ours");
    std::fs::write(cache.join("unfinished-1-0"), "co").expect("ours");
    holds(1);
    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).expect("ours");
    assert!(findings("code cache")[0].ends_with("is not used: it is not this user's alone"));
}

#[test]
fn run_time_compilers_are_given_to_programs_on_the_software_gpu() {
    let environment = installed(&Scene::new(), &["run", "--no-daemon", "--", "env"]);
    let auditor = environment.lines().find_map(|line| line.strip_prefix("LD_AUDIT="));
    let auditor = std::path::Path::new(auditor.expect("a variable for the loader"));
    assert!(auditor.is_file(), "{}", auditor.display());
    for name in ["libnvrtc.so.12", "libnvrtc.so.13", "libnvJitLink.so.12", "libnvJitLink.so.13"] {
        assert!(auditor.with_file_name("compilers").join(name).is_file(), "{name}");
    }
    let variable = |name: &str| {
        let mut lines = environment.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("no {name}"))
    };
    let ptxas = std::path::Path::new(variable("TRITON_PTXAS_PATH"));
    let found = finish(std::process::Command::new(ptxas).arg("--version")).expect_success().stdout;
    assert!(found.contains("openmps") && found.contains("release 13.0, V13.0.0"), "{found}");
    assert_eq!(variable("TRITON_PTXAS_BLACKWELL_PATH"), variable("TRITON_PTXAS_PATH"));
    assert_eq!(std::path::Path::new(variable("CUDA_ROOT")).join("bin/ptxas"), ptxas);
    assert!(variable("XLA_FLAGS").contains("--xla_gpu_enable_libnvptxcompiler=false"));
    // What a user has set stays.
    let mut command = Scene::new().command(&dist().join("bin/openmps"));
    command
        .env("TRITON_PTXAS_PATH", "/x/ptxas")
        .env("CUDA_ROOT", "/x")
        .env("XLA_FLAGS", "--xla_dump_to=/x");
    command.args(["run", "--no-daemon", "--", "env"]);
    let set = finish(&mut command).expect_success().stdout;
    for line in
        ["TRITON_PTXAS_PATH=/x/ptxas\n", "CUDA_ROOT=/x\n", "XLA_FLAGS=--xla_dump_to=/x --xla_gpu"]
    {
        assert!(set.contains(line), "{set}");
    }
    let mut command = Scene::new().command(&dist().join("bin/openmps"));
    command.env("OPENMPS_COMPILERS", "own").args(["run", "--no-daemon", "--", "env"]);
    let own = finish(&mut command).expect_success().stdout;
    for name in ["LD_AUDIT=", "TRITON_PTXAS_PATH=", "CUDA_ROOT=", "XLA_FLAGS="] {
        assert!(!own.contains(name), "{own}");
    }
}
