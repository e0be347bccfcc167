//! Namespaces: a daemon in some of its own, as in a container, and clients outside of them.

use crate::harness::{NOBODY, Setting, is_root, wait_until};
use crate::stand_in::{CONTROL, attach_as};
use cuda_api::CUuuid;
use std::process::{Child, Command, Stdio};

crate::tests! {
    a_client_without_a_pid_here_is_named_by_its_id,
    clients_without_pids_get_back_each_its_own_windows,
    a_user_that_the_namespace_lacks_learns_it,
}

/// A daemon in the foreground in new namespaces, which `quit` ends.
struct Contained(Child);

impl Contained {
    /// Starts one by `unshare` with these options.
    fn start(setting: &Setting, options: &[&str]) -> Contained {
        let works = Command::new("unshare").args(options).arg("true").output();
        if !works.is_ok_and(|output| output.status.success()) {
            crate::skip("unshare makes no namespaces here");
        }
        let mut command = Command::new("unshare");
        let inherited = setting.program(CONTROL);
        command
            .args(options)
            .args(["bash", "-c", "exec -a \"$0\" \"$1\" -f", CONTROL])
            .arg(std::env::current_exe().unwrap())
            .envs(inherited.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let contained = Contained(command.spawn().unwrap());
        let pid_file = setting.pipe.join("nvidia-cuda-mps-control.pid");
        wait_until("the daemon accepts", || pid_file.exists());
        contained
    }
}

impl Drop for Contained {
    /// Of a PID namespace the first process is killed, and all others with it.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_client_without_a_pid_here_is_named_by_its_id() {
    let setting = Setting::new();
    let own_user: &[&str] = if is_root() { &[] } else { &["-U", "-r"] };
    let options = [own_user, &["-p", "-f", "--kill-child"]].concat();
    let mut daemon = Contained::start(&setting, &options);
    let (one, two) = (setting.client(None).unwrap(), setting.client(None).unwrap());
    let server = setting.command("get_server_list").0.trim().to_owned();
    let list = format!("get_client_list {server}");
    assert_eq!(setting.command(&list), ("id:1\nid:2\n".into(), 0));
    let table = setting.command("ps").0;
    let columns: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(columns[1..], [["-", "1", &server], ["-", "2", &server]]);
    let report: serde_json::Value = serde_json::from_str(&setting.command("report").0).unwrap();
    assert_eq!(report["servers"][0]["clients"][1]["pid"], serde_json::Value::Null);

    let terminate = |name: &str| setting.command(&format!("terminate_client {server} {name}"));
    let none_has = |name| {
        let hint = "Clients without a PID here are id:1, id:2.";
        (format!("Invalid process {name}! {hint}\n1\n"), 1)
    };
    assert_eq!(terminate("0"), none_has("0"), "PID 0 is no name");
    assert_eq!(terminate("id:3"), none_has("id:3"));
    // The server says what it was to end, in a log that comes late: one client and not the other.
    let ended = |id: u32| setting.server_log().matches(&format!("terminate {id}\n")).count();
    assert_eq!(terminate("id:2"), ("0\n".into(), 0));
    wait_until("the server says so", || ended(2) > 0);
    assert_eq!((ended(1), ended(2)), (0, 1));
    assert_eq!(terminate("1"), ("0\n".into(), 0));
    wait_until("the server says so", || ended(1) > 0);
    assert_eq!((ended(1), ended(2)), (1, 1));
    drop((one, two));
    assert_eq!(setting.command("quit"), (String::new(), 0));
    daemon.0.wait().unwrap();
}

fn clients_without_pids_get_back_each_its_own_windows() {
    let setting = Setting::with_behaviour("fail later");
    let own_user: &[&str] = if is_root() { &[] } else { &["-U", "-r"] };
    let options = [own_user, &["-p", "-f", "--kill-child"]].concat();
    let mut daemon = Contained::start(&setting, &options);
    let attach = |token: u64| {
        let (welcome, socket) = attach_as(&setting.pipe, CUuuid::default(), token).unwrap();
        (welcome.server_pid, welcome.window.address, socket)
    };
    let first = [attach(11), attach(12)];
    assert_eq!((first[0].1, first[1].1), (0, 1));
    setting.command(&format!("terminate_client {} id:1", first[0].0));
    // They come in another order, while each still has what it had.
    let again = [attach(12), attach(11)];
    assert_ne!(first[0].0, again[0].0, "at another server");
    assert_eq!((again[0].1, again[1].1), (1, 0));
    // A third one gets what none of them has.
    assert_eq!(attach(13).1, 2);
    drop((first, again));
    assert_eq!(setting.command("quit"), (String::new(), 0));
    daemon.0.wait().unwrap();
}

/// Such a daemon is root in its namespace and has no number for any other user.
fn a_user_that_the_namespace_lacks_learns_it() {
    if !is_root() {
        crate::skip("only root can be several users");
    }
    let setting = Setting::new();
    let mut daemon = Contained::start(&setting, &["-U", "-r", "--kill-child"]);
    let refused = setting.client(Some(NOBODY)).err().unwrap();
    assert!(refused.starts_with("refused 805 no server can run as user 65534"), "{refused}");
    assert!(setting.control_log().contains("refused, no server can run as user 65534"));
    assert!(setting.client(None).is_ok(), "its own user");
    assert_eq!(setting.command("quit"), (String::new(), 0));
    daemon.0.wait().unwrap();
}
