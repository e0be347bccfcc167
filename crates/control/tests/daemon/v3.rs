//! Protocol 3: named servers, namespaces by directory, partitions, the configuration file.

use crate::harness::{ClientProcess, Daemon, NOBODY, Outcome, Setting, is_root, names, wait_until};
use crate::stand_in::CONTROL;
use control::report::Report;
use std::path::Path;

crate::tests! {
    the_protocol_is_an_option_and_the_variable_goes_before_it,
    servers_are_made_listed_changed_and_deleted,
    a_directory_chooses_server_and_namespace,
    clients_are_listed_asked_about_and_terminated,
    partitions_are_a_server_s,
    features_are_described,
    a_cgroup_s_client_gets_what_another_has_beyond_its_limit,
    bad_commands_are_refused_and_change_nothing,
    every_command_of_protocol_3_refuses_what_it_does_not_know,
    a_configuration_is_applied_at_the_start,
    a_configuration_that_is_wrong_starts_nothing,
    users_have_servers_of_their_own_by_name,
    what_a_killed_daemon_left_is_taken_over,
}

const UUID: &str = "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d";

fn start(setting: &Setting, options: &[&str]) -> Daemon {
    let outcome = setting.control(&[&["-d", "-p", "3"], options].concat());
    assert_eq!((outcome.output.as_str(), outcome.status), ("", 0), "{}", outcome.errors);
    Daemon { pid: setting.daemon_pid() }
}

fn ok(text: impl Into<String>) -> (String, i32) {
    (text.into(), 0)
}

/// A client that finds its daemon in a directory below the pipe directory.
fn client_in(
    setting: &mut Setting,
    below: &str,
    uid: Option<u32>,
) -> Result<ClientProcess, String> {
    let pipe = setting.pipe.clone();
    setting.pipe = pipe.join(below);
    let client = setting.client(uid);
    setting.pipe = pipe;
    client
}

fn report(setting: &Setting) -> Report {
    serde_json::from_str(&setting.command("report").0).expect("a report")
}

/// The rows of a list, without its header.
fn rows(setting: &Setting, command: &str) -> Vec<String> {
    let (text, status) = setting.command(&format!("{command} --format=csv,noheader"));
    assert_eq!(status, 0, "{command}: {text}");
    text.lines().map(str::to_owned).collect()
}

fn the_protocol_is_an_option_and_the_variable_goes_before_it() {
    for (option, variable, protocol) in
        [("2", None, 2), ("3", None, 3), ("2", Some("3"), 3), ("3", Some("2"), 2)]
    {
        let setting = Setting::new();
        let mut command = setting.program(CONTROL);
        command.args(["-d", "-p", option]);
        if let Some(variable) = variable {
            command.env("CUDA_MPS_PROTOCOL_VERSION", variable);
        }
        assert!(command.output().unwrap().status.success());
        let _daemon = Daemon { pid: setting.daemon_pid() };
        assert_eq!(report(&setting).protocol, protocol, "-p {option}, {variable:?}");
        // Commands follow the daemon, regardless of what they are given.
        let listed = setting.control(&["-p", "2", "server", "list"]).output;
        let quit = setting.control(&["-q"]);
        match protocol {
            3 => {
                let header =
                    "name  uid  pid  status  pipe-directory  allowed-devices  context-ids\n";
                assert_eq!((listed.as_str(), quit.status), (header, 0));
                assert_eq!(setting.control(&["ps"]).status, 1, "it has ended");
            }
            _ => {
                assert!(listed.starts_with("Unknown command \"server list\"\n"), "{listed}");
                assert!(listed.contains("-p 3") && quit.errors.contains("device_query"));
                assert_eq!((quit.status, setting.control(&["--quit"]).status), (1, 0));
            }
        }
    }
    let setting = Setting::new();
    let mut command = setting.program(CONTROL);
    let output = command.arg("-d").env("CUDA_MPS_PROTOCOL_VERSION", "4").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("neither 2 nor 3"), "{errors}");
    assert_eq!(setting.control(&["-d", "-p", "3", "-S"]).status, 1);
}

fn servers_are_made_listed_changed_and_deleted() {
    let mut setting = Setting::new();
    let _daemon = start(&setting, &[]);
    let uid = rustix::process::geteuid().as_raw();
    let made = setting.command("server create training --allowed-devices=0");
    assert_eq!(made, ok("Server 'training' created\n"));
    let pid = setting.command("server get training pid").0.trim().to_owned();
    let directory = setting.pipe.join("training");
    let row = format!("training,{uid},{pid},Ready,{},0,-", directory.display());
    assert_eq!(rows(&setting, "server list"), std::slice::from_ref(&row));
    assert_eq!(
        setting.command("server list training --format=csv").0,
        format!("name,uid,pid,status,pipe-directory,allowed-devices,context-ids\n{row}\n")
    );
    assert_eq!(names(&directory), ["control", "default", "log"]);
    assert_eq!(setting.command("get_server_list"), ok(format!("{pid}\n")), "protocol 2's too");
    let log = setting.logs().join("training/server.log");
    wait_until("its log", || std::fs::read_to_string(&log).is_ok_and(|t| t.contains("Startup")));

    let client = client_in(&mut setting, "training", None).unwrap();
    assert_eq!(client.server.to_string(), pid);
    let set = "server set training --active-thread-percentage=50 pinned-memory-limit=4G";
    assert_eq!(setting.command(set), ok(""));
    let second = client_in(&mut setting, "training/default", None).unwrap();
    let limits = |client: &ClientProcess| {
        let report = report(&setting);
        let rows = report.servers.into_iter().flat_map(|server| server.clients);
        rows.into_iter().find(|row| row.pid == Some(client.pid())).unwrap().limits
    };
    assert_eq!((limits(&client).sms, limits(&second).sms), (132, 66), "clients to come");
    assert_eq!(limits(&second).memory_bytes, Some(4 << 30));

    let (refused, status) = setting.command("server delete training");
    assert!(status == 1 && refused.contains("has 2 active clients"), "{refused}");
    assert_eq!(
        setting.command("server delete training --force"),
        ok("Server 'training' deleted\n")
    );
    assert_eq!(rows(&setting, "server list"), Vec::<String>::new());
    assert!(!directory.exists());
    assert_eq!(setting.command("server list training").1, 1);
}

fn a_directory_chooses_server_and_namespace() {
    let mut setting = Setting::new();
    let _daemon = start(&setting, &[]);
    let uid = rustix::process::geteuid().as_raw();
    setting.command("server create training");
    let made = setting.command("namespace create batch --server=training");
    assert_eq!(made, ok("Namespace 'batch' created on server 'training'\n"));
    let set = "namespace set batch --server=training --active-thread-percentage=25 \
               --pinned-memory-limit=2G --client-priority=1";
    assert_eq!(setting.command(&set.split_whitespace().collect::<Vec<_>>().join(" ")), ok(""));
    let directory = setting.pipe.join("training");
    assert_eq!(
        rows(&setting, "namespace list --server=training"),
        [
            format!("batch,training,Ready,2G,25.0,1,{}", directory.join("batch").display()),
            format!("default,training,Ready,-,-,-,{}", directory.join("default").display()),
        ]
    );
    assert_eq!(setting.command("namespace get batch training client-priority"), ok("1\n"));
    // A share of the namespace goes before the program's own.
    setting.client_environment = vec![("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")];
    let batch = client_in(&mut setting, "training/batch", None).unwrap();
    // A name that there is not is no place for another daemon.
    let pipe = setting.pipe.clone();
    for below in ["training/bach", "trainng"] {
        setting.pipe = pipe.join(below);
        let outcome = setting.control(&["-d"]);
        assert_ne!(outcome.status, 0);
        assert!(
            outcome.errors.contains("is in the pipe directory of the daemon in"),
            "{outcome:?}"
        );
        assert!(!setting.pipe.exists(), "nothing is made");
    }
    setting.pipe = pipe;
    let own = client_in(&mut setting, "training", None).unwrap();
    let automatic = setting.client(None).unwrap();
    assert_eq!(batch.server, own.server);
    assert_ne!(automatic.server, own.server);
    let report = report(&setting);
    let of = |client: &ClientProcess| {
        let server = report.servers.iter().find(|server| server.pid == client.server).unwrap();
        let row = server.clients.iter().find(|row| row.pid == Some(client.pid())).unwrap();
        let namespace = row.mps_namespace.clone().unwrap();
        (server.name.clone().unwrap(), namespace, row.limits.sms, row.limits.priority)
    };
    assert_eq!(of(&batch), ("training".into(), "batch".into(), 32, 1));
    assert_eq!(of(&own), ("training".into(), "default".into(), 12, 0));
    assert_eq!(of(&automatic), (format!("uid_{uid}"), "default".into(), 12, 0));
    // By the directory of a server commands reach the daemon too, as those of any user.
    let pipe = std::mem::replace(&mut setting.pipe, directory);
    assert_eq!(setting.command("server delete training").1, 1);
    assert_eq!(rows(&setting, "server list").len(), 2);
    setting.pipe = pipe;

    let (refused, status) = setting.command("namespace delete batch --server=training");
    assert!(status == 1 && refused.contains("1 active clients"), "{refused}");
    let deleted = setting.command("namespace delete batch --server=training --force");
    assert_eq!(deleted, ok("Namespace 'batch' deleted from server 'training'\n"));
    let log = std::fs::read_to_string(setting.logs().join("training/server.log")).unwrap();
    assert_eq!(log.matches("terminate ").count(), 1, "{log}");
    assert!(!setting.pipe.join("training/batch").exists());
}

fn clients_are_listed_asked_about_and_terminated() {
    let mut setting = Setting::new();
    setting.devices = 2;
    let _daemon = start(&setting, &[]);
    setting.command("server create training --allowed-devices=1");
    let client = client_in(&mut setting, "training", None).unwrap();
    let pid = client.pid();
    assert_eq!(rows(&setting, "client list"), [format!("{pid},training,1,default,/tmp/hold")]);
    assert_eq!(rows(&setting, "client list --server=training --all").len(), 1);
    let get = |field: &str| setting.command(&format!("client get {pid} {field}"));
    assert_eq!(get("server"), ok("training\n"));
    assert_eq!((get("device"), get("pci-id")), (ok("1\n"), ok("0000:00.07.00\n")));
    assert_eq!((get("maws-ns"), get("cmd")), (ok("default\n"), ok("/tmp/hold\n")));
    let inode = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let inode = inode.to_string_lossy().replace("pid:[", "").replace(']', "");
    assert_eq!(get("linux-ns"), ok(format!("{inode}\n")));
    assert_eq!(get("colour").1, 1);
    // Clients of a server number the devices that they see.
    assert_eq!(
        rows(&setting, "device list --server=training"),
        [format!("0,training,0000:00.07.00,{},NVIDIA H200,132,16,N/A", UUID.replace("2d", "2e"))]
    );
    assert_eq!(rows(&setting, "device list").len(), 3);
    let devices = crate::stand_in::describe_to_client(&setting.pipe.join("training")).unwrap();
    assert_eq!(devices.devices.len(), 1);
    let first = crate::stand_in::uuid(0);
    let refused = crate::stand_in::attach_to(&setting.pipe.join("training"), first).err().unwrap();
    assert_eq!(refused.result, 101, "{}", refused.reason);
    let ended = setting.command(&format!("client terminate {pid}"));
    assert_eq!(ended, ok(format!("Client {pid} terminated\n")));
    assert_eq!(setting.command("client terminate 1").1, 1);
}

fn partitions_are_a_server_s() {
    let mut setting = Setting::new();
    let _daemon = start(&setting, &[]);
    setting.command("server create training");
    let create = "sm-partition create large --server=training --device=0 --chunks=4";
    let (text, status) = setting.command(&format!("{create} --include-remainder=true"));
    assert_eq!(status, 0, "{text}");
    let (first, id) = text.trim_end().split_once('\n').unwrap();
    assert_eq!(first, format!("SM partition 'large' created on device {UUID} (sm-count=36)"));
    let id = id.strip_prefix("CUDA_MPS_SM_PARTITION=").unwrap();
    assert_eq!(
        rows(&setting, "sm-partition list --all"),
        [
            format!("training,{UUID},large,4,36,true,created,{id}"),
            format!("-,{UUID},-,12,96,-,unallocated,-"),
        ]
    );
    let refused = client_in(&mut setting, "training", None).err().unwrap();
    assert!(refused.starts_with("refused 915"), "{refused}");
    assert!(setting.client(None).is_ok(), "another server's clients need none");
    wait_until("it is gone", || rows(&setting, "client list").is_empty());
    setting.client_environment =
        vec![("CUDA_MPS_SM_PARTITION", Box::leak(id.to_owned().into_boxed_str()))];
    let client = client_in(&mut setting, "training", None).unwrap();
    let (busy, status) = setting.command(&create.replace("large", "small"));
    assert!(status == 1 && busy.contains("active clients"), "{busy}");
    let delete = "sm-partition delete large --server=training --device=GPU-d0a1";
    assert_eq!(setting.command(delete).1, 1, "in use");
    drop(client);
    let deleted = format!("SM partition 'large' deleted from device {UUID}\n");
    wait_until("it is not in use", || setting.command(delete) == ok(deleted.clone()));
    assert_eq!(rows(&setting, "sm-partition list"), Vec::<String>::new());
}

fn features_are_described() {
    let setting = Setting::new();
    let _daemon = start(&setting, &[]);
    assert_eq!(
        rows(&setting, "feature describe"),
        [
            "memacct,disabled (default),memacct,limits and eviction of cgroups' memory",
            "context-share,enabled (default),server,clients of a server share its context",
        ]
    );
    assert_eq!(setting.command("feature enable memacct"), ok("Feature 'memacct' enabled\n"));
    assert!(rows(&setting, "feature describe memacct")[0].starts_with("memacct,enabled,"));
    assert_eq!(setting.command("memacct set audit_log=true"), ok(""));
    assert_eq!(rows(&setting, "memacct describe"), ["state,enabled", "audit_log,true"]);
    let (text, status) = setting.command("feature disable context-share");
    assert!(status == 1 && text.contains("one context for all"), "{text}");
    assert_eq!(setting.command("help").1, 0);
    assert!(setting.command("server help").0.contains("server create <name>"));
    assert!(setting.command("server create help").0.contains("--allowed-devices"));
}

fn a_cgroup_s_client_gets_what_another_has_beyond_its_limit() {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        crate::skip("there are no cgroups of version 2")
    };
    let setting = Setting::new();
    let _daemon = start(&setting, &[]);
    let limit = format!("memacct limit {own} --soft-limit=1G --hard-limit=2G");
    let (text, status) = setting.command(&limit);
    assert!(status == 0 && text.contains("feature enable memacct"), "{text}");
    let first = setting.client(None).unwrap();
    let memory = |client: &ClientProcess| {
        let report = report(&setting);
        let rows = report.servers.into_iter().flat_map(|server| server.clients);
        rows.into_iter().find(|row| row.pid == Some(client.pid())).unwrap().limits.memory_bytes
    };
    assert_eq!(memory(&first), None, "nothing is accounted for yet");
    assert_eq!(setting.command("feature enable memacct").1, 0);
    assert_eq!(setting.command("memacct set audit_log=true").1, 0);
    // The second one is of the cgroup. The stand-in asks for room: of the first one, of which no cgroup
    // was noted.
    let second = setting.client(None).unwrap();
    let terminated =
        || setting.server_log_of(&format!("uid_{}", rustix::process::geteuid().as_raw()));
    wait_until("the first one is ended", || terminated().contains("terminate 1\n"));
    wait_until("it is in the log", || {
        let line =
            format!("for client {} of server {} in cgroup {own}", second.pid(), second.server);
        setting.control_log().contains(&line)
    });
    drop(first);
    wait_until("it is gone", || rows(&setting, "client list").len() == 1);
    let list = || rows(&setting, "memacct list");
    wait_until("what it holds is reported", || list() == [format!("{own},-,1G,2G,1M")]);
    // A third one finds none but those of its own cgroup.
    let third = setting.client(None).unwrap();
    wait_until("that is in the log", || {
        setting.control_log().contains("no other program is beyond a soft limit")
    });
    assert!(!terminated().contains("terminate 2\n") && !terminated().contains("terminate 3\n"));
    drop((second, third));
    assert_eq!(setting.command(&format!("memacct limit {own}")), ok(""));
    assert_eq!(list(), Vec::<String>::new());
    // Bytes, as lists print and NVML sets them; the report for every user has them.
    assert_eq!(setting.command("memacct limit /a --soft-limit=1000B --hard-limit=3K"), ok(""));
    assert_eq!(list(), ["/a,-,1000B,3K,-"]);
    let limits = report(&setting).cgroup_limits;
    assert_eq!((limits[0].soft_bytes, limits[0].hard_bytes), (1000, Some(3072)));
    assert_eq!(setting.command("memacct limit /a"), ok(""));
    for (line, part) in [
        ("memacct limit a --soft-limit=1G", "is no cgroup's path"),
        ("memacct limit /a --soft-limit=1", "with K, M or G"),
        ("memacct limit /a --soft-limit=-1B", "with K, M or G"),
        ("memacct limit /a --soft-limit=2G --hard-limit=1G", "beyond the hard one"),
        ("memacct limit /a --device=x --soft-limit=1G", "a device: its number"),
    ] {
        let (text, status) = setting.command(line);
        assert!(status == 1 && text.contains(part), "{line}: {text}");
    }
}

fn bad_commands_are_refused_and_change_nothing() {
    let setting = Setting::new();
    let _daemon = start(&setting, &[]);
    setting.command("server create training");
    let before = (rows(&setting, "server list"), rows(&setting, "namespace list"));
    for (line, part) in [
        ("server", "server create <name>"),
        ("server make x", "Unknown verb \"make\" of server: it has create"),
        ("server create", "usage: server create <name>"),
        ("server create a b", "2 words were given"),
        ("server create A", "is no name"),
        ("server create training", "Server 'training' exists already"),
        ("server create x --colour=red", "\"colour\" is no option of this command"),
        ("server create x --force", "\"--force\" is no flag of this command"),
        ("server create x --uid=", "lacks its value"),
        ("server create x --uid=me", "--uid is a user's number"),
        ("server create x --uid=4000000", "4000000"),
        ("server create x --allowed-devices=7", "there is no device \"7\""),
        ("server create x --allowed-devices=y", "a device: its number"),
        ("server create x --locality-domains=true", "locality domains are not supported"),
        ("server set training", "nothing to set"),
        ("server set training --active-thread-percentage=0", "at most 100"),
        ("server set training --client-priority=2", "0 (normal) or 1"),
        ("server set training --pinned-memory-limit=1", "with K, M or G"),
        ("server set training --uid=0", "whose user cannot change"),
        ("server set x --client-priority=1", "Server 'x' not found"),
        ("server get training colour", "is no field of it: there are name, uid"),
        ("server delete x", "Server 'x' not found"),
        ("server list --format=json", "is no format"),
        ("namespace create a", "--server=... is wanted"),
        ("namespace create default --server=training", "exists already"),
        ("namespace delete default --server=training", "every server's own"),
        ("namespace delete x --server=training", "Namespace 'x' not found"),
        ("namespace set x --server=training --client-priority=1", "Namespace 'x' not found"),
        ("sm-partition create p --server=training --device=0 --chunks=0", "above 0"),
        (
            "sm-partition create p --server=training --device=0 --chunks=99",
            "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
        ),
        ("sm-partition create p --server=training --device=9 --chunks=1", "there is no device"),
        ("sm-partition delete p --server=training --device=0", "SM partition 'p' not found"),
        ("feature enable x", "there are memacct and context-share"),
        ("memacct set audit_log=perhaps", "true or false"),
        ("client get 1 cmd", "Client 1 not found"),
        ("bogus", "Unknown command \"bogus\""),
    ] {
        let (text, status) = setting.command(line);
        assert!(
            text.contains(part) && (status == 1 || line == "server"),
            "{line}: {status} {text}"
        );
    }
    assert_eq!((rows(&setting, "server list"), rows(&setting, "namespace list")), before);
}

/// No verb takes options, flags or words that it does not know.
fn every_command_of_protocol_3_refuses_what_it_does_not_know() {
    let setting = Setting::new();
    let _daemon = start(&setting, &[]);
    setting.command("server create training");
    let before = (rows(&setting, "server list"), rows(&setting, "namespace list"));
    let help = setting.command("help").0;
    // A verb's line has two blanks in front and no hyphen in its second word.
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let verbs: Vec<String> = lines
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(format!("{} {}", words.next()?, words.next()?))
        })
        .filter(|verb| {
            let module = verb.split(' ').next().unwrap_or_default();
            ["server", "namespace", "client", "device", "sm-partition", "feature", "memacct"]
                .contains(&module)
        })
        .collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        for words in ["--colour=red", "colour=red", "--loudly", "a b c d e", "--format="] {
            let (text, status) = setting.command(&format!("{verb} {words}"));
            assert!(status == 1 && text.contains("usage: "), "{verb} {words}: {status} {text}");
        }
    }
    assert_eq!((rows(&setting, "server list"), rows(&setting, "namespace list")), before);
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.display().to_string()
}

const CONFIGURATION: &str = r#"schema_version = "1.0"

[servers.training]
allowed_devices = "0"
active_thread_percentage = "50"

[servers.training.namespaces.batch]
active_thread_percentage = "25"

[[servers.training.devices]]
uuid = "GPU-d0a1cf3e"
  [[servers.training.devices.sm_partitions]]
  name = "large"
  chunks = 2

[servers.other]

[features.memacct]
enabled = true
"#;

fn a_configuration_is_applied_at_the_start() {
    let mut setting = Setting::new();
    let file = write(&setting.scratch.0.join("mps.toml"), CONFIGURATION);
    let _daemon = start(&setting, &["-a", &file]);
    wait_until("the servers are ready", || {
        rows(&setting, "server list").iter().filter(|row| row.contains(",Ready,")).count() == 2
    });
    let batch = &rows(&setting, "namespace list batch")[0];
    assert!(batch.starts_with("batch,training,Ready,-,25.0,-,"), "{batch}");
    let partition = &rows(&setting, "sm-partition list")[0];
    assert!(partition.starts_with(&format!("training,{UUID},large,2,16,false,created,")));
    assert!(rows(&setting, "feature describe memacct")[0].contains(",enabled,"));
    assert!(client_in(&mut setting, "training", None).is_err_and(|e| e.starts_with("refused 915")));
    assert!(client_in(&mut setting, "other", None).is_ok());
}

fn a_configuration_that_is_wrong_starts_nothing() {
    let setting = Setting::new();
    let file = setting.scratch.0.join("mps.toml");
    for (from, to, part) in [
        ("allowed_devices", "devices_allowed", "line 4: unknown field `devices_allowed`"),
        ("\"25\"", "\"125\"", "line 8: active-thread-percentage: "),
        ("servers.other", "servers.log", "servers.log: \"log\" is the name of a file"),
        ("[servers.other]", "[servers.other]\nuid = 4000000", "servers.other: "),
    ] {
        let path = write(&file, &CONFIGURATION.replace(from, to));
        let outcome = setting.control(&["-d", "-p", "3", "-a", &path]);
        assert!(outcome.status == 1 && outcome.errors.contains(part), "{to}: {}", outcome.errors);
    }
    let missing = setting.control(&["-d", "-p", "3", "-a", "/no/such/file"]);
    assert!(missing.status == 1 && missing.errors.contains("/no/such/file"), "{}", missing.errors);
    let Outcome { status, errors, .. } = setting.control(&["-d", "-a", "x"]);
    assert!(status == 1 && errors.contains("--apply is not for protocol 2"), "{errors}");
    assert_eq!(names(&setting.pipe), Vec::<String>::new());
}

fn users_have_servers_of_their_own_by_name() {
    if !is_root() {
        crate::skip("only root can be several users");
    }
    let mut setting = Setting::new();
    let _daemon = start(&setting, &[]);
    setting.command("server create mine");
    assert_eq!(setting.command(&format!("server create theirs --uid={NOBODY}")).1, 0);
    let refused = client_in(&mut setting, "mine", Some(NOBODY)).err().unwrap();
    assert!(refused.starts_with("refused 805 server 'mine' is root's"), "{refused}");
    let theirs = client_in(&mut setting, "theirs", Some(NOBODY)).unwrap();
    let automatic = setting.client(Some(NOBODY)).unwrap();
    assert_ne!(theirs.server, automatic.server);
    setting.uid = Some(NOBODY);
    let seen: Vec<String> = rows(&setting, "server list")
        .iter()
        .map(|row| row.split(',').next().unwrap().to_owned())
        .collect();
    assert_eq!(seen, ["theirs".to_owned(), format!("uid_{NOBODY}")]);
    let (text, status) = setting.command("server delete mine --force");
    assert!(status == 1 && text.contains("is only for root"), "{text}");
    setting.uid = None;
}

fn what_a_killed_daemon_left_is_taken_over() {
    let setting = Setting::new();
    let daemon = start(&setting, &[]);
    setting.command("server create training");
    crate::harness::kill(daemon.pid);
    assert!(setting.pipe.join("training/default/control").exists());
    std::fs::write(setting.pipe.join("training/notes"), "precious").unwrap();
    let _daemon = start(&setting, &[]);
    assert_eq!(names(&setting.pipe.join("training")), ["control", "default", "log", "notes"]);
    assert_eq!(setting.command("server create training").1, 1, "it is there");
    assert_eq!(setting.command("server delete training").1, 0);
    assert_eq!(names(&setting.pipe.join("training")), ["notes"]);
}
