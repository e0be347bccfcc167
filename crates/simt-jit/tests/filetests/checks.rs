//! Bounds checks of accesses in native code, one kind of access at a time: what must fault does, in the
//! first block, when nothing is known of memory yet, and in a later one, whose check native code makes.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set, without_address};
use simt::kernel::FaultKind;

/// Threads: a warp.
const THREADS: u32 = 32;
/// Bytes of the buffers that fragments are in.
const BYTES: u64 = 4096;

/// Places without a pattern, a word each.
fn places() -> Vec<u8> {
    (0..THREADS).map(|t| 4 * (t * 13 % 29)).flat_map(u32::to_le_bytes).collect()
}

/// A kernel whose lanes are wherever a list says: `%p` in memory, `%s` in shared memory, `%l` in the
/// thread's own.
fn of_places(access: &str) -> String {
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 tile[];
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .local .align 8 .b8 own[8];
             .reg .b64 %m, %list, %p, %w, %l; .reg .b32 %t, %o, %s, %a, %b;
             ld.param.u64 %m, [a]; ld.param.u64 %list, [b];
             mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.u64 %list, %list, %w;
             ld.global.u32 %o, [%list]; cvt.u64.u32 %w, %o; add.u64 %p, %m, %w;
             mov.u32 %s, tile; add.u32 %s, %s, %o; mov.u64 %l, own; st.local.u32 [own], %t;
             add.u64 %l, %l, %w;
             {access}
             st.global.u32 [%list], %a;
             ret;
         }}"
    )
}

/// How a kernel ends whose first parameter is an address.
fn end(set: Set, text: &str, address: Option<u64>, shared: u32) -> Result<(), FaultKind> {
    let mut device = Device::new(set);
    let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k").unwrap();
    let list = device.memory.allocate(4 * u64::from(THREADS), true);
    device.memory.write(list, &places());
    let address = address.unwrap_or_else(|| device.memory.allocate(256, true));
    let mut params = Params::default();
    [address, list].iter().for_each(|a| params.push(&a.to_le_bytes()));
    let shape = Shape { shared, ..Shape::linear(1, THREADS) };
    device.run(&kernel, shape, &params.0).map_err(|fault| without_address(fault.kind))
}

/// Memory of this process that no kernel may touch, by the first access that there is: no range of
/// memory is known to the check.
#[test]
fn the_first_access_is_outside() {
    // Aligned as words are.
    let foreign = vec![0u64; 64];
    for access in [
        "ld.global.u32 %a, [%p];",
        "ld.global.u16 %a, [%p];",
        "ld.global.v2.u16 {%a, %b}, [%p];",
        "st.global.u32 [%p], %t; mov.u32 %a, 1;",
        "atom.global.add.u32 %a, [%p], 1;",
        "ld.u32 %a, [%p];",
    ] {
        let text = of_places(access);
        for set in ALL_SETS {
            let inside = end(set, &text, None, 256);
            assert_eq!(inside, Ok(()), "{set:?}:\n{text}");
            let outside = end(set, &text, Some(foreign.as_ptr() as u64), 256);
            assert!(outside.is_err(), "{set:?} touched what is not the device's:\n{text}");
        }
    }
    assert!(foreign.iter().all(|word| *word == 0), "memory of this process was written");
}

/// An element that is larger than all shared or local memory is outside of it, wherever it is.
#[test]
fn elements_larger_than_memory() {
    for (access, shared) in [
        ("ld.shared.u32 %a, [%s];", 2),
        ("ld.shared.v2.u32 {%a, %b}, [%s];", 4),
        ("st.shared.u32 [%s], %t; mov.u32 %a, 1;", 0),
        ("ld.shared.u32 %a, [%s+1024];", 256),
        ("ld.local.u32 %a, [%l+16777216];", 256),
        ("st.local.u32 [%l+16777216], %t; mov.u32 %a, 1;", 256),
    ] {
        let text = of_places(access);
        let interpreted = end(Set::Interpreted, &text, None, shared);
        assert!(interpreted.is_err(), "{text}");
        for set in ALL_SETS {
            assert_eq!(end(set, &text, None, shared), interpreted, "{set:?}:\n{text}");
        }
    }
}

/// A kernel whose lanes have a fragment of a matrix, four of them a line of a distance that is a
/// parameter. Two blocks: a list says where their fragments are, and how far apart lines are.
fn of_fragments(access: &str, space: &str) -> String {
    // Each register has one value, so that what all lanes have is known as such.
    let at = match space {
        "shared" => "mov.u32 %c, tile; cvt.u64.u32 %t, %c; add.u64 %m, %t, %n;",
        _ => "add.u64 %m, %n, 0;",
    };
    let access = access.replace("SPACE", space);
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .shared .align 16 .b8 tile[512];
             .reg .b64 %list, %out, %m, %n, %d, %p, %t, %v<9>; .reg .b32 %b, %l, %g, %q, %a, %c;
             ld.param.u64 %list, [a]; ld.param.u64 %out, [b];
             mov.u32 %b, %ctaid.x; mul.wide.u32 %v0, %b, 16; add.u64 %v1, %list, %v0;
             ld.global.v2.u64 {{%n, %d}}, [%v1];
             {at}
             bar.sync 0;
             mov.u32 %l, %laneid; shr.u32 %g, %l, 2; and.b32 %q, %l, 3;
             cvt.u64.u32 %v2, %g; cvt.u64.u32 %v3, %q;
             mul.lo.u64 %v4, %v2, %d; mul.lo.u64 %v5, %v3, 4;
             add.u64 %v6, %m, %v4; add.u64 %p, %v6, %v5;
             mul.wide.u32 %v7, %l, 4; add.u64 %v8, %out, %v7;
             mov.u32 %a, %l;
             {access}
             st.global.u32 [%v8], %a;
             ret;
         }}"
    )
}

/// Fragments of matrices whose lines end behind memory, begin in front of it, are misaligned, or lie so
/// far apart that their distance wraps.
#[test]
fn fragments_at_the_ends_of_memory() {
    // Seven times this is 12 more than all addresses.
    let wraps = (u64::MAX / 7 + 1).next_multiple_of(4);
    for space in ["global", "shared"] {
        let bytes = if space == "shared" { 512 } else { BYTES };
        for access in ["ld.SPACE.u32 %a, [%p];", "st.SPACE.u32 [%p], %l;"] {
            let text = of_fragments(access, space);
            for (first, distance, fine) in [
                (0, 64, true),
                (bytes - 7 * 64 - 16, 64, true),
                (bytes - 7 * 64 - 12, 64, false),
                (bytes - 7 * 64, 64, false),
                (bytes, 0, false),
                (0u64.wrapping_sub(4), 64, false),
                (0u64.wrapping_sub(64), 64, false),
                (2, 64, false),
                (0, 62, false),
                (0, 1 << 41, false),
                (64, wraps, false),
                (7 * 64, 0u64.wrapping_sub(64), true),
            ] {
                // Of an address of shared memory the lower 32 bits count, as on a GPU.
                if space == "shared" && (distance == wraps || distance == 1 << 41) {
                    continue;
                }
                move_fragments(&text, space, (first, distance), fine);
            }
        }
    }
}

/// Runs a kernel of fragments, of which the second block's begin and lie so: the same on all sets.
fn move_fragments(text: &str, space: &str, (first, distance): (u64, u64), fine: bool) {
    let outcomes = ALL_SETS.map(|set| {
        let mut device = Device::new(set);
        let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let kernel = kernel.kernel("k").expect("a kernel");
        let [buffer, list, out] =
            [BYTES, 32, 4 * u64::from(THREADS)].map(|n| device.memory.allocate(n, true));
        let content: Vec<u8> = (0..BYTES as u32).map(|n| (n * 37) as u8).collect();
        device.memory.write(buffer, &content);
        let start = if space == "shared" { 0 } else { buffer };
        let words = [start, 64, start.wrapping_add(first), distance];
        device.memory.write(list, &words.map(u64::to_le_bytes).concat());
        let params = [list, out].map(u64::to_le_bytes).concat();
        let ran = device.run(&kernel, Shape::linear(2, THREADS), &params);
        let ran = ran.map_err(|fault| without_address(fault.kind));
        let found = ran
            .map(|()| [device.memory.read(buffer, BYTES as usize), device.memory.read(out, 128)]);
        (set, found)
    });
    let (_, expected) = &outcomes[ALL_SETS.len() - 1];
    assert_eq!(expected.is_ok(), fine, "{first}, {distance}:\n{text}");
    for (set, found) in &outcomes {
        let same = found == expected || expected.is_err() && found.is_err();
        assert!(same, "{set:?}, {first}, {distance}: {found:?}\n{text}");
    }
}

/// The same of `wmma.load` and `wmma.store`, with an address that is known to be the warp's, and with one that a
/// register a lane has.
#[test]
fn wmma_at_the_ends_of_memory() {
    // Of eight lines: bytes of one, and the instruction.
    let accesses = [
        (16, "shl.b32 %c, %c, 1; wmma.load.a.sync.aligned.row.m8n8k32.SPACE.s4 {%a}, [%y], %c;"),
        (
            32,
            "shr.u32 %c, %c, 2; wmma.store.d.sync.aligned.row.m8n8k32.SPACE.s32 [%y], {%l, %a}, %c;",
        ),
    ];
    let lanes = "cvt.u32.u64 %c, %m; shfl.sync.idx.b32 %c, %c, 0, 31, -1; cvt.u64.u32 %x, %c;
                 and.b64 %y, %m, 0xffffffff00000000; or.b64 %y, %y, %x;";
    for (space, (line, access)) in
        ["global", "shared"].into_iter().flat_map(|s| accesses.map(|a| (s, a)))
    {
        let bytes = if space == "shared" { 512 } else { BYTES };
        for base in ["mov.u64 %y, %m;", lanes] {
            let access = format!(".reg .b64 %x, %y; {base} cvt.u32.u64 %c, %d; {access}");
            let text = of_fragments(&access, space);
            for (first, distance, fine) in [
                (0, 64, true),
                (bytes - 7 * 64 - line, 64, true),
                (bytes - 7 * 64 - line + 8, 64, false),
                (bytes - 7 * 64, 64, false),
                (bytes, 0, false),
                (0u64.wrapping_sub(8), 64, false),
                (0u64.wrapping_sub(64), 64, false),
                (2, 64, false),
                (0, 62, false),
                (0, 1 << 30, false),
            ] {
                move_fragments(&text, space, (first, distance), fine);
            }
        }
    }
}

/// A kernel of two blocks that adds to words of a table by an index whose bound its code shows: `%o` from
/// a word `%d`. Each register has one value but `%m`, where the table is, which `%by` may change.
fn of_indices(space: &str, index: &str, address: &str) -> String {
    let place = match space {
        "shared" => "mov.u32 %b, tile; add.u32 %s, %b, %o;",
        _ => "cvt.u64.u32 %v4, %o; add.s64 %w, %m, %v4;",
    };
    let address = address.replace("PLACE", if space == "shared" { "%s" } else { "%w" });
    let index = index.replace("PLACE", place);
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 tile[];
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)
         {{
             .reg .b64 %m, %list, %far, %by, %v<9>, %w; .reg .b32 %t, %b, %c, %d, %i, %j, %o, %s;
             ld.param.u64 %m, [a]; ld.param.u64 %list, [b]; ld.param.u64 %far, [c];
             mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mul.wide.u32 %v0, %c, 128;
             add.u64 %v1, %list, %v0; mul.wide.u32 %v2, %t, 4; add.u64 %v3, %v1, %v2;
             cvt.u64.u32 %v5, %c; mul.lo.u64 %by, %v5, %far;
             ld.global.u32 %d, [%v3];
             {index}
             red.{space}.add.u32 [{address}], 3;
             ret;
         }}"
    )
}

/// Indices that look small: all that they can reach is a table's, or a lane leaves it, is misaligned, or
/// its last word is not whole. The first block's words are 0, so that memory is known to the second's check.
#[test]
fn bounds_of_indices() {
    const FAR: u64 = 1 << 20;
    let words =
        |t: u32| t.wrapping_mul(2_654_435_761) ^ if t.is_multiple_of(2) { u32::MAX } else { 0 };
    let list: Vec<u8> =
        vec![0; 32].into_iter().chain((1..=32).map(words)).flat_map(u32::to_le_bytes).collect();
    let plain = "and.b32 %o, %d, 252; PLACE";
    for (index, address, bytes, fine) in [
        (plain, "PLACE", 256, true),
        (plain, "PLACE", 254, false),
        (plain, "PLACE+2", 512, false),
        (plain, "PLACE+256", 512, true),
        (plain, "PLACE+512", 512, false),
        ("and.b32 %o, %d, 253; PLACE", "PLACE", 512, false),
        ("and.b32 %i, %d, 252; cvt.s32.s8 %o, %i; PLACE", "PLACE", 256, false),
        ("and.b32 %i, %d, 252; cvt.u32.u8 %o, %i; PLACE", "PLACE", 256, true),
        ("shr.s32 %i, %d, 28; shl.b32 %o, %i, 2; PLACE", "PLACE", 256, false),
        ("shr.u32 %i, %d, 28; shl.b32 %o, %i, 2; PLACE", "PLACE", 64, true),
        // Multiples of two and of four.
        ("and.b32 %i, %d, 252; shr.u32 %o, %i, 1; PLACE", "PLACE", 512, false),
        ("and.b32 %i, %d, 504; shr.u32 %o, %i, 1; PLACE", "PLACE", 256, true),
        ("bfe.s32 %i, %d, 5, 6; mul.lo.u32 %o, %i, 4; PLACE", "PLACE", 256, false),
        ("bfe.u32 %i, %d, 5, 6; mul.lo.u32 %o, %i, 4; PLACE", "PLACE", 256, true),
        ("cvt.u32.u8 %i, %d; mul.lo.u32 %o, %i, 33554432; PLACE", "PLACE", 1024, false),
        ("and.b32 %i, %d, 60; add.u32 %o, %i, 64; PLACE", "PLACE", 128, true),
        ("and.b32 %i, %d, 60; add.u32 %o, %i, 64; PLACE", "PLACE", 124, false),
        // The table's place is another one when the sum is made than at the access.
        (
            "and.b32 %o, %d, 252; add.u64 %m, %m, %by; PLACE sub.u64 %m, %m, %by;",
            "PLACE",
            256,
            false,
        ),
    ] {
        for space in ["global", "shared"] {
            if space == "shared" && index.contains("%by") {
                continue;
            }
            let text = of_indices(space, index, address);
            for set in ALL_SETS {
                let mut device = Device::new(set);
                let kernel = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                let kernel = kernel.kernel("k").expect("a kernel");
                let table = device.memory.allocate(bytes, true);
                let source = device.memory.allocate(256, true);
                device.memory.write(source, &list);
                let params = [table, source, FAR].map(u64::to_le_bytes).concat();
                let shape = Shape { shared: bytes as u32, ..Shape::linear(2, THREADS) };
                let ran = device.run(&kernel, shape, &params);
                assert_eq!(ran.is_ok(), fine, "{set:?}, {bytes} bytes: {ran:?}\n{text}");
            }
        }
    }
}
