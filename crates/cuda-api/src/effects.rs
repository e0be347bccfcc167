//! What shows that a function does what it says which a client answers itself and which gives nothing back.
//!
//! A success without effect is worse than CUDA_ERROR_NOT_SUPPORTED: a program goes on with what it has
//! not got. So each such row of the table stands here, and a new one does not pass the test below.

/// What shows a function's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Another function, whose answer or work is another one afterwards.
    Shows(&'static str),
    /// Nothing: the manual calls it a hint or a preference, for the reason given.
    Hint(&'static str),
}

use Effect::{Hint, Shows};

/// Functions of policy `local` without a result, and what shows their effect.
pub const EFFECTS: &[(&str, Effect)] = &[
    ("cuInit", Shows("cuDeviceGetCount")),
    ("cuDeviceSetMemPool", Shows("cuDeviceGetMemPool")),
    ("cuDevicePrimaryCtxSetFlags", Shows("cuDevicePrimaryCtxGetState")),
    ("cuDevicePrimaryCtxSetFlags_v2", Shows("cuDevicePrimaryCtxGetState")),
    ("cuCtxPushCurrent_v2", Shows("cuCtxGetCurrent")),
    ("cuCtxSetCurrent", Shows("cuCtxGetCurrent")),
    ("cuCtxSetFlags", Shows("cuCtxGetFlags")),
    ("cuCtxSetCacheConfig", Shows("cuCtxGetCacheConfig")),
    (
        "cuCtxSetSharedMemConfig",
        Hint("devices have one bank size, as cuCtxGetSharedMemConfig says"),
    ),
    ("cuCtxResetPersistingL2Cache", Hint("no client has a part of the cache set aside")),
    ("cuCtxEnablePeerAccess", Shows("cuCtxDisablePeerAccess")),
    ("cuCtxDisablePeerAccess", Shows("cuCtxEnablePeerAccess")),
    ("cuLinkDestroy", Shows("cuLinkComplete")),
    ("cuKernelSetCacheConfig", Shows("cuOccupancyMaxActiveBlocksPerMultiprocessor")),
    (
        "cuFuncSetSharedMemConfig",
        Hint("devices have one bank size, as cuCtxGetSharedMemConfig says"),
    ),
    ("cuFuncLoad", Shows("cuFuncIsLoaded")),
    ("cuFuncSetBlockShape", Shows("cuLaunchGrid")),
    ("cuFuncSetSharedSize", Shows("cuLaunchGrid")),
    ("cuParamSetSize", Shows("cuLaunchGrid")),
    ("cuParamSeti", Shows("cuLaunchGrid")),
    ("cuParamSetf", Shows("cuLaunchGrid")),
    ("cuMemPrefetchAsync", Shows("cuMemRangeGetAttribute")),
    ("cuMemPrefetchAsync_v2", Shows("cuMemRangeGetAttribute")),
    ("cuMemAdvise", Shows("cuMemRangeGetAttribute")),
    ("cuMemAdvise_v2", Shows("cuMemRangeGetAttribute")),
    ("cuMemPoolDestroy", Shows("cuMemPoolGetAttribute")),
    ("cuMemPoolTrimTo", Shows("cuMemPoolGetAttribute")),
    ("cuMemPoolSetAccess", Shows("cuMemPoolGetAccess")),
    (
        "cuPointerSetAttribute",
        Hint("copies of the memory are ordered for other devices in any case"),
    ),
    ("cuStreamAttachMemAsync", Hint("both sides see managed memory alike from any stream")),
    ("cuStreamSetAttribute", Shows("cuStreamGetAttribute")),
    ("cuStreamCopyAttributes", Shows("cuStreamGetAttribute")),
    ("cuProfilerStart", Hint("no profiler is attached, which is no error")),
    ("cuProfilerStop", Hint("no profiler is attached, which is no error")),
    ("cuGraphDestroy", Shows("cuGraphGetNodes")),
    ("cuGraphAddDependencies", Shows("cuGraphGetEdges")),
    ("cuGraphAddDependencies_v2", Shows("cuGraphGetEdges_v2")),
    ("cuGraphRemoveDependencies", Shows("cuGraphGetEdges")),
    ("cuGraphRemoveDependencies_v2", Shows("cuGraphGetEdges_v2")),
    ("cuGraphDebugDotPrint", Hint("it writes a file, or is CUDA_ERROR_OPERATING_SYSTEM")),
    ("cuGraphDestroyNode", Shows("cuGraphGetNodes")),
    ("cuGraphKernelNodeSetParams", Shows("cuGraphKernelNodeGetParams")),
    ("cuGraphKernelNodeSetParams_v2", Shows("cuGraphKernelNodeGetParams_v2")),
    ("cuGraphKernelNodeSetAttribute", Shows("cuGraphKernelNodeGetAttribute")),
    ("cuGraphKernelNodeCopyAttributes", Shows("cuGraphKernelNodeGetAttribute")),
    ("cuGraphMemcpyNodeSetParams", Shows("cuGraphMemcpyNodeGetParams")),
    ("cuGraphMemsetNodeSetParams", Shows("cuGraphMemsetNodeGetParams")),
    ("cuGraphHostNodeSetParams", Shows("cuGraphHostNodeGetParams")),
    ("cuGraphEventRecordNodeSetEvent", Shows("cuGraphEventRecordNodeGetEvent")),
    ("cuGraphEventWaitNodeSetEvent", Shows("cuGraphEventWaitNodeGetEvent")),
    ("cuGraphBatchMemOpNodeSetParams", Shows("cuGraphBatchMemOpNodeGetParams")),
    ("cuDeviceGraphMemTrim", Shows("cuDeviceGetGraphMemAttribute")),
    ("cuGraphNodeSetEnabled", Shows("cuGraphNodeGetEnabled")),
    ("cuGraphExecKernelNodeSetParams", Shows("cuGraphLaunch")),
    ("cuGraphExecKernelNodeSetParams_v2", Shows("cuGraphLaunch")),
    ("cuGraphExecMemcpyNodeSetParams", Shows("cuGraphLaunch")),
    ("cuGraphExecMemsetNodeSetParams", Shows("cuGraphLaunch")),
    ("cuGraphExecHostNodeSetParams", Shows("cuGraphLaunch")),
    ("cuGraphExecChildGraphNodeSetParams", Shows("cuGraphLaunch")),
    ("cuGraphExecEventRecordNodeSetEvent", Shows("cuGraphLaunch")),
    ("cuGraphExecEventWaitNodeSetEvent", Shows("cuGraphLaunch")),
    ("cuGraphExecBatchMemOpNodeSetParams", Shows("cuGraphLaunch")),
    ("cuUserObjectRetain", Shows("cuUserObjectRelease")),
    ("cuUserObjectRelease", Shows("cuUserObjectRetain")),
    ("cuGraphRetainUserObject", Shows("cuGraphReleaseUserObject")),
    ("cuGraphReleaseUserObject", Shows("cuGraphRetainUserObject")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, ROWS, Row};
    use alloc::collections::BTreeSet;

    /// True if a program gets something back beside the status.
    fn gives_back(row: &Row) -> bool {
        row.parameters.iter().any(|ty| ty.replace(' ', "").starts_with("*mut"))
    }

    #[test]
    fn what_is_answered_without_a_result_has_something_that_shows_its_effect() {
        let silent = |row: &&Row| row.policy == Policy::Local && !gives_back(row);
        let silent: BTreeSet<&str> = ROWS.iter().filter(silent).map(|row| row.symbol).collect();
        let listed: BTreeSet<&str> = EFFECTS.iter().map(|(symbol, _)| *symbol).collect();
        assert_eq!(silent, listed);
        assert_eq!(listed.len(), EFFECTS.len(), "a function stands here twice");
        for (symbol, effect) in EFFECTS {
            match effect {
                Shows(other) => {
                    let known = ROWS.iter().find(|row| row.symbol == *other);
                    let known = known.unwrap_or_else(|| panic!("{symbol}: {other} is no row"));
                    assert_ne!(known.policy, Policy::Unsupported, "{symbol}: {other}");
                }
                Hint(why) => assert!(why.len() > 10, "{symbol}: say why"),
            }
        }
    }
}
