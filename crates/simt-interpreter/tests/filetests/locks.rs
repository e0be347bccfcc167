//! Contended spin locks: how many instructions an acquisition takes. Counted, not timed: the
//! lanes that hold a lock must not wait for the time slices of those that do not.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use simt::kernel::{Dim3, Wait};

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

/// What a block of two warps says of where it waits, once it has been in turns for a while.
fn waits(set: Set, body: &str, words: [u32; 2]) -> Vec<Option<Wait>> {
    let mut device = Device::new(set);
    let module = device.load(&text(body)).expect("a module");
    let kernel = module.kernel("k").expect("a kernel");
    let address = device.memory.allocate(8, true);
    device.memory.write(address, &words.map(u32::to_le_bytes).concat());
    let mut params = Params::default();
    params.push(&address.to_le_bytes());
    let (begin, look) = (256, 16);
    device.waits(&kernel, Shape::linear(1, 64), &params.0, begin + look).split_off(begin)
}

#[test]
fn a_block_that_only_waits_says_where() {
    // Lanes of both warps are in each of the loops that have their end on line 8.
    let nobody_comes = [
        "TAKE: atom.global.cas.b32 %r, [%o], 0, 1; setp.ne.u32 %p1, %r, 0;\n@%p1 bra TAKE;",
        "TAKE: ld.volatile.global.u32 %r, [%o]; setp.ne.u32 %p1, %r, 9;\n@%p1 bra TAKE;",
        "TAKE: nanosleep.u32 20; ld.volatile.global.u32 %r, [%o]; setp.ne.u32 %p1, %r, 9;\n\
         @%p1 bra TAKE;",
        "mov.u32 %s, %tid.x; setp.eq.u32 %p2, %s, 3; @!%p2 bra BAR; \
         TAKE: ld.volatile.global.u32 %r, [%o]; setp.ne.u32 %p1, %r, 9;\n@%p1 bra TAKE;\n\
         BAR: bar.sync 0;",
    ];
    let here = Wait { block: Dim3::default(), thread: Dim3::default(), line: 8 };
    for set in ALL_SETS {
        for body in nobody_comes {
            for wait in waits(set, body, [1, 0]) {
                let wait = wait.unwrap_or_else(|| panic!("{set:?}: it waits at {body}"));
                let of_warp = Wait { thread: Dim3::default(), ..wait };
                assert_eq!(of_warp, here, "{set:?}: {body}");
                assert!([0, 32].contains(&wait.thread.x), "{set:?}: {wait:?}");
            }
        }
    }
}

#[test]
fn a_block_that_gets_somewhere_does_not_wait() {
    let works = [
        // Each round counts on.
        "AGAIN: ld.volatile.global.u32 %r, [%o]; add.u32 %s, %s, 1; setp.ne.u32 %p1, %s, -1;\n\
         @%p1 bra AGAIN; st.global.u32 [%o], %s;",
        // Each round changes memory.
        "AGAIN: atom.global.add.u32 %r, [%o], 1; setp.ne.u32 %p1, %r, -1;\n@%p1 bra AGAIN;",
        // One warp waits, and the other works for it.
        "mov.u32 %s, %tid.x; setp.lt.u32 %p2, %s, 32; @%p2 bra WORK;\n\
         WAIT: ld.volatile.global.u32 %r, [%o+4]; setp.ne.u32 %p1, %r, 9; @%p1 bra WAIT; ret;\n\
         WORK: ld.volatile.global.u32 %r, [%o]; add.u32 %s, %s, 1; setp.ne.u32 %p1, %s, -1;\n\
         @%p1 bra WORK;",
    ];
    for set in ALL_SETS {
        for body in works {
            assert!(waits(set, body, [1, 0]).contains(&None), "{set:?}: {body}");
        }
    }
}
