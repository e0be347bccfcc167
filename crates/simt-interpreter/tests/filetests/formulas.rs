//! Random kernels of index arithmetic, the same threads once as lanes whose numbers the compiler
//! knows and once as lanes of which it knows nothing.
//!
//! A block of 1 x N threads has the same threads in the same order as one of N x 1; only in the
//! second do the compiler's rules for values that grow from lane to lane apply. Programs compute
//! their thread's number from `%tid` and `%ntid` so that it is the same in both.

use super::harness::{Device, Params, Shape};
use super::random::rounds;
use super::tiers::{ALL_SETS, ALWAYS, Set};
use ptx_reference::Random;
use simt::inspect::{Stage, dump};
use simt::kernel::Dim3;
use simt::launch_shape::LaunchShape;

/// Bytes of results of one thread.
const RESULT_BYTES: u64 = 32;
/// Words of the table that programs read.
const TABLE_WORDS: u32 = 256;

/// A program on its way.
struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Registers that have a value here: of 32 and of 64 bits, each written once.
    narrow: Vec<String>,
    wide: Vec<String>,
    registers: u32,
    labels: u32,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn register(&mut self, kind: &str) -> String {
        let name = format!("%{kind}{}", self.registers);
        self.registers += 1;
        let ty = match kind {
            "a" => "b32",
            "d" => "b64",
            _ => "pred",
        };
        self.line(&format!(".reg .{ty} {name};"));
        name
    }

    fn narrow(&mut self) -> String {
        self.random.pick(&self.narrow).clone()
    }

    fn wide(&mut self) -> String {
        self.random.pick(&self.wide).clone()
    }

    /// Numbers that make values wrap, or not.
    fn constant(&mut self) -> u32 {
        match self.random.below(6) {
            0 => 0x7fff_ffe0 + self.random.below(64) as u32,
            1 => 0xffff_ffe0 + self.random.below(32) as u32,
            2 => 32 << self.random.below(6),
            3 => 0u32.wrapping_sub(self.random.below(9) as u32),
            _ => self.random.below(40) as u32,
        }
    }

    fn mask(&mut self) -> u32 {
        match self.random.below(3) {
            0 => (1 << self.random.below(9)) - 1,
            1 => !((1 << self.random.below(9)) - 1),
            _ => ((1 << self.random.below(9)) - 1) << self.random.below(9),
        }
    }

    fn arithmetic(&mut self) {
        let (a, b) = (self.narrow(), self.narrow());
        let (c, k, m) = (self.constant(), self.random.below(8), self.mask());
        let d = self.register("a");
        let text = match self.random.below(16) {
            0 => format!("add.u32 {d}, {a}, {b};"),
            1 => format!("sub.s32 {d}, {a}, {b};"),
            2 => format!("add.s32 {d}, {a}, {};", c as i32),
            3 => format!("sub.u32 {d}, {}, {a};", c as i32),
            4 => format!("mul.lo.s32 {d}, {a}, {};", self.random.below(9) as i32 - 4),
            5 => format!("mad.lo.s32 {d}, {a}, {}, {b};", self.random.below(9) as i32 - 4),
            6 => format!("shl.b32 {d}, {a}, {k};"),
            7 => format!("shr.u32 {d}, {a}, {k};"),
            8 => format!("shr.s32 {d}, {a}, {k};"),
            9 => format!("and.b32 {d}, {a}, {};", m as i32),
            10 => format!("or.b32 {d}, {a}, {};", m as i32),
            11 => format!("xor.b32 {d}, {a}, {};", m as i32),
            12 => format!("not.b32 {d}, {a};"),
            13 => format!("neg.s32 {d}, {a};"),
            14 => format!("cvt.{}.u32 {d}, {a};", ["u16", "s8", "u8"][k as usize % 3]),
            _ => {
                let wide = self.wide();
                format!("cvt.u32.u64 {d}, {wide};")
            }
        };
        self.line(&text);
        self.narrow.push(d);
    }

    fn widening(&mut self) {
        let (a, w) = (self.narrow(), self.wide());
        let factor = self.random.below(9) as i32 - 2;
        let sign = *self.random.pick(&["s", "u"]);
        let d = self.register("d");
        let text = match self.random.below(7) {
            0 => format!("cvt.{sign}64.{sign}32 {d}, {a};"),
            1 | 2 => format!("mul.wide.{sign}32 {d}, {a}, {factor};"),
            3 => format!("mad.wide.{sign}32 {d}, {a}, {}, {w};", factor.unsigned_abs()),
            4 => format!("add.s64 {d}, {w}, {factor};"),
            5 => format!("shl.b64 {d}, {w}, {};", factor.unsigned_abs()),
            _ => format!("sub.s64 {d}, {w}, {};", self.wide()),
        };
        self.line(&text);
        self.wide.push(d);
    }

    fn predicate(&mut self) -> String {
        let p = self.register("p");
        let compare = *self.random.pick(&["lt", "le", "gt", "ge", "eq", "ne"]);
        let sign = *self.random.pick(&["s", "u"]);
        let text = match self.random.below(3) {
            0 => {
                let (a, b) = (self.narrow(), self.narrow());
                format!("setp.{compare}.{sign}32 {p}, {a}, {b};")
            }
            1 => {
                let (a, c) = (self.narrow(), self.constant());
                format!("setp.{compare}.{sign}32 {p}, {a}, {};", c as i32)
            }
            _ => {
                let (a, b) = (self.wide(), self.wide());
                format!("setp.{compare}.{sign}64 {p}, {a}, {b};")
            }
        };
        self.line(&text);
        p
    }

    /// Makes values count in the result.
    fn observe(&mut self) {
        let (a, w) = (self.narrow(), self.wide());
        match self.random.below(6) {
            0 => self.line(&format!("mad.lo.u32 %acc, %acc, 31, {a};")),
            1 => self.line(&format!("mad.lo.u64 %sum, %sum, 31, {w};")),
            2 => {
                let p = self.predicate();
                self.line(&format!("selp.b32 %x, {a}, 77, {p}; xor.b32 %acc, %acc, %x;"));
            }
            3 => {
                let at = 4 * self.random.below(2);
                self.line(&format!("st.global.u32 [%o+{at}], {a};"));
            }
            4 => {
                let scale = 1 << self.random.below(3);
                let (i, at) = (self.register("a"), self.register("d"));
                self.line(&format!(
                    "and.b32 {i}, {a}, {}; mad.wide.u32 {at}, {i}, 4, %t; ld.global.u32 %x, [{at}];",
                    TABLE_WORDS - 1
                ));
                self.line(&format!("mad.lo.u32 %acc, %acc, {scale}, %x;"));
            }
            _ => {
                // An address that is a formula if the number is, and inside of the table if it is
                // small: elsewhere, one that always is.
                let p = self.register("p");
                self.line(&format!("setp.lt.u32 {p}, {a}, {TABLE_WORDS};"));
                self.labels += 1;
                let label = self.labels;
                self.line(&format!("@!{p} bra L{label};"));
                let (i, at) = (self.register("d"), self.register("d"));
                self.line(&format!(
                    "mul.wide.u32 {i}, {a}, 4; add.s64 {at}, {i}, %t; ld.global.u32 %x, [{at}];"
                ));
                self.line(&format!("add.u32 %acc, %acc, %x;\nL{label}:"));
            }
        }
    }

    fn branch(&mut self, depth: u32) {
        let p = self.predicate();
        self.labels += 1;
        let label = self.labels;
        let not = *self.random.pick(&["", "!"]);
        self.line(&format!("@{not}{p} bra L{label};"));
        let (narrow, wide) = (self.narrow.len(), self.wide.len());
        self.statements(depth + 1);
        self.narrow.truncate(narrow);
        self.wide.truncate(wide);
        self.line(&format!("L{label}:"));
    }

    /// A loop with a counter that keeps its stride, and a number of turns that may differ between
    /// lanes, some of which may leave from its middle.
    fn repeat(&mut self, depth: u32) {
        let (counter, turns) = (self.register("a"), self.register("a"));
        let p = self.register("p");
        self.labels += 1;
        let label = self.labels;
        let start = self.narrow();
        self.line(&format!("mov.u32 {counter}, {start};"));
        match self.random.below(3) {
            0 => self.line(&format!("mov.u32 {turns}, 3;")),
            1 => {
                let a = self.narrow();
                self.line(&format!("and.b32 {turns}, {a}, 3;"));
            }
            _ => self.line(&format!("shr.u32 {turns}, %lane, 3;")),
        }
        self.line(&format!("L{label}:"));
        let (narrow, wide) = (self.narrow.len(), self.wide.len());
        self.narrow.push(counter.clone());
        self.statements(depth + 1);
        if self.random.below(2) == 0 {
            let early = self.predicate();
            self.line(&format!("@{early} bra E{label};"));
            self.statements(depth + 1);
        }
        self.narrow.truncate(narrow);
        self.wide.truncate(wide);
        match self.random.below(3) {
            0 => self.line(&format!("add.s32 {counter}, {counter}, %u;")),
            1 => self.line(&format!("add.s32 {counter}, {counter}, 64;")),
            _ => self.line(&format!("sub.s32 {counter}, {counter}, 32;")),
        }
        self.line(&format!("sub.s32 {turns}, {turns}, 1; setp.gt.s32 {p}, {turns}, 0;"));
        self.line(&format!("@{p} bra L{label};\nE{label}:"));
        self.narrow.push(counter);
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..2 + self.random.below(6) {
            match self.random.below(12) {
                0 if depth < 3 => self.branch(depth),
                1 if depth < 3 => self.repeat(depth),
                2..=5 => self.widening(),
                6..=8 => self.arithmetic(),
                _ => self.observe(),
            }
        }
    }
}

/// A kernel whose threads each write [`RESULT_BYTES`] at `out`, and read `table`.
fn random_kernel(random: &mut Random) -> String {
    let mut w = Writer {
        random,
        text: String::new(),
        narrow: ["%lane", "%id", "%u"].map(str::to_owned).to_vec(),
        wide: vec!["%long".to_owned()],
        registers: 0,
        labels: 0,
    };
    w.line(
        ".version 7.8\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u64 table, .param .u32 u)\n{\n\
         .reg .b32 %lane, %id, %u, %x, %acc, %s<7>; .reg .b64 %out, %o, %t, %sum, %long, %at;\n\
         ld.param.u64 %out, [out]; ld.param.u64 %t, [table]; ld.param.u32 %u, [u];\n\
         mov.u32 %s0, %tid.x; mov.u32 %s1, %tid.y; mov.u32 %s2, %ntid.x;\n\
         mad.lo.u32 %lane, %s1, %s2, %s0;\n\
         mov.u32 %s3, %ntid.y; mul.lo.u32 %s4, %s2, %s3; mov.u32 %s5, %ctaid.x;\n\
         mad.lo.u32 %id, %s5, %s4, %lane; mul.wide.u32 %at, %id, 32; add.u64 %o, %out, %at;\n\
         mul.wide.u32 %long, %u, 3; mov.u32 %acc, 1; mov.u64 %sum, 1;",
    );
    w.statements(0);
    w.statements(0);
    w.line(
        "st.global.u32 [%o+8], %acc; st.global.u64 [%o+16], %sum;\n\
         ret;\n}",
    );
    w.text
}

fn results(text: &str, block: Dim3, set: Set) -> Vec<u8> {
    let mut device = Device::new(set);
    let kernel = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernel("k");
    let grid = Dim3 { x: 2, y: 1, z: 1 };
    let bytes = RESULT_BYTES * grid.count() * block.count();
    let out = device.memory.allocate(bytes, true);
    let table = device.memory.allocate(u64::from(4 * TABLE_WORDS), false);
    let words = (0..TABLE_WORDS).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes());
    device.memory.write(table, &words.collect::<Vec<u8>>());
    let mut params = Params::default();
    params.push(&out.to_le_bytes());
    params.push(&table.to_le_bytes());
    params.push(&96u32.to_le_bytes());
    let shape = Shape { grid, block, cluster: None, shared: 0 };
    device.run(&kernel.expect("k"), shape, &params.0).unwrap_or_else(|f| panic!("{f:?}\n{text}"));
    device.memory.read(out, bytes as usize)
}

#[test]
fn lanes_whose_numbers_are_known_compute_what_others_compute() {
    let dim = |x, y| Dim3 { x, y, z: 1 };
    let sets = ALL_SETS;
    for seed in 0..rounds(400) {
        let text = random_kernel(&mut Random::new(seed));
        let set = sets[seed as usize % sets.len()];
        let shapes = [
            (dim(64, 1), dim(1, 64)),
            (dim(33, 1), dim(1, 33)),
            (dim(32, 3), dim(1, 96)),
            (dim(16, 5), dim(1, 80)),
        ];
        let others = ALWAYS.iter().filter(|always| **always != set);
        let sets = || [&set].into_iter().chain(others.clone());
        for (set, (known, unknown)) in sets().flat_map(|set| shapes.map(|shape| (*set, shape))) {
            let right = results(&text, unknown, set);
            let got = results(&text, known, set);
            let Some(at) = right.iter().zip(&got).position(|(a, b)| a != b) else { continue };
            let launch_shape = LaunchShape::of(dim(2, 1), known);
            let dump = dump(&text, Some("k"), Stage::Vector(launch_shape)).unwrap().unwrap();
            let (thread, byte) = (at as u64 / RESULT_BYTES, at as u64 % RESULT_BYTES);
            panic!(
                "seed {seed}, {known:?} ({set:?}): thread {thread}, byte {byte}\n{text}\n{dump}"
            );
        }
    }
}
