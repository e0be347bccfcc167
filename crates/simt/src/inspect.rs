//! Inspection for people and tools: what each kernel needs, what of it is not supported, and every
//! stage of compilation as text.
//!
//! Nothing here places variables in a device's memory; addresses in what is shown are made up.

use crate::ir::Function;
use crate::ir::op::Op;
use crate::ir::vector::{VectorFunction, VectorKernel};
use crate::kernel::{KernelInfo, ModuleMemory, OutOfMemory};
use crate::launch_shape::LaunchShape;
use crate::pipeline::{Lowered, Prepared};
use crate::{CompileError, front};
use ptx::ast;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// One kernel, compiled.
pub struct Inspected {
    /// The vector IR for blocks whose x extent is a multiple of 32, ready for a tier.
    pub kernel: VectorKernel,
    /// How long that took, from the syntax tree on.
    pub elapsed: Duration,
}

/// An instruction that the software GPU does not have: it faults when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// As written in the PTX.
    pub text: String,
    /// Line of the PTX.
    pub line: u32,
}

impl Inspected {
    /// What it needs and is.
    pub fn info(&self) -> &KernelInfo {
        &self.kernel.info
    }

    fn functions(&self) -> impl Iterator<Item = &VectorFunction> {
        std::iter::once(&self.kernel.entry).chain(self.kernel.functions.values())
    }

    /// Instructions of the vector IR, of the kernel and all that it calls.
    pub fn instructions(&self) -> usize {
        self.functions().map(instructions).sum()
    }

    /// The instruction that is not supported and stands first in the file.
    pub fn unsupported(&self) -> Option<Unsupported> {
        let in_function = |f: &VectorFunction| {
            f.blocks
                .iter()
                .flat_map(|b| &b.insts)
                .filter_map(|inst| match inst.op {
                    Op::Unsupported(text) => Some((inst.line, f.texts[text as usize].clone())),
                    _ => None,
                })
                .min()
        };
        let (line, text) = self.functions().filter_map(in_function).min()?;
        Some(Unsupported { text, line })
    }
}

/// Instructions of one function of the vector IR, with the ends of its blocks.
pub fn instructions(f: &VectorFunction) -> usize {
    f.prologue.len() + f.blocks.iter().map(|b| b.insts.len() + 1).sum::<usize>()
}

/// A kernel's name, and the kernel or why it cannot be compiled.
pub type Named = (String, Result<Inspected, CompileError>);

/// Compiles all kernels of a module, in the order of the source.
///
/// # Errors
/// The module is not valid PTX.
pub fn inspect(text: &str) -> Result<Vec<Named>, CompileError> {
    let (ast, layout) = front(text, &mut NoMemory(FIRST_ADDRESS))?;
    let one = |(id, f): (ast::FunctionId, &ast::Function)| {
        let start = Instant::now();
        let kernel =
            Lowered::new(&ast, &layout, id, false).map(|l| l.vectorized(LaunchShape::Rows));
        let elapsed = start.elapsed();
        (ast.name(f.name).to_owned(), kernel.map(|kernel| Inspected { kernel, elapsed }))
    };
    Ok(ast.kernels().map(one).collect())
}

/// A stage that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The syntax tree, as PTX: names resolved, constants computed.
    Parse,
    /// The SIMT IR, after all passes.
    Ir,
    /// The vector IR for launches of a geometry.
    Vector(LaunchShape),
}

/// A stage as text: of the kernel called `kernel`, or of all. `None` if there is no such kernel.
///
/// # Errors
/// The module is not valid PTX.
pub fn dump(
    text: &str,
    kernel: Option<&str>,
    stage: Stage,
) -> Result<Option<String>, CompileError> {
    let (ast, layout) = front(text, &mut NoMemory(FIRST_ADDRESS))?;
    let chosen: Vec<ast::FunctionId> = ast
        .kernels()
        .filter(|(_, f)| kernel.is_none_or(|name| ast.name(f.name) == name))
        .map(|(id, _)| id)
        .collect();
    if kernel.is_some() && chosen.is_empty() {
        return Ok(None);
    }
    if stage == Stage::Parse && kernel.is_none() {
        return Ok(Some(ast.to_string()));
    }
    let mut out = String::new();
    for (index, &id) in chosen.iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        // Writing to a string cannot fail.
        let _ = match stage {
            Stage::Parse => write!(out, "{}", ast.function_text(id)),
            Stage::Ir => simt_ir(&mut out, &Lowered::new(&ast, &layout, id, false)?),
            Stage::Vector(launch_shape) => {
                write!(out, "{}", Lowered::new(&ast, &layout, id, false)?.vectorized(launch_shape))
            }
        };
    }
    Ok(Some(out))
}

fn simt_ir(out: &mut String, lowered: &Lowered) -> std::fmt::Result {
    write_function(out, &lowered.entry)?;
    let mut called: Vec<_> = lowered.called.iter().collect();
    called.sort_unstable_by_key(|(number, _)| **number);
    for (number, function) in called {
        writeln!(out, "\n# function {number}")?;
        write_function(out, function)?;
    }
    Ok(())
}

fn write_function(out: &mut String, prepared: &Prepared) -> std::fmt::Result {
    let f: &Function = &prepared.function;
    writeln!(out, "function {} (frame {} bytes)", f.name, prepared.frame_bytes)?;
    write!(out, "{f}")
}

/// Where the first variable is said to be: not null.
const FIRST_ADDRESS: u64 = 0x1000;

/// Hands out addresses that no program uses.
struct NoMemory(u64);

impl ModuleMemory for NoMemory {
    fn allocate(&mut self, bytes: u64, align: u64, _: bool) -> Result<u64, OutOfMemory> {
        let at = self.0.checked_next_multiple_of(align.max(1)).ok_or(OutOfMemory)?;
        self.0 = at.checked_add(bytes).ok_or(OutOfMemory)?;
        Ok(at)
    }

    fn write(&mut self, _: u64, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen variables that become registers, and addresses that vector code reads in lanes.
    fn program() -> String {
        let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .entry k(.param .u64 p) {\n  .reg .b32 %r<40>; .reg .b64 %d<4>;\n"
            .to_owned();
        for n in 0..16 {
            let _ = writeln!(text, "  .local .align 4 .b32 v{n};");
        }
        text += "  ld.param.u64 %d0, [p];\n  mov.u32 %r0, %tid.x;\n";
        for n in 0..16 {
            let (from, to) = (n + 1, n + 17);
            let _ = writeln!(text, "  add.u32 %r{from}, %r0, {n};");
            let _ = writeln!(text, "  st.local.u32 [v{n}], %r{from}; ld.local.u32 %r{to}, [v{n}];");
            let _ = writeln!(text, "  mul.lo.u32 %r{to}, %r{to}, %r{from};");
            let _ = writeln!(text, "  st.global.u32 [%d0+{}], %r{to};", 4 * n);
        }
        text + "  ret;\n}\n"
    }

    #[test]
    fn a_program_is_always_compiled_to_the_same_code() {
        let text = program();
        let stage = Stage::Vector(LaunchShape::Line);
        let first = dump(&text, None, stage).unwrap();
        assert!(first.is_some());
        // Or code that was kept would not be found again.
        for _ in 0..4 {
            assert_eq!(dump(&text, None, stage).unwrap(), first);
        }
    }
}
