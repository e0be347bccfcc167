//! Batch systems: Slurm's prolog, LSF, PBS.

use crate::node::{Daemon, Node, background, feed, is_root, skipped};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tests::{dist, finish, wait_until};

/// What SchedMD's example does, in its order: a state file with the device that has the daemon; for a job on another
/// device, or one that wants a whole GPU, mode 0 and quit, and the node is drained if anything of the name is left.
const PROLOG: &str = r#"state=$NODE/run/mps_dev_id
current=$(cat "$state" 2>/dev/null || echo -1)
stop=
if [ -n "$CUDA_VISIBLE_DEVICES" ]; then
    if [ -n "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" ]; then
        [ "$CUDA_VISIBLE_DEVICES" = "$current" ] || stop=1
    else
        case $CUDA_VISIBLE_DEVICES in *"$current"*) stop=1 ;; esac
    fi
fi
if [ -n "$stop" ] && [ "$current" != -1 ]; then
    "$NODE/bin/nvidia-smi" -c 0
    echo quit | CUDA_MPS_PIPE_DIRECTORY=$NODE/tmp/nvidia-mps_$current "$NODE/bin/nvidia-cuda-mps-control"
    if pgrep -f "$NODE/bin/nvidia-cuda-mps-contro[l] -d" >/dev/null || ls -d /proc/[0-9]*/environ 2>/dev/null |
        xargs grep -lsz "^CUDA_MPS_PIPE_DIRECTORY=$NODE/tmp/nvidia-mps_$current" 2>/dev/null | grep -v "/$$/" | grep -q .; then
        echo "node is drained: MPS not quitting"
        exit 1
    fi
    "$NODE/bin/nvidia-smi" >/dev/null || { echo "node is drained: GPU not operational"; exit 1; }
    echo -1 >"$state"
fi
if [ -n "$CUDA_VISIBLE_DEVICES" ] && [ -n "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" ]; then
    echo "$CUDA_VISIBLE_DEVICES" >"$state"
    unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
    export CUDA_MPS_PIPE_DIRECTORY=$NODE/tmp/nvidia-mps_$CUDA_VISIBLE_DEVICES
    export CUDA_MPS_LOG_DIRECTORY=$NODE/tmp/nvidia-log_$CUDA_VISIBLE_DEVICES
    "$NODE/bin/nvidia-cuda-mps-control" -d && echo "MPS control daemon started"
    "$NODE/bin/nvidia-cuda-mps-control" start_server -uid "$SLURM_JOB_UID" && echo "MPS server started"
fi
exit 0
"#;

struct Job {
    device: usize,
    percentage: Option<&'static str>,
}

fn prolog(node: &Node, job: &Job) -> tests::Ended {
    let mut command = node.bare("bash");
    command.args(["-c", PROLOG]).env("NODE", node.path("")).env("PATH", "/usr/bin:/bin");
    command.env("CUDA_VISIBLE_DEVICES", job.device.to_string()).env("SLURM_JOB_UID", "0");
    command.envs(job.percentage.map(|of| ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", of)));
    finish(&mut command)
}

/// Where the prolog has the daemon of a device.
fn pipe(node: &Node, device: usize) -> PathBuf {
    node.path(format!("tmp/nvidia-mps_{device}"))
}

/// What Slurm gives a job.
fn runs(node: &Node, job: &Job) {
    let mut program = node.computes(&pipe(node, job.device));
    // Numbered anew by the daemon's own list.
    program.envs(job.percentage.map(|of| ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", of)));
    finish(&mut program).expect_success();
}

#[test]
fn slurm_s_prolog_moves_the_daemon_from_device_to_device() {
    if !is_root() {
        return skipped("root is wanted");
    }
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2")]);
    node.directory("run", 0o755);
    node.directory("tmp", 0o1777);
    let first = Job { device: 0, percentage: Some("50") };
    let said = prolog(&node, &first).expect_success().stdout;
    assert!(
        said.contains("MPS control daemon started") && said.contains("MPS server started"),
        "{said}"
    );
    let daemon = Daemon::of(&pipe(&node, 0));
    runs(&node, &first);
    // A second job of the same device keeps the daemon: the start just says that one runs.
    let again = prolog(&node, &Job { device: 0, percentage: Some("25") }).expect_success();
    assert!(again.stdout.contains("MPS server started") && daemon.is_there(), "{again:?}");
    // One of another device moves it. Nothing of the old one is left when quit returns, or the node were drained.
    for device in [1, 0, 1, 0, 1] {
        let job = Job { device, percentage: Some("50") };
        let moved = prolog(&node, &job);
        assert_eq!(moved.status, 0, "{moved:?}");
        runs(&node, &job);
        assert_eq!(
            fs::read_to_string(node.path("run/mps_dev_id")).expect("a state"),
            format!("{device}\n")
        );
    }
    assert!(!daemon.is_there());
    // A job that wants the whole device has no daemon.
    let last = Daemon::of(&pipe(&node, 1));
    prolog(&node, &Job { device: 1, percentage: None }).expect_success();
    assert!(!last.is_there());
    assert_eq!(fs::read_to_string(node.path("run/mps_dev_id")).expect("a state"), "-1\n");
}

/// job_container/tmpfs: a job's /tmp is its own, so a daemon in /tmp is not to be found, one in /run is.
#[test]
fn a_job_with_a_private_tmp_finds_the_daemon_of_the_system() {
    if !is_root() || !crate::node::can_unshare() {
        return skipped("root and unshare are wanted");
    }
    let node = Node::new();
    let run = node.directory("run", 0o755);
    let pipe = node.path("run/nvidia-mps");
    let _daemon = node.start(&pipe, &node.path("log"), &[]);
    // The node's run is the job's /run; its /tmp is a new one, in which nothing of the node is.
    let script = r#"set -e
mount --bind "$RUN" /run
mkdir -p /mnt/job && mount -t tmpfs none /mnt/job && cp -a "$DIST" /mnt/job/dist
mount -t tmpfs none /tmp
unset CUDA_CACHE_PATH OPENMPS_SOFT_DIR
LD_LIBRARY_PATH=/mnt/job/dist/lib/openmps CUDA_MPS_PIPE_DIRECTORY=$PIPE exec /mnt/job/dist/vector_add --iterations 2"#;
    let small = node.directory("small/lib/openmps", 0o755);
    for name in ["libcuda.so.1", "libcuda.so"] {
        fs::copy(dist().join("lib/openmps/libcuda.so.1"), small.join(name)).expect("a copy");
    }
    let sample = node.path("small/vector_add");
    fs::copy(dist().join("lib/openmps/samples/vector_add"), sample).expect("a copy");
    let job = |pipe: &str| {
        let mut command = node.bare("unshare");
        command.args(["-m", "sh", "-c", script]).env("RUN", &run).env("PIPE", pipe);
        command.env("DIST", node.path("small")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        finish(&mut command)
    };
    // Without a variable programs look there too.
    job("/run/nvidia-mps").expect_success();
    let log = fs::read_to_string(node.path("log/control.log")).expect("a log");
    assert!(log.contains("NEW CLIENT"), "{log}");
    assert_ne!(job("/tmp/nvidia-mps").status, 0, "there is none in the job's /tmp");
    // As the plugin mounts it: a directory of the job's. `doctor` says why a daemon in /tmp is not seen.
    let script = "mkdir -p \"$RUN/4711/.4711\" && mount --bind \"$RUN/4711/.4711\" /tmp && exec \"$DIST/bin/openmps\" doctor";
    let mut command = node.bare("unshare");
    command.args(["-m", "sh", "-c", script]).env("RUN", &run).env("DIST", dist());
    command.env("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps_0").env("PATH", "/usr/bin:/bin:/sbin");
    let said = finish(&mut command).stdout;
    assert!(said.contains("/tmp is private to this job or service"), "{said}");
}

/// LSF: the pipe lies below the job's directory, CUDA_VISIBLE_DEVICES is not set, the daemon ends with the job.
#[test]
fn lsf_starts_a_daemon_for_a_job_below_its_directory() {
    let node = Node::with_device(&[("OPENMPS_SOFT_DEVICES", "2")]);
    let job = node.directory("lsf/4711.tmpdir", 0o700);
    let (pipe, log) = (job.join("mps/pipe"), job.join("mps/log"));
    let daemon = node.start(&pipe, &log, &[]);
    finish(node.computes(&pipe).env_remove("CUDA_VISIBLE_DEVICES")).expect_success();
    // `mps=yes,shared`: a second job of the same user.
    let done = node.path("done");
    let programs = [(); 2].map(|()| background(&mut node.computes_until(&pipe, &done)));
    node.wait_for_clients(&pipe, 2);
    fs::write(&done, "").expect("they end");
    for program in programs {
        program.wait().expect_success();
    }
    assert_eq!(node.echo(&pipe, "quit").expect_success().stdout, "");
    assert!(!daemon.is_there(), "it is gone when quit returns");
    fs::remove_dir_all(&job).expect("the job's directory goes");
}

/// NVIDIA's manual for PBS and Torque: prologue and epilogue.
#[test]
fn pbs_starts_a_server_for_the_job_s_user() {
    if !is_root() {
        return skipped("root is wanted");
    }
    let node = Node::new();
    let (pipe, log) = (node.path("pipe"), node.path("log"));
    node.smi("-c 3").expect_success();
    let daemon = node.start(&pipe, &log, &[]);
    // A user of the machine's list.
    let uid = 65_534;
    let said = feed(&mut node.control(&pipe, &log), &format!("start_server -uid {uid}\n"));
    assert_eq!(said.status, 0, "{said:?}");
    let report = node.report(&pipe);
    assert_eq!(report["servers"][0]["uid"].as_u64(), Some(uid.into()), "{report}");
    let mut program = node.computes(&pipe);
    std::os::unix::process::CommandExt::uid(&mut program, uid);
    finish(std::os::unix::process::CommandExt::gid(&mut program, uid).current_dir("/"))
        .expect_success();
    node.smi("-c 0").expect_success();
    node.echo(&pipe, "quit").expect_success();
    wait_until("the daemon has ended", || !daemon.is_there());
    let left = Command::new("test").arg("-e").arg(pipe.join("control")).status().expect("to run");
    assert!(!left.success());
}
