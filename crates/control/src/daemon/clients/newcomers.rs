//! Newcomers: connections of users of whom it is not known yet what the name service says. A thread asks
//! it, so that one that does not answer has that user alone wait.

use super::admission::Silent;
use crate::daemon::Daemon;
use crate::users;
use locks::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Users about whom the name service is asked at a time.
const ASKED_MAX: usize = 64;
/// After so long without an answer a connection is refused.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Users about whom a thread asks just now.
static ASKED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A connection that waits for what the name service says of its user.
pub(in crate::daemon) struct Newcomer {
    pub silent: Silent,
    pub deadline: Instant,
}

impl Newcomer {
    pub fn new(silent: Silent) -> Newcomer {
        Newcomer { silent, deadline: Instant::now() + ANSWER_MAX }
    }
}

/// Has a thread ask about a user, unless one does, or what it says is fresh. True if nothing need be
/// waited for.
pub(in crate::daemon) fn is_known(daemon: &Arc<Daemon>, uid: u32) -> bool {
    if !users::is_fresh(uid) {
        ask(daemon, uid);
    }
    users::is_known(uid)
}

fn ask(daemon: &Arc<Daemon>, uid: u32) {
    let asked = || ASKED.lock();
    {
        let mut asked = asked();
        if asked.len() >= ASKED_MAX || !asked.insert(uid) {
            return;
        }
    }
    let daemon = daemon.clone();
    let body = move || {
        users::learn(uid);
        asked().remove(&uid);
        daemon.wake();
    };
    if std::thread::Builder::new().name("users".to_owned()).spawn(body).is_err() {
        asked().remove(&uid);
    }
}
