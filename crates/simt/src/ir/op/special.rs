//! Special registers, and functions of the device runtime.

use crate::ir::width::Width;

/// Special registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    GlobalTimer,
    GlobalTimerLo,
    GlobalTimerHi,
    DynamicSharedBytes,
    TotalSharedBytes,
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    /// 1 if the launch has clusters: `%is_explicit_cluster`.
    ExplicitCluster,
    /// `%envreg2`: the lower half of the address of the grid's workspace.
    WorkspaceLow,
    /// `%envreg1`: the upper half.
    WorkspaceHigh,
    /// Offset in local memory at which the part for `alloca` begins.
    StackBegin,
    /// Offset at which it ends, and with it a thread's local memory.
    StackEnd,
    /// Other `%envreg*` and `%pm*`, with a fixed value.
    Constant(u32),
}

impl Special {
    /// True if lanes have values of their own.
    pub fn varies(self) -> bool {
        matches!(
            self,
            Self::Tid(_)
                | Self::LaneId
                | Self::LanemaskEq
                | Self::LanemaskLe
                | Self::LanemaskLt
                | Self::LanemaskGe
                | Self::LanemaskGt
        )
    }

    /// Width of the register read: PTX lets some be read narrower; this is the full one.
    pub fn width(self) -> Width {
        match self {
            Self::Clock64 | Self::GlobalTimer | Self::GridId => Width::W64,
            Self::StackBegin | Self::StackEnd => Width::W64,
            _ => Width::W32,
        }
    }
}

/// Functions that the device runtime provides rather than the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// `int vprintf(const char *format, void *arguments)`.
    Vprintf,
    /// `void __assertfail(message, file, line, function, size)`.
    AssertFail,
    /// `void *malloc(size_t)`.
    Malloc,
    /// `void free(void *)`.
    Free,
    /// `uint64_t __openmps_device_call(uint64_t number, a, b, c, d)`: see
    /// [`device_runtime`](crate::runtime::device_runtime).
    DeviceCall,
    /// Any other function of CUDA's device runtime: a fault.
    DynamicParallelism,
}
