//! Clusters through the driver API: asked for by a launch or by the kernel itself.

use cuda_api::constants::device_resource::{GREEN_DEFAULT_STREAM, SM};
use cuda_api::constants::{function_attribute as attribute, launch_attribute};

use super::super::green::*;
use super::super::resource::*;
use super::*;

/// Every block reads the number of the next one of its cluster.
const PTX: &str = "
.version 8.0
.target sm_90
.address_size 64
.shared .align 4 .b32 word;
.visible .entry next(.param .u64 out)
{
    .reg .b64 %out;
    .reg .b32 %b, %r, %n, %s, %v;
    mov.u32 %b, %ctaid.x;
    st.shared.u32 [word], %b;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r, %cluster_ctarank;
    mov.u32 %n, %cluster_nctarank;
    add.u32 %r, %r, 1;
    rem.u32 %r, %r, %n;
    mapa.shared::cluster.u32 %s, word, %r;
    ld.shared::cluster.u32 %v, [%s];
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %b, 4, %out;
    st.global.u32 [%out], %v;
    ret;
}
.visible .entry where(.param .u64 out)
{
    .reg .b64 %out;
    .reg .b32 %b, %sm;
    mov.u32 %b, %ctaid.x;
    mov.u32 %sm, %smid;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %b, 4, %out;
    st.global.u32 [%out], %sm;
    ret;
}
.visible .entry pairs(.param .u64 out) .explicitcluster .reqnctapercluster 2
{
    ret;
}
.visible .entry any(.param .u64 out) .explicitcluster .maxclusterrank 4
{
    ret;
}
";

fn cluster_of(extents: [u32; 3]) -> CUlaunchAttribute {
    let mut attribute = CUlaunchAttribute::number(launch_attribute::CLUSTER_DIMENSION, 0);
    for (bytes, extent) in attribute.value.chunks_mut(4).zip(extents) {
        bytes.copy_from_slice(&extent.to_ne_bytes());
    }
    attribute
}

fn launch_clusters(
    function: CUfunction,
    grid: u32,
    cluster: Option<[u32; 3]>,
    out: CUdeviceptr,
) -> CUresult {
    let mut attribute = cluster.map(cluster_of);
    let mut config = CUlaunchConfig::plain([grid, 1, 1], [32, 1, 1], 0, CUstream::NULL);
    if let Some(attribute) = &mut attribute {
        (config.attrs, config.numAttrs) = (attribute, 1);
    }
    let mut address = out.0;
    let mut params = [std::ptr::from_mut(&mut address).cast::<c_void>()];
    cu!(cuLaunchKernelEx(&config, function, params.as_mut_ptr(), null_mut()))
}

#[test]
fn blocks_of_a_cluster_reach_each_other() {
    let _watchdog = start();
    let text = std::ffi::CString::new(PTX).unwrap();
    let mut module = CUmodule::NULL;
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    let get = |name: &CStr| {
        let mut function = CUfunction::NULL;
        cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())).unwrap();
        function
    };
    let of = |function, number| {
        let mut value = -1;
        cu!(cuFuncGetAttribute(&mut value, number, function)).unwrap();
        value
    };
    let (next, pairs, any) = (get(c"next"), get(c"pairs"), get(c"any"));
    let out = allocate(4 * 4096);
    let run = |cluster: Option<[u32; 3]>, expected: &dyn Fn(u32) -> u32| {
        launch_clusters(next, 4096, cluster, out).unwrap();
        let mut numbers = vec![0u32; 4096];
        cu!(cuMemcpyDtoH_v2(numbers.as_mut_ptr().cast(), out, 4 * 4096)).unwrap();
        assert!((0..4096).all(|block| numbers[block as usize] == expected(block)), "{cluster:?}");
    };
    run(None, &|block| block);
    run(Some([1, 1, 1]), &|block| block);
    run(Some([4, 1, 1]), &|block| block / 4 * 4 + (block + 1) % 4);
    run(Some([8, 1, 1]), &|block| block / 8 * 8 + (block + 1) % 8);
    // More than every device allows, and what does not divide the grid.
    let refused = Err(Error::INVALID_CLUSTER_SIZE);
    assert_eq!(launch_clusters(next, 4096, Some([16, 1, 1]), out), refused);
    assert_eq!(launch_clusters(next, 10, Some([4, 1, 1]), out), refused);
    assert_eq!(launch_clusters(next, 8, Some([0, 1, 1]), out), refused);
    cu!(cuFuncSetAttribute(next, attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)).unwrap();
    run(Some([16, 1, 1]), &|block| block / 16 * 16 + (block + 1) % 16);
    assert_eq!(launch_clusters(next, 64, Some([32, 1, 1]), out), refused);
    // Each block stands on an SM of its own while there are enough.
    launch_clusters(get(c"where"), 4, Some([4, 1, 1]), out).unwrap();
    let mut sms = [u32::MAX; 4];
    cu!(cuMemcpyDtoH_v2(sms.as_mut_ptr().cast(), out, 16)).unwrap();
    let distinct: std::collections::BTreeSet<u32> = sms.into_iter().collect();
    assert_eq!(distinct.len(), 4, "{sms:?}");
    // What kernels say of themselves.
    assert_eq!(of(pairs, attribute::REQUIRED_CLUSTER_WIDTH), 2);
    assert_eq!(of(pairs, attribute::REQUIRED_CLUSTER_HEIGHT), 1);
    assert_eq!(of(next, attribute::REQUIRED_CLUSTER_WIDTH), 0);
    assert_eq!(of(pairs, attribute::CLUSTER_SIZE_MUST_BE_SET), 0);
    assert_eq!(of(any, attribute::CLUSTER_SIZE_MUST_BE_SET), 1);
    launch_clusters(pairs, 4, None, out).unwrap();
    launch_clusters(pairs, 4, Some([2, 1, 1]), out).unwrap();
    assert_eq!(launch_clusters(pairs, 3, None, out), refused);
    assert_eq!(launch_clusters(pairs, 4, Some([4, 1, 1]), out), refused);
    assert_eq!(launch_clusters(any, 8, None, out), refused);
    launch_clusters(any, 8, Some([4, 1, 1]), out).unwrap();
    assert_eq!(launch_clusters(any, 8, Some([8, 1, 1]), out), refused);
    cu!(cuCtxSynchronize()).unwrap();
    // How many fit at once.
    let resident = |cluster: [u32; 3]| {
        let mut attribute = cluster_of(cluster);
        let mut config = CUlaunchConfig::plain([64, 1, 1], [1024, 1, 1], 0, CUstream::NULL);
        (config.attrs, config.numAttrs) = (&mut attribute, 1);
        let mut clusters = -1;
        cu!(cuOccupancyMaxActiveClusters(&mut clusters, next, &config)).unwrap();
        clusters as u32
    };
    let sms = driver().unwrap().device.settings.sms;
    assert_eq!(resident([1, 1, 1]), 2 * sms);
    assert_eq!(resident([2, 1, 1]), sms);
    assert_eq!(resident([4, 1, 1]), sms / 2, "two SMs each");
    cu!(cuModuleUnload(module)).unwrap();
}

/// A stream of a green context of the first four SMs, and that context.
fn stream_on_four_sms() -> (CUstream, CUgreenCtx) {
    let (mut all, mut part) = (CUdevResource::NONE, CUdevResource::NONE);
    let (mut description, mut green) = (CUdevResourceDesc::NULL, CUgreenCtx::NULL);
    let (mut groups, mut stream, none) = (1, CUstream::NULL, null_mut());
    cu!(cuDeviceGetDevResource(0, &mut all, SM)).unwrap();
    cu!(cuDevSmResourceSplitByCount(&mut part, &mut groups, &all, none, 0, 4)).unwrap();
    cu!(cuDevResourceGenerateDesc(&mut description, &mut part, 1)).unwrap();
    cu!(cuGreenCtxCreate(&mut green, description, 0, GREEN_DEFAULT_STREAM)).unwrap();
    cu!(cuGreenCtxStreamCreate(&mut stream, green, 1, 0)).unwrap();
    assert_eq!(part.sm.smCount, 4);
    (stream, green)
}

/// What is said of clusters is what launches do: on the SMs of the stream that the configuration names.
#[test]
fn occupancy_of_clusters_is_that_of_the_stream() {
    let _watchdog = start();
    let text = std::ffi::CString::new(PTX).unwrap();
    let (mut module, mut next) = (CUmodule::NULL, CUfunction::NULL);
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    cu!(cuModuleGetFunction(&mut next, module, c"next".as_ptr())).unwrap();
    cu!(cuFuncSetAttribute(next, attribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)).unwrap();
    let out = allocate(4 * 64);
    let (of_four, green) = stream_on_four_sms();
    // 64 blocks of 1024 threads, of which two are on an SM.
    let with = |stream, blocks: u32, f: &dyn Fn(&CUlaunchConfig) -> CUresult| {
        let mut attribute = cluster_of([blocks, 1, 1]);
        let mut config = CUlaunchConfig::plain([64, 1, 1], [1024, 1, 1], 0, stream);
        (config.attrs, config.numAttrs) = (&mut attribute, 1);
        f(&config)
    };
    let resident = |stream, blocks| {
        let clusters = std::cell::Cell::new(-1);
        with(stream, blocks, &|config| {
            cu!(cuOccupancyMaxActiveClusters(clusters.as_ptr(), next, config))
        })
        .unwrap();
        clusters.get() as u32
    };
    let largest = |stream| {
        let blocks = std::cell::Cell::new(-1);
        with(stream, 1, &|config| {
            cu!(cuOccupancyMaxPotentialClusterSize(blocks.as_ptr(), next, config))
        })
        .unwrap();
        blocks.get() as u32
    };
    let launch = |stream, blocks| {
        let mut address = out.0;
        let params = &mut [std::ptr::from_mut(&mut address).cast::<c_void>()];
        let params = params.as_mut_ptr();
        with(stream, blocks, &|config| cu!(cuLaunchKernelEx(config, next, params, null_mut())))
    };
    let sms = driver().unwrap().device.settings.sms;
    for blocks in [1, 2, 4, 8, 16] {
        assert_eq!(resident(of_four, blocks), 8 / blocks, "clusters of {blocks}");
        assert_eq!(resident(CUstream::NULL, blocks), 2 * sms / blocks, "clusters of {blocks}");
        let expected = if blocks <= 8 { Ok(()) } else { Err(Error::INVALID_CLUSTER_SIZE) };
        assert_eq!(launch(of_four, blocks), expected, "clusters of {blocks}");
    }
    assert_eq!((largest(of_four), largest(CUstream::NULL)), (8, 16));
    cu!(cuStreamSynchronize(of_four)).unwrap();
    cu!(cuStreamDestroy_v2(of_four)).unwrap();
    cu!(cuGreenCtxDestroy(green)).unwrap();
    cu!(cuModuleUnload(module)).unwrap();
}
