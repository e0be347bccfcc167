//! Outbox: messages to the control daemon that wait for room in its socket, so that a daemon that does
//! not read holds up no client.

use crate::log::Log;
use channel::message::{Answer, Answered, Message};
use channel::socket::{Interest, SeqPacket, poll};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Messages that wait at most, if one of them is a report: more than the ends of all clients at once and
/// what the daemon asks meanwhile.
const WAITING_MAX: usize = 8 * crate::window::CLIENTS_MAX;

/// Messages that have not been sent, in order.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Message>,
    /// Reports that found no room since the socket was last seen with room.
    dropped: u64,
}

/// True for a message that says how things are or were: the daemon asks again for most. All others
/// change what the daemon does, and are at most some a client.
fn is_report(message: &Message) -> bool {
    let of_answer = |answered: &Answered| {
        matches!(answered, Answered::Status(_) | Answered::Counts(_) | Answered::Trace(_))
    };
    match message {
        Message::Answer(Answer { answered, .. }) => of_answer(answered),
        message => matches!(message, Message::Ended(_)),
    }
}

impl Outbox {
    /// Sends a message, or keeps it until there is room. `socket` does not block.
    pub(super) fn send(&mut self, socket: &SeqPacket, log: &Log, message: &Message) {
        if self.waiting.is_empty() && was_taken(socket, log, message) {
            return;
        }
        // The newest stays: it is what a daemon that reads again waits for.
        let full = self.waiting.len() >= WAITING_MAX;
        if let Some(oldest) = full.then(|| self.waiting.iter().position(is_report)).flatten() {
            if self.dropped == 0 {
                log.line("The control daemon does not read: reports to it are dropped");
            }
            self.waiting.remove(oldest);
            self.dropped += 1;
        }
        self.waiting.push_back(message.clone());
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, socket: &SeqPacket, log: &Log) {
        while self.waiting.front().is_some_and(|message| was_taken(socket, log, message)) {
            self.waiting.pop_front();
        }
        if self.waiting.is_empty() {
            self.say_dropped(log);
        }
    }

    /// Sends all, waiting for room for so long at most.
    pub(super) fn finish(&mut self, socket: &SeqPacket, log: &Log, patience: Duration) {
        let end = Instant::now() + patience;
        self.flush(socket, log);
        while !self.waiting.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || poll(&[Interest::writable(socket)], Some(left)).is_err() {
                let lost = self.waiting.len();
                log.line(format!(
                    "{lost} messages to the control daemon are lost: it does not read"
                ));
                break;
            }
            self.flush(socket, log);
        }
        self.say_dropped(log);
    }

    /// True if messages wait for room.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn say_dropped(&mut self, log: &Log) {
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            log.line(format!("{dropped} reports were dropped: the control daemon did not read"));
        }
    }
}

/// False if there was no room for it. One that cannot be sent at all counts as taken.
fn was_taken(socket: &SeqPacket, log: &Log, message: &Message) -> bool {
    match socket.send(message, &[]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
        Err(error) => {
            let name = message.name();
            log.line(format!("{name} cannot be sent to the control daemon: {error}"));
        }
        Ok(()) => {}
    }
    true
}
