//! Special registers.

use crate::handler_context::HandlerContext;
use crate::ops::map::each;
use crate::processor::cycles;
use simt::ir::op::Special;
use simt::kernel::{Dim3, WARP_LANES};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How a special register is named in a decoded instruction.
pub(crate) fn code(special: Special) -> i64 {
    i64::from(match special {
        Special::Tid(axis) => axis,
        Special::Ntid(axis) => NTID + axis,
        Special::Ctaid(axis) => CTAID + axis,
        Special::Nctaid(axis) => NCTAID + axis,
        Special::LaneId => LANE,
        Special::WarpId => WARP,
        Special::NwarpId => WARPS,
        Special::SmId => SM,
        Special::NsmId => SMS,
        Special::GridId => GRID,
        Special::LanemaskEq => MASK_EQ,
        Special::LanemaskLe => MASK_LE,
        Special::LanemaskLt => MASK_LT,
        Special::LanemaskGe => MASK_GE,
        Special::LanemaskGt => MASK_GT,
        Special::Clock | Special::Clock64 => CLOCK,
        Special::ClockHi => CLOCK_HI,
        Special::GlobalTimer | Special::GlobalTimerLo => TIMER,
        Special::GlobalTimerHi => TIMER_HI,
        Special::DynamicSharedBytes => DYNAMIC_SHARED,
        Special::TotalSharedBytes => TOTAL_SHARED,
        Special::Clusterid(axis) => CLUSTERID + axis,
        Special::Nclusterid(axis) => NCLUSTERID + axis,
        Special::ClusterCtaid(axis) => CLUSTER_CTAID + axis,
        Special::ClusterNctaid(axis) => CLUSTER_NCTAID + axis,
        Special::ClusterCtarank => CLUSTER_RANK,
        Special::ClusterNctarank => CLUSTER_RANKS,
        Special::ExplicitCluster => CLUSTERS,
        Special::WorkspaceLow => WORKSPACE,
        Special::WorkspaceHigh => WORKSPACE_HIGH,
        Special::StackBegin => STACK_BEGIN,
        Special::StackEnd => STACK_END,
        Special::Constant(_) => ZERO,
    })
}

const NTID: u8 = 4;
const CTAID: u8 = 8;
const NCTAID: u8 = 12;
const LANE: u8 = 16;
const WARP: u8 = 17;
const WARPS: u8 = 18;
const SM: u8 = 19;
const SMS: u8 = 20;
const GRID: u8 = 21;
const MASK_EQ: u8 = 22;
const MASK_LE: u8 = 23;
const MASK_LT: u8 = 24;
const MASK_GE: u8 = 25;
const MASK_GT: u8 = 26;
const CLOCK: u8 = 27;
const CLOCK_HI: u8 = 28;
const TIMER: u8 = 29;
const TIMER_HI: u8 = 30;
const DYNAMIC_SHARED: u8 = 31;
const TOTAL_SHARED: u8 = 32;
const WORKSPACE: u8 = 33;
const WORKSPACE_HIGH: u8 = 34;
const STACK_BEGIN: u8 = 35;
const STACK_END: u8 = 36;
const ZERO: u8 = 37;
const CLUSTERID: u8 = 38;
const NCLUSTERID: u8 = 42;
const CLUSTER_CTAID: u8 = 46;
const CLUSTER_NCTAID: u8 = 50;
const CLUSTER_RANK: u8 = 54;
const CLUSTER_RANKS: u8 = 55;
const CLUSTERS: u8 = 56;

/// Component 0, 1 or 2.
fn component(d: Dim3, axis: u8) -> u64 {
    u64::from([d.x, d.y, d.z][usize::from(axis.min(2))])
}

/// Each extent of one in terms of the other's.
fn quotient(a: Dim3, by: Dim3) -> Dim3 {
    Dim3 { x: a.x / by.x, y: a.y / by.y, z: a.z / by.z }
}

/// What is left of each extent.
fn remainder(a: Dim3, by: Dim3) -> Dim3 {
    Dim3 { x: a.x % by.x, y: a.y % by.y, z: a.z % by.z }
}

/// A clock that starts at the wall clock's time and never steps back, as that one may.
struct GlobalTimer {
    started: Instant,
    wall_ns: u64,
}

impl GlobalTimer {
    fn new(wall: SystemTime) -> Self {
        let wall_ns = wall.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        Self { started: Instant::now(), wall_ns }
    }

    fn now_ns(&self) -> u64 {
        self.wall_ns + self.started.elapsed().as_nanos() as u64
    }
}

/// Nanoseconds of `%globaltimer`: the wall clock is read once.
fn timer() -> u64 {
    static TIMER: OnceLock<GlobalTimer> = OnceLock::new();
    TIMER.get_or_init(|| GlobalTimer::new(SystemTime::now())).now_ns()
}

impl HandlerContext<'_> {
    /// The register's value in a lane.
    #[inline(always)]
    pub(crate) fn special(&self, code: u8, lane: u32) -> u64 {
        let launch = &self.block.launch;
        let bit = 1u64 << lane;
        match code {
            NTID..CTAID => component(launch.block, code - NTID),
            CTAID..NCTAID => component(self.index, code - CTAID),
            NCTAID..LANE => component(launch.grid, code - NCTAID),
            LANE => u64::from(lane),
            WARP => u64::from(self.warp),
            WARPS => u64::from(launch.warps_per_sm),
            SM => u64::from(self.sm.0),
            SMS => u64::from(self.sm.1),
            GRID => launch.grid_id,
            MASK_EQ => bit,
            MASK_LE => bit | (bit - 1),
            MASK_LT => bit - 1,
            MASK_GE => !(bit - 1),
            MASK_GT => !(bit | (bit - 1)),
            CLOCK => cycles(),
            CLOCK_HI => cycles() >> 32,
            TIMER => timer(),
            TIMER_HI => timer() >> 32,
            DYNAMIC_SHARED => u64::from(launch.dynamic_shared_bytes),
            TOTAL_SHARED => self.shared_bytes,
            CLUSTERID.. => self.special_of_cluster(code),
            WORKSPACE => launch.workspace,
            WORKSPACE_HIGH => launch.workspace >> 32,
            STACK_BEGIN => self.local_bytes - self.block.stack_bytes,
            STACK_END => self.local_bytes,
            _ => 0,
        }
    }

    /// The same of the registers of clusters.
    #[cold]
    fn special_of_cluster(&self, code: u8) -> u64 {
        let (launch, index) = (&self.block.launch, self.index);
        let of = launch.cluster_extents();
        match code {
            CLUSTERID..NCLUSTERID => component(quotient(index, of), code - CLUSTERID),
            NCLUSTERID..CLUSTER_CTAID => component(quotient(launch.grid, of), code - NCLUSTERID),
            CLUSTER_CTAID..CLUSTER_NCTAID => component(remainder(index, of), code - CLUSTER_CTAID),
            CLUSTER_NCTAID..CLUSTER_RANK => component(of, code - CLUSTER_NCTAID),
            CLUSTER_RANK => self.block.rank(index).into(),
            CLUSTER_RANKS => of.count(),
            _ => u64::from(launch.cluster.is_some()),
        }
    }

    /// `%tid` along an axis, all lanes of the warp.
    #[inline(always)]
    pub(crate) fn thread_indices(&self, axis: usize) -> [u32; WARP_LANES] {
        let block = self.block.launch.block;
        let first = self.warp * WARP_LANES as u32;
        let row = block.x.max(1);
        if first % row + WARP_LANES as u32 <= row {
            // The warp lies in one row.
            let y = first / row;
            return match axis {
                0 => each(|i| first % row + i as u32),
                1 => [y % block.y.max(1); WARP_LANES],
                _ => [y / block.y.max(1); WARP_LANES],
            };
        }
        each(|i| {
            let t = self.thread(i as u32);
            [t.x, t.y, t.z][axis]
        })
    }

    /// The index of a lane's thread in the block.
    pub(crate) fn thread(&self, lane: u32) -> Dim3 {
        thread_of(self.block.launch.block, self.warp * WARP_LANES as u32 + lane)
    }
}

/// The index of thread number `linear` of a block.
pub(crate) fn thread_of(block: Dim3, linear: u32) -> Dim3 {
    let (x, y) = (block.x.max(1), block.y.max(1));
    Dim3 { x: linear % x, y: linear / x % y, z: linear / x / y }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_global_timer_counts_on_from_the_wall_clock_it_has_read_once() {
        // An hour ahead: what the wall clock says later does not matter.
        let wall = SystemTime::now() + Duration::from_secs(3600);
        let start_ns = wall.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let timer = GlobalTimer::new(wall);
        let mut last_ns = start_ns;
        for _ in 0..1000 {
            let now_ns = timer.now_ns();
            assert!(now_ns >= last_ns);
            last_ns = now_ns;
        }
        assert!(super::timer() < last_ns, "the process's own timer starts at its own reading");
    }
}
