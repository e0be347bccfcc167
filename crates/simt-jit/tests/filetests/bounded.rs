//! Tables whose indices cannot be large, as masks, shifts and narrow loads make them: native code
//! beside the interpreter, with tables that are as large as all that an index can reach, and with
//! smaller ones, of which indices may or may not leave the end.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set, without_address};
use simt::kernel::FaultKind;
use simt_jit::SimdIsa;

/// Threads: a warp, and half of one.
const THREADS: usize = 48;
/// Bytes that an index below reaches.
const REACH: usize = 256;

/// From a word `%d`, a word's place in a table of [`REACH`] bytes, in `%o`.
const INDICES: [&str; 8] = [
    "and.b32 %o, %d, 252;",
    "shr.u32 %o, %d, 26; shl.b32 %o, %o, 2;",
    "ld.global.u8 %o, [%data+1]; shr.u32 %o, %o, 2; shl.b32 %o, %o, 2;",
    "bfe.u32 %o, %d, 5, 6; mul.lo.u32 %o, %o, 4;",
    "and.b32 %o, %d, 124; add.u32 %o, %o, 128;",
    "cvt.u32.u8 %o, %d; shr.u32 %o, %o, 4; mul.lo.u32 %o, %o, 16; add.u32 %o, %o, 12;",
    "cvt.u16.u32 %h, %d; and.b16 %h, %h, 63; cvt.u32.u16 %o, %h; shl.b32 %o, %o, 2;",
    // Only where it was not negative.
    "shr.s32 %o, %d, 26; shl.b32 %o, %o, 2; and.b32 %o, %o, 252;",
];

/// What threads do with a word of the table, whose place `ADDRESS` stands for.
const ACCESSES: [&str; 5] = [
    "atom.SPACE.add.u32 %r, ADDRESS, 3;",
    "ld.SPACE.u32 %r, ADDRESS;",
    "st.SPACE.u32 ADDRESS, %t;",
    "@%p red.SPACE.xor.b32 ADDRESS, %t;",
    "red.SPACE.add.u32 ADDRESS, 3;",
];

fn kernel(space: &str, index: &str, access: &str) -> String {
    let (place, address) = match space {
        "shared" => ("mov.u32 %s, tile; add.u32 %s, %s, %o;", "[%s]"),
        _ => ("cvt.u64.u32 %x, %o; add.s64 %w, %m, %x;", "[%w]"),
    };
    let copy = |from: &str, to: &str, name: &str| {
        match space {
        "shared" => format!(
            "mov.u32 %i, %t; setp.ge.u32 %q, %i, %n; @%q bra {name}E;\n{name}: mul.wide.u32 %x, %i, 4; add.u64 %x, %x, %m;
             mov.u32 %s, tile; mad.lo.u32 %s, %i, 4, %s;
             ld.{from}.b32 %r, [{}]; st.{to}.b32 [{}], %r;
             add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, %n; @%q bra {name};\n{name}E: bar.sync 0;",
            if from == "global" { "%x" } else { "%s" },
            if from == "global" { "%s" } else { "%x" },
        ),
        _ => String::new(),
    }
    };
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 tile[];
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
         {{
             .reg .b64 %m, %d0, %o0, %data, %out, %x, %t4, %w, %x0, %w0, %by; .reg .b32 %t, %d, %o, %s, %r, %i, %n;
             .reg .b16 %h; .reg .pred %p, %q;
             ld.param.u64 %m, [a]; ld.param.u64 %d0, [b]; ld.param.u64 %o0, [c];
             ld.param.u32 %n, [n];
             mov.u32 %t, %tid.x; mul.wide.u32 %t4, %t, 4;
             mov.u32 %r, %ctaid.x; mul.wide.u32 %x0, %r, {bytes}; add.u64 %w0, %d0, %x0;
             add.u64 %data, %w0, %t4; add.u64 %out, %o0, %t4;
             {}
             ld.global.u32 %d, [%data]; setp.gt.u32 %p, %t, 5; mov.u32 %r, 9;
             {index} {place} {}
             st.global.u32 [%out], %r; bar.sync 0;
             {} ret;
         }}",
        copy("global", "shared", "L"),
        access.replace("SPACE", space).replace("ADDRESS", address),
        copy("shared", "global", "M"),
        bytes = 4 * THREADS,
    )
}

/// The table and what threads found, of a kernel on a table of `bytes` bytes, which starts `off` bytes
/// behind where it should.
fn run(set: Set, text: &str, words: &[u32], bytes: usize, off: u64) -> Result<Vec<u8>, FaultKind> {
    run_blocks(set, text, words, bytes, off).0
}

/// Also how many slow paths were taken. There are as many blocks as have words.
fn run_blocks(
    set: Set,
    text: &str,
    words: &[u32],
    bytes: usize,
    off: u64,
) -> (Result<Vec<u8>, FaultKind>, u64) {
    let blocks = (words.len() / THREADS) as u32;
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let table = device.memory.allocate(bytes as u64, true);
    let content: Vec<u8> = (0..bytes as u32).map(|i| (i * 37) as u8).collect();
    device.memory.write(table, &content);
    let data = device.memory.allocate(4 * words.len() as u64, true);
    let all: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    device.memory.write(data, &all);
    let out = device.memory.allocate(4 * THREADS as u64, true);
    let mut params = Params::default();
    [table + off, data, out].iter().for_each(|a| params.push(&a.to_le_bytes()));
    params.push(&(bytes as u32 / 4).to_le_bytes());
    let shape = Shape { shared: bytes as u32, ..Shape::linear(blocks, THREADS as u32) };
    let ran = device.run(&kernel, shape, &params.0).map_err(|fault| without_address(fault.kind));
    let read = || [device.memory.read(table, bytes), device.memory.read(out, 4 * THREADS)].concat();
    (ran.map(|()| read()), device.counters.native.slow_paths)
}

/// Where all places are there, nothing takes a slow path once the first block has found the table.
#[test]
fn fast_paths_are_taken() {
    let any: Vec<u32> = (1..=THREADS as u32).map(|t| t.wrapping_mul(2_654_435_761)).collect();
    for (access, index) in ACCESSES.into_iter().flat_map(|access| INDICES.map(|i| (access, i))) {
        // Loads and stores try other forms first; and the index's own load is of bytes at a distance.
        if !matches!(&access[..4], "atom" | "red.") || index.starts_with("ld.") {
            continue;
        }
        let text = kernel("global", index, access);
        for isa in SimdIsa::ALL.into_iter().filter(|isa| isa.is_here()) {
            let of = |n| run_blocks(Set::Native(isa), &text, &any.repeat(n), REACH, 0).1;
            assert_eq!(of(3), of(1), "{isa:?}: slow paths of 3 blocks, of 1\n{text}");
        }
    }
}

/// Places that only look as if they could not be large: they are the interpreter's, which says so. A first
/// block has found the table, with words that are 0.
#[test]
fn indices_that_may_be_large() {
    let any: Vec<u32> = (1..=THREADS as u32).map(|t| t.wrapping_mul(2_654_435_761)).collect();
    let later = [vec![0; THREADS], any.clone()].concat();
    for index in [
        "shr.s32 %o, %d, 28; shl.b32 %o, %o, 2;",
        "and.b32 %o, %d, 252; cvt.s32.s8 %o, %o;",
        "shl.b32 %o, %d, 2; and.b32 %o, %o, 1020;",
    ] {
        for (space, access) in ACCESSES.into_iter().flat_map(|a| [("shared", a), ("global", a)]) {
            let text = kernel(space, index, access);
            assert!(compare(&text, &[0; THREADS], REACH, 0), "all are inside:\n{text}");
            assert!(!compare(&text, &later, REACH, 0), "some are outside:\n{text}");
        }
    }
    for access in ACCESSES {
        // Further behind the place than there is memory, and more than there is of it.
        let place = "[%s+4096]";
        let text = kernel("shared", INDICES[0], &access.replace("ADDRESS", place));
        assert!(!compare(&text, &any, REACH, 0), "all are outside:\n{text}");
        assert!(!compare(&kernel("shared", INDICES[0], access), &any, 2, 0), "2 bytes are no word");
    }
    let local = kernel("global", INDICES[0], "ld.local.u32 %r, [%l+1048576];").replace(
        "cvt.u64.u32 %x, %o; add.s64",
        ".local .align 4 .b8 own[16]; .reg .b64 %l; mov.u64 %l, own; cvt.u64.u32 %x, %o;
         and.b64 %x, %x, 12; add.s64 %l, %l, %x; st.local.u32 [own], %t; add.s64",
    );
    assert!(!compare(&local, &any, REACH, 0), "a thread has less memory:\n{local}");
    // Where the table is changes between the sum and the access: by nothing in the first block.
    let changed = |by: i64| {
        let sum = "add.s64 %w, %m, %x;";
        let changed =
            format!("mul.lo.u64 %by, %x0, {by}; sub.s64 %m, %m, %by; {sum} add.s64 %m, %m, %by;");
        kernel("global", INDICES[0], ACCESSES[1]).replace(sum, &changed)
    };
    assert!(compare(&changed(0), &later, REACH, 0), "the sum is of the table");
    assert!(!compare(&changed(1 << 20), &later, REACH, 0), "the sum is of no table");
}

/// The same everywhere; gives back whether it ended well.
fn compare(text: &str, words: &[u32], bytes: usize, off: u64) -> bool {
    let expected = run(Set::Interpreted, text, words, bytes, off);
    for set in ALL_SETS {
        let found = run(set, text, words, bytes, off);
        assert!(found == expected, "{set:?}, {bytes} bytes: {found:?}, not {expected:?}\n{text}");
    }
    expected.is_ok()
}

#[test]
fn indices_that_cannot_be_large() {
    let any: Vec<u32> = (1..=THREADS as u32).map(|t| t.wrapping_mul(2_654_435_761)).collect();
    for space in ["shared", "global"] {
        for index in INDICES {
            for access in ACCESSES {
                let text = kernel(space, index, access);
                assert!(compare(&text, &any, REACH, 0), "all are inside:\n{text}");
                assert!(!compare(&text, &any, REACH / 2, 0), "some are outside:\n{text}");
                let inside = !index.contains("128");
                assert_eq!(compare(&text, &[0; THREADS], REACH / 2, 0), inside, "{text}");
                assert!(!compare(&text, &any, 4, 0), "nearly all are outside:\n{text}");
            }
        }
    }
    // Not all are where words begin.
    for space in ["shared", "global"] {
        assert!(!compare(&kernel(space, "and.b32 %o, %d, 253;", ACCESSES[1]), &any, REACH, 0));
    }
    // No word is where it should be, or the last is not whole.
    let text = kernel("global", INDICES[0], ACCESSES[1]);
    assert!(!compare(&text, &any, REACH, 2));
    assert!(!compare(&text, &any, REACH + 2, 4));
}
