//! Out-of-line code, behind the function: exit stubs, failed checks, interpreter calls, divergent
//! branches.
//!
//! Code that may need it asks for a piece and gets a label; the piece is made after all versions of
//! blocks, and can ask for more.

use crate::asm::assembler::{Label, X};
use crate::avx2::VectorRegion;
use crate::avx512::matrix::{DeferredLoad, PairCheck};
use crate::avx512::memory::quad_tile::QuadTile;
use crate::avx512::operands::Value;
use crate::frame::entry_exit::Exit;
use crate::frame::layout::{A, C, Field, field};
use crate::function::Compiler;
use crate::memory::check_coalescing::CheckGroups;
use crate::shared::predicate::Steps;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt_interpreter::tier1_abi::LEAVE;
use std::rc::Rc;

/// What stands behind the function.
pub(crate) enum Cold {
    /// Leaves at a block.
    Out { label: Label, block: usize, way: Exit },
    /// Runs an instruction by the interpreter, then goes on at `back`; `counted` bytes that it
    /// accesses have been counted already.
    Decoded { label: Label, back: Label, block: usize, index: usize, masked: bool, counted: i32 },
    /// Runs a region's members by the interpreter; what `in_eax` names is expected there.
    VectorRegion {
        label: Label,
        back: Label,
        block: usize,
        masked: bool,
        members: Vec<usize>,
        in_eax: Option<Reg>,
    },
    /// Checks the accesses of a region one by one, then goes on at `ready`.
    Alone {
        label: Label,
        ready: Label,
        slow: Label,
        block: usize,
        masked: bool,
        region: Rc<VectorRegion>,
    },
    /// Looks closely whether a product can be made in pairs.
    PairCheck { label: Label, back: Label, slow: Label, pair_check: PairCheck },
    /// Runs an access to a quad tile by the interpreter.
    QuadTile { label: Label, back: Label, block: usize, index: usize, quad_tile: QuadTile },
    /// Loads matrices.
    Late { label: Label, back: Label, block: usize, loads: Vec<DeferredLoad> },
    /// Makes a block's checks again, by the interpreter.
    Check { label: Label, back: Label, block: usize, masked: bool },
    /// Gathers or scatters what is not contiguous.
    Apart { label: Label, back: Label, block: usize, index: usize },
    /// What is left of a block from an instruction on, where its accesses are checked one by one.
    Rest { label: Label, block: usize, index: usize, counted: i32, moved: Vec<(Register, Reg)> },
    /// Makes the NaNs of f32 lanes canonical.
    Canonical { label: Label, back: Label, value: Value },
    /// Compares lanes one by one: their outcomes go to EAX.
    Compare {
        label: Label,
        back: Label,
        block: usize,
        index: usize,
        masked: bool,
        steps: Option<Steps>,
    },
    /// The end of an unmasked version whose last instruction's outcomes are in EAX.
    Ending { label: Label, block: usize, index: usize },
    /// A back-edge's turn has ended: nothing has happened yet, but that a predicate was decided.
    Turn { label: Label, block: usize, known_branch: Option<(Reg, i32)> },
    /// All lanes go from a block to a block.
    Edge { label: Label, block: usize, to: usize, masked: bool },
    /// All lanes that run, of a warp of which others wait elsewhere or have exited, exit.
    Exit { label: Label, block: usize },
    /// Some lanes of a full warp go one way, the others the other; those in EAX to the first.
    Part { label: Label, block: usize, masked: bool },
    /// Lanes go to a block behind one at which others wait.
    Queue { label: Label, block: usize, to: usize },
}

impl Compiler<'_> {
    fn uncount_bytes(&mut self, bytes: i32) {
        if bytes != 0 && !self.ablation.counters {
            let counter = field(Field::GlobalBytes).into();
            self.a.op(Code::Sub_rm64_imm32, &[counter, X::I(bytes)]);
        }
    }

    /// Binds the label of a slow path, and counts that it is taken where that is wanted.
    fn bind_slow_path(&mut self, label: Label) {
        self.a.bind(label);
        if self.counts_slow_paths {
            let counter = field(Field::SlowPaths).into();
            self.a.op(Code::Add_rm64_imm32, &[counter, X::I(1)]);
        }
    }

    pub(crate) fn emit_out_of_line(&mut self, out_of_line: Cold) {
        self.forget_cached();
        match out_of_line {
            Cold::Out { label, block, way } => {
                if label != self.leave {
                    self.a.bind(label);
                    self.emit_exit(block, way);
                }
            }
            Cold::Decoded { label, back, block, index, masked, counted } => {
                self.bind_slow_path(label);
                self.uncount_bytes(counted);
                self.set_current_block(block);
                (self.masked, self.index) = (masked, index);
                self.call_interpreter(block, index);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::VectorRegion { label, back, block, masked, members, in_eax } => {
                self.bind_slow_path(label);
                self.set_current_block(block);
                self.masked = masked;
                self.region_interpreted(&members, in_eax);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Alone { label, ready, slow, block, masked, region } => {
                self.bind_slow_path(label);
                self.set_current_block(block);
                self.masked = masked;
                self.check_alone(&region, slow);
                self.a.jump(Code::Jmp_rel32_64, ready);
            }
            Cold::PairCheck { label, back, slow, pair_check } => {
                self.bind_slow_path(label);
                self.look_closely(&pair_check, slow);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::QuadTile { label, back, block, index, quad_tile } => {
                self.bind_slow_path(label);
                self.set_current_block(block);
                (self.masked, self.index) = (false, index);
                self.quad_tile_interpreted(&quad_tile);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Late { label, back, block, loads } => {
                self.a.bind(label);
                self.set_current_block(block);
                self.masked = false;
                loads.iter().for_each(|late| self.load_matrix_now(late));
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Check { label, back, block, masked } => {
                self.bind_slow_path(label);
                let (first, count) = self.layout.checks(block, masked);
                for check in &self.f.blocks[block].checks {
                    self.flush_scalar(check.reg.index());
                }
                self.a.load_constant(A, u64::from(first));
                self.a.load_constant(C, u64::from(count));
                self.a.jump(Code::Call_rel32_64, self.decoded);
                let out = self.exit_stub(block, Exit::Leave);
                self.a.op(Code::Cmp_rm32_imm8, &[Register::EAX.into(), X::I(LEAVE as i32)]);
                self.a.jump(Code::Je_rel32_64, out);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Apart { label, back, block, index } => {
                self.bind_slow_path(label);
                self.set_current_block(block);
                (self.masked, self.index) = (false, index);
                let f = self.f;
                self.apart(&f.blocks[block].insts[index], back);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Canonical { label, back, value } => {
                self.a.bind(label);
                self.make_canonical(value);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Rest { label, block, index, counted, moved } => {
                self.bind_slow_path(label);
                self.uncount_bytes(counted);
                self.set_current_block(block);
                self.masked = false;
                self.move_back(&moved);
                self.groups = CheckGroups::default();
                self.find_quad_tiles(block);
                self.find_lane_offsets(block);
                self.merged = 0..0;
                let b = &self.f.blocks[block];
                for (index, inst) in b.insts.iter().enumerate().skip(index) {
                    self.index = index;
                    self.instruction(inst);
                }
                self.emit_deferred_loads(usize::MAX);
                self.terminator(&b.term);
            }
            Cold::Compare { label, back, block, index, masked, steps } => {
                self.bind_slow_path(label);
                if let Some(steps) = steps {
                    self.compare_steps(steps, back);
                }
                self.set_current_block(block);
                (self.masked, self.index) = (masked, index);
                let inst = self.inst_at(block, index);
                self.compare_each(inst);
                self.a.jump(Code::Jmp_rel32_64, back);
            }
            Cold::Ending { label, block, index } => {
                self.a.bind(label);
                self.set_current_block(block);
                (self.masked, self.index) = (false, index);
                let f = self.f;
                let b = &f.blocks[block];
                self.store_predicate(&b.insts[index], 0);
                self.terminator(&b.term);
            }
            Cold::Turn { label, block, known_branch } => {
                self.a.bind(label);
                if let Some((r, outcome)) = known_branch {
                    let memory = self.mask_of(r);
                    self.a.op(Code::Mov_rm32_imm32, &[memory.into(), X::I(outcome)]);
                }
                self.refund_fuel(block);
                let out = self.exit_stub(block, Exit::Terminate);
                self.a.jump(Code::Jmp_rel32_64, out);
            }
            Cold::Edge { label, block, to, masked } => {
                self.a.bind(label);
                self.masked = masked;
                self.go(block, to);
            }
            Cold::Exit { label, block } => {
                self.a.bind(label);
                self.masked = true;
                self.exit(block);
            }
            Cold::Part { label, block, masked } => {
                self.a.bind(label);
                self.masked = masked;
                self.diverge(block);
            }
            Cold::Queue { label, block, to } => {
                self.a.bind(label);
                self.queue(block, to);
            }
        }
    }
}
