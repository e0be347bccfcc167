//! Servers that were lost one after the other at the same work of this program: it may well be the reason.

use recovery::Mark;

/// Servers that may be lost one after the other at the same work before that is no longer repeated.
pub(in crate::program) const LOST_AT_WORK_MAX: u32 = 5;

/// Losses of servers at work that makes no progress.
#[derive(Debug, Default)]
pub(in crate::program) struct LostAtWork {
    /// The first operation that was not done.
    first: Option<Mark>,
    servers: u32,
}

impl LostAtWork {
    /// A server was lost with that operation as the first one that was not done. Returns how many were by now.
    pub(in crate::program) fn count(&mut self, first: Option<Mark>) -> u32 {
        let same = first.is_some() && first == self.first;
        *self = Self {
            first,
            servers: if same { self.servers + 1 } else { u32::from(first.is_some()) },
        };
        self.servers
    }

    /// How many were lost at the same work.
    pub(in crate::program) fn servers(&self) -> u32 {
        self.servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_losses_at_the_same_work_count_together() {
        let mark = |value| Some(Mark { slot: 1, value });
        let mut lost = LostAtWork::default();
        assert_eq!([mark(5), mark(5), mark(5)].map(|first| lost.count(first)), [1, 2, 3]);
        assert_eq!([mark(6), None, None, mark(6)].map(|first| lost.count(first)), [1, 0, 0, 1]);
    }
}
