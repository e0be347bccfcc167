//! Textures and surfaces: objects made here, read by kernels, against the guide's formulas.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use simt::runtime::texture::{AddressMode, Descriptor, Texel};

/// 4 by 3 by 2 texels of one f32: 100 z + 10 y + x.
fn numbers() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (z, y, x) in (0..2).flat_map(|z| (0..3).flat_map(move |y| (0..4).map(move |x| (z, y, x)))) {
        bytes.extend(((100 * z + 10 * y + x) as f32).to_le_bytes());
    }
    bytes
}

fn object() -> Descriptor {
    Descriptor {
        base: 0,
        width: 4,
        height: 3,
        depth: 2,
        row_bytes: 16,
        slice_bytes: 48,
        texel: Texel::F32,
        channels: 1,
        address: [AddressMode::Clamp; 3],
        linear: false,
        normalized: false,
        scaled: false,
        border: [-1.0, -2.0, -3.0, -4.0],
        layered: false,
        levels: 1,
        blends_levels: false,
        level_bias: 0.0,
        level_range: [0.0, 0.0],
    }
}

/// 8 by 4 texels of one f32 in four levels: 100 a level, 10 y + x in it.
fn levels() -> (Descriptor, Vec<u8>) {
    let first = Descriptor {
        width: 8,
        height: 4,
        depth: 1,
        row_bytes: 32,
        slice_bytes: 128,
        normalized: true,
        levels: 4,
        level_range: [0.0, 9.0],
        ..object()
    };
    let mut bytes = vec![0; 128 + 64 + 32 + 32];
    for level in 0..4 {
        let d = first.level(level);
        for (y, x) in (0..d.height).flat_map(|y| (0..d.width).map(move |x| (y, x))) {
            let at = (d.base + u64::from(y) * d.row_bytes) as usize + 4 * x as usize;
            let value = (100 * u32::from(level) + 10 * y + x) as f32;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    (first, bytes)
}

const LEVEL: &str = "tex.level.2d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b}], %c";

#[test]
fn levels_are_read_by_number() {
    for set in ALL_SETS {
        let (object, texels) = levels();
        let mut rig = Rig::new(set, object, &texels);
        let mut at = |level: f32| rig.floats(LEVEL, [0.999, 0.999, level, 0.0])[0];
        // The last texel of each level, the nearest level, none beyond the last.
        let read = [0.0, 0.49, 1.0, 1.6, 3.0, 99.0, -5.0, f32::NAN].map(&mut at);
        assert_eq!(read, [37.0, 37.0, 113.0, 201.0, 300.0, 300.0, 37.0, 37.0]);
        let mut blending = Rig::new(set, Descriptor { blends_levels: true, ..object }, &texels);
        let between = blending.floats(LEVEL, [0.0, 0.0, 1.25, 0.0])[0];
        assert_eq!(between, 125.0);
        let biased = Descriptor { level_bias: 1.0, level_range: [0.0, 2.0], ..object };
        let mut rig = Rig::new(set, biased, &texels);
        let mut at = |level: f32| rig.floats(LEVEL, [0.0, 0.0, level, 0.0])[0];
        assert_eq!([0.0, 1.0, 7.0].map(&mut at), [100.0, 200.0, 200.0]);
        // Who names no level reads the first one that is allowed.
        assert_eq!(rig.floats(TEX2, [0.0, 0.0, 0.0, 0.0])[0], 100.0);
        let query = "txq.num_mipmap_levels.b32 %x, [%t]";
        assert_eq!(rig.run(query, [0; 4]).unwrap()[0], 4);
    }
}

#[test]
fn levels_follow_from_gradients() {
    for set in ALL_SETS {
        let (object, texels) = levels();
        let mut rig = Rig::new(set, object, &texels);
        let tex = "tex.grad.2d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %a}], {%b, %c}, {%c, %d}";
        let mut at = |x: f32, both: f32, y: f32| rig.floats(tex, [0.0, x, both, y])[0];
        // A texel a step, in one direction or the other: the first level.
        assert_eq!(at(0.125, 0.0, 0.25), 0.0);
        assert_eq!(at(0.125, 0.0, 0.0), 0.0);
        assert_eq!(at(0.0, 0.0, 0.0), 0.0);
        // Two, four and many of them, the longer gradient first or second.
        assert_eq!(at(0.25, 0.0, 0.25), 100.0);
        assert_eq!(at(0.125, 0.0, -0.5), 100.0);
        assert_eq!(at(-0.5, 0.0, 0.0), 200.0);
        assert_eq!(at(0.0, 0.0, 9.0), 300.0);
        // 2.4 texels in both directions are more than 3 together, and nearer to 4 than to 2.
        assert_eq!(at(0.0, 0.3, 0.6), 200.0);
        for (level, size) in [(0, [8, 4]), (1, [4, 2]), (3, [1, 1]), (9, [1, 1])] {
            for (what, size) in ["width", "height"].iter().zip(size) {
                let query = format!("txq.level.{what}.b32 %x, [%t], {level}");
                assert_eq!(rig.run(&query, [0; 4]).unwrap()[0], size);
            }
        }
    }
}

#[test]
fn a_direction_meets_a_face_of_a_cube() {
    // Six faces of 2 by 2 texels: 10 a face, 2 t + s in it.
    let face = |n: u8| (0..4u8).flat_map(move |i| f32::from(10 * n + i).to_le_bytes());
    let texels: Vec<u8> = (0..6).flat_map(face).collect();
    let cube = Descriptor {
        width: 2,
        height: 2,
        depth: 6,
        row_bytes: 8,
        slice_bytes: 16,
        normalized: true,
        layered: true,
        ..object()
    };
    let mut rig = Rig::new(ALL_SETS[0], cube, &texels);
    let tex = "tex.cube.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %d}]";
    let mut at = |x: f32, y: f32, z: f32| rig.floats(tex, [x, y, z, 0.0])[0];
    // By the guide's table: face 0 has s = -z, t = -y, and so on.
    assert_eq!(at(2.0, -1.0, -1.0), 3.0);
    assert_eq!(at(2.0, 1.0, 1.0), 0.0);
    assert_eq!(at(-2.0, -1.0, 1.0), 13.0);
    assert_eq!(at(1.0, 2.0, 1.0), 23.0);
    assert_eq!(at(1.0, -2.0, -1.0), 33.0);
    assert_eq!(at(1.0, -1.0, 2.0), 43.0);
    assert_eq!(at(-1.0, -1.0, -2.0), 53.0);
}

struct Rig {
    device: Device,
    handle: u64,
    texels: u64,
}

impl Rig {
    fn new(set: Set, mut object: Descriptor, texels: &[u8]) -> Self {
        let device = Device::new(set);
        let at = device.memory.allocate(texels.len() as u64, true);
        device.memory.write(at, texels);
        object.base = at;
        let handle = device.memory.allocate(Descriptor::BYTES as u64, false);
        device.memory.write(handle, &object.to_bytes());
        Self { device, handle, texels: at }
    }

    /// Runs the instruction in one lane of four, with four operands; its results.
    fn run(&mut self, instruction: &str, operands: [u32; 4]) -> Result<[u32; 4], String> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 t, .param .u64 out, .param .u32 a, .param .u32 b, .param .u32 c, .param .u32 d)\n{{\n\
             .reg .b64 %t, %out;\n.reg .b32 %a, %b, %c, %d, %x, %y, %z, %w, %i;\n.reg .pred %p;\n\
             mov.u32 %i, %tid.x;\nsetp.ne.u32 %p, %i, 2;\n@%p ret;\n\
             ld.param.u64 %t, [t];\nld.param.u64 %out, [out];\nld.param.u32 %a, [a];\n\
             ld.param.u32 %b, [b];\nld.param.u32 %c, [c];\nld.param.u32 %d, [d];\n\
             mov.b32 %x, 0;\nmov.b32 %y, 0;\nmov.b32 %z, 0;\nmov.b32 %w, 0;\n\
             {instruction};\nst.global.v4.b32 [%out], {{%x, %y, %z, %w}};\nret;\n}}\n"
        );
        let module = self.device.load(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let out = self.device.memory.allocate(16, true);
        let mut params = Params::default();
        params.push(&self.handle.to_le_bytes());
        params.push(&out.to_le_bytes());
        operands.iter().for_each(|o| params.push(&o.to_le_bytes()));
        let kernel = module.kernel("k").expect("the kernel");
        let ran = self.device.run(&kernel, Shape::linear(1, 4), &params.0);
        ran.map_err(|fault| format!("{:?}", fault.kind))?;
        let bytes = self.device.memory.read(out, 16);
        Ok([0, 4, 8, 12].map(|i| u32::from_le_bytes(bytes[i..i + 4].try_into().unwrap())))
    }

    fn floats(&mut self, instruction: &str, operands: [f32; 4]) -> [f32; 4] {
        self.run(instruction, operands.map(f32::to_bits)).expect("no fault").map(f32::from_bits)
    }
}

const TEX1: &str = "tex.1d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a}]";
const TEX2: &str = "tex.2d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]";
const TEX3: &str = "tex.3d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %d}]";

#[test]
fn texels_are_picked() {
    for set in ALL_SETS {
        let mut rig = Rig::new(set, object(), &numbers());
        assert_eq!(rig.floats(TEX2, [2.0, 1.0, 0.0, 0.0]), [12.0, 0.0, 0.0, 1.0]);
        assert_eq!(rig.floats(TEX2, [2.99, 1.99, 0.0, 0.0])[0], 12.0);
        assert_eq!(rig.floats(TEX1, [3.0, 9.0, 9.0, 9.0])[0], 3.0);
        assert_eq!(rig.floats(TEX3, [1.5, 2.5, 1.5, 0.0])[0], 121.0);
        // Beyond the edges.
        assert_eq!(rig.floats(TEX2, [-5.0, 7.0, 0.0, 0.0])[0], 20.0);
        let fetch = "tex.1d.v4.f32.s32 {%x, %y, %z, %w}, [%t, {%a}]";
        assert_eq!(f32::from_bits(rig.run(fetch, [2, 0, 0, 0]).unwrap()[0]), 2.0);
        let layer = "tex.a2d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b, %c, %d}]";
        let at = [1, 3f32.to_bits(), 2f32.to_bits(), 0];
        assert_eq!(f32::from_bits(rig.run(layer, at).unwrap()[0]), 123.0);
        // There is no layer 9: the last.
        let at = [9, 3f32.to_bits(), 2f32.to_bits(), 0];
        assert_eq!(f32::from_bits(rig.run(layer, at).unwrap()[0]), 123.0);
    }
}

#[test]
fn neighbours_are_blended() {
    for set in ALL_SETS {
        let mut rig = Rig::new(set, Descriptor { linear: true, ..object() }, &numbers());
        // At a centre, between two, between four, between eight.
        assert_eq!(rig.floats(TEX2, [2.5, 1.5, 0.0, 0.0])[0], 12.0);
        assert_eq!(rig.floats(TEX2, [2.75, 1.5, 0.0, 0.0])[0], 12.25);
        assert_eq!(rig.floats(TEX2, [2.0, 1.0, 0.0, 0.0])[0], 6.5);
        assert_eq!(rig.floats(TEX3, [2.0, 1.0, 1.0, 0.0])[0], 56.5);
        // Weights have 8 bits.
        assert_eq!(rig.floats(TEX2, [2.5 + 0.3, 1.5, 0.0, 0.0])[0], 12.0 + 77.0 / 256.0);
        // At the edge there is only the edge.
        assert_eq!(rig.floats(TEX2, [0.0, 0.0, 0.0, 0.0])[0], 0.0);
        let gather = "tld4.r.2d.v4.f32.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]";
        assert_eq!(rig.floats(gather, [2.0, 1.0, 0.0, 0.0]), [11.0, 12.0, 2.0, 1.0]);
    }
}

#[test]
fn coordinates_are_wrapped() {
    let set = ALL_SETS[0];
    let with = |mode, normalized| Descriptor { address: [mode; 3], normalized, ..object() };
    let at = |object: Descriptor, x: f32| {
        Rig::new(set, object, &numbers()).floats(TEX2, [x, 0.0, 0.0, 0.0])[0]
    };
    assert_eq!(at(with(AddressMode::Wrap, true), 1.25), 1.0);
    assert_eq!(at(with(AddressMode::Wrap, true), -0.25), 3.0);
    assert_eq!(at(with(AddressMode::Mirror, true), 1.25), 2.0);
    assert_eq!(at(with(AddressMode::Mirror, true), -0.25 + 0.125), 0.0);
    assert_eq!(at(with(AddressMode::Border, false), -1.0), -1.0);
    assert_eq!(at(with(AddressMode::Border, false), 4.0), -1.0);
    assert_eq!(at(with(AddressMode::Border, false), 3.5), 3.0);
    assert_eq!(at(with(AddressMode::Clamp, true), 5.0), 3.0);
    // Without normalized coordinates nothing repeats.
    assert_eq!(at(with(AddressMode::Wrap, false), 5.0), 3.0);
}

#[test]
fn integers_are_read_as_they_are_or_scaled() {
    let set = ALL_SETS[0];
    let texels = [0u8, 128, 255, 51];
    let bytes = Descriptor {
        width: 1,
        height: 1,
        depth: 1,
        texel: Texel::U8,
        channels: 4,
        row_bytes: 4,
        slice_bytes: 4,
        ..object()
    };
    let whole = "tex.2d.v4.u32.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]";
    assert_eq!(Rig::new(set, bytes, &texels).run(whole, [0; 4]).unwrap(), [0, 128, 255, 51]);
    let scaled = Descriptor { scaled: true, ..bytes };
    let got = Rig::new(set, scaled, &texels).floats(TEX2, [0.0; 4]);
    assert_eq!(got, [0.0, 128.0 / 255.0, 1.0, 0.2]);
    // What is no colour is linear already, and whole numbers are what they are.
    let colours = Descriptor { texel: Texel::Srgb8, ..scaled };
    for set in ALL_SETS {
        let got = Rig::new(set, colours, &texels).floats(TEX2, [0.0; 4]);
        assert_eq!((got[0], got[2], got[3]), (0.0, 1.0, 0.2));
        assert!((got[1] - 0.215_860_5).abs() < 1e-7, "{got:?}");
        assert_eq!(Rig::new(set, colours, &texels).run(whole, [0; 4]).unwrap(), [0, 128, 255, 51]);
    }
    let signed = Descriptor { texel: Texel::S8, ..bytes };
    let negative = "tex.2d.v4.s32.f32 {%x, %y, %z, %w}, [%t, {%a, %b}]";
    let got = Rig::new(set, signed, &texels).run(negative, [0; 4]).unwrap();
    assert_eq!(got.map(|x| x as i32), [0, -128, -1, 51]);
    let got = Rig::new(set, Descriptor { scaled: true, ..signed }, &texels).floats(TEX2, [0.0; 4]);
    assert_eq!(got[..3], [0.0, -1.0, -1.0 / 127.0]);
    let half = Descriptor { texel: Texel::F16, channels: 2, ..bytes };
    let texels = [0x00, 0x3c, 0x00, 0xc0];
    let got = Rig::new(set, half, &texels).floats(TEX2, [0.0; 4]);
    assert_eq!(got, [1.0, -2.0, 0.0, 1.0]);
}

#[test]
fn objects_are_asked() {
    let mut rig = Rig::new(ALL_SETS[0], object(), &numbers());
    for (what, answer) in [("width", 4), ("height", 3), ("depth", 2), ("normalized_coords", 0)] {
        let ask = format!("txq.{what}.b32 %x, [%t]");
        assert_eq!(rig.run(&ask, [0; 4]).unwrap()[0], answer, "{what}");
    }
    assert_eq!(rig.run("suq.height.b32 %x, [%t]", [0; 4]).unwrap()[0], 3);
}

#[test]
fn surfaces_are_read_and_written() {
    for set in ALL_SETS {
        let mut rig = Rig::new(set, object(), &numbers());
        let load = "suld.b.2d.v2.b32.trap {%x, %y}, [%t, {%a, %b}]";
        let got = rig.run(load, [8, 1, 0, 0]).unwrap();
        assert_eq!([f32::from_bits(got[0]), f32::from_bits(got[1])], [12.0, 13.0]);
        let store = "sust.b.3d.b32.trap [%t, {%a, %b, %c, %c}], %d";
        rig.run(store, [4, 2, 1, 77f32.to_bits()]).unwrap();
        let at = rig.texels + 48 + 2 * 16 + 4;
        assert_eq!(rig.device.memory.read(at, 4), 77f32.to_le_bytes());
        // Outside: a fault, the edge, or nothing.
        let fault = rig.run(load, [16, 1, 0, 0]).unwrap_err();
        assert!(fault.starts_with("IllegalAddress"), "{fault}");
        let clamp = "suld.b.2d.b32.clamp %x, [%t, {%a, %b}]";
        assert_eq!(f32::from_bits(rig.run(clamp, [400, 9, 0, 0]).unwrap()[0]), 23.0);
        let zero = "suld.b.2d.b32.zero %x, [%t, {%a, %b}]";
        assert_eq!(rig.run(zero, [400, 0, 0, 0]).unwrap()[0], 0);
        let before = rig.device.memory.read(rig.texels, 96);
        rig.run("sust.b.2d.b32.zero [%t, {%a, %b}], %c", [-4i32 as u32, 0, 5, 0]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels, 96), before);
        let layer = "suld.b.a2d.b32.trap %x, [%t, {%a, %b, %c, %c}]";
        assert_eq!(f32::from_bits(rig.run(layer, [1, 12, 0, 0]).unwrap()[0]), 103.0);
    }
}

/// A handle that is none, and an object that lies about its memory, reach nothing.
#[test]
fn forged_objects_fault() {
    let mut rig = Rig::new(ALL_SETS[0], object(), &numbers());
    rig.handle = rig.texels;
    assert!(rig.run(TEX2, [0; 4]).unwrap_err().starts_with("IllegalAddress"));
    rig.handle = 0;
    assert!(rig.run(TEX2, [0; 4]).unwrap_err().starts_with("IllegalAddress"));
    let far = Descriptor { width: 1 << 20, ..object() };
    let mut rig = Rig::new(ALL_SETS[0], far, &numbers());
    let fault = rig.run(TEX2, [1e6f32.to_bits(), 0, 0, 0]).unwrap_err();
    assert!(fault.starts_with("IllegalAddress"), "{fault}");
}

#[test]
fn surfaces_are_stored_in_their_format() {
    for set in ALL_SETS {
        let bytes = Descriptor {
            width: 2,
            height: 2,
            depth: 1,
            texel: Texel::U8,
            channels: 4,
            row_bytes: 8,
            slice_bytes: 16,
            ..object()
        };
        let store = "sust.p.2d.v4.b32.trap [%t, {%a, %b}], {%c, %d, %d, %c}";
        let mut rig = Rig::new(set, bytes, &[9; 16]);
        rig.run(store, [1, 1, 300, 7]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels + 8, 8), [9, 9, 9, 9, 255, 7, 7, 255]);
        assert!(rig.run(store, [2, 1, 0, 0]).unwrap_err().starts_with("IllegalAddress"));
        let mut rig = Rig::new(set, Descriptor { texel: Texel::S8, ..bytes }, &[9; 16]);
        rig.run(store, [0, 0, -300i32 as u32, 200]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels, 4), [0x80, 127, 127, 0x80]);
        let halves = Descriptor { texel: Texel::F16, channels: 2, ..bytes };
        let mut rig = Rig::new(set, halves, &[9; 16]);
        rig.run(store, [1, 0, 1f32.to_bits(), (-2f32).to_bits()]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels + 4, 8), [0, 0x3c, 0, 0xc0, 9, 9, 9, 9]);
        let zero = "sust.p.2d.b32.zero [%t, {%a, %b}], {%c}";
        rig.run(zero, [-1i32 as u32, 0, 0, 0]).unwrap();
        rig.run("sust.p.2d.b32.clamp [%t, {%a, %b}], {%c}", [5, 5, 1f32.to_bits(), 0]).unwrap();
        let got = rig.device.memory.read(rig.texels, 16);
        assert_eq!(got, [9, 9, 9, 9, 0, 0x3c, 0, 0xc0, 9, 9, 9, 9, 0, 0x3c, 9, 9]);
    }
}

#[test]
fn surfaces_are_reduced() {
    for set in ALL_SETS {
        let words = Descriptor { texel: Texel::S32, ..object() };
        let numbers: Vec<u8> = (0..24i32).flat_map(|i| (i - 12).to_le_bytes()).collect();
        let mut rig = Rig::new(set, words, &numbers);
        let mut check = |form: &str, [a, b, c, d]: [i32; 4], at: u64, expected: i64| {
            let bytes = if form.contains("64") { 8 } else { 4 };
            let value = match bytes {
                8 => "%l",
                _ => "%c",
            };
            let text =
                format!(".reg .b64 %l; mov.b64 %l, {{%c, %d}}; {form} [%t, {{%a, %b}}], {value}");
            rig.run(&text, [a, b, c, d].map(|x| x as u32))
                .unwrap_or_else(|e| panic!("{form}: {e}"));
            let got = rig.device.memory.read(rig.texels + at, bytes);
            assert_eq!(got, expected.to_le_bytes()[..bytes], "{form} ({set:?})");
        };
        // By bytes: rows of 16.
        check("sured.b.add.2d.u32.trap", [4, 0, 5, 0], 4, -6);
        check("sured.b.min.2d.s32.trap", [4, 0, -7, 0], 4, -7);
        check("sured.b.max.2d.u32.trap", [4, 0, 3, 0], 4, -7);
        check("sured.b.max.2d.s32.trap", [4, 0, 3, 0], 4, 3);
        check("sured.b.and.2d.b32.trap", [4, 0, 2, 0], 4, 2);
        check("sured.b.or.2d.b32.trap", [4, 0, 5, 0], 4, 7);
        check("sured.b.add.2d.u64.trap", [8, 1, 6, 0], 24, -4 << 32);
        // By texels; the format says how they compare.
        check("sured.p.min.2d.b32.trap", [3, 1, 4, 0], 28, -4);
        check("sured.p.max.2d.b32.trap", [3, 1, 4, 0], 28, 4);
        check("sured.p.add.2d.b32.trap", [3, 1, 4, 0], 28, 8);
        // Outside: nothing, or the edge.
        check("sured.p.add.2d.b32.zero", [4, 1, 4, 0], 28, 8);
        check("sured.b.add.2d.u32.clamp", [400, 1, 1, 0], 28, 9);
        let unsigned = Descriptor { texel: Texel::U32, ..object() };
        let mut rig = Rig::new(set, unsigned, &numbers);
        rig.run("sured.p.min.2d.b32.trap [%t, {%a, %b}], %c", [0, 0, 4, 0]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels, 4), 4i32.to_le_bytes());
        let outside = rig.run("sured.b.add.2d.u32.trap [%t, {%a, %b}], %c", [16, 0, 4, 0]);
        assert!(outside.unwrap_err().starts_with("IllegalAddress"));
        // Where the guard does not hold, nothing happens.
        let guarded = ".reg .pred %no; setp.ne.u32 %no, %a, %a; \
                       @%no sured.p.add.2d.b32.trap [%t, {%a, %b}], %c";
        rig.run(guarded, [0, 0, 4, 0]).unwrap();
        assert_eq!(rig.device.memory.read(rig.texels, 4), 4i32.to_le_bytes());
    }
}
