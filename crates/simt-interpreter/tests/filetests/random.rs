//! Random programs, held against an interpreter that is obviously right (crate `ptx-reference`).
//!
//! `OPENMPS_FUZZ_ROUNDS` says how many programs, `OPENMPS_FUZZ_SEED` from which seed on, and
//! `OPENMPS_FUZZ_TIERS=all` that each runs on all tiers.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use ptx_reference::differential::{Runner, Runners};
use ptx_reference::{Argument, Buffer, Launch, Random, differential};
use simt::kernel::Dim3;
use std::fmt::Write;

fn dim([x, y, z]: [u32; 3]) -> Dim3 {
    Dim3 { x, y, z }
}

fn run(
    set: Set,
    checked: bool,
    text: &str,
    launch: &Launch,
    buffers: &mut [Buffer],
) -> Result<(), String> {
    let mut device = if checked { Device::checking(set) } else { Device::new(set) };
    let module = device.load(text).map_err(|e| e.to_string())?;
    let kernel = module.kernel(&launch.kernel).ok_or("no kernel")?;
    let addresses: Vec<u64> = buffers
        .iter()
        .map(|bytes| {
            let address = device.memory.allocate(bytes.len() as u64, true);
            device.memory.write(address, bytes);
            address
        })
        .collect();
    let mut params = Params::default();
    for argument in &launch.arguments {
        match argument {
            Argument::Buffer(index) => params.push(&addresses[*index].to_le_bytes()),
            Argument::Value(bytes) => params.push(bytes),
        }
    }
    let shape = Shape {
        grid: dim(launch.grid),
        block: dim(launch.block),
        cluster: None,
        shared: launch.shared_bytes,
    };
    device.run(&kernel, shape, &params.0).map_err(|fault| format!("{fault:?}"))?;
    // Random programs have no races and read nothing that was not written.
    if let Some(finding) = device.findings.iter().flat_map(|f| f.lock().unwrap().clone()).next() {
        return Err(finding);
    }
    for (bytes, address) in buffers.iter_mut().zip(addresses) {
        *bytes = device.memory.read(address, bytes.len());
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// How many random programs: more when asked.
pub(crate) fn rounds(default: u64) -> u64 {
    number("OPENMPS_FUZZ_ROUNDS").unwrap_or(default)
}

/// Runs programs on a tier.
fn tier(set: Set, checked: bool) -> impl Fn(&str, &Launch, &mut Vec<Buffer>) -> Result<(), String> {
    move |text, launch, buffers| run(set, checked, text, launch, buffers)
}

/// Programs that differed once: for a vote among lanes that left a loop at different times, for a
/// NaN whose bits were looked at, and for a value that lanes took out of a loop others ran on in.
const ONCE_WRONG: [u64; 4] = [6330, 5990, 71480, 93001889];

#[test]
fn random_programs_that_were_wrong_once_stay_right() {
    for seed in ONCE_WRONG {
        for set in ALL_SETS {
            differential::check(seed, &[(&format!("{set:?}"), &tier(set, false))]);
        }
    }
}

/// Checks the programs of seeds, each on one of the tiers in turn: more programs say more than the same one again.
/// `OPENMPS_FUZZ_TIERS=all` runs each on all of them.
fn check_in_turn(default: u64, check: impl Fn(u64, &Runners<'_>)) {
    let all = std::env::var("OPENMPS_FUZZ_TIERS").is_ok_and(|tiers| tiers == "all");
    let first = number("OPENMPS_FUZZ_SEED").unwrap_or(0);
    for seed in first..first + rounds(default) {
        let checked = !all && seed % 8 == 7;
        let turn = seed as usize % ALL_SETS.len();
        let sets = if all { &ALL_SETS[..] } else { &ALL_SETS[turn..=turn] };
        let name = |set| format!("{set:?}{}", if checked { ", checking" } else { "" });
        let tiers: Vec<_> = sets.iter().map(|set| (name(*set), tier(*set, checked))).collect();
        let runners: Vec<_> = tiers.iter().map(|(n, t)| (n.as_str(), t as &Runner<'_>)).collect();
        check(seed, &runners);
    }
}

#[test]
fn random_programs_give_what_ptx_means() {
    check_in_turn(2000, differential::check);
}

/// Programs in which threads wait for each other: barriers, locks, mbarriers, flags.
#[test]
fn random_programs_that_synchronise_give_the_same_in_any_order() {
    check_in_turn(150, differential::check_synchronising);
}

/// Forms of ISA 9 on numbers: `$d` is the result of 64 bits, `$r` of 32, `$h` of 16; `%d`, `%r`,
/// `%f` and `%h` are sources. The random programs above stay what other devices can run.
const NEW_FORMS: &[&str] = &[
    "add.u8x4 $r, %r1, %r2",
    "add.s8x4 $r, %r1, %r2",
    "add.sat.u8x4 $r, %r1, %r2",
    "add.sat.s8x4 $r, %r1, %r2",
    "add.sat.u16x2 $r, %r1, %r2",
    "add.sat.s16x2 $r, %r1, %r2",
    "add.sat.u32 $r, %r1, %r2",
    "sub.u8x4 $r, %r1, %r2",
    "sub.s8x4 $r, %r1, %r2",
    "sub.sat.u8x4 $r, %r1, %r2",
    "sub.sat.s8x4 $r, %r1, %r2",
    "neg.s8x4 $r, %r1",
    "min.u8x4 $r, %r1, %r2",
    "min.s8x4 $r, %r1, %r2",
    "min.relu.s8x4 $r, %r1, %r2",
    "max.u8x4 $r, %r1, %r2",
    "max.s8x4 $r, %r1, %r2",
    "max.relu.s8x4 $r, %r1, %r2",
    "clmad.lo.u64 $d, %d1, %d2, %d3",
    "clmad.hi.u64 $d, %d1, %d2, %d3",
    "cvt.rn.satfinite.s2f6x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.relu.s2f6x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32 $h, %f1, %f2, %h1",
    "cvt.rn.satfinite.s2f6x2.bf16x2 $h, %r1",
    "cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.bf16x2 $h, %r1, %h1",
    "cvt.rn.bf16x2.s2f6x2 $r, %h2",
    "cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2 $r, %h2, %h1",
    "cvt.rn.relu.scaled::n2::ue8m0.bf16x2.s2f6x2 $r, %h2, %h1",
    "cvt.rn.satfinite.e4m3x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.relu.e4m3x2.bf16x2 $h, %r1",
    "cvt.rn.f16x2.e4m3x2 $r, %h2",
    "cvt.rn.satfinite.e5m2x2.f16x2 $h, %r1",
    "cvt.rn.bf16x2.e5m2x2 $r, %h2",
    "cvt.rn.satfinite.e2m3x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.relu.e2m3x2.f16x2 $h, %r1",
    "cvt.rn.relu.f16x2.e2m3x2 $r, %h2",
    "cvt.rn.satfinite.e3m2x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.e3m2x2.bf16x2 $h, %r1",
    "cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.e3m2x2 $r, %h2, %h1",
    "cvt.rn.satfinite.e2m1x2.f32 %c, %f1, %f2; cvt.u16.u8 $h, %c",
    "cvt.rn.satfinite.relu.e2m1x2.bf16x2 %c, %r1; cvt.u16.u8 $h, %c",
    "cvt.u8.u16 %c, %h2; cvt.rn.f16x2.e2m1x2 $r, %c",
    "cvt.u8.u16 %c, %h2; cvt.rn.relu.scaled::n2::ue8m0.bf16x2.e2m1x2 $r, %c, %h1",
    "cvt.rz.ue8m0x2.f32 $h, %f1, %f2",
    "cvt.rp.ue8m0x2.f32 $h, %f1, %f2",
    "cvt.rz.satfinite.ue8m0x2.bf16x2 $h, %r1",
    "cvt.rp.satfinite.ue8m0x2.bf16x2 $h, %r1",
    "cvt.rn.bf16x2.ue8m0x2 $r, %h2",
    "cvt.rn.ftz.bf16.f32 $h, %f1",
    "cvt.rp.ftz.bf16.f32 $h, %f2",
];

/// Forms of ISA 9.4, in the same way.
const NEWER_FORMS: &[&str] = &[
    "set.lt.s8x4 $r, %r1, %r2",
    "set.hs.u8x4 $r, %r1, %r2",
    "set.ne.u16x2 $r, %r1, %r2",
    "set.le.s16x2 $r, %r1, %r2",
    "cvt.rn.ue5m3x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.ue5m3x2.f16x2 $h, %r1",
    "cvt.rz.ue5m3x2.bf16x2 $h, %r1",
    "cvt.rp.ue5m3x2.f32 $h, %f1, %f2",
    "cvt.rp.satfinite.ue5m3x2.bf16x2 $h, %r1",
    "cvt.rn.f16x2.ue5m3x2 $r, %h2",
    "cvt.rn.satfinite.bf16x2.ue5m3x2 $r, %h2",
    "cvt.rn.scaled::n2::ue8m0.bf16x2.ue5m3x2 $r, %h2, %h1",
    "cvt.rz.satfinite.relu.e4m3x2.f32 $h, %f1, %f2",
    "cvt.rz.satfinite.e2m3x2.f16x2 $h, %r1",
    "cvt.rz.satfinite.e3m2x2.f32 $h, %f1, %f2",
    "cvt.rz.satfinite.e2m1x2.bf16x2 %c, %r1; cvt.u16.u8 $h, %c",
    "cvt.u8.u16 %c, %h1; cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 $h, %f1, %f2, %c",
    "cvt.u8.u16 %c, %h1; cvt.rz.satfinite.relu.pzo.scaled::n1::ue8m0.e5m2x2.f16x2 $h, %r1, %c",
    "cvt.u8.u16 %c, %h1; cvt.rn.satfinite.pzo.scaled::n1::ue8m0.e3m2x2.bf16x2 $h, %r1, %c",
    "cvt.u8.u16 %c, %h1; cvt.rn.scaled::n1::ue8m0.ue5m3x2.f32 $h, %f1, %f2, %c",
    "cvt.u8.u16 %c, %h1; cvt.rz.satfinite.scaled::n1::ue8m0.ue5m3x2.bf16x2 $h, %r1, %c",
    "cvt.rn.satfinite.pzo.e2m3x2.f32 $h, %f1, %f2",
    "cvt.rn.satfinite.pzo.e2m1x2.f32 %c, %f1, %f2; cvt.u16.u8 $h, %c",
    "cvt.rm.pzo.f16.f32 $h, %f1",
    "cvt.rz.relu.pzo.bf16.f32 $h, %f2",
    "cvt.rn.pzo.bf16x2.f32 $r, %f1, %f2",
];

/// Roundings by random bits, in the same way.
const FORMS_AT_RANDOM: &[&str] = &[
    "cvt.rs.f16x2.f32 $r, %f1, %f2, %r1",
    "cvt.rs.relu.satfinite.f16x2.f32 $r, %f2, %f1, %r2",
    "cvt.rs.bf16x2.f32 $r, %f1, %f2, %r1",
    "cvt.rs.satfinite.bf16x2.f32 $r, %f2, %f1, %r2",
    "cvt.rs.satfinite.e4m3x4.f32 $r, {%f1, %f2, %f2, %f1}, %r1",
    "cvt.rs.relu.satfinite.e5m2x4.f32 $r, {%f1, %f2, %f2, %f1}, %r2",
    "cvt.rs.satfinite.e2m3x4.f32 $r, {%f1, %f2, %f2, %f1}, %r1",
    "cvt.rs.relu.satfinite.e3m2x4.f32 $r, {%f2, %f2, %f1, %f1}, %r2",
    "cvt.rs.satfinite.e2m1x4.f32 $h, {%f1, %f2, %f2, %f1}, %r1",
];

/// Each thread takes three words and gives one for each form.
#[test]
fn new_forms_give_what_ptx_means() {
    compare_forms("9.3", "sm_120a", NEW_FORMS);
    compare_forms("9.4", "sm_107a", NEWER_FORMS);
    compare_forms("8.7", "sm_100a", FORMS_AT_RANDOM);
}

fn compare_forms(version: &str, target: &str, forms: &[&str]) {
    const THREADS: usize = 256;
    let mut body = String::new();
    for (at, form) in forms.iter().enumerate() {
        let form = form.replace("$d", "%o").replace("$r", "%q").replace("$h", "%s");
        let bits = [("%o,", 64), ("%q,", 32), ("%s,", 16)];
        let (result, bits) = bits.into_iter().find(|(name, _)| form.contains(name)).unwrap();
        let result = result.trim_end_matches(',');
        writeln!(body, "{form}; st.global.b{bits} [%to+{}], {result};", 8 * at).unwrap();
    }
    let row = 8 * forms.len();
    let text = format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .b64 %d<4>, %o, %to, %from; .reg .b32 %r<3>, %q, %t; .reg .f32 %f<3>;\n\
         .reg .b16 %h<3>, %s; .reg .b8 %c;\n\
         ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x;\n\
         mad.wide.u32 %from, %t, 24, %from; mad.wide.u32 %to, %t, {row}, %to;\n\
         ld.global.b64 %d1, [%from]; ld.global.b64 %d2, [%from+8]; ld.global.b64 %d3, [%from+16];\n\
         mov.b64 {{%r1, %r2}}, %d1; mov.b64 {{%f1, %f2}}, %d2; cvt.u16.u64 %h1, %d3;\n\
         cvt.u16.u64 %h2, %d1;\n{body}ret; }}\n"
    );
    let launch = Launch {
        kernel: "k".to_owned(),
        grid: [1; 3],
        block: [THREADS as u32, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Buffer(0), Argument::Buffer(1)],
    };
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let input: Vec<u8> = (0..THREADS)
            .flat_map(|_| {
                // Floats near what fixed point holds, and scales near one, half of the time.
                let mut float = || match random.one_in(2) {
                    true => random.bits() as u32,
                    false => (random.bits() as u32 & 0x87ff_ffff) | 0x3800_0000,
                };
                let floats = u64::from(float()) << 32 | u64::from(float());
                let scale = if random.one_in(2) { 0x7f7f + random.below(8) * 0x101 } else { 0 };
                let third = if scale == 0 { random.bits() } else { scale };
                [random.integer() ^ random.bits(), floats, third]
            })
            .flat_map(u64::to_le_bytes)
            .collect();
        let buffers = [input, vec![0; THREADS * row]];
        for set in ALL_SETS {
            let runner = tier(set, false);
            let name = format!("{set:?}");
            let compared =
                differential::compare_text(&text, &launch, &buffers, &[(&name, &runner)]);
            // Of the second buffer's rows each word is of the form of its place.
            compared.unwrap_or_else(|e| panic!("seed {seed}, rows of {row} bytes: {e}\n{text}"));
        }
    }
}
