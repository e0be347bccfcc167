//! Recovery of a client: another server in the place of a lost one, and what was in flight posted again.

use super::*;

impl World {
    /// Another server is lost before all is declared: the next one, if an error does not end the program.
    pub(super) fn lost_in_recovery(&mut self, client: usize, current: usize) {
        let connection = &self.connections[current];
        let is_end = connection.end.is_some_and(|end| end.error().is_some());
        match is_end || connection.sticky {
            true => self.find_loss(client, current),
            false => self.attempt_failed(client, Obstacle::Lost),
        }
    }

    pub(super) fn begin_recovery(&mut self, client: usize) {
        self.note(|| format!("client {client} looks for a server"));
        let of = &mut self.clients[client];
        (of.attempts, of.in_flight, of.lost_at_us) = (Attempts::default(), None, self.now_us);
        self.attempt(client);
    }

    /// What `Client::move_to_another` does up to the connection.
    pub(super) fn attempt(&mut self, client: usize) {
        let of = &mut self.clients[client];
        if let Some(current) = of.current {
            let old = &self.connections[current];
            of.rough |= old.rough;
            let finished = old.end == Some(SessionEnd::HandedOver);
            let words = Completed(old.words);
            let waited = of.progress.each_ref().map(Progress::waited);
            let waited = |mark: Mark| waited[mark.slot as usize] >= mark.value;
            let (journal, progress) = (&mut of.journal, &mut of.progress);
            if of.policy == ReplayPolicy::Always {
                for (slot, value) in (0..).zip(progress.iter().map(Progress::split)) {
                    value.into_iter().for_each(|value| journal.note_unwaited(Mark { slot, value }));
                }
            }
            let passed = |mark: Mark| progress[mark.slot as usize].passed(mark, &words);
            let taken = InFlight::take(journal, &old.ring, finished, passed, waited);
            of.in_flight.get_or_insert(taken);
            of.progress.iter_mut().for_each(Progress::forget_fences);
        }
        self.say_hello(client, 1);
    }

    pub(super) fn say_hello(&mut self, client: usize, tries: u32) {
        let mut connection = Connection::new();
        let completed = self.clients[client].progress.each_ref().map(Progress::completed);
        connection.words = completed.map(|value| value as u32);
        let number = self.connections.len();
        if self.daemon.alive {
            self.daemon.hellos.push_back((client, number));
            self.wake_daemon();
        } else {
            connection.refused = Some(Obstacle::Lost);
        }
        self.connections.push(connection);
        self.clients[client].connection = Some(number);
        self.clients[client].recovery = Some(Recovery::Connecting { connection: number, tries });
    }

    pub(super) fn attempt_failed(&mut self, client: usize, obstacle: Obstacle) {
        let now_us = self.now_us;
        self.note(|| format!("client {client}: an attempt fails, {obstacle:?}"));
        match self.clients[client].attempts.failed(obstacle) {
            Some(pause) => {
                let until_us = now_us + pause.as_micros() as u64;
                self.clients[client].recovery = Some(Recovery::Pausing { until_us, tries: 0 });
                self.client_by(client, until_us);
            }
            None => {
                if self.daemon.alive && self.broken_us.is_empty() {
                    self.fail(format!("client {client} gets no server"));
                }
                self.end_client(client, Fate::GaveUp);
            }
        }
    }

    pub(super) fn recovery_turn(&mut self, client: usize) {
        let Some(recovery) = self.clients[client].recovery.clone() else { return };
        match recovery {
            Recovery::Pausing { until_us, .. } if self.now_us < until_us => {
                self.client_by(client, until_us);
            }
            Recovery::Pausing { tries: 0, .. } => self.attempt(client),
            Recovery::Pausing { tries, .. } => self.say_hello(client, tries),
            Recovery::Connecting { connection, tries } => {
                self.connecting(client, connection, tries)
            }
            Recovery::Declaring { until_us } => {
                let Some(current) = self.clients[client].current else { return };
                if self.connections[current].is_lost() {
                    self.lost_in_recovery(client, current);
                } else if self.now_us < until_us {
                    self.client_by(client, until_us);
                } else {
                    self.replay(client, current);
                }
            }
            Recovery::Posting(left) => self.post_again(client, left),
        }
    }

    pub(super) fn connecting(&mut self, client: usize, connection: usize, tries: u32) {
        let now_us = self.now_us;
        let here = &self.connections[connection];
        if let Some(obstacle) = here.refused {
            return self.attempt_failed(client, obstacle);
        }
        let Some(window) = here.welcome.filter(|_| !here.closed) else {
            // Closed without a word.
            if here.closed && tries < TRIES_MAX {
                let until_us = now_us + (TRY_PAUSE_US << (tries - 1));
                self.clients[client].recovery =
                    Some(Recovery::Pausing { until_us, tries: tries + 1 });
                self.client_by(client, until_us);
            } else if here.closed || !self.daemon.alive {
                self.attempt_failed(client, Obstacle::Lost);
            }
            return;
        };
        let ring = here.ring.clone();
        let of = &mut self.clients[client];
        if of.window.replace(window).is_some_and(|before| before != window) {
            return self.fail(format!("client {client} gets other addresses than it had"));
        }
        let lost = of.current.replace(connection);
        of.replaced.extend(lost);
        // What was not reported to the program yet is reported by this one.
        self.connections[connection].to_report =
            lost.is_some_and(|lost| self.connections[lost].to_report);
        let of = &mut self.clients[client];
        of.producer = Some(Producer::new(ring, SpinPolicy::NONE));
        let until_us = now_us + self.random.between(100, 8_000);
        self.clients[client].recovery = Some(Recovery::Declaring { until_us });
        self.client_by(client, until_us);
    }

    /// What `Client::replay` does.
    pub(super) fn replay(&mut self, client: usize, current: usize) {
        let of = &mut self.clients[client];
        let policy = of.policy;
        let Some(in_flight) = &mut of.in_flight else { return self.live(client, 0) };
        match in_flight.may_repeat(policy, facts) {
            true => {
                in_flight.keep_done(&mut of.journal);
                let again: VecDeque<Posted> = in_flight.again().cloned().collect();
                self.note(|| {
                    let decode = |of: &Posted| Operation::decode(of.opcode, &of.words);
                    let list: Vec<_> = again.iter().map(decode).collect();
                    format!("client {client} posts again {list:?}")
                });
                let of = &mut self.clients[client];
                for posted in &again {
                    of.progress[posted.mark.slot as usize].repeat(posted.mark.value);
                }
                let completed = of.progress.each_ref().map(Progress::completed);
                self.connections[current].words = completed.map(|value| value as u32);
                self.post_again(client, again);
            }
            false => {
                for (slot, progress) in of.progress.iter_mut().enumerate() {
                    progress.lose();
                    self.connections[current].words[slot] = progress.completed() as u32;
                }
                self.connections[current].to_report = true;
                self.note(|| format!("client {client} has lost work"));
                self.live(client, 0);
            }
        }
    }

    /// What `Submission::post_again` does.
    pub(super) fn post_again(&mut self, client: usize, mut left: VecDeque<Posted>) {
        let Some(current) = self.clients[client].current else { return };
        while let Some(posted) = left.pop_front() {
            if !self.has_room(client, current) {
                left.push_front(posted);
                if self.connections[current].is_lost() {
                    return self.lost_in_recovery(client, current);
                }
                self.clients[client].recovery = Some(Recovery::Posting(left));
                return self.wake_client(client);
            }
            self.look_through(client, current);
            self.push(client, posted.opcode, &posted.words, Some(posted.mark));
            let slot = posted.mark.slot as usize;
            self.clients[client].progress[slot].posted_again(posted.mark.value);
        }
        for slot in 0..STREAMS {
            self.clients[client].progress[slot].all_is_posted();
            self.fence(client, slot, false);
        }
        self.live(client, current);
    }

    pub(super) fn live(&mut self, client: usize, _current: usize) {
        let of = &mut self.clients[client];
        (of.recovery, of.in_flight) = (None, None);
        let pause_us = self.now_us - of.lost_at_us;
        of.longest_us = of.longest_us.max(pause_us);
        let replaced = std::mem::take(&mut of.replaced);
        self.note(|| format!("client {client} goes on after {pause_us} us"));
        replaced.into_iter().for_each(|connection| self.leave(connection));
        if let Phase::Waiting(marks, _) = self.clients[client].phase.clone() {
            self.fences_for(client, &marks);
        }
        self.wake_client(client);
    }
}
