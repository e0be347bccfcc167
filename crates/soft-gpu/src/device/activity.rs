//! How busy the device was: integrals over time, exact, kept by every change of what is resident.
//!
//! Three measures and never one: any kernel running (what people call GPU utilisation), SMs with
//! work, slots in use. A process that waits for its turn has nothing running.
//!
//! The device's are [`Activity`]; those of one tenant, or of one launch, are a [`Resident`] each, on
//! the clock that stands still meanwhile.

use super::capability::Capability;

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
pub(super) struct Activity {
    totals: ActivityTotals,
    last_ns: u64,
    /// Blocks, warps, SMs in use now.
    blocks: u64,
    warps: u64,
    sms: u64,
    /// The device is this process's now.
    held: bool,
    /// For how long it has been, ns.
    held_ns: u64,
}

impl Activity {
    pub(super) fn new(sms: u32, capability: &Capability, now_ns: u64) -> Self {
        Self {
            totals: ActivityTotals {
                sms,
                block_slots: sms * capability.blocks,
                warp_slots: sms * capability.warps,
                ..Default::default()
            },
            last_ns: now_ns,
            blocks: 0,
            warps: 0,
            sms: 0,
            held: false,
            held_ns: 0,
        }
    }

    fn advance(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.totals.total_ns += elapsed;
        self.held_ns += if self.held { elapsed } else { 0 };
        if self.held && self.blocks > 0 {
            self.totals.any_kernel_ns += elapsed;
            self.totals.sm_ns += elapsed * self.sms;
            self.totals.block_ns += elapsed * self.blocks;
            self.totals.warp_ns += elapsed * self.warps;
        }
    }

    pub(super) fn totals(&mut self, now_ns: u64) -> ActivityTotals {
        self.advance(now_ns);
        self.totals
    }

    /// Time in which the device was this process's, ns: what a [`Resident`] is told.
    pub(super) fn clock_ns(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        self.held_ns
    }

    pub(super) fn set_held(&mut self, held: bool, now_ns: u64) {
        self.advance(now_ns);
        self.held = held;
    }

    /// A block of `warps` warps came; `first` on its SM.
    pub(super) fn block_placed(&mut self, warps: u32, first: bool, now_ns: u64) {
        self.advance(now_ns);
        self.blocks += 1;
        self.warps += u64::from(warps);
        self.sms += u64::from(first);
    }

    /// A block of `warps` warps left; `last` of its SM.
    pub(super) fn block_left(&mut self, warps: u32, last: bool, now_ns: u64) {
        self.advance(now_ns);
        self.blocks -= 1;
        self.warps -= u64::from(warps);
        self.sms -= u64::from(last);
    }
}

/// Counts of SMs for which room is made at once: as many as most devices have.
const SMS_AT_ONCE: usize = 128;

/// What some of the resident blocks have of the device, and what that comes to over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Resident {
    blocks: u32,
    warps: u64,
    sms: u64,
    /// The SM of a block that is alone: most launches of one block never have more.
    alone_on: Option<u32>,
    /// Blocks on each SM, but for one that is alone.
    on_sm: Vec<u32>,
    /// When it last changed, ns of [`Activity::clock_ns`].
    since_ns: u64,
    sm_ns: u64,
    warp_ns: u64,
}

impl Resident {
    fn advance(&mut self, clock_ns: u64) {
        let elapsed = clock_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(clock_ns);
        self.sm_ns += elapsed * self.sms;
        self.warp_ns += elapsed * self.warps;
    }

    fn count(&mut self, sm: u32) -> &mut u32 {
        let at = sm as usize;
        if at >= self.on_sm.len() {
            self.on_sm.resize((at + 1).next_multiple_of(SMS_AT_ONCE), 0);
        }
        &mut self.on_sm[at]
    }

    /// A block of `warps` warps came to an SM.
    pub(super) fn came(&mut self, sm: u32, warps: u32, clock_ns: u64) {
        self.advance(clock_ns);
        let first = if self.blocks == 0 {
            self.alone_on = Some(sm);
            true
        } else {
            if let Some(other) = self.alone_on.take() {
                *self.count(other) = 1;
            }
            *self.count(sm) += 1;
            *self.count(sm) == 1
        };
        self.blocks += 1;
        self.warps += u64::from(warps);
        self.sms += u64::from(first);
    }

    /// A block of `warps` warps left it.
    pub(super) fn left(&mut self, sm: u32, warps: u32, clock_ns: u64) {
        self.advance(clock_ns);
        let last = if self.alone_on.take().is_some() {
            true
        } else {
            *self.count(sm) -= 1;
            *self.count(sm) == 0
        };
        self.blocks -= 1;
        self.warps -= u64::from(warps);
        self.sms -= u64::from(last);
    }

    /// SM * ns in which there was a block, and warp * ns.
    pub(super) fn totals(&mut self, clock_ns: u64) -> (u64, u64) {
        self.advance(clock_ns);
        (self.sm_ns, self.warp_ns)
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
        activity.block_placed(1, true, 1000);
        let t = activity.totals(2000);
        assert_eq!((t.total_ns, t.any_kernel_ns), (1000, 1000));
        assert_eq!(t.sm_ns * 8, t.any_kernel_ns * u64::from(t.sms));
        assert_eq!(t.warp_ns, 1000);
        activity.set_held(false, 2000);
        activity.set_held(true, 2500);
        activity.block_left(1, true, 3000);
        let t = activity.totals(4000);
        assert_eq!((t.total_ns, t.any_kernel_ns, t.block_ns), (3000, 1500, 1500));
        assert_eq!(activity.clock_ns(4000), 2500, "all but what another process had");
    }

    #[test]
    fn blocks_of_one_party_on_the_same_and_on_other_sms() {
        let mut resident = Resident::default();
        resident.came(3, 2, 0);
        resident.left(3, 2, 10);
        assert_eq!(resident.totals(20), (10, 20));
        // Two on one SM, one on another, the first of them goes, then all.
        resident.came(1, 4, 20);
        resident.came(1, 4, 30);
        resident.came(0, 1, 30);
        assert_eq!(resident.totals(40), (10 + 10 + 20, 20 + 40 + 90));
        resident.left(1, 4, 40);
        assert_eq!(resident.totals(50), (60, 200));
        resident.left(1, 4, 50);
        resident.left(0, 1, 50);
        assert_eq!(resident.totals(90), (60, 200));
        resident.came(7, 1, 90);
        assert_eq!(resident.totals(91), (61, 201));
    }
}
