//! Lives of a daemon: it is restarted, killed, upgraded, and its files are removed under it. One body runs
//! with protocol 2, with protocol 3, and with a namespace of a named server of protocol 3.

use crate::harness::{ClientProcess, Daemon, Setting, is_daemon, kill, names, signal, wait_until};
use crate::stand_in::CONTROL;
use control::report::Report;
use rustix::process::Signal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

crate::tests! {
    a_killed_daemon_s_servers_are_taken_over_with_their_clients_limits_and_namespaces,
    an_upgraded_daemon_goes_on_with_all_that_it_had,
    directories_of_namespaces_outlive_daemons,
    a_changed_configuration_goes_before_what_commands_have_made,
    static_partitions_outlive_a_killed_daemon,
    a_partition_that_the_devices_do_not_have_starts_no_daemon,
    start_up_settings_that_do_not_hold_fail_or_are_said,
    files_that_were_removed_are_made_anew,
    a_daemon_whose_directory_is_another_s_leaves_it_alone,
}

/// How programs come to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Protocol2,
    Protocol3,
    Namespace,
}

const WAYS: [Way; 3] = [Way::Protocol2, Way::Protocol3, Way::Namespace];

impl Way {
    fn start(self, setting: &Setting) -> Daemon {
        let protocol = if self == Way::Protocol2 { "2" } else { "3" };
        let outcome = setting.control(&["-d", "-p", protocol]);
        assert_eq!((outcome.output.as_str(), outcome.status), ("", 0), "{}", outcome.errors);
        Daemon { pid: setting.daemon_pid() }
    }

    /// Starts the daemon, with a named server and a namespace if it has such.
    fn start_first(self, setting: &Setting) -> Daemon {
        let daemon = self.start(setting);
        if self == Way::Namespace {
            assert_eq!(setting.command("server create training").1, 0);
            assert_eq!(setting.command("namespace create batch --server=training").1, 0);
            let set = "namespace set batch --server=training --active-thread-percentage=25";
            assert_eq!(setting.command(set).1, 0);
        }
        daemon
    }

    /// Where a program finds the daemon.
    fn directory(self, setting: &Setting) -> PathBuf {
        match self {
            Way::Protocol2 | Way::Protocol3 => setting.pipe.clone(),
            Way::Namespace => setting.pipe.join("training/batch"),
        }
    }

    fn client(self, setting: &mut Setting) -> ClientProcess {
        let below = self.directory(setting);
        let pipe = std::mem::replace(&mut setting.pipe, below);
        let client = setting.client(None);
        setting.pipe = pipe;
        client.unwrap_or_else(|refused| panic!("{self:?}: {refused}"))
    }
}

fn report(setting: &Setting) -> Report {
    serde_json::from_str(&setting.command("report").0).expect("a report")
}

/// Servers, each with its name, and its clients with their namespaces and SMs.
type Picture = Vec<(u32, Option<String>, Vec<(Option<u32>, Option<String>, u32)>)>;

fn picture(setting: &Setting) -> Picture {
    let servers = report(setting).servers.into_iter();
    servers
        .map(|server| {
            let clients = server.clients.into_iter();
            let clients = clients.map(|of| (of.pid, of.mps_namespace, of.limits.sms)).collect();
            (server.pid, server.name, clients)
        })
        .collect()
}

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).ino()
}

fn a_killed_daemon_s_servers_are_taken_over_with_their_clients_limits_and_namespaces() {
    for way in WAYS {
        let mut setting = Setting::with_behaviour("serves on");
        let first = way.start_first(&setting);
        setting.command("set_default_active_thread_percentage 40");
        setting.command("set_default_client_priority 1");
        setting.command("class_rules command:train batch");
        let client = way.client(&mut setting);
        let directory = inode(&way.directory(&setting));
        let before = picture(&setting);
        assert!(before.iter().any(|(pid, _, clients)| *pid == client.server && clients.len() == 1));
        kill(first.pid);
        let _daemon = way.start(&setting);
        // A newcomer is served at the same server.
        let newcomer = way.client(&mut setting);
        assert_eq!(newcomer.server, client.server, "{way:?}: {}", setting.control_log());
        drop(newcomer);
        wait_until("it is gone", || {
            report(&setting).servers.iter().map(|server| server.clients.len()).sum::<usize>() == 1
        });
        let mine = |picture: Picture| -> Picture {
            picture.into_iter().filter(|(pid, ..)| *pid == client.server).collect()
        };
        assert_eq!(mine(picture(&setting)), mine(before), "{way:?}");
        assert_eq!(inode(&way.directory(&setting)), directory, "{way:?}: containers have it");
        assert_eq!(setting.command("get_default_active_thread_percentage").0, "40.0\n", "{way:?}");
        assert_eq!(setting.command("get_default_client_priority").0, "1\n", "{way:?}");
        assert_eq!(setting.command("class_rules").0, "command:train batch\n", "{way:?}");
        let pid = client.pid();
        assert_eq!(
            setting.command(&format!("terminate_client {} {pid}", client.server)),
            ("0\n".into(), 0),
            "{way:?}: commands reach it"
        );
        if way == Way::Namespace {
            let set = setting.command("namespace get batch training active-thread-percentage");
            assert_eq!(set, ("25.0\n".into(), 0));
            let (text, status) = setting.command("namespace delete batch --server=training");
            assert!(status == 1 && text.contains("1 active clients"), "{text}");
        }
        drop(client);
        assert_eq!(setting.command("quit"), (String::new(), 0));
    }
}

fn an_upgraded_daemon_goes_on_with_all_that_it_had() {
    for way in WAYS {
        let mut setting = Setting::with_behaviour("serves on");
        let daemon = way.start_first(&setting);
        setting.command("set_default_active_thread_percentage 40");
        let other = way.client(&mut setting);
        let directory = inode(&way.directory(&setting));
        let socket = inode(&way.directory(&setting).join("control"));
        for round in 1..=2 {
            assert_eq!(setting.command("upgrade").1, 0, "{way:?}");
            wait_until("another daemon has taken the place", || {
                setting.control_log().matches("has taken the place of version").count() == round
            });
        }
        assert_eq!(setting.daemon_pid(), daemon.pid);
        assert_eq!(inode(&way.directory(&setting)), directory, "{way:?}");
        assert_eq!(inode(&way.directory(&setting).join("control")), socket, "{way:?}");
        let client = way.client(&mut setting);
        assert_ne!(client.server, other.server);
        assert_eq!(setting.command("get_default_active_thread_percentage").0, "40.0\n");
        let row = picture(&setting).into_iter().find(|(pid, ..)| *pid == client.server).unwrap();
        let sms = if way == Way::Namespace { 32 } else { 52 };
        assert_eq!(row.2.iter().map(|client| client.2).collect::<Vec<_>>(), [sms], "{way:?}");
        if way == Way::Namespace {
            assert_eq!(row.1.as_deref(), Some("training"));
            assert_eq!(row.2[0].1.as_deref(), Some("batch"));
            assert_eq!(setting.command("namespace create more --server=training").1, 0);
            assert_eq!(setting.command("server delete training --force").1, 0);
            assert!(!setting.pipe.join("training").exists());
        }
        drop((client, other));
        assert_eq!(setting.command("quit"), (String::new(), 0));
    }
}

const CONFIGURATION: &str = r#"schema_version = "1.0"
[servers.training]
active_thread_percentage = "50"
[servers.training.namespaces.batch]
active_thread_percentage = "25"
[[servers.training.devices]]
uuid = "0"
  [[servers.training.devices.sm_partitions]]
  name = "large"
  chunks = 2
"#;

fn start_with(setting: &Setting, text: &str) -> Daemon {
    let path = setting.scratch.0.join("mps.toml");
    std::fs::write(&path, text).unwrap();
    let outcome = setting.control(&["-d", "-p", "3", "-a", path.to_str().unwrap()]);
    assert_eq!((outcome.output.as_str(), outcome.status), ("", 0), "{}", outcome.errors);
    Daemon { pid: setting.daemon_pid() }
}

fn directories_of_namespaces_outlive_daemons() {
    let mut setting = Setting::new();
    let directories = ["training", "training/batch", "other", "other/late"];
    let inodes = |setting: &Setting| directories.map(|name| inode(&setting.pipe.join(name)));
    let mut before = None;
    let partition =
        |setting: &Setting| setting.command("sm-partition list --format=csv,noheader").0;
    let mut partitions = String::new();
    for round in 0..4 {
        let daemon = start_with(&setting, CONFIGURATION);
        if round == 0 {
            setting.command("server create other");
            setting.command("namespace create late --server=other");
            setting.command("namespace set batch --server=training --active-thread-percentage=10");
            let create = "sm-partition create small --server=other --device=0 --chunks=1";
            assert_eq!(setting.command(create).1, 0);
        }
        assert_eq!(inodes(&setting), *before.get_or_insert_with(|| inodes(&setting)), "{round}");
        // What commands made of the configuration, and beside it, holds.
        let set = setting.command("namespace get batch training active-thread-percentage");
        assert_eq!(set.0, "10.0\n", "{round}");
        wait_until("servers are ready", || {
            report(&setting).servers.iter().filter(|server| server.state == "ACTIVE").count() == 2
        });
        let now = partition(&setting);
        assert_eq!(now.lines().count(), 2, "{round}: {now}");
        // Programs have their names in variables.
        assert_eq!(
            now,
            *match round {
                0 => {
                    partitions.clone_from(&now);
                    &partitions
                }
                _ => &partitions,
            }
        );
        let pipe = setting.pipe.clone();
        setting.pipe = pipe.join("other/late");
        let refused = setting.client(None).err().expect("it has partitions");
        setting.pipe = pipe;
        assert!(refused.starts_with("refused 915"), "{refused}");
        match round % 2 {
            0 => assert_eq!(setting.command("quit"), (String::new(), 0)),
            _ => kill(daemon.pid),
        }
        wait_until("it has ended", || !is_daemon(daemon.pid));
        if round % 2 == 0 {
            assert!(!setting.pipe.join("training/control").exists());
            assert!(!setting.pipe.join("training/log").exists());
        }
    }
}

fn a_changed_configuration_goes_before_what_commands_have_made() {
    let setting = Setting::new();
    {
        let _daemon = start_with(&setting, CONFIGURATION);
        setting.command("namespace set batch --server=training --active-thread-percentage=10");
        setting.command("namespace create late --server=training");
        setting.command("server create other");
        let delete = "sm-partition delete large --server=training --device=0";
        wait_until("it is not in use", || setting.command(delete).1 == 0);
    }
    {
        // As it was: the partition that a command has taken away does not come back.
        let _daemon = start_with(&setting, CONFIGURATION);
        assert_eq!(setting.command("sm-partition list --format=csv,noheader").0, "");
    }
    let changed = CONFIGURATION.replace("\"25\"", "\"20\"") + "[servers.more]\n";
    {
        let _daemon = start_with(&setting, &changed);
        let share = |namespace: &str| {
            let get = format!("namespace get {namespace} training active-thread-percentage");
            setting.command(&get).0
        };
        assert_eq!(
            (share("batch"), share("late"), share("default")),
            ("20.0\n".into(), "-\n".into(), "50.0\n".into())
        );
        assert_eq!(setting.command("sm-partition list --format=csv,noheader").0.lines().count(), 1);
        assert_eq!(setting.command("server list other --format=csv,noheader").1, 0);
        assert_eq!(setting.command("server list more --format=csv,noheader").1, 0);
    }
    {
        // What is no more in the file is gone, with its directory.
        let _daemon = start_with(&setting, "schema_version = \"1.0\"\n");
        assert_eq!(setting.command("server list training").1, 1);
        assert_eq!(setting.command("server list other").1, 0);
        assert!(!setting.pipe.join("training").exists());
    }
    let daemon = start_with(&setting, "schema_version = \"1.0\"\n");
    setting.command("server delete other");
    drop(daemon);
    // With the other protocol there is none of it.
    let _daemon = setting.start();
    let files =
        ["control", "control_lock", "control_privileged", "log", "nvidia-cuda-mps-control.pid"];
    assert_eq!(names(&setting.pipe), files);
}

fn a_partition_that_the_devices_do_not_have_starts_no_daemon() {
    let setting = Setting::new();
    let path = setting.scratch.0.join("mps.toml");
    for (from, to, part) in [
        ("chunks = 2", "chunks = 99", "99 chunks"),
        ("uuid = \"0\"", "uuid = \"7\"", "there is no device"),
        ("active_thread", "allowed_devices = \"7\"\nactive_thread", "see its allowed-devices"),
    ] {
        std::fs::write(&path, CONFIGURATION.replacen(from, to, 1)).unwrap();
        let outcome = setting.control(&["-d", "-p", "3", "-a", path.to_str().unwrap()]);
        assert!(outcome.status == 1 && outcome.errors.contains(part), "{to}: {outcome:?}");
        assert!(outcome.errors.contains("servers.training: "), "{outcome:?}");
        assert_eq!(names(&setting.pipe), Vec::<String>::new(), "nothing is left");
    }
    // What is there already is not taken away by a mistake.
    drop(start_with(&setting, CONFIGURATION));
    let directory = inode(&setting.pipe.join("training/batch"));
    std::fs::write(&path, CONFIGURATION.replacen("chunks = 2", "chunks = 99", 1)).unwrap();
    assert_eq!(setting.control(&["-d", "-p", "3", "-a", path.to_str().unwrap()]).status, 1);
    assert_eq!(inode(&setting.pipe.join("training/batch")), directory);
    let _daemon = start_with(&setting, CONFIGURATION);
    assert_eq!(setting.command("sm-partition list --format=csv,noheader").0.lines().count(), 1);
}

fn start_up_settings_that_do_not_hold_fail_or_are_said() {
    let setting = Setting::new();
    let outcome = setting.control(&["-d", "--cpus", "1000"]);
    assert_eq!(outcome.status, 1, "{outcome:?}");
    assert_eq!(
        outcome.errors.lines().next(),
        Some("--cpus: this daemon has none of the CPUs 1000"),
        "{outcome:?}"
    );
    for (name, value, part) in [
        ("OPENMPS_CLASS_RULES", "usr:ann batch", "OPENMPS_CLASS_RULES is not used: "),
        ("OPENMPS_SCHEDULING", "preset=foo", "OPENMPS_SCHEDULING is not used: "),
        ("OPENMPS_COUNTERS", "all", "OPENMPS_COUNTERS is not used: "),
        ("OPENMPS_CPUS", "1000", "OPENMPS_CPUS: this daemon has none of the CPUs 1000"),
        ("OPENMPS_LAUNCH_BATCHING", "often", "OPENMPS_LAUNCH_BATCHING=often counts as not given "),
        ("OPENMPS_SOFT_TIER", "7", "OPENMPS_SOFT_TIER=7 counts as not given "),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "150", "is not taken: "),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=9", "is not taken: "),
    ] {
        let setting = Setting::new();
        let output = setting.program(CONTROL).arg("-d").env(name, value).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let _daemon = Daemon { pid: setting.daemon_pid() };
        assert!(output.status.success() && errors.contains(part), "{name}: {errors}");
        assert!(errors.starts_with("nvidia-cuda-mps-control: "), "{errors}");
        assert!(report(&setting).warnings.iter().any(|warning| warning.contains(part)), "{name}");
    }
}

fn static_partitions_outlive_a_killed_daemon() {
    let mut setting = Setting::with_behaviour("serves on");
    let start = |setting: &Setting| {
        assert_eq!(setting.control(&["-d", "-S"]).status, 0);
        Daemon { pid: setting.daemon_pid() }
    };
    let first = start(&setting);
    let id = setting.command("sm_partition add 0 4").0.trim().to_owned();
    let id: &'static str = id.leak();
    setting.client_environment = vec![("CUDA_MPS_SM_PARTITION", id)];
    let client = setting.client(None).unwrap();
    kill(first.pid);
    let daemon = start(&setting);
    let next = setting.client(None).unwrap();
    assert_eq!(next.server, client.server);
    drop(next);
    let (text, status) = setting.command(&format!("sm_partition rm 0 {id}"));
    assert!(status == 1 && text.contains("in use"), "{text}");
    // Nor does the next version of the daemon lose them.
    assert_eq!(setting.command("upgrade").1, 0);
    wait_until("another daemon has taken the place", || {
        setting.control_log().contains("has taken the place of version")
    });
    assert_eq!(setting.daemon_pid(), daemon.pid);
    let again = setting.client(None).unwrap();
    drop((client, again));
    let removed = || setting.command(&format!("sm_partition rm 0 {id}")).1 == 0;
    wait_until("it is not in use", removed);
}

fn files_that_were_removed_are_made_anew() {
    for way in WAYS {
        let mut setting = Setting::new();
        let daemon = way.start_first(&setting);
        let there = way.client(&mut setting);
        for file in ["control", "control_privileged", "nvidia-cuda-mps-control.pid"] {
            std::fs::remove_file(setting.pipe.join(file)).unwrap();
            wait_until("it is made anew", || setting.pipe.join(file).exists());
            let line = format!("{file} was removed or replaced: it is made anew");
            wait_until("the log says so", || {
                file.contains("pid") || setting.control_log().contains(&line)
            });
        }
        assert_eq!(way.client(&mut setting).server, there.server, "{way:?}");
        // The whole directory, as a service manager removes it.
        std::fs::remove_dir_all(&setting.pipe).unwrap();
        wait_until("it is made anew", || way.directory(&setting).join("control").exists());
        wait_until("all of it is", || setting.pipe.join("nvidia-cuda-mps-control.pid").exists());
        assert_eq!(setting.daemon_pid(), daemon.pid);
        assert_eq!(way.client(&mut setting).server, there.server, "{way:?}");
        let again = setting.control(&["-d"]);
        assert!(again.errors.contains("already running"), "it has the lock: {again:?}");
        drop(there);
        assert_eq!(setting.command("quit"), (String::new(), 0));
    }
}

fn a_daemon_whose_directory_is_another_s_leaves_it_alone() {
    for way in WAYS {
        let mut setting = Setting::new();
        let first = way.start_first(&setting);
        let there = way.client(&mut setting);
        // It is not to make it anew before the second one is there.
        signal(first.pid, Signal::STOP);
        std::fs::remove_dir_all(&setting.pipe).unwrap();
        let second = way.start_first(&setting);
        let client = way.client(&mut setting);
        signal(first.pid, Signal::CONT);
        wait_until("it says so", || {
            setting.control_log().contains("is another daemon's by now: this one ends")
        });
        assert!(is_daemon(first.pid), "its program is there");
        drop(there);
        wait_until("it ends with its last program", || !is_daemon(first.pid));
        assert_eq!(setting.daemon_pid(), second.pid, "{way:?}");
        assert_eq!(way.client(&mut setting).server, client.server, "{way:?}");
        drop(client);
        // One that is ended by a signal in the same case leaves the files too.
        signal(second.pid, Signal::STOP);
        std::fs::remove_dir_all(&setting.pipe).unwrap();
        let third = way.start_first(&setting);
        signal(second.pid, Signal::TERM);
        signal(second.pid, Signal::CONT);
        wait_until("it has ended", || !is_daemon(second.pid));
        assert_eq!(setting.daemon_pid(), third.pid, "{way:?}");
        drop(way.client(&mut setting));
    }
}
