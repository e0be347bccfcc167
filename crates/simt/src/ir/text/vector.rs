//! Reader of the vector IR's text.

use super::{
    Declared, Read, ReadError, barrier_op, class, class_name, cut, lines, list, number, numbered,
    operation, target,
};
use crate::ir::address::BlockAddresses;
use crate::ir::op::Class;
use crate::ir::vector::{
    Dest, Mode, NoWrap, SHAPE_MARK, Source, StorageClass, VectorBlock, VectorCall, VectorFunction,
    VectorInst, VectorTerm,
};
use crate::ir::{Callee, Guard, Reg};
use std::fmt::Write;

/// A function's text with the header that [`read_vector`] needs.
pub fn write_vector(f: &VectorFunction) -> String {
    // Shapes of addresses follow from the rest.
    let text: String = f
        .to_string()
        .lines()
        .map(|line| line.split(SHAPE_MARK).next().unwrap_or(line).to_owned() + "\n")
        .collect();
    let (head, blocks) = text.split_once('\n').unwrap_or((&text, ""));
    let mut out = format!("{head}\n");
    // Writing to a string does not fail.
    for (n, (class, storage)) in f.classes.iter().zip(&f.storage).enumerate() {
        let _ = write!(out, "reg {n} {} ", class_name(*class));
        let _ = match storage {
            StorageClass::Mask => writeln!(out, "mask"),
            StorageClass::Vector => writeln!(out, "vector"),
            StorageClass::Scalar => writeln!(out, "scalar"),
            StorageClass::ScalarAndVector => writeln!(out, "scalar and vector"),
            StorageClass::Affine { stride } => writeln!(out, "affine {stride:+}"),
            StorageClass::HalfAffine { high, stride } => {
                writeln!(out, "half affine {} {stride:+}", high.0)
            }
            StorageClass::None => writeln!(out, "unused"),
        };
    }
    for (companion, of) in &f.companions {
        let _ = writeln!(out, "companion {} of {}", companion.0, of.0);
    }
    for (n, block) in f.blocks.iter().enumerate().filter(|(_, b)| !b.live_in.is_empty()) {
        let registers: Vec<String> = block.live_in.iter().map(|r| r.0.to_string()).collect();
        let _ = writeln!(out, "live b{n} {}", registers.join(", "));
    }
    out + blocks
}

/// The function that a text is of.
///
/// # Errors
/// The text is of none, or has an operation that the reader does not know.
pub fn read_vector(text: &str) -> Result<VectorFunction, ReadError> {
    let mut reader = Reader::default();
    let mut last = 1;
    for (line, content) in lines(text) {
        last = line;
        reader.line(content).map_err(|message| ReadError { line, message })?;
    }
    reader.end().map_err(|message| ReadError { line: last, message })
}

/// The part of a function whose lines follow.
#[derive(Default)]
enum Part {
    #[default]
    Header,
    Prologue,
    Block(Box<VectorBlock>),
    /// Behind a block's end.
    Between,
}

#[derive(Default)]
struct Reader {
    name: String,
    independent: bool,
    frame_bytes: u32,
    registers: Declared<(Class, StorageClass)>,
    companions: Vec<(Reg, Reg)>,
    live: Vec<(usize, Vec<Reg>)>,
    prologue: Vec<VectorInst>,
    blocks: Vec<VectorBlock>,
    calls: Vec<VectorCall>,
    part: Part,
}

impl Reader {
    fn line(&mut self, text: &str) -> Read<()> {
        if let Some(rest) = text.strip_prefix("function ") {
            return self.head(rest);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["reg", n, kind, ..] => {
                let storage = storage(&words[3..])?;
                return self.registers.add(Reg(numbered(n, "")?), (class(kind)?, storage));
            }
            ["companion", companion, "of", of] => {
                self.companions.push((Reg(numbered(companion, "")?), Reg(numbered(of, "")?)));
                return Ok(());
            }
            ["live", block, ..] => {
                let (_, registers) = cut(text, block)?;
                let registers = list(registers).map(|r| Ok(Reg(numbered(r, "")?)));
                let registers = registers.collect::<Read<_>>()?;
                self.live.push((numbered(block, "b")? as usize, registers));
                return Ok(());
            }
            ["prologue:"] => {
                self.part = Part::Prologue;
                return Ok(());
            }
            [label, ref flags @ ..] if label.ends_with(':') => {
                if matches!(self.part, Part::Block(_)) {
                    return Err(format!("block {} has no end", self.blocks.len()));
                }
                if numbered(label.trim_end_matches(':'), "b")? as usize != self.blocks.len() {
                    return Err(format!("`{label}` is not the next block"));
                }
                self.part = Part::Block(Box::new(VectorBlock {
                    checks: Vec::new(),
                    addresses: BlockAddresses::default(),
                    insts: Vec::new(),
                    term: VectorTerm::Pause { next: 0 },
                    line: 0,
                    convergent: flags.contains(&"convergent"),
                    spins: flags.contains(&"spins"),
                    live_in: Vec::new(),
                }));
                return Ok(());
            }
            _ => {}
        }
        match std::mem::take(&mut self.part) {
            Part::Prologue => {
                self.prologue.push(self.inst(text)?);
                self.part = Part::Prologue;
            }
            Part::Block(mut block) => {
                self.part = Part::Between;
                if let Some(check) = text.strip_prefix("check ") {
                    block.checks.push(no_wrap(check)?);
                } else if let Some(term) = self.term(text)? {
                    block.term = term;
                    self.blocks.push(*block);
                    return Ok(());
                } else {
                    block.insts.push(self.inst(text)?);
                }
                self.part = Part::Block(block);
            }
            Part::Header | Part::Between => {
                return Err("an instruction outside of a block".to_owned());
            }
        }
        Ok(())
    }

    /// `NAME (MODE, frame N bytes)`.
    fn head(&mut self, text: &str) -> Read<()> {
        let (name, rest) = cut(text, " (")?;
        let (mode, frame) = cut(rest.trim_end_matches(')'), ", frame ")?;
        name.clone_into(&mut self.name);
        self.independent = match mode {
            "lockstep" => false,
            "independent" => true,
            _ => return Err(format!("no mode is called `{mode}`")),
        };
        self.frame_bytes = numbered(frame.trim_end_matches(" bytes"), "")?;
        Ok(())
    }

    fn end(self) -> Read<VectorFunction> {
        if let Part::Block(_) = self.part {
            return Err(format!("block {} has no end", self.blocks.len()));
        }
        let (classes, storage) = self.registers.all()?.into_iter().unzip();
        let mut f = VectorFunction {
            name: self.name,
            mode: if self.independent { Mode::Independent } else { Mode::Lockstep },
            classes,
            storage,
            companions: self.companions,
            prologue: self.prologue,
            blocks: self.blocks,
            calls: self.calls,
            texts: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            frame_bytes: self.frame_bytes,
        };
        for (block, live) in self.live {
            let block =
                f.blocks.get_mut(block).ok_or_else(|| format!("there is no block {block}"))?;
            block.live_in = live;
        }
        Ok(f)
    }

    fn known(&self, reg: Reg) -> Read<Reg> {
        match self.registers.0.get(reg.index()) {
            Some(Some(_)) => Ok(reg),
            _ => Err(format!("register {} is not declared", reg.0)),
        }
    }

    fn reg(&self, text: &str, letter: &str) -> Read<Reg> {
        self.known(Reg(numbered(text, letter)?))
    }

    fn guard(&self, text: &str) -> Read<Guard> {
        let (negated, name) = match text.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, text),
        };
        Ok(Guard { reg: self.reg(name, "m")?, negated })
    }

    fn source(&self, text: &str) -> Read<Source> {
        if let Some(affine) = text.strip_suffix("*lane") {
            let sign = affine.rfind(['+', '-']).ok_or_else(|| format!("`{text}` has no stride"))?;
            let (registers, stride) = affine.split_at(sign);
            let stride = stride.parse().map_err(|_| format!("`{stride}` is no stride"))?;
            return match registers.split_once('|') {
                Some((low, high)) => {
                    Ok(Source::HalfAffine(self.reg(low, "s")?, self.reg(high, "s")?, stride))
                }
                None => Ok(Source::Affine(self.reg(registers, "s")?, stride)),
            };
        }
        match text.as_bytes().first() {
            Some(b'v') => Ok(Source::Vector(self.reg(text, "v")?)),
            Some(b's') => Ok(Source::Scalar(self.reg(text, "s")?)),
            Some(b'm') => Ok(Source::Mask(self.reg(text, "m")?)),
            _ => Ok(Source::Imm(number(text)?)),
        }
    }

    fn dest(&self, text: &str) -> Read<Dest> {
        let (name, keep) = match text.strip_suffix(" keep") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let (name, splat) = match name.split_once('/') {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        let digits = name.trim_start_matches(['v', 's', 'm']);
        Ok(Dest { reg: self.reg(digits, "")?, splat, keep })
    }

    fn inst(&self, text: &str) -> Read<VectorInst> {
        let (guard, text) = match text.strip_prefix('@') {
            Some(text) => {
                let (guard, rest) = cut(text, " ")?;
                (Some(self.guard(guard)?), rest)
            }
            None => (None, text),
        };
        let (results, text) = text.split_once(" = ").unwrap_or(("", text));
        let (uniform, text) = match text.trim().strip_prefix("uniform ") {
            Some(text) => (true, text),
            None => (false, text.trim()),
        };
        let (op, sources) = text.split_once(' ').unwrap_or((text, ""));
        let op = operation(op)?;
        let dst = list(results).map(|d| self.dest(d)).collect::<Read<_>>()?;
        let src = list(sources).map(|s| self.source(s)).collect::<Read<_>>()?;
        Ok(VectorInst { op, guard, uniform, dst, src, line: 0 })
    }

    /// A block's end; `None` for what is none.
    fn term(&mut self, text: &str) -> Read<Option<VectorTerm>> {
        if let Some(to) = text.strip_prefix("jump ") {
            return Ok(Some(VectorTerm::Jump(target(to)?)));
        }
        if let Some(rest) = text.strip_prefix("branch ") {
            let (uniform, rest) = match rest.strip_prefix("uniform ") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let (guard, rest) = cut(rest, " ? ")?;
            let (taken, other) = cut(rest, " : ")?;
            let (guard, taken, other) = (self.guard(guard)?, target(taken)?, target(other)?);
            return Ok(Some(VectorTerm::Branch { guard, uniform, taken, other }));
        }
        if let Some(rest) = text.strip_prefix("table ") {
            let (index, rest) = cut(rest, "[")?;
            let targets = list(rest.trim_end_matches(']')).map(target).collect::<Read<_>>()?;
            return Ok(Some(VectorTerm::Table { index: self.source(index)?, targets }));
        }
        let Some((text, next)) = text.split_once(" then b") else { return Ok(None) };
        let next = numbered(next, "")?;
        if text == "pause" {
            return Ok(Some(VectorTerm::Pause { next }));
        }
        if let Some(call) = text.strip_prefix("call ") {
            let (callee, rest) = cut(call, " args ")?;
            let (args, results) = cut(rest, " results ")?;
            let callee = match callee.strip_prefix("function ") {
                Some(n) => Callee::Direct(numbered(n, "")?),
                None => Callee::Indirect(self.reg(callee.trim_matches(['[', ']']), "v")?),
            };
            let site = self.calls.len() as u32;
            self.calls.push(VectorCall { callee, args: pairs(args)?, results: pairs(results)? });
            return Ok(Some(VectorTerm::Call { site, next }));
        }
        let (dst, text) = match text.split_once(" = ") {
            Some((dst, text)) => (Some(self.dest(dst.trim())?), text),
            None => (None, text),
        };
        let rest = text.strip_prefix("barrier ");
        let rest = rest.ok_or_else(|| format!("no block ends by `{text}`"))?;
        let (op, operands) = cut(rest, " ")?;
        let operands: Vec<&str> = list(operands).collect();
        let [barrier, count, predicate @ ..] = &operands[..] else {
            return Err("a barrier has a number and a count".to_owned());
        };
        let negated = predicate.first().is_some_and(|p| p.starts_with('!'));
        let predicate = predicate.first().map(|p| self.source(p.trim_start_matches('!')));
        Ok(Some(VectorTerm::Barrier {
            op: barrier_op(op)?,
            barrier: self.source(barrier)?,
            count: self.source(count)?,
            predicate: predicate.transpose()?,
            negated,
            dst,
            next,
        }))
    }
}

fn storage(words: &[&str]) -> Read<StorageClass> {
    let stride = |text: &str| text.parse().map_err(|_| format!("`{text}` is no stride"));
    Ok(match words {
        ["mask"] => StorageClass::Mask,
        ["vector"] => StorageClass::Vector,
        ["scalar"] => StorageClass::Scalar,
        ["scalar", "and", "vector"] => StorageClass::ScalarAndVector,
        ["affine", by] => StorageClass::Affine { stride: stride(by)? },
        ["half", "affine", high, by] => {
            StorageClass::HalfAffine { high: Reg(numbered(high, "")?), stride: stride(by)? }
        }
        ["unused"] => StorageClass::None,
        _ => return Err(format!("no storage class is called `{}`", words.join(" "))),
    })
}

/// `sR+STRIDE*lane to LAST signed`.
fn no_wrap(text: &str) -> Read<NoWrap> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [value, "to", last, sign] = words[..] else { return Err(format!("`{text}` is no check")) };
    let value = value.strip_suffix("*lane").ok_or_else(|| format!("`{value}` is not affine"))?;
    let sign_at = value.rfind(['+', '-']).ok_or_else(|| format!("`{value}` has no stride"))?;
    let (reg, stride) = value.split_at(sign_at);
    let stride = stride.parse().map_err(|_| format!("`{stride}` is no stride"))?;
    let signed = sign == "signed";
    Ok(NoWrap { reg: Reg(numbered(reg, "s")?), stride, last: numbered(last, "")?, signed })
}

/// `[(1, 2), (3, 4)]`.
fn pairs(text: &str) -> Read<Vec<(u32, u32)>> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let numbers = numbers.map(|n| numbered(n, "")).collect::<Read<Vec<u32>>>()?;
    Ok(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}
