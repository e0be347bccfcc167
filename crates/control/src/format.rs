//! The tables that commands print, column for column as NVIDIA's shell prints them.

use crate::status::{ListedClient, ListedDevice};
use std::fmt::Write;

/// `ps`: a header, and a row for each client of a server. Nothing at all where there is none.
/// `namespace` gives the inode of a process's PID namespace. A client that has no PID in the
/// daemon's own has a dash there: no process can be named so.
pub fn processes(
    servers: &[(u32, &[ListedClient])],
    namespace: impl Fn(u32) -> Option<u64>,
) -> String {
    let mut text = String::new();
    for (server, clients) in servers {
        for client in *clients {
            if text.is_empty() {
                row(&mut text, ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]);
            }
            let or_dash = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
            let namespace = client.pid.and_then(&namespace).map(|inode| inode.to_string());
            row(
                &mut text,
                [
                    &or_dash(client.pid.map(|pid| pid.to_string())),
                    &client.id.to_string(),
                    &server.to_string(),
                    short_uuid(&client.device_uuid),
                    &or_dash(namespace),
                    &crate::log::printable(&client.command),
                ],
            );
        }
    }
    text
}

fn row(text: &mut String, cells: [&str; 6]) {
    let [pid, id, server, device, namespace, command] = cells;
    let _ = writeln!(text, "{pid:10}{id:10}{server:15}{device:26}{namespace:15}{command:15}");
}

/// The first three groups of a UUID: `GPU-d0a1cf3e-b77a-11c2`.
pub fn short_uuid(uuid: &str) -> &str {
    match uuid.match_indices('-').nth(3) {
        Some((end, _)) => &uuid[..end],
        None => uuid,
    }
}

/// `get_device_client_list`: each device, then `PID.ID` of the clients that use it.
pub fn device_clients(devices: &[ListedDevice], clients: &[ListedClient]) -> String {
    let mut text = String::new();
    for device in devices {
        let pci = Pci::parse(&device.pci);
        let address = pci.map_or(device.pci.clone(), |p| {
            format!("{:02x}:{:02x}.{:x}", p.bus, p.device, p.function)
        });
        let _ = writeln!(text, "[{}] {address}, {}", device.ordinal, device.name);
        for client in clients.iter().filter(|client| client.device_uuid == device.uuid) {
            let pid = client.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let _ = writeln!(text, "{pid}.{}", client.id);
        }
    }
    text
}

/// One section of `device_query`.
pub fn devices(devices: &[ListedDevice], csv: bool) -> String {
    let mut text = String::new();
    let header = ["Device Ordinal", "PCI IDs", "UUID", "Name", "Attributes"];
    device_row(&mut text, header, csv);
    for device in devices {
        let pci = pci_of(&device.pci);
        let ordinal = device.ordinal.to_string();
        device_row(&mut text, [&ordinal, &pci, &device.uuid, &device.name, "N/A"], csv);
    }
    text
}

/// A PCI address as tables of devices have it: `0000:00.06.00`.
pub(crate) fn pci_of(address: &str) -> String {
    Pci::parse(address).map_or(address.to_owned(), |p| {
        format!("{:04x}:{:02x}.{:02x}.{:02x}", p.domain, p.bus, p.device, p.function)
    })
}

fn device_row(text: &mut String, cells: [&str; 5], csv: bool) {
    let [ordinal, pci, uuid, name, attributes] = cells;
    let _ = if csv {
        writeln!(text, "{ordinal},{pci},{uuid},{name},{attributes}")
    } else {
        writeln!(text, "{ordinal:16}{pci:15}{uuid:42}{name:34}{attributes}")
    };
}

/// The parts of a PCI address.
struct Pci {
    domain: u32,
    bus: u32,
    device: u32,
    function: u32,
}

impl Pci {
    /// Reads `0000:00:06.0`; all hexadecimal.
    fn parse(text: &str) -> Option<Pci> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        Some(Pci {
            domain: number(domain)?,
            bus: number(bus)?,
            device: number(device)?,
            function: number(function)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> ListedDevice {
        ListedDevice {
            ordinal: 0,
            pci: "0000:00:06.0".into(),
            uuid: "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d".into(),
            name: "NVIDIA H200".into(),
            counts: Default::default(),
        }
    }

    fn client() -> ListedClient {
        ListedClient {
            pid: Some(524),
            id: 1,
            device_uuid: device().uuid,
            command: "/tmp/hold".into(),
            ..ListedClient::default()
        }
    }

    /// Captured from NVIDIA's shell (binary version 13000).
    #[test]
    fn ps_is_as_captured() {
        let text = processes(&[(529, &[client()])], |_| Some(4026531836));
        assert_eq!(
            text,
            "PID       ID        SERVER         DEVICE                    NAMESPACE      COMMAND        \n\
             524       1         529            GPU-d0a1cf3e-b77a-11c2    4026531836     /tmp/hold      \n"
        );
        assert_eq!(processes(&[(529, &[])], |_| None), "");
    }

    #[test]
    fn device_query_is_as_captured() {
        assert_eq!(
            devices(&[device()], false),
            "Device Ordinal  PCI IDs        UUID                                      Name                              Attributes\n\
             0               0000:00.06.00  GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d  NVIDIA H200                       N/A\n"
        );
        assert_eq!(
            devices(&[device()], true),
            "Device Ordinal,PCI IDs,UUID,Name,Attributes\n\
             0,0000:00.06.00,GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d,NVIDIA H200,N/A\n"
        );
    }

    #[test]
    fn clients_stand_under_their_device() {
        let mut elsewhere = client();
        elsewhere.device_uuid = "GPU-other".into();
        assert_eq!(
            device_clients(&[device()], &[client(), elsewhere]),
            "[0] 00:06.0, NVIDIA H200\n524.1\n"
        );
    }

    #[test]
    fn odd_names_pass_unharmed() {
        assert_eq!(short_uuid("soft"), "soft");
        assert_eq!(short_uuid("GPU-a-b-c-d-e"), "GPU-a-b-c");
        let odd = ListedDevice { pci: "?".into(), ..device() };
        assert!(devices(&[odd], true).contains("0,?,GPU-"));
    }
}
