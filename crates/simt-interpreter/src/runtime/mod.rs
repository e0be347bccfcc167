//! Device runtime functions: `vprintf`, `__assertfail`, `malloc`, `free`, and calls of our own device runtime library.

mod device_call;
mod printf;

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{Body, Rare, Target, active, versions};
use crate::ops::memory::lanes;
use simt::ir::op::Runtime;
use simt::kernel::FaultKind;
use simt::runtime::heap::NotABlock;

/// Longest string read from a kernel (a format, a message), bytes: CUDA's printf FIFO of 1 MiB is
/// shared by all threads, so nothing sensible is longer.
const STRING_BYTES_MAX: u64 = 64 << 10;
impl HandlerContext<'_> {
    /// A copy of memory that a lane can read.
    fn bytes<const N: usize>(&mut self, lane: u32, address: u64) -> Result<[u8; N], FaultKind> {
        let from = self.resolve_generic(lane, address, N as u64, false)?;
        Ok(from.read())
    }

    /// A string that ends with 0.
    fn string(&mut self, lane: u32, address: u64) -> Result<Vec<u8>, FaultKind> {
        let mut text = Vec::new();
        for i in 0..STRING_BYTES_MAX {
            match self.bytes::<1>(lane, address.wrapping_add(i))? {
                [0] => break,
                [byte] => text.push(byte),
            }
        }
        Ok(text)
    }
}

struct Vprintf;

impl Body for Vprintf {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        for lane in lanes(m) {
            let (format, arguments) =
                (machine.regs.lane(ins.a[0], lane), machine.regs.lane(ins.a[1], lane));
            let text = match format {
                0 => Ok(None),
                _ => machine
                    .string(lane, format)
                    .and_then(|format| machine.format(lane, &format, arguments))
                    .map(Some),
            };
            // Other than C's, CUDA's printf gives the number of arguments, and -1 without a format.
            let result = match text {
                Ok(Some((text, taken))) => {
                    machine.block.launch.printf.print(&text);
                    taken as i32
                }
                Ok(None) => -1,
                Err(kind) => return machine.fail(lane, kind),
            };
            machine.regs.set_lane::<i32>(ins.d[0], lane, result);
        }
        Step::Next
    }
}

struct AssertFail;

impl Body for AssertFail {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        let Some(first) = lanes(m).next() else { return Step::Next };
        let mut lines = Vec::new();
        for lane in lanes(m) {
            let (message, file, line, function): (u64, u64, u32, u64) = (
                machine.regs.lane(ins.a[0], lane),
                machine.regs.lane(ins.a[1], lane),
                machine.regs.lane(ins.a[2], lane),
                machine.regs.lane(ins.a[3], lane),
            );
            let mut text = |address| {
                let bytes = machine.string(lane, address).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let (message, file, function) = (text(message), text(file), text(function));
            let block = machine.index;
            let thread = machine.thread(lane);
            // The wording of CUDA's own runtime, which programs and people search for.
            lines.push(format!(
                "{file}:{line}: {function}: block: [{},{},{}], thread: [{},{},{}] Assertion `{message}` failed.",
                block.x, block.y, block.z, thread.x, thread.y, thread.z
            ));
        }
        machine.fail(first, FaultKind::Assert { message: lines.join("\n") })
    }
}

struct Malloc;

impl Body for Malloc {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        for lane in lanes(active(machine, ins)) {
            let bytes: u64 = machine.regs.lane(ins.a[0], lane);
            let program = &machine.block.program;
            let address = program.heap.as_ref().map_or(0, |heap| heap.allocate(bytes));
            if let Some(checker) = program.checker().filter(|_| address != 0) {
                checker.allocated(address, bytes);
            }
            machine.regs.set_lane::<u64>(ins.d[0], lane, address);
        }
        Step::Next
    }
}

struct Free;

impl Body for Free {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        for lane in lanes(active(machine, ins)) {
            let address: u64 = machine.regs.lane(ins.a[0], lane);
            let program = &machine.block.program;
            // Afterwards it may be another thread's already.
            if let Some(checker) = program.checker() {
                checker.freed(address);
            }
            let released = match &program.heap {
                Some(heap) => heap.release(address),
                None => Err(NotABlock::Elsewhere),
            };
            let kind = match released {
                Ok(()) => continue,
                Err(NotABlock::Elsewhere) => {
                    FaultKind::IllegalAddress { address, bytes: 0, write: true }
                }
                Err(what) => FaultKind::InvalidFree { address, what },
            };
            return machine.fail(lane, kind);
        }
        Step::Next
    }
}

struct NoLaunch;

impl Body for NoLaunch {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        match active(machine, ins) {
            0 => Step::Next,
            m => machine.fail(m.trailing_zeros(), FaultKind::DynamicParallelism),
        }
    }
}

/// The handler of a runtime function.
pub(super) fn handler(function: Runtime) -> Handler {
    let t = Rare(Target::Baseline);
    match function {
        Runtime::Vprintf => versions::<Vprintf, Vprintf>(t),
        Runtime::AssertFail => versions::<AssertFail, AssertFail>(t),
        Runtime::Malloc => versions::<Malloc, Malloc>(t),
        Runtime::Free => versions::<Free, Free>(t),
        Runtime::DeviceCall => versions::<device_call::DeviceCall, device_call::DeviceCall>(t),
        Runtime::DynamicParallelism => versions::<NoLaunch, NoLaunch>(t),
    }
}
