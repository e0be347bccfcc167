//! Special registers: what a thread can ask about itself and its surroundings.

use super::types::{ScalarType, vocabulary};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

vocabulary! {
    /// A predefined, read-only register, without its component (`%tid` for `%tid.x`).
    SpecialRegister {
        Tid "tid", Ntid "ntid", Laneid "laneid", Warpid "warpid", Nwarpid "nwarpid",
        Ctaid "ctaid", Nctaid "nctaid", Smid "smid", Nsmid "nsmid", Gridid "gridid",
        IsExplicitCluster "is_explicit_cluster", Clusterid "clusterid", Nclusterid "nclusterid",
        ClusterCtaid "cluster_ctaid", ClusterNctaid "cluster_nctaid",
        ClusterCtarank "cluster_ctarank", ClusterNctarank "cluster_nctarank",
        LanemaskEq "lanemask_eq", LanemaskLe "lanemask_le", LanemaskLt "lanemask_lt",
        LanemaskGe "lanemask_ge", LanemaskGt "lanemask_gt",
        Clock "clock", ClockHi "clock_hi", Clock64 "clock64",
        Pm0 "pm0", Pm1 "pm1", Pm2 "pm2", Pm3 "pm3", Pm4 "pm4", Pm5 "pm5", Pm6 "pm6", Pm7 "pm7",
        Pm0_64 "pm0_64", Pm1_64 "pm1_64", Pm2_64 "pm2_64", Pm3_64 "pm3_64",
        Pm4_64 "pm4_64", Pm5_64 "pm5_64", Pm6_64 "pm6_64", Pm7_64 "pm7_64",
        Globaltimer "globaltimer", GlobaltimerLo "globaltimer_lo", GlobaltimerHi "globaltimer_hi",
        ReservedSmemOffsetBegin "reserved_smem_offset_begin",
        ReservedSmemOffsetEnd "reserved_smem_offset_end",
        ReservedSmemOffsetCap "reserved_smem_offset_cap",
        ReservedSmemOffset0 "reserved_smem_offset_0",
        ReservedSmemOffset1 "reserved_smem_offset_1",
        TotalSmemSize "total_smem_size", AggrSmemSize "aggr_smem_size",
        DynamicSmemSize "dynamic_smem_size", CurrentGraphExec "current_graph_exec",
        Envreg0 "envreg0", Envreg1 "envreg1", Envreg2 "envreg2", Envreg3 "envreg3",
        Envreg4 "envreg4", Envreg5 "envreg5", Envreg6 "envreg6", Envreg7 "envreg7",
        Envreg8 "envreg8", Envreg9 "envreg9", Envreg10 "envreg10", Envreg11 "envreg11",
        Envreg12 "envreg12", Envreg13 "envreg13", Envreg14 "envreg14", Envreg15 "envreg15",
        Envreg16 "envreg16", Envreg17 "envreg17", Envreg18 "envreg18", Envreg19 "envreg19",
        Envreg20 "envreg20", Envreg21 "envreg21", Envreg22 "envreg22", Envreg23 "envreg23",
        Envreg24 "envreg24", Envreg25 "envreg25", Envreg26 "envreg26", Envreg27 "envreg27",
        Envreg28 "envreg28", Envreg29 "envreg29", Envreg30 "envreg30", Envreg31 "envreg31",
    }
}

impl SpecialRegister {
    /// The special register spelled `text`, without its `%`.
    pub fn from_text(text: &str) -> Option<SpecialRegister> {
        static BY_TEXT: LazyLock<HashMap<&'static str, SpecialRegister>> = LazyLock::new(|| {
            SpecialRegister::ALL.iter().map(|&register| (register.text(), register)).collect()
        });
        BY_TEXT.get(text).copied()
    }

    /// Has components `.x`, `.y`, `.z` (and `.w`, always 0).
    pub const fn is_vector(self) -> bool {
        use SpecialRegister::*;
        matches!(
            self,
            Tid | Ntid | Ctaid | Nctaid | Clusterid | Nclusterid | ClusterCtaid | ClusterNctaid
        )
    }

    /// Type of the register, or of one component.
    pub const fn ty(self) -> ScalarType {
        use SpecialRegister::*;
        match self {
            Clock64 | Gridid | Globaltimer | CurrentGraphExec | Pm0_64 | Pm1_64 | Pm2_64
            | Pm3_64 | Pm4_64 | Pm5_64 | Pm6_64 | Pm7_64 => ScalarType::U64,
            IsExplicitCluster => ScalarType::Pred,
            Envreg0 | Envreg1 | Envreg2 | Envreg3 | Envreg4 | Envreg5 | Envreg6 | Envreg7
            | Envreg8 | Envreg9 | Envreg10 | Envreg11 | Envreg12 | Envreg13 | Envreg14
            | Envreg15 | Envreg16 | Envreg17 | Envreg18 | Envreg19 | Envreg20 | Envreg21
            | Envreg22 | Envreg23 | Envreg24 | Envreg25 | Envreg26 | Envreg27 | Envreg28
            | Envreg29 | Envreg30 | Envreg31 => ScalarType::B32,
            _ => ScalarType::U32,
        }
    }

    /// Number of an `%envreg<n>`.
    pub fn envreg(self) -> Option<u32> {
        self.text().strip_prefix("envreg")?.parse().ok()
    }
}
