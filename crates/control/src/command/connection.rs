//! A shell's connection: a thread that carries out one command and answers. It may wait as long
//! as the command does; the event loop does not.

use super::Answer;
use crate::daemon::{CommandConnection, Daemon};
use channel::message::{Message, Reply};
use channel::socket::SeqPacket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Shells at one time, those that wait in `quit` included.
const UI_MAX: usize = 64;
/// Of these, kept for root and the daemon's owner.
const UI_OWNER: usize = 16;
/// How long a shell may take to read its answer.
const READ_S_MAX: u64 = 10;
/// After the daemon's end, shells still get their answers for so long.
const LAST_ANSWERS_MS_MAX: u64 = 2000;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a thread while it lives.
struct Slot;

impl Slot {
    fn take(owner: bool) -> Option<Slot> {
        let taken = RUNNING.fetch_add(1, Ordering::Relaxed);
        let slot = Slot;
        let free = if owner { UI_MAX } else { UI_MAX - UI_OWNER };
        (taken < free).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A shell that the daemon counts until it has its answer.
struct Shell(Arc<Daemon>);

impl Drop for Shell {
    fn drop(&mut self) {
        self.0.shells.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether any shell still waits for its answer.
fn any_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

/// Lets shells have their answers once the daemon has ended, within reason.
pub fn finish() {
    let deadline = Instant::now() + Duration::from_millis(LAST_ANSWERS_MS_MAX);
    while any_running() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Starts the thread for a shell that has sent a command.
pub fn start(daemon: &Arc<Daemon>, connection: CommandConnection) {
    let CommandConnection { socket, peer, owner, line } = connection;
    // For the thread it is an ordinary socket, but no wait for the shell is without end.
    let timeout = Some(Duration::from_secs(READ_S_MAX));
    if socket.set_nonblocking(false).and_then(|()| socket.set_send_timeout(timeout)).is_err() {
        return;
    }
    let Some(slot) = Slot::take(owner) else {
        let text = "too many commands run already, try again later\n".to_owned();
        answer(&socket, &Answer { text, status: 1 });
        return;
    };
    let daemon = daemon.clone();
    daemon.shells.fetch_add(1, Ordering::AcqRel);
    let shell = Shell(daemon.clone());
    let body = move || {
        let log = |text: &str| {
            if super::is_logged(&line) {
                daemon.log(text);
            }
        };
        log("NEW UI");
        log(&format!("Cmd:{line}"));
        let result = super::run(&daemon, &line, peer.uid, peer.gid, owner);
        result.text.lines().for_each(log);
        answer(&socket, &result);
        log("UI closed");
        drop((slot, shell));
    };
    // If there can be no thread, the socket is closed with the closure: the shell sees that.
    let _ = std::thread::Builder::new().name("ui".to_owned()).spawn(body);
}

fn answer(socket: &SeqPacket, answer: &Answer) {
    for piece in Reply::split(answer.status, &answer.text) {
        if socket.send(&Message::Reply(piece), &[]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_shells_and_some_places_are_the_owners() {
        let take = |owner| std::iter::from_fn(move || Slot::take(owner)).take(2 * UI_MAX);
        let others: Vec<Slot> = take(false).collect();
        assert_eq!(others.len(), UI_MAX - UI_OWNER);
        let owners: Vec<Slot> = take(true).collect();
        assert_eq!(owners.len(), UI_OWNER);
        assert!(any_running());
        drop(others);
        assert!(Slot::take(false).is_some() && Slot::take(true).is_some());
        drop(owners);
        assert!(!any_running());
    }
}
