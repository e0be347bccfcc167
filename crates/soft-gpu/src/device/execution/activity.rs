//! How busy the device was: integrals over time, exact, kept by every change of what is resident.
//!
//! Three measures and never one: any kernel running (what people call GPU utilisation), SMs with
//! work, slots in use. A process that waits for its turn has nothing running.
//!
//! The device's are [`Activity`]; what is resident, of all, of one tenant or of one launch, is a
//! [`Resident`] each, on the clock that stands still meanwhile.

use crate::device::capability::Capability;

/// Integrals since the device was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityTotals {
    /// Time since the device was made, ns.
    pub total_ns: u64,
    /// Time in which at least one kernel ran, ns.
    pub any_kernel_ns: u64,
    /// SMs with a resident block, SM * ns.
    pub sm_ns: u64,
    /// Resident blocks, block * ns.
    pub block_ns: u64,
    /// Resident warps, warp * ns.
    pub warp_ns: u64,
    /// Capacity of the three above: SMs.
    pub sms: u32,
    /// Block slots of the whole device.
    pub block_slots: u32,
    /// Warp slots of the whole device.
    pub warp_slots: u32,
}

/// Keeps [`ActivityTotals`].
pub(in crate::device) struct Activity {
    /// All that does not change, and the time that passed.
    totals: ActivityTotals,
    last_ns: u64,
    /// The device is this process's now.
    held: bool,
    /// For how long it has been, ns: the clock of every [`Resident`].
    held_ns: u64,
    /// All blocks that are on the device.
    pub(in crate::device) resident: Resident,
}

impl Activity {
    pub(in crate::device) fn new(sms: u32, capability: &Capability, now_ns: u64) -> Self {
        Self {
            totals: ActivityTotals {
                sms,
                block_slots: sms * capability.blocks,
                warp_slots: sms * capability.warps,
                ..Default::default()
            },
            last_ns: now_ns,
            held: false,
            held_ns: 0,
            resident: Resident::default(),
        }
    }

    pub(in crate::device) fn totals(&mut self, now_ns: u64) -> ActivityTotals {
        self.clock_ns(now_ns);
        let Resident { any_ns, sm_ns, block_ns, warp_ns, .. } = self.resident;
        ActivityTotals { any_kernel_ns: any_ns, sm_ns, block_ns, warp_ns, ..self.totals }
    }

    /// Counts the time up to now. Gives the time in which the device was this process's, ns: what a
    /// [`Resident`] gets.
    pub(in crate::device) fn clock_ns(&mut self, now_ns: u64) -> u64 {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.totals.total_ns += elapsed;
        self.held_ns += if self.held { elapsed } else { 0 };
        self.resident.advance(self.held_ns);
        self.held_ns
    }

    pub(in crate::device) fn set_held(&mut self, held: bool, now_ns: u64) {
        self.clock_ns(now_ns);
        self.held = held;
    }
}

/// SMs for which room is made at once: as many as most devices have.
const SMS_AT_ONCE: usize = 128;

/// What some of the resident blocks have of the device, and what that comes to over time.
#[derive(Debug, Default)]
pub(in crate::device) struct Resident {
    blocks: u64,
    warps: u64,
    sms: u64,
    /// Blocks on each SM.
    on_sm: Vec<u32>,
    /// When it was last looked at, ns of [`Activity::clock_ns`].
    since_ns: u64,
    /// Time in which there was a block, ns.
    any_ns: u64,
    /// SM * ns in which there was one there.
    pub(in crate::device) sm_ns: u64,
    block_ns: u64,
    pub(in crate::device) warp_ns: u64,
}

impl Resident {
    /// Counts the time up to now. Blocks come and leave at the time that this was last set.
    pub(in crate::device) fn advance(&mut self, clock_ns: u64) {
        let elapsed = clock_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(clock_ns);
        self.any_ns += if self.blocks > 0 { elapsed } else { 0 };
        self.sm_ns += elapsed * self.sms;
        self.block_ns += elapsed * self.blocks;
        self.warp_ns += elapsed * self.warps;
    }

    /// SMs that have a block.
    #[cfg(test)]
    pub(in crate::device) fn occupied(&self) -> Vec<u32> {
        let sms = self.on_sm.iter().enumerate().filter(|(_, blocks)| **blocks > 0);
        sms.map(|(sm, _)| sm as u32).collect()
    }

    /// Warps of all its blocks.
    #[cfg(test)]
    pub(in crate::device) fn warps(&self) -> u64 {
        self.warps
    }

    /// A block of `warps` warps came to an SM.
    #[inline]
    pub(in crate::device) fn came(&mut self, sm: u32, warps: u32) {
        if sm as usize >= self.on_sm.len() {
            self.make_room(sm);
        }
        let on_sm = &mut self.on_sm[sm as usize];
        self.sms += u64::from(*on_sm == 0);
        *on_sm += 1;
        self.blocks += 1;
        self.warps += u64::from(warps);
    }

    #[cold]
    fn make_room(&mut self, sm: u32) {
        self.on_sm.resize((sm as usize + 1).next_multiple_of(SMS_AT_ONCE), 0);
    }

    /// A block of `warps` warps, which had come there, left it.
    #[inline]
    pub(in crate::device) fn left(&mut self, sm: u32, warps: u32) {
        let on_sm = &mut self.on_sm[sm as usize];
        *on_sm -= 1;
        self.sms -= u64::from(*on_sm == 0);
        self.blocks -= 1;
        self.warps -= u64::from(warps);
    }

    /// Blocks on an SM.
    pub(in crate::device) fn blocks_on(&self, sm: u32) -> u32 {
        self.on_sm.get(sm as usize).copied().unwrap_or(0)
    }

    /// Counts from 0 again, for other blocks; none of these is left.
    pub(in crate::device) fn begin_anew(&mut self) {
        debug_assert!(self.blocks == 0 && self.on_sm.iter().all(|blocks| *blocks == 0));
        *self = Self { on_sm: std::mem::take(&mut self.on_sm), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::CAPABILITIES;

    #[test]
    fn an_endless_block_on_one_of_eight_sms() {
        let mut activity = Activity::new(8, &CAPABILITIES[0], 1000);
        activity.set_held(true, 1000);
        activity.resident.came(5, 1);
        let t = activity.totals(2000);
        assert_eq!((t.total_ns, t.any_kernel_ns), (1000, 1000));
        assert_eq!(t.sm_ns * 8, t.any_kernel_ns * u64::from(t.sms));
        assert_eq!(t.warp_ns, 1000);
        activity.set_held(false, 2000);
        activity.set_held(true, 2500);
        activity.clock_ns(3000);
        activity.resident.left(5, 1);
        let t = activity.totals(4000);
        assert_eq!((t.total_ns, t.any_kernel_ns, t.block_ns), (3000, 1500, 1500));
        assert_eq!(activity.clock_ns(4000), 2500, "all but what another process had");
    }

    #[test]
    fn blocks_of_one_party_on_the_same_and_on_other_sms() {
        let mut resident = Resident::default();
        let totals = |resident: &mut Resident, clock_ns| {
            resident.advance(clock_ns);
            (resident.sm_ns, resident.warp_ns)
        };
        resident.came(3, 2);
        totals(&mut resident, 10);
        resident.left(3, 2);
        assert_eq!(totals(&mut resident, 20), (10, 20));
        // Two on one SM, one on another, the first of them goes, then all.
        resident.came(1, 4);
        totals(&mut resident, 30);
        resident.came(1, 4);
        resident.came(0, 1);
        assert_eq!(totals(&mut resident, 40), (10 + 10 + 20, 20 + 40 + 90));
        resident.left(1, 4);
        assert_eq!(totals(&mut resident, 50), (60, 200));
        resident.left(1, 4);
        resident.left(0, 1);
        assert_eq!(totals(&mut resident, 90), (60, 200));
        assert_eq!((resident.any_ns, resident.block_ns), (40, 70));
        resident.came(7, 1);
        assert_eq!(totals(&mut resident, 91), (61, 201));
        resident.left(7, 1);
        resident.begin_anew();
        assert_eq!(totals(&mut resident, 99), (0, 0));
    }
}
