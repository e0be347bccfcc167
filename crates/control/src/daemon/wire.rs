//! The daemon's side of the protocol: channel's messages to and from this crate's own terms.
//! Every socket here is non-blocking.

use crate::daemon::state::Queries;
use crate::report::{Client, Device, ServerState, Status};
use channel::message::{Message, Refused, ServerStatus};
use channel::region;
pub(super) use channel::socket::SeqPacket as Socket;
use cuda_api::{CUuuid, CudaError};
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Clients of one server that are reported. A server takes fewer; a broken one could go on for ever.
const REPORTED_CLIENTS_MAX: usize = 4096;

pub(super) fn send_query(server: &Socket) -> io::Result<()> {
    server.send(&Message::Query(()), &[])
}

pub(super) fn send_terminate(server: &Socket, pid: u32) -> io::Result<()> {
    server.send(&Message::Terminate(pid), &[])
}

pub(super) fn send_shutdown(server: &Socket, force: bool) -> io::Result<()> {
    server.send(&Message::Shutdown(force), &[])
}

/// Hands a client over: its connected socket and its region's file.
pub(super) fn send_client(
    server: &Socket,
    client: channel::message::Client,
    socket: &Socket,
    region: &OwnedFd,
) -> io::Result<()> {
    server.send(&Message::Client(client), &[socket.as_fd(), region.as_fd()])
}

/// Says no to a client. One that does not read the answer does not get it.
pub(super) fn refuse(client: &Socket, error: CudaError, reason: impl Into<String>) {
    let refused = Refused { result: error.code(), reason: reason.into() };
    let _ = client.send(&Message::Refused(refused), &[]);
}

/// Takes in one part of an answer; true if the answer is whole now.
pub(super) fn take_status(queries: &mut Queries, part: ServerStatus) -> bool {
    let status = queries.partial.get_or_insert_with(|| Status {
        state: ServerState::Active,
        devices: Vec::new(),
        clients: Vec::new(),
    });
    status.state = match part.state {
        region::ServerState::Starting => ServerState::Initializing,
        region::ServerState::Running => ServerState::Active,
        region::ServerState::Ended => ServerState::ShuttingDown,
    };
    if status.devices.is_empty() {
        status.devices = part
            .devices
            .into_iter()
            .map(|device| Device {
                ordinal: device.ordinal,
                pci: device.pci_bus_id,
                uuid: uuid_text(&device.uuid),
                name: device.name,
            })
            .collect();
    }
    let room = REPORTED_CLIENTS_MAX.saturating_sub(status.clients.len());
    status.clients.extend(part.clients.into_iter().take(room).map(|client| Client {
        pid: client.pid,
        id: client.id,
        uid: client.uid,
        device_uuid: uuid_text(&client.device),
        memory_bytes: client.memory_bytes,
        kernels: client.kernels,
        work: client.work,
        command: client.command_line,
    }));
    if !part.more {
        queries.last = queries.partial.take();
        queries.answered += 1;
    }
    !part.more
}

/// `GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d`
fn uuid_text(uuid: &CUuuid) -> String {
    let mut text = String::from("GPU");
    for (index, byte) in uuid.bytes.iter().enumerate() {
        if matches!(index, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::{ClientStatus, DeviceStatus};

    #[test]
    fn an_answer_in_parts_is_put_together() {
        let mut uuid = CUuuid::default();
        for (byte, value) in uuid.bytes.iter_mut().zip(1..) {
            *byte = value;
        }
        let device = DeviceStatus { ordinal: 0, uuid, name: "soft".into(), ..Default::default() };
        let clients: Vec<ClientStatus> = (0..100)
            .map(|pid| ClientStatus { pid, id: pid + 1, device: uuid, ..Default::default() })
            .collect();
        let parts = ServerStatus::split(region::ServerState::Running, vec![device], clients);
        assert!(parts.len() > 1);
        let last = parts.len() - 1;
        let mut queries = Queries::default();
        for (index, part) in parts.into_iter().enumerate() {
            assert_eq!(take_status(&mut queries, part), index == last);
        }
        let status = queries.last.unwrap();
        assert_eq!((status.devices.len(), status.clients.len(), queries.answered), (1, 100, 1));
        assert_eq!(status.devices[0].uuid, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
        assert_eq!(status.clients[99].device_uuid, status.devices[0].uuid);
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let part = ServerStatus {
            state: region::ServerState::Running,
            more: true,
            devices: vec![],
            clients: vec![Default::default(); 32],
        };
        let mut queries = Queries::default();
        for _ in 0..1000 {
            assert!(!take_status(&mut queries, part.clone()));
        }
        assert_eq!(queries.partial.unwrap().clients.len(), REPORTED_CLIENTS_MAX);
    }
}
