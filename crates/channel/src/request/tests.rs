//! Tests of the encoding: requests and replies are read back as they were written, and nothing else
//! is read as one.

use super::*;
use cuda_api::{
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUarray, CUdeviceptr, CUevent, CUfunction,
    CUgraphExec, CUmipmappedArray, CUmodule, CUstream,
};
use proptest::array::{uniform3, uniform4};
use proptest::collection::vec;
use proptest::prelude::*;

/// What is written is read back, has the length it says, and a piece of it is refused.
fn round_trip<'a, P>(payload: &P, words: &'a mut Vec<u64>)
where
    P: Payload<'a> + PartialEq + core::fmt::Debug,
{
    payload.write(words);
    assert_eq!(payload.words(), words.len(), "{payload:?}");
    assert_eq!(P::from_words(words).as_ref(), Ok(payload));
    if let Some((_, shorter)) = words.split_last() {
        assert!(P::from_words(shorter).is_err(), "{payload:?} is read without its end");
    }
}

macro_rules! round_trips {
    ($($name:ident($($value:ident: $strategy:expr),*) $payload:expr;)*) => {
        proptest! {$(
            #[test]
            fn $name($($value in $strategy),*) {
                round_trip(&$payload, &mut Vec::new());
            }
        )*}
    };
}

fn host_reference() -> impl Strategy<Value = HostReference> {
    prop_oneof![
        any::<u32>().prop_map(HostReference::Staging),
        (1u64 << 32..).prop_map(HostReference::Mapped),
    ]
}

fn copy_3d_end() -> impl Strategy<Value = Copy3DEnd> {
    prop_oneof![
        any::<[u64; 3]>().prop_map(|[address, pitch, rows]| Copy3DEnd::Device {
            address: CUdeviceptr(address),
            pitch,
            rows,
        }),
        (host_reference(), any::<[u64; 2]>())
            .prop_map(|(reference, [pitch, rows])| Copy3DEnd::Host { reference, pitch, rows }),
        (any::<usize>(), any::<[u64; 3]>())
            .prop_map(|(array, offset)| Copy3DEnd::Array { array: CUarray(array), offset }),
    ]
}

fn copy_3d_params() -> impl Strategy<Value = Copy3DParams> {
    (copy_3d_end(), copy_3d_end(), any::<[u64; 3]>())
        .prop_map(|(destination, source, extent)| Copy3DParams { destination, source, extent })
}

fn resource() -> impl Strategy<Value = Resource> {
    (any::<[u32; 2]>(), any::<[u64; RESOURCE_WORDS]>())
        .prop_map(|([kind, flags], words)| Resource { kind, flags, words })
}

fn texture() -> impl Strategy<Value = CUDA_TEXTURE_DESC> {
    (any::<[u32; 7]>(), uniform3(-1e9f32..1e9), uniform4(0f32..1.0)).prop_map(
        |(n, levels, border)| CUDA_TEXTURE_DESC {
            addressMode: [n[0], n[1], n[2]],
            filterMode: n[3],
            flags: n[4],
            maxAnisotropy: n[5],
            mipmapFilterMode: n[6],
            mipmapLevelBias: levels[0],
            minMipmapLevelClamp: levels[1],
            maxMipmapLevelClamp: levels[2],
            borderColor: border,
            reserved: [0; 12],
        },
    )
}

fn view() -> impl Strategy<Value = CUDA_RESOURCE_VIEW_DESC> {
    (any::<[usize; 3]>(), any::<[u32; 5]>()).prop_map(|([width, height, depth], n)| {
        CUDA_RESOURCE_VIEW_DESC {
            format: n[0],
            width,
            height,
            depth,
            firstMipmapLevel: n[1],
            lastMipmapLevel: n[2],
            firstLayer: n[3],
            lastLayer: n[4],
            reserved: [0; 16],
        }
    })
}

round_trips! {
    chunks(device: any::<i32>(), address: any::<u64>(), bytes: any::<u64>())
        ChunkCreate { device, address: CUdeviceptr(address), bytes };
    adopt_chunk(device: any::<i32>(), a: any::<u64>(), bytes: any::<u64>())
        AdoptChunk { device, address: CUdeviceptr(a), bytes };
    chunk_release(a: any::<u64>()) ChunkRelease { address: CUdeviceptr(a) };
    memory_note(a: any::<u64>(), bytes: any::<u64>(), note: any::<u32>())
        MemoryNote { address: CUdeviceptr(a), bytes, note };
    allocation_retry(_none: any::<bool>()) AllocationRetry {};
    host_map(address: any::<u64>(), bytes: any::<u64>(), flags: any::<u32>())
        HostMap { address, bytes, flags };
    graph_edges(g: any::<usize>(), node: any::<u32>(), from: vec(any::<u64>(), 0..50))
        GraphEdges { graph: CUgraphExec(g), node, from: &from };
    graph_conditional(
        g: any::<usize>(), rule: any::<u32>(), condition: any::<u64>(),
        bodies: vec(any::<u64>(), 0..9))
        GraphConditional { graph: CUgraphExec(g), rule, condition, bodies: &bodies };
    graph_condition(
        g: any::<usize>(), condition: any::<u64>(), default: any::<u32>(), flags: any::<u32>())
        GraphCondition { graph: CUgraphExec(g), condition, default, flags };
    graph_launch(g: any::<usize>(), s: any::<usize>())
        GraphLaunch { graph: CUgraphExec(g), stream: CUstream(s) };
    host_unmap(address: any::<u64>()) HostUnmap { address };
    reserve(wanted: any::<u64>(), bytes: any::<u64>(), alignment: any::<u64>())
        ReserveAddresses { wanted: CUdeviceptr(wanted), bytes, alignment };
    create_memory(memory: any::<u64>(), device: any::<i32>(), bytes: any::<u64>())
        CreateMemory { memory, device, bytes };
    map_memory(address: any::<u64>(), bytes: any::<u64>(), offset: any::<u64>(), memory: any::<u64>())
        MapMemory { address: CUdeviceptr(address), bytes, offset, memory };
    set_access(address: any::<u64>(), bytes: any::<u64>(), access: any::<u32>())
        SetAccess { address: CUdeviceptr(address), bytes, access };
    open_memory(address: any::<u64>(), bytes: any::<u64>(), low: any::<u64>(), high: any::<u64>())
        OpenMemory { address: CUdeviceptr(address), bytes, low, high };
    shared_file(bytes: any::<u64>(), low: any::<u64>(), high: any::<u64>())
        SharedFile { bytes, low, high };
    open_event(e: any::<usize>(), low: any::<u64>(), high: any::<u64>())
        OpenEvent { event: CUevent(e), low, high };
    memory_info(device: any::<i32>()) MemoryInfo { device };
    memory_info_reply(free_bytes: any::<u64>(), total_bytes: any::<u64>())
        MemoryInfoReply { free_bytes, total_bytes };
    printf_drain(standard: any::<u32>()) PrintfDrain { standard };
    printf_text(bytes: vec(any::<u8>(), 1..300)) PrintfText { bytes };
    fence(s: any::<usize>(), value: any::<u32>()) Fence { stream: CUstream(s), value };
    notify(s: any::<usize>(), value: any::<u32>()) Notify { stream: CUstream(s), value };
    host_func(s: any::<usize>(), slot: any::<u32>(), ticket: any::<u32>())
        HostFunc { stream: CUstream(s), slot, ticket };
    repeats(operations: any::<u32>(), kernels: any::<u32>(), lost: any::<u32>())
        Repeats { operations, kernels, lost };
    create_stream(s: any::<usize>(), flags: any::<u32>(), priority: any::<i32>())
        CreateStream { stream: CUstream(s), flags, priority };
    create_green_stream(
        s: any::<usize>(), flags: any::<u32>(), priority: any::<i32>(), sm_first: any::<u32>(),
        sms: any::<u32>())
        CreateGreenStream { stream: CUstream(s), flags, priority, sm_first, sms, default: CUstream(s) };
    create_event(e: any::<usize>(), flags: any::<u32>())
        CreateEvent { event: CUevent(e), flags };
    record_event(e: any::<usize>(), s: any::<usize>(), value: any::<u32>())
        RecordEvent { event: CUevent(e), stream: CUstream(s), value };
    wait_event(e: any::<usize>(), s: any::<usize>())
        WaitEvent { stream: CUstream(s), event: CUevent(e) };
    elapsed(e: any::<usize>(), f: any::<usize>())
        ElapsedTime { start: CUevent(e), end: CUevent(f) };
    count_clusters(f: any::<usize>(), n: any::<[u32; 8]>())
        CountClusters {
            function: CUfunction(f), grid_x: n[0], grid_y: n[1], grid_z: n[2], block_x: n[3],
            block_y: n[4], block_z: n[5], shared_bytes: n[6], flags: n[7],
        };
    encode_tiled(
        n: any::<[u32; 2]>(), address: any::<u64>(), dimensions: any::<[u64; 5]>(),
        strides: any::<[u64; 5]>(), shape: any::<[u32; 8]>(), element_strides: any::<[u32; 5]>(),
        modes: any::<[u32; 4]>()
    )
        EncodeTiled(TensorDescription {
            data_type: n[0], rank: n[1], address, dimensions, strides, shape, element_strides,
            modes,
        });
    list_functions(m: any::<usize>(), first: any::<u32>())
        ListFunctions { module: CUmodule(m), first };
    function_names(total: any::<u32>(), names: vec(any::<u8>(), 1..200))
        FunctionNames { total, names: names.clone() };
    cluster_count(clusters: any::<i32>()) ClusterCount { clusters };
    elapsed_reply(milliseconds: -1e30f32..1e30) ElapsedTimeReply { milliseconds };
    host_to_device(d: any::<u64>(), source: host_reference(), bytes: any::<u64>())
        HostToDevice { destination: CUdeviceptr(d), source, bytes, stream: CUstream(7) };
    device_to_host(s: any::<u64>(), destination: host_reference(), bytes: any::<u64>())
        DeviceToHost { destination, source: CUdeviceptr(s), bytes, stream: CUstream(7) };
    copy_3d(s: any::<usize>(), copy: copy_3d_params()) Copy3D { stream: CUstream(s), copy };
    graph_copy(g: any::<usize>(), copy: copy_3d_params()) GraphCopy { graph: CUgraphExec(g), copy };
    create_array(array: any::<usize>(), extent: any::<[u64; 3]>(), n: any::<[u32; 3]>())
        CreateArray {
            array: CUarray(array), width: extent[0], height: extent[1], depth: extent[2],
            format: n[0], channels: n[1], flags: n[2],
        };
    name_level(m: any::<usize>(), level: any::<u32>(), array: any::<usize>())
        NameLevel { mipmapped: CUmipmappedArray(m), level, array: CUarray(array) };
    memory_requirements(bytes: any::<u64>(), alignment_bytes: any::<u64>())
        MemoryRequirements { bytes, alignment_bytes };
    create_texture(
        resource: resource(), texture: texture(), view: proptest::option::of(view())
    )
        CreateTexture { resource, texture, view };
    create_surface(resource: resource()) CreateSurface { resource };
    module_loaded(
        flags: any::<u32>(), managed: any::<(u64, u64)>(), variables_bytes: any::<u64>(),
        code: any::<CodeWords>(),
        info: vec(any::<u8>(), 0..200), error: vec(any::<u8>(), 1..200)
    )
        ModuleLoaded { flags, managed, variables_bytes, code, info_log: info.clone(), error_log: error.clone() };
    load_module(
        module: any::<usize>(), image_bytes: any::<u64>(), place: any::<(u64, u64)>(),
        n: any::<[u32; 3]>(),
        code: any::<CodeWords>(),
        options: vec((any::<u32>(), any::<u64>()), 0..=JIT_OPTIONS_MAX)
    )
        LoadModule {
            module: CUmodule(module), image_bytes, flags: n[0], place, info_log_bytes: n[1],
            error_log_bytes: n[2],
            code,
            options: options.iter().map(|&(option, value)| JitOption { option, value }).collect(),
        };
    unload_module(m: any::<usize>()) UnloadModule { module: CUmodule(m) };
    function_info(
        attributes: any::<[i32; FUNCTION_ATTRIBUTES]>(),
        layout: vec((any::<u32>(), any::<u32>()), 0..50)
    )
        FunctionInfo {
            attributes,
            parameters: layout
                .iter()
                .map(|&(offset_bytes, size_bytes)| ParameterLayout { offset_bytes, size_bytes })
                .collect(),
        };
    global_info(a: any::<u64>(), bytes: any::<u64>())
        GlobalInfo { address: CUdeviceptr(a), bytes };
}

proptest! {
    #[test]
    fn launches(
        handles in any::<[usize; 2]>(), grid in any::<[u32; 3]>(), block in any::<[u32; 3]>(),
        n in any::<[u32; 2]>(), parameters in vec(any::<u8>(), 0..200),
    ) {
        let launch = LaunchKernel {
            function: CUfunction(handles[0]), stream: CUstream(handles[1]), grid, block,
            shared_bytes: n[0], flags: n[1], parameters: &parameters,
        };
        let words = launch.to_words();
        prop_assert_eq!(launch.words(), words.len());
        prop_assert_eq!(LaunchKernel::from_words(&words), Ok(launch));
        prop_assert!(LaunchKernel::from_words(&words[..words.len() - 1]).is_err());
    }

    #[test]
    fn names(
        m in any::<usize>(), f in any::<usize>(), managed in any::<bool>(),
        name in vec(any::<u8>(), 1..200)
    ) {
        let function =
            GetFunction { function: CUfunction(f), module: CUmodule(m), name: &name };
        let words = function.to_words();
        prop_assert_eq!(GetFunction::from_words(&words), Ok(function));
        let global = GetGlobal { module: CUmodule(m), managed, name: &name };
        let words = global.to_words();
        prop_assert_eq!(GetGlobal::from_words(&words), Ok(global));
    }

    /// Regardless of which words arrive, the answer is a value or an error; lengths are mostly
    /// small, so that many get past the first check.
    #[test]
    fn arbitrary_words_do_no_harm(
        words in vec(prop_oneof![0u64..40, any::<u64>(), any::<u32>().prop_map(u64::from)], 0..60)
    ) {
        crate::oracle::payload(&words);
    }
}

#[test]
fn lengths_above_their_maximum_are_refused_whatever_follows() {
    let long = vec![u64::MAX / 2; 5000];
    let with_length = |before: usize, length: usize| {
        let mut words = vec![0; before];
        words.push(length as u64);
        words.extend(&long);
        words
    };
    assert!(LaunchKernel::from_words(&with_length(6, PARAMETER_BYTES_MAX + 1)).is_err());
    assert!(GetFunction::from_words(&with_length(2, SYMBOL_BYTES_MAX + 1)).is_err());
    assert!(GetGlobal::from_words(&with_length(2, SYMBOL_BYTES_MAX + 1)).is_err());
    assert!(LoadModule::from_words(&with_length(6, JIT_OPTIONS_MAX + 1)).is_err());
    assert!(ModuleLoaded::from_words(&with_length(4, LOG_BYTES_MAX + 1)).is_err());
    let info = with_length(FUNCTION_ATTRIBUTES, PARAMETERS_MAX + 1);
    assert!(FunctionInfo::from_words(&info).is_err());
}

#[test]
fn a_log_is_cut_to_what_fits_into_a_reply() {
    let log = vec![b'x'; LOG_BYTES_MAX + 5];
    let loaded = ModuleLoaded { info_log: log.clone(), error_log: log, ..ModuleLoaded::default() };
    let read = ModuleLoaded::from_words(&loaded.to_words()).unwrap();
    assert_eq!((read.info_log.len(), read.error_log.len()), (LOG_BYTES_MAX, LOG_BYTES_MAX));
}

#[test]
fn opcodes_are_distinguished() {
    let opcodes = RequestName::ALL.iter().map(|name| name.opcode());
    for opcode in opcodes {
        match cuda_api::row_of_number(opcode) {
            // A generic row must not be written by hand as well: the two would disagree.
            Some(row) => assert!(
                !matches!(row.policy, cuda_api::Policy::Post | cuda_api::Policy::Call),
                "{}",
                row.symbol
            ),
            None => assert!(opcode > INTERNAL_FIRST, "{opcode} is no row"),
        }
    }
    assert!(cuda_api::ROWS.iter().all(|row| row.number < INTERNAL_FIRST));
}

#[test]
fn an_edge_is_one_word_and_only_what_it_can_say_is_read() {
    use cuda_api::CUgraphEdgeData;
    let data = |kind, from_port| CUgraphEdgeData { kind, from_port, ..Default::default() };
    for (kind, port) in [(0, 0), (0, 2), (1, 1), (1, 2)] {
        let word = GraphEdges::word(u32::MAX, data(kind, port));
        assert_eq!(GraphEdges::edge(word), Some((u32::MAX, data(kind, port))));
        for bit in 48..64 {
            assert_eq!(GraphEdges::edge(word | 1 << bit), None, "bit {bit}");
        }
    }
    assert_eq!(GraphEdges::word(5, CUgraphEdgeData::default()), 5, "a full edge is the number");
    for (kind, port) in [(0, 1), (1, 0), (0, 3), (2, 0), (255, 255)] {
        assert_eq!(GraphEdges::edge(5 | kind << 40 | port << 32), None, "{kind} {port}");
    }
}
