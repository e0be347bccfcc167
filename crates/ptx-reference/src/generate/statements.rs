//! Statements: random ones, each right by itself.

use super::forms::FORMS;
use super::tree::{Condition, INPUT_BYTES, Node, REGISTERS, one_nan};
use crate::Random;

/// The threads that are together where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// All threads of the block.
    Uniform,
    /// The lanes of a mask.
    Orderly,
    /// Unknown.
    Free,
}

/// Makes statements.
pub(super) struct Writer<'a> {
    pub(super) random: &'a mut Random,
    /// Only what PTX promises to the bit on any device.
    strict: bool,
    /// Threads of a block; 0 in a device function, which has no memory but the input's kind.
    threads: u32,
    /// Functions that may be called.
    callees: usize,
    /// All warps are whole, and stay so.
    pub(super) full_warps: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(random: &'a mut Random, strict: bool, threads: u32, callees: usize) -> Self {
        Self { random, strict, threads, callees, full_warps: false }
    }

    /// Statements with up to `depth` levels of branches and loops in them.
    pub(super) fn body(&mut self, place: Place, depth: u32, size: u64) -> Vec<Node> {
        (0..size).map(|_| self.node(place, depth)).collect()
    }

    fn node(&mut self, place: Place, depth: u32) -> Node {
        if depth > 0 && self.random.one_in(4) {
            return self.control(place, depth - 1);
        }
        let in_kernel = self.threads > 0;
        let lines = match self.random.below(20) {
            0..=2 if in_kernel => self.memory(),
            3 if in_kernel => self.atomic(),
            4 => self.call(),
            5 | 6 if place != Place::Free => self.collective(place),
            7 if place == Place::Uniform => self.uniform(),
            8 if place != Place::Uniform => return Node::Break(self.positive()),
            9 => self.several(),
            _ => self.instruction(),
        };
        Node::Lines(lines)
    }

    fn control(&mut self, place: Place, depth: u32) -> Node {
        let inner = match (place, self.random.below(3)) {
            (Place::Uniform, 0) => Place::Uniform,
            (Place::Uniform | Place::Orderly, 0 | 1) => Place::Orderly,
            _ => Place::Free,
        };
        let size = 1 + self.random.below(4);
        match self.random.below(6) {
            0..=2 => {
                let condition = match inner {
                    Place::Uniform => Condition::Uniform(self.register('u')),
                    Place::Orderly => Condition::Orderly(self.positive()),
                    Place::Free => Condition::Free(self.predicate()),
                };
                let then = self.body(inner, depth, size);
                let more = self.random.below(3);
                Node::If { condition, then, otherwise: self.body(inner, depth, more) }
            }
            3 | 4 => {
                let times = match inner {
                    Place::Uniform => Condition::Uniform(self.register('u')),
                    Place::Orderly => Condition::Orderly(self.register('r')),
                    Place::Free => Condition::Free(self.register('r')),
                };
                Node::Loop { times, body: self.body(inner, depth, size) }
            }
            5 if self.random.one_in(2) => {
                let count = 2 + self.random.below(3);
                let index = self.register('r');
                let bodies = (0..count).map(|_| self.body(Place::Free, depth, size / 2)).collect();
                Node::Switch { index, bodies }
            }
            _ => {
                let count = 2 + self.random.below(7);
                let fuel = 3 + self.random.below(20) as u32;
                let bodies = (0..count)
                    .map(|_| {
                        let body = self.body(Place::Free, depth, 1 + size / 2);
                        (body, self.predicate(), self.random.below(count) as usize)
                    })
                    .collect();
                Node::Tangle { fuel, bodies }
            }
        }
    }

    // Operands.

    fn register(&mut self, letter: char) -> String {
        format!("%{letter}{}", self.random.below(REGISTERS))
    }

    fn positive(&mut self) -> String {
        self.register('p')
    }

    fn predicate(&mut self) -> String {
        let not = if self.random.one_in(3) { "!" } else { "" };
        format!("{not}{}", self.positive())
    }

    fn immediate(&mut self, letter: char) -> Option<String> {
        Some(match letter {
            'h' => (self.random.integer() as u16).to_string(),
            'r' => (self.random.integer() as i32).to_string(),
            'd' => (self.random.integer() as i64).to_string(),
            'f' => format!("0f{:08X}", self.random.f32_bits()),
            'g' => format!("0d{:016X}", self.random.f64_bits()),
            _ => return None,
        })
    }

    fn operand(&mut self, letter: char) -> String {
        match letter {
            'P' => {
                let first = self.random.below(REGISTERS);
                let second = (first + 1 + self.random.below(REGISTERS - 1)) % REGISTERS;
                format!("%p{first}|%p{second}")
            }
            'q' => self.predicate(),
            // NVIDIA's compiler (CUDA 13.0) folds constant amounts and places over the width wrongly.
            'n' if self.random.one_in(2) => {
                let amount = self.random.below(70);
                (if self.strict { amount % 64 } else { amount }).to_string()
            }
            'b' if self.random.one_in(2) => {
                let position = self.random.below(70);
                (if self.strict { position % 32 } else { position }).to_string()
            }
            'n' | 'b' => self.register('r'),
            'k' => self.random.below(32).to_string(),
            'o' => (self.random.below(9) as i64 - 4).to_string(),
            't' => self.random.below(256).to_string(),
            other => self.register(other),
        }
    }

    /// An instruction of one of the forms, perhaps under a guard.
    fn instruction(&mut self) -> String {
        let form = FORMS[self.random.below(FORMS.len() as u64) as usize];
        let mut name = String::new();
        let mut rest = form;
        while let Some((before, after)) = rest.split_once('{') {
            let (words, behind) = after.split_once('}').expect("braces come in pairs");
            name.push_str(before);
            let words: Vec<&str> = words.split(',').collect();
            name.push_str(self.random.pick::<&str>(&words));
            rest = behind;
        }
        name.push_str(rest);
        let (name, letters) = name.split_once(' ').expect("a name and operands");
        let name = if self.strict { rounded(name) } else { name.to_owned() };
        let letters: Vec<char> = letters.chars().filter(|c| *c != ' ').collect();
        let mut operands: Vec<String> = letters.iter().map(|l| self.operand(*l)).collect();
        // A position is 8 bits; what more would do is not said.
        let mut before = String::new();
        for (i, letter) in letters.iter().enumerate() {
            if *letter == 'b' && operands[i].starts_with('%') {
                before += &format!("and.b32 %t{i}, {}, 255; ", operands[i]);
                operands[i] = format!("%t{i}");
            }
        }
        let last = letters.len() - 1;
        let constants = !name.starts_with("cvt") && !name.contains("x2");
        if last >= 2 && constants && self.random.one_in(5) {
            operands[last] = self.immediate(letters[last]).unwrap_or(operands[last].clone());
        }
        let mut guard =
            if self.random.one_in(5) { format!("@{} ", self.predicate()) } else { String::new() };
        if self.strict && guard_is_ignored(&name) {
            guard.clear();
        }
        format!("{before}{guard}{name} {};", operands.join(", "))
    }

    /// Instructions that belong together: carry chains, packing.
    fn several(&mut self) -> String {
        let mut r = |letter| self.register(letter);
        let (a, b, c, d) = (r('r'), r('r'), r('r'), r('r'));
        let (x, y) = (r('d'), r('d'));
        let (h, i) = (r('h'), r('h'));
        match self.random.below(10) {
            9 => format!(
                "sub.cc.u32 {a}, {b}, {c}; addc.cc.u32 {d}, {a}, {b}; subc.cc.u32 {b}, {c}, {d}; addc.u32 {c}, {a}, 0;"
            ),
            0 => format!(
                "add.cc.u32 {a}, {b}, {c}; addc.cc.u32 {d}, {a}, {b}; addc.u32 {b}, {c}, 0;"
            ),
            1 => format!(
                "sub.cc.u32 {a}, {b}, {c}; subc.cc.u32 {d}, {a}, {b}; subc.u32 {b}, {c}, {d};"
            ),
            2 => format!("add.cc.u64 {x}, {x}, {y}; addc.u64 {y}, {x}, 7;"),
            3 => format!(
                "mad.lo.cc.u32 {a}, {b}, {c}, {d}; madc.hi.cc.u32 {d}, {b}, {c}, {a}; madc.lo.u32 {c}, {a}, {b}, {d};"
            ),
            4 => format!("mov.b64 {x}, {{{a}, {b}}};"),
            5 if a != b => format!("mov.b64 {{{a}, {b}}}, {x};"),
            6 => format!("mov.b32 {a}, {{{h}, {i}}};"),
            7 if h != i => format!("mov.b32 {{{h}, {i}}}, {a};"),
            _ => format!("mov.b64 {x}, {{{h}, {i}, {i}, {h}}};"),
        }
    }

    // Memory.

    /// A type and a register that it can be loaded into and stored from.
    fn element(&mut self) -> (&'static str, char, u64) {
        const ELEMENTS: [(&str, char, u64); 14] = [
            ("u8", 'h', 1),
            ("s8", 'r', 1),
            ("u8", 'd', 1),
            ("u16", 'h', 2),
            ("s16", 'r', 2),
            ("b16", 'h', 2),
            ("s16", 'd', 2),
            ("b32", 'r', 4),
            ("u32", 'd', 4),
            ("s32", 'd', 4),
            ("u32", 'r', 4),
            ("b64", 'd', 8),
            ("s64", 'd', 8),
            ("b32", 'r', 4),
        ];
        ELEMENTS[self.random.below(ELEMENTS.len() as u64) as usize]
    }

    fn memory(&mut self) -> String {
        let (ty, letter, bytes) = self.element();
        let mut value = self.register(letter);
        let mut vector = "";
        let mut size = bytes;
        if self.random.one_in(4) && bytes >= 4 && letter != 'h' {
            let wide = if bytes == 8 || self.random.one_in(2) { 2 } else { 4 };
            vector = if wide == 2 { ".v2" } else { ".v4" };
            size = bytes * wide;
            // Different registers, because a load into one twice is undefined.
            let first = self.random.below(REGISTERS);
            let names: Vec<String> =
                (0..wide).map(|i| format!("%{letter}{}", (first + i) % REGISTERS)).collect();
            value = format!("{{{}}}", names.join(", "));
        }
        let index = self.register('r');
        let store = self.random.one_in(2);
        let guard =
            if self.random.one_in(4) { format!("@{} ", self.predicate()) } else { String::new() };
        let access = |space: &str, address: &str| {
            if store {
                format!("{guard}st{space}{vector}.{ty} [{address}], {value};")
            } else {
                format!("{guard}ld{space}{vector}.{ty} {value}, [{address}];")
            }
        };
        // An offset in an area of so many bytes.
        let offset = |area: u64| (area - 1) & !(size - 1);
        let kind = self.random.below(9);
        let constant = self.random.below(48 / size.max(1)) * size;
        match kind {
            0..=2 => {
                let nc = if self.random.one_in(3) { ".nc" } else { "" };
                let (ty, letter, vector, value) = match self.random.below(6) {
                    0 => ("f32", 'f', "", self.register('f')),
                    1 => ("f64", 'g', "", self.register('g')),
                    2 => ("b16", 'x', "", self.register('x')),
                    3 => ("b32", 'w', "", self.register('w')),
                    _ => (ty, letter, vector, value),
                };
                let size = match letter {
                    'g' => 8,
                    'f' | 'w' => 4,
                    'x' => 2,
                    _ => size,
                };
                let mask = (INPUT_BYTES as u64 - 1) & !(size - 1);
                format!(
                    "and.b32 %t0, {index}, {mask}; cvt.u64.u32 %e0, %t0; add.s64 %e0, %in, %e0;\n\
                     {guard}ld.global{nc}{vector}.{ty} {value}, [%e0];"
                )
            }
            3 => format!(
                "and.b32 %t0, {index}, {}; cvt.u64.u32 %e0, %t0; mov.u64 %e1, table; add.s64 %e0, %e1, %e0;\n\
                 {guard}ld.const{vector}.{ty} {value}, [%e0];",
                offset(128)
            ),
            4 if self.random.one_in(2) => access(".global", &format!("%own+{constant}")),
            4 => access("", &format!("%own+{constant}")),
            5 => {
                let (ty, letter, at) =
                    if self.random.one_in(2) { ("f32", 'f', 64) } else { ("f64", 'g', 96) };
                let value = self.register(letter);
                let at = at + 8 * self.random.below(4);
                if store {
                    // No manual promises which NaN it is.
                    let one_nan = one_nan(ty, &value);
                    format!("{one_nan}\n{guard}st.global.{ty} [%own+{at}], {value};")
                } else {
                    format!("{guard}ld.global.{ty} {value}, [%own+{at}];")
                }
            }
            6 => {
                let at = format!("and.b32 %t0, {index}, {};", offset(32));
                if self.random.one_in(2) {
                    format!("{at} add.u32 %t0, %slot, %t0;\n{}", access(".shared", "%t0+32"))
                } else {
                    format!(
                        "{at} cvt.u64.u32 %e0, %t0; add.s64 %e0, %gslot, %e0;\n{}",
                        access("", "%e0+32")
                    )
                }
            }
            _ => {
                let at = format!("and.b32 %t0, {index}, {}; cvt.u64.u32 %e0, %t0;", offset(128));
                if self.random.one_in(2) {
                    format!("{at} add.s64 %e0, %larray, %e0;\n{}", access(".local", "%e0"))
                } else {
                    format!("{at} add.s64 %e0, %garray, %e0;\n{}", access("", "%e0"))
                }
            }
        }
    }

    fn atomic(&mut self) -> String {
        let guard =
            if self.random.one_in(3) { format!("@{} ", self.predicate()) } else { String::new() };
        let (r, s, t) = (self.register('r'), self.register('r'), self.register('r'));
        let (x, y, z) = (self.register('d'), self.register('d'), self.register('d'));
        // One's own: anything, with the old value.
        let own32 = *self.random.pick(&["global.", "shared.", ""]);
        let place32 = match own32 {
            "global." => "[%own+48]",
            "shared." => "[%slot+16]",
            _ => "[%gslot+16]",
        };
        match self.random.below(8) {
            0 => {
                let op = self.random.pick(&[
                    "add.u32", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32",
                    "xor.b32", "exch.b32", "inc.u32", "dec.u32",
                ]);
                format!("{guard}atom.{own32}{op} {r}, {place32}, {s};")
            }
            1 => format!("{guard}atom.{own32}cas.b32 {r}, {place32}, {s}, {t};"),
            2 => {
                let op = self.random.pick(&[
                    "add.u64", "min.s64", "max.u64", "and.b64", "or.b64", "xor.b64", "exch.b64",
                ]);
                format!("{guard}atom.global.{op} {x}, [%own+56], {y};")
            }
            3 => format!("{guard}atom.global.cas.b64 {x}, [%own+56], {y}, {z};"),
            4 => {
                let f = self.register('f');
                format!("{guard}red.global.add.f32 [%own+64], {f};")
            }
            5 => {
                const COMMUTING: [&str; 7] =
                    ["add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32"];
                let kind = self.random.below(COMMUTING.len() as u64) as usize;
                let op = COMMUTING[kind];
                // Operands of counting must agree, or the order would matter.
                let b = if op == "inc.u32" { "5".to_owned() } else { s };
                format!("{guard}red.global.{op} [%cells+{}], {b};", 4 * kind)
            }
            6 => {
                let kind = self.random.below(3) as usize;
                let op = ["add.u32", "max.u32", "xor.b32"][kind];
                // Fourth counter: how many came.
                format!(
                    "{guard}red.shared.{op} [counters+{}], {s};\nred.shared.add.u32 [counters+12], 1;",
                    4 * kind
                )
            }
            _ => "atom.global.add.u32 %t0, [%cells+60], 1; mul.lo.u32 %t0, %t0, %t0;\n\
                  red.global.add.u32 [%cells+64], %t0;"
                .to_owned(),
        }
    }

    // With others.

    fn call(&mut self) -> String {
        if self.callees == 0 {
            return self.instruction();
        }
        let number = self.random.below(self.callees as u64);
        let (r, s, d, f) =
            (self.register('r'), self.register('r'), self.register('d'), self.register('f'));
        let head = format!(
            "{{\n.param .b32 pa; .param .b64 pb; .param .f32 pc; .param .b32 pr;\n\
             st.param.b32 [pa], {s}; st.param.b64 [pb], {d}; st.param.f32 [pc], {f};\n"
        );
        let tail = format!("ld.param.b32 {r}, [pr];\n}}");
        // Only a kernel calls by address: functions would call each other without end.
        if self.threads > 0 && self.random.one_in(2) {
            let last = self.callees - 1;
            return format!(
                "{head}and.b32 %t0, {s}, 3; min.u32 %t0, %t0, {last}; mul.wide.u32 %e0, %t0, 8;\n\
                 mov.u64 %e1, functions; add.s64 %e0, %e0, %e1; ld.global.u64 %e2, [%e0];\n\
                 $L: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _, .param .f32 _);\n\
                 call (pr), %e2, (pa, pb, pc), $L;\n{tail}"
            );
        }
        format!("{head}call (pr), f{number}, (pa, pb, pc);\n{tail}")
    }

    fn collective(&mut self, place: Place) -> String {
        let (r, s, q) = (self.register('r'), self.register('r'), self.register('p'));
        match self.random.below(8) {
            0 | 1 if self.full_warps && place == Place::Uniform => {
                let mode = self.random.pick(&["up", "down", "bfly", "idx"]);
                let b = if self.random.one_in(2) {
                    self.random.below(32).to_string()
                } else {
                    self.register('r')
                };
                let c = match self.random.below(4) {
                    0 => "31".to_owned(),
                    1 => "0".to_owned(),
                    2 => (self.random.below(32) << 8 | self.random.below(32)).to_string(),
                    _ => self.register('r'),
                };
                let d = if self.random.one_in(2) { format!("{r}|{q}") } else { r };
                format!("shfl.sync.{mode}.b32 {d}, {s}, {b}, {c}, $M;")
            }
            0..=2 => {
                // The value of some lane that is here.
                let t = self.register('r');
                format!(
                    "popc.b32 %t0, $M; rem.u32 %t1, {t}, %t0; add.u32 %t1, %t1, 1; fns.b32 %t2, $M, 0, %t1;\n\
                     shfl.sync.idx.b32 {r}, {s}, %t2, 31, $M;"
                )
            }
            3..=6 => {
                let lines = self.answers();
                if self.random.one_in(2) {
                    return lines;
                }
                // Tiles of the warp, each by itself: all come at the same time.
                let lanes = 1 << self.random.below(5);
                let (tile, first) = ((1u64 << lanes) - 1, 32 - lanes);
                format!(
                    "mov.u32 %t2, %laneid; and.b32 %t2, %t2, {first}; shl.b32 %t2, {tile}, %t2; \
                     and.b32 %t2, %t2, $M;\n{}",
                    lines.replace("$M", "%t2")
                )
            }
            _ if self.threads > 0 => {
                let t = self.register('r');
                format!(
                    "bar.warp.sync $M; st.shared.b32 [%slot+4], {s}; bar.warp.sync $M;\n\
                     popc.b32 %t0, $M; rem.u32 %t1, {t}, %t0; add.u32 %t1, %t1, 1; fns.b32 %t2, $M, 0, %t1;\n\
                     mov.u32 %t0, %laneid; sub.s32 %t2, %t2, %t0; mad.lo.s32 %t2, %t2, 64, %slot;\n\
                     ld.shared.b32 {r}, [%t2+4]; bar.warp.sync $M;"
                )
            }
            _ => format!("redux.sync.add.u32 {r}, {s}, $M;"),
        }
    }

    /// What all lanes of `$M` learn.
    fn answers(&mut self) -> String {
        let (r, s, p) = (self.register('r'), self.register('r'), self.predicate());
        let (q, x) = (self.register('p'), self.register('d'));
        match self.random.below(4) {
            0 => {
                let mode = self.random.pick(&["all", "any", "uni"]);
                format!("vote.sync.{mode}.pred {q}, {p}, $M;\nvote.sync.ballot.b32 {r}, {p}, $M;")
            }
            1 => {
                let t = self.random.below(8);
                format!("and.b32 %t0, {s}, {t}; match.any.sync.b32 {r}, %t0, $M;")
            }
            2 => format!("match.all.sync.b64 {r}|{q}, {x}, $M;"),
            _ => {
                let op = self.random.pick(&[
                    "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32",
                    "or.b32", "xor.b32",
                ]);
                format!("redux.sync.{op} {r}, {s}, $M;")
            }
        }
    }

    fn uniform(&mut self) -> String {
        let (r, s, p) = (self.register('r'), self.register('r'), self.predicate());
        let (u, v, w) = (self.register('u'), self.register('u'), self.register('u'));
        let threads = self.threads;
        match self.random.below(8) {
            7 if self.full_warps => self.products(),
            0 => format!("add.u32 {u}, {v}, {w};"),
            1 => format!("and.b32 {u}, {v}, 7; xor.b32 {u}, {u}, {w};"),
            2 => format!("bar.red.popc.u32 {u}, 0, {p};"),
            3 => {
                let op = self.random.pick(&["and", "or"]);
                let q = self.positive();
                format!("bar.red.{op}.pred {q}, 0, {p};")
            }
            4 if self.full_warps => format!("barrier.sync 3, {threads};"),
            _ => format!(
                "st.shared.b32 [%slot], {s};\nbar.sync 0;\nrem.u32 %t0, {r}, {threads}; mad.lo.u32 %t0, %t0, 64, %base;\n\
                 ld.shared.b32 {r}, [%t0];\nbar.sync 0;"
            ),
        }
    }

    /// Products of matrices, some with a fragment in common.
    fn products(&mut self) -> String {
        let (ty, bits) =
            *self.random.pick(&[("bf16", 16), ("bf16", 16), ("f16", 16), ("tf32", 32)]);
        let k = if self.random.one_in(3) { 128 / bits } else { 256 / bits };
        // Of the lanes' numbers: signs and low digits, with exponents of these.
        let (kept, exponents) = match ty {
            // Few digits and one exponent: sums are exact.
            "bf16" if self.strict => (0x8070_8070, 0x3f80_3f80),
            "f16" if self.strict => (0x8380_8380, 0x3c00_3c00),
            _ if self.strict => (0x8070_0000, 0x3f80_0000),
            "tf32" => (
                0x80ff_ffff,
                *self.random.pick(&[0x3f80_0000, 0x2000_0000, 0x1f00_0000, 0x7f00_0000]),
            ),
            _ => (
                0x80ff_80ff,
                *self.random.pick(&[0x3f00_3f00, 0x2680_2680, 0x2600_2600, 0x3f00_0000]),
            ),
        };
        let mut lines = String::new();
        if self.strict {
            lines += "bar.warp.sync $M;\n";
        }
        for i in 0..REGISTERS {
            if self.strict || !self.random.one_in(8) {
                lines +=
                    &format!("and.b32 %r{i}, %r{i}, {kept}; or.b32 %r{i}, %r{i}, {exponents};\n");
            }
            if self.strict {
                lines += &format!("and.b32 %t0, %r{i}, 240; cvt.rn.f32.u32 %f{i}, %t0;\n");
            }
        }
        let list = |letter: char, first: u64, count: u64| {
            let names: Vec<String> =
                (0..count).map(|i| format!("%{letter}{}", (first + i) % REGISTERS)).collect();
            format!("{{{}}}", names.join(", "))
        };
        let registers = k * bits / 128;
        let (mut a, mut b, mut d) = (0, 0, 0);
        for _ in 0..1 + self.random.below(4) {
            match self.random.below(3) {
                0 => a = self.random.below(REGISTERS),
                1 => b = self.random.below(REGISTERS),
                _ => {
                    let r = self.register('r');
                    let changed = match self.strict {
                        true => self.random.bits() as u32 & kept,
                        false => self.random.below(64) as u32,
                    };
                    lines += &format!("xor.b32 {r}, {r}, {changed};\n");
                }
            }
            // Often the sums of the product before.
            if self.random.one_in(3) {
                d = self.random.below(REGISTERS);
            }
            let c = if self.random.one_in(4) { self.random.below(REGISTERS) } else { d };
            lines += &format!(
                "mma.sync.aligned.m16n8k{k}.row.col.f32.{ty}.{ty}.f32 {}, {}, {}, {};\n",
                list('f', d, 4),
                list('r', a, 2 * registers),
                list('r', b, registers),
                list('f', c, 4)
            );
        }
        lines
    }
}

/// NVIDIA's compiler (CUDA 13.0) writes the results of these also where their guard is false.
fn guard_is_ignored(name: &str) -> bool {
    name.starts_with("testp.") || name.starts_with("set.") && name.contains(".f32.")
}

/// An instruction that a compiler may fuse with another one, made to round by itself.
fn rounded(name: &str) -> String {
    let mut parts = name.split('.');
    let fusible = matches!(parts.next(), Some("add" | "sub" | "mul"));
    let float = name.rsplit('.').next().is_some_and(|ty| ty.contains('f'));
    let rounds = parts.any(|part| matches!(part, "rn" | "rz" | "rm" | "rp"));
    match name.split_once('.') {
        Some((operation, rest)) if fusible && float && !rounds => format!("{operation}.rn.{rest}"),
        _ => name.to_owned(),
    }
}
