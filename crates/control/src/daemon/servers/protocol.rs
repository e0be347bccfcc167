//! The daemon's side of the protocol: what it sends. Every socket here is non-blocking.

use crate::daemon::state::Server;
use channel::message::{Ask, Devices, Message, Question, Refused, Schedule, Settings};
pub(in crate::daemon) use channel::socket::SeqPacket as Socket;
use cuda_api::CudaError;
use cuda_api::settings::Counting;
use recovery::servers::Phase;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub(in crate::daemon) fn send_question(
    server: &Socket,
    number: u32,
    question: Question,
) -> io::Result<()> {
    server.send(&Message::Ask(Ask { number, question }), &[])
}

/// Has a server that is ready record its clients' work before it has any. Its answer is dropped: no
/// question has the number 0.
pub(in crate::daemon) fn have_recorded(server: &Server) {
    let _ = send_question(&server.link.socket, 0, Question::Trace(1));
}

/// Gives a server that is ready the settings of scheduling. Its answer is dropped.
pub(in crate::daemon) fn have_scheduled(server: &Server, settings: String) {
    let change = Schedule { client: 0, settings };
    let _ = send_question(&server.link.socket, 0, Question::Schedule(change));
}

/// Has a server that is ready count what is counted now. Its answer is dropped.
pub(in crate::daemon) fn have_counted(server: &Server, counting: Counting) {
    let _ = send_question(&server.link.socket, 0, Question::Counters(counting));
}

/// Notifies a server that is ready of what its clients are given, for its log: without it the log lacks a
/// line. With `now` clients that are there get the share too. One that starts is notified when it is ready.
pub(crate) fn send_settings(server: &Server, now: bool) {
    if !matches!(server.phase, Phase::Starting { .. }) {
        let settings = Settings { now, ..server.link.settings.of_server() };
        let _ = server.link.socket.send(&Message::Settings(settings), &[]);
    }
}

pub(in crate::daemon) fn send_shutdown(server: &Socket, force: bool) -> io::Result<()> {
    server.send(&Message::Shutdown(force), &[])
}

/// Has a server send its clients to another one, and end.
pub(in crate::daemon) fn send_move(server: &Socket) -> io::Result<()> {
    server.send(&Message::Move(()), &[])
}

/// Has a server send one process to another one.
pub(in crate::daemon) fn send_move_one(server: &Socket, process: u32) -> io::Result<()> {
    server.send(&Message::MoveOne(process), &[])
}

/// Lets a server with a fault end.
pub(in crate::daemon) fn send_leave(server: &Socket) -> io::Result<()> {
    server.send(&Message::Leave(()), &[])
}

/// Sends a server a client: its connected socket and its region's file.
pub(in crate::daemon) fn send_client(
    server: &Socket,
    client: channel::message::Client,
    socket: &Socket,
    region: &OwnedFd,
) -> io::Result<()> {
    server.send(&Message::Client(client), &[socket.as_fd(), region.as_fd()])
}

/// Sends a client the devices.
pub(in crate::daemon) fn send_devices(client: &Socket, devices: &Devices) {
    // A client that does not read the answer does not get it.
    let _ = client.send(&Message::Devices(devices.clone()), &[]);
}

/// Has a client say its first word again, in this version: it takes the version from the answer.
pub(in crate::daemon) fn have_said_again(client: &Socket, version: u16, reason: String) {
    client.speak(version);
    let result = CudaError::MPS_CONNECTION_FAILED.code();
    let _ = client.send(&Message::Refused(Refused { result, reason }), &[]);
}

/// Says no to a client. One that does not read the answer does not get it.
pub(in crate::daemon) fn refuse(client: &Socket, error: CudaError, reason: impl Into<String>) {
    crate::daemon::problems::count_refusal(error);
    let refused = Refused { result: error.code(), reason: reason.into() };
    let _ = client.send(&Message::Refused(refused), &[]);
}
