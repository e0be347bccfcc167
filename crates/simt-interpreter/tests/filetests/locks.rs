//! Contended spin locks: how many instructions an acquisition takes. Counted, not timed: the
//! lanes that hold a lock must not wait for the time slices of those that do not.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};

/// Each thread takes the lock at `p` once, and counts itself at `p + 4`.
fn text(body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{\n\
         .reg .b64 %o; .reg .b32 %r, %w, %s, %mine; .reg .pred %p1, %p2;\n\
         ld.param.u64 %o, [p];\n{body}\nret; }}\n"
    )
}

const COUNT: &str = "ld.volatile.global.u32 %r, [%o+4]; add.u32 %r, %r, 1;\n\
     st.volatile.global.u32 [%o+4], %r; membar.gl;\n";

/// Ways to write it.
fn locks() -> [(&'static str, String); 5] {
    [
        (
            "compare and swap",
            format!(
                "TAKE: atom.global.cas.b32 %r, [%o], 0, 1; setp.ne.u32 %p1, %r, 0;\n\
                 @%p1 bra TAKE;\n{COUNT} atom.global.exch.b32 %r, [%o], 0;"
            ),
        ),
        (
            "look, then exchange",
            format!(
                "TAKE: ld.volatile.global.u32 %r, [%o]; setp.ne.u32 %p1, %r, 0;\n\
                 @%p1 bra TAKE;\n\
                 atom.global.exch.b32 %r, [%o], 1; setp.ne.u32 %p1, %r, 0;\n\
                 @%p1 bra TAKE;\n{COUNT} st.volatile.global.u32 [%o], 0;"
            ),
        ),
        (
            "the critical section in the loop",
            format!(
                "mov.u32 %s, 0;\nTAKE: atom.global.cas.b32 %r, [%o], 0, 1;\n\
                 setp.ne.u32 %p1, %r, 0; @%p1 bra AGAIN;\n{COUNT} mov.u32 %s, 1;\n\
                 atom.global.exch.b32 %r, [%o], 0;\n\
                 AGAIN: setp.eq.u32 %p1, %s, 0; @%p1 bra TAKE;"
            ),
        ),
        (
            "pauses that grow",
            format!(
                "mov.u32 %w, 8;\nTAKE: atom.global.cas.b32 %r, [%o], 0, 1;\n\
                 setp.eq.u32 %p1, %r, 0; @%p1 bra TAKEN;\n\
                 nanosleep.u32 %w; shl.b32 %w, %w, 1; min.u32 %w, %w, 256; bra TAKE;\n\
                 TAKEN: {COUNT} atom.global.exch.b32 %r, [%o], 0;"
            ),
        ),
        (
            "tickets",
            format!(
                "atom.global.add.u32 %mine, [%o], 1;\n\
                 TAKE: ld.volatile.global.u32 %r, [%o+4]; setp.ne.u32 %p1, %r, %mine;\n\
                 @%p1 bra TAKE;\n{COUNT}"
            ),
        ),
    ]
}

/// Warp instructions a thread until all have had the lock.
fn instructions(set: Set, body: &str, (blocks, threads): (u32, u32)) -> u64 {
    let mut device = Device::new(set);
    let module = device.load(&text(body)).expect("a module");
    let kernel = module.kernel("k").expect("a kernel");
    let words = device.memory.allocate(8, true);
    let mut params = Params::default();
    params.push(&words.to_le_bytes());
    device.run(&kernel, Shape::linear(blocks, threads), &params.0).expect("no fault");
    let all = blocks * threads;
    let count = device.memory.read(words + 4, 4);
    assert_eq!(count, all.to_le_bytes(), "{set:?}: each thread once");
    device.counters.warp_instructions / u64::from(all)
}

#[test]
fn a_contended_lock_takes_few_instructions_an_acquisition() {
    for set in ALL_SETS {
        for (name, body) in locks() {
            for shape in [(1, 32), (2, 256), (16, 32), (16, 256)] {
                let each = instructions(set, &body, shape);
                println!("{set:?}, {name}, {shape:?}: {each}");
                assert!(each < 1500, "{set:?}, {name}, {shape:?}: {each} instructions each");
            }
        }
    }
}
