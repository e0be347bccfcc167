//! Spin loops, seen from a warp: whether the rounds that lanes make in one get them anywhere.
//!
//! A round that changes neither memory nor a register that is live at the loop's header is
//! fruitless: what the lanes wait for is for other lanes, warps or blocks to do, and these get
//! their turn at once. Only the interpreter sees what a round changes. Lanes that used up a time
//! slice in native code therefore make their next rounds interpreted (the *probe*).

use crate::decode::Code;
use crate::handler_context::HandlerContext;
use crate::run::program::CodeId;
use crate::run::program::Program;
use crate::run::warp::{Next, Stop, Warp};
use crate::time_slice::{FUEL, SPIN_FUEL};
use std::sync::Arc;

/// Fuel of loops that watch memory once lanes have been seen to wait for each other.
const INDEPENDENT_FUEL: i64 = 1 << 6;
/// Fruitless rounds in a row that end a time slice.
const FRUITLESS_ROUNDS: u32 = 4;
/// Rounds between two looks at registers in a loop where they change.
const INTERVAL_MAX: u32 = 63;
/// Weight of the time slices in lockstep that lanes spin for while others of their warp wait
/// behind the loop; then these may run first. What they spin for is mostly another warp's to do.
const LOCKSTEP_WEIGHT_MAX: u32 = 16;
/// Weight of a time slice whose rounds may have got the lanes somewhere.
const USED_WEIGHT: u32 = 4;

/// Pauses of native code from one probe to the next.
const PAUSES_A_PROBE: u32 = 64;

/// How a time slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceEnd {
    /// Its fuel is used up, not in a spin loop.
    Used,
    /// Its fuel is used up in a spin loop.
    Spun,
    /// The last rounds of a spin loop were fruitless.
    Fruitless,
    /// The program asked to pause.
    Paused,
}

/// What is known of the spin loop that the warp is in.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// Function, block, lanes, and a fingerprint of the registers, when it was looked at last.
    last: Option<(usize, u32, u32, u64)>,
    /// Memory may have changed since.
    pub(super) is_progress: bool,
    /// Fruitless rounds since.
    rounds: u32,
    /// Rounds until the next look, and between looks.
    wait: u32,
    interval: u32,
    /// First and last block of the loop whose next rounds are interpreted.
    pub(super) probe: Option<(u32, u32)>,
    /// Weight of the time slices so far that lanes spun for while others waited.
    weight: u32,
    /// Time slices so far that a pause ended.
    pauses: u32,
    /// Line of the loop's end, where the rounds were looked at last.
    line: u32,
    /// That line, if the last time slice ended there and its rounds were fruitless.
    pub(super) stuck: Option<u32>,
}

impl Spin {
    /// The lanes have got somewhere.
    pub(super) fn advance(&mut self) {
        self.last = None;
        self.rounds = 0;
        self.probe = None;
    }

    /// All lanes of the warp are together, or new.
    pub(super) fn restart(&mut self) {
        self.advance();
        self.weight = 0;
    }
}

impl Warp {
    /// Lanes go round a spin loop once more: true if they have had enough of it.
    pub(super) fn is_fruitless(&mut self, code: &Code, from: u32, to: u32, mask: u32) -> bool {
        let me = self.current;
        let spin = &mut self.spin;
        spin.line = code.blocks[from as usize].line;
        if std::mem::take(&mut spin.is_progress) {
            spin.advance();
            return false;
        }
        if spin.wait > 0 && spin.probe.is_none() {
            spin.wait -= 1;
            return false;
        }
        let file = &self.activations[me].file;
        let live = code.blocks[to as usize].live_in.iter();
        let fingerprint =
            live.fold(0, |hash, reg| file.fingerprint(code.places[reg.index()], mask, hash));
        let now = Some((me, to, mask, fingerprint));
        if spin.last == now {
            spin.interval = 0;
            spin.rounds += 1;
            // Its next time slice is one round, unless that gets it somewhere.
            return spin.rounds >= FRUITLESS_ROUNDS;
        }
        let known = spin.last.is_some_and(|(function, block, ..)| (function, block) == (me, to));
        if known {
            spin.advance();
            spin.interval = (2 * spin.interval + 1).min(INTERVAL_MAX);
        }
        spin.wait = spin.interval;
        spin.last = now;
        false
    }

    /// The lanes that run have had their time slice: they are queued at `at`. Other lanes of the
    /// warp, then other warps, get theirs.
    pub(super) fn end_slice(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        at: u32,
        end: SliceEnd,
    ) -> Next {
        let spins = end != SliceEnd::Used;
        let naps = end == SliceEnd::Paused && self.spin.rounds >= FRUITLESS_ROUNDS;
        self.spin.stuck = (naps || end == SliceEnd::Fruitless).then_some(self.spin.line);
        if spins {
            self.send_all_back(program, machine);
        }
        let top = self.top();
        let lockstep = top.code == CodeId::Entry;
        let others = top.pending.iter().enumerate().any(|(b, m)| b as u32 != at && *m != 0);
        let elsewhere = self.other_to_run();
        let alone = !others && elsewhere.is_none();
        self.fuel = FUEL;
        let probes = match end {
            SliceEnd::Spun | SliceEnd::Fruitless => true,
            // Work between pauses is not to be interpreted for long.
            SliceEnd::Paused => {
                self.spin.pauses = self.spin.pauses.wrapping_add(1);
                self.spin.pauses.is_multiple_of(PAUSES_A_PROBE) || self.spin.probe.is_some()
            }
            SliceEnd::Used => false,
        };
        if probes && lockstep {
            // Of what native code did nothing is known: the probe begins here.
            self.spin.is_progress &= self.spin.probe.is_some();
            self.spin.probe = program.code(CodeId::Entry).blocks[at as usize].spin_loop;
        }
        if !spins || alone {
            self.spin.weight = 0;
            return self.halt(Stop::Turn);
        }
        if lockstep {
            self.spin.weight += if end == SliceEnd::Spun { USED_WEIGHT } else { 1 };
            if self.spin.weight <= LOCKSTEP_WEIGHT_MAX && elsewhere.is_none() {
                return self.halt(Stop::Turn);
            }
            self.return_to_lockstep.spun_in =
                program.code(CodeId::Entry).blocks[at as usize].spin_loop;
            self.become_independent(program, machine);
        }
        self.fuel = INDEPENDENT_FUEL * (FUEL / SPIN_FUEL);
        self.top().rotate_from = Some(at);
        if let Some(other) = elsewhere {
            self.go_on_with(other, program, machine);
        }
        self.halt(Stop::Turn)
    }
}
