//! Handlers of the functions that CUDA's device runtime provides: `vprintf`, `__assertfail`,
//! `malloc` and `free`.

use super::lanes::{Body, Rare, Target, active, versions};
use super::machine::{Handler, Ins, Machine, Step};
use super::memory::lanes;
use simt::kernel::FaultKind;
use simt::op::Runtime;

/// Longest string read from a kernel (a format, a message), bytes: CUDA's printf FIFO of 1 MiB is
/// shared by all threads, so nothing sensible is longer.
const STRING_BYTES_MAX: u64 = 64 << 10;
/// Longest width or precision of a conversion, characters.
const FIELD_MAX: usize = 4096;
/// Arguments of one vprintf: CUDA's documented limit.
const ARGUMENTS_MAX: usize = 32;

impl Machine<'_> {
    /// A copy of memory that a lane can read.
    fn bytes<const N: usize>(&mut self, lane: u32, address: u64) -> Result<[u8; N], FaultKind> {
        let from = self.resolve_generic(lane, address, N as u64, false)?;
        // SAFETY: the access was checked for `N` bytes.
        Ok(unsafe { from.cast::<[u8; N]>().read_unaligned() })
    }

    /// A string that ends with 0.
    fn string(&mut self, lane: u32, address: u64) -> Result<Vec<u8>, FaultKind> {
        let mut text = Vec::new();
        for i in 0..STRING_BYTES_MAX {
            match self.bytes::<1>(lane, address.wrapping_add(i))? {
                [0] => break,
                [byte] => text.push(byte),
            }
        }
        Ok(text)
    }

    /// A lane's value of a register.
    ///
    /// # Safety
    /// `offset` is that of a register of `T`.
    unsafe fn lane<T: Copy>(&self, offset: u32, lane: u32) -> T {
        // SAFETY: by contract.
        unsafe { self.regs.add(offset as usize).cast::<T>().add(lane as usize).read() }
    }

    /// Formats as C does, and tells how many arguments that took. Every argument is at the next
    /// multiple of its size.
    fn format(
        &mut self,
        lane: u32,
        format: &[u8],
        arguments: u64,
    ) -> Result<(Vec<u8>, usize), FaultKind> {
        let mut out = Vec::with_capacity(format.len() + 16);
        let mut at = arguments;
        let mut taken = 0;
        let mut rest = format;
        while let Some((&c, tail)) = rest.split_first() {
            rest = tail;
            if c != b'%' {
                out.push(c);
                continue;
            }
            if rest.first() == Some(&b'%') {
                rest = &rest[1..];
                out.push(b'%');
                continue;
            }
            let mut spec = Spec::default();
            let mut next = |machine: &mut Self, size: u64| {
                at = at.next_multiple_of(size);
                let value = if size == 8 {
                    u64::from_le_bytes(machine.bytes(lane, at)?)
                } else {
                    u64::from(u32::from_le_bytes(machine.bytes(lane, at)?))
                };
                at += size;
                Ok::<u64, FaultKind>(value)
            };
            rest = spec.flags(rest);
            if rest.first() == Some(&b'*') {
                rest = &rest[1..];
                let width = next(self, 4)? as i32;
                spec.left |= width < 0;
                spec.width = (width.unsigned_abs() as usize).min(FIELD_MAX);
            } else {
                (spec.width, rest) = number(rest);
            }
            if rest.first() == Some(&b'.') {
                rest = &rest[1..];
                if rest.first() == Some(&b'*') {
                    rest = &rest[1..];
                    let precision = next(self, 4)? as i32;
                    spec.precision = usize::try_from(precision).ok().map(|p| p.min(FIELD_MAX));
                } else {
                    let (precision, tail) = number(rest);
                    (spec.precision, rest) = (Some(precision), tail);
                }
            }
            let mut size = 4;
            while let Some((&c, tail)) = rest.split_first() {
                match c {
                    b'l' | b'j' | b'z' | b't' => size = 8,
                    b'h' | b'L' => {}
                    _ => break,
                }
                rest = tail;
            }
            let Some((&conversion, tail)) = rest.split_first() else { break };
            rest = tail;
            taken += 1;
            if taken > ARGUMENTS_MAX {
                break;
            }
            match conversion {
                b'd' | b'i' => {
                    let v = next(self, size)?;
                    let v = if size == 8 { v as i64 } else { i64::from(v as i32) };
                    spec.integer(&mut out, v < 0, v.unsigned_abs().to_string());
                }
                b'u' => spec.integer(&mut out, false, next(self, size)?.to_string()),
                b'x' => spec.prefixed(&mut out, "0x", format!("{:x}", next(self, size)?)),
                b'X' => spec.prefixed(&mut out, "0X", format!("{:X}", next(self, size)?)),
                b'o' => spec.prefixed(&mut out, "0", format!("{:o}", next(self, size)?)),
                b'c' => {
                    let v = next(self, 4)?;
                    spec.pad(&mut out, "", &[v as u8], false);
                }
                b'p' => {
                    let text = format!("{:x}", next(self, 8)?);
                    spec.pad(&mut out, "0x", text.as_bytes(), false);
                }
                b's' => {
                    let address = next(self, 8)?;
                    let mut text = self.string(lane, address)?;
                    text.truncate(spec.precision.unwrap_or(usize::MAX));
                    spec.pad(&mut out, "", &text, false);
                }
                b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                    let v = f64::from_bits(next(self, 8)?);
                    spec.float(&mut out, conversion, v);
                }
                other => out.extend([b'%', other]),
            }
        }
        Ok((out, taken.min(ARGUMENTS_MAX)))
    }
}

fn number(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let value = text[..digits]
        .iter()
        .fold(0usize, |v, c| v.saturating_mul(10).saturating_add(usize::from(c - b'0')));
    (value.min(FIELD_MAX), &text[digits..])
}

/// Flags, width and precision of one conversion.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn flags<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let mut rest = text;
        while let Some((&c, tail)) = rest.split_first() {
            match c {
                b'-' => self.left = true,
                b'+' => self.plus = true,
                b' ' => self.space = true,
                b'#' => self.alternate = true,
                b'0' => self.zero = true,
                _ => break,
            }
            rest = tail;
        }
        rest
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    /// Writes prefix and body in a field.
    fn pad(&self, out: &mut Vec<u8>, prefix: &str, body: &[u8], zeros: bool) {
        let fill = self.width.saturating_sub(prefix.len() + body.len());
        if !self.left && !zeros {
            out.resize(out.len() + fill, b' ');
        }
        out.extend(prefix.bytes());
        if !self.left && zeros {
            out.resize(out.len() + fill, b'0');
        }
        out.extend(body);
        if self.left {
            out.resize(out.len() + fill, b' ');
        }
    }

    fn digits(&self, digits: String) -> String {
        match self.precision {
            Some(0) if digits == "0" => String::new(),
            Some(p) => format!("{digits:0>p$}"),
            None => digits,
        }
    }

    fn integer(&self, out: &mut Vec<u8>, negative: bool, digits: String) {
        let zeros = self.zero && self.precision.is_none();
        self.pad(out, self.sign(negative), self.digits(digits).as_bytes(), zeros);
    }

    fn prefixed(&self, out: &mut Vec<u8>, prefix: &str, digits: String) {
        let prefix = if self.alternate && digits != "0" { prefix } else { "" };
        let zeros = self.zero && self.precision.is_none();
        self.pad(out, prefix, self.digits(digits).as_bytes(), zeros);
    }

    fn float(&self, out: &mut Vec<u8>, conversion: u8, v: f64) {
        let precision = self.precision.unwrap_or(6);
        let a = v.abs();
        let upper = conversion.is_ascii_uppercase();
        let body = if v.is_nan() {
            "nan".to_owned()
        } else if v.is_infinite() {
            "inf".to_owned()
        } else {
            match conversion.to_ascii_lowercase() {
                b'f' => format!("{a:.precision$}"),
                b'e' => exponent_form(a, precision),
                b'a' => hexadecimal(a),
                _ => general(a, precision.max(1), self.alternate),
            }
        };
        let body = if upper { body.to_uppercase() } else { body };
        self.pad(out, self.sign(v.is_sign_negative()), body.as_bytes(), self.zero && v.is_finite());
    }
}

/// C's `%e`: at least two digits of exponent, with a sign.
fn exponent_form(a: f64, precision: usize) -> String {
    let text = format!("{a:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// C's `%g`.
fn general(a: f64, precision: usize, keep_zeros: bool) -> String {
    let text = exponent_form(a, precision - 1);
    let exponent = text.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    let trim = |s: String| {
        if keep_zeros || !s.contains('.') {
            return s;
        }
        s.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= precision as i32 {
        let (mantissa, e) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{e}", trim(mantissa.to_owned()));
    }
    let digits = (precision as i32 - 1 - exponent).max(0) as usize;
    trim(format!("{a:.digits$}"))
}

/// C's `%a` without a precision.
fn hexadecimal(a: f64) -> String {
    let bits = a.to_bits();
    let (biased, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    let (lead, exponent) = match biased {
        0 if fraction == 0 => (0, 0),
        0 => (0, -1022),
        _ => (1, biased as i64 - 1023),
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let dot = if digits.is_empty() { "" } else { "." };
    format!("0x{lead}{dot}{digits}p{exponent:+}")
}

struct Vprintf;

impl Body for Vprintf {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave two 64-bit registers and a 32-bit result.
        let m = unsafe { active(machine, ins) };
        for lane in lanes(m) {
            // SAFETY: as above.
            let (format, arguments) =
                unsafe { (machine.lane(ins.a[0], lane), machine.lane(ins.a[1], lane)) };
            let text = match format {
                0 => Ok(None),
                _ => machine
                    .string(lane, format)
                    .and_then(|format| machine.format(lane, &format, arguments))
                    .map(Some),
            };
            // Other than C's, CUDA's printf tells the number of arguments, and -1 without a format.
            let result = match text {
                Ok(Some((text, taken))) => {
                    machine.block.launch.printf.print(&text);
                    taken as i32
                }
                Ok(None) => -1,
                Err(kind) => return machine.fail(lane, kind),
            };
            // SAFETY: as above.
            unsafe {
                let d = machine.regs.add(ins.d[0] as usize).cast::<i32>();
                d.add(lane as usize).write(result);
            }
        }
        Step::Next
    }
}

struct AssertFail;

impl Body for AssertFail {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave 64-bit registers, the third of 32 bits.
        let m = unsafe { active(machine, ins) };
        let Some(first) = lanes(m).next() else { return Step::Next };
        let mut lines = Vec::new();
        for lane in lanes(m) {
            // SAFETY: as above.
            let (message, file, line, function): (u64, u64, u32, u64) = unsafe {
                (
                    machine.lane(ins.a[0], lane),
                    machine.lane(ins.a[1], lane),
                    machine.lane(ins.a[2], lane),
                    machine.lane(ins.a[3], lane),
                )
            };
            let mut text = |address| {
                let bytes = machine.string(lane, address).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let (message, file, function) = (text(message), text(file), text(function));
            let block = machine.index;
            let thread = machine.thread(lane);
            // The wording of CUDA's own runtime, which programs and people search for.
            lines.push(format!(
                "{file}:{line}: {function}: block: [{},{},{}], thread: [{},{},{}] Assertion `{message}` failed.",
                block.x, block.y, block.z, thread.x, thread.y, thread.z
            ));
        }
        machine.fail(first, FaultKind::Assert { message: lines.join("\n") })
    }
}

struct Malloc;

impl Body for Malloc {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave a 64-bit register and a 64-bit result.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let bytes: u64 = machine.lane(ins.a[0], lane);
                let program = &machine.block.program;
                let address = program.heap.as_ref().map_or(0, |heap| heap.allocate(bytes));
                if let Some(checker) = program.checker().filter(|_| address != 0) {
                    checker.allocated(address, bytes);
                }
                machine.regs.add(ins.d[0] as usize).cast::<u64>().add(lane as usize).write(address);
            }
        }
        Step::Next
    }
}

struct Free;

impl Body for Free {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: the decoder gave a 64-bit register.
        unsafe {
            for lane in lanes(active(machine, ins)) {
                let address: u64 = machine.lane(ins.a[0], lane);
                let program = &machine.block.program;
                // Afterwards it may be another thread's already.
                if let Some(checker) = program.checker() {
                    checker.freed(address);
                }
                let known = program.heap.as_ref().is_some_and(|heap| heap.release(address));
                if !known {
                    let kind = FaultKind::IllegalAddress { address, bytes: 0, write: true };
                    return machine.fail(lane, kind);
                }
            }
        }
        Step::Next
    }
}

struct NoLaunch;

impl Body for NoLaunch {
    unsafe fn run(machine: &mut Machine<'_>, ins: &Ins) -> Step {
        // SAFETY: every instruction has a guard.
        match unsafe { active(machine, ins) } {
            0 => Step::Next,
            m => machine.fail(m.trailing_zeros(), FaultKind::DynamicParallelism),
        }
    }
}

/// The handler of a runtime function.
pub(super) fn handler(function: Runtime) -> Handler {
    let t = Rare(Target::Baseline);
    match function {
        Runtime::Vprintf => versions::<Vprintf, Vprintf>(t),
        Runtime::AssertFail => versions::<AssertFail, AssertFail>(t),
        Runtime::Malloc => versions::<Malloc, Malloc>(t),
        Runtime::Free => versions::<Free, Free>(t),
        Runtime::DynamicParallelism => versions::<NoLaunch, NoLaunch>(t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_c() {
        let spec = |precision| Spec { precision, ..Spec::default() };
        let text = |spec: Spec, c, v| {
            let mut out = Vec::new();
            spec.float(&mut out, c, v);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(spec(None), b'f', 1.5), "1.500000");
        assert_eq!(text(spec(Some(2)), b'e', 12345.678), "1.23e+04");
        assert_eq!(text(spec(None), b'g', 0.0001), "0.0001");
        assert_eq!(text(spec(None), b'g', 0.00001), "1e-05");
        assert_eq!(text(spec(None), b'g', 1e6), "1e+06");
        assert_eq!(text(spec(None), b'g', 100000.0), "100000");
        assert_eq!(text(spec(None), b'f', f64::NEG_INFINITY), "-inf");
        assert_eq!(text(spec(None), b'a', 1.0), "0x1p+0");
        assert_eq!(text(spec(None), b'a', 0.5), "0x1p-1");
        let wide = Spec { width: 8, zero: true, precision: Some(2), ..Spec::default() };
        assert_eq!(text(wide, b'f', -2.71459), "-0002.71");
    }

    #[test]
    fn integers_print_as_in_c() {
        let mut out = Vec::new();
        Spec { width: 6, zero: true, ..Spec::default() }.integer(&mut out, true, "42".into());
        Spec { alternate: true, ..Spec::default() }.prefixed(&mut out, "0x", "2a".into());
        Spec { width: 5, left: true, ..Spec::default() }.integer(&mut out, false, "7".into());
        assert_eq!(out, b"-000420x2a7    ");
    }
}
