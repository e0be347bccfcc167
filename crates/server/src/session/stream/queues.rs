//! CUDA_DEVICE_MAX_CONNECTIONS: the queues that a client's streams share.
//!
//! A queue is served in order: work of a stream waits for what the queue's other streams have submitted
//! before it. NVIDIA's driver has as many hardware queues as its process asks for, which is the server
//! and asks for all of them; so a client's own number is kept here, with events between its streams.

use cuda_api::handle::Handle;

/// Which stream used each queue last, by its word.
#[derive(Debug, Default)]
pub struct Queues {
    last: Vec<u64>,
}

impl Queues {
    /// So many queues; 0: each stream has its own.
    pub fn new(count: u32) -> Self {
        Self { last: vec![0; count as usize] }
    }

    /// The stream that a stream's queue served before it, if that is another one.
    #[inline]
    pub(in crate::session) fn before(&self, word: u64) -> Option<u64> {
        let before = *self.last.get(self.at(word)?)?;
        (before != 0 && before != word).then_some(before)
    }

    /// A stream submits, behind the one before it.
    #[inline]
    pub(in crate::session) fn enter(&mut self, word: u64) {
        if let Some(last) = self.at(word).and_then(|at| self.last.get_mut(at)) {
            *last = word;
        }
    }

    fn at(&self, word: u64) -> Option<usize> {
        // Most clients name no number, and this is on the way of each launch.
        if self.last.is_empty() {
            return None;
        }
        Some(Handle::from_word(word)?.index as usize % self.last.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::handle::HandleKind;

    #[test]
    fn streams_take_the_queues_in_turn() {
        let stream = |index| Handle { kind: HandleKind::Stream, index, generation: 1 }.to_word();
        let enter = |queues: &mut Queues, index| {
            let before = queues.before(stream(index));
            assert_eq!(queues.before(stream(index)), before, "asking changes nothing");
            queues.enter(stream(index));
            before
        };
        let mut queues = Queues::new(2);
        assert_eq!((enter(&mut queues, 0), enter(&mut queues, 1)), (None, None));
        assert_eq!(enter(&mut queues, 0), None, "it was the last one there");
        assert_eq!(enter(&mut queues, 2), Some(stream(0)));
        assert_eq!(enter(&mut queues, 3), Some(stream(1)));
        let mut own = Queues::new(0);
        assert_eq!((enter(&mut own, 1), enter(&mut own, 2)), (None, None));
    }
}
