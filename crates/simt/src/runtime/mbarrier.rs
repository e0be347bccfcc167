//! `mbarrier` objects: the format of the 64-bit word, with pending arrivals, pending bytes and the
//! phase.
//!
//! PTX leaves the contents open; a program may only count on its size. Every change is one value
//! from another, so that the code that changes one in memory decides how to do so atomically.
//!
//! | bits | |
//! |---|---|
//! | 0 to 19 | arrivals that the phase still waits for |
//! | 20 to 39 | arrivals that each phase waits for |
//! | 40 to 60 | bytes announced and not yet written, two's complement |
//! | 61 to 63 | phase, modulo 8 |

/// Bits of a number of arrivals.
const COUNT_BITS: u32 = 20;
/// Largest number of arrivals: PTX's limit.
pub const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const EXPECTED: u32 = COUNT_BITS;
const BYTES: u32 = 2 * COUNT_BITS;
const BYTES_BITS: u32 = 21;
const PHASE: u32 = BYTES + BYTES_BITS;

/// An object's value, and what `mbarrier.arrive` returns: the value before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    /// A new object, waiting for `count` arrivals a phase.
    pub fn new(count: u32) -> Self {
        let count = u64::from(count & COUNT_MAX);
        Self(count | count << EXPECTED)
    }

    /// Arrivals that the phase still waits for.
    pub fn pending(self) -> u32 {
        self.0 as u32 & COUNT_MAX
    }

    fn expected(self) -> u32 {
        (self.0 >> EXPECTED) as u32 & COUNT_MAX
    }

    fn bytes(self) -> i64 {
        ((self.0 << (64 - PHASE)) as i64) >> (64 - BYTES_BITS)
    }

    /// Number of the phase, modulo 8.
    pub fn phase(self) -> u32 {
        (self.0 >> PHASE) as u32
    }

    fn with(self, pending: u32, expected: u32, bytes: i64) -> Self {
        let bytes = bytes as u64 & ((1 << BYTES_BITS) - 1);
        Self(
            u64::from(pending & COUNT_MAX)
                | u64::from(expected & COUNT_MAX) << EXPECTED
                | bytes << BYTES
                | self.0 >> PHASE << PHASE,
        )
    }

    /// The next phase, if this one waits for nothing more.
    fn settled(self) -> Self {
        if self.pending() != 0 || self.bytes() != 0 {
            return self;
        }
        let next = Self(self.0.wrapping_add(1 << PHASE));
        next.with(self.expected(), self.expected(), 0)
    }

    /// `count` threads arrive; those that drop are not expected in later phases. More than are
    /// pending is undefined in PTX; here the rest is ignored.
    #[must_use]
    pub fn arrive(self, count: u32, drop: bool) -> Self {
        let pending = self.pending().saturating_sub(count);
        let expected = self.expected().saturating_sub(if drop { count } else { 0 });
        self.with(pending, expected, self.bytes()).settled()
    }

    /// The phase waits for `bytes` more.
    #[must_use]
    pub fn expect(self, bytes: u32) -> Self {
        self.with(self.pending(), self.expected(), self.bytes() + i64::from(bytes))
    }

    /// `bytes` have been written.
    #[must_use]
    pub fn complete(self, bytes: u32) -> Self {
        self.with(self.pending(), self.expected(), self.bytes() - i64::from(bytes)).settled()
    }

    /// The phase in which an arrival returned `earlier` is over.
    pub fn is_past(self, earlier: Self) -> bool {
        self.phase() != earlier.phase()
    }

    /// The phase of that parity, the current or the one before, is over.
    pub fn is_past_parity(self, parity: u32) -> bool {
        self.phase() & 1 != parity & 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_with_its_last_arrival() {
        let start = State::new(3);
        let one = start.arrive(1, false);
        assert!(!one.is_past(start) && one.pending() == 2 && !one.is_past_parity(0));
        let next = one.arrive(2, false);
        assert!(next.is_past(start) && next.pending() == 3);
        assert!(next.is_past_parity(0) && !next.is_past_parity(1));
        let third = next.arrive(3, false);
        assert!(third.is_past_parity(1) && !third.is_past_parity(0) && third.phase() == 2);
    }

    #[test]
    fn a_phase_waits_for_bytes() {
        let start = State::new(1).expect(64);
        let arrived = start.arrive(1, false);
        assert!(!arrived.is_past(start));
        // More may be written than has been announced, if the announcement follows.
        let ahead = State::new(1).complete(64);
        assert!(!ahead.is_past(start) && ahead.expect(64).arrive(1, false).is_past(start));
        assert!(!arrived.complete(63).is_past(start) && arrived.complete(64).is_past(start));
    }

    #[test]
    fn who_drops_is_not_expected_again() {
        let next = State::new(2).arrive(1, true).arrive(1, false);
        assert_eq!((next.phase(), next.pending()), (1, 1));
        assert_eq!((0..8).fold(next, |s, _| s.arrive(1, false)).phase(), 1);
    }
}
