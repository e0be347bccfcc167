//! Several devices: a server each, described to clients without one.

use crate::harness::{Setting, wait_until};
use crate::stand_in::{attach, attach_to, describe_to_client, uuid};
use cuda_api::CUuuid;

crate::tests! {
    devices_are_known_without_a_server,
    each_device_has_a_server_of_its_own,
    a_device_that_there_is_not_is_refused,
    without_devices_all_learn_why,
    a_description_that_does_not_come_ends_with_the_daemon,
}

fn two_devices() -> Setting {
    Setting { devices: 2, ..Setting::new() }
}

fn devices_are_known_without_a_server() {
    let setting = two_devices();
    let _daemon = setting.start();
    let devices = describe_to_client(&setting.pipe).unwrap();
    assert_eq!(devices.driver_version, 13000);
    let uuids: Vec<CUuuid> = devices.devices.iter().map(|device| device.uuid).collect();
    assert_eq!(uuids, [uuid(0), uuid(1)]);
    let section = "Device Ordinal,PCI IDs,UUID,Name,Attributes\n\
                   0,0000:00.06.00,GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d,NVIDIA H200,N/A\n\
                   1,0000:00.07.00,GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2e,NVIDIA H200,N/A\n";
    let expected = (format!("Default\n{section}"), 0);
    assert_eq!(setting.command("device_query --csv"), expected);
    assert_eq!(setting.command("get_server_list"), (String::new(), 0), "no server was started");
    let log = setting.control_log();
    let line = "Device 1: NVIDIA H200 (uuid GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2e)";
    assert!(log.contains(line), "{log}");
    assert!(
        setting.command("report").0.contains(r#""devices":[{"ordinal":0,"pci":"0000:00:06.0""#)
    );
}

fn each_device_has_a_server_of_its_own() {
    let setting = two_devices();
    let _daemon = setting.start();
    // A client that names none has the first.
    let (unnamed, _first) = attach(&setting.pipe).unwrap();
    let (named, _again) = attach_to(&setting.pipe, uuid(0)).unwrap();
    let (other, _second) = attach_to(&setting.pipe, uuid(1)).unwrap();
    assert_eq!(unnamed.server_pid, named.server_pid);
    assert_ne!(named.server_pid, other.server_pid);
    let (first, second) = (named.server_pid, other.server_pid);
    let list = (format!("{first}\n{second}\n"), 0);
    assert_eq!(setting.command("get_server_list"), list);

    let me = std::process::id();
    let devices =
        format!("[0] 00:06.0, NVIDIA H200\n{me}.1\n{me}.2\n[1] 00:07.0, NVIDIA H200\n{me}.1\n");
    assert_eq!(setting.command("get_device_client_list"), (devices, 0));
    let one = format!("[1] 00:07.0, NVIDIA H200\n{me}.1\n");
    assert_eq!(setting.command(&format!("get_device_client_list {second}")), (one, 0));
    let (query, _) = setting.command(&format!("device_query {second} --csv"));
    assert!(query.starts_with(&format!("Server {second}\n")), "{query}");
    assert!(query.contains("\n1,0000:00.07.00,") && !query.contains("\n0,"), "{query}");

    // The end of one is not the other's.
    assert_eq!(setting.command(&format!("shutdown_server {first} -f")), (String::new(), 0));
    wait_until("one server is left", || {
        setting.command("get_server_list").0 == format!("{second}\n")
    });
    let user = rustix::process::geteuid().as_raw();
    let start = format!("start_server -uid {user}");
    assert_eq!(setting.command(&format!("{start} -device 1")), (String::new(), 0));
    assert_eq!(setting.command("get_server_list").0, format!("{second}\n"));
    assert_eq!(setting.command(&start), (String::new(), 0));
    assert_eq!(setting.command("get_server_list").0.lines().count(), 2);
    let unknown = "\"7\" names none of the 2 devices; device_query lists them\n";
    assert_eq!(setting.command(&format!("{start} -device 7")), (unknown.to_owned(), 1));
    let log = setting.control_log();
    let line = format!(
        "Starting new server {second} for user {user} on device 1 \
         (GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2e)"
    );
    assert!(log.contains(&line), "{log}");
}

fn a_device_that_there_is_not_is_refused() {
    let setting = two_devices();
    let _daemon = setting.start();
    let refused = attach_to(&setting.pipe, uuid(2)).unwrap_err();
    let reason = "this daemon serves no device GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2f";
    assert_eq!((refused.result, refused.reason.as_str()), (101, reason));
}

fn without_devices_all_learn_why() {
    for (behaviour, reason) in
        [("no devices", "cuInit answered no"), ("describes nothing", "exited with status 3")]
    {
        let setting = Setting::with_behaviour(behaviour);
        let _daemon = setting.start();
        for refused in
            [describe_to_client(&setting.pipe).unwrap_err(), attach(&setting.pipe).unwrap_err()]
        {
            assert!(refused.reason.contains(reason), "{refused:?}");
        }
        let (text, status) = setting.command("device_query");
        assert!(text.contains(reason) && status == 1, "{text}");
    }
}

fn a_description_that_does_not_come_ends_with_the_daemon() {
    let setting = Setting::with_behaviour("describes for ever");
    let _daemon = setting.start();
    let pipe = setting.pipe.clone();
    let asked = std::thread::spawn(move || describe_to_client(&pipe));
    let waits = || setting.control(&["get_server_list"]).status == 0;
    wait_until("the daemon answers", waits);
    assert_eq!(setting.command("quit"), (String::new(), 0));
    // Whether it had come by then or not: it is not left alone.
    let answer = asked.join();
    assert!(answer.is_err() || answer.unwrap().is_err());
}
