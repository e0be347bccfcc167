//! Hostile peers: they say nonsense, say nothing or come in numbers; and disks that are full.

use crate::harness::{Setting, is_daemon};
use channel::message::{Command, MESSAGE_MAGIC, Message, Serving};
use channel::socket::{Interest, Listener, ReceiveError, SeqPacket, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::time::Duration;

crate::tests! {
    nonsense_is_refused,
    another_version_is_named,
    none_is_a_server_by_its_word_where_no_daemon_was_killed,
    the_shell_names_what_is_no_daemon,
    silent_connections_shut_no_client_out,
    so_many_clients_wait_and_no_more,
    who_commands_comes_by_the_privileged_socket,
    the_log_fifo_takes_anything,
    a_full_disk_stops_nothing,
    a_limit_of_file_size_stops_nothing,
    clients_that_leave_early_are_forgotten,
}

fn none_is_a_server_by_its_word_where_no_daemon_was_killed() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let serving = Serving { clients: vec![(1, 0)], ..Serving::default() };
    let said = answer(&setting, &Message::Serving(serving).encode().unwrap());
    assert_eq!(said, "805 no daemon was killed here lately");
    assert_eq!(setting.command("get_server_list"), (String::new(), 0));
}

fn connect(setting: &Setting) -> SeqPacket {
    let socket =
        SeqPacket::connect(&setting.pipe.join("control"), Duration::from_secs(10)).unwrap();
    socket.set_receive_timeout(Some(Duration::from_secs(30))).unwrap();
    socket
}

fn header(version: u16, kind: u16) -> Vec<u8> {
    let mut bytes = MESSAGE_MAGIC.to_le_bytes().to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes
}

/// Sends bytes; what the daemon says to them.
fn answer(setting: &Setting, bytes: &[u8]) -> String {
    let socket = connect(setting);
    socket.send_bytes(bytes, &[]).unwrap();
    let text = match socket.receive() {
        Ok((Message::Refused(refused), _)) => format!("{} {}", refused.result, refused.reason),
        other => panic!("{other:?}"),
    };
    assert!(matches!(socket.receive(), Err(ReceiveError::Closed)), "it stays open after {text}");
    text
}

fn nonsense_is_refused() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let version = channel::PROTOCOL_VERSION;
    assert_eq!(answer(&setting, b"x"), "805 the peer does not speak this protocol");
    assert_eq!(answer(&setting, &[0; 4096]), "805 the peer does not speak this protocol");
    assert_eq!(answer(&setting, &header(version, 999)), "805 there is no message of kind 999");
    let hello_without_body = answer(&setting, &header(version, 1));
    assert!(hello_without_body.starts_with("805 a message of kind 1 is wrong"));
    let exiting = Message::Exiting(()).encode().unwrap();
    assert_eq!(answer(&setting, &exiting), "805 Exiting is no way to begin");
    let hello = Message::Hello(Default::default()).encode().unwrap();
    let without_region = "805 a message of kind 1 came with 0 file descriptors";
    assert_eq!(answer(&setting, &hello), without_region);
    // A seeded walk over every byte of the header and of lengths.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..500 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut bytes = hello.clone();
        let at = usize::try_from(seed >> 32).unwrap() % bytes.len();
        bytes[at] ^= u8::try_from(seed & 0xff).unwrap() | 1;
        let socket = connect(&setting);
        socket.send_bytes(&bytes, &[]).unwrap();
        assert!(socket.receive().is_ok());
    }
    assert_eq!(setting.command("get_server_list"), (String::new(), 0));
}

fn another_version_is_named() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let ours = channel::PROTOCOL_VERSION;
    let text = answer(&setting, &header(ours + 7, 1));
    let error = channel::message::MessageError::Version { theirs: ours + 7 };
    assert_eq!(text, format!("805 {error}"));
    assert!(setting.control_log().contains("Unable to read new connection type information"));
}

/// Something else listens in the pipe directory, or a daemon of another version.
fn the_shell_names_what_is_no_daemon() {
    let setting = Setting::new();
    std::fs::create_dir(&setting.pipe).unwrap();
    let listener = Listener::bind(&setting.pipe.join("control_privileged"), 0o666).unwrap();
    let ours = channel::PROTOCOL_VERSION;
    for (answer, reason) in [
        (b"HTTP/1.1 400 Bad Request".to_vec(), "the peer does not speak this protocol".to_owned()),
        (
            header(ours + 1, 3),
            channel::message::MessageError::Version { theirs: ours + 1 }.to_string(),
        ),
        (Message::Exiting(()).encode().unwrap(), "it said Exiting".to_owned()),
    ] {
        let outcome = std::thread::scope(|scope| {
            let shell = scope.spawn(|| setting.control(&["ps"]));
            poll(&[Interest::readable(&listener)], None).unwrap();
            let socket = listener.accept().unwrap().unwrap();
            socket.receive_bytes().unwrap();
            socket.send_bytes(&answer, &[]).unwrap();
            shell.join().unwrap()
        });
        assert_eq!(outcome.status, 1);
        let expected = format!(
            "what listens in {} is no openmps daemon of this version: {reason}\n",
            setting.pipe.display()
        );
        assert_eq!(outcome.errors, expected);
    }
}

fn silent_connections_shut_no_client_out() {
    let setting = Setting::new();
    let _daemon = setting.start();
    let silent: Vec<SeqPacket> = (0..400).map(|_| connect(&setting)).collect();
    assert_eq!(setting.command("get_server_list"), (String::new(), 0));
    assert!(setting.client(None).is_ok());
    // Only so many are kept, the newest.
    assert!(silent[0].is_hung_up());
    assert!(!silent[399].is_hung_up());
}

/// Clients whose server does not get ready: each costs the daemon two descriptors.
fn so_many_clients_wait_and_no_more() {
    const WAITING_MAX: usize = 1024;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < 3 * WAITING_MAX as u64) {
        crate::skip("too few files may be open (ulimit -Hn)");
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let setting = Setting::with_behaviour("never ready");
    let _daemon = setting.start();
    let region = memfd_create("region", MemfdFlags::CLOEXEC).unwrap();
    let mut waiting = Vec::new();
    for number in 1..=WAITING_MAX + 1 {
        let socket = connect(&setting);
        socket.send(&Message::Hello(Default::default()), &[region.as_fd()]).unwrap();
        waiting.push(socket);
        // Only so many may be unheard at a time: an answer comes behind them.
        if number % 100 == 0 {
            setting.command("get_server_list");
        }
    }
    match waiting[WAITING_MAX].receive() {
        Ok((Message::Refused(refused), _)) => assert_eq!(
            (refused.result, refused.reason.as_str()),
            (809, "1024 clients wait already")
        ),
        other => panic!("{other:?}"),
    }
    assert!(waiting[..WAITING_MAX].iter().all(|socket| !socket.is_hung_up()));
}

/// A process that opens the other socket may only look, even one of the daemon's own user.
fn who_commands_comes_by_the_privileged_socket() {
    let setting = Setting::new();
    let daemon = setting.start();
    let socket = connect(&setting);
    socket.send(&Message::Command(Command { text: "quit".to_owned() }), &[]).unwrap();
    match socket.receive() {
        Ok((Message::Reply(answer), _)) => {
            assert!(answer.text.starts_with("quit is only for root"), "{}", answer.text);
            assert_eq!(answer.status, 1);
        }
        other => panic!("{other:?}"),
    }
    assert!(is_daemon(daemon.pid));
    assert_eq!(setting.command("get_server_list"), (String::new(), 0));
}

fn the_log_fifo_takes_anything() {
    use std::io::Write;
    let setting = Setting::new();
    let _daemon = setting.start();
    let mut fifo = std::fs::OpenOptions::new().write(true).open(setting.pipe.join("log")).unwrap();
    fifo.write_all(b"one\x1b[2J\n\xff\xfe\ntwo\n").unwrap();
    fifo.write_all(&[b'x'; 10_000]).unwrap();
    fifo.write_all(b"\nlast\n").unwrap();
    crate::harness::wait_until("it is written", || {
        std::fs::read_to_string(setting.logs().join("server.log"))
            .is_ok_and(|text| text.ends_with("last\n"))
    });
    let text = std::fs::read_to_string(setting.logs().join("server.log")).unwrap();
    assert!(text.starts_with("one?[2J\n\u{fffd}\u{fffd}\ntwo\nxxx"), "{text}");
    assert_eq!(setting.command("get_server_list"), (String::new(), 0));
}

fn a_full_disk_stops_nothing() {
    let setting = Setting::new();
    std::fs::create_dir(setting.logs()).unwrap();
    for name in ["control.log", "server.log"] {
        // Every write to /dev/full fails as on a full disk.
        symlink("/dev/full", setting.logs().join(name)).unwrap();
    }
    let _daemon = setting.start();
    let client = setting.client(None).unwrap();
    assert_eq!(setting.command("get_server_list").0, format!("{}\n", client.server));
    drop(client);
    assert_eq!(setting.command("quit"), (String::new(), 0));
}

fn a_limit_of_file_size_stops_nothing() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let setting = Setting::new();
    let before = getrlimit(Resource::Fsize);
    // Inherited by the daemon. This process writes no file meanwhile.
    setrlimit(Resource::Fsize, Rlimit { current: Some(2000), ..before }).unwrap();
    let daemon = setting.start();
    setrlimit(Resource::Fsize, before).unwrap();
    for _ in 0..40 {
        assert_eq!(setting.command("get_server_list"), (String::new(), 0));
    }
    assert_eq!(setting.control_log().len(), 2000);
    assert_eq!(setting.daemon_pid(), daemon.pid);
}

fn clients_that_leave_early_are_forgotten() {
    let setting = Setting::with_behaviour("slow");
    let _daemon = setting.start();
    let hello = Message::Hello(Default::default());
    for _ in 0..20 {
        let region = std::fs::File::open("/dev/null").unwrap();
        let socket = connect(&setting);
        socket.send(&hello, &[std::os::fd::AsFd::as_fd(&region)]).unwrap();
    }
    assert!(setting.client(None).is_ok());
    let report: serde_json::Value = serde_json::from_str(&setting.command("report").0).unwrap();
    assert_eq!(report["clients_waiting"], 0);
    assert_eq!(report["servers"][0]["clients"].as_array().unwrap().len(), 0);
}
