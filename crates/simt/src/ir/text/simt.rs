//! Reader of the SIMT IR's text.

use super::{
    Declared, Read, ReadError, barrier_op, class, class_name, cut, lines, list, number, numbered,
    operation, target,
};
use crate::ir::{
    Block, BlockId, CallSite, Callee, Function, Guard, Inst, Operand, Reg, SlotId, Term,
};
use std::fmt::Write;

/// A function's text with the header that [`read_simt`] needs.
pub fn write_simt(f: &Function) -> String {
    let mut out = format!("function {}\n", f.name);
    // Writing to a string does not fail.
    for (n, class) in f.regs.iter().enumerate() {
        let _ = writeln!(out, "reg r{n} {}", class_name(*class));
    }
    for (n, slot) in f.slots.iter().enumerate() {
        let _ = writeln!(out, "slot slot{n} {} bytes aligned {}", slot.bytes, slot.align);
    }
    for (word, slots) in [("param", &f.params), ("result", &f.results)] {
        slots.iter().for_each(|slot| _ = writeln!(out, "{word} slot{}", slot.0));
    }
    let _ = write!(out, "{f}");
    out
}

/// The function that a text is of.
///
/// # Errors
/// The text is of none, or has an operation that the reader does not know.
pub fn read_simt(text: &str) -> Result<Function, ReadError> {
    let mut reader = Reader::default();
    let mut last = 1;
    for (line, content) in lines(text) {
        last = line;
        reader.line(content).map_err(|message| ReadError { line, message })?;
    }
    reader.end().map_err(|message| ReadError { line: last, message })
}

#[derive(Default)]
struct Reader {
    f: Function,
    classes: Declared<crate::ir::op::Class>,
    /// The block under construction: its instructions.
    open: Option<Vec<Inst>>,
}

impl Reader {
    fn line(&mut self, text: &str) -> Read<()> {
        if let Some(name) = text.strip_prefix("function ") {
            name.trim().clone_into(&mut self.f.name);
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["reg", name, kind] => return self.classes.add(reg(name)?, class(kind)?),
            ["slot", name, bytes, "bytes", "aligned", align] => {
                if numbered(name, "slot")? as usize != self.f.slots.len() {
                    return Err(format!("`{name}` is not the next slot"));
                }
                let small = |text| u32::try_from(number(text)?).map_err(|e| e.to_string());
                self.f.new_slot(small(bytes)?, small(align)?);
                return Ok(());
            }
            ["param", slot] => {
                self.f.params.push(SlotId(numbered(slot, "slot")?));
                return Ok(());
            }
            ["result", slot] => {
                self.f.results.push(SlotId(numbered(slot, "slot")?));
                return Ok(());
            }
            _ => {}
        }
        if let Some(label) = text.strip_suffix(':') {
            self.closed()?;
            if numbered(label, "b")? as usize != self.f.blocks.len() {
                return Err(format!("`{label}` is not the next block"));
            }
            self.open = Some(Vec::new());
            return Ok(());
        }
        if self.open.is_none() {
            return Err("an instruction outside of a block".to_owned());
        }
        match self.term(text)? {
            Some(term) => {
                let insts = self.open.take().unwrap_or_default();
                self.f.blocks.push(Block { insts, term, line: 0 });
            }
            None => {
                let inst = self.inst(text)?;
                self.open.get_or_insert_default().push(inst);
            }
        }
        Ok(())
    }

    fn closed(&self) -> Read<()> {
        match self.open {
            Some(_) => Err(format!("block {} has no end", self.f.blocks.len())),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Read<Function> {
        self.closed()?;
        self.f.regs = self.classes.all()?;
        for block in &self.f.blocks {
            for to in block.term.successors() {
                if to.index() >= self.f.blocks.len() {
                    return Err(format!("there is no block {}", to.0));
                }
            }
        }
        Ok(self.f)
    }

    /// A register that has been declared.
    fn reg(&self, text: &str) -> Read<Reg> {
        let reg = reg(text)?;
        match self.classes.0.get(reg.index()) {
            Some(Some(_)) => Ok(reg),
            _ => Err(format!("register {} is not declared", reg.0)),
        }
    }

    fn operand(&self, text: &str) -> Read<Operand> {
        if let Some(slot) = text.strip_prefix('&') {
            return Ok(Operand::Slot(SlotId(numbered(slot, "slot")?)));
        }
        match text.starts_with('r') {
            true => Ok(Operand::Reg(self.reg(text)?)),
            false => Ok(Operand::Imm(number(text)?)),
        }
    }

    fn guard(&self, text: &str) -> Read<Guard> {
        let name = text.strip_prefix('@').ok_or_else(|| format!("`{text}` is no guard"))?;
        let (negated, name) = match name.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, name),
        };
        Ok(Guard { reg: self.reg(name)?, negated })
    }

    fn inst(&self, text: &str) -> Read<Inst> {
        let (guard, text) = match text.starts_with('@') {
            true => {
                let (guard, rest) = cut(text, " ")?;
                (Some(self.guard(guard)?), rest)
            }
            false => (None, text),
        };
        let (results, text) = text.split_once(" = ").unwrap_or(("", text));
        let (op, sources) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let op = operation(op)?;
        let dst = list(results).map(|r| self.reg(r)).collect::<Read<_>>()?;
        let src = list(sources).map(|s| self.operand(s)).collect::<Read<_>>()?;
        Ok(Inst { op, guard, dst, src, line: 0 })
    }

    /// A block's end; `None` for what is none.
    fn term(&mut self, text: &str) -> Read<Option<Term>> {
        if let Some(to) = text.strip_prefix("jump ") {
            return Ok(Some(Term::Jump(target(to)?)));
        }
        if let Some(rest) = text.strip_prefix("branch ") {
            let (guard, rest) = cut(rest, " ? ")?;
            let (taken, other) = cut(rest, " : ")?;
            let (taken, other) = (target(taken)?, target(other)?);
            return Ok(Some(Term::Branch { guard: self.guard(guard)?, taken, other }));
        }
        if let Some(rest) = text.strip_prefix("table ") {
            let (index, rest) = cut(rest, "[")?;
            let targets = list(rest.trim_end_matches(']')).map(target).collect::<Read<_>>()?;
            return Ok(Some(Term::Table { index: self.operand(index)?, targets }));
        }
        let Some((text, next)) = text.split_once(" then ") else { return Ok(None) };
        let next = BlockId(numbered(next.trim(), "b")?);
        if text == "pause" {
            return Ok(Some(Term::Pause { next }));
        }
        if let Some(callee) = text.strip_prefix("call ") {
            let callee = match callee.strip_prefix("function ") {
                Some(n) => Callee::Direct(numbered(n, "")?),
                None => {
                    let name = callee.trim_start_matches('[').trim_end_matches(']');
                    Callee::Indirect(self.reg(name)?)
                }
            };
            let site = self.f.calls.len() as u32;
            self.f.calls.push(CallSite { callee, args: Vec::new(), results: Vec::new() });
            return Ok(Some(Term::Call { site, next }));
        }
        let (dst, text) = match text.split_once(" = ") {
            Some((dst, text)) => (Some(self.reg(dst.trim())?), text),
            None => (None, text),
        };
        let rest =
            text.strip_prefix("barrier ").ok_or_else(|| format!("no block ends by `{text}`"))?;
        let (op, operands) = cut(rest, " ")?;
        let operands: Vec<&str> = list(operands).collect();
        let [barrier, count, predicate @ ..] = &operands[..] else {
            return Err("a barrier has a number and a count".to_owned());
        };
        let negated = predicate.first().is_some_and(|p| p.starts_with('!'));
        let predicate = predicate.first().map(|p| self.operand(p.trim_start_matches('!')));
        Ok(Some(Term::Barrier {
            op: barrier_op(op)?,
            barrier: self.operand(barrier)?,
            count: self.operand(count)?,
            predicate: predicate.transpose()?,
            negated,
            dst,
            next,
        }))
    }
}

fn reg(text: &str) -> Read<Reg> {
    Ok(Reg(numbered(text, "r")?))
}
