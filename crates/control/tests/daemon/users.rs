//! Several users: only root can be several; without it these tests check nothing.

use crate::harness::{NOBODY, Setting, is_daemon, is_root, wait_until};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

crate::tests! {
    users_have_servers_of_their_own,
    a_users_daemon_serves_that_user,
    no_permission_is_said,
    a_full_file_system_is_said,
    another_users_link_is_not_followed,
    a_name_service_that_does_not_answer_keeps_only_its_user_waiting,
}

/// Goes on as root.
fn only_root() {
    if !is_root() {
        crate::skip("only root can be several users");
    }
}

fn user_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line =
        |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().replace('\t', " ");
    format!("{}; {}; {}", line("Uid:"), line("Gid:"), line("Groups:").trim_end())
}

fn users_have_servers_of_their_own() {
    only_root();
    let mut setting = Setting::new();
    let output = setting
        .program(crate::stand_in::CONTROL)
        .arg("-d")
        .env("ROOTS_SECRET", "secret")
        .env("OPENMPS_PROVIDER", "soft")
        .output();
    assert!(output.unwrap().status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    let roots = setting.client(None).unwrap();
    let nobodys = setting.client(Some(NOBODY)).unwrap();
    assert_ne!(roots.server, nobodys.server);
    assert_eq!(
        user_of(nobodys.server),
        "Uid: 65534 65534 65534 65534; Gid: 65534 65534 65534 65534; Groups:"
    );
    let environment = |pid: u32| std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let has = |pid: u32, text: &str| {
        environment(pid).windows(text.len()).any(|window| window == text.as_bytes())
    };
    assert!(has(roots.server, "ROOTS_SECRET=") && !has(nobodys.server, "ROOTS_SECRET="));
    assert!(has(nobodys.server, "OPENMPS_PROVIDER=soft"));
    let homes = environment(nobodys.server);
    let homes: Vec<_> =
        homes.split(|byte| *byte == 0).filter(|v| v.starts_with(b"HOME=")).collect();
    assert_eq!(
        homes,
        [format!("HOME={}", control::users::find(NOBODY).unwrap().home.display()).as_bytes()]
    );
    let list = format!("{}\n{}\n", roots.server, nobodys.server);
    assert_eq!(setting.command("get_server_list").0, list);

    setting.uid = Some(NOBODY);
    assert_eq!(setting.command("get_server_list").0, format!("{}\n", nobodys.server));
    let pid = nobodys.pid();
    assert_eq!(
        setting.command(&format!("get_client_list {}", nobodys.server)).0,
        format!("{pid}\n")
    );
    let foreign = (format!("Server {} not found\n", roots.server), 1);
    assert_eq!(setting.command(&format!("get_client_list {}", roots.server)), foreign);
    for line in ["quit", "start_server -uid 0", "terminate_client 1 1", "shutdown_server 1"] {
        let name = line.split(' ').next().unwrap();
        let text = format!("{name} is only for root, whose daemon this is\n");
        assert_eq!(setting.command(line), (text, 1));
    }
    setting.uid = None;
}

fn a_users_daemon_serves_that_user() {
    only_root();
    let mut setting = Setting::new();
    setting.uid = Some(NOBODY);
    let daemon = setting.start();
    assert_eq!(user_of(daemon.pid).split(';').next().unwrap(), "Uid: 65534 65534 65534 65534");
    assert!(setting.client(None).is_ok(), "its own user");
    for uid in [0, 1] {
        let refused = setting.client(Some(uid)).err().unwrap();
        let expected = "refused 805 this daemon was started by nobody and serves only that user";
        assert!(refused.starts_with(expected), "{refused}");
    }
    // Root may command it; another user may not.
    setting.uid = Some(1);
    assert_eq!(setting.command("quit").1, 1);
    assert!(is_daemon(daemon.pid));
    setting.uid = None;
    assert_eq!(setting.command("quit"), (String::new(), 0));
}

fn no_permission_is_said() {
    only_root();
    let mut setting = Setting::new();
    let closed = setting.scratch.0.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    setting.pipe = closed.join("pipe");
    setting.uid = Some(NOBODY);
    let outcome = setting.control(&["-d"]);
    assert_eq!(outcome.status, 1);
    let expected = format!("no permission for {} (as user 65534)", setting.pipe.display());
    assert!(outcome.errors.starts_with(&expected), "{}", outcome.errors);
    let outcome = setting.control(&["ps"]);
    assert!(outcome.errors.starts_with("no permission for "), "{}", outcome.errors);
}

/// A tmpfs that has no room for another file.
fn a_full_file_system_is_said() {
    let mut setting = Setting::new();
    let mount = setting.scratch.0.join("full");
    std::fs::create_dir(&mount).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs"];
    let mounted = Command::new("mount").args(options).arg(&mount).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        crate::skip("no tmpfs can be mounted");
    }
    setting.pipe = mount.join("pipe");
    let outcome = setting.control(&["-d"]);
    let _ = Command::new("umount").arg(&mount).output();
    assert_eq!(outcome.status, 1);
    assert!(outcome.errors.contains("the file system is full"), "{}", outcome.errors);
}

/// Any user who may make files in /tmp could lead root's daemon, and what it removes, anywhere.
fn another_users_link_is_not_followed() {
    only_root();
    let setting = Setting::new();
    let target = setting.scratch.0.join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("control"), "precious").unwrap();
    std::os::unix::fs::symlink(&target, &setting.pipe).unwrap();
    std::os::unix::fs::lchown(&setting.pipe, Some(NOBODY), None).unwrap();
    let outcome = setting.control(&["-d"]);
    let expected = format!("the pipe directory {} is a symbolic link of", setting.pipe.display());
    assert!(outcome.errors.starts_with(&expected), "{}", outcome.errors);
    assert_eq!(outcome.status, 1);
    assert_eq!(std::fs::read_to_string(target.join("control")).unwrap(), "precious");
    // Root's own is as good as the directory.
    std::os::unix::fs::lchown(&setting.pipe, Some(0), None).unwrap();
    let _daemon = setting.start();
    assert!(target.join("control_privileged").exists());
}

/// Stands before the C library's function, and waits for one user until the test lets it go on.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef int function(uid_t, struct passwd *, char *, size_t, struct passwd **);
int getpwuid_r(uid_t uid, struct passwd *entry, char *text, size_t size, struct passwd **found) {
    const char *fifo = getenv("SHIM_FIFO");
    if (fifo && uid == 41003) {
        char asked[4096];
        snprintf(asked, sizeof asked, "%s.asked", fifo);
        close(open(asked, O_WRONLY | O_CREAT, 0600));
        close(open(fifo, O_RDONLY));
    }
    function *real = (function *)dlsym(RTLD_NEXT, "getpwuid_r");
    return real(uid, entry, text, size, found);
}
"#;

fn a_name_service_that_does_not_answer_keeps_only_its_user_waiting() {
    only_root();
    let setting = Setting::new();
    let [source, library, fifo] =
        ["shim.c", "shim.so", "fifo"].map(|name| setting.scratch.0.join(name));
    std::fs::write(&source, SHIM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    if !compiler.status().is_ok_and(|status| status.success()) {
        crate::skip("there is no C compiler");
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut daemon = setting.program(crate::stand_in::CONTROL);
    daemon.arg("-d").env("LD_PRELOAD", &library).env("SHIM_FIFO", &fifo);
    assert!(daemon.output().unwrap().status.success());
    let _daemon = crate::harness::Daemon { pid: setting.daemon_pid() };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| setting.client(Some(41003)));
        wait_until("its user is asked about", || fifo.with_extension("asked").exists());
        // All others are served meanwhile, and commands are answered.
        let roots = setting.client(None).unwrap();
        let nobodys = setting.client(Some(NOBODY)).unwrap();
        assert_eq!(setting.command("get_server_list").0.lines().count(), 2);
        assert!(setting.command("ps").0.contains(&roots.pid().to_string()));
        drop((roots, nobodys));
        assert!(!waits.is_finished());
        // It is let go on each time that it asks.
        while !waits.is_finished() {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            let _ = rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(waits.join().unwrap().is_ok());
    });
    drop(std::fs::OpenOptions::new().read(true).write(true).open(&fifo));
}
