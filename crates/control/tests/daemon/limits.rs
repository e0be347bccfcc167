//! Limits: commands and variables that limit clients, against what NVIDIA's shell prints.

use crate::harness::{ClientProcess, Daemon, NOBODY, Setting, is_root, wait_until};
use crate::stand_in::CONTROL;
use control::report::{LimitsReport, Report};

crate::tests! {
    each_command_prints_what_nvidias_does,
    bad_values_are_refused_and_change_nothing,
    every_command_refuses_what_it_does_not_know,
    defaults_are_for_servers_to_come,
    variables_of_daemon_and_program,
    a_program_that_runs_is_given_other_limits,
    a_server_that_starts_learns_what_was_set_meanwhile,
    static_partitions_are_made_named_and_removed,
    shares_follow_the_number_of_programs,
    users_who_are_not_allowed_stay_out,
    one_server_serves_all_users,
    one_user_s_servers_at_a_time,
}

fn ok(text: impl Into<String>) -> (String, i32) {
    (text.into(), 0)
}

fn report(setting: &Setting) -> Report {
    serde_json::from_str(&setting.command("report").0).expect("a report")
}

fn limits(setting: &Setting, client: &ClientProcess) -> LimitsReport {
    let report = report(setting);
    let mut clients = report.servers.iter().flat_map(|server| &server.clients);
    clients.find(|row| row.pid == Some(client.pid())).expect("the client").limits.clone()
}

fn each_command_prints_what_nvidias_does() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let server = client.server;
    for (line, text) in [
        ("get_default_active_thread_percentage", "100.0\n"),
        ("set_default_active_thread_percentage 40", "40.0\n"),
        ("get_default_active_thread_percentage", "40.0\n"),
        ("set_active_thread_percentage SERVER 55.5", "55.5\n"),
        ("get_active_thread_percentage SERVER", "55.5\n"),
        ("get_default_active_thread_percentage", "40.0\n"),
        ("set_default_device_pinned_mem_limit 0 1G", ""),
        ("get_default_device_pinned_mem_limit 0", "1G\n"),
        ("get_default_device_pinned_mem_limit 1", ""),
        ("set_default_device_pinned_mem_limit GPU-d0a1cf3e 20350M", ""),
        ("get_default_device_pinned_mem_limit GPU-d0a1cf3e", "20350M\n"),
        ("get_default_device_pinned_mem_limit 0", "1G\n"),
        ("get_device_pinned_mem_limit SERVER 0", ""),
        ("set_device_pinned_mem_limit SERVER 0 2G", ""),
        ("get_device_pinned_mem_limit SERVER 0", "2G\n"),
        ("get_default_client_priority", "0\n"),
        ("set_default_client_priority 1", ""),
        ("get_default_client_priority", "1\n"),
    ] {
        let line = line.replace("SERVER", &server.to_string());
        assert_eq!(setting.command(&line), ok(text), "{line}");
    }
}

fn bad_values_are_refused_and_change_nothing() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let server = client.server;
    let before = (report(&setting), limits(&setting, &client));
    for (line, part) in [
        ("set_default_active_thread_percentage 150", "more than 0 and at most 100\n100.0\n"),
        ("set_default_active_thread_percentage 0", "more than 0 and at most 100\n100.0\n"),
        ("set_default_active_thread_percentage abc", "more than 0 and at most 100\n100.0\n"),
        ("set_default_active_thread_percentage", "usage: "),
        ("set_active_thread_percentage 1 50", "Server 1 not found\n"),
        ("set_active_thread_percentage SERVER -5", "more than 0 and at most 100\n100.0\n"),
        ("set_default_device_pinned_mem_limit 0 xyz", "with K, M or G"),
        ("set_default_device_pinned_mem_limit 9 1G", "names none of the 1 devices"),
        ("set_device_pinned_mem_limit SERVER GPU-ffff 1G", "names none of the 1 devices"),
        ("set_default_device_pinned_mem_limit 0 1", "with K, M or G"),
        ("set_default_device_pinned_mem_limit gpu0 1G", "its number, or its UUID"),
        ("set_default_device_pinned_mem_limit 0", "usage: "),
        ("set_device_pinned_mem_limit 1 0 1G", "Server 1 not found\n"),
        ("set_device_pinned_mem_limit SERVER 0 0G", "above 0"),
        ("get_device_pinned_mem_limit 1 0", "Server 1 not found\n"),
        ("set_default_client_priority 7", "Invalid priority value - must be 0 or 1!\n"),
        ("set CLIENT", "usage: set"),
        ("set CLIENT memory=1", "with K, M or G"),
        ("set CLIENT sms=0", "above 0"),
        ("set CLIENT sms=133", "the device has 132 SMs"),
        ("set CLIENT priority=2", "0 (normal) or 1 (below normal)"),
        ("set CLIENT colour=red", "cannot be set"),
        ("set 1 sms=5", "Invalid process 1!"),
        ("set CLIENT sms=5 server=1", "Server 1 not found"),
    ] {
        let line = line.replace("SERVER", &server.to_string());
        let line = line.replace("CLIENT", &client.pid().to_string());
        let (text, status) = setting.command(&line);
        assert!(status == 1 && text.contains(part), "{line}: {status} {text}");
    }
    assert_eq!((report(&setting), limits(&setting, &client)), before);
    assert_eq!(setting.command("get_default_active_thread_percentage"), ok("100.0\n"));
    assert_eq!(setting.command("get_default_device_pinned_mem_limit 0"), ok(""));
}

/// No command takes words that it does not know, and none of them changes anything.
fn every_command_refuses_what_it_does_not_know() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let before = (report(&setting), limits(&setting, &client));
    let scheduling = setting.command("schedule");
    // A user that asks for help gets it.
    for command in control::command::COMMANDS.iter().filter(|command| command.name != "help") {
        let name = command.name;
        for words in ["such nonsense as this is", "-x", "--help=1", "4294967296", "-1 0 ;"] {
            let (text, status) = setting.command(&format!("{name} {words}"));
            assert!(status == 1 && text.len() > 5, "{name} {words}: {status} {text}");
        }
        // Arguments in angle brackets that no square ones are around are wanted.
        let wanted = command.arguments.starts_with('<') || command.arguments.starts_with("-uid");
        if wanted && name != "get_server_status" && name != "get_client_list" {
            let (text, status) = setting.command(name);
            assert!(status == 1 && text.len() > 5, "{name}: {status} {text}");
        }
    }
    assert_eq!((report(&setting), limits(&setting, &client)), before);
    assert_eq!(setting.command("schedule"), scheduling);
    assert_eq!(setting.command("get_default_active_thread_percentage"), ok("100.0\n"));
    assert_eq!(setting.command("get_default_client_priority"), ok("0\n"));
}

fn defaults_are_for_servers_to_come() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let first = setting.client(None).unwrap();
    setting.command("set_default_active_thread_percentage 25");
    setting.command("set_default_device_pinned_mem_limit 0 3G");
    let second = setting.client(None).unwrap();
    let given = limits(&setting, &second);
    assert_eq!((given.sms, given.sms_by.as_str(), given.memory_bytes), (132, "default", None));
    let server = first.server;
    setting.command(&format!("set_active_thread_percentage {server} 50"));
    setting.command(&format!("set_device_pinned_mem_limit {server} 0 5G"));
    let third = setting.client(None).unwrap();
    let given = limits(&setting, &third);
    assert_eq!((given.sms, given.sms_by.as_str()), (66, "server"));
    assert_eq!((given.memory_bytes, given.memory_by.as_str()), (Some(5 << 30), "server"));
    assert_eq!(limits(&setting, &first).sms, 132, "a client that is there stays as it is");
    drop((first, second, third));
    setting.command(&format!("shutdown_server {server} -f"));
    let other = setting.client(None).unwrap();
    assert_ne!(other.server, server);
    let given = limits(&setting, &other);
    assert_eq!((given.sms, given.sms_by.as_str()), (32, "daemon"));
    assert_eq!((given.memory_bytes, given.memory_by.as_str()), (Some(3 << 30), "daemon"));
}

fn variables_of_daemon_and_program() {
    let mut setting = Setting::new();
    let mut start = setting.program(CONTROL);
    start.arg("-d").env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
    start.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=2G,1=512MB");
    start.env("CUDA_MPS_CLIENT_PRIORITY", "5");
    assert!(start.output().unwrap().status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    assert_eq!(setting.command("get_default_active_thread_percentage"), ok("50.0\n"));
    assert_eq!(setting.command("get_default_device_pinned_mem_limit 1"), ok("512M\n"));
    let refused =
        "CUDA_MPS_CLIENT_PRIORITY is not taken: \"5\" is not 0 (normal) or 1 (below normal)";
    assert!(setting.control_log().contains(refused));
    assert!(report(&setting).warnings.iter().any(|warning| warning == refused));
    let given = |setting: &Setting| limits(setting, &setting.client(None).unwrap());
    let as_daemon = given(&setting);
    assert_eq!((as_daemon.sms, as_daemon.sms_by.as_str()), (66, "daemon"));
    setting.client_environment = vec![
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "GPU-d0a1=1G"),
        ("CUDA_MPS_CLIENT_PRIORITY", "1"),
    ];
    let less = given(&setting);
    assert_eq!((less.sms, less.sms_by.as_str()), (32, "program"));
    assert_eq!((less.memory_bytes, less.memory_by.as_str()), (Some(1 << 30), "program"));
    assert_eq!((less.priority, less.priority_by.as_str()), (1, "program"));
    setting.client_environment = vec![
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "75"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=9G"),
    ];
    let more = given(&setting);
    assert_eq!((more.sms, more.sms_by.as_str()), (66, "daemon"), "a program can only have less");
    assert_eq!((more.memory_bytes, more.memory_by.as_str()), (Some(2 << 30), "daemon"));
}

fn a_program_that_runs_is_given_other_limits() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    let line = format!("set {} memory=1G sms=30% priority=1", client.pid());
    assert_eq!(setting.command(&line), ok(""));
    let given = limits(&setting, &client);
    assert_eq!((given.memory_bytes, given.memory_by.as_str()), (Some(1 << 30), "set"));
    assert_eq!((given.sms, given.sms_by.as_str()), (38, "set"));
    assert_eq!((given.priority, given.priority_by.as_str()), (1, "set"));
    assert_eq!(setting.command(&format!("set id:1 memory=none server={}", client.server)), ok(""));
    assert_eq!(limits(&setting, &client).memory_bytes, None);
    let (said, status) = setting.command(&format!("set {} quota=5ms", client.pid()));
    assert!(said.contains("quota=5ms has no effect under policy=classes"), "{said}");
    assert_eq!((status, setting.command("schedule policy=classes+quota").1), (0, 0));
    assert_eq!(setting.command(&format!("set {} quota=5ms", client.pid())), ok(""));
}

fn a_server_that_starts_learns_what_was_set_meanwhile() {
    let setting = Setting::with_behaviour("slow");
    let _daemon = setting.start();
    std::thread::scope(|scope| {
        scope.spawn(|| setting.client(None).unwrap());
        let has_begun = || setting.server_log().contains("Startup");
        wait_until("a server is starting", has_begun);
        assert_eq!(setting.command("schedule policy=fair"), ok(""));
        assert_eq!(setting.command("counters off"), ok(""));
    });
    let logged = |text: &str| setting.server_log().contains(text);
    wait_until("it is notified", || logged("Scheduling: policy=fair") && logged("Counters: off"));
}

fn start_with(setting: &Setting, options: &[&str]) -> Daemon {
    let outcome = setting.control(&[&["-d"], options].concat());
    assert_eq!((outcome.output.as_str(), outcome.status), ("", 0), "{}", outcome.errors);
    Daemon { pid: setting.daemon_pid() }
}

fn static_partitions_are_made_named_and_removed() {
    let mut setting = Setting::new();
    let _daemon = start_with(&setting, &["-S"]);
    let refused = setting.client(None).err().expect("no client without a partition");
    assert!(
        refused.starts_with("refused 915") && refused.contains("sm_partition add"),
        "{refused}"
    );
    let (id, status) = setting.command("sm_partition add GPU-d0a1 4");
    assert!(status == 0 && id.starts_with("GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d/"), "{id}");
    let id: &'static str = Box::leak(id.trim().to_owned().into_boxed_str());
    let refused = setting.client(None).err().expect("no client without a partition");
    assert!(refused.starts_with("refused 915") && refused.contains(id), "{refused}");
    setting.client_environment = vec![("CUDA_MPS_SM_PARTITION", id)];
    let client = setting.client(None).unwrap();
    let table = || setting.command("lspart").0;
    let name = id.split_once('/').unwrap().1;
    let row = |table: &str| {
        let line = table.lines().find(|line| line.contains(name)).expect("a row").to_owned();
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!(row(&table()), "Yes");
    let remove = format!("sm_partition rm 0 {id}");
    let in_use = format!("Partition {id} in use. Terminate all clients before removing.\n");
    assert_eq!(setting.command(&remove), (in_use, 1));
    drop(client);
    wait_until("the client is gone", || row(&table()) == "No");
    assert_eq!(setting.command(&remove), ok(""));
    assert!(!table().contains(name));
    for (line, part) in [
        ("sm_partition add GPU-ffff 1", "there is no device"),
        ("sm_partition add 0 0", "above 0"),
        ("sm_partition add 0 99", "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
        ("sm_partition rm 0 x", "lspart lists them"),
        ("sm_partition", "usage: "),
    ] {
        let (text, status) = setting.command(line);
        assert!(status == 1 && text.contains(part), "{line}: {text}");
    }
}

fn shares_follow_the_number_of_programs() {
    let setting = Setting::new();
    let _daemon = start_with(&setting, &["--share", "1/n"]);
    let one = setting.client(None).unwrap();
    wait_until("all SMs", || limits(&setting, &one).sms == 132);
    let two = setting.client(None).unwrap();
    wait_until("halves", || limits(&setting, &one).sms == 66 && limits(&setting, &two).sms == 66);
    setting.command(&format!("set {} sms=10%", one.pid()));
    let three = setting.client(None).unwrap();
    wait_until("a third", || {
        limits(&setting, &three).sms == 44 && limits(&setting, &two).sms == 44
    });
    let given = limits(&setting, &one);
    assert_eq!((given.sms, given.sms_by.as_str()), (12, "set"), "what an operator set stays");
    drop((two, three));
    assert_eq!(setting.command("get_default_active_thread_percentage").1, 0);
}

fn users_who_are_not_allowed_stay_out() {
    if !is_root() {
        crate::skip("only root's daemon has users to refuse");
    }
    let setting = Setting::new();
    let _daemon = start_with(&setting, &["--allow", "@0,4000000"]);
    let refused = setting.client(Some(NOBODY)).err().expect("a refusal");
    assert!(refused.starts_with("refused 805") && refused.contains("--allow"), "{refused}");
    assert!(setting.client(None).is_ok());
    assert!(setting.client(Some(4_000_000)).is_ok());
}

fn one_server_serves_all_users() {
    if !is_root() {
        crate::skip("only root may have one server for all users");
    }
    let setting = Setting::new();
    let _daemon = start_with(&setting, &["-multiuser-server"]);
    let (mine, theirs) = (setting.client(None).unwrap(), setting.client(Some(NOBODY)).unwrap());
    assert_eq!(mine.server, theirs.server);
    let report = report(&setting);
    let uids: Vec<u32> = report.servers[0].clients.iter().map(|client| client.uid).collect();
    assert_eq!(uids, [0, NOBODY], "each is known by its own user");
}

fn one_user_s_servers_at_a_time() {
    if !is_root() {
        crate::skip("only root's daemon has several users");
    }
    let setting = std::sync::Arc::new(Setting::new());
    let _daemon = start_with(&setting, &["--one-user"]);
    let mine = setting.client(None).unwrap();
    let waits = setting.clone();
    let theirs = std::thread::spawn(move || waits.client(Some(NOBODY)).unwrap());
    wait_until("it waits", || report(&setting).clients_waiting == 1);
    assert_eq!(setting.command("get_server_list"), ok(format!("{}\n", mine.server)));
    let server = mine.server;
    drop(mine);
    let theirs = theirs.join().unwrap();
    assert_ne!(theirs.server, server);
    assert_eq!(report(&setting).servers.iter().filter(|s| s.state == "ACTIVE").count(), 1);
}
