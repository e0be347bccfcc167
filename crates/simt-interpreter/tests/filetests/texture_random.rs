//! Random textures read at random places, and surfaces read and written, by whole warps and lane by lane: the same to the bit.
//!
//! A device that accounts for accesses reads lane by lane. `OPENMPS_FUZZ_ROUNDS` says how many
//! textures, `OPENMPS_FUZZ_SEED` from which seed on.

use super::harness::{Device, Params, Shape};
use super::tiers::ALL_SETS;
use ptx_reference::Random;
use simt::kernel::Dim3;
use simt::runtime::texture::{AddressMode, Descriptor, Texel, row_bytes};

/// Textures without a wish in the environment.
const ROUNDS: u64 = 150;
/// Threads of a launch: whole warps and a part of one.
const THREADS: u32 = 64 + 21;
/// Words of a thread's input: layer, three coordinates, level, choice.
const WORDS: usize = 6;

const TEXELS: [Texel; 9] = [
    Texel::U8,
    Texel::U16,
    Texel::U32,
    Texel::S8,
    Texel::S16,
    Texel::S32,
    Texel::F16,
    Texel::F32,
    Texel::Srgb8,
];
const MODES: [AddressMode; 4] =
    [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border];

fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Instructions, `*` for `f32`, `s32` or `u32`.
const FORMS: [&str; 16] = [
    "tex.1d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a}]",
    "tex.2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]",
    "tex.3d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %c}]",
    "tex.a1d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%l, %a}]",
    "tex.a2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%l, %a, %b, %b}]",
    "tex.cube.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %c}]",
    "tex.acube.v4.*.f32 {%x, %y, %z, %w}, [%t, {%l, %a, %b, %c}]",
    "tex.1d.v4.*.s32 {%x, %y, %z, %w}, [%t, {%a}]",
    "tex.2d.v4.*.s32 {%x, %y, %z, %w}, [%t, {%a, %b}]",
    "tex.3d.v4.*.s32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %c}]",
    "tex.level.2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b}], %v",
    "tex.level.3d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %c}], %v",
    "tex.level.a2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%l, %a, %b, %b}], %v",
    "tld4.r.2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]",
    "tld4.a.2d.v4.*.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]",
    // Results where coordinates were.
    "tex.2d.v4.*.f32 {%a, %b, %x, %y}, [%t, {%a, %b}]; mov.b32 %z, %a; mov.b32 %w, %b",
];

/// Accesses to surfaces: bytes, or texels of `sust.p`, along the first axis.
const SURFACES: [&str; 14] = [
    "suld.b.1d.b32.zero %x, [%t, {%a}]",
    "suld.b.2d.b32.clamp %x, [%t, {%a, %b}]",
    "suld.b.2d.v2.b32.zero {%x, %y}, [%t, {%a, %b}]",
    "suld.b.2d.v4.b32.clamp {%x, %y, %z, %w}, [%t, {%a, %b}]",
    "suld.b.3d.b32.zero %x, [%t, {%a, %b, %c, %c}]",
    "suld.b.a2d.b32.zero %x, [%t, {%l, %a, %b, %b}]",
    "suld.b.a1d.b32.clamp %x, [%t, {%l, %a}]",
    "suld.b.2d.b32.trap %x, [%t, {%a, %b}]",
    ".reg .b16 %h, %j; suld.b.2d.v2.b8.clamp {%h, %j}, [%t, {%a, %b}]; mov.b32 %x, {%h, %j}",
    ".reg .b16 %h; suld.b.2d.b16.zero %h, [%t, {%a, %b}]; cvt.u32.u16 %x, %h",
    "sust.b.2d.b32.zero [%t, {%a, %b}], %s",
    "sust.b.3d.v2.b32.clamp [%t, {%a, %b, %c, %c}], {%s, %l}",
    "sust.p.2d.v4.b32.zero [%t, {%a, %b}], {%s, %l, %a, %b}",
    "sust.p.a2d.b32.clamp [%t, {%l, %a, %b, %b}], {%s}",
];

/// An object without a place, and bytes of its texels.
fn object(random: &mut Random, form: &str) -> (Descriptor, u64) {
    let small = |random: &mut Random, most: u64| 1 + random.below(most) as u32;
    let cube = form.contains("cube");
    let most = one_of(random, &[4, 16, 90]);
    let width = if random.below(3) == 0 { 1 << random.below(7) } else { small(random, most) };
    let height = if cube { width } else { small(random, 12) };
    let (texel, channels) = (one_of(random, &TEXELS), one_of(random, &[1u8, 2, 4]));
    let texel_bytes = u64::from(texel.bytes()) * u64::from(channels);
    // As arrays have them, or rows without anything between.
    let row = match random.below(3) {
        0 => u64::from(width) * texel_bytes,
        _ => row_bytes(width.into(), texel_bytes),
    };
    let depth = if cube { 6 * small(random, 2) } else { small(random, 6) };
    let levels = if form.contains("level") || random.below(4) == 0 { small(random, 4) } else { 1 };
    let odd = [f32::NAN, f32::INFINITY, -0.0, 1.0, 0.25];
    let first = Descriptor {
        base: 0,
        width,
        height,
        depth,
        row_bytes: row,
        slice_bytes: row * u64::from(height),
        texel,
        channels,
        address: [0; 3].map(|_| one_of(random, &MODES)),
        linear: random.below(3) > 0,
        normalized: random.below(2) == 0,
        scaled: texel.bytes() < 4 && texel != Texel::F16 && random.below(3) > 0,
        border: [0; 4].map(|_| one_of(random, &odd)),
        layered: cube || form.contains(".a"),
        levels: levels as u8,
        blends_levels: random.below(2) == 0,
        level_bias: one_of(random, &[0.0, 0.5, -1.0]),
        level_range: [one_of(random, &[0.0, 1.0]), one_of(random, &[0.5, 9.0])],
    };
    let last = first.level(first.levels - 1);
    let bytes = last.base + last.slice_bytes * u64::from(last.depth);
    // Of a row that is not the last, nothing lies behind its texels.
    (first, bytes.max(1))
}

fn texels(random: &mut Random, d: &Descriptor, bytes: u64) -> Vec<u8> {
    let wild = random.below(3) == 0;
    let mut all: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
    if d.texel == Texel::F32 && !wild {
        for word in all.chunks_exact_mut(4) {
            let value = (random.below(2000) as f32 - 1000.0) / 7.0;
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
    if d.texel == Texel::F16 && !wild {
        all.iter_mut().skip(1).step_by(2).for_each(|high| *high &= 0xbf);
    }
    all
}

/// A coordinate of a lane.
fn coordinate(random: &mut Random, way: u64, lane: u32, size: u32, d: &Descriptor) -> f32 {
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        1e-40,
        -1e-40,
        3e9,
        -3e9,
        1e38,
        5e6,
        -5e6,
        1.0,
        -1.0,
        0.999_999_94,
    ];
    let texels = match way {
        // Side by side, also backwards, and far apart.
        0 => lane as f32 + 0.5,
        1 => 20.25 - lane as f32 * 0.75,
        2 => (lane / 16) as f32 + 0.3,
        3 => lane as f32 * 2.5 - 9.0,
        4 => (random.below(4 * u64::from(size) * 256) as f32) / 256.0 - 1.5 * size as f32,
        5 => random.below(2 * u64::from(size) + 2) as f32 / 2.0,
        _ if random.below(4) == 0 => return one_of(random, &odd),
        _ => random.below(3 * u64::from(size) * 4096) as f32 / 4096.0 - size as f32,
    };
    if d.normalized { texels / size as f32 } else { texels }
}

/// A thread's input.
fn input(
    random: &mut Random,
    ways: [u64; 3],
    form: &str,
    lane: u32,
    d: &Descriptor,
) -> [u32; WORDS] {
    let sizes = [d.width, d.height, d.depth];
    let mut words = [0; WORDS];
    words[0] = if random.below(8) == 0 { random.bits() as u32 } else { random.below(8) as u32 };
    for axis in 0..3 {
        let x = match form.contains("cube") {
            true => (random.below(4097) as f32 - 2048.0) / 1024.0,
            false => coordinate(random, ways[axis], lane, sizes[axis], d),
        };
        let whole = form.contains(".s32 {%");
        words[1 + axis] = match (whole, x.is_finite()) {
            (false, _) => x.to_bits(),
            (true, true) => x as i32 as u32,
            (true, false) => random.bits() as u32,
        };
    }
    let levels = [0.0, 0.49, 0.5, 1.0, 1.7, 2.3, 99.0, -3.0, f32::NAN];
    words[4] = one_of(random, &levels).to_bits();
    words[5] = random.bits() as u32;
    words
}

/// A thread's input, for a surface.
fn place(random: &mut Random, form: &str, lane: u32, d: &Descriptor) -> [u32; WORDS] {
    let bytes = d.texel_bytes();
    let unit = if form.contains("sust.p") { 1 } else { bytes };
    let near = |random: &mut Random, extent: u32| random.below(u64::from(extent) + 4) as u32;
    let x = match random.below(16) {
        0 => random.bits() as u32,
        1 => near(random, d.width).wrapping_sub(2).wrapping_mul(unit),
        _ => (lane % d.width).wrapping_mul(unit),
    };
    let (y, z) = (near(random, d.height).wrapping_sub(2), near(random, d.depth).wrapping_sub(2));
    // What faults outside mostly stays inside, and so do numbers of lanes that store.
    let inside = form.contains(".trap");
    let [y, z] = if inside && random.below(64) > 0 { [y.min(d.height - 1), z] } else { [y, z] };
    [near(random, d.depth), x, y, z, 0, random.bits() as u32]
}

/// What a run leaves behind: results of all threads, and the objects' texels.
type Left = (Vec<u32>, Vec<Vec<u8>>);

/// Runs an instruction; the thread that faults, if one does.
fn run(
    mut device: Device,
    text: &str,
    objects: &[(Descriptor, Vec<u8>)],
    inputs: &[u32],
) -> Result<Left, Dim3> {
    let mut params = Params::default();
    let mut places = Vec::new();
    for (object, texels) in objects {
        // Nothing is between the last texel and what may not be read.
        let align = object.texel_bytes().max(4) as usize;
        let at = device.memory.allocate_aligned(texels.len() as u64, align, true);
        device.memory.write(at, texels);
        places.push((at, texels.len()));
        let handle = device.memory.allocate(Descriptor::BYTES as u64, false);
        device.memory.write(handle, &Descriptor { base: at, ..*object }.to_bytes());
        params.push(&handle.to_le_bytes());
    }
    let words: Vec<u8> = inputs.iter().flat_map(|word| word.to_le_bytes()).collect();
    let from = device.memory.allocate(words.len() as u64, true);
    device.memory.write(from, &words);
    let out = device.memory.allocate(u64::from(16 * THREADS), true);
    device.memory.write(out, &[0xaa; 16 * THREADS as usize]);
    params.push(&from.to_le_bytes());
    params.push(&out.to_le_bytes());
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("the kernel");
    device.run(&kernel, Shape::linear(1, THREADS), &params.0).map_err(|fault| fault.thread)?;
    let bytes = device.memory.read(out, 16 * THREADS as usize);
    let word = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("4 bytes"));
    let texels = places.into_iter().map(|(at, bytes)| device.memory.read(at, bytes)).collect();
    Ok((bytes.chunks_exact(4).map(word).collect(), texels))
}

/// A kernel that reads the first object, or each lane one of both, in some lanes.
fn kernel(instruction: &str, both: bool, some: bool) -> String {
    let select = if both { "selp.b64 %t, %t, %u, %p;" } else { "" };
    let guard = if some { "@%q" } else { "" };
    // The guard is of the first instruction alone.
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 t, .param .u64 u, .param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %t, %u, %in, %out;\n.reg .b32 %l, %a, %b, %c, %v, %s, %x, %y, %z, %w, %i;\n\
         .reg .pred %p, %q;\n\
         ld.param.u64 %t, [t];\nld.param.u64 %u, [u];\nld.param.u64 %in, [in];\n\
         ld.param.u64 %out, [out];\nmov.u32 %i, %tid.x;\n\
         mad.wide.u32 %in, %i, {bytes}, %in;\nmad.wide.u32 %out, %i, 16, %out;\n\
         ld.global.b32 %l, [%in];\nld.global.b32 %a, [%in+4];\nld.global.b32 %b, [%in+8];\n\
         ld.global.b32 %c, [%in+12];\nld.global.b32 %v, [%in+16];\nld.global.b32 %s, [%in+20];\n\
         and.b32 %i, %s, 1;\nsetp.ne.u32 %p, %i, 0;\nand.b32 %i, %s, 6;\nsetp.ne.u32 %q, %i, 0;\n\
         {select}\n\
         mov.b32 %x, 7;\nmov.b32 %y, 7;\nmov.b32 %z, 7;\nmov.b32 %w, 7;\n\
         {guard} {instruction};\nst.global.v4.b32 [%out], {{%x, %y, %z, %w}};\nret;\n}}\n",
        bytes = 4 * WORDS
    )
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn warps_read_what_lanes_read() {
    let first = number("OPENMPS_FUZZ_SEED").unwrap_or(1);
    let rounds = number("OPENMPS_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    for seed in first..first + rounds {
        let mut random = Random::new(seed);
        let form = one_of(&mut random, &FORMS);
        let result = one_of(&mut random, &["f32", "f32", "f32", "s32", "u32"]);
        let both = random.below(8) == 0;
        let objects = [0; 2].map(|_| {
            let (object, bytes) = object(&mut random, form);
            let texels = texels(&mut random, &object, bytes);
            (object, texels)
        });
        let ways = [random.below(8), random.below(8), random.below(8)];
        let inputs: Vec<u32> = (0..THREADS)
            .flat_map(|lane| input(&mut random, ways, form, lane, &objects[0].0))
            .collect();
        let text = kernel(&form.replace('*', result), both, random.below(3) == 0);
        let (expected, _) =
            run(Device::checking(ALL_SETS[0]), &text, &objects, &inputs).expect("no fault");
        for set in ALL_SETS {
            let (found, _) = run(Device::new(set), &text, &objects, &inputs)
                .unwrap_or_else(|thread| panic!("seed {seed}, {set:?}: {thread:?} faults\n{text}"));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let thread = i / 4;
                assert_eq!(
                    found,
                    expected,
                    "seed {seed}, {set:?}, thread {thread}, channel {}: {found:#x} instead of \
                     {expected:#x}\n{}\n{:?}\n{:x?}",
                    i % 4,
                    form.replace('*', result),
                    objects[0].0,
                    &inputs[WORDS * thread..][..WORDS],
                );
            }
        }
    }
}

#[test]
fn warps_access_surfaces_as_lanes_do() {
    let first = number("OPENMPS_FUZZ_SEED").unwrap_or(1);
    let rounds = number("OPENMPS_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    let (mut faults, mut runs) = (0, 0);
    for seed in first..first + rounds {
        let mut random = Random::new(seed);
        let form = one_of(&mut random, &SURFACES);
        let objects = [0; 2].map(|_| {
            let (object, bytes) = object(&mut random, form);
            let texels = texels(&mut random, &object, bytes);
            (object, texels)
        });
        let inputs: Vec<u32> =
            (0..THREADS).flat_map(|lane| place(&mut random, form, lane, &objects[0].0)).collect();
        let text = kernel(form, false, false);
        let expected = run(Device::checking(ALL_SETS[0]), &text, &objects, &inputs);
        match expected {
            Ok(_) => runs += 1,
            Err(_) => faults += 1,
        }
        for set in ALL_SETS {
            let found = run(Device::new(set), &text, &objects, &inputs);
            assert_eq!(found, expected, "seed {seed}, {set:?}: {form}\n{:?}", objects[0].0);
        }
    }
    assert!(runs > faults, "{runs} runs, {faults} faults");
}

/// Values that are needed after a read, in a loop of several and in the warps and blocks that follow.
#[test]
fn values_stay_over_reads() {
    let d = Descriptor {
        base: 0,
        width: 16,
        height: 16,
        depth: 1,
        row_bytes: 64,
        slice_bytes: 1024,
        texel: Texel::F32,
        channels: 1,
        address: [AddressMode::Clamp; 3],
        linear: true,
        normalized: false,
        scaled: false,
        border: [0.0; 4],
        layered: false,
        levels: 1,
        blends_levels: false,
        level_bias: 0.0,
        level_range: [0.0; 2],
    };
    // What is loaded before the loop, and what is added up in it.
    const KEPT: u32 = 12;
    let all = |f: &dyn Fn(u32) -> String| (0..KEPT).map(f).collect::<String>();
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 t, .param .u64 in, .param .u64 out, .param .f32 step)\n{{\n\
         .reg .b64 %t, %in, %out, %o;\n.reg .b32 %i, %j, %n;\n.reg .pred %p;\n\
         .reg .f32 %s, %k<{KEPT}>, %a<{KEPT}>, %x<4>, %y<4>;\n\
         ld.param.u64 %t, [t];\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n\
         ld.param.f32 %s, [step];\n\
         mov.u32 %i, %tid.x;\nmov.u32 %j, %ctaid.x;\nmov.u32 %n, %ntid.x;\n\
         mad.lo.u32 %i, %j, %n, %i;\nmad.wide.u32 %in, %i, 4, %in;\n\
         mad.wide.u32 %out, %i, 4, %out;\n\
         {load}{clear}mov.u32 %j, 0;\nLOOP:\n\
         {read}add.u32 %j, %j, 1;\nsetp.lt.u32 %p, %j, 4;\n@%p bra LOOP;\n\
         {store}ret;\n}}\n",
        load = all(&|n| format!("ld.global.f32 %k{n}, [%in+{}];\n", 4 * n)),
        clear = all(&|n| format!("mov.f32 %a{n}, 0f00000000;\n")),
        read = all(&|n| {
            let m = (n + 1) % KEPT;
            format!(
                "tex.2d.v4.f32.f32 {{%x0, %x1, %x2, %x3}}, [%t, {{%k{n}, %k{m}}}];\n\
                 tex.2d.v4.f32.f32 {{%y0, %y1, %y2, %y3}}, [%t, {{%s, %a{n}}}];\n\
                 fma.rn.f32 %a{n}, %x0, %s, %a{n};\nadd.f32 %a{m}, %a{m}, %y0;\n\
                 add.f32 %k{n}, %k{n}, %y3;\n"
            )
        }),
        store = all(&|n| {
            format!(
                "mul.f32 %a{n}, %a{n}, %k{n};\n\
                 add.u64 %o, %out, {};\nst.global.f32 [%o], %a{n};\n",
                n * 4 * THREADS * 3
            )
        }),
    );
    let mut random = Random::new(7);
    let texels: Vec<u8> = (0..256).flat_map(|_| (random.below(17) as f32).to_le_bytes()).collect();
    let inputs: Vec<u8> = (0..3 * THREADS + KEPT)
        .flat_map(|_| (random.below(64) as f32 / 4.0).to_le_bytes())
        .collect();
    let run = |mut device: Device| {
        let mut params = Params::default();
        let at = device.memory.allocate(1024, false);
        device.memory.write(at, &texels);
        let handle = device.memory.allocate(Descriptor::BYTES as u64, false);
        device.memory.write(handle, &Descriptor { base: at, ..d }.to_bytes());
        let from = device.memory.allocate(inputs.len() as u64, false);
        device.memory.write(from, &inputs);
        let bytes = (4 * KEPT * 3 * THREADS) as usize;
        let out = device.memory.allocate(bytes as u64, true);
        device.memory.write(out, &vec![0; bytes]);
        [handle, from, out].iter().for_each(|address| params.push(&address.to_le_bytes()));
        params.push(&1.25f32.to_le_bytes());
        let module = device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let kernel = module.kernel("k").expect("the kernel");
        device.run(&kernel, Shape::linear(3, THREADS), &params.0).expect("no fault");
        device.memory.read(out, bytes)
    };
    let expected = run(Device::checking(ALL_SETS[0]));
    for set in ALL_SETS {
        assert!(run(Device::new(set)) == expected, "{set:?}");
    }
}
