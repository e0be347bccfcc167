//! Sorting what was in flight when a server was lost: what is repeated, or that nothing can be.
//!
//! An operation that the server had not taken was never done. One that it had taken and whose stream
//! did not get past it is *in doubt*: done, begun, or not. A window of operations may be done once
//! more, in their order, if each finds what it found the first time: what it reads, no later one of
//! the window has written, nor it itself, or an earlier one of the window writes it anew, all of it.
//! Nothing that is known to be done and is not repeated may have come after and be undone. The
//! shortest window is what is in doubt, the longest what was posted since the program last waited.
//!
//! What an operation reads and writes is known to the byte for copies and fills, and to the allocation
//! for kernels (the client's `replay/effects.rs`).

use core::ops::Range;

/// What to do with work that is in doubt: OPENMPS_REPLAY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// Repeat what gives the same result; else report.
    #[default]
    Auto,
    /// Repeat all since the program last waited: it says that this gives the same result.
    Always,
    /// Repeat nothing; report.
    Never,
}

impl ReplayPolicy {
    /// As the environment says it.
    pub fn parse(text: &str) -> Option<Self> {
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
pub struct Access {
    /// Where it reads: addresses.
    pub reads: Vec<Range<u64>>,
    /// Where it writes, likewise.
    pub writes: Vec<Range<u64>>,
    /// It reads variables of modules, wherever they are.
    pub reads_variables: bool,
    /// It writes them.
    pub writes_variables: bool,
    /// It writes all that `writes` says, and not perhaps only a part.
    pub exact: bool,
    /// More, or it is not known what.
    pub opaque: bool,
}

/// One operation, in the order in which they were posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// The server had taken it.
    pub taken: bool,
    /// Its stream is known to have got past it.
    pub done: bool,
    /// The program has waited for it, or for something behind it in its stream.
    pub waited: bool,
    /// What it does besides, when it is done.
    pub again: Again,
    /// What it does with memory.
    pub access: Access,
}

/// Whether an operation that is known to be done can be done once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// It can.
    #[default]
    Can,
    /// It need not, and must not: its results were taken, and their place has others.
    Idle,
    /// It cannot: the bytes that it read are gone.
    Cannot,
    /// It orders others and does nothing else: it is done again where anything before it is, or what came
    /// after it in its stream would not come after that.
    Order,
}

/// What becomes of the operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayDecision {
    /// Those with these indices are posted again.
    Repeat(Vec<usize>),
    /// What was in flight is lost, which is reported to the program.
    Effects,
}

/// Sorts operations. `complete` if these are all that are not known to be done; `whole` if they are
/// all that the program has not waited for.
pub fn sort(
    operations: &[Operation],
    complete: bool,
    whole: bool,
    policy: ReplayPolicy,
) -> ReplayDecision {
    let undone = |o: &Operation| !o.done;
    let unwaited = |o: &Operation| !o.done || !o.waited && o.again != Again::Idle;
    let chosen = |which: &dyn Fn(&Operation) -> bool| {
        let mut begun = false;
        let mut is_chosen = |o: &Operation| {
            let chosen = which(o) || begun && o.again == Again::Order;
            begun |= chosen;
            chosen
        };
        let chosen = operations.iter().enumerate().filter(|(_, o)| is_chosen(o));
        ReplayDecision::Repeat(chosen.map(|(index, _)| index).collect())
    };
    let lost = |o: &Operation| o.done && unwaited(o) && o.again == Again::Cannot;
    if complete && !operations.iter().any(|o| o.taken && !o.done) {
        return chosen(&undone);
    }
    match policy {
        _ if !complete => ReplayDecision::Effects,
        ReplayPolicy::Never => ReplayDecision::Effects,
        ReplayPolicy::Always if !whole || operations.iter().any(lost) => ReplayDecision::Effects,
        ReplayPolicy::Always => chosen(&unwaited),
        ReplayPolicy::Auto if may_repeat(operations, undone) => chosen(&undone),
        ReplayPolicy::Auto if whole && may_repeat(operations, unwaited) => chosen(&unwaited),
        ReplayPolicy::Auto => ReplayDecision::Effects,
    }
}

/// True if doing the chosen operations once more gives what doing them once would have given.
fn may_repeat(operations: &[Operation], chosen: impl Fn(&Operation) -> bool) -> bool {
    // What each operation finds as it was before the window, and not as the window writes it anew.
    let mut anew: Vec<Range<u64>> = Vec::new();
    let found: Vec<Vec<Range<u64>>> = operations
        .iter()
        .map(|operation| {
            let found = without(&operation.access.reads, &anew);
            if chosen(operation) && operation.access.exact {
                anew.extend(operation.access.writes.iter().cloned());
            }
            found
        })
        .collect();
    // What this and later operations may have written, and those of them that will not write again.
    let mut written: Vec<Range<u64>> = Vec::new();
    let mut written_for_good: Vec<Range<u64>> = Vec::new();
    let (mut variables, mut variables_for_good, mut opaque) = (false, false, false);
    for (operation, found) in operations.iter().zip(&found).rev().filter(|(o, _)| o.taken) {
        let access = &operation.access;
        opaque |= access.opaque;
        written.extend(access.writes.iter().cloned());
        variables |= access.writes_variables;
        if !chosen(operation) {
            written_for_good.extend(access.writes.iter().cloned());
            variables_for_good |= access.writes_variables;
            continue;
        }
        if opaque
            || operation.done && !matches!(operation.again, Again::Can | Again::Order)
            || meet(found, &written)
            || meet(&access.writes, &written_for_good)
            || access.reads_variables && variables
            || access.writes_variables && variables_for_good
        {
            return false;
        }
    }
    true
}

/// The parts of some ranges that are in none of the others.
fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = ranges.to_vec();
    for other in others {
        left = left
            .into_iter()
            .flat_map(|range| {
                let before = range.start..range.end.min(other.start);
                let after = range.start.max(other.end)..range.end;
                [before, after]
            })
            .filter(|range| range.start < range.end)
            .collect();
    }
    left
}

fn meet(some: &[Range<u64>], others: &[Range<u64>]) -> bool {
    some.iter().any(|a| others.iter().any(|b| a.start < b.end && b.start < a.end))
}

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    clippy::cloned_ref_to_slice_refs,
    reason = "lists of one range"
)]
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
        for policy in [ReplayPolicy::Auto, ReplayPolicy::Always, ReplayPolicy::Never] {
            let verdict = sort(&[done.clone(), posted.clone()], true, true, policy);
            assert_eq!(verdict, ReplayDecision::Repeat(vec![1]), "{policy:?}");
        }
    }

    #[test]
    fn in_place_work_is_reported_and_streaming_work_is_repeated() {
        let (a, b, c) = (0..10, 10..20, 20..30);
        let add = taken(&[a.clone(), b.clone()], &[c.clone()]);
        let use_it = taken(&[c.clone()], &[40..50]);
        let all = ReplayDecision::Repeat(vec![0, 1]);
        assert_eq!(sort(&[add.clone(), use_it.clone()], true, true, ReplayPolicy::Auto), all);
        assert_eq!(
            sort(&[add.clone(), use_it.clone()], false, true, ReplayPolicy::Auto),
            ReplayDecision::Effects
        );
        assert_eq!(
            sort(&[add.clone(), use_it], true, true, ReplayPolicy::Never),
            ReplayDecision::Effects
        );
        let in_place = taken(&[a.clone()], &[a.clone()]);
        assert_eq!(
            sort(std::slice::from_ref(&in_place), true, true, ReplayPolicy::Auto),
            ReplayDecision::Effects
        );
        let over = taken(&[], &[5..6]);
        assert_eq!(
            sort(&[add, over], true, true, ReplayPolicy::Auto),
            ReplayDecision::Effects,
            "it reads what is written later"
        );
        let verdict = sort(&[in_place], true, true, ReplayPolicy::Always);
        assert_eq!(verdict, ReplayDecision::Repeat(vec![0]));
    }

    #[test]
    fn what_is_known_to_be_done_is_not_undone() {
        let earlier = taken(&[], &[0..10]);
        let later = Operation { done: true, waited: true, ..taken(&[], &[5..15]) };
        assert_eq!(
            sort(&[earlier.clone(), later.clone()], true, true, ReplayPolicy::Auto),
            ReplayDecision::Effects
        );
        assert_eq!(
            sort(&[later, earlier], true, true, ReplayPolicy::Auto),
            ReplayDecision::Repeat(vec![1])
        );
    }

    #[test]
    fn who_says_always_gets_all_since_the_last_wait() {
        let waited = Operation { done: true, waited: true, ..taken(&[], &[]) };
        let done = Operation { done: true, ..taken(&[], &[]) };
        let begun = taken(&[0..1], &[0..1]);
        let verdict = sort(&[waited, done, begun], true, true, ReplayPolicy::Always);
        assert_eq!(verdict, ReplayDecision::Repeat(vec![1, 2]));
    }

    #[test]
    fn what_orders_repeated_work_is_repeated_though_it_is_done() {
        let in_doubt = taken(&[], &[0..10]);
        let wait = Operation { again: Again::Order, done: true, waited: true, ..taken(&[], &[]) };
        let later = taken(&[], &[0..10]);
        let verdict = sort(&[wait.clone(), in_doubt, wait, later], true, true, ReplayPolicy::Auto);
        assert_eq!(verdict, ReplayDecision::Repeat(vec![1, 2, 3]));
    }

    const CELLS: u64 = 6;

    #[test]
    fn what_is_filled_anew_may_be_counted_up() {
        let count = taken(&[0..10], &[0..10]);
        let mut fill = taken(&[], &[0..10]);
        fill.access.exact = true;
        fill.done = true;
        let window = [fill.clone(), count.clone()];
        assert_eq!(
            sort(&window, true, true, ReplayPolicy::Auto),
            ReplayDecision::Repeat(vec![0, 1])
        );
        assert_eq!(
            sort(&window, true, false, ReplayPolicy::Auto),
            ReplayDecision::Effects,
            "more may be missing"
        );
        let waited = [Operation { waited: true, ..fill.clone() }, count.clone()];
        assert_eq!(sort(&waited, true, true, ReplayPolicy::Auto), ReplayDecision::Effects);
        let gone = [Operation { again: Again::Cannot, ..fill.clone() }, count.clone()];
        assert_eq!(sort(&gone, true, true, ReplayPolicy::Auto), ReplayDecision::Effects);
        assert_eq!(sort(&gone, true, true, ReplayPolicy::Always), ReplayDecision::Effects);
        fill.access.writes = vec![0..9];
        assert_eq!(
            sort(&[fill, count], true, true, ReplayPolicy::Auto),
            ReplayDecision::Effects,
            "not all of it"
        );
    }

    #[test]
    fn parts_are_what_is_left_of_ranges() {
        assert_eq!(without(&[0..10], &[3..5]), [0..3, 5..10]);
        assert_eq!(without(&[0..10, 20..30], &[0..25]), [25..30]);
        assert_eq!(without(&[0..10], &[10..20]), [0..10]);
    }

    /// An operation of a model: cells that it reads and those that it writes, to a value that only
    /// depends on its number and what it read. One that is not exact leaves out some.
    fn run(memory: &mut [u64], number: u64, o: &Operation, cells: usize) {
        let mut value = number.wrapping_mul(0x9e37_79b9);
        for range in &o.access.reads {
            for cell in range.clone() {
                value = value.rotate_left(7) ^ memory[cell as usize].wrapping_mul(31);
            }
        }
        let writes = o.access.writes.iter().flat_map(Clone::clone);
        for cell in writes.take(cells) {
            if o.access.exact || value >> cell & 1 == 1 {
                memory[cell as usize] = value.wrapping_add(cell);
            }
        }
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0..CELLS, 1..3u64).prop_map(|(at, n)| at..(at + n).min(CELLS)), 0..3)
    }

    proptest! {
        /// Regardless of the part of the window that was done when the server was lost, what is
        /// repeated gives what an undisturbed run gives.
        #[test]
        fn a_repeated_window_gives_the_same_memory(
            shapes in prop::collection::vec((ranges(), ranges(), any::<bool>()), 1..7),
            done in 0..7usize, waited in 0..7usize, begun in 0..7usize, cells in 0..5usize, posted in 0..7usize,
        ) {
            let count = shapes.len();
            let (done, begun) = (done.min(count), begun.min(count));
            let taken_to = (begun + 1).max(posted).min(count).max(done);
            let operations: Vec<Operation> = shapes.iter().enumerate().map(|(index, (r, w, exact))| Operation {
                done: index < done,
                waited: index < done.min(waited),
                access: Access { exact: *exact, ..taken(r, w).access },
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
            if let ReplayDecision::Repeat(which) = sort(&operations, true, true, ReplayPolicy::Auto) {
                for index in which {
                    run(&mut memory, index as u64, &operations[index], usize::MAX);
                }
                prop_assert_eq!(memory, undisturbed);
            }
        }
    }
}
