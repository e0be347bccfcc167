//! Loop nest of any control-flow graph, irreducible ones included.
//!
//! A walk from the first block on, each block's successors in their order, says which edges go back:
//! those to a block that the walk has not left yet, a *header*. Its loop are the blocks that the walk
//! finds from there and that get back to it without leaving what the walk finds from there. So two
//! loops are apart from each other or one is in the other, also where a program jumps into the middle
//! of one.

/// A walk over all blocks that can be reached from the first.
pub(crate) struct Walk {
    /// By block: its number in the order in which blocks were found.
    first: Vec<usize>,
    /// By block: the highest number of those found before it was left.
    last: Vec<usize>,
    /// Blocks in the order in which they were found.
    found: Vec<usize>,
    /// By block: its place if each stands in front of all that it leads to, edges back aside.
    pub(crate) rank: Vec<usize>,
}

impl Walk {
    /// Walks; blocks that cannot be reached have no numbers.
    pub(crate) fn of(successors: &[Vec<usize>]) -> Self {
        let n = successors.len();
        let none = || vec![usize::MAX; n];
        let mut walk = Self { first: none(), last: none(), found: Vec::new(), rank: none() };
        let mut left = Vec::with_capacity(n);
        let mut path: Vec<(usize, usize)> = Vec::new();
        let enter = |walk: &mut Self, path: &mut Vec<_>, b: usize| {
            walk.first[b] = walk.found.len();
            walk.found.push(b);
            path.push((b, 0));
        };
        if n > 0 {
            enter(&mut walk, &mut path, 0);
        }
        while let Some((b, next)) = path.last_mut() {
            match successors[*b].get(*next) {
                Some(&s) => {
                    *next += 1;
                    if walk.first[s] == usize::MAX {
                        enter(&mut walk, &mut path, s);
                    }
                }
                None => {
                    walk.last[*b] = walk.found.len() - 1;
                    left.push(*b);
                    path.pop();
                }
            }
        }
        left.iter().rev().enumerate().for_each(|(position, b)| walk.rank[*b] = position);
        walk
    }

    /// True if the walk found a block from another, or it is that one: an edge to that one goes back.
    pub(crate) fn goes_back(&self, from: usize, to: usize) -> bool {
        self.first[to] <= self.first[from] && self.first[from] <= self.last[to]
    }
}

/// One loop.
pub(crate) struct Loop {
    /// Where it starts.
    pub(crate) header: usize,
    /// The next larger loop that it is in.
    pub(crate) parent: Option<usize>,
    /// How many blocks it has.
    pub(crate) blocks: usize,
    /// How many of these are in no smaller loop, and how many smaller ones are next to them in it.
    pub(crate) members: usize,
}

/// All loops; a loop comes in front of those that it is in.
pub(crate) struct Loops {
    /// The loops.
    pub(crate) all: Vec<Loop>,
    /// By block: the smallest loop that it is in.
    pub(crate) innermost: Vec<Option<usize>>,
}

impl Loops {
    /// Finds them.
    pub(crate) fn of(predecessors: &[Vec<usize>], walk: &Walk) -> Self {
        let n = predecessors.len();
        let mut loops = Self { all: Vec::new(), innermost: vec![None; n] };
        // By block: the header of the largest loop known that it is in, or on the way there.
        let mut within: Vec<usize> = (0..n).collect();
        // By header: who jumps into the middle of its loop.
        let mut beside: Vec<Vec<usize>> = vec![Vec::new(); n];
        // By header: its loop.
        let mut number = vec![None; n];
        for &header in walk.found.iter().rev() {
            let mut work: Vec<usize> = predecessors[header]
                .iter()
                .filter(|p| walk.goes_back(**p, header))
                .map(|p| root(&mut within, *p))
                .collect();
            if work.is_empty() {
                continue;
            }
            let this = loops.all.len();
            let (mut blocks, mut members) = (1, 1);
            while let Some(b) = work.pop() {
                if b == header || within[b] == header {
                    continue;
                }
                within[b] = header;
                members += 1;
                match number[b] {
                    Some(inner) => {
                        let inner: &mut Loop = &mut loops.all[inner];
                        inner.parent = Some(this);
                        blocks += inner.blocks;
                    }
                    None => {
                        loops.innermost[b] = Some(this);
                        blocks += 1;
                    }
                }
                let outside = std::mem::take(&mut beside[b]);
                for p in predecessors[b].iter().filter(|p| !walk.goes_back(**p, b)).chain(&outside)
                {
                    // Blocks that the first one does not lead to are in no loop.
                    if walk.first[*p] == usize::MAX {
                        continue;
                    }
                    match walk.goes_back(*p, header) {
                        true => work.push(root(&mut within, *p)),
                        false => beside[header].push(*p),
                    }
                }
            }
            loops.innermost[header] = Some(this);
            number[header] = Some(this);
            loops.all.push(Loop { header, parent: None, blocks, members });
        }
        loops
    }

    /// The loops that a block is in, the smallest first.
    pub(crate) fn around(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.innermost[block], |l| self.all[*l].parent)
    }
}

/// The header of the largest loop known that a block is in, or the block.
fn root(within: &mut [usize], block: usize) -> usize {
    let mut at = block;
    while within[at] != at {
        within[at] = within[within[at]];
        at = within[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::dataflow::turned;

    /// Header, blocks and parent's header of each loop, by header.
    fn of(edges: &[&[usize]]) -> Vec<(usize, Vec<usize>, Option<usize>)> {
        let successors: Vec<Vec<usize>> = edges.iter().map(|to| to.to_vec()).collect();
        let loops = Loops::of(&turned(&successors), &Walk::of(&successors));
        let mut found: Vec<_> = (0..loops.all.len())
            .map(|l| {
                let inside = |b: &usize| loops.around(*b).any(|of| of == l);
                let blocks: Vec<usize> = (0..edges.len()).filter(inside).collect();
                assert_eq!(blocks.len(), loops.all[l].blocks);
                let parent = loops.all[l].parent.map(|p| loops.all[p].header);
                (loops.all[l].header, blocks, parent)
            })
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn loops_are_in_each_other_or_apart() {
        // 1 to 4 with 2 and 3 inside, where 3 repeats itself; 5 to 6 behind.
        let edges: [&[usize]; 8] = [&[1], &[2], &[3, 4], &[3, 2], &[1, 5], &[6], &[5, 7], &[]];
        let expected = [
            (1, vec![1, 2, 3, 4], None),
            (2, vec![2, 3], Some(1)),
            (3, vec![3], Some(2)),
            (5, vec![5, 6], None),
        ];
        assert_eq!(of(&edges), expected);
    }

    #[test]
    fn jumps_into_the_middle_of_a_loop_do_not_make_it_larger() {
        // 0 goes to 1 and to 2, which go round; block 3 leads back to 0 for all.
        let edges: [&[usize]; 5] = [&[1, 2], &[2], &[1, 3], &[0, 4], &[]];
        assert_eq!(of(&edges), [(0, vec![0, 1, 2, 3], None), (1, vec![1, 2], Some(0))]);
    }

    #[test]
    fn a_block_without_predecessors_is_in_no_loop() {
        assert_eq!(of(&[&[1], &[1, 2], &[], &[1]]), [(1, vec![1], None)]);
    }
}
