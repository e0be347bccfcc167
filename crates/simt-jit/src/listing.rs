//! Native code as text, for people.

use crate::{Flavour, image, make};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use simt::vector::VectorFunction;
use simt_interpreter::native::with_layout;
use std::collections::HashMap;
use std::fmt::Write;

/// Bytes of a function's native code; `None` if it has none.
pub fn code_bytes(function: &VectorFunction, flavour: Flavour) -> Option<usize> {
    with_layout(function, |layout| make(function, layout, flavour)).map(|made| made.code.len())
}

/// The code of a kernel's function: an instruction a line, with the blocks' clones marked. `None`
/// if the function has no native code.
pub fn listing(function: &VectorFunction, flavour: Flavour) -> Option<String> {
    let made = with_layout(function, |layout| make(function, layout, flavour))?;
    let bytes = image(&made).bytes;
    let code_start = bytes.len() - made.code.len();
    let blocks = function.blocks.len();
    let mut names: HashMap<u64, String> = HashMap::new();
    for (kind, offsets) in ["entry", "full", "masked"].iter().zip(made.table.chunks(blocks)) {
        for (block, offset) in offsets.iter().enumerate() {
            let name = names.entry(u64::from(*offset)).or_default();
            // Writing to a string does not fail.
            let _ = writeln!(name, "{kind} b{block}:");
        }
    }
    let mut decoder = Decoder::new(64, &bytes[code_start..], DecoderOptions::NONE);
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
