//! Live intervals under divergence: they grow by the code that other lanes run while some wait.
//!
//! Between two blocks that all lanes run together, lanes may wait at a block while others run
//! blocks in front of it. A *region* is all that can run in that time. Because the lowest block runs
//! first, all that waits stands behind all that runs; so within a region it is enough to keep a
//! value from the first to the last position where it is live, stretched over every loop that it
//! leaves or enters, from the region's first block if lanes come in with it, and to its last block if
//! they go out with it.

use crate::analysis::dataflow::{Live, Marks, Set};
use crate::analysis::interval::{BlockSpans, LiveInterval};
use crate::analysis::vector_cfg::{back_edges, mentioned, sources, successors};
use crate::ir::Reg;
use crate::ir::vector::{VectorFunction, VectorTerm};
use std::collections::BTreeMap;

/// Blocks of one region, in order.
struct Region {
    blocks: Vec<usize>,
}

impl Region {
    /// Where its blocks are: those that follow each other as one.
    fn spans(&self, ranges: &BlockSpans) -> Vec<LiveInterval> {
        let mut spans: Vec<LiveInterval> = Vec::new();
        for b in &self.blocks {
            let (start, end) = (ranges.starts[*b], ranges.ends[*b]);
            match spans.last_mut() {
                Some(before) if before.end + 1 == start => before.end = end,
                _ => spans.push(LiveInterval { start, end }),
            }
        }
        spans
    }
}

/// Sets of blocks that grow together.
struct Sets(Vec<usize>);

impl Sets {
    fn find(&mut self, block: usize) -> usize {
        let mut at = block;
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// True if lanes that are together may go different ways.
fn parts(term: &VectorTerm) -> bool {
    match term {
        VectorTerm::Branch { uniform, .. } => !uniform,
        VectorTerm::Table { .. } => true,
        _ => false,
    }
}

/// The regions of a function.
fn regions(f: &VectorFunction) -> Vec<Region> {
    let apart = |b: usize| !f.blocks[b].convergent;
    let mut sets = Sets((0..f.blocks.len()).collect());
    for (b, block) in f.blocks.iter().enumerate() {
        let next = successors(&block.term).filter(|s| apart(*s));
        if apart(b) {
            next.for_each(|s| sets.join(b, s));
        } else if parts(&block.term) {
            // Lanes part here: some are in one of these while others are in another.
            let next: Vec<usize> = next.collect();
            next.windows(2).for_each(|pair| sets.join(pair[0], pair[1]));
        }
    }
    let mut found: BTreeMap<usize, Region> = BTreeMap::new();
    for b in (0..f.blocks.len()).filter(|b| apart(*b)) {
        let region = found.entry(sets.find(b)).or_insert_with(|| Region { blocks: Vec::new() });
        region.blocks.push(b);
    }
    found.into_values().collect()
}

/// By register: from where to where its value is kept in a region; and which registers have one.
struct IntervalHulls {
    of: Vec<Option<LiveInterval>>,
    known: Vec<Reg>,
}

impl IntervalHulls {
    fn include(&mut self, r: Reg, position: u32) {
        let hull = &mut self.of[r.index()];
        *hull = Some(match *hull {
            Some(h) => LiveInterval { start: h.start.min(position), end: h.end.max(position) },
            None => {
                self.known.push(r);
                LiveInterval { start: position, end: position }
            }
        });
    }

    /// Includes where registers are live first and last.
    fn include_live(&mut self, region: &Region, live: &Live, ranges: &BlockSpans) {
        let none = Set::new(live.names.count());
        let (mut from_first, mut from_last) = (none.clone(), none);
        let mut add = |seen: &mut Set, set, position| {
            seen.add(set, |n| self.include(live.names.register(n), position));
        };
        for b in &region.blocks {
            add(&mut from_first, &live.at_start[*b], ranges.starts[*b]);
            add(&mut from_first, &live.at_end[*b], ranges.ends[*b]);
        }
        for b in region.blocks.iter().rev() {
            add(&mut from_last, &live.at_end[*b], ranges.ends[*b]);
            add(&mut from_last, &live.at_start[*b], ranges.starts[*b]);
        }
    }
}

/// Adds the live intervals of all regions; those of other blocks are not looked at.
pub(crate) fn add(
    f: &VectorFunction,
    live: &Live,
    ranges: &BlockSpans,
    include_interval: &mut impl FnMut(Reg, u32, u32),
) {
    let mut hulls = IntervalHulls { of: vec![None; f.classes.len()], known: Vec::new() };
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); f.blocks.len()];
    for (b, block) in f.blocks.iter().enumerate() {
        successors(&block.term).for_each(|s| before[s].push(b));
    }
    let loops = Loops::of(back_edges(f).into_iter().map(|(header, latch)| LiveInterval {
        start: ranges.starts[header],
        end: ranges.ends[latch],
    }));
    let mut passed = Marks::new(f.blocks.len());
    for region in regions(f) {
        let (Some(first), Some(last)) = (region.blocks.first(), region.blocks.last()) else {
            continue;
        };
        let (low, high) = (ranges.starts[*first], ranges.ends[*last]);
        for b in &region.blocks {
            let (start, end) = (ranges.starts[*b], ranges.ends[*b]);
            let block = &f.blocks[*b];
            for (position, inst) in (start + 1..end).zip(&block.insts) {
                let written = inst.dst.iter().map(|d| d.reg);
                sources(inst).chain(written).for_each(|r| hulls.include(r, position));
            }
            mentioned(f, &block.term).for_each(|r| hulls.include(r, end));
        }
        hulls.include_live(&region, live, ranges);
        let none = Set::new(live.names.count());
        let [mut come_in, mut go_out, mut go_past] = [none.clone(), none.clone(), none];
        passed.wipe();
        for b in &region.blocks {
            let comes_in = |p: &&usize| f.blocks[**p].convergent;
            if *b == 0 || before[*b].iter().any(|p| comes_in(&p)) {
                come_in.extend(&live.at_start[*b]);
            }
            // What lanes take along leaves every loop of the region, also one that ends where it
            // does: they wait behind while others go round.
            for s in successors(&f.blocks[*b].term).filter(|s| f.blocks[*s].convergent) {
                go_out.extend(&live.at_start[s]);
            }
            // Lanes that went past the region wait behind it.
            for p in before[*b].iter().filter(comes_in).filter(|p| parts(&f.blocks[**p].term)) {
                if passed.mark(*p) {
                    let past = successors(&f.blocks[*p].term).filter(|s| f.blocks[*s].convergent);
                    past.for_each(|s| _ = go_past.extend(&live.at_start[s]));
                }
            }
        }
        let include = |hulls: &mut IntervalHulls, set: &Set, position| {
            set.iter().for_each(|n| hulls.include(live.names.register(n), position));
        };
        include(&mut hulls, &come_in, low);
        include(&mut hulls, &go_out, high + 1);
        include(&mut hulls, &go_past, low);
        include(&mut hulls, &go_past, high);
        let loops = loops.around_some(low, high);
        let spans = region.spans(ranges);
        for r in hulls.known.drain(..) {
            let Some(hull) = hulls.of[r.index()].take() else { continue };
            let hull = stretched(hull, &loops);
            let first = spans.partition_point(|s| s.end < hull.start);
            for span in spans[first..].iter().take_while(|s| s.start <= hull.end) {
                include_interval(r, span.start.max(hull.start), span.end.min(hull.end));
            }
        }
    }
}

/// The loops of a function, as live intervals.
struct Loops {
    by_start: Vec<LiveInterval>,
    by_end: Vec<LiveInterval>,
}

impl Loops {
    fn of(loops: impl Iterator<Item = LiveInterval>) -> Self {
        let (mut by_start, mut by_end): (Vec<_>, Vec<_>) = loops.map(|l| (l, l)).unzip();
        by_start.sort_unstable_by_key(|l| l.start);
        by_end.sort_unstable_by_key(|l| l.end);
        Self { by_start, by_end }
    }

    /// Those with a position from `low` to `high` in them, but not all of these and the next one too. If
    /// such a loop goes on beyond that, all with a position from `low` to `high` in them.
    fn around_some(&self, low: u32, high: u32) -> Vec<LiveInterval> {
        let first = self.by_start.partition_point(|l| l.start <= low);
        let starting = self.by_start[first..].iter().take_while(|l| l.start <= high);
        let first = self.by_end.partition_point(|l| l.end < low);
        let ending = self.by_end[first..].iter().take_while(|l| l.end <= high);
        let found: Vec<_> = starting.chain(ending.filter(|l| l.start <= low)).copied().collect();
        if found.iter().all(|l| l.start >= low && l.end <= high + 1) {
            return found;
        }
        self.by_start.iter().filter(|l| l.start <= high && l.end >= low).copied().collect()
    }
}

/// Values that leave or enter a loop are kept through all of it.
fn stretched(mut hull: LiveInterval, loops: &[LiveInterval]) -> LiveInterval {
    loop {
        let before = hull;
        for l in loops {
            let meets = hull.start <= l.end && hull.end >= l.start;
            let inside = hull.start >= l.start && hull.end <= l.end;
            if meets && !inside {
                hull.start = hull.start.min(l.start);
                hull.end = hull.end.max(l.end);
            }
        }
        if hull == before {
            return hull;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_a_loop_is_kept_in_all_of_it_and_in_those_around_it_that_it_leaves() {
        let interval = |start, end| LiveInterval { start, end };
        let (outer, inner) = (interval(10, 50), interval(20, 30));
        assert_eq!(stretched(interval(22, 28), &[outer, inner]), interval(22, 28));
        assert_eq!(stretched(interval(25, 40), &[outer, inner]), interval(20, 40));
        assert_eq!(stretched(interval(25, 60), &[outer, inner]), interval(10, 60));
        assert_eq!(stretched(interval(5, 8), &[outer, inner]), interval(5, 8));
    }
}
