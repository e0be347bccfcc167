//! Work in flight: what was posted to a server that is lost and is not known to be done.

use crate::{Access, Again, Journal, Mark, Operation, Posted, ReplayDecision, ReplayPolicy, sort};
use channel::ring::{Position, RingMemory};

/// What was posted to a server that is lost and is not known to be done.
#[derive(Clone, Debug)]
pub struct InFlight {
    posted: Vec<Posted>,
    /// By index: known to be done, and waited for by the program.
    known: Vec<(bool, bool)>,
    complete: bool,
    /// It is all that the program has not waited for.
    whole: bool,
    /// Indices of those that are posted again.
    again: Vec<usize>,
}

impl InFlight {
    /// Reads back what is in flight. `ring` is that of the lost connection, which nothing writes any
    /// more; `finished`: its server has ended as planned, and has done what it had taken, fence or not.
    /// `passed` says whether an operation has passed as far as the device has said, `waited` whether the
    /// program has waited for it.
    pub fn take<M: RingMemory>(
        journal: &mut Journal<M>,
        ring: &M,
        finished: bool,
        mut passed: impl FnMut(Mark) -> bool,
        waited: impl Fn(Mark) -> bool,
    ) -> Self {
        let whole = journal.is_whole(&waited);
        let (posted, complete) = journal.take(ring, ring.position(Position::Tail));
        let complete = complete || finished;
        let known = posted
            .iter()
            .map(|of| {
                // Of some that passed only the program's waits for later ones say so.
                let waited = waited(of.mark);
                (passed(of.mark) || finished && of.taken || waited, waited)
            })
            .collect();
        Self { posted, known, complete, whole, again: Vec::new() }
    }

    /// The first operation that is not done.
    pub fn first_undone(&self) -> Option<Mark> {
        let mut all = self.posted.iter().zip(&self.known);
        all.find(|(_, (done, _))| !done).map(|(posted, _)| posted.mark)
    }

    /// Decides what becomes of it, by what each operation does with memory and whether it can be done
    /// once more: false if lost work is to be reported to the program. To be called once more if the server to
    /// which it is posted is lost too.
    pub fn may_repeat(
        &mut self,
        policy: ReplayPolicy,
        mut facts: impl FnMut(&Posted) -> (Again, Access),
    ) -> bool {
        let operations: Vec<Operation> = self
            .posted
            .iter()
            .zip(&self.known)
            .map(|(posted, (done, waited))| {
                let (again, access) = facts(posted);
                Operation { taken: posted.taken, done: *done, waited: *waited, again, access }
            })
            .collect();
        let ReplayDecision::Repeat(which) = sort(&operations, self.complete, self.whole, policy)
        else {
            return false;
        };
        // Should the next server be lost before all of it is posted, a part may have been done once more.
        for index in &which {
            self.posted[*index].taken = true;
            self.known[*index].0 = false;
        }
        self.again = which;
        true
    }

    /// What is to be posted again, in this order.
    pub fn again(&self) -> impl Iterator<Item = &Posted> {
        self.again.iter().map(|index| &self.posted[*index])
    }

    /// Has the journal of the next ring keep what is not posted again and the program has not waited for, before
    /// anything is posted there: should that server be lost too, it is a part of the window.
    pub fn keep_done<M: RingMemory>(&self, journal: &mut Journal<M>) {
        for (posted, (done, waited)) in self.posted.iter().zip(&self.known) {
            if *done && !waited {
                journal.keep(posted.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::ring::{LocalRing, Producer};
    use channel::wait::SpinPolicy;

    type Ring = LocalRing<4096>;

    /// A program on one stream, whose servers are lost.
    struct Program {
        journal: Journal<Ring>,
        ring: Ring,
        producer: Producer<Ring>,
        posted: u64,
    }

    impl Program {
        fn new() -> Self {
            let ring = Ring::default();
            let producer = Producer::new(ring.clone(), SpinPolicy::NONE);
            Self { journal: Journal::new(), ring, producer, posted: 0 }
        }

        fn post(&mut self) {
            self.posted += 1;
            self.producer.push(1, &[self.posted], &[], &|| true).unwrap();
            let mark = Mark { slot: 0, value: self.posted };
            self.journal.note(self.producer.last_position(), mark);
        }

        /// What is posted again to the next server, by its numbers, after operations up to `done` have passed, of
        /// which the program has waited for none.
        fn lose(&mut self, policy: ReplayPolicy, done: u64) -> Option<Vec<u64>> {
            self.ring.publish(Position::Tail, self.producer.head());
            let passed = |mark: Mark| mark.value <= done;
            let mut in_flight =
                InFlight::take(&mut self.journal, &self.ring, false, passed, |_| false);
            let facts = |_: &Posted| (Again::Can, Access { opaque: true, ..Access::default() });
            let may = in_flight.may_repeat(policy, facts);
            let again: Option<Vec<Posted>> = may.then(|| in_flight.again().cloned().collect());
            in_flight.keep_done(&mut self.journal);
            self.ring = Ring::default();
            self.producer = Producer::new(self.ring.clone(), SpinPolicy::NONE);
            for posted in again.iter().flatten() {
                self.producer.push(posted.opcode, &posted.words, &[], &|| true).unwrap();
                self.journal.note(self.producer.last_position(), posted.mark);
            }
            again.map(|again| again.iter().map(|posted| posted.words[0]).collect())
        }
    }

    #[test]
    fn a_second_server_is_lost_with_all_that_the_program_has_not_waited_for() {
        let mut program = Program::new();
        program.post();
        program.post();
        // All is done: nothing is posted again.
        assert_eq!(program.lose(ReplayPolicy::Always, 2), Some(vec![]));
        program.post();
        // A part of the window alone would be done twice.
        assert_eq!(program.lose(ReplayPolicy::Always, 2), Some(vec![1, 2, 3]));
        assert_eq!(program.lose(ReplayPolicy::Auto, 2), None);
    }
}
