//! Installations: one that was moved, and those of which a part is missing or was copied in part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Scene, dist, finish};

/// A copy of the installation, by hard links where these are possible.
fn copy(to: &Path) {
    fn each(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = to.join(path.file_name().expect("a name"));
            if path.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                std::os::unix::fs::symlink(target, name).expect("a link");
            } else if path.is_dir() {
                each(&path, &name);
            } else if fs::hard_link(&path, &name).is_err() {
                fs::copy(&path, &name).expect("a copy");
            }
        }
    }
    for part in ["bin", "lib"] {
        each(&dist().join(part), &to.join(part));
    }
}

/// `openmps run` of a copy, with a daemon of its own.
fn run(scene: &Scene, copy: &Path) -> Command {
    let mut command = Command::new(copy.join("bin/openmps"));
    command
        .args(["run", "--"])
        .arg(copy.join("lib/openmps/samples/vector_add"))
        .args(["--iterations", "1"])
        .env("OPENMPS_PROVIDER", "soft")
        .env("CUDA_MPS_PIPE_DIRECTORY", scene.file("pipe-of-copy"))
        .env("CUDA_MPS_LOG_DIRECTORY", scene.file("log-of-copy"))
        .env_remove("OPENMPS_LIB_DIR")
        .env_remove("LD_LIBRARY_PATH");
    command
}

/// Stops that daemon.
fn down(scene: &Scene) {
    let mut command = Command::new(dist().join("bin/openmps"));
    command
        .args(["down", "--timeout", "0"])
        .env("CUDA_MPS_PIPE_DIRECTORY", scene.file("pipe-of-copy"));
    finish(&mut command);
}

fn moved(scene: &Scene, name: &str) -> PathBuf {
    let to = scene.file(name);
    copy(&to);
    to
}

#[test]
fn one_that_was_moved_works() {
    let scene = Scene::new();
    let first = moved(&scene, "first place");
    let second = scene.file("second place");
    fs::rename(&first, &second).expect("a directory is renamed");
    finish(&mut run(&scene, &second)).expect_success();
    down(&scene);
}

#[test]
fn what_is_missing_or_incomplete_is_named() {
    let scene = Scene::new();
    let copy = moved(&scene, "copy");
    let library = |name: &str| copy.join("lib/openmps").join(name);
    // A program that loaded it would get SIGBUS.
    for name in ["libcuda.so.1", "libnvidia-ml.so.1", "libopenmps-soft.so"] {
        let bytes = fs::read(library(name)).expect("a library");
        fs::remove_file(library(name)).expect("it is there");
        fs::write(library(name), &bytes[..bytes.len() / 2]).expect("a part of it");
        let ended = finish(&mut run(&scene, &copy));
        assert_ne!(ended.status, 0);
        let part = format!("{name} is incomplete: it has {} of", bytes.len() / 2);
        assert!(ended.stderr.contains(&part), "{}", ended.stderr);
        fs::write(library(name), &bytes).expect("all of it");
    }
    finish(&mut run(&scene, &copy)).expect_success();
    down(&scene);

    fs::remove_file(library("libopenmps-soft.so")).expect("it is there");
    let ended = finish(&mut run(&scene, &copy));
    assert_ne!(ended.status, 0);
    assert!(ended.stderr.contains("the software GPU's library is missing"), "{}", ended.stderr);
    down(&scene);
    fs::remove_file(library("libcuda.so.1")).expect("it is there");
    let ended = finish(&mut run(&scene, &copy));
    assert!(ended.stderr.contains("libcuda.so.1 of openmps is neither in"), "{}", ended.stderr);
}
