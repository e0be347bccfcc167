//! Local memory: each lane's part lies behind the one before, and addresses count from the start of
//! the lane's part.

use crate::asm::assembler::{at, repeated};
use crate::frame_layout::{FILE, Field, field};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess};
use crate::memory::per_lane_access::is_narrow;
use crate::operands::{Value, single};
use iced_x86::{Code, Register};
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// Makes code for an access to the lanes' own memory; false if there is none.
    pub(crate) fn own_memory(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        let access = mem.access;
        let whole = u32::from(access.bytes) == access.width.bytes()
            && matches!(access.width, Width::W32 | Width::W64);
        let plain = (whole || is_narrow(access))
            && !inst.uniform
            && mem.wide
            && matches!(inst.src[0], Source::Imm(_) | Source::Vector(_) | Source::Scalar(_))
            && mem.offset >= 0
            && mem.offset % mem.total == 0;
        if !plain || !self.has_lane_results(inst) {
            return false;
        }
        let back = self.a.label();
        let address = Address::Local(match inst.src[0] {
            Source::Scalar(r) => {
                self.flush_scalar(r.index());
                let offset = self.layout.place(r.index()).scalar.unwrap_or(0);
                Value::One(repeated(at(FILE, offset as i32)))
            }
            lanes => self.value(lanes, Width::W64),
        });
        self.lane_by_lane(inst, mem, address, back);
        self.a.bind(back);
        true
    }

    /// A part of the pointers that addresses in the lanes' own memory mean, in a register.
    pub(crate) fn own_address(&mut self, value: Value, part: usize, to: Register) -> Register {
        let bytes = single(field(Field::LocalBytes));
        self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, &[to.into(), bytes.into()]);
        let lanes = self.steps(1, 8 * part, Width::W64);
        let multiply = Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
        self.a.op(multiply, &[to.into(), to.into(), lanes.into()]);
        let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
        let offsets = self.part(value, part);
        self.a.op(add, &[to.into(), to.into(), offsets]);
        let start = repeated(field(Field::Local));
        self.a.op(add, &[to.into(), to.into(), start.into()]);
        to
    }
}
