//! Release 620 of protocol 3: routing by cgroup, a namespace's limits and partition on each device, weights, and limits of
//! device memory that the kernel's controller or a program's variables say.

use crate::harness::{ClientProcess, Daemon, Setting};
use crate::stand_in::CONTROL;
use control::report::{ClientReport, Report};
use std::path::{Path, PathBuf};

crate::tests! {
    a_cgroup_s_programs_come_to_their_namespace_by_the_daemon_s_own_socket,
    a_namespace_has_limits_and_a_partition_on_each_device,
    keys_of_the_file_hold_and_those_without_effect_are_said,
    limits_of_the_dmem_controller_and_of_variables_hold_for_clients_to_come,
    limits_of_a_cgroup_reach_programs_that_run,
    a_namespace_has_limits_for_its_clients_together,
    a_partition_lends_its_chunks_while_it_has_no_programs,
}

const UUID: &str = "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d";
const SECOND: &str = "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2e";

fn start(setting: &Setting, options: &[&str], variables: &[(&str, &Path)]) -> Daemon {
    let mut command = setting.program(CONTROL);
    command.args(["-d", "-p", "3"]).args(options).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Daemon { pid: setting.daemon_pid() }
}

fn ok(setting: &Setting, line: &str) -> String {
    let (text, status) = setting.command(line);
    assert_eq!(status, 0, "{line}: {text}");
    text
}

/// This process's cgroup, as /proc has it.
fn own_cgroup() -> String {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match text.lines().find_map(|line| line.strip_prefix("0::")) {
        Some(own) => own.trim_end_matches('/').to_owned(),
        None => crate::skip("there are no cgroups of version 2"),
    }
}

fn client_of(setting: &Setting, process: &ClientProcess) -> ClientReport {
    let report: Report = serde_json::from_str(&ok(setting, "report")).unwrap();
    let mut clients = report.servers.into_iter().flat_map(|server| server.clients);
    clients.find(|client| client.pid == Some(process.pid())).expect("it is listed")
}

fn a_cgroup_s_programs_come_to_their_namespace_by_the_daemon_s_own_socket() {
    let setting = Setting::new();
    let own = own_cgroup();
    let root = Path::new("/sys/fs/cgroup");
    let _daemon = start(&setting, &[], &[("OPENMPS_CGROUP_ROOT", root)]);
    ok(&setting, "server create training");
    for name in ["far", "near", "other"] {
        ok(&setting, &format!("namespace create {name} --server=training"));
    }
    let namespace = |process: &ClientProcess| client_of(&setting, process).mps_namespace;
    let user = setting.client(None).unwrap();
    assert_eq!(namespace(&user).as_deref(), Some("default"), "its user's server");
    drop(user);
    // The nearest one above it; as the file has it, below the directory where cgroups are mounted.
    ok(&setting, "namespace set far --server=training --cgroup=/");
    let set = |name: &str, path: &str| {
        ok(&setting, &format!("namespace set {name} --server=training --cgroup={path}"));
    };
    set("other", "/nowhere/at/all");
    let routed = setting.client(None).unwrap();
    assert_eq!(namespace(&routed).as_deref(), Some("far"));
    let listed = ok(&setting, "client list --server=training --format=csv,noheader");
    assert!(listed.starts_with(&format!("{},training,0,far,", routed.pid())), "{listed}");
    drop(routed);
    if !own.is_empty() {
        set("near", &format!("/sys/fs/cgroup{own}"));
        let routed = setting.client(None).unwrap();
        assert_eq!(namespace(&routed).as_deref(), Some("near"));
        drop(routed);
        // With a depth that does not reach the process it is none of the namespace's.
        let depth = own.split('/').filter(|part| !part.is_empty()).count();
        ok(
            &setting,
            &format!("namespace set far --server=training --cgroup=/ --cgroup-depth={}", depth - 1),
        );
        ok(&setting, "namespace set near --server=training --cgroup=/nowhere");
        let user = setting.client(None).unwrap();
        assert_eq!(namespace(&user).as_deref(), Some("default"));
    }
    for wrong in ["--cgroup=training", "--cgroup-depth=1", "--cgroup-depth=x"] {
        let (text, status) =
            setting.command(&format!("namespace set near --server=training {wrong}"));
        let taken = status == 0;
        assert!(!taken || wrong == "--cgroup-depth=1", "{wrong}: {text}");
    }
}

fn a_namespace_has_limits_and_a_partition_on_each_device() {
    let mut setting = Setting::new();
    setting.devices = 2;
    let mut daemon = start(&setting, &[], &[]);
    ok(&setting, "server create shared");
    ok(&setting, "namespace create pod --server=shared");
    ok(&setting, "sm-partition create large --server=shared --device=1 --chunks=4");
    ok(
        &setting,
        "namespace set pod --server=shared --pinned-memory-limit=8G --active-thread-percentage=50",
    );
    let of = |device: &str, rest: &str| {
        format!("namespace set pod --server=shared --device={device} {rest}")
    };
    ok(&setting, &of("0", "--pinned-memory-limit=4G --active-thread-percentage=25"));
    ok(&setting, &of(SECOND, "--sm-partition=large --pinned-memory-limit=6G"));
    let devices = format!("{UUID},4G,25.0,-\n{SECOND},6G,-,large\n");
    assert_eq!(ok(&setting, "namespace get pod shared devices"), devices);
    for wrong in [
        of("9", "--pinned-memory-limit=1G"),
        of("0", "--client-priority=1"),
        of("0", "--sm-partition=Large"),
    ] {
        assert_ne!(setting.command(&wrong).1, 0, "{wrong}");
    }

    let pipe = setting.pipe.clone();
    let client = |setting: &mut Setting, device: &'static str| {
        setting.pipe = pipe.join("shared/pod");
        setting.client_environment = vec![("STAND_IN_DEVICE", device)];
        let client = setting.client(None).unwrap();
        setting.pipe.clone_from(&pipe);
        client
    };
    // A daemon that follows has them too.
    for _ in 0..2 {
        let first = client(&mut setting, UUID);
        let limits = client_of(&setting, &first).limits;
        assert_eq!(
            (limits.memory_bytes, limits.sms),
            (Some(4 << 30), 32),
            "a quarter of 132, in pairs"
        );
        let second = client(&mut setting, SECOND);
        let limits = client_of(&setting, &second).limits;
        assert_eq!((limits.memory_bytes, limits.sms), (Some(6 << 30), 32), "four chunks of 8");
        drop((first, second));
        drop(daemon);
        daemon = start(&setting, &[], &[]);
        assert_eq!(ok(&setting, "namespace get pod shared devices"), devices);
    }
    drop(daemon);
}

fn keys_of_the_file_hold_and_those_without_effect_are_said() {
    let mut setting = Setting::new();
    let file = setting.scratch.0.join("mps.toml");
    let text = format!(
        "schema_version = \"1.0\"\n[compute_policy]\ntimeslice = \"long\"\n[servers.training]\n\
         timeslice_pct = \"50\"\n[servers.training.namespaces.high]\ncgroup = \"/sys/fs/cgroup/none\"\n\
         [[servers.training.namespaces.high.devices]]\nuuid = \"{UUID}\"\nsm_partition = \"large\"\n\
         [[servers.training.devices]]\nuuid = \"{UUID}\"\n[[servers.training.devices.sm_partitions]]\n\
         name = \"large\"\nchunks = 4\nshareable = true\n"
    );
    std::fs::write(&file, text).unwrap();
    let _daemon = start(&setting, &["-a", file.to_str().unwrap()], &[]);
    let log = setting.control_log();
    assert!(log.contains("compute_policy.timeslice") && !log.contains("shareable"), "{log}");
    let pipe = setting.pipe.clone();
    setting.pipe = pipe.join("training/high");
    let client = setting.client(None).unwrap();
    setting.pipe = pipe;
    let row = client_of(&setting, &client);
    assert_eq!(row.limits.sms, 32, "the namespace's partition, which the program does not name");
    assert!(row.scheduling.settings.contains("weight=50"), "{row:?}");
    let policy = ok(&setting, "schedule");
    assert!(policy.contains("policy=classes+weighted"), "a weight brings its policy: {policy}");
}

fn limits_of_the_dmem_controller_and_of_variables_hold_for_clients_to_come() {
    let mut setting = Setting::new();
    let own = own_cgroup();
    let root = setting.scratch.0.join("cgroup");
    let directory: PathBuf = root.join(own.trim_start_matches('/'));
    std::fs::create_dir_all(&directory).unwrap();
    let _daemon = start(&setting, &[], &[("OPENMPS_CGROUP_ROOT", &root)]);
    let write = |bytes: u64| {
        let text = format!("drm/0000:99:00.0/vram0 1\nnvidia/0000:00:06.0/vidmem {bytes}\n");
        std::fs::write(directory.join("dmem.max"), text).unwrap();
    };
    let hard = |setting: &Setting| {
        let client = setting.client(None).unwrap();
        let group = client_of(setting, &client).limits;
        group.memory_bytes
    };
    write(3 << 30);
    assert_eq!(hard(&setting), None, "memory is not accounted for");
    ok(&setting, "feature enable memacct");
    assert_eq!(hard(&setting), Some(3 << 30));
    write(5 << 30);
    assert_eq!(hard(&setting), Some(5 << 30), "raised");
    std::fs::remove_file(directory.join("dmem.max")).unwrap();
    assert_eq!(hard(&setting), None, "gone");
    setting.client_environment = vec![("NVIDIA_GPU_MEMORY_LIMIT", "2048")];
    assert_eq!(hard(&setting), Some(2 << 30));
    // The kernel's word goes before the program's own.
    write(1 << 30);
    assert_eq!(hard(&setting), Some(1 << 30));
    std::fs::remove_file(directory.join("dmem.max")).unwrap();
    // The operator's goes before both.
    let cgroup = if own.is_empty() { "/" } else { &own };
    ok(&setting, &format!("memacct limit {cgroup} --hard-limit=4G"));
    assert_eq!(hard(&setting), Some(4 << 30));
}

/// Waits for what a client's server was notified of.
fn wait_for(
    setting: &Setting,
    process: &ClientProcess,
    what: &str,
    is: impl Fn(&ClientReport) -> bool,
) {
    crate::harness::wait_until(what, || is(&client_of(setting, process)));
}

fn limits_of_a_cgroup_reach_programs_that_run() {
    let setting = Setting::new();
    let own = own_cgroup();
    let root = setting.scratch.0.join("cgroup");
    let directory: PathBuf = root.join(own.trim_start_matches('/'));
    std::fs::create_dir_all(&directory).unwrap();
    let _daemon = start(&setting, &[], &[("OPENMPS_CGROUP_ROOT", &root)]);
    let write = |gib: u64| {
        let text = format!("nvidia/0000:00:06.0/vidmem {}\n", gib << 30);
        std::fs::write(directory.join("dmem.max"), text).unwrap();
    };
    ok(&setting, "feature enable memacct");
    write(3);
    let client = setting.client(None).unwrap();
    let has = |gib: u64| move |of: &ClientReport| of.limits.memory_bytes == Some(gib << 30);
    assert!(has(3)(&client_of(&setting, &client)));
    write(5);
    wait_for(&setting, &client, "it is raised", has(5));
    write(2);
    wait_for(&setting, &client, "it is lowered", has(2));
    let cgroup = if own.is_empty() { "/" } else { &own };
    ok(&setting, &format!("memacct limit {cgroup} --hard-limit=4G"));
    wait_for(&setting, &client, "a command goes before", has(4));
    ok(&setting, &format!("memacct limit {cgroup} --soft-limit=none --hard-limit=none"));
    wait_for(&setting, &client, "the kernel's again", has(2));
    std::fs::remove_file(directory.join("dmem.max")).unwrap();
    wait_for(&setting, &client, "gone", |of| of.limits.memory_bytes.is_none());
}

fn a_namespace_has_limits_for_its_clients_together() {
    let mut setting = Setting::new();
    let mut daemon = start(&setting, &[], &[]);
    ok(&setting, "server create shared");
    ok(&setting, "namespace create pod --server=shared");
    let set = |setting: &Setting, words: &str| {
        ok(setting, &format!("namespace set pod --server=shared {words}"));
    };
    set(&setting, "--memory-limit=8G --memory-guarantee=2G --clients=2");
    set(&setting, &format!("--device={UUID} --memory-limit=6G"));
    for wrong in ["--memory-limit=much", "--clients=0", "--device=0 --clients=x"] {
        let (text, status) = setting.command(&format!("namespace set pod --server=shared {wrong}"));
        assert_ne!(status, 0, "{wrong}: {text}");
    }
    let pipe = setting.pipe.clone();
    let in_pod = |setting: &mut Setting| {
        setting.pipe = pipe.join("shared/pod");
        let client = setting.client(None);
        setting.pipe.clone_from(&pipe);
        client
    };
    let has = |gib: u64| move |of: &ClientReport| of.limits.memory_bytes == Some(gib << 30);
    let first = in_pod(&mut setting).unwrap();
    wait_for(&setting, &first, "the device's own limit", has(6));
    let second = in_pod(&mut setting).unwrap();
    let refused = in_pod(&mut setting).err().expect("it is refused");
    assert!(refused.contains("namespace 'pod' has 2 of its 2 clients"), "{refused}");
    // For those that run, too.
    set(&setting, "--device=0 --memory-limit=3G");
    wait_for(&setting, &first, "it is lowered", has(3));
    set(&setting, "--device=0 --memory-limit=none");
    wait_for(&setting, &second, "it is gone", |of| of.limits.memory_bytes.is_none());
    set(&setting, "--device=0 --memory-limit=7G");
    wait_for(&setting, &second, "it is there again", has(7));
    drop((first, second));
    // The daemon that follows has them.
    drop(daemon);
    daemon = start(&setting, &[], &[]);
    let again = in_pod(&mut setting).unwrap();
    assert!(has(7)(&client_of(&setting, &again)));
    set(&setting, "--clients=none");
    let _others = [in_pod(&mut setting).unwrap(), in_pod(&mut setting).unwrap()];
    drop(daemon);
}

fn a_partition_lends_its_chunks_while_it_has_no_programs() {
    let mut setting = Setting::new();
    let _daemon = start(&setting, &[], &[]);
    ok(&setting, "server create shared");
    let create = |name: &str, words: &str| {
        let partition = format!("sm-partition create {name} --server=shared --device=0 {words}");
        ok(&setting, &partition);
        ok(&setting, &format!("namespace create {name} --server=shared"));
        let set = format!("namespace set {name} --server=shared --device=0 --sm-partition={name}");
        ok(&setting, &set);
    };
    create("borrower", "--chunks=4 --max-chunks=6");
    create("lender", "--chunks=4 --shareable=true");
    let wrong = "sm-partition create x --server=shared --device=0 --chunks=4 --max-chunks=3";
    assert!(setting.command(wrong).0.contains("at least 4"));
    let pipe = setting.pipe.clone();
    let client = |setting: &mut Setting, name: &str| {
        setting.pipe = pipe.join("shared").join(name);
        let client = setting.client(None).unwrap();
        setting.pipe.clone_from(&pipe);
        client
    };
    let borrower = client(&mut setting, "borrower");
    assert_eq!(client_of(&setting, &borrower).limits.sms, 48, "six chunks of 8");
    let lender = client(&mut setting, "lender");
    assert_eq!(client_of(&setting, &lender).limits.sms, 32, "its own, at once");
    wait_for(&setting, &borrower, "they are given back", |of| of.limits.sms == 32);
    drop(lender);
    wait_for(&setting, &borrower, "they are lent again", |of| of.limits.sms == 48);
}
