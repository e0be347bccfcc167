//! Read-modify-writes, loads and stores of lanes that go where they like: native code against
//! the interpreter, for every form, with all lanes, some by a guard and some by a branch.

use super::harness::{Device, Memory, Params, Shape};
use super::tiers::{Set, without_address};
use simt::kernel::FaultKind;
use simt_jit::SimdIsa;
use std::sync::Arc;

/// Threads: two warps and a half.
const THREADS: usize = 80;
/// Bytes that each of the three forms in a kernel works on.
const AREA: usize = 1024;

/// Bytes of results: one a form and thread, and another one.
const OUT: usize = 4 * THREADS * 8;

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }
}

/// A kernel that does `access` three times, on an area each: with all lanes, under a guard and
/// behind a branch. In it, `ADDRESS` stands for the operand; `%v` and `%w` hold values, `%r` gets
/// the result.
fn kernel(access: &str, register: &str, space: &str) -> String {
    let shared = space == "shared";
    let mut body = String::new();
    for (form, (before, after)) in
        [("", ""), ("@%odd ", ""), ("@!%odd bra SKIP;\n", "\nSKIP:")].into_iter().enumerate()
    {
        let (address, base) = if shared { ("%sa", "tile") } else { ("%ga", "") };
        let at = form * AREA;
        let compute = if shared {
            format!("mov.u32 %sa, {base}; add.u32 %sa, %sa, %off;")
        } else if space == "local" {
            "mov.u64 %ga, mine; cvt.u64.u32 %x, %off; add.u64 %ga, %ga, %x;".to_owned()
        } else {
            "cvt.u64.u32 %ga, %off; add.u64 %ga, %ga, %m;".to_owned()
        };
        // Before and behind what the register holds.
        let offset = [at as i64 + 16, at as i64 + 32, at as i64 - 16][form];
        let more = [0, 0, 32][form];
        let access = access.replace("ADDRESS", &format!("[{address}+{offset}]"));
        body += &format!(
            "{compute} add.u{width} {address}, {address}, {more};
             mov.b{bits} %r, 77;
             {before}{access}{after}
             st.global.b{bits} [%out+{result}], %r;\n",
            width = if shared { 32 } else { 64 },
            bits = register.trim_start_matches(".b"),
            result = form * THREADS * 8,
        );
    }
    let (fetch, leave) = if shared {
        let copy = |from: &str, to: &str| {
            format!(
                "mov.u32 %i, %t;\nL{from}: mul.wide.u32 %x, %i, 8; add.u64 %x, %x, %m;
                 mov.u32 %j, tile; mad.lo.u32 %j, %i, 8, %j;
                 ld.{from}.b64 %y, [{}]; st.{to}.b64 [{}], %y;
                 add.u32 %i, %i, {THREADS}; setp.lt.u32 %q, %i, {}; @%q bra L{from};\n",
                if from == "global" { "%x" } else { "%j" },
                if from == "global" { "%j" } else { "%x" },
                3 * AREA / 8,
            )
        };
        (
            copy("global", "shared") + "bar.sync 0;\n",
            "bar.sync 0;\n".to_owned() + &copy("shared", "global"),
        )
    } else if space == "local" {
        // All of it for each thread, and a sum of all of it.
        let each = |what: &str| {
            format!(
                "mov.u32 %i, 0;\n{}: mul.wide.u32 %x, %i, 8; mov.u64 %ga, mine; add.u64 %ga, %ga, %x;
                 {what}; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {}; @%q bra {};\n",
                &what[..2].to_uppercase(),
                3 * AREA / 8,
                &what[..2].to_uppercase(),
            )
        };
        (
            each("add.u64 %x, %x, %m; ld.global.b64 %y, [%x]; st.local.b64 [%ga], %y"),
            "mov.b64 %y, 0;\n".to_owned()
                + &each("ld.local.b64 %x, [%ga]; mad.lo.u64 %y, %y, 31, %x")
                + &format!("st.global.b64 [%out+{}], %y;\n", 3 * THREADS * 8),
        )
    } else {
        (String::new(), String::new())
    };
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e)
         {{
             .shared .align 16 .b8 tile[{size}]; .local .align 16 .b8 mine[{size}];
             .reg .b64 %m, %offsets, %values, %others, %out, %x, %y, %ga;
             .reg .b32 %t, %off, %sa, %i, %j; .reg .pred %odd, %q; .reg {register} %v, %w, %r;
             ld.param.u64 %m, [a]; ld.param.u64 %offsets, [b]; ld.param.u64 %values, [c];
             ld.param.u64 %others, [d]; ld.param.u64 %out, [e];
             mov.u32 %t, %tid.x;
             mul.wide.u32 %x, %t, 4; add.u64 %offsets, %offsets, %x; ld.global.u32 %off, [%offsets];
             mul.wide.u32 %x, %t, 8; add.u64 %values, %values, %x; add.u64 %others, %others, %x;
             add.u64 %out, %out, %x;
             ld.global{register} %v, [%values]; ld.global{register} %w, [%others];
             and.b32 %i, %off, 1024; setp.ne.u32 %odd, %i, 0;
             and.b32 %j, %off, 2048; shl.b32 %j, %j, 10;
             and.b32 %off, %off, 1023; add.u32 %off, %off, %j;
             {fetch}{body}{leave}
             ret;
         }}",
        size = 3 * AREA,
    )
}

type Outcome = Result<[Vec<u8>; 2], FaultKind>;

fn run(set: Set, text: &str, inputs: &[Vec<u8>; 4]) -> Outcome {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let mut params = Params::default();
    let addresses: Vec<u64> = inputs
        .iter()
        .map(|bytes| {
            let address = device.memory.allocate(bytes.len() as u64, true);
            device.memory.write(address, bytes);
            address
        })
        .collect();
    let out = device.memory.allocate(OUT as u64, true);
    addresses.iter().chain([&out]).for_each(|a| params.push(&a.to_le_bytes()));
    device
        .run(&kernel, Shape::linear(1, THREADS as u32), &params.0)
        .map_err(|fault| without_address(fault.kind))?;
    Ok([device.memory.read(addresses[0], 3 * AREA), device.memory.read(out, OUT)])
}

/// Offsets a thread, bit 10 for those that the guard lets through, bit 11 for what is not there.
fn offsets(pattern: usize, bytes: usize, random: &mut Random) -> Vec<u32> {
    let words = 512 / bytes;
    let mut all: Vec<u32> = (0..THREADS)
        .map(|t| {
            let word = match pattern {
                0 => 5,
                1 => t % words,
                2 => random.next() as usize % words,
                // Few words, so that many lanes meet.
                _ => random.next() as usize % 3,
            };
            (word * bytes) as u32 | (random.next() as u32 & 1) << 10
        })
        .collect();
    let odd = random.next() as usize % THREADS;
    match pattern {
        4 => all[odd] += 1,
        // Behind all memory.
        5 => all[odd] |= 1 << 11,
        // All by itself in its warp, where the guard lets it through.
        6 => {
            all.iter_mut().enumerate().for_each(|(t, o)| *o = *o & 1023 | u32::from(t == 37) << 10)
        }
        _ => {}
    }
    all
}

fn compare(access: &str, register: &str, bytes: usize) {
    // No other thread sees local memory.
    let spaces = if access.starts_with("ld") || access.starts_with("st") {
        &["global", "shared", "local"][..]
    } else {
        &["global", "shared"]
    };
    for space in spaces {
        let text = kernel(&access.replace("SPACE", space), register, space);
        for pattern in 0..7 {
            let mut random = Random(pattern as u64 * 77 + bytes as u64);
            let values = |random: &mut Random| -> Vec<u8> {
                let special = [0, 1, u64::MAX, 0x7fc0_0001_7f80_0000, 1 << 63, 0x8000_0000];
                (0..THREADS)
                    .flat_map(|t| {
                        let any = random.next() << 16 ^ random.next();
                        let value = if t % 4 == 0 { special[any as usize % 6] } else { any };
                        value.to_le_bytes()
                    })
                    .collect()
            };
            let memory: Vec<u8> = (0..3 * AREA).map(|_| random.next() as u8 & 0xf3).collect();
            let offsets = offsets(pattern, bytes, &mut random);
            let offsets = offsets.into_iter().flat_map(u32::to_le_bytes).collect();
            let (v, w) = (values(&mut random), values(&mut random));
            let inputs = [memory, offsets, v, w];
            let interpreted = run(Set::Interpreted, &text, &inputs);
            let fails = pattern == 4 && bytes > 1 || pattern == 5;
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, &inputs);
                let what = format!("{isa:?}, {access}, pattern {pattern}");
                assert!(native == interpreted, "{what}:\n{text}");
                assert_eq!(native.is_err(), fails, "{what}: {native:?}");
            }
        }
    }
}

#[test]
fn read_modify_writes() {
    for (op, types) in [
        ("add", &["u32", "s32", "u64", "f32", "f64"][..]),
        ("min", &["u32", "s32", "u64", "s64"]),
        ("max", &["u32", "s32", "u64", "s64"]),
        ("inc", &["u32"]),
        ("dec", &["u32"]),
        ("and", &["b32", "b64"]),
        ("or", &["b32", "b64"]),
        ("xor", &["b32", "b64"]),
        ("exch", &["b32", "b64"]),
        ("cas", &["b32", "b64"]),
    ] {
        for ty in types {
            let bits = &ty[1..];
            let register = format!(".b{bits}");
            let more = if op == "cas" { ", %w" } else { "" };
            let bytes = bits.parse::<usize>().unwrap() / 8;
            compare(&format!("atom.SPACE.{op}.{ty} %r, ADDRESS, %v{more};"), &register, bytes);
            if !matches!(op, "exch" | "cas") {
                compare(&format!("red.SPACE.{op}.{ty} ADDRESS, %v;"), &register, bytes);
            }
        }
    }
    for pair in ["f16x2", "bf16x2"] {
        compare(&format!("atom.SPACE.add.noftz.{pair} %r, ADDRESS, %v;"), ".b32", 4);
        compare(&format!("red.SPACE.add.noftz.{pair} ADDRESS, %v;"), ".b32", 4);
        let constant = format!("mov.b32 %w, 0x3c003400; red.SPACE.add.noftz.{pair} ADDRESS, %w;");
        compare(&constant, ".b32", 4);
    }
}

#[test]
fn whole_accesses() {
    for (ty, bytes) in [("b32", 4), ("b64", 8)] {
        let register = format!(".{ty}");
        compare(&format!("ld.SPACE.{ty} %r, ADDRESS;"), &register, bytes);
        compare(&format!("st.SPACE.{ty} ADDRESS, %v;"), &register, bytes);
        // Another register than the result's is not looked at.
        compare(&format!("ld.SPACE.v2.{ty} {{%r, %w}}, ADDRESS;"), &register, 2 * bytes);
        compare(&format!("st.SPACE.v2.{ty} ADDRESS, {{%v, %w}};"), &register, 2 * bytes);
    }
}

#[test]
fn narrow_accesses() {
    for (ty, registers) in [
        ("u8", &[".b16", ".b32", ".b64"][..]),
        ("s8", &[".b16", ".b32", ".b64"]),
        ("u16", &[".b16", ".b32", ".b64"]),
        ("s16", &[".b16", ".b32", ".b64"]),
        ("u32", &[".b32", ".b64"]),
        ("s32", &[".b64"]),
    ] {
        for register in registers {
            let bytes = ty[1..].parse::<usize>().unwrap() / 8;
            compare(&format!("ld.SPACE.{ty} %r, ADDRESS;"), register, bytes);
            compare(&format!("st.SPACE.{ty} ADDRESS, %v;"), register, bytes);
        }
    }
}

/// Blocks that each worker runs.
const ROUNDS: u32 = 200;

/// Workers that update the same words at the same time lose nothing.
#[test]
fn updates_by_several_workers() {
    let text = ".version 7.8\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 a)
        {
            .reg .b64 %m, %x; .reg .b32 %t, %r; .reg .pred %p;
            ld.param.u64 %m, [a]; mov.u32 %t, %tid.x;
            red.global.add.u32 [%m], 1;
            and.b32 %r, %t, 7; mul.wide.u32 %x, %r, 4; add.u64 %x, %x, %m;
            red.global.add.u32 [%x+64], 3;
            atom.global.add.u32 %r, [%m+128], 1;
            mul.wide.u32 %x, %r, 4; add.u64 %x, %x, %m;
            red.global.add.u32 [%x+256], 1;
            and.b32 %r, %t, 1; setp.eq.u32 %p, %r, 0;
            @%p red.global.max.u32 [%m+132], %t;
            @%p red.global.add.f32 [%m+136], 0f3F800000;
            ret;
        }";
    for isa in SimdIsa::ALL {
        update_by_several(text, Set::Native(isa));
    }
}

fn update_by_several(text: &str, set: Set) {
    let memory = Arc::new(Memory::default());
    let total = 2 * ROUNDS * THREADS as u32;
    let address = memory.allocate(256 + 4 * u64::from(total), true);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut device = Device::new(set);
                device.memory = memory.clone();
                let module = device.load(text).unwrap();
                let kernel = module.kernel("k").unwrap();
                let shape = Shape::linear(ROUNDS, THREADS as u32);
                device.run(&kernel, shape, &address.to_le_bytes()).unwrap();
            });
        }
    });
    let words: Vec<u32> = memory
        .read(address, 256 + 4 * total as usize)
        .chunks(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    assert_eq!(words[0], total);
    assert!(words[16..24].iter().all(|n| *n == 3 * total / 8), "{:?}", &words[16..24]);
    assert_eq!((words[32], words[33]), (total, 78));
    assert_eq!(f32::from_bits(words[34]), (total / 2) as f32);
    assert!(words[64..].iter().all(|n| *n == 1), "a number was given twice");
}
