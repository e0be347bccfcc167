//! Driver calls by what they wait for: every function that the server calls, with its class.
//!
//! A call that waits for the context waits for everything that any client has submitted; most of them
//! hold the driver's lock meanwhile, so that no client can launch. Such a call is made through
//! [`ContextSync`](crate::device::ContextSync) and nowhere else. Measured on an H200 by
//! `bench/h200/waitcalls.py`, whose table the tests compare with this one.

/// What a call waits for before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Nothing that clients have submitted.
    Nothing,
    /// Nothing that clients have submitted, but other threads cannot launch while it lasts.
    Locked,
    /// The work of the stream that it names.
    Stream,
    /// All work of the context.
    Context,
    /// All work of the context, while other threads cannot launch.
    ContextLocked,
}

macro_rules! calls {
    ($($class:ident: $($name:ident)+;)+) => {
        /// Every function of the driver API that the server calls, by its class.
        pub const CALLS: &[(&str, Waits)] = &[$($((stringify!($name), Waits::$class),)+)+];
    };
}

calls! {
    ContextLocked:
        cuModuleLoadDataEx cuMemHostUnregister cuArrayDestroy cuMipmappedArrayDestroy;
    Context:
        cuModuleUnload cuGreenCtxCreate;
    Stream:
        cuStreamSynchronize cuMemcpy3D_v2;
    // Only when a fault has corrupted the context and nothing can be launched any more.
    Nothing:
        cuCtxSynchronize;
    // A kernel's first launch waits for the context if it needs more local memory than any before.
    Nothing:
        cuLaunchKernel cuLaunchKernelEx;
    Nothing:
        cuInit cuDriverGetVersion cuCtxSetCurrent cuCtxSetLimit cuDevicePrimaryCtxRetain
        cuDevicePrimaryCtxRelease_v2 cuCtxGetStreamPriorityRange cuDeviceGetName cuDeviceGetUuid
        cuDeviceGetCount cuDeviceGetP2PAttribute
        cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuDeviceGetPCIBusId cuDeviceGetAttribute
        cuDeviceGetDevResource cuDevSmResourceSplitByCount cuDevResourceGenerateDesc
        cuGreenCtxStreamCreate cuGreenCtxDestroy;
    Nothing:
        cuModuleGetFunction cuModuleGetFunctionCount cuModuleEnumerateFunctions
        cuModuleGetGlobal_v2 cuFuncGetName cuFuncGetAttribute cuFuncSetAttribute
        cuFuncSetCacheConfig cuKernelSetAttribute cuFuncGetParamInfo cuPointerGetAttribute
        cuLinkCreate_v2 cuLinkAddData_v2 cuLinkComplete cuLinkDestroy cuOccupancyMaxActiveClusters
        cuOccupancyMaxPotentialClusterSize cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        cuOccupancyAvailableDynamicSMemPerBlock;
    Nothing:
        cuMemGetInfo_v2 cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess
        cuMemAddressReserve cuMemAddressFree cuMemExportToShareableHandle
        cuMemImportFromShareableHandle cuMemHostGetDevicePointer_v2;
    // Pinning pages: it is made of pages that are there already.
    Locked:
        cuMemHostRegister_v2;
    Nothing:
        cuArray3DCreate_v2 cuArrayGetMemoryRequirements cuMipmappedArrayCreate
        cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements cuTexObjectCreate
        cuTexObjectDestroy cuSurfObjectCreate cuSurfObjectDestroy cuTensorMapEncodeTiled
        cuTensorMapEncodeIm2col cuTensorMapReplaceAddress;
    Nothing:
        cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamGetId cuStreamQuery cuStreamWaitEvent
        cuStreamWriteValue32_v2 cuStreamWriteValue64_v2 cuStreamWaitValue32_v2
        cuStreamWaitValue64_v2 cuLaunchHostFunc cuEventCreate cuEventRecord cuEventQuery
        cuEventElapsedTime cuEventDestroy_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2
        cuMemcpyDtoDAsync_v2 cuMemcpy3DAsync_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async
        cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async;
    Nothing:
        cuGraphCreate cuGraphDestroy cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode
        cuGraphAddMemsetNode cuGraphAddEmptyNode cuGraphAddNode_v2 cuGraphAddDependencies
        cuGraphAddDependencies_v2 cuGraphRemoveDependencies_v2 cuGraphKernelNodeSetAttribute
        cuGraphDestroyNode cuGraphConditionalHandleCreate cuGraphInstantiateWithFlags
        cuGraphLaunch cuGraphExecUpdate_v2 cuGraphExecKernelNodeSetParams_v2 cuGraphExecDestroy
        cuStreamBeginCaptureToGraph cuStreamGetCaptureInfo_v3 cuStreamEndCapture;
}

/// The class of a function; `None` if the table has no such row.
pub fn waits_of(symbol: &str) -> Option<Waits> {
    CALLS.iter().find(|(name, _)| *name == symbol).map(|(_, waits)| *waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::{Policy, ROWS};
    use std::collections::BTreeSet;
    use std::path::Path;

    const CONTEXT: [Waits; 2] = [Waits::Context, Waits::ContextLocked];

    /// Every line of the crate's sources that calls a driver function: file, line number, function.
    fn call_sites() -> Vec<(String, usize, String)> {
        fn visit(folder: &Path, sites: &mut Vec<(String, usize, String)>) {
            for entry in std::fs::read_dir(folder).expect("a folder of sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    visit(&path, sites);
                    continue;
                }
                let text = std::fs::read_to_string(&path).expect("a source file");
                for (number, line) in text.lines().enumerate() {
                    for (at, _) in line.match_indices(".cu") {
                        let name: String = line[at + 1..]
                            .chars()
                            .take_while(|c| c.is_alphanumeric() || *c == '_')
                            .collect();
                        let called = line[at + 1 + name.len()..].starts_with('(');
                        if called && name.as_bytes().get(2).is_some_and(u8::is_ascii_uppercase) {
                            sites.push((path.display().to_string(), number, name));
                        }
                    }
                }
            }
        }
        let mut sites = Vec::new();
        visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sites);
        sites
    }

    #[test]
    fn every_call_of_the_server_has_a_class_and_no_other_has() {
        let mut called: BTreeSet<String> =
            call_sites().into_iter().map(|(_, _, name)| name).collect();
        let forwarded = ROWS.iter().filter(|row| matches!(row.policy, Policy::Post | Policy::Call));
        called.extend(forwarded.map(|row| row.symbol.to_owned()));
        let listed: BTreeSet<String> = CALLS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(called, listed);
        assert_eq!(listed.len(), CALLS.len(), "a function has two classes");
    }

    #[test]
    fn calls_that_wait_for_the_context_are_made_in_one_way() {
        for (file, line, name) in call_sites() {
            if !waits_of(&name).is_some_and(|waits| CONTEXT.contains(&waits)) {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a source file");
            let before: Vec<&str> = text.lines().take(line + 1).collect();
            let near = &before[before.len().saturating_sub(6)..];
            assert!(
                near.iter().any(|line| line.contains("ContextCall::")),
                "{file}:{}: {name} is not made through ContextSync",
                line + 1
            );
        }
    }

    /// What `bench/h200/waitcalls.cu` does not call: its class is that of the calls of its kind.
    const NOT_MEASURED: &str = "
        cuArrayGetMemoryRequirements cuCtxGetStreamPriorityRange cuCtxSynchronize
        cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetName
        cuDeviceGetP2PAttribute cuDeviceGetPCIBusId cuDeviceGetUuid
        cuDeviceGetUuid_v2 cuDevicePrimaryCtxRelease_v2 cuDeviceTotalMem_v2
        cuDriverGetVersion cuEventElapsedTime cuFuncGetName cuFuncGetParamInfo
        cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphAddEmptyNode cuGraphAddMemcpyNode
        cuGraphAddMemsetNode cuGraphAddNode_v2 cuGraphConditionalHandleCreate
        cuGraphDestroyNode cuGraphKernelNodeSetAttribute cuGraphRemoveDependencies_v2
        cuKernelSetAttribute cuLaunchKernelEx
        cuMemsetD16Async cuMemsetD2D16Async cuMemsetD2D32Async cuMemsetD32Async
        cuMipmappedArrayGetMemoryRequirements cuModuleEnumerateFunctions
        cuModuleGetFunctionCount cuOccupancyAvailableDynamicSMemPerBlock
        cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags
        cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialClusterSize
        cuPointerGetAttribute cuStreamBeginCaptureToGraph cuStreamEndCapture
        cuStreamGetCaptureInfo_v3 cuStreamGetId cuStreamWaitValue64_v2
        cuStreamWriteValue64_v2 cuTensorMapEncodeIm2col cuTensorMapEncodeTiled
        cuTensorMapReplaceAddress";

    #[test]
    fn every_call_is_measured_or_is_said_not_to_be() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = std::fs::read_to_string(root.join("bench/h200/waitcalls.cu"));
        let program = program.expect("the program that measures");
        let is_called = |name: &str| {
            let name = name.split("_v").next().unwrap_or(name);
            program.contains(&format!("{name}("))
        };
        let names = CALLS.iter().map(|(name, _)| *name);
        let missing: BTreeSet<&str> = names.filter(|name| !is_called(name)).collect();
        assert_eq!(missing, NOT_MEASURED.split_whitespace().collect::<BTreeSet<_>>());
    }

    #[test]
    fn classes_are_those_that_hardware_was_measured_to_have() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let results = root.join("bench/h200/results");
        let newest = std::fs::read_dir(&results)
            .expect("results")
            .map(|entry| entry.expect("an entry").path().join("waitcalls.tsv"))
            .filter(|path| path.is_file())
            .max()
            .expect("a measurement");
        let text = std::fs::read_to_string(newest).expect("a table");
        let mut compared = 0;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [_, call, waits, ..] = fields[..] else { panic!("a row of the table: {line}") };
            let measured = match waits {
                "context, lock held" => Waits::ContextLocked,
                "context" => Waits::Context,
                _ => Waits::Nothing,
            };
            // The stack's limit is set for tenants only, which share no context.
            if call == "cuCtxSetLimit(stack)" {
                continue;
            }
            // A kernel's first launch is another thing than a launch.
            let symbol = call.split('(').next().unwrap_or(call);
            let row = CALLS.iter().find(|(name, _)| name.split("_v").next() == Some(symbol));
            let Some((_, class)) = row.filter(|_| !call.contains("first")) else { continue };
            compared += 1;
            match class {
                Waits::Stream | Waits::Locked => assert_eq!(measured, Waits::Nothing, "{call}"),
                class => assert_eq!(measured, *class, "{call}"),
            }
        }
        assert!(compared > 80, "only {compared} rows were compared");
    }
}
