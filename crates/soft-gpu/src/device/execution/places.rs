//! Where on the SMs blocks are: what is in use of each SM, and which SMs have room.
//!
//! A block goes to the SM that has the fewest warps. The blocks of a cluster are placed all
//! together or not at all, each as if it were alone, on SMs of one GPC: groups of neighbours.

use crate::device::capability::{Capability, REGISTERS_PER_SM};
use crate::device::limits::SMS_PER_GPC;
use crate::device::occupancy::BlockNeed;

/// SMs of a block, or of the blocks of a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::device) struct Places {
    first: u32,
    /// Of the cluster's other blocks.
    others: Box<[u32]>,
}

impl Places {
    fn of(sms: &[u32]) -> Option<Self> {
        let (first, others) = sms.split_first()?;
        Some(Self { first: *first, others: others.into() })
    }

    /// The SM of the first block.
    pub(in crate::device) fn first(&self) -> u32 {
        self.first
    }

    /// The SMs of the cluster's other blocks, in the order of their ranks.
    pub(in crate::device) fn others(&self) -> &[u32] {
        &self.others
    }

    /// An SM for each block, in the order of their ranks.
    pub(in crate::device) fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// What is in use on one SM.
#[derive(Clone, Copy, Default)]
pub(in crate::device) struct SmUse {
    blocks: u32,
    used: BlockNeed,
}

impl SmUse {
    /// True if no block is there.
    pub(in crate::device) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// True if there is room for one more such block.
    pub(in crate::device) fn fits(&self, need: &BlockNeed, capability: &Capability) -> bool {
        self.blocks < capability.blocks
            && self.used.warps + need.warps <= capability.warps
            && self.used.registers + need.registers <= REGISTERS_PER_SM
            && self.used.shared_bytes + need.shared_bytes <= capability.shared_bytes
            && capability.barriers.is_none_or(|all| self.used.barriers + need.barriers <= all)
    }

    pub(in crate::device) fn take(&mut self, need: &BlockNeed) {
        self.blocks += 1;
        self.used.warps += need.warps;
        self.used.registers += need.registers;
        self.used.shared_bytes += need.shared_bytes;
        self.used.barriers += need.barriers;
    }

    pub(in crate::device) fn give(&mut self, need: &BlockNeed) {
        self.blocks -= 1;
        self.used.warps -= need.warps;
        self.used.registers -= need.registers;
        self.used.shared_bytes -= need.shared_bytes;
        self.used.barriers -= need.barriers;
    }
}

/// Puts blocks on SMs of `open`, which ascend, `together` so many of them at a time and at most
/// `most` times, as long as an SM `fits`. Gives `placed` each with where they are.
pub(in crate::device) fn fill(
    sms: &mut [SmUse],
    open: impl Iterator<Item = u32> + Clone,
    need: &BlockNeed,
    (together, most): (u32, u64),
    fits: impl Fn(&SmUse) -> bool,
    mut placed: impl FnMut(Places),
) {
    if together > 1 {
        for _ in 0..most {
            let open = open.clone();
            let Some(places) = find_cluster(sms, open, need, together, &fits) else { return };
            places.iter().for_each(|sm| sms[sm as usize].take(need));
            placed(places);
        }
        return;
    }
    let mut left = most;
    // All SMs with the fewest warps get a block each, and then have more than those.
    while left > 0 {
        let free = open.clone().map(|sm| &sms[sm as usize]).filter(|on_sm| fits(on_sm));
        let Some(fewest) = free.map(|on_sm| on_sm.used.warps).min() else { return };
        for sm in open.clone() {
            let on_sm = &mut sms[sm as usize];
            if left > 0 && on_sm.used.warps == fewest && fits(on_sm) {
                on_sm.take(need);
                placed(Places { first: sm, others: Box::default() });
                left -= 1;
            }
        }
    }
}

/// Room for the blocks of a cluster; `None` if there is none now.
fn find_cluster(
    sms: &[SmUse],
    open: impl Iterator<Item = u32>,
    need: &BlockNeed,
    blocks: u32,
    fits: impl Fn(&SmUse) -> bool,
) -> Option<Places> {
    let open: Vec<(u32, SmUse)> = open.map(|sm| (sm, sms[sm as usize])).collect();
    let gpcs = open.chunk_by(|(a, _), (b, _)| a / SMS_PER_GPC == b / SMS_PER_GPC);
    let on_gpc = |gpc: &[(u32, SmUse)]| {
        let mut gpc = gpc.to_vec();
        let mut place = |_| {
            let free = gpc.iter_mut().filter(|(_, on_sm)| fits(on_sm));
            let (sm, on_sm) = free.min_by_key(|(_, on_sm)| on_sm.used.warps)?;
            on_sm.take(need);
            Some(*sm)
        };
        let places = (0..blocks).map(&mut place).collect::<Option<Vec<u32>>>()?;
        Places::of(&places)
    };
    // A cluster that is too large for the SMs of its stream gets all of them, once they are empty:
    // it would wait for ever.
    let in_vain = || open.iter().all(|(_, on_sm)| on_sm.is_empty());
    gpcs.map(on_gpc).find(Option::is_some).flatten().or_else(|| {
        let all = open.iter().map(|(sm, _)| *sm).cycle().take(blocks as usize);
        in_vain().then(|| Places::of(&all.collect::<Vec<_>>())).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::occupancy::clusters_of_gpc;

    const NEED: BlockNeed =
        BlockNeed { warps: 32, registers: 32_768, shared_bytes: 1024, barriers: 1 };

    fn device(sms: usize) -> (Vec<SmUse>, &'static Capability) {
        (vec![SmUse::default(); sms], Capability::parse("9.0").unwrap())
    }

    /// Places as many as there is room for.
    fn fill(sms: &mut [SmUse], capability: &Capability, blocks: u32) -> Vec<Places> {
        let mut all = Vec::new();
        let (open, fits) = (0..sms.len() as u32, |on_sm: &SmUse| on_sm.fits(&NEED, capability));
        super::fill(sms, open, &NEED, (blocks, u64::MAX), fits, |places| all.push(places));
        all
    }

    #[test]
    fn blocks_spread_over_the_sms() {
        let (mut sms, capability) = device(3);
        let placed = fill(&mut sms, capability, 1);
        assert_eq!(placed.iter().map(Places::first).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        placed[3..].iter().for_each(|places| sms[places.first() as usize].give(&NEED));
        sms[1].give(&NEED);
        let mut order = Vec::new();
        let fits = |on_sm: &SmUse| on_sm.fits(&NEED, capability);
        let note = |places: Places| order.push(places.first());
        super::fill(&mut sms, [1, 2].into_iter(), &NEED, (1, 2), fits, note);
        assert_eq!(order, [1, 1], "where the fewest warps are, and no more than asked for");
    }

    #[test]
    fn clusters_fill_a_gpc_as_far_as_its_blocks_go() {
        for (count, blocks) in [(8, 2), (8, 3), (8, 16), (16, 5), (40, 7), (5, 4)] {
            let (mut sms, capability) = device(count);
            let placed = fill(&mut sms, capability, blocks);
            let of_gpc = |sms: usize| clusters_of_gpc(sms as u32, 2, blocks);
            let resident = count / 16 * of_gpc(16) as usize + of_gpc(count % 16) as usize;
            assert!(placed.len() >= resident, "{count} SMs, clusters of {blocks}");
            assert_eq!(
                placed.len(),
                count / 16 * (32 / blocks as usize) + count % 16 * 2 / blocks as usize
            );
            for cluster in placed {
                let gpc = cluster.first() / SMS_PER_GPC;
                assert!(cluster.iter().all(|sm| sm / SMS_PER_GPC == gpc));
                assert_eq!(cluster.iter().count() as u32, blocks);
            }
        }
        // More than a device of one SM has room for: it takes it alone.
        let (mut sms, capability) = device(1);
        let placed = fill(&mut sms, capability, 3);
        assert_eq!(placed.len(), 1);
        assert!(!sms[0].fits(&NEED, capability));
        placed[0].iter().for_each(|sm| sms[sm as usize].give(&NEED));
        assert!(sms[0].is_empty());
    }

    #[test]
    fn what_is_given_back_has_room_again() {
        let (mut sms, capability) = device(1);
        let placed = fill(&mut sms, capability, 2);
        assert_eq!(placed.len(), 1);
        placed[0].iter().for_each(|sm| sms[sm as usize].give(&NEED));
        assert!(sms[0].is_empty());
        assert_eq!(fill(&mut sms, capability, 1).len(), 2);
    }
}
