//! Program: a tree with its launch, and its text.

use super::statements::{Place, Writer};
use super::tree::{Condition, INPUT_BYTES, Node, REGISTERS, one_nan};
use crate::grid::{Argument, Launch};
use crate::{Buffer, Random};
use std::fmt::Write;

/// A device function.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    pub(super) body: Vec<Node>,
    pub(super) recursive: bool,
}

/// A program and how it is launched.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it was made from.
    pub seed: u64,
    /// The kernel.
    pub body: Vec<Node>,
    pub(super) callees: Vec<Callee>,
    pub(super) block: [u32; 3],
    pub(super) grid: [u32; 3],
    /// Threads of a block that end at once, by a comparison with their number.
    pub(super) early_exit: Option<u32>,
    strict: bool,
}

/// Bytes of results of a thread.
const RESULT_BYTES: usize = 512;
/// Bytes of memory of a thread's own, global.
const OWN_BYTES: usize = 128;
/// Bytes of shared memory of a thread: a word for exchange, then its own.
const SLOT_BYTES: u32 = 64;
/// Bytes of cells that all add to.
const CELL_BYTES: usize = 128;

impl Program {
    /// The program of a seed.
    pub fn new(seed: u64) -> Self {
        Self::write(seed, false)
    }

    /// A program of a seed whose results PTX promises to the bit on any device: what a compiler may
    /// fuse is told how to round, and sums of products of matrices are exact in any order.
    pub fn strict(seed: u64) -> Self {
        Self::write(seed, true)
    }

    fn write(seed: u64, strict: bool) -> Self {
        let mut random = Random::new(seed);
        let block = match random.below(6) {
            0 => [32, 1, 1],
            1 => [64, 1, 1],
            2 => [1 + random.below(70) as u32, 1, 1],
            3 => [1 + random.below(9) as u32, 1 + random.below(9) as u32, 1],
            4 => [8, 4, 2],
            _ => [4, 1 + random.below(5) as u32, 1 + random.below(4) as u32],
        };
        let threads: u32 = block.iter().product();
        let grid = [1 + random.below(3) as u32, 1 + random.below(2) as u32, 1];
        let early_exit = random.one_in(6).then(|| random.below(u64::from(threads)) as u32 + 1);
        let mut callees = Vec::new();
        for number in 0..random.below(4) {
            let mut writer = Writer::new(&mut random, strict, 0, number as usize);
            let body = writer.body(Place::Free, 2, 6);
            callees.push(Callee { body, recursive: random.one_in(3) });
        }
        let full = threads.is_multiple_of(32) && early_exit.is_none();
        let mut writer = Writer::new(&mut random, strict, threads, callees.len());
        writer.full_warps = full;
        let size = 4 + writer.random.below(14);
        let body = writer.body(Place::Uniform, 3, size);
        Self { seed, body, callees, block, grid, early_exit, strict }
    }

    /// How to launch it. Its buffers are those of [`Self::buffers`], in order.
    pub fn launch(&self) -> Launch {
        let mut random = Random::new(self.seed ^ 0x5eed);
        let mut arguments: Vec<Argument> = (0..4).map(Argument::Buffer).collect();
        arguments.push(Argument::Value(vec![random.bits() as u8]));
        arguments.push(Argument::Value((random.bits() as u16).to_le_bytes().to_vec()));
        arguments.push(Argument::Value((random.below(9) as u32).to_le_bytes().to_vec()));
        arguments.push(Argument::Value(random.integer().to_le_bytes().to_vec()));
        arguments.push(Argument::Value(random.f64_bits().to_le_bytes().to_vec()));
        Launch {
            kernel: "k".to_owned(),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.threads() * SLOT_BYTES,
            arguments,
        }
    }

    /// The kernel's statements, then those of each function.
    pub(crate) fn bodies(&mut self) -> impl Iterator<Item = &mut Vec<Node>> {
        std::iter::once(&mut self.body)
            .chain(self.callees.iter_mut().map(|callee| &mut callee.body))
    }

    fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// All threads of a block begin with the same values in nearly all registers: what is done to
    /// one value for all of them is tried as well.
    fn is_alike(&self) -> bool {
        self.seed % 3 == 1
    }

    /// The buffers before the launch: results, input, threads' own memory, cells.
    pub fn buffers(&self) -> Vec<Buffer> {
        let mut random = Random::new(self.seed ^ 0xb0f);
        let all = (self.threads() * self.grid.iter().product::<u32>()) as usize;
        let mut input = Vec::new();
        while input.len() < INPUT_BYTES {
            match random.below(3) {
                0 => input.extend(random.f64_bits().to_le_bytes()),
                1 => {
                    input.extend(random.f32_bits().to_le_bytes());
                    input.extend(random.f32_bits().to_le_bytes());
                }
                _ => input.extend(random.integer().to_le_bytes()),
            }
        }
        vec![vec![0; all * RESULT_BYTES], input, vec![0; all * OWN_BYTES], vec![0; CELL_BYTES]]
    }

    /// Its text.
    pub fn text(&self) -> String {
        let mut constants = String::new();
        let mut random = Random::new(self.seed ^ 0xc0);
        for i in 0..32 {
            let comma = if i > 0 { ", " } else { "" };
            let _ = write!(constants, "{comma}{}", random.integer() as u32);
        }
        let mut text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n\
             .const .align 8 .b32 table[32] = {{{constants}}};\n\
             .extern .shared .align 16 .b8 slots[];\n.shared .align 16 .b32 counters[8];\n"
        );
        for number in 0..self.callees.len() {
            let _ = writeln!(text, "{};", signature(number));
        }
        if !self.callees.is_empty() {
            let names: Vec<String> = (0..self.callees.len()).map(|n| format!("f{n}")).collect();
            let count = names.len();
            let _ = writeln!(
                text,
                ".global .align 8 .u64 functions[{count}] = {{{}}};",
                names.join(", ")
            );
        }
        for (number, callee) in self.callees.iter().enumerate() {
            self.function(&mut text, number, callee);
        }
        self.kernel(&mut text);
        if self.strict {
            // Lanes that voted in groups need not be together again.
            text = text.replace("bar.sync ", "barrier.sync ").replace("bar.red.", "barrier.red.");
        }
        text
    }

    fn function(&self, text: &mut String, number: usize, callee: &Callee) {
        let mut emit = Emit::default();
        emit.nodes(&callee.body, 0, None);
        let _ = write!(text, "{}\n{{\n{}", signature(number), declarations(&emit));
        text.push_str(
            "ld.param.b32 %depth, [a]; ld.param.b64 %d0, [b]; mov.b32 %r0, %depth; cvt.u32.u64 %r1, %d0;\n\
             cvt.u16.u32 %h0, %r1;\n",
        );
        text.push_str(&initial_values("%r0"));
        text.push_str("ld.param.f32 %f1, [c]; cvt.f64.f32 %g0, %f1;\n");
        if callee.recursive {
            // Down to depth 0, by one call more at each.
            let _ = write!(
                text,
                "and.b32 %depth, %depth, 3;\nsetp.eq.u32 %q, %depth, 0;\n@%q bra LEAF;\n\
                 sub.u32 %depth, %depth, 1;\n{{\n.param .b32 pa; .param .b64 pb; .param .f32 pc; .param .b32 pr;\n\
                 st.param.b32 [pa], %depth; st.param.b64 [pb], %d1; st.param.f32 [pc], %f1;\n\
                 call (pr), f{number}, (pa, pb, pc);\nld.param.b32 %r2, [pr];\n}}\nLEAF:\n"
            );
        }
        text.push_str(&emit.text);
        text.push_str("xor.b32 %r0, %r0, %r2; st.param.b32 [result], %r0;\nret;\n}\n");
    }

    fn kernel(&self, text: &mut String) {
        let mut emit = Emit::default();
        emit.nodes(&self.body, 0, None);
        text.push_str(
            ".visible .entry k(.param .u64 out, .param .u64 in, .param .u64 own, .param .u64 cells, \
             .param .u8 v8, .param .u16 v16, .param .u32 v32, .param .u64 v64, .param .f64 vf)\n{\n",
        );
        text.push_str(&declarations(&emit));
        text.push_str(".local .align 16 .b8 array[128];\n");
        // Who this is, and where its memory is.
        text.push_str(
            "mov.u32 %me, %tid.z; mov.u32 %t0, %ntid.y; mov.u32 %t1, %tid.y; mad.lo.u32 %me, %me, %t0, %t1;\n\
             mov.u32 %t0, %ntid.x; mov.u32 %t1, %tid.x; mad.lo.u32 %me, %me, %t0, %t1;\n\
             mov.u32 %t0, %nctaid.x; mov.u32 %t1, %ctaid.y; mov.u32 %t2, %ctaid.x; mad.lo.u32 %t2, %t1, %t0, %t2;\n",
        );
        let _ = writeln!(text, "mad.lo.u32 %id, %t2, {}, %me;", self.threads());
        text.push_str(
            "ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; ld.param.u64 %own, [own]; ld.param.u64 %cells, [cells];\n",
        );
        let _ = writeln!(text, "mad.wide.u32 %out, %id, {RESULT_BYTES}, %out;");
        let _ = writeln!(text, "mad.wide.u32 %own, %id, {OWN_BYTES}, %own;");
        let _ = writeln!(
            text,
            "mov.u32 %base, slots; mad.lo.u32 %slot, %me, {SLOT_BYTES}, %base;\n\
             cvt.u64.u32 %gslot, %slot; cvta.shared.u64 %gslot, %gslot;\n\
             mov.u64 %larray, array; cvta.local.u64 %garray, %larray;"
        );
        for i in 0..SLOT_BYTES / 4 {
            let _ = writeln!(text, "st.shared.u32 [%slot+{}], {};", 4 * i, i * 77);
        }
        for i in 0..16 {
            let _ = writeln!(text, "st.local.u64 [%larray+{}], {};", 8 * i, i * 1001);
        }
        text.push_str(
            "setp.eq.u32 %q, %me, 0;\n@%q st.shared.v4.u32 [counters], {0, 0, 0, 0};\n\
             @%q st.shared.v4.u32 [counters+16], {0, 0, 0, 0};\n\
             ld.param.u32 %u0, [v32]; mov.u32 %u1, %ctaid.x; ld.param.u8 %u2, [v8]; mov.u32 %u3, 3; mov.u32 %u4, 0;\n\
             ld.param.u16 %h0, [v16]; ld.param.u64 %d0, [v64]; ld.param.f64 %g0, [vf]; mov.u32 %r1, %laneid;\n",
        );
        let first = if self.is_alike() { "%u1" } else { "%id" };
        let _ = writeln!(text, "mov.u32 %r0, {first};");
        text.push_str(&initial_values(if self.is_alike() { "%u1" } else { "%me" }));
        text.push_str("bar.sync 0;\n");
        // The lanes that there are, and that stay.
        let _ = write!(
            text,
            "mov.u32 %t0, %laneid; sub.u32 %t0, {}, %me; mov.u32 %t1, %laneid; add.u32 %t0, %t0, %t1;\n\
             min.u32 %t0, %t0, 32; bmsk.clamp.b32 %m0, 0, %t0;\n",
            self.threads()
        );
        if let Some(limit) = self.early_exit {
            let _ = write!(
                text,
                "setp.lt.u32 %q, %me, {limit};\nvote.sync.ballot.b32 %m0, %q, %m0;\n@!%q exit;\n"
            );
        }
        text.push_str(&emit.text);
        text.push_str("bar.sync 0;\n");
        text.push_str(&results());
        text.push_str("ret;\n}\n");
    }
}

fn signature(number: usize) -> String {
    format!(".func (.param .b32 result) f{number}(.param .b32 a, .param .b64 b, .param .f32 c)")
}

/// Registers of every kind.
fn declarations(emit: &Emit) -> String {
    let mut text = String::new();
    for (letter, ty) in [
        ("h", "b16"),
        ("x", "b16"),
        ("y", "b16"),
        ("r", "b32"),
        ("u", "b32"),
        ("z", "b32"),
        ("w", "b32"),
        ("t", "b32"),
        ("d", "b64"),
        ("e", "b64"),
        ("f", "f32"),
        ("g", "f64"),
        ("p", "pred"),
    ] {
        let _ = write!(text, ".reg .{ty} %{letter}<{REGISTERS}>; ");
    }
    let _ = writeln!(
        text,
        "\n.reg .b32 %me, %id, %base, %slot, %depth, %c<{0}>, %n<{0}>, %m<{1}>; .reg .b64 %out, %in, %own, %cells, %gslot, %larray, %garray;\n\
         .reg .pred %q, %s<{0}>; .reg .b16 %hh, %hl;",
        emit.loops + 1,
        emit.depth + 2,
    );
    text
}

/// Something in every register, as different from thread to thread as a 32-bit source is.
fn initial_values(from: &str) -> String {
    let mut text = String::new();
    for i in 0..REGISTERS {
        // The first ones were loaded.
        let k = 3 * i + 1;
        if i > 1 {
            let _ = writeln!(text, "mad.lo.u32 %r{i}, {from}, {k}, {};", 40 * i);
        }
        if i > 0 {
            let _ = writeln!(
                text,
                "mul.wide.u32 %d{i}, {from}, {}; ",
                0x1234_5678u32.rotate_left(k as u32)
            );
            let _ =
                writeln!(text, "cvt.u16.u32 %h{i}, {from}; mul.lo.u16 %h{i}, %h{i}, {};", 77 * k);
            let _ = writeln!(
                text,
                "cvt.rn.f64.s32 %g{i}, {from}; div.rn.f64 %g{i}, %g{i}, 0d4008000000000000;"
            );
        }
        let _ = writeln!(
            text,
            "cvt.rn.f32.u32 %f{i}, {from}; fma.rn.f32 %f{i}, %f{i}, 0f3E99999A, 0f{:08X};",
            (k as f32 - 5.0).to_bits()
        );
        let _ = writeln!(text, "cvt.rn.f16.f32 %x{i}, %f{i}; cvt.rn.bf16.f32 %y{i}, %f{i};");
        let _ = writeln!(
            text,
            "cvt.rn.f16x2.f32 %z{i}, %f{i}, %f0; cvt.rn.bf16x2.f32 %w{i}, %f0, %f{i};"
        );
        let _ = writeln!(text, "setp.gt.u32 %p{i}, {from}, {};", 3 * i);
    }
    text
}

/// Stores every register, NaN as one NaN.
fn results() -> String {
    let mut text = String::new();
    let mut at = 0;
    let mut put = |text: &mut String, ty: &str, register: &str, bytes: u64| {
        let _ = writeln!(text, "st.global.{ty} [%out+{at}], {register};");
        at += bytes;
    };
    for i in 0..REGISTERS {
        put(&mut text, "b64", &format!("%d{i}"), 8);
        let _ = writeln!(text, "{}", one_nan("f64", &format!("%g{i}")));
        put(&mut text, "f64", &format!("%g{i}"), 8);
    }
    for i in 0..REGISTERS {
        put(&mut text, "b32", &format!("%r{i}"), 4);
        put(&mut text, "b32", &format!("%u{i}"), 4);
        let _ = writeln!(text, "selp.b32 %t0, 1, 0, %p{i};");
        put(&mut text, "b32", "%t0", 4);
        let _ = writeln!(text, "{}", one_nan("f32", &format!("%f{i}")));
        put(&mut text, "f32", &format!("%f{i}"), 4);
    }
    for i in 0..REGISTERS {
        put(&mut text, "b16", &format!("%h{i}"), 2);
        let mut half = |text: &mut String, register: &str, ty: &str| {
            let _ = writeln!(
                text,
                "setp.nan.{ty} %q, {register}, {register};\n@%q mov.b16 {register}, 0x7fff;"
            );
            put(text, "b16", register, 2);
        };
        half(&mut text, &format!("%x{i}"), "f16");
        half(&mut text, &format!("%y{i}"), "bf16");
        for (letter, ty) in [("z", "f16"), ("w", "bf16")] {
            let _ = writeln!(text, "mov.b32 {{%hl, %hh}}, %{letter}{i};");
            half(&mut text, "%hl", ty);
            half(&mut text, "%hh", ty);
        }
    }
    text.push_str("ld.shared.v4.u32 {%t0, %t1, %t2, %t3}, [counters];\n");
    text.push_str(
        "add.u32 %t0, %t0, %t1; mad.lo.u32 %t0, %t2, 5, %t0; mad.lo.u32 %t0, %t3, 7, %t0;\n",
    );
    put(&mut text, "b16", "%h0", 2);
    let at = at.next_multiple_of(4);
    let _ = writeln!(text, "st.global.b32 [%out+{at}], %t0;");
    assert!(at as usize + 4 <= RESULT_BYTES);
    text
}

/// Text on its way.
#[derive(Default)]
struct Emit {
    text: String,
    labels: usize,
    loops: usize,
    depth: usize,
}

impl Emit {
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Statements where `%m{depth}` is the mask; `leave` is the label that a break goes to, and
    /// whether it must take its lanes out of the mask.
    fn nodes(&mut self, nodes: &[Node], depth: usize, leave: Option<(&str, bool)>) {
        self.depth = self.depth.max(depth);
        for node in nodes {
            self.node(node, depth, leave);
        }
    }

    fn node(&mut self, node: &Node, depth: usize, leave: Option<(&str, bool)>) {
        match node {
            Node::Lines(lines) => {
                let label = if lines.contains("$L") { self.label() } else { String::new() };
                self.line(&lines.replace("$M", &format!("%m{depth}")).replace("$L", &label));
            }
            Node::If { condition, then, otherwise } => {
                let (other, end) = (self.label(), self.label());
                let (test, inner, inside) = match condition {
                    Condition::Uniform(value) => {
                        self.line(&format!("setp.gt.u32 %q, {value}, 2;"));
                        ("%q".to_owned(), depth, None)
                    }
                    Condition::Orderly(p) => {
                        let (old, new) = (depth, depth + 1);
                        self.line(&format!("vote.sync.ballot.b32 %m{new}, {p}, %m{old};"));
                        (p.clone(), new, None)
                    }
                    Condition::Free(p) => (p.clone(), depth, leave.filter(|(_, masks)| !masks)),
                };
                let not = match test.strip_prefix('!') {
                    Some(positive) => positive.to_owned(),
                    None => format!("!{test}"),
                };
                self.line(&format!("@{not} bra {other};"));
                self.nodes(then, inner, inside);
                self.line(&format!("bra {end};\n{other}:"));
                if inner != depth {
                    self.line(&format!("xor.b32 %m{inner}, %m{inner}, %m{depth};"));
                }
                self.nodes(otherwise, inner, inside);
                self.line(&format!("{end}:"));
            }
            Node::Loop { times, body } => {
                self.loops += 1;
                let n = self.loops;
                let (head, end) = (self.label(), self.label());
                let (source, orderly, inner) = match times {
                    Condition::Uniform(source) | Condition::Free(source) => (source, false, depth),
                    Condition::Orderly(source) => (source, true, depth + 1),
                };
                self.line(&format!("and.b32 %n{n}, {source}, 3; mov.u32 %c{n}, 0;"));
                if orderly {
                    self.line(&format!("mov.b32 %m{inner}, %m{depth};"));
                }
                self.line(&format!("{head}:\nsetp.lt.u32 %s{n}, %c{n}, %n{n};"));
                if orderly {
                    self.line(&format!("vote.sync.ballot.b32 %m{inner}, %s{n}, %m{inner};"));
                }
                self.line(&format!("@!%s{n} bra {end};\nadd.u32 %c{n}, %c{n}, 1;"));
                let inside = match times {
                    Condition::Uniform(_) => None,
                    _ => Some((end.as_str(), orderly)),
                };
                self.nodes(body, inner, inside);
                self.line(&format!("bra {head};\n{end}:"));
            }
            Node::Break(p) => {
                let Some((end, masks)) = leave else { return };
                if masks {
                    self.line(&format!(
                        "not.pred %q, {p}; vote.sync.ballot.b32 %m{depth}, %q, %m{depth};\n@!%q bra {end};"
                    ));
                } else {
                    self.line(&format!("@{p} bra {end};"));
                }
            }
            Node::Switch { index, bodies } => {
                let labels: Vec<String> = bodies.iter().map(|_| self.label()).collect();
                let (table, end) = (self.label(), self.label());
                let last = bodies.len().saturating_sub(1);
                if bodies.is_empty() {
                    return;
                }
                self.line(&format!("{table}: .branchtargets {};", labels.join(", ")));
                self.line(&format!("and.b32 %t0, {index}, 3; min.u32 %t0, %t0, {last};"));
                self.line(&format!("brx.idx %t0, {table};"));
                for (label, body) in labels.iter().zip(bodies) {
                    self.line(&format!("{label}:"));
                    self.nodes(body, depth, leave.filter(|(_, masks)| !masks));
                    self.line(&format!("bra {end};"));
                }
                self.line(&format!("{end}:"));
            }
            Node::Tangle { fuel, bodies } => {
                self.loops += 1;
                let n = self.loops;
                let labels: Vec<String> = bodies.iter().map(|_| self.label()).collect();
                let end = self.label();
                self.line(&format!("mov.u32 %c{n}, {fuel};"));
                for (label, (body, p, to)) in labels.iter().zip(bodies) {
                    self.line(&format!("{label}:"));
                    self.nodes(body, depth, None);
                    self.line(&format!(
                        "sub.u32 %c{n}, %c{n}, 1; setp.eq.u32 %s{n}, %c{n}, 0;\n@%s{n} bra {end};"
                    ));
                    if let Some(to) = labels.get(*to) {
                        self.line(&format!("@{p} bra {to};"));
                    }
                }
                self.line(&format!("{end}:"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a compiler may take for something else, or a device need not do in one way.
    #[test]
    fn strict_programs_say_how_they_round_and_wait() {
        let mut rounded = 0;
        for seed in 0..200 {
            let text = Program::strict(seed).text();
            for word in text.split_whitespace() {
                let fusible = ["add.", "sub.", "mul."].iter().any(|name| word.starts_with(name));
                let float = word.rsplit('.').next().is_some_and(|ty| ty.contains('f'));
                if fusible && float {
                    let rounds = ["rn", "rz", "rm", "rp"];
                    assert!(word.split('.').any(|part| rounds.contains(&part)), "{seed}: {word}");
                    rounded += 1;
                }
                assert!(!word.starts_with("bar.sync") && !word.starts_with("bar.red"), "{seed}");
            }
        }
        assert!(rounded > 100, "{rounded}");
    }

    #[test]
    fn strict_programs_run_to_their_end() {
        for seed in 0..40 {
            let program = Program::strict(seed);
            let module = ptx::parse(&program.text()).unwrap();
            let mut buffers = program.buffers();
            crate::run(&module, &program.launch(), &mut buffers).unwrap();
            assert_ne!(buffers, program.buffers(), "{seed} did nothing");
        }
    }
}
