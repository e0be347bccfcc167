//! Backward dataflow solver for liveness, on bit sets: for any code of which each block's reads,
//! writes and successors are given.
//!
//! Most registers are written and read in one block alone. Sets are of the others, which have
//! numbers here, so they are short however many registers there are.
//!
//! Invariant: numbers are in the order of registers.

use crate::ir::Reg;
use std::rc::Rc;

/// A set of numbers below a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    /// The empty set of numbers below `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self(vec![0; limit.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    /// Membership.
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    /// Adds all of `other`; true if that changed the set.
    pub(crate) fn extend(&mut self, other: &Self) -> bool {
        let mut new = 0;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            new |= b & !*a;
            *a |= b;
        }
        new != 0
    }

    /// Adds all of `other`, and gives what is new to `each`.
    pub(crate) fn add(&mut self, other: &Self, mut each: impl FnMut(usize)) {
        for (index, (a, b)) in self.0.iter_mut().zip(&other.0).enumerate() {
            bits(b & !*a).for_each(|bit| each(64 * index + bit));
            *a |= b;
        }
    }

    /// Takes all of `other` away.
    pub(crate) fn take(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
    }

    /// Leaves what is in `other` too.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }

    /// The members in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(index, word)| bits(*word).map(move |bit| 64 * index + bit))
    }
}

/// The bits that are set, the lowest first.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(bit)
    })
}

/// Marks that are all wiped at once, which costs nothing.
pub(crate) struct Marks {
    /// The round in which each was set.
    set: Vec<u32>,
    round: u32,
}

impl Marks {
    /// For numbers below `limit`, none of which is marked.
    pub(crate) fn new(limit: usize) -> Self {
        Self { set: vec![0; limit], round: 1 }
    }

    /// Wipes all; not more often than there are numbers of 32 bits.
    pub(crate) fn wipe(&mut self) {
        self.round += 1;
    }

    /// True if it was not marked.
    pub(crate) fn mark(&mut self, number: usize) -> bool {
        std::mem::replace(&mut self.set[number], self.round) != self.round
    }

    /// True if it was marked.
    pub(crate) fn unmark(&mut self, number: usize) -> bool {
        std::mem::replace(&mut self.set[number], 0) == self.round
    }

    /// True if it is marked.
    pub(crate) fn has(&self, number: usize) -> bool {
        self.set[number] == self.round
    }
}

/// What blocks do to registers, collected one block after the other, each from its start on.
pub(crate) struct Effects {
    /// Of each finished block: what it reads before it writes it, and what it writes in all lanes.
    blocks: Vec<(Vec<Reg>, Vec<Reg>)>,
    reads: Marks,
    writes: Marks,
}

impl Effects {
    /// For a function with `registers` registers.
    pub(crate) fn new(registers: usize) -> Self {
        Self { blocks: Vec::new(), reads: Marks::new(registers), writes: Marks::new(registers) }
    }

    /// From here on it is the next block.
    pub(crate) fn start_block(&mut self) {
        self.blocks.push((Vec::new(), Vec::new()));
        self.reads.wipe();
        self.writes.wipe();
    }

    /// The block reads a register.
    pub(crate) fn read(&mut self, reg: Reg) {
        if !self.writes.has(reg.index())
            && self.reads.mark(reg.index())
            && let Some((reads, _)) = self.blocks.last_mut()
        {
            reads.push(reg);
        }
    }

    /// The block writes a register in all lanes that run it.
    pub(crate) fn write(&mut self, reg: Reg) {
        if self.writes.mark(reg.index())
            && let Some((_, writes)) = self.blocks.last_mut()
        {
            writes.push(reg);
        }
    }
}

/// The numbers of registers that are live where some block starts.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By number, the register.
    names: Vec<Reg>,
    /// By register, its number, or [`NONE`].
    numbers: Vec<u32>,
}

/// The number of a register that has none.
const NONE: u32 = u32::MAX;

impl Names {
    /// Of these, for a function of that number of registers.
    fn of<'a>(named: impl Iterator<Item = &'a Reg>, registers: usize) -> Self {
        let mut numbers = vec![NONE; registers];
        named.for_each(|r| numbers[r.index()] = 0);
        let mut names = Vec::new();
        for (r, number) in numbers.iter_mut().enumerate().filter(|(_, n)| **n != NONE) {
            *number = names.len() as u32;
            names.push(Reg(r as u32));
        }
        Self { names, numbers }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The register of a number.
    pub(crate) fn register(&self, number: usize) -> Reg {
        self.names[number]
    }

    /// The number of a register, if it has one.
    pub(crate) fn number(&self, reg: Reg) -> Option<usize> {
        self.numbers.get(reg.index()).filter(|n| **n != NONE).map(|n| *n as usize)
    }

    /// The set of those of a list that have numbers.
    fn set(&self, list: &[Reg]) -> Set {
        let mut set = Set::new(self.count());
        list.iter().filter_map(|r| self.number(*r)).for_each(|n| set.insert(n));
        set
    }
}

/// Live registers, by the numbers that they have here.
pub(crate) struct Live {
    pub(crate) names: Rc<Names>,
    /// By block, those that are live where it starts.
    pub(crate) at_start: Vec<Set>,
    /// By block, those that are live where it ends, after its terminator read its operands.
    pub(crate) at_end: Vec<Set>,
}

impl Live {
    /// Finds them; `successors` are those of each block.
    pub(crate) fn of(effects: Effects, successors: &[Vec<usize>]) -> Self {
        let registers = effects.reads.set.len();
        let names = Names::of(effects.blocks.iter().flat_map(|(reads, _)| reads), registers);
        let (mut at_start, writes): (Vec<Set>, Vec<Set>) = effects
            .blocks
            .iter()
            .map(|(reads, writes)| (names.set(reads), names.set(writes)))
            .unzip();
        let mut at_end = vec![Set::new(names.count()); at_start.len()];
        let predecessors = turned(successors);
        // What a block leads to comes first.
        let mut work = left(successors);
        work.reverse();
        let mut queued = vec![true; at_start.len()];
        let mut live = Set::new(names.count());
        while let Some(b) = work.pop() {
            queued[b] = false;
            for s in &successors[b] {
                at_end[b].extend(&at_start[*s]);
            }
            live.clone_from(&at_end[b]);
            live.take(&writes[b]);
            if at_start[b].extend(&live) {
                for p in &predecessors[b] {
                    if !std::mem::replace(&mut queued[*p], true) {
                        work.push(*p);
                    }
                }
            }
        }
        Self { names: Rc::new(names), at_start, at_end }
    }
}

/// Blocks in the order in which a walk leaves them: behind what they lead to, ways back aside.
pub(crate) fn left(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut left = Vec::with_capacity(successors.len());
    let mut seen = vec![false; successors.len()];
    let mut path = Vec::new();
    for root in 0..successors.len() {
        if !std::mem::replace(&mut seen[root], true) {
            path.push((root, 0));
        }
        while let Some((b, next)) = path.last_mut() {
            match successors[*b].get(*next) {
                Some(successor) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[*successor], true) {
                        path.push((*successor, 0));
                    }
                }
                None => {
                    left.push(*b);
                    path.pop();
                }
            }
        }
    }
    left
}

/// For each number, who leads to it, each once for every way that leads there.
pub(crate) fn turned(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (b, list) in successors.iter().enumerate() {
        list.iter().for_each(|s| predecessors[*s].push(b));
    }
    predecessors
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A generator of numbers below what it is given, Marsaglia's: for random graphs.
    pub(crate) fn random() -> impl FnMut(usize) -> usize {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn sets_hold_what_is_put_in() {
        let of = |members: &[usize]| {
            let mut set = Set::new(200);
            members.iter().for_each(|m| set.insert(*m));
            set
        };
        let mut set = of(&[0, 63, 64, 199]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 199]);
        assert!(set.contains(64) && !set.contains(65));
        assert!(set.extend(&of(&[5])) && !set.extend(&of(&[5, 63])));
        let mut new = Vec::new();
        of(&[63]).add(&of(&[62, 63, 70]), |n| new.push(n));
        assert_eq!(new, [62, 70]);
        set.take(&of(&[64, 100]));
        set.keep(&of(&[5, 63, 64, 150]));
        assert_eq!(set.iter().collect::<Vec<_>>(), [5, 63]);
    }

    #[test]
    fn only_what_a_block_reads_of_others_is_live() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3: register 7 goes from 0 to 3, 9 around the loop, 8 stays in 1.
        let mut effects = Effects::new(10);
        let (outer, inner, looped) = (Reg(7), Reg(8), Reg(9));
        effects.start_block();
        effects.write(outer);
        effects.write(looped);
        effects.start_block();
        effects.write(inner);
        effects.read(inner);
        effects.read(looped);
        effects.write(looped);
        effects.start_block();
        effects.start_block();
        effects.read(outer);
        let live = Live::of(effects, &[vec![1], vec![2], vec![1, 3], vec![]]);
        let names = |set: &Set| set.iter().map(|n| live.names.register(n)).collect::<Vec<_>>();
        assert_eq!(live.names.number(inner), None);
        let at_start: Vec<Vec<Reg>> = live.at_start.iter().map(names).collect();
        assert_eq!(at_start, [vec![], vec![outer, looped], vec![outer, looped], vec![outer]]);
        assert_eq!(names(&live.at_end[0]), [outer, looped]);
        assert_eq!(names(&live.at_end[3]), []);
    }
}
