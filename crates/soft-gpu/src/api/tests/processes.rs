//! Processes: this test program once more, which ends in the middle of its work, is killed or forks.

use super::*;
use rustix::process::{Pid, WaitOptions, waitpid};

/// Runs a test of this program alone in a process of its own, and gives how it ended.
fn alone(test: &str) -> std::process::Output {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap()
}

#[test]
fn a_program_may_end_in_the_middle_of_its_work() {
    for test in ["api::tests::processes::child_exits", "api::tests::processes::child_returns"] {
        let output = alone(test);
        assert!(output.status.success(), "{test}: {output:?}");
    }
}

#[test]
#[ignore = "run by a_program_may_end_in_the_middle_of_its_work"]
fn child_exits() {
    let _alive = start();
    let never = Arc::new(AtomicU32::new(0));
    for _ in 0..4 {
        launch(spin(&never), 100, new_stream(0), &mut []).unwrap();
    }
    std::process::exit(0);
}

#[test]
#[ignore = "run by a_program_may_end_in_the_middle_of_its_work"]
fn child_returns() {
    let _alive = start();
    launch(spin(&Arc::default()), 100, CU_STREAM_PER_THREAD, &mut []).unwrap();
}

#[test]
fn a_killed_process_loses_its_turn() {
    use std::io::{BufRead, BufReader};
    let dir = std::env::temp_dir().join(format!("soft-gpu-killed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "api::tests::processes::child_holds_the_device",
            "--ignored",
            "--nocapture",
        ])
        .env("OPENMPS_SOFT_DIR", &dir)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the device is ours")));
    let device = crate::testing::TestDevice::with(|s| s.turn_dirs = vec![dir.clone()]);
    let stream = device.stream();
    let run = || {
        let op = crate::testing::launch(1, 32, |_, _, _| Outcome::Finished);
        device.enqueue(stream, op).unwrap();
        device.synchronize_stream(stream).unwrap();
    };
    // In turns with its endless kernel, then without it.
    for _ in 0..5 {
        run();
    }
    child.kill().unwrap();
    for _ in 0..5 {
        run();
    }
    child.wait().unwrap();
    run();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "run by a_killed_process_loses_its_turn"]
fn child_holds_the_device() {
    let _alive = start();
    let running = Arc::new(AtomicU32::new(0));
    let seen = running.clone();
    let endless = function(0, move |worker, _, _| {
        seen.store(1, Ordering::Release);
        while !worker.control.yield_requested() {
            std::hint::spin_loop();
        }
        Outcome::Yielded
    });
    launch(endless, 4, new_stream(0), &mut []).unwrap();
    while running.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    println!("the device is ours");
    std::thread::sleep(std::time::Duration::from_secs(50));
}

#[test]
fn a_child_of_fork_has_no_driver() {
    let output = alone("api::tests::processes::child_forks");
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "run by a_child_of_fork_has_no_driver"]
fn child_forks() {
    let _alive = start();
    launch(spin(&Arc::default()), 4, CUstream::NULL, &mut []).unwrap();
    // SAFETY: the child only calls the driver, which answers without touching a lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = Err(Error::NOT_INITIALIZED);
        let mut count = 0;
        let right = cu!(cuInit(0)) == refused
            && cu!(cuDeviceGetCount(&mut count)) == refused
            && cu!(cuCtxSynchronize()) == refused
            && cu!(cuDriverGetVersion(&mut count)) == Ok(());
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let waited = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap();
    assert_eq!(waited.unwrap().1.exit_status(), Some(0));
}
