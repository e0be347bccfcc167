//! Counters: what is counted of kernels is what they did, regardless of the tier that ran them.

use cuda_api::constants::launch_attribute;

use super::*;
use crate::device::profile::KernelTotals;

/// Names are unique among all tests, which count in one device.
const PTX: &str = "
.version 7.8
.target sm_90
.address_size 64

// Each thread reads 8 bytes and writes 4; no warp diverges.
.visible .entry counted_straight(.param .u64 p)
{
    .reg .b64 %p, %q, %v;
    .reg .b32 %t, %w;
    ld.param.u64 %p, [p];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %q, %t, 8, %p;
    ld.global.u64 %v, [%q];
    cvt.u32.u64 %w, %v;
    mad.wide.u32 %q, %t, 4, %p;
    st.global.u32 [%q+8192], %w;
    ret;
}

// The first 8 lanes of each warp go round 100 times and read 4 bytes each time.
.visible .entry counted_apart(.param .u64 p)
{
    .reg .b64 %p, %q;
    .reg .b32 %t, %n, %v;
    .reg .pred %few, %more;
    ld.param.u64 %p, [p];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %q, %t, 4, %p;
    and.b32 %n, %t, 31;
    setp.lt.u32 %few, %n, 8;
    mov.u32 %n, 0;
    @!%few bra DONE;
AGAIN:
    ld.volatile.global.u32 %v, [%q];
    add.u32 %n, %n, 1;
    setp.lt.u32 %more, %n, 100;
    @%more bra AGAIN;
DONE:
    ret;
}

.visible .entry counted_cluster(.param .u64 p)
{
    ret;
}
";

/// So many launches go through all tiers.
const LAUNCHES: u32 = 300;

fn totals(kernel: &str) -> KernelTotals {
    let all = driver().unwrap().device.kernel_totals();
    all.into_iter().find(|row| row.kernel == kernel).map(|row| row.totals).unwrap_or_default()
}

fn run(module: CUmodule, name: &CStr, attributes: &mut [CUlaunchAttribute], launches: u32) {
    let mut function = CUfunction::NULL;
    cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())).unwrap();
    let mut memory = allocate(16 << 10).0;
    let mut params = [std::ptr::from_mut(&mut memory).cast::<c_void>()];
    let mut config = CUlaunchConfig::plain([12, 1, 1], [80, 1, 1], 0, CUstream::NULL);
    (config.attrs, config.numAttrs) = (attributes.as_mut_ptr(), attributes.len() as u32);
    for _ in 0..launches {
        cu!(cuLaunchKernelEx(&config, function, params.as_mut_ptr(), null_mut())).unwrap();
    }
    cu!(cuCtxSynchronize()).unwrap();
    cu!(cuMemFree_v2(CUdeviceptr(memory))).unwrap();
}

#[test]
fn kernels_are_counted_as_they_are_in_every_tier() {
    let _watchdog = start();
    let text = std::ffi::CString::new(PTX).unwrap();
    let mut module = CUmodule::NULL;
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    let (blocks, threads, warps) = (12, 80, 3);

    run(module, c"counted_straight", &mut [], 1);
    let first = totals("counted_straight");
    assert_eq!((first.launches, first.blocks), (1, blocks));
    assert_eq!(first.global_bytes, blocks * threads * 12);
    // 80 threads are two warps and a half: as many lanes as there are threads take part.
    let [lanes, warp_lanes] = [first.thread_instructions, first.warp_instructions * 32];
    assert_eq!(lanes * warps * 32, warp_lanes * threads, "{first:?}");
    run(module, c"counted_straight", &mut [], LAUNCHES);
    let all = totals("counted_straight");
    let times = u64::from(LAUNCHES) + 1;
    assert_eq!((all.launches, all.blocks), (times, times * blocks));
    assert_eq!(all.global_bytes, times * first.global_bytes);
    let [lanes, warp_lanes] = [all.thread_instructions, all.warp_instructions * 32];
    assert_eq!(lanes * warps * 32, warp_lanes * threads, "{all:?}");
    assert!(all.span_ns > 0 && all.worker_ns > 0);

    run(module, c"counted_apart", &mut [], 1);
    let first = totals("counted_apart");
    assert_eq!(first.global_bytes, blocks * warps * 8 * 100 * 4);
    run(module, c"counted_apart", &mut [], LAUNCHES);
    let all = totals("counted_apart");
    assert_eq!(all.global_bytes, times * first.global_bytes);
    // Nearly all is done by a quarter of the lanes.
    let share = all.thread_instructions as f64 / (32 * all.warp_instructions) as f64;
    assert!((0.25..0.35).contains(&share), "{share}");

    let mut cluster = CUlaunchAttribute::number(launch_attribute::CLUSTER_DIMENSION, 0);
    for (bytes, extent) in cluster.value.chunks_mut(4).zip([4u32, 1, 1]) {
        bytes.copy_from_slice(&extent.to_ne_bytes());
    }
    run(module, c"counted_cluster", &mut [cluster], 5);
    let counted = totals("counted_cluster");
    assert_eq!((counted.launches, counted.blocks), (5, 5 * blocks), "blocks, not clusters");
    cu!(cuModuleUnload(module)).unwrap();
}
