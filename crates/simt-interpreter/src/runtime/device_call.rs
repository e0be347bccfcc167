//! What threads ask of the device, by the device runtime library.

use crate::handler_context::{HandlerContext, Ins, Step};
use crate::ops::map::{Body, active};
use crate::ops::memory::lanes;
use simt::kernel::{ChildLaunch, DeviceRequest, Dim3, FaultKind, NO_ANSWER};
use simt::runtime::device_runtime::number;

/// Bytes before a launch's parameters, in which the library says what to launch.
const HEADER_BYTES: u64 = 64;
/// More bytes of parameters than a kernel has.
const PARAMETER_BYTES_MAX: u32 = 64 << 10;

pub(super) struct DeviceCall;

impl Body for DeviceCall {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = active(machine, ins);
        for lane in lanes(m) {
            let (number, arguments): (u64, [u64; 4]) = {
                let argument = |n: usize| machine.regs.lane(ins.a[n + 1], lane);
                (machine.regs.lane(ins.a[0], lane), std::array::from_fn(argument))
            };
            let Some(device) = machine.block.launch.device.clone() else {
                return machine.fail(lane, FaultKind::DynamicParallelism);
            };
            let answer = match machine.request(lane, number as u32, arguments) {
                Ok(Some(request)) => device.request(machine.place_of(lane), request),
                Ok(None) => NO_ANSWER,
                Err(kind) => return machine.fail(lane, kind),
            };
            machine.regs.set_lane::<u64>(ins.d[0], lane, answer);
        }
        Step::Next
    }
}

impl HandlerContext<'_> {
    /// A lane's block and thread within the grid, as numbers.
    fn place_of(&self, lane: u32) -> (u64, u32) {
        let (grid, index) = (self.block.launch.grid, self.index);
        let rows = u64::from(index.z) * u64::from(grid.y) + u64::from(index.y);
        let block = rows * u64::from(grid.x) + u64::from(index.x);
        let (of, thread) = (self.block.launch.block, self.thread(lane));
        (block, (thread.z * of.y + thread.y) * of.x + thread.x)
    }

    /// What a call asks for; `None` if nothing is known of it.
    fn request(
        &mut self,
        lane: u32,
        number: u32,
        [a, b, c, stream]: [u64; 4],
    ) -> Result<Option<DeviceRequest>, FaultKind> {
        Ok(Some(match number {
            number::PARAMETER_BYTES => DeviceRequest::ParameterBytes(a),
            number::LAUNCH => DeviceRequest::Launch(self.child_launch(lane, a, b)?),
            number::COPY => DeviceRequest::Copy { to: a, from: b, bytes: c, stream },
            number::FILL => DeviceRequest::Fill { to: a, value: b as u8, bytes: c, stream },
            number::ATTRIBUTE => DeviceRequest::Attribute(a as u32),
            number::LIMIT => DeviceRequest::Limit(a as u32),
            number::LAST_ERROR => DeviceRequest::LastError { forget: a != 0 },
            number::NOTE_ERROR => DeviceRequest::NoteError(a as u32),
            _ => return Ok(None),
        }))
    }

    /// A launch from the buffer that the library has filled.
    fn child_launch(
        &mut self,
        lane: u32,
        buffer: u64,
        stream: u64,
    ) -> Result<ChildLaunch, FaultKind> {
        let header = self.bytes::<{ HEADER_BYTES as usize }>(lane, buffer)?;
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let extents = |at| Dim3 { x: word(at), y: word(at + 4), z: word(at + 8) };
        let kernel = u64::from(word(0)) | u64::from(word(4)) << 32;
        let length = word(36).min(PARAMETER_BYTES_MAX);
        let mut params = vec![0u8; length as usize].into_boxed_slice();
        if length > 0 {
            let from = buffer.wrapping_add(HEADER_BYTES);
            let from = self.resolve_generic(lane, from, length.into(), false)?;
            from.copy_to(&mut params);
        }
        Ok(ChildLaunch {
            kernel,
            grid: extents(8),
            block: extents(20),
            dynamic_shared_bytes: word(32),
            params,
            stream,
        })
    }
}
