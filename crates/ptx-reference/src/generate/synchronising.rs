//! Random programs in which threads wait for each other: named barriers (sync, arrive and red, also
//! in the arms of a branch), mbarriers with an elected lane, spin locks, tickets, flags, and
//! collectives of warps whose lanes have come apart.
//!
//! A program is a list of segments, each of which may be taken away. Results do not depend on the
//! order in which threads run: values are handed over across what orders them, locks guard sums,
//! and tickets fix the order. Each segment has memory and barriers of its own, so that warps may be
//! in different segments at a time; barriers are used again behind one that all threads pass.

use crate::{Argument, Buffer, Launch, Random};
use std::fmt::Write;

/// Named barriers that segments get; barrier 0 is for all threads of a block.
const NAMED: std::ops::Range<u32> = 1..16;
/// Threads of a warp.
const LANES: u32 = 32;
/// Words of the second buffer that each segment has: a lock, a sum.
const WORDS: u32 = 2;

/// Where lanes of a warp come to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// All at one place.
    None,
    /// At two: by a bit of the lane's number.
    Lane(u32),
    /// At two: by a bit of the value that the thread has.
    Value(u32),
}

/// Which function a pointer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Functions {
    /// One that a compiler may put in the place of the call.
    Plain,
    /// One with a call through a pointer in it, never made, that it may rather not.
    Called,
    /// By a bit of the lane's number.
    Lane(u32),
}

/// Functions that take a lock, and pointers to them.
const FUNCTIONS: &str = "\
    .func take(.param .b64 lock)\n{\n.reg .b64 %k;\n.reg .b32 %x;\n.reg .pred %p;\n\
    ld.param.b64 %k, [lock];\n\
    AGAIN: atom.global.cas.b32 %x, [%k], 0, 1;\nsetp.ne.u32 %p, %x, 0; @%p bra AGAIN;\nret;\n}\n\
    .func take_called(.param .b64 lock)\n{\n.reg .b64 %k, %none;\n.reg .b32 %x;\n.reg .pred %p;\n\
    ld.param.b64 %k, [lock];\nmov.u64 %none, 0; setp.eq.u64 %p, %k, 0;\n\
    NOTHING: .callprototype _ ();\n@%p call %none, (), NOTHING;\n\
    AGAIN: atom.global.cas.b32 %x, [%k], 0, 1;\nsetp.ne.u32 %p, %x, 0; @%p bra AGAIN;\nret;\n}\n\
    .global .align 8 .u64 functions[2] = {take, take_called};\n";

/// What threads do in a segment.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A loop that lanes leave at different times.
    Work,
    /// Each thread takes another one's value, across a barrier of the block.
    Exchange { shift: u32, counted: bool, split: Split },
    /// Warps arrive, others wait.
    HandOver { from: u32, to: u32, split: Split },
    /// A reduction over the block.
    Reduce { operation: u32, bit: u32, split: Split },
    /// Every `stride`-th thread takes a lock.
    Lock { form: u32, stride: u32 },
    /// The same, taken in a function that is called through a pointer.
    LockInFunction { functions: Functions, stride: u32 },
    /// All threads of a block in the order of their tickets.
    Ticket { shift: u32 },
    /// One lane of a warp waits for an mbarrier, then the warp passes on to another one.
    Elected { lane: u32, all_arrive: bool, split: Split },
    /// All threads but one wait for a flag, which that one sets.
    Flag { setter: u32 },
    /// A shuffle and a vote of all lanes.
    Collective { lane: u32, bit: u32 },
}

/// A program.
#[derive(Clone, Debug)]
pub struct Synchronising {
    warps: u32,
    blocks: u32,
    segments: Vec<(u32, Kind)>,
    /// Kept apart from the segments, so that taking one away changes no other's memory.
    count: u32,
}

impl Synchronising {
    /// The program of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let warps = 2 + random.below(3) as u32;
        let blocks = 1 + random.below(2) as u32;
        let count = 3 + random.below(6) as u32;
        let segments = (0..count).map(|number| (number, kind(&mut random, warps))).collect();
        Self { warps, blocks, segments, count }
    }

    fn threads(&self) -> u32 {
        LANES * self.warps
    }

    /// The same without one of its segments, for each.
    pub fn smaller(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.segments.len()).map(|at| {
            let mut program = self.clone();
            program.segments.remove(at);
            program
        })
    }

    /// Its launch.
    pub fn launch(&self) -> Launch {
        Launch {
            kernel: "k".to_owned(),
            grid: [self.blocks, 1, 1],
            block: [self.threads(), 1, 1],
            shared_bytes: 0,
            arguments: vec![Argument::Buffer(0), Argument::Buffer(1)],
        }
    }

    /// What its arguments point to: a word a thread, and the segments' words.
    pub fn buffers(&self) -> Vec<Buffer> {
        let words = |count: u32| vec![0; 4 * count as usize];
        vec![words(self.blocks * self.threads()), words(WORDS * self.count)]
    }

    /// Shared memory of a segment, bytes: a word a thread, an mbarrier, a flag and a value.
    fn segment_bytes(&self) -> u32 {
        4 * self.threads() + 16
    }

    /// Its text.
    pub fn text(&self) -> String {
        let (threads, bytes) = (self.threads(), self.segment_bytes());
        let all = bytes * self.count.max(1);
        let calls = |(_, kind): &(u32, Kind)| matches!(kind, Kind::LockInFunction { .. });
        let functions = if self.segments.iter().any(calls) { FUNCTIONS } else { "" };
        let mut text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n{functions}\
             .visible .entry k(.param .u64 out, .param .u64 words)\n{{\n\
             .shared .align 16 .b8 tile[{all}];\n\
             .reg .b32 %acc, %t, %l, %w, %b, %own, %x, %y, %z, %n;\n\
             .reg .b64 %o, %g, %c, %s, %f, %k;\n.reg .pred %p, %q, %u;\n\
             ld.param.u64 %o, [out]; ld.param.u64 %g, [words];\n\
             mov.u32 %t, %tid.x; mov.u32 %l, %laneid; shr.u32 %w, %t, 5;\n\
             mov.u32 %b, tile; mad.lo.u32 %own, %t, 4, %b;\n\
             mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, {threads}, %t;\n\
             mad.wide.u32 %o, %x, 4, %o; mad.lo.u32 %acc, %x, 1664525, 12345;\n\
             mov.u32 %x, 0;\n\
             CLEAR: add.u32 %y, %own, %x; st.shared.u32 [%y], 0;\n\
             add.u32 %x, %x, {step}; add.u32 %y, %x, %own; sub.u32 %y, %y, %b;\n\
             setp.lt.u32 %p, %y, {all}; @%p bra CLEAR;\n\
             bar.sync 0;\n\
             setp.ne.u32 %p, %t, 0; @%p bra MADE;\n",
            step = 4 * threads,
        );
        for (number, kind) in &self.segments {
            if let Kind::Elected { all_arrive, .. } = kind {
                let count = if *all_arrive { LANES } else { 1 };
                let at = number * bytes + 4 * threads;
                writeln!(text, "mbarrier.init.shared.b64 [%b+{at}], {count};").unwrap();
            }
        }
        text += "MADE: bar.sync 0;\n";
        let mut barrier = NAMED.start;
        for (number, kind) in &self.segments {
            if barrier == NAMED.end {
                text += "bar.sync 0;\n";
                barrier = NAMED.start;
            }
            self.segment(&mut text, *number, *kind, barrier);
            barrier += 1;
        }
        text + "st.global.u32 [%o], %acc;\nret;\n}\n"
    }

    fn segment(&self, text: &mut String, i: u32, kind: Kind, barrier: u32) {
        let threads = self.threads();
        let at = i * self.segment_bytes();
        let (mbarrier, flag, value) =
            (at + 4 * threads, at + 4 * threads + 8, at + 4 * threads + 12);
        let (lock, sum) = (4 * WORDS * i, 4 * WORDS * i + 4);
        writeln!(text, "// {i}: {kind:?}").unwrap();
        match kind {
            Kind::Work => {
                writeln!(
                    text,
                    "and.b32 %n, %acc, 7;\n\
                     W{i}: mad.lo.u32 %acc, %acc, 1664525, 1013904223;\n\
                     sub.u32 %n, %n, 1; setp.ge.s32 %p, %n, 0; @%p bra W{i};"
                )
            }
            Kind::Exchange { shift, counted, split } => {
                let count = if counted { format!(", {threads}") } else { String::new() };
                let sync = |part: u32| {
                    arms(split, &format!("{i}_{part}"), &format!("barrier.sync {barrier}{count};"))
                };
                writeln!(
                    text,
                    "st.shared.u32 [%own+{at}], %acc;\n{}\
                     add.u32 %x, %t, {shift}; rem.u32 %x, %x, {threads};\n\
                     mad.lo.u32 %x, %x, 4, %b; ld.shared.u32 %y, [%x+{at}];\n{}\
                     mad.lo.u32 %acc, %acc, 3, %y;",
                    sync(0),
                    sync(1),
                )
            }
            Kind::HandOver { from, to, split } => {
                let count = LANES * (from | to).count_ones();
                let first = from.trailing_zeros() * LANES;
                let arms = |part: &str, what: &str| {
                    arms(
                        split,
                        &format!("{i}_{part}"),
                        &format!("barrier.{what} {barrier}, {count};"),
                    )
                };
                writeln!(
                    text,
                    "shr.u32 %x, {from}, %w; and.b32 %x, %x, 1; setp.ne.u32 %p, %x, 0;\n\
                     shr.u32 %x, {to}, %w; and.b32 %x, %x, 1; setp.ne.u32 %u, %x, 0;\n\
                     @%u bra T{i};\n@!%p bra E{i};\n\
                     st.shared.u32 [%own+{at}], %acc;\n{}bra E{i};\n\
                     T{i}:\n{}\
                     add.u32 %x, %l, {first}; mad.lo.u32 %x, %x, 4, %b;\n\
                     ld.shared.u32 %y, [%x+{at}]; mad.lo.u32 %acc, %acc, 5, %y;\n\
                     E{i}:",
                    arms("from", "arrive"),
                    arms("to", "sync"),
                )
            }
            Kind::Reduce { operation, bit, split } => {
                let what = match operation {
                    0 => format!("barrier.red.popc.u32 %y, {barrier}, %u;"),
                    1 => format!("barrier.red.and.pred %u, {barrier}, %u; selp.u32 %y, 1, 0, %u;"),
                    _ => format!("barrier.red.or.pred %u, {barrier}, !%u; selp.u32 %y, 1, 0, %u;"),
                };
                writeln!(
                    text,
                    "shr.u32 %x, %acc, {bit}; and.b32 %x, %x, 1; setp.ne.u32 %u, %x, 0;\n{}\
                     add.u32 %acc, %acc, %y;",
                    arms(split, &i.to_string(), &what),
                )
            }
            Kind::LockInFunction { functions, stride } => {
                let guarded = guarded(lock, sum);
                let index = match functions {
                    Functions::Plain => "mov.u32 %x, 0;".to_owned(),
                    Functions::Called => "mov.u32 %x, 1;".to_owned(),
                    Functions::Lane(bit) => format!("shr.u32 %x, %l, {bit}; and.b32 %x, %x, 1;"),
                };
                writeln!(
                    text,
                    "rem.u32 %x, %t, {stride}; setp.ne.u32 %p, %x, 0; @%p bra E{i};\n\
                     {index} mov.u64 %f, functions; mad.wide.u32 %f, %x, 8, %f;\n\
                     ld.global.u64 %f, [%f]; add.s64 %k, %g, {lock};\n\
                     {{\n.param .b64 place;\nst.param.b64 [place], %k;\n\
                     P{i}: .callprototype _ (.param .b64 _);\ncall %f, (place), P{i};\n}}\n\
                     {guarded}E{i}:"
                )
            }
            Kind::Lock { form, stride } => {
                let guarded = guarded(lock, sum);
                let take = match form {
                    0 => format!(
                        "L{i}: atom.global.cas.b32 %x, [%g+{lock}], 0, 1;\n\
                         setp.ne.u32 %p, %x, 0; @%p bra L{i};\n{guarded}"
                    ),
                    1 => format!(
                        "L{i}: ld.volatile.global.u32 %x, [%g+{lock}];\n\
                         setp.ne.u32 %p, %x, 0; @%p bra L{i};\n\
                         atom.global.exch.b32 %x, [%g+{lock}], 1;\n\
                         setp.ne.u32 %p, %x, 0; @%p bra L{i};\n{guarded}"
                    ),
                    2 => format!(
                        "mov.u32 %n, 8;\nL{i}: atom.global.cas.b32 %x, [%g+{lock}], 0, 1;\n\
                         setp.eq.u32 %p, %x, 0; @%p bra G{i};\n\
                         nanosleep.u32 %n; shl.b32 %n, %n, 1; min.u32 %n, %n, 128; bra L{i};\n\
                         G{i}: {guarded}"
                    ),
                    _ => format!(
                        "mov.u32 %n, 0;\nL{i}: atom.global.cas.b32 %x, [%g+{lock}], 0, 1;\n\
                         setp.ne.u32 %p, %x, 0; @%p bra A{i};\n{guarded}mov.u32 %n, 1;\n\
                         A{i}: setp.eq.u32 %p, %n, 0; @%p bra L{i};\n"
                    ),
                };
                writeln!(
                    text,
                    "rem.u32 %x, %t, {stride}; setp.ne.u32 %p, %x, 0; @%p bra E{i};\n{take}E{i}:"
                )
            }
            Kind::Ticket { shift } => {
                writeln!(
                    text,
                    "add.u32 %n, %t, {shift}; rem.u32 %n, %n, {threads};\n\
                     L{i}: ld.volatile.shared.u32 %x, [%b+{flag}];\n\
                     setp.ne.u32 %p, %x, %n; @%p bra L{i};\n\
                     ld.volatile.shared.u32 %y, [%b+{value}];\n\
                     mad.lo.u32 %y, %y, 3, %n; st.volatile.shared.u32 [%b+{value}], %y;\n\
                     xor.b32 %acc, %acc, %y; membar.cta;\n\
                     add.u32 %x, %n, 1; st.volatile.shared.u32 [%b+{flag}], %x;"
                )
            }
            Kind::Elected { lane, all_arrive, split } => {
                let arrive = match all_arrive {
                    true => format!("mbarrier.arrive.shared.b64 %s, [%b+{mbarrier}];\n"),
                    false => format!(
                        "bar.warp.sync 0xffffffff;\nsetp.ne.u32 %p, %l, 0; @%p bra E{i};\n\
                         mbarrier.arrive.shared.b64 %s, [%b+{mbarrier}];\n"
                    ),
                };
                // The first warp fills, the second one's lane waits, the last one reads. Of two
                // warps the second one reads.
                let reads = format!(
                    "mad.lo.u32 %x, %l, 4, %b; ld.shared.u32 %y, [%x+{at}];\n\
                     mad.lo.u32 %acc, %acc, 7, %y;\n"
                );
                let (pass_on, last) = match self.warps {
                    2 => (format!("bar.warp.sync 0xffffffff;\n{reads}"), String::new()),
                    _ => {
                        let arms = |part: &str, what: &str| {
                            let what = format!("barrier.{what} {barrier}, 64;");
                            arms(split, &format!("{i}_{part}"), &what)
                        };
                        (arms("pass", "arrive"), format!("{}{reads}", arms("take", "sync")))
                    }
                };
                let kind = if lane & 1 == 0 { "test_wait" } else { "try_wait" };
                writeln!(
                    text,
                    "setp.eq.u32 %p, %w, 1; @%p bra S{i};\n\
                     setp.eq.u32 %p, %w, 2; @%p bra T{i};\n\
                     setp.ne.u32 %p, %w, 0; @%p bra E{i};\n\
                     st.shared.u32 [%own+{at}], %acc;\n{arrive}bra E{i};\n\
                     S{i}: setp.ne.u32 %p, %l, {lane}; @%p bra J{i};\n\
                     L{i}: mbarrier.{kind}.parity.shared.b64 %p, [%b+{mbarrier}], 0;\n\
                     @!%p bra L{i};\n\
                     J{i}:\n{pass_on}bra E{i};\n\
                     T{i}:\n{last}E{i}:"
                )
            }
            Kind::Flag { setter } => {
                writeln!(
                    text,
                    "setp.ne.u32 %p, %t, {setter}; @%p bra L{i};\n\
                     st.volatile.shared.u32 [%b+{flag}], {};\nbra E{i};\n\
                     L{i}: ld.volatile.shared.u32 %x, [%b+{flag}];\n\
                     setp.eq.u32 %p, %x, 0; @%p bra L{i};\n\
                     add.u32 %acc, %acc, %x;\nE{i}:",
                    setter + 1
                )
            }
            Kind::Collective { lane, bit } => {
                writeln!(
                    text,
                    "shfl.sync.bfly.b32 %x, %acc, {lane}, 31, 0xffffffff;\n\
                     shr.u32 %y, %acc, {bit}; and.b32 %y, %y, 1; setp.ne.u32 %p, %y, 0;\n\
                     vote.sync.ballot.b32 %y, %p, 0xffffffff;\n\
                     mad.lo.u32 %acc, %acc, 9, %x; xor.b32 %acc, %acc, %y;"
                )
            }
        }
        .unwrap();
    }
}

/// Adds to what a lock guards, and gives it back.
fn guarded(lock: u32, sum: u32) -> String {
    format!(
        "ld.volatile.global.u32 %y, [%g+{sum}]; and.b32 %z, %acc, 15;\n\
         add.u32 %y, %y, %z; add.u32 %y, %y, 1;\n\
         st.volatile.global.u32 [%g+{sum}], %y; membar.gl;\n\
         atom.global.exch.b32 %y, [%g+{lock}], 0;\n"
    )
}

/// An instruction, once or in both arms of a branch.
fn arms(split: Split, label: &str, what: &str) -> String {
    let (of, bit) = match split {
        Split::None => return what.replacen("barrier.", "bar.", 1) + "\n",
        Split::Lane(bit) => ("%l", bit),
        Split::Value(bit) => ("%acc", bit),
    };
    format!(
        "shr.u32 %x, {of}, {bit}; and.b32 %x, %x, 1; setp.ne.u32 %q, %x, 0;\n\
         @%q bra X{label};\n{what}\nbra Y{label};\nX{label}: {what}\nY{label}:\n"
    )
}

fn split(random: &mut Random) -> Split {
    match random.below(4) {
        0 => Split::Lane(random.below(5) as u32),
        1 => Split::Value(random.below(8) as u32),
        _ => Split::None,
    }
}

fn kind(random: &mut Random, warps: u32) -> Kind {
    let threads = u64::from(LANES * warps);
    let mut below = |limit: u64| random.below(limit) as u32;
    match below(13) {
        0 => Kind::Work,
        1 => {
            let (shift, counted) = (below(threads), below(2) == 0);
            Kind::Exchange { shift, counted, split: split(random) }
        }
        2 | 3 => {
            let from = 1 << below(warps.into());
            let to = 1 << below(warps.into());
            let to = if from == to { ((1 << warps) - 1) & !from } else { to };
            Kind::HandOver { from, to, split: split(random) }
        }
        4 => {
            let (operation, bit) = (below(3), below(8));
            Kind::Reduce { operation, bit, split: split(random) }
        }
        5 | 6 => Kind::Lock { form: below(4), stride: 1 + below(5) },
        7 => Kind::Ticket { shift: below(threads) },
        8 | 9 => {
            let (lane, all_arrive) = (below(32), below(2) == 0);
            Kind::Elected { lane, all_arrive, split: split(random) }
        }
        10 => Kind::Flag { setter: below(threads) },
        11 => {
            let functions = match below(3) {
                0 => Functions::Plain,
                1 => Functions::Called,
                _ => Functions::Lane(below(5)),
            };
            Kind::LockInFunction { functions, stride: 1 + below(5) }
        }
        _ => Kind::Collective { lane: 1 + below(31), bit: below(8) },
    }
}
