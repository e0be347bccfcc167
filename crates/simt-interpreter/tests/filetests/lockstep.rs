//! Return to lockstep: warps whose lanes had to run in any order for a while give right results, and
//! go back to native code once their lanes are together.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set, is_native};
use simt::kernel::Dim3;

/// Lane 0 of the first warp waits for the second one, which takes its time. Then all threads of the
/// first warp go round a loop `n` times with what they have in registers: an address of each
/// thread's own, a predicate, and numbers that are the same for all, or for each row of a block.
const TEXT: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .b64 %p, %own, %twice; .reg .b32 %x, %y, %all, %n, %i, %v, %w, %same, %row; .reg .pred %first, %odd, %more, %late;
    ld.param.u64 %p, [p];
    ld.param.u32 %n, [n];
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %w, %ntid.x;
    mad.lo.u32 %all, %y, %w, %x;
    mul.lo.u32 %row, %y, 100;
    ld.global.u32 %same, [%p+4];
    mad.wide.u32 %own, %all, 4, %p;
    and.b32 %v, %x, 1;
    setp.eq.u32 %odd, %v, 1;
    mov.u32 %v, 0;
    mov.u32 %i, 0;
    setp.ge.u32 %late, %all, 32;
    @%late bra SECOND;
    setp.ne.u32 %first, %all, 0;
    @%first bra TOGETHER;
WAIT:
    ld.volatile.global.u32 %w, [%p];
    setp.eq.u32 %more, %w, 0;
    @%more bra WAIT;
TOGETHER:
    setp.ge.u32 %more, %i, %n;
    @%more bra DONE;
    add.u32 %v, %v, %same;
    add.u32 %v, %v, %row;
    @%odd add.u32 %v, %v, 1;
    ld.global.u32 %w, [%own+256];
    add.u32 %v, %v, %w;
    add.u32 %i, %i, 1;
    bra TOGETHER;
DONE:
    st.global.u32 [%own+512], %v;
    ret;
SECOND:
    setp.ne.u32 %first, %all, 32;
    @%first bra OVER;
SLOW:
    ld.volatile.global.u32 %w, [%p+8];
    add.u32 %i, %i, 1;
    setp.lt.u32 %more, %i, 100000;
    @%more bra SLOW;
    st.volatile.global.u32 [%p], 1;
OVER:
    ret;
}
";

/// Entries into native code of a launch in which the loop has that number of rounds.
fn entries(set: Set, (x, y): (u32, u32), rounds: u32) -> u64 {
    let mut device = Device::new(set);
    let module = device.load(TEXT).expect("a module");
    let kernel = module.kernel("k").expect("a kernel");
    let words = device.memory.allocate(1024, true);
    let numbers: Vec<u32> = (0..256).map(|i| if i == 1 { 5 } else { i / 64 * (i % 64) }).collect();
    device.memory.write(words, &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>());
    let mut params = Params::default();
    params.push(&words.to_le_bytes());
    params.push(&rounds.to_le_bytes());
    let block = Dim3 { x, y, z: 1 };
    let shape = Shape { block, ..Shape::linear(1, 1) };
    device.run(&kernel, shape, &params.0).expect("no fault");
    let sums = device.memory.read(words + 512, 4 * 32);
    for (thread, sum) in (0..).zip(sums.chunks_exact(4)) {
        let each = 5 + 100 * (thread / x) + (thread % x) % 2 + thread;
        let expected = each.wrapping_mul(rounds);
        assert_eq!(sum, expected.to_le_bytes(), "{set:?}, {x} x {y}: thread {thread}");
    }
    device.counters.native.entries
}

#[test]
fn a_warp_goes_back_to_lockstep_once_its_lanes_are_together() {
    for set in ALL_SETS {
        for block in [(64, 1), (16, 4), (32, 2)] {
            let (few, many) = (entries(set, block, 3), entries(set, block, 1_000_000));
            // A time slice has some 65000 rounds.
            let enters = !is_native(set) || many >= few + 10;
            assert!(enters, "{set:?}, {block:?}: {few} entries of few rounds, {many} of many");
        }
    }
}
