//! Sorting what was under way when a server was lost: what is repeated, or that nothing can be.
//!
//! An operation that the server had not taken was never done. One that it had taken and whose stream
//! did not get past it is *uncertain*: done, begun, or not. Doing a stretch of uncertain operations
//! once more, in their order, gives what doing it once would have given, if none of them writes what
//! it or an earlier one of the stretch reads: each then finds what it found the first time, or what
//! its predecessors write again. Nothing that is known to be done may have come after and be undone.
//!
//! What an operation reads and writes is known to the byte for copies and fills, and to the allocation
//! for kernels ([`super::effects`]).

use core::ops::Range;

/// What to do with work that is uncertain: OPENMPS_REPLAY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Repeat what gives the same result; else tell.
    #[default]
    Auto,
    /// Repeat all since the program last waited: it says that this gives the same result.
    Always,
    /// Repeat nothing; tell.
    Never,
}

impl Policy {
    /// As the environment says it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "auto" => Some(Self::Auto),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// What an operation does with memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) reads: Vec<Range<u64>>,
    pub(crate) writes: Vec<Range<u64>>,
    /// It reads variables of modules, wherever they are.
    pub(crate) reads_variables: bool,
    pub(crate) writes_variables: bool,
    /// More, or it is not known what.
    pub(crate) opaque: bool,
}

/// One operation, in the order in which they were posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The server had taken it.
    pub(crate) taken: bool,
    /// Its stream is known to have got past it.
    pub(crate) done: bool,
    /// The program has waited for it, or for something behind it in its stream.
    pub(crate) waited: bool,
    pub(crate) access: Access,
}

/// What becomes of the operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Those with these indices are posted again.
    Repeat(Vec<usize>),
    /// What was under way is lost, and the program is told.
    Tell,
}

/// Sorts operations. `complete` if these are all that are not known to be done.
pub(crate) fn sort(operations: &[Operation], complete: bool, policy: Policy) -> Verdict {
    let uncertain = |o: &Operation| o.taken && !o.done;
    let repeat = |which: &dyn Fn(&Operation) -> bool| {
        let chosen = operations.iter().enumerate().filter(|(_, o)| which(o));
        Verdict::Repeat(chosen.map(|(index, _)| index).collect())
    };
    if complete && !operations.iter().any(uncertain) {
        return repeat(&|o| !o.done);
    }
    match policy {
        _ if !complete => Verdict::Tell,
        Policy::Never => Verdict::Tell,
        Policy::Always => repeat(&|o| !o.done || !o.waited),
        Policy::Auto if may_repeat(operations) => repeat(&|o| !o.done),
        Policy::Auto => Verdict::Tell,
    }
}

/// True if doing the uncertain operations once more gives what doing them once would have given.
fn may_repeat(operations: &[Operation]) -> bool {
    // What this and later operations may have written, and those of them that will not write again.
    let mut written: Vec<Range<u64>> = Vec::new();
    let mut written_for_good: Vec<Range<u64>> = Vec::new();
    let (mut variables, mut variables_for_good, mut opaque) = (false, false, false);
    for operation in operations.iter().rev().filter(|o| o.taken) {
        let access = &operation.access;
        opaque |= access.opaque;
        written.extend(access.writes.iter().cloned());
        variables |= access.writes_variables;
        if operation.done {
            written_for_good.extend(access.writes.iter().cloned());
            variables_for_good |= access.writes_variables;
            continue;
        }
        if opaque
            || meet(&access.reads, &written)
            || meet(&access.writes, &written_for_good)
            || access.reads_variables && variables
            || access.writes_variables && variables_for_good
        {
            return false;
        }
    }
    true
}

fn meet(some: &[Range<u64>], others: &[Range<u64>]) -> bool {
    some.iter().any(|a| others.iter().any(|b| a.start < b.end && b.start < a.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(reads: &[Range<u64>], writes: &[Range<u64>]) -> Operation {
        let access = Access { reads: reads.to_vec(), writes: writes.to_vec(), ..Access::default() };
        Operation { taken: true, access, ..Operation::default() }
    }

    #[test]
    fn what_was_never_taken_is_posted_again_whatever_it_is() {
        let opaque = Access { opaque: true, ..Access::default() };
        let posted = Operation { access: opaque, ..Operation::default() };
        let done = Operation { taken: true, done: true, ..Operation::default() };
        for policy in [Policy::Auto, Policy::Always, Policy::Never] {
            let verdict = sort(&[done.clone(), posted.clone()], true, policy);
            assert_eq!(verdict, Verdict::Repeat(vec![1]), "{policy:?}");
        }
    }

    #[test]
    fn in_place_work_is_told_and_streaming_work_is_repeated() {
        let (a, b, c) = (0..10, 10..20, 20..30);
        let add = taken(&[a.clone(), b.clone()], &[c.clone()]);
        let use_it = taken(&[c.clone()], &[40..50]);
        let all = Verdict::Repeat(vec![0, 1]);
        assert_eq!(sort(&[add.clone(), use_it.clone()], true, Policy::Auto), all);
        assert_eq!(sort(&[add.clone(), use_it.clone()], false, Policy::Auto), Verdict::Tell);
        assert_eq!(sort(&[add.clone(), use_it], true, Policy::Never), Verdict::Tell);
        let in_place = taken(&[a.clone()], &[a.clone()]);
        assert_eq!(sort(std::slice::from_ref(&in_place), true, Policy::Auto), Verdict::Tell);
        let over = taken(&[], &[5..6]);
        assert_eq!(
            sort(&[add, over], true, Policy::Auto),
            Verdict::Tell,
            "it reads what is written later"
        );
        let told = sort(&[in_place], true, Policy::Always);
        assert_eq!(told, Verdict::Repeat(vec![0]));
    }

    #[test]
    fn what_is_known_to_be_done_is_not_undone() {
        let earlier = taken(&[], &[0..10]);
        let later = Operation { done: true, ..taken(&[], &[5..15]) };
        assert_eq!(sort(&[earlier.clone(), later.clone()], true, Policy::Auto), Verdict::Tell);
        assert_eq!(sort(&[later, earlier], true, Policy::Auto), Verdict::Repeat(vec![1]));
    }

    #[test]
    fn who_says_always_gets_all_since_the_last_wait() {
        let waited = Operation { done: true, waited: true, ..taken(&[], &[]) };
        let done = Operation { done: true, ..taken(&[], &[]) };
        let begun = taken(&[0..1], &[0..1]);
        let verdict = sort(&[waited, done, begun], true, Policy::Always);
        assert_eq!(verdict, Verdict::Repeat(vec![1, 2]));
    }

    const CELLS: u64 = 6;

    /// An operation of a model: cells that it reads and those that it writes, to a value that only
    /// depends on its number and what it read.
    fn run(memory: &mut [u64], number: u64, o: &Operation, cells: usize) {
        let mut value = number.wrapping_mul(0x9e37_79b9);
        for range in &o.access.reads {
            for cell in range.clone() {
                value = value.rotate_left(7) ^ memory[cell as usize].wrapping_mul(31);
            }
        }
        let writes = o.access.writes.iter().flat_map(Clone::clone);
        for cell in writes.take(cells) {
            memory[cell as usize] = value.wrapping_add(cell);
        }
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0..CELLS, 1..3u64).prop_map(|(at, n)| at..(at + n).min(CELLS)), 0..3)
    }

    proptest! {
        /// Whatever part of the stretch was done when the server was lost, what is repeated gives
        /// what an undisturbed run gives.
        #[test]
        fn a_repeated_stretch_gives_the_same_memory(
            shapes in prop::collection::vec((ranges(), ranges()), 1..7),
            done in 0..7usize, begun in 0..7usize, cells in 0..5usize, posted in 0..7usize,
        ) {
            let count = shapes.len();
            let (done, begun) = (done.min(count), begun.min(count));
            let taken_to = (begun + 1).max(posted).min(count).max(done);
            let operations: Vec<Operation> = shapes.iter().enumerate().map(|(index, (r, w))| Operation {
                done: index < done,
                taken: index < taken_to,
                ..taken(r, w)
            }).collect();
            let mut undisturbed = vec![1; CELLS as usize];
            for (number, o) in operations.iter().enumerate() {
                run(&mut undisturbed, number as u64, o, usize::MAX);
            }
            // Those before `begun` were done, that one in part.
            let mut memory = vec![1; CELLS as usize];
            for (number, o) in operations.iter().enumerate().take(taken_to) {
                if number < begun.max(done) {
                    run(&mut memory, number as u64, o, usize::MAX);
                } else if number == begun {
                    run(&mut memory, number as u64, o, cells);
                }
            }
            if let Verdict::Repeat(which) = sort(&operations, true, Policy::Auto) {
                for index in which {
                    run(&mut memory, index as u64, &operations[index], usize::MAX);
                }
                prop_assert_eq!(memory, undisturbed);
            }
        }
    }
}
