//! Where threads are in blocks of two and three dimensions, whose extents are powers of two and are
//! not: every set beside what the manual's formula says.

use super::harness::{Device, Params, Shape};
use super::tiers::ALL_SETS;
use simt::kernel::Dim3;

/// Each thread writes where it is at its number in the block.
const TEXT: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a)
{
    .reg .b64 %p, %w; .reg .b32 %x, %y, %z, %nx, %ny, %i;
    ld.param.u64 %p, [a];
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
    mov.u32 %nx, %ntid.x; mov.u32 %ny, %ntid.y;
    mad.lo.u32 %i, %z, %ny, %y; mad.lo.u32 %i, %i, %nx, %x;
    mul.wide.u32 %w, %i, 4; add.u64 %p, %p, %w;
    mad.lo.u32 %z, %z, 1024, %y; mad.lo.u32 %z, %z, 1024, %x;
    st.global.u32 [%p], %z;
    ret;
}";

#[test]
fn places_in_blocks() {
    let extents = [
        [32, 8, 1],
        [64, 2, 4],
        [32, 1, 4],
        [16, 4, 4],
        [96, 3, 2],
        [128, 3, 1],
        [64, 5, 2],
        [33, 3, 2],
        [1, 64, 4],
        [256, 1, 1],
    ];
    for set in ALL_SETS {
        for [x, y, z] in extents {
            let mut device = Device::new(set);
            let module = device.load(TEXT).expect("a module");
            let kernel = module.kernel("k").expect("a kernel");
            let threads = x * y * z;
            let out = device.memory.allocate(4 * u64::from(threads), true);
            let mut params = Params::default();
            params.push(&out.to_le_bytes());
            let shape = Shape { block: Dim3 { x, y, z }, ..Shape::linear(1, 1) };
            device.run(&kernel, shape, &params.0).expect("no fault");
            let expected: Vec<u8> = (0..threads)
                .map(|i| ((i / (x * y)) * 1024 + i / x % y) * 1024 + i % x)
                .flat_map(u32::to_le_bytes)
                .collect();
            let found = device.memory.read(out, 4 * threads as usize);
            assert!(found == expected, "{set:?}, {x} x {y} x {z}");
        }
    }
}
