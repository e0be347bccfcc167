//! Sockets between two ends in one process.

use super::*;
use crate::memfd::{self, Seals};
use crate::message::{Hello, Refused};
use core::mem::MaybeUninit;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("channel-{name}-{}", std::process::id()))
}

#[test]
fn a_message_arrives_with_its_file() {
    let (one, two) = SeqPacket::pair().unwrap();
    let fd = memfd::create_sealed(c"test", 4096, Seals::SIZE).unwrap();
    File::from(fd.try_clone().unwrap()).write_all(b"hello").unwrap();
    let hello = Message::Hello(Hello { pid: 7, ..Hello::default() });
    one.send(&hello, &[fd.as_fd()]).unwrap();
    let (message, mut fds) = two.receive().unwrap();
    assert_eq!(message, hello);
    let mut file = File::from(fds.pop().unwrap());
    file.rewind().unwrap();
    let mut text = [0; 5];
    file.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");
    assert!(fds.is_empty());
}

#[test]
fn a_message_needs_its_number_of_files() {
    let (one, two) = SeqPacket::pair().unwrap();
    let fd = memfd::create(c"test", 0).unwrap();
    let exiting = Message::Exiting(());
    assert_eq!(one.send(&exiting, &[fd.as_fd()]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    // A peer that does so nevertheless.
    one.send_bytes(&exiting.encode().unwrap(), &[fd.as_fd(), fd.as_fd()]).unwrap();
    assert!(matches!(
        two.receive(),
        Err(ReceiveError::Message(MessageError::Fds { kind: 41, found: 2 }))
    ));
    let hello = Message::Hello(Hello::default());
    one.send_bytes(&hello.encode().unwrap(), &[]).unwrap();
    assert!(matches!(two.receive(), Err(ReceiveError::Message(MessageError::Fds { .. }))));
}

#[test]
fn an_end_is_noticed() {
    let (one, two) = SeqPacket::pair().unwrap();
    assert!(!two.is_hung_up());
    one.send(&Message::Exiting(()), &[]).unwrap();
    drop(one);
    // A process that another test forks meanwhile has this end too, until it ends.
    while !two.is_hung_up() {
        std::thread::yield_now();
    }
    // What was sent before the end is still there.
    assert_eq!(two.receive().unwrap().0, Message::Exiting(()));
    assert!(matches!(two.receive(), Err(ReceiveError::Closed)));
    let error = two.send(&Message::Exiting(()), &[]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn shutting_down_ends_a_connection_that_others_hold() {
    let (one, two) = SeqPacket::pair().unwrap();
    let copy = one.try_clone().unwrap();
    drop(one);
    assert!(!two.is_hung_up());
    copy.try_clone().unwrap().shut_down();
    assert!(two.is_hung_up());
    assert!(matches!(copy.receive(), Err(ReceiveError::Closed)));
}

#[test]
fn garbage_is_refused() {
    let (one, two) = SeqPacket::pair().unwrap();
    one.send_bytes(b"GET / HTTP/1.1", &[]).unwrap();
    assert!(matches!(two.receive(), Err(ReceiveError::Message(MessageError::Magic))));
    assert!(one.send_bytes(&[], &[]).is_err());
    assert!(one.send_bytes(&[0; MESSAGE_BYTES_MAX + 1], &[]).is_err());
    // A peer with other limits.
    let long = vec![0u8; MESSAGE_BYTES_MAX + 1];
    let sent = rustix::net::send(&one, &long, rustix::net::SendFlags::empty());
    assert_eq!(sent, Ok(long.len()));
    assert!(matches!(two.receive(), Err(ReceiveError::TooLong)));
    one.send(&Message::Exiting(()), &[]).unwrap();
    assert_eq!(two.receive().unwrap().0, Message::Exiting(()));
}

/// Descriptors beyond the maximum are refused, and none of them stays open.
#[test]
fn too_many_files_are_refused_and_closed() {
    let (one, two) = SeqPacket::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let many = [writer.as_fd(); FDS_MAX + 3];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
    let exiting = Message::Exiting(()).encode().unwrap();
    let sent = sendmsg(&one, &[IoSlice::new(&exiting)], &mut control, SendFlags::empty());
    assert_eq!(sent, Ok(exiting.len()));
    assert!(matches!(two.receive(), Err(ReceiveError::Fds)));
    // If a writer were still open, this would wait for ever.
    drop(writer);
    assert_eq!({ reader }.read(&mut [0]).unwrap(), 0);
}

#[test]
fn timeouts_end_waits() {
    let (_one, two) = SeqPacket::pair().unwrap();
    two.set_receive_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(matches!(two.receive(), Err(ReceiveError::TimedOut)));
    two.set_receive_timeout(None).unwrap();
    two.set_nonblocking(true).unwrap();
    assert!(matches!(two.receive(), Err(ReceiveError::TimedOut)));
}

#[test]
fn each_hang_up_is_reported_once_whatever_else_is_sent() {
    let hang_ups = HangUps::new().unwrap();
    let pairs: Vec<_> = (0..100).map(|_| SeqPacket::pair().unwrap()).collect();
    for (id, (watched, _)) in pairs.iter().enumerate() {
        hang_ups.watch(watched, id as u32).unwrap();
    }
    for (_, peer) in &pairs {
        peer.send(&Message::Exiting(()), &[]).unwrap();
    }
    assert_eq!(hang_ups.take().unwrap(), []);
    assert!(!poll(&[Interest::readable(&hang_ups)], Some(Duration::ZERO)).unwrap()[0].readable);
    let watched: Vec<_> = pairs.into_iter().map(|(watched, _)| watched).collect();
    assert!(poll(&[Interest::readable(&hang_ups)], None).unwrap()[0].readable);
    let mut ended = Vec::new();
    while poll(&[Interest::readable(&hang_ups)], Some(Duration::ZERO)).unwrap()[0].readable {
        ended.extend(hang_ups.take().unwrap());
    }
    ended.sort();
    assert_eq!(ended, (0..100).collect::<Vec<_>>());
    drop(watched);
    assert_eq!(hang_ups.take().unwrap(), []);
}

#[test]
fn a_listener_accepts_who_connects() {
    let path = path("listener");
    let listener = Listener::bind(&path, 0o666).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    assert!(listener.accept().unwrap().is_none());
    assert_eq!(Listener::bind(&path, 0o666).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    // The failed attempt did not remove what it did not make.
    let client = SeqPacket::connect(&path, Duration::from_secs(5)).unwrap();
    let ready = poll(&[Interest::readable(&listener)], Some(Duration::from_secs(5))).unwrap();
    assert_eq!(ready, [Readiness { readable: true, ..Default::default() }]);
    let server = listener.accept().unwrap().unwrap();
    for end in [&client, &server] {
        let peer = end.peer_credentials().unwrap();
        let [uid, gid] = [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()];
        assert_eq!(peer, PeerCredentials { pid: std::process::id(), uid, gid });
    }
    client.send(&Message::Exiting(()), &[]).unwrap();
    assert_eq!(server.receive().unwrap().0, Message::Exiting(()));
    drop(listener);
    assert!(!path.exists());
    let error = SeqPacket::connect(&path, Duration::from_secs(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_path_that_no_socket_can_have_is_refused() {
    let long = PathBuf::from("/".to_owned() + &"x".repeat(SOCKET_PATH_BYTES_MAX));
    for error in [
        Listener::bind(&long, 0o600).unwrap_err(),
        SeqPacket::connect(&long, Duration::from_secs(1)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("107"), "{error}");
    }
}

#[test]
fn only_a_connected_socket_of_this_kind_is_taken_over() {
    let (one, _two) = SeqPacket::pair().unwrap();
    SeqPacket::from_fd(one.into_fd()).unwrap();
    let (stream, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(SeqPacket::from_fd(stream.into()).is_err());
    assert!(SeqPacket::from_fd(File::open("/dev/null").unwrap().into()).is_err());
    assert!(SeqPacket::inherit(1).is_err());
    assert!(SeqPacket::inherit(9999).is_err());
}

#[test]
fn a_connection_speaks_what_it_was_answered_in() {
    use crate::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
    let hello = |version: &mut u16, server_speaks: u16| {
        let (ours, theirs) = SeqPacket::pair().unwrap();
        ours.speak(*version);
        ours.send(&Message::Describe(()), &[]).unwrap();
        theirs.receive().unwrap();
        assert_eq!(theirs.speaks(), *version, "it answers in that");
        let too_new = *version > server_speaks;
        theirs.speak(server_speaks.min(*version));
        let refused = Refused { result: 1, reason: "say it again".into() };
        let answer =
            if too_new { Message::Refused(refused) } else { Message::Devices(Default::default()) };
        theirs.send(&answer, &[]).unwrap();
        let (answer, _) = ours.receive().unwrap();
        *version = ours.try_clone().unwrap().speaks();
        match answer {
            Message::Devices(_) => Ok(*version),
            other => Err(Box::new(other)),
        }
    };
    for server in [PROTOCOL_VERSION_MIN, PROTOCOL_VERSION] {
        assert_eq!(in_their_version(|version| hello(version, server)), Ok(server));
    }
    // What is refused in the version that it was said in is refused.
    let mut attempts = 0;
    let refused = in_their_version(|_| {
        attempts += 1;
        Err::<(), _>("no")
    });
    assert_eq!((refused, attempts), (Err("no"), 1));
}
