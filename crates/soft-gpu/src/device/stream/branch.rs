//! Work that a word chooses when its stream gets there: what conditional nodes of graphs become.
//!
//! The chosen operations run in the place of the branch, in the same stream, one after the other;
//! the branch is complete when they are. A branch that chooses itself again is a loop. One that
//! goes round without anything that takes time in between must not hold the core's lock for ever:
//! it looks at its word once a tick.

use std::sync::Arc;

use crate::device::execution::core::Core;
use crate::device::slab::Key;
use crate::device::stream::{Head, Op, Stream};

/// What a word's value leads to.
pub struct Chosen {
    /// To be done in this order; none of them is a record, a write, a wait or a host function,
    /// whose places in their stream others know.
    pub ops: Vec<Op>,
    /// Look at the word again afterwards.
    pub again: bool,
}

/// A choice by a word.
#[derive(Clone)]
pub struct Branch {
    address: u64,
    choose: Arc<dyn Fn(u32) -> Chosen + Send + Sync>,
    /// How much its stream had done when it last chose itself.
    seen: Option<u64>,
}

impl Branch {
    /// A choice by the 32-bit word at `address`, which is a multiple of 4. `choose` is called with
    /// the core locked: it must not wait, nor ask the device for anything.
    pub fn new(address: u64, choose: impl Fn(u32) -> Chosen + Send + Sync + 'static) -> Self {
        Self { address, choose: Arc::new(choose), seen: None }
    }
}

enum Attempt {
    Read(u32),
    Later,
    Fault,
}

impl Core {
    /// Puts what the word chooses in the place of the branch, which is no longer in the queue.
    /// True if the stream came a step further.
    pub(in crate::device) fn start_branch(&mut self, key: Key<Stream>, mut branch: Branch) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        let idle_loop = branch.seen.take() == Some(stream.works);
        let attempt = match stream.tenant.copies.try_word(branch.address, 4) {
            _ if idle_loop => Attempt::Later,
            None => Attempt::Later,
            Some(None) => Attempt::Fault,
            Some(Some(word)) => Attempt::Read(word.load() as u32),
        };
        let word = match attempt {
            Attempt::Read(word) => word,
            Attempt::Later => {
                stream.head = Head::Branch(branch);
                self.wait_for_tick(key);
                return false;
            }
            Attempt::Fault => {
                self.fault_at_value(key, branch.address, 4);
                self.complete_one(key);
                return true;
            }
        };
        let chosen = (branch.choose)(word);
        match chosen.again {
            true => {
                branch.seen = Some(stream.works);
                stream.chosen.push_front(Op::Branch(branch));
            }
            false => self.after.drop_op(Op::Branch(branch)),
        }
        for op in chosen.ops.into_iter().rev() {
            stream.chosen.push_front(op);
        }
        self.complete_one(key);
        true
    }

    /// The tick came for a branch: it is next again.
    pub(in crate::device) fn retry_branch(&mut self, key: Key<Stream>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if let Head::Branch(branch) = std::mem::replace(&mut stream.head, Head::Idle) {
            stream.chosen.push_front(Op::Branch(branch));
            self.ready.push(key);
        }
    }
}
