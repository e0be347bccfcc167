//! Kernels of some instructions: registers and memory start with random values and end in the output.

use super::forms::Case;
use super::registers::{KINDS, Register, is_uniform, name, registers};
use ptx::examples::{self, TARGETS};
use ptx_reference::Random;
use std::collections::BTreeSet;

/// Threads of a block: two warps.
pub(super) const THREADS: u32 = 64;
/// Bytes a thread has of each register's values.
pub(super) const CELL: usize = 16;
/// Registers' values in the input, at most.
pub(super) const SLOTS: usize = 256;
pub(super) const INPUT_BYTES: usize = SLOTS * THREADS as usize * CELL;
/// Memory that instructions access.
pub(super) const MEM_BYTES: usize = 64 << 10;
/// Results a thread: of registers and of memory.
pub(super) const RESULTS: usize = 224;
pub(super) const OUTPUT_BYTES: usize = RESULTS * THREADS as usize * CELL;

pub(super) const DECLARED: &str = ".reg .b64 %in, %inl, %out, %mem, %ga<20>; .reg .b32 %sa<20>, %k<8>, %t0; .reg .pred %pq; \
    .reg .b32 %v<4>; .reg .b16 %n0; .reg .b8 %m0; .shared .align 128 .b8 tile[8192]; \
    .local .align 128 .b8 own[256]";

/// Registers of addresses and what makes them, of thread `%t0`.
const ADDRESSES: &[(&str, &str)] = &[
    // In global memory: scattered, the same, at two strides, one behind the other as a table says.
    ("%ga1", "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mad.wide.u32 %ga1, %k0, 64, %mem"),
    ("%ga2", "mov.b64 %ga2, %mem"),
    ("%ga3", "mad.wide.u32 %ga3, %t0, 16, %mem"),
    ("%ga4", "mad.wide.u32 %ga4, %t0, 4, %mem"),
    (
        "%ga5",
        "ld.global.u32 %k0, [%in+8]; and.b32 %k0, %k0, 0; mad.lo.u32 %k0, %t0, 16, %k0; \
              cvt.u64.u32 %ga5, %k0; add.u64 %ga5, %mem, %ga5",
    ),
    // In shared memory, as numbers of 64 bits and of 32.
    (
        "%ga6",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u64 %ga6, tile; mad.wide.u32 %ga6, %k0, 16, %ga6",
    ),
    ("%ga7", "mov.u64 %ga7, tile"),
    ("%ga8", "mov.u64 %ga8, tile; mad.wide.u32 %ga8, %t0, 16, %ga8"),
    ("%ga9", "mov.u64 %ga9, tile; mad.wide.u32 %ga9, %t0, 4, %ga9"),
    (
        "%sa1",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u32 %sa1, tile; mad.lo.u32 %sa1, %k0, 16, %sa1",
    ),
    ("%sa2", "mov.u32 %sa2, tile"),
    ("%sa3", "mov.u32 %sa3, tile; mad.lo.u32 %sa3, %t0, 16, %sa3"),
    ("%sa4", "mov.u32 %sa4, tile; mad.lo.u32 %sa4, %t0, 4, %sa4"),
    // mbarriers.
    ("%sa7", "mov.u32 %sa7, tile; mad.lo.u32 %sa7, %t0, 16, %sa7; add.u32 %sa7, %sa7, 4096"),
    (
        "%ga17",
        "mov.u64 %ga17, tile; mad.wide.u32 %ga17, %t0, 16, %ga17; add.u64 %ga17, %ga17, 4096",
    ),
    // In local and constant memory.
    ("%ga10", "mov.u64 %ga10, own"),
    ("%sa5", "mov.u32 %sa5, own"),
    ("%ga11", "and.b32 %k0, %t0, 1; mov.u64 %ga11, own; mad.wide.u32 %ga11, %k0, 32, %ga11"),
    ("%ga12", "and.b32 %k0, %t0, 1; mov.u64 %ga12, const_data; mad.wide.u32 %ga12, %k0, 32, %ga12"),
    ("%ga13", "mov.u64 %ga13, const_data"),
    // Generic ones of shared and of local memory.
    (
        "%ga14",
        "mul.lo.u32 %k0, %t0, 5; and.b32 %k0, %k0, 63; mov.u64 %ga14, tile; \
               mad.wide.u32 %ga14, %k0, 16, %ga14; cvta.shared.u64 %ga14, %ga14",
    ),
    ("%ga15", "mov.u64 %ga15, own; cvta.local.u64 %ga15, %ga15"),
];

/// How warps run a kernel's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Full,
    /// By a guard that is true.
    Guarded,
    /// By a guard that is true in some lanes.
    Partial,
    /// In a branch that some lanes take.
    Branch,
}

pub(super) const MODES: [Mode; 4] = [Mode::Full, Mode::Guarded, Mode::Partial, Mode::Branch];

/// The instructions of a kernel under construction.
struct Body {
    lines: Vec<String>,
    /// Results a thread so far.
    results: usize,
}

impl Body {
    fn push(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Where results are, and what shared and local memory hold.
    fn start(&mut self) {
        for line in [
            "ld.param.u64 %in, [param_data+40]",
            "ld.param.u64 %out, [param_data+48]",
            "ld.param.u64 %mem, [param_data+56]",
            "mov.u32 %t0, %tid.x",
            "mad.wide.u32 %inl, %t0, 16, %in",
            "mad.wide.u32 %out, %t0, 16, %out",
            "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%inl+3072]",
            "mov.u32 %k1, tile",
            "mad.lo.u32 %k1, %t0, 16, %k1",
        ] {
            self.push(line);
        }
        for row in 0..4 {
            self.push(format!("st.shared.v4.b32 [%k1+{}], {{%v0, %v1, %v2, %v3}}", 1024 * row));
        }
        for row in 0..4 {
            self.push(format!("st.local.v4.b32 [own+{}], {{%v1, %v2, %v3, %v0}}", 16 * row));
            self.push(format!("st.local.v4.b32 [local_data+{}], {{%v2, %v3, %v0, %v1}}", 16 * row));
        }
        self.push("bar.sync 0");
        self.push("ld.global.u32 %k2, [%inl+2048]; and.b32 %k2, %k2, 1; setp.ne.u32 %pq, %k2, 0");
    }

    /// Gives a register its value.
    fn load(&mut self, register: Register) {
        let ((kind, number), name) = (register, name(register));
        let ty = KINDS[kind].2;
        let slot = (kind * 37 + number) % SLOTS * THREADS as usize * CELL;
        let base = if is_uniform(register) { "%in" } else { "%inl" };
        self.push(match ty {
            "pred" if number == 7 => format!("setp.eq.u32 {name}, %k2, %k2"),
            "pred" => format!(
                "ld.global.u32 %k3, [{base}+{slot}]; and.b32 %k3, %k3, 4; setp.ne.u32 {name}, %k3, 0"
            ),
            "b32" if (30..40).contains(&number) => {
                // Integer arithmetic takes no register of type .f32.
                match KINDS[kind].0 {
                    "%f" => format!("mad.lo.u32 %k4, %t0, 4, 96; mov.b32 {name}, %k4"),
                    _ => format!("mad.lo.u32 {name}, %t0, 4, 96"),
                }
            }
            "b64" if number >= 30 && KINDS[kind].0 != "%e" => format!("mul.wide.u32 {name}, %t0, 8"),
            _ => format!("ld.global.{ty} {name}, [{base}+{slot}]"),
        });
    }

    /// Makes a register's value a result.
    fn save(&mut self, register: Register) {
        let at = self.results * THREADS as usize * CELL;
        self.results += 1;
        let name = name(register);
        self.push(match KINDS[register.0].2 {
            "pred" => format!("selp.u32 %k5, 1, 0, {name}; st.global.b32 [%out+{at}], %k5"),
            ty => format!("st.global.{ty} [%out+{at}], {name}"),
        });
    }

    /// Makes what memory holds results, behind those of registers.
    fn save_memory(&mut self) {
        let mut at = (RESULTS - 24) * THREADS as usize * CELL;
        let mut keep = |body: &mut Self, space: &str, address: String| {
            body.push(format!("ld.{space}.v4.b32 {{%v0, %v1, %v2, %v3}}, [{address}]"));
            body.push(format!("st.global.v4.b32 [%out+{at}], {{%v0, %v1, %v2, %v3}}"));
            at += THREADS as usize * CELL;
        };
        (0..6).for_each(|row| keep(self, "shared", format!("%k1+{}", 1024 * row)));
        (0..4).for_each(|row| keep(self, "local", format!("own+{}", 16 * row)));
        (0..4).for_each(|row| keep(self, "local", format!("local_data+{}", 16 * row)));
        self.push("and.b32 %k0, %t0, 15; mov.u32 %k1, shared_data; mad.lo.u32 %k1, %k0, 16, %k1");
        (0..4).for_each(|row| keep(self, "shared", format!("%k1+{}", 256 * row)));
        self.push("mov.u64 %ga0, global_data; mad.wide.u32 %ga0, %k0, 16, %ga0");
        keep(self, "global", "%ga0".to_owned());
    }
}

/// A kernel of some instructions.
pub(super) fn text(cases: &[Case], mode: Mode) -> String {
    let mut body = Body { lines: vec![DECLARED.to_owned()], results: 0 };
    let all: Vec<&str> = cases
        .iter()
        .flat_map(|case| case.before.iter().map(String::as_str).chain([case.text.as_str()]))
        .collect();
    let used: BTreeSet<Register> = all.iter().flat_map(|text| registers(text)).collect();
    if mode == Mode::Guarded && !used.iter().any(|r| name(*r) == "%p7") {
        body.push("setp.eq.u32 %p7, %k7, %k7");
    }
    body.start();
    let named = |register: &str| {
        all.iter().any(|text| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '%').any(|w| w == register)
        })
    };
    for (_, made) in ADDRESSES.iter().filter(|(register, _)| named(register)) {
        body.push(*made);
    }
    used.iter().for_each(|register| body.load(*register));
    if mode == Mode::Branch {
        body.push("@!%pq bra BEHIND");
    }
    let guard = match mode {
        Mode::Guarded => "@%p7 ",
        Mode::Partial => "@%pq ",
        Mode::Full | Mode::Branch => "",
    };
    for (at, case) in cases.iter().enumerate() {
        // Lanes may run in any order between barriers.
        if mode != Mode::Branch && cases[..at].iter().any(|other| case.conflicts(other)) {
            body.push("bar.sync 0");
        }
        case.before.iter().for_each(|line| body.push(line.as_str()));
        body.push(format!("{guard}{}", case.text));
        registers(&case.first).into_iter().take(8).for_each(|register| body.save(register));
    }
    if mode == Mode::Branch {
        body.push("BEHIND: bar.warp.sync -1");
    }
    used.iter().take(RESULTS / 2).for_each(|register| body.save(*register));
    body.push("bar.sync 0");
    body.save_memory();
    let (version, target) = TARGETS[cases[0].target];
    examples::module(version, target, &body.lines)
}

/// What lanes start with.
pub(super) fn input(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let cells = (0..INPUT_BYTES / 8).map(|_| match random.below(5) {
        0 => random.below(64) | random.below(64) << 32,
        1 => random.integer(),
        // Floats around one, two at a time.
        2 | 3 => (random.bits() & 0x80ff_ffff_80ff_ffff) | 0x3f00_0000_3f00_0000,
        _ => random.bits(),
    });
    cells.flat_map(u64::to_le_bytes).collect()
}

/// What memory holds.
pub(super) fn memory(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed ^ 0x55aa);
    (0..MEM_BYTES / 8).flat_map(|_| (random.integer() ^ random.below(9)).to_le_bytes()).collect()
}
