//! Stretches of registers where lanes of a warp stand at different places.
//!
//! Between two blocks that all lanes run together, lanes may wait at a block while others run
//! blocks in front of it. A *region* is all that can run in that time. Because the lowest block runs
//! first, all that waits stands behind all that runs; so within a region it is enough to keep a
//! value from the first to the last position where it is live, stretched over every loop that it
//! leaves or enters, from the region's first block if lanes come in with it, and to its last block if
//! they go out with it.

use super::flow::{back_edges, mentioned, sources, successors};
use super::liveness::Liveness;
use super::{Stretch, Stretches};
use crate::ir::Reg;
use crate::vector::{VectorFunction, VectorTerm};
use std::collections::BTreeMap;

/// Blocks of one region, in order.
struct Region {
    blocks: Vec<usize>,
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
        let next = successors(&block.term).into_iter().filter(|s| apart(*s));
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
struct Hulls {
    of: Vec<Option<Stretch>>,
    known: Vec<Reg>,
}

impl Hulls {
    fn include(&mut self, r: Reg, position: u32) {
        let hull = &mut self.of[r.index()];
        *hull = Some(match *hull {
            Some(h) => Stretch { start: h.start.min(position), end: h.end.max(position) },
            None => {
                self.known.push(r);
                Stretch { start: position, end: position }
            }
        });
    }
}

/// Adds the stretches of all regions; those of other blocks are not looked at.
pub(super) fn add(f: &VectorFunction, liveness: &Liveness, ranges: &mut Stretches) {
    let mut hulls = Hulls { of: vec![None; f.classes.len()], known: Vec::new() };
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); f.blocks.len()];
    for (b, block) in f.blocks.iter().enumerate() {
        successors(&block.term).into_iter().for_each(|s| before[s].push(b));
    }
    let edges = back_edges(f);
    for region in regions(f) {
        let (Some(first), Some(last)) = (region.blocks.first(), region.blocks.last()) else {
            continue;
        };
        let (low, high) = (ranges.starts[*first], ranges.ends[*last]);
        for b in &region.blocks {
            let (start, end) = (ranges.starts[*b], ranges.ends[*b]);
            let block = &f.blocks[*b];
            liveness.at_start(*b).for_each(|r| hulls.include(r, start));
            liveness.at_end(*b).for_each(|r| hulls.include(r, end));
            for (position, inst) in (start + 1..end).zip(&block.insts) {
                let written = inst.dst.iter().map(|d| d.reg);
                sources(inst).chain(written).for_each(|r| hulls.include(r, position));
            }
            mentioned(f, &block.term).into_iter().for_each(|r| hulls.include(r, end));
            let comes_in = |p: &usize| f.blocks[*p].convergent;
            if *b == 0 || before[*b].iter().any(comes_in) {
                liveness.at_start(*b).for_each(|r| hulls.include(r, low));
            }
            // What lanes take along leaves every loop of the region, also one that ends where it
            // does: they wait behind while others go round.
            for s in successors(&block.term).into_iter().filter(|s| f.blocks[*s].convergent) {
                liveness.at_start(s).for_each(|r| hulls.include(r, high + 1));
            }
            // Lanes that went past the region wait behind it.
            let past = before[*b].iter().filter(|p| comes_in(p) && parts(&f.blocks[**p].term));
            for s in past.flat_map(|p| successors(&f.blocks[*p].term)) {
                if f.blocks[s].convergent {
                    for r in liveness.at_start(s) {
                        hulls.include(r, low);
                        hulls.include(r, high);
                    }
                }
            }
        }
        let loops: Vec<Stretch> = edges
            .iter()
            .map(|(header, latch)| Stretch {
                start: ranges.starts[*header],
                end: ranges.ends[*latch],
            })
            .filter(|l| l.start <= high && l.end >= low)
            .collect();
        for r in hulls.known.drain(..) {
            let Some(hull) = hulls.of[r.index()].take() else { continue };
            let hull = stretched(hull, &loops);
            for b in &region.blocks {
                let (start, end) =
                    (ranges.starts[*b].max(hull.start), ranges.ends[*b].min(hull.end));
                if start <= end {
                    ranges.include(r, start, end);
                }
            }
        }
    }
}

/// Values that leave or enter a loop are kept through all of it.
fn stretched(mut hull: Stretch, loops: &[Stretch]) -> Stretch {
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
        let stretch = |start, end| Stretch { start, end };
        let (outer, inner) = (stretch(10, 50), stretch(20, 30));
        assert_eq!(stretched(stretch(22, 28), &[outer, inner]), stretch(22, 28));
        assert_eq!(stretched(stretch(25, 40), &[outer, inner]), stretch(20, 40));
        assert_eq!(stretched(stretch(25, 60), &[outer, inner]), stretch(10, 60));
        assert_eq!(stretched(stretch(5, 8), &[outer, inner]), stretch(5, 8));
    }
}
