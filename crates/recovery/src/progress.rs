//! Progress of a stream: which of its operations were posted, fenced, done, waited for and lost.
//!
//! Numbers are 64 bits wide and never wrap; in shared memory stand their lower 32.

use crate::Mark;
use channel::region::Region;

/// Where the completion words are.
pub trait Words {
    /// The word of a slot.
    fn word(&self, slot: u32) -> u32;
}

impl Words for Region {
    #[inline(always)]
    fn word(&self, slot: u32) -> u32 {
        self.completion_word(slot).map_or(0, |word| word.load())
    }
}

/// How far the stream of a slot has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Operations posted by the program.
    issued: u64,
    /// Those of them that were posted to the present server, or need not be: fewer than all only while
    /// work in flight is posted again.
    posted: u64,
    /// Operations that a posted fence covers.
    fenced: u64,
    /// Operations known to have passed.
    completed: u64,
    /// Operations that the program has waited for.
    waited: u64,
    /// Operations that had been posted when the program waited for some of them, and not for all.
    split: u64,
    /// Operations up to here were lost with their server.
    lost: u64,
}

impl Progress {
    /// Of a stream whose last operation has that number, and whose operations have passed.
    pub fn at(value: u64) -> Self {
        Self { issued: value, posted: value, fenced: value, completed: value, ..Self::default() }
    }

    /// Counts an operation that was just posted. Returns its number.
    #[inline(always)]
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.posted = self.issued;
        self.issued
    }

    /// Operations posted.
    #[inline(always)]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// What a fence that is posted now covers.
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// Operations known to have passed.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Operations that the program has waited for.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// The number that a fence must write so that the operation of that number can be waited for;
    /// `None` if one is underway.
    pub fn fence_for(&self, value: u64) -> Option<u64> {
        (self.fenced < value).then_some(self.posted)
    }

    /// Counts a fence that was just posted.
    pub fn fenced(&mut self, value: u64) {
        self.fenced = self.fenced.max(value);
    }

    /// True if operations were posted that no fence covers.
    pub fn is_unfenced(&self) -> bool {
        self.fenced < self.posted
    }

    /// True if the operation of a mark in this slot has passed, as far as the device has said.
    #[inline]
    pub fn passed(&mut self, mark: Mark, words: &impl Words) -> bool {
        if self.completed < mark.value {
            let ahead = words.word(mark.slot).wrapping_sub(self.completed as u32);
            // Neither a word that goes back nor one that is ahead of all fences is believed.
            if (ahead as i32) > 0 {
                self.completed = self.fenced.min(self.completed + u64::from(ahead));
            }
        }
        self.completed >= mark.value
    }

    /// The program has waited for the operation of that number.
    pub fn waited_for(&mut self, value: u64) {
        if value > self.waited {
            self.waited = value;
            self.split = self.issued;
        }
    }

    /// The last operation that was posted before the program waited for one before it, if the program has not
    /// waited for it since: what is repeated would begin in the middle of what was posted.
    pub fn split(&self) -> Option<u64> {
        (self.split > self.waited).then_some(self.split)
    }

    /// With a new server: no fence is underway, what has passed is known, and nothing more was posted.
    pub fn forget_fences(&mut self) {
        self.fenced = self.completed;
        self.posted = self.completed;
    }

    /// The operation of that number is to be posted again, whether it had passed or not: it and those behind it
    /// pass once more. The completion word is to be set to [`Self::completed`].
    pub fn repeat(&mut self, value: u64) {
        self.completed = self.completed.min(value.saturating_sub(1));
        self.fenced = self.fenced.min(self.completed);
        self.posted = self.posted.min(self.completed);
    }

    /// The operation of that number was posted again.
    pub fn posted_again(&mut self, value: u64) {
        self.posted = self.posted.max(value);
    }

    /// All that is to be posted again was.
    pub fn all_is_posted(&mut self) {
        self.posted = self.issued;
    }

    /// Everything that is outstanding is lost: it counts as passed, with nothing done.
    pub fn lose(&mut self) {
        if self.completed < self.issued {
            self.lost = self.issued;
        }
        (self.completed, self.fenced, self.posted) = (self.issued, self.issued, self.issued);
    }

    /// True if the operation of that number was lost with its server, or one behind it was.
    pub fn was_lost(&self, value: u64) -> bool {
        self.lost >= value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word(u32);

    impl Words for Word {
        fn word(&self, _slot: u32) -> u32 {
            self.0
        }
    }

    #[test]
    fn what_is_repeated_has_not_passed_until_it_is_done_again() {
        let mut progress = Progress::default();
        let end = (0..3).map(|_| progress.issue()).last().unwrap_or(0);
        progress.fenced(end);
        let mark = |value| Mark { slot: 0, value };
        assert!(progress.passed(mark(end), &Word(3)));
        progress.forget_fences();
        progress.repeat(2);
        assert!(!progress.is_unfenced() && progress.completed() == 1);
        progress.posted_again(2);
        assert_eq!(progress.fence_for(end), Some(2), "of no more than was posted");
        progress.all_is_posted();
        assert_eq!(progress.fence_for(end), Some(end));
        progress.fenced(end);
        assert!(!progress.passed(mark(end), &Word(1)));
        assert!(progress.passed(mark(end), &Word(3)));
    }
}
