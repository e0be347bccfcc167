//! How busy the device was: integrals over time, exact, kept by every change of what is resident.
//!
//! Three measures and never one: any kernel running (what people call GPU utilisation), SMs with
//! work, slots in use. A process that waits for its turn has nothing running.

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
        }
    }

    fn advance(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.totals.total_ns += elapsed;
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
    }
}
