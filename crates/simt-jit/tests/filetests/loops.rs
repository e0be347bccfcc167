//! Loops that are interrupted at their back-edges, and values that have machine registers nowhere
//! but in a loop: native code beside the interpreter.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use std::fmt::Write;

/// Threads of a block, of which the last warp is not whole.
const THREADS: u32 = 80;
/// Values that are read in the second loop only.
const VALUES: usize = 12;
/// Values that take all machine registers in front of it.
const CROWD: usize = 40;

fn run(set: Set, interrupted: bool, text: &str, input: &[u32], number: u32) -> Vec<u8> {
    let mut device = Device::new(set);
    device.interrupted = interrupted;
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let bytes: Vec<u8> = input.iter().flat_map(|w| w.to_le_bytes()).collect();
    let first = device.memory.allocate(bytes.len() as u64, true);
    device.memory.write(first, &bytes);
    let out = device.memory.allocate(4 * u64::from(THREADS), true);
    let mut params = Params::default();
    params.push(&first.to_le_bytes());
    params.push(&out.to_le_bytes());
    params.push(&number.to_le_bytes());
    let ran = device.run(&kernel, Shape::linear(1, THREADS), &params.0);
    ran.unwrap_or_else(|f| panic!("{set:?}: {f:?}\n{text}"));
    device.memory.read(out, 4 * THREADS as usize)
}

fn compare(text: &str, number: u32) {
    let input: Vec<u32> = (0..4096u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
    let expected = run(Set::Interpreted, false, text, &input, number);
    assert!(expected.chunks(4).any(|w| w != [0; 4]), "nothing was computed");
    for set in ALL_SETS {
        for interrupted in [false, true] {
            let found = run(set, interrupted, text, &input, number);
            assert!(found == expected, "{set:?}, interrupted: {interrupted}\n{text}");
        }
    }
}

/// A loop whose counter counts the lanes, and whose end is decided by its last lane: by what holds
/// while it goes on, or by what holds behind it.
fn counted_loop(body: &str, end: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
        {{
            .reg .b64 %a, %at, %out, %w; .reg .b32 %t, %i, %n, %size, %x, %sum; .reg .pred %p;
            ld.param.u64 %a, [a]; ld.param.u64 %out, [b]; ld.param.u32 %n, [n];
            mov.u32 %t, %tid.x; mov.u32 %size, %ntid.x;
            mul.wide.u32 %w, %t, 4; add.s64 %out, %out, %w;
            mov.b32 %i, %t; mov.b32 %sum, 7;
            setp.ge.s32 %p, %i, %n; @%p bra E;
        L:
            {body}
            mad.lo.u32 %sum, %sum, 31, %x;
            add.s32 %i, %i, %size; {end}
        E:
            st.global.u32 [%out], %sum;
            ret;
        }}"
    )
}

/// Both ways to write its end.
const ENDS: [&str; 2] =
    ["setp.lt.s32 %p, %i, %n; @%p bra L;", "setp.ge.s32 %p, %i, %n; @!%p bra L;"];

#[test]
fn counted_loops_are_interrupted() {
    let load = "mul.wide.s32 %w, %i, 4; add.s64 %at, %a, %w; ld.global.u32 %x, [%at];";
    for number in [79, 80, 1000, 1600, 1613] {
        ENDS.iter().for_each(|end| compare(&counted_loop(load, end), number));
    }
}

/// Longer than a warp's turn: it is interrupted where native code alone has decided the end before.
#[test]
fn counted_loops_outlast_their_turn() {
    const TURN: u32 = 1 << 16;
    for end in ENDS {
        compare(&counted_loop("xor.b32 %x, %i, %sum;", end), 2 * TURN * THREADS + 13);
    }
}

/// What needs all machine registers and ends in `%sum`: values of lanes, and of all lanes.
fn crowd(text: &mut String) {
    const ROUNDS: usize = 6;
    for (name, from) in [('c', "%sum"), ('e', "%n")] {
        for n in 0..CROWD {
            let _ = writeln!(text, "add.u32 %{name}{n}, {from}, {};", n * n);
        }
        for n in 0..ROUNDS * CROWD {
            let [n, next, far] = [n, n + 1, n + 7].map(|n| n % CROWD);
            let _ = writeln!(text, "mad.lo.u32 %{name}{n}, %{name}{next}, 31, %{name}{far};");
        }
        for n in 0..CROWD {
            let _ = writeln!(text, "xor.b32 %sum, %sum, %{name}{n};");
        }
    }
}

/// A loop that some lanes come to at once, and others past what needs all machine registers: the
/// first wait for them.
fn loop_behind_a_branch() -> String {
    let mut text = String::from(
        ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
        {
            .reg .b64 %a, %out, %w; .reg .pred %p;
            .reg .b32 %t, %i, %n, %x, %sum, %one, %odd, %v<12>, %s<12>, %c<40>, %e<40>;
            ld.param.u64 %a, [a]; ld.param.u64 %out, [b]; ld.param.u32 %n, [n];
            mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4;
            add.s64 %a, %a, %w; add.s64 %out, %out, %w; ld.global.u32 %x, [%a];
            mov.b32 %sum, 0; mov.b32 %one, 1; mov.b32 %i, 0;\n",
    );
    for n in 0..VALUES {
        let _ = writeln!(text, "mad.lo.u32 %v{n}, %x, %x, {n}; mad.lo.u32 %s{n}, %n, %n, {n};");
    }
    text += "and.b32 %odd, %x, 3; setp.eq.u32 %p, %odd, 0; @%p bra B;\n";
    crowd(&mut text);
    text += "B:\n";
    for n in 0..VALUES {
        let _ =
            writeln!(text, "mad.lo.u32 %sum, %sum, 33, %v{n}; mad.lo.u32 %one, %one, 5, %s{n};");
    }
    text += "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra B;
        add.u32 %sum, %sum, %one; add.u32 %sum, %sum, %v1; add.u32 %sum, %sum, %s2;
        st.global.u32 [%out], %sum;
        ret;
        }";
    text
}

/// Two loops: the first needs all machine registers, the second reads what stands in memory by then.
/// The second one's lanes leave it together or one by one, past a branch or not.
fn two_loops(apart: bool, branch: bool) -> String {
    let mut text = String::from(
        ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)
        {
            .reg .b64 %a, %out, %w; .reg .pred %p;
            .reg .b32 %t, %i, %n, %end, %x, %sum, %one, %odd, %v<12>, %s<12>, %c<40>;
            ld.param.u64 %a, [a]; ld.param.u64 %out, [b]; ld.param.u32 %n, [n];
            mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4;
            add.s64 %a, %a, %w; add.s64 %out, %out, %w; ld.global.u32 %x, [%a];\n",
    );
    for n in 0..VALUES {
        let _ = writeln!(text, "mad.lo.u32 %v{n}, %x, %x, {n}; mad.lo.u32 %s{n}, %n, %n, {n};");
    }
    for n in 0..CROWD {
        let _ = writeln!(text, "add.u32 %c{n}, %x, {};", n * n);
    }
    text += "mov.b32 %i, 0;\nA:\n";
    for n in 0..CROWD {
        let (next, far) = ((n + 1) % CROWD, (n + 7) % CROWD);
        let _ = writeln!(text, "mad.lo.u32 %c{n}, %c{next}, 31, %c{far};");
    }
    text +=
        "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 5; @%p bra A;\nmov.b32 %sum, 0; mov.b32 %one, 1;\n";
    for n in 0..CROWD {
        let _ = writeln!(text, "xor.b32 %sum, %sum, %c{n};");
    }
    let end =
        if apart { "and.b32 %end, %x, 7; add.u32 %end, %end, 2;" } else { "mov.b32 %end, 6;" };
    let _ = writeln!(text, "{end}\nmov.b32 %i, 0;\nB:");
    for n in 0..VALUES {
        let _ =
            writeln!(text, "mad.lo.u32 %sum, %sum, 33, %v{n}; mad.lo.u32 %one, %one, 5, %s{n};");
    }
    if branch {
        text += "and.b32 %odd, %sum, 1; setp.eq.u32 %p, %odd, 0; @%p bra C;
            xor.b32 %sum, %sum, %v3; add.u32 %sum, %sum, %v5;\nC:\n";
    }
    text += "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %end; @%p bra B;
        add.u32 %sum, %sum, %one; add.u32 %sum, %sum, %v1; add.u32 %sum, %sum, %s2;
        st.global.u32 [%out], %sum;
        ret;
        }";
    text
}

#[test]
fn values_borrow_machine_registers_in_loops() {
    for (apart, branch) in [(false, false), (false, true), (true, false), (true, true)] {
        compare(&two_loops(apart, branch), 5);
    }
}

#[test]
fn lanes_that_waited_for_a_loop_borrow() {
    compare(&loop_behind_a_branch(), 5);
}
