//! Tables whose indices cannot be large, as masks, shifts and narrow loads make them: native code
//! beside the interpreter, with tables that are as large as all that an index can reach, and with
//! smaller ones, of which indices may or may not leave the end.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set, without_address};
use simt::kernel::FaultKind;

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
             .reg .b64 %m, %data, %out, %x, %w; .reg .b32 %t, %d, %o, %s, %r, %i, %n;
             .reg .b16 %h; .reg .pred %p, %q;
             ld.param.u64 %m, [a]; ld.param.u64 %data, [b]; ld.param.u64 %out, [c];
             ld.param.u32 %n, [n];
             mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4;
             add.u64 %data, %data, %x; add.u64 %out, %out, %x;
             {}
             ld.global.u32 %d, [%data]; setp.gt.u32 %p, %t, 5; mov.u32 %r, 9;
             {index} {place} {}
             st.global.u32 [%out], %r; bar.sync 0;
             {} ret;
         }}",
        copy("global", "shared", "L"),
        access.replace("SPACE", space).replace("ADDRESS", address),
        copy("shared", "global", "M"),
    )
}

/// The table and what threads found, of a kernel on a table of `bytes` bytes, which starts `off` bytes
/// behind where it should.
fn run(set: Set, text: &str, words: &[u32], bytes: usize, off: u64) -> Result<Vec<u8>, FaultKind> {
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
    let shape = Shape { shared: bytes as u32, ..Shape::linear(1, THREADS as u32) };
    device.run(&kernel, shape, &params.0).map_err(|fault| without_address(fault.kind))?;
    Ok([device.memory.read(table, bytes), device.memory.read(out, 4 * THREADS)].concat())
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
