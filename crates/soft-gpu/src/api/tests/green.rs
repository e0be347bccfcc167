//! Green contexts: blocks stay on the SMs that a context was made of.

use super::super::graph::*;
use super::super::green::*;
use super::super::resource::*;
use super::*;
use cuda_api::constants::device_resource::{GREEN_DEFAULT_STREAM, SM};

/// Each thread adds 1 to the word of its SM, after some time.
const PTX: &str = ".version 7.0\n.target sm_80\n.address_size 64\n
    .visible .entry where(.param .u64 p)\n{
    .reg .b64 %p; .reg .b64 %o; .reg .b32 %s; .reg .b32 %i; .reg .pred %q;
    ld.param.u64 %p, [p]; mov.u32 %s, %smid; mul.wide.u32 %o, %s, 4; add.u64 %p, %p, %o;
    mov.u32 %i, 0;
again: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 2000; @%q bra again;
    red.global.add.u32 [%p], 1; ret;\n}\n\0";

/// Threads of 64 blocks of 32 that ran on each SM when they were launched in that stream.
fn threads_by_sm(stream: CUstream) -> Vec<u32> {
    threads_of(|function, params| {
        let none = std::ptr::null_mut();
        cu!(cuLaunchKernel(function, 64, 1, 1, 32, 1, 1, 0, stream, params, none)).unwrap();
        cu!(cuStreamSynchronize(stream)).unwrap();
    })
}

/// The same by a graph's node: captured in a stream of a green context, or added to the graph with the
/// function and, in vain, a context beside it; launched in another stream.
fn threads_of_graph(stream: CUstream, launched_in: CUstream) -> Vec<u32> {
    threads_of(|function, params| {
        let none = std::ptr::null_mut();
        let (mut made, mut exec) = (CUgraph::NULL, CUgraphExec::NULL);
        match stream.is_null() {
            false => {
                cu!(cuStreamBeginCapture_v2(stream, 2)).unwrap();
                cu!(cuLaunchKernel(function, 64, 1, 1, 32, 1, 1, 0, stream, params, none)).unwrap();
                cu!(cuStreamEndCapture(stream, &mut made)).unwrap();
            }
            true => {
                let (mut ctx, mut green, mut node) =
                    (CUcontext::NULL, CUgreenCtx::NULL, CUgraphNode::NULL);
                cu!(cuStreamGetGreenCtx(launched_in, &mut green)).unwrap();
                cu!(cuCtxFromGreenCtx(&mut ctx, green)).unwrap();
                let params =
                    CUDA_KERNEL_NODE_PARAMS { ctx, ..kernel_params(function, [64, 32], params) };
                cu!(cuGraphCreate(&mut made, 0)).unwrap();
                cu!(cuGraphAddKernelNode_v2(&mut node, made, std::ptr::null(), 0, &params))
                    .unwrap();
            }
        }
        cu!(cuGraphInstantiateWithFlags(&mut exec, made, 0)).unwrap();
        cu!(cuGraphLaunch(exec, launched_in)).unwrap();
        cu!(cuStreamSynchronize(launched_in)).unwrap();
        cu!(cuGraphExecDestroy(exec)).unwrap();
        cu!(cuGraphDestroy(made)).unwrap();
    })
}

fn threads_of(launch: impl FnOnce(CUfunction, *mut *mut c_void)) -> Vec<u32> {
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, PTX.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"where".as_ptr())).unwrap();
    let mut counts = allocate(4096);
    cu!(cuMemsetD8_v2(counts, 0, 4096)).unwrap();
    // Streams of green contexts do not wait for the default one.
    cu!(cuCtxSynchronize()).unwrap();
    let mut params = [std::ptr::from_mut(&mut counts).cast::<c_void>()];
    launch(function, params.as_mut_ptr());
    let mut words = vec![0u32; 1024];
    cu!(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), counts, 4096)).unwrap();
    cu!(cuModuleUnload(module)).unwrap();
    words
}

/// The most blocks of 1024 threads that a cooperative launch in that stream may have.
fn cooperative_blocks_max(stream: CUstream) -> u32 {
    let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
    let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry none() { ret; }\n\0";
    cu!(cuModuleLoadData(&mut module, ptx.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut function, module, c"none".as_ptr())).unwrap();
    let launch = |blocks| {
        let none = std::ptr::null_mut();
        cu!(cuLaunchCooperativeKernel(function, blocks, 1, 1, 1024, 1, 1, 0, stream, none))
    };
    let refused = (1..).find_map(|blocks| launch(blocks).err().map(|error| (blocks, error)));
    cu!(cuStreamSynchronize(stream)).unwrap();
    cu!(cuModuleUnload(module)).unwrap();
    let (blocks, error) = refused.unwrap();
    assert_eq!(error, Error::COOPERATIVE_LAUNCH_TOO_LARGE);
    blocks - 1
}

#[test]
fn blocks_stay_on_the_sms_of_their_green_context() {
    let _alive = start();
    let (mut all, mut rest) = (CUdevResource::NONE, CUdevResource::NONE);
    cu!(cuDeviceGetDevResource(0, &mut all, SM)).unwrap();
    let (mut parts, mut groups) = ([CUdevResource::NONE; 2], 2);
    let none = std::ptr::null_mut();
    cu!(cuDevSmResourceSplitByCount(none, &mut groups, &all, none, 0, 4)).unwrap();
    assert_eq!(groups, all.sm.smCount / 4);
    groups = 2;
    let split =
        cu!(cuDevSmResourceSplitByCount(parts.as_mut_ptr(), &mut groups, &all, &mut rest, 0, 4));
    split.unwrap();
    assert_eq!((groups, parts[1].sm.smCount), (2, 4));
    assert_eq!(rest.sm.smCount, all.sm.smCount - 8);
    assert_eq!(rest.kind, if rest.sm.smCount == 0 { 0 } else { SM });

    let (mut description, mut green) = (CUdevResourceDesc::NULL, CUgreenCtx::NULL);
    cu!(cuDevResourceGenerateDesc(&mut description, &mut parts[1], 1)).unwrap();
    assert_eq!(cu!(cuGreenCtxCreate(&mut green, description, 0, 0)), Err(Error::INVALID_VALUE));
    cu!(cuGreenCtxCreate(&mut green, description, 0, GREEN_DEFAULT_STREAM)).unwrap();
    let mut stream = CUstream::NULL;
    assert_eq!(cu!(cuGreenCtxStreamCreate(&mut stream, green, 0, 0)), Err(Error::INVALID_VALUE));
    cu!(cuGreenCtxStreamCreate(&mut stream, green, 1, 0)).unwrap();
    let ran = threads_by_sm(stream);
    assert_eq!(ran[4..8].iter().sum::<u32>(), 64 * 32, "{:?}", &ran[..16]);

    // A graph's kernels have the SMs of the stream that captured them, wherever it is launched.
    assert_eq!(threads_of_graph(stream, CUstream::NULL)[4..8].iter().sum::<u32>(), 64 * 32);
    let elsewhere = threads_of_graph(CUstream::NULL, stream);
    assert!(elsewhere[4..8].iter().sum::<u32>() < 64 * 32, "{:?}", &elsewhere[..16]);

    // A grid that waits for itself must find room on these SMs alone.
    let most = cooperative_blocks_max(stream);
    assert_eq!(most % 4, 0);
    assert_eq!(cooperative_blocks_max(CUstream::NULL), most / 4 * all.sm.smCount);

    // What is asked of the stream, and of the green context as a context.
    let (mut context, mut current, mut of) = (CUcontext::NULL, CUcontext::NULL, CUgreenCtx::NULL);
    cu!(cuCtxGetCurrent(&mut current)).unwrap();
    cu!(cuStreamGetCtx_v2(stream, &mut context, &mut of)).unwrap();
    assert_eq!((context, of), (current, green));
    cu!(cuStreamGetDevResource(stream, &mut rest, SM)).unwrap();
    assert_eq!(rest.sm.smCount, 4);
    cu!(cuCtxFromGreenCtx(&mut context, green)).unwrap();
    assert_ne!(context, current);
    cu!(cuCtxSetCurrent(context)).unwrap();
    assert_eq!(threads_by_sm(CUstream::NULL)[4..8].iter().sum::<u32>(), 64 * 32);
    let mut own = CUstream::NULL;
    cu!(cuStreamCreate(&mut own, 0)).unwrap();
    assert_eq!(threads_by_sm(own)[4..8].iter().sum::<u32>(), 64 * 32);
    cu!(cuStreamGetGreenCtx(own, &mut of)).unwrap();
    assert_eq!(of, green);
    assert_eq!(cu!(cuCtxDestroy_v2(context)), Err(Error::INVALID_CONTEXT));

    cu!(cuCtxSetCurrent(current)).unwrap();
    for stream in [own, stream] {
        cu!(cuStreamDestroy_v2(stream)).unwrap();
    }
    cu!(cuGreenCtxDestroy(green)).unwrap();
    assert_eq!(cu!(cuGreenCtxDestroy(green)), Err(Error::INVALID_CONTEXT));
    cu!(cuStreamGetGreenCtx(CUstream::NULL, &mut of)).unwrap();
    assert_eq!(of, CUgreenCtx::NULL);
}
