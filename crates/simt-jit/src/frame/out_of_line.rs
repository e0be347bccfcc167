//! Out-of-line code, behind the function: exit stubs, failed checks, interpreter calls, divergent
//! branches.
//!
//! Code that may need it gives a label and a closure; the closure emits the code after all versions
//! of blocks are made, and can ask for more.

use crate::asm::assembler::{Label, X};
use crate::frame_layout::{Field, field};
use crate::function::Compiler;
use iced_x86::Code;

/// A piece of code behind the function.
pub(crate) struct OutOfLine {
    label: Label,
    /// Where it was asked for: block, instruction, in the masked version.
    position: (usize, usize, bool),
    /// It is a slow path, which is counted if that is wanted.
    is_slow: bool,
    emit: Box<dyn FnOnce(&mut Compiler<'_>)>,
}

impl Compiler<'_> {
    /// Asks for out-of-line code at a label. `emit` emits it, with the block, the instruction and the
    /// version under construction as they are now.
    pub(crate) fn out_of_line(
        &mut self,
        label: Label,
        emit: impl FnOnce(&mut Compiler<'_>) + 'static,
    ) {
        let position = (self.block, self.index, self.masked);
        self.deferred_code.push_back(OutOfLine {
            label,
            position,
            is_slow: false,
            emit: Box::new(emit),
        });
    }

    /// [`Self::out_of_line`] for a slow path.
    pub(crate) fn slow_path(
        &mut self,
        label: Label,
        emit: impl FnOnce(&mut Compiler<'_>) + 'static,
    ) {
        self.out_of_line(label, emit);
        if let Some(last) = self.deferred_code.back_mut() {
            last.is_slow = true;
        }
    }

    /// [`Self::slow_path`] that goes on at `back`.
    pub(crate) fn slow_path_to(
        &mut self,
        label: Label,
        back: Label,
        emit: impl FnOnce(&mut Compiler<'_>) + 'static,
    ) {
        self.slow_path(label, move |c| {
            emit(c);
            c.a.jump(Code::Jmp_rel32_64, back);
        });
    }

    /// Emits all out-of-line code.
    pub(crate) fn emit_out_of_line(&mut self) {
        while let Some(code) = self.deferred_code.pop_front() {
            let (block, index, masked) = code.position;
            self.forget_cached();
            self.block = block;
            (self.index, self.masked) = (index, masked);
            self.a.bind(code.label);
            if code.is_slow && self.counts_slow_paths {
                let counter = field(Field::SlowPaths).into();
                self.a.op(Code::Add_rm64_imm32, &[counter, X::I(1)]);
            }
            (code.emit)(self);
        }
    }

    /// Takes bytes off the counter that were counted before their access.
    pub(crate) fn uncount_bytes(&mut self, bytes: i32) {
        if bytes != 0 && !self.ablation.counters {
            let counter = field(Field::GlobalBytes).into();
            self.a.op(Code::Sub_rm64_imm32, &[counter, X::I(bytes)]);
        }
    }
}
