//! Work in flight: what was posted to a server that is lost and is not known to be done.

use crate::{Access, Again, Journal, Mark, Operation, Policy, Posted, Verdict, sort};
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
        Self { posted, known, complete, whole }
    }

    /// Decides what becomes of it, by what each operation does with memory and whether it can be done
    /// once more: what is to be posted again, in this order; `None` if the program is to be told that
    /// work is lost. To be called once more if the server to which it is posted is lost too.
    pub fn again(
        &mut self,
        policy: Policy,
        mut facts: impl FnMut(&Posted) -> (Again, Access),
    ) -> Option<Vec<&Posted>> {
        let operations: Vec<Operation> = self
            .posted
            .iter()
            .zip(&self.known)
            .map(|(posted, (done, waited))| {
                let (again, access) = facts(posted);
                Operation { taken: posted.taken, done: *done, waited: *waited, again, access }
            })
            .collect();
        let Verdict::Repeat(which) = sort(&operations, self.complete, self.whole, policy) else {
            return None;
        };
        // Should the next server be lost before all of it is posted, a part may have been done once more.
        for index in &which {
            self.posted[*index].taken = true;
            self.known[*index].0 = false;
        }
        Some(which.into_iter().map(|index| &self.posted[index]).collect())
    }
}
