//! Disassembly and statistics of native code.

use crate::host::SimdIsa;
use crate::image::{image, make};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use simt::analysis::vector_cfg::PROLOGUE;
use simt::ir::vector::VectorFunction;
use simt_interpreter::tier1_abi::with_layout;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// What there is of a function's native code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Its size.
    pub code_bytes: usize,
    /// Instructions without machine code of their own: the interpreter runs them. By their text, how
    /// many there are.
    pub interpreted: BTreeMap<String, usize>,
    /// Those of which this is so only where some lanes of a warp run without the others.
    pub interpreted_apart: BTreeMap<String, usize>,
}

/// The function as it runs as such code.
fn as_run(function: &VectorFunction, isa: SimdIsa) -> VectorFunction {
    let function = function.clone();
    if isa.estimates() { function.by_estimates() } else { function }
}

/// What there is of a function's native code; `None` if it has none.
pub fn summary(function: &VectorFunction, isa: SimdIsa) -> Option<Summary> {
    let function = &as_run(function, isa);
    let made = with_layout(function, |layout| make(function, layout, isa, false))?;
    let mut found = Summary { code_bytes: made.code.len(), ..Summary::default() };
    for &(block, index, masked) in &made.interpreted_at {
        let inst = match block {
            PROLOGUE => &function.prologue[index],
            _ => &function.blocks[block].insts[index],
        };
        let list = match masked {
            false => &mut found.interpreted,
            true if made.interpreted_at.contains(&(block, index, false)) => continue,
            true => &mut found.interpreted_apart,
        };
        let of_one = if inst.uniform { " of one value" } else { "" };
        *list.entry(format!("{}{of_one}", inst.op)).or_default() += 1;
    }
    Some(found)
}

/// The code of a kernel's function: an instruction a line, with the blocks' versions and the
/// out-of-line code behind them marked. `None`
/// if the function has no native code.
pub fn listing(function: &VectorFunction, isa: SimdIsa) -> Option<String> {
    let function = &as_run(function, isa);
    let made = with_layout(function, |layout| make(function, layout, isa, false))?;
    let bytes = image(&made).bytes;
    let first = bytes.len() - made.code.len() + made.constants;
    let blocks = function.blocks.len();
    let mut names: HashMap<u64, String> = HashMap::new();
    for (kind, offsets) in ["entry", "full", "masked"].iter().zip(made.table.chunks(blocks)) {
        for (block, offset) in offsets.iter().enumerate() {
            let name = names.entry(u64::from(*offset)).or_default();
            // Writing to a string does not fail.
            let _ = writeln!(name, "{kind} b{block}:");
        }
    }
    let out_of_line = names.entry(u64::from(made.out_of_line)).or_default();
    out_of_line.push_str("out of line:\n");
    let start = made.constants as u64;
    let mut decoder = Decoder::with_ip(64, &bytes[first..], start, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let mut out = format!("// {}: {} bytes\n", function.name, made.code.len());
    let mut line = String::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if let Some(name) = names.get(&instruction.ip()) {
            out.push_str(name);
        }
        line.clear();
        formatter.format(&instruction, &mut line);
        let _ = writeln!(out, "  {:06x}  {line}", instruction.ip());
    }
    Some(out)
}
