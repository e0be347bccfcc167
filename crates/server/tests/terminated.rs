//! Termination of a client whose work only the server's end ends: the server asks for another one in its
//! place, and answers before it ends. One test, because the work never ends.

mod support;

use channel::message::{Answer, Answered, Message, Question};
use server::Exit;
use support::*;

#[test]
fn a_termination_is_answered_by_the_server_that_ends_for_its_sake() {
    let mut server = Server::start(false);
    server.corrupted = true;
    let mut client = server.connect();
    client.load();
    client.launch("hold", LEGACY, &9400u32.to_le_bytes());
    client.settle();
    let id = server.status().clients[0].id;
    server.ask(5, Question::Terminate(id));
    let Message::Replace(reason) = server.receive() else { panic!("it asks for another server") };
    assert!(reason.contains("does not end"), "{reason}");
    // No client is there that could go on elsewhere.
    server.daemon.send(&Message::Move(()), &[]).expect("the word to move");
    let done = Message::Answer(Answer { number: 5, answered: Answered::Done(0) });
    assert_eq!(server.receive(), done);
    assert_eq!(server.wait(), Exit::Replaced);
}
