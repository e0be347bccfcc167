//! Native code of one function as it is kept: its table of entries, then its bytes.

use crate::ablation::Ablation;
use crate::asm::assembler::CONSTANTS_ALIGN;
use crate::cache::Image;
use crate::function::{Compiler, Made};
use crate::host::{self, SimdIsa};
use simt::ir::vector::VectorFunction;
use simt_interpreter::tier1_abi::Layout;

/// Functions with more instructions stay interpreted: they would take too long to make.
const INSTRUCTIONS_MAX: usize = 40_000;
/// So do functions with more blocks: each has entries and out for all that lives there.
const BLOCKS_MAX: usize = 4_000;

/// Makes a function's native code; `None` if it has none.
pub(crate) fn make(
    function: &VectorFunction,
    layout: &Layout<'_>,
    isa: SimdIsa,
    counts_slow_paths: bool,
) -> Option<Made> {
    let size: usize = function.blocks.iter().map(|b| b.insts.len() + 1).sum();
    if size > INSTRUCTIONS_MAX || function.blocks.len() > BLOCKS_MAX {
        return None;
    }
    let mut compiler = Compiler::new(function, layout, isa);
    compiler.counts_slow_paths = counts_slow_paths;
    compiler.make()
}

/// The table of offsets from its own start, then the code.
pub(crate) fn image(made: &Made) -> Image {
    let start = (4 * made.table.len()).next_multiple_of(CONSTANTS_ALIGN);
    let mut bytes: Vec<u8> =
        made.table.iter().flat_map(|offset| (offset + start as u32).to_le_bytes()).collect();
    bytes.resize(start, 0);
    bytes.extend(&made.code);
    Image { bytes, entry: start as u32 + made.start, abilities: made.abilities }
}

/// What generators look at beside the function: all that this processor says it can do, and what
/// code shall be made without.
pub(crate) fn processor(isa: SimdIsa, counting: bool) -> String {
    let [ecx1, ebx, ecx, edx, eax] = host::abilities();
    let without = Ablation::current();
    format!("{isa:?} {without:?} {counting} {ecx1:x} {ebx:x} {ecx:x} {edx:x} {eax:x}")
}
