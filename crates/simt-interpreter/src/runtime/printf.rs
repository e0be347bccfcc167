//! `printf` formatting: C's, as an H200 with CUDA 13.0 prints it.
//!
//! A conversion that does not exist is printed as it stands, but for its length modifiers, and takes
//! no argument.

use crate::handler_context::HandlerContext;
use simt::kernel::FaultKind;

/// Longest width or precision of a conversion, characters.
const FIELD_MAX: usize = 4096;
/// Arguments of one vprintf: CUDA's documented limit.
const ARGUMENTS_MAX: usize = 32;
/// What stands for a string or a pointer that is NULL.
const NULL_STRING: &[u8] = b"(null)";
const NULL_POINTER: &[u8] = b"(nil)";

/// Arguments of one call, read one after the other.
struct Arguments {
    at: u64,
    lane: u32,
    taken: usize,
}

impl Arguments {
    /// The next one, of 4 or 8 bytes, at the next multiple of its size; `None` after the most that
    /// there can be.
    fn next(
        &mut self,
        machine: &mut HandlerContext<'_>,
        bytes: u64,
    ) -> Result<Option<u64>, FaultKind> {
        if self.taken == ARGUMENTS_MAX {
            return Ok(None);
        }
        self.taken += 1;
        let at = self.at.next_multiple_of(bytes);
        self.at = at + bytes;
        Ok(Some(match bytes {
            8 => u64::from_le_bytes(machine.bytes(self.lane, at)?),
            _ => u64::from(u32::from_le_bytes(machine.bytes(self.lane, at)?)),
        }))
    }
}

impl HandlerContext<'_> {
    /// Formats a lane's text, and gives how many arguments that took.
    pub(super) fn format(
        &mut self,
        lane: u32,
        format: &[u8],
        arguments: u64,
    ) -> Result<(Vec<u8>, usize), FaultKind> {
        let mut out = Vec::with_capacity(format.len() + 16);
        let mut arguments = Arguments { at: arguments, lane, taken: 0 };
        let mut rest = format;
        while let Some(at) = rest.iter().position(|c| *c == b'%') {
            out.extend(&rest[..at]);
            let (spec, tail) = Spec::parse(&rest[at + 1..]);
            rest = tail;
            if !self.convert(&mut out, spec, &mut arguments)? {
                return Ok((out, arguments.taken));
            }
        }
        out.extend(rest);
        Ok((out, arguments.taken))
    }

    /// Prints one conversion; false if there are too many arguments.
    fn convert(
        &mut self,
        out: &mut Vec<u8>,
        mut spec: Spec<'_>,
        arguments: &mut Arguments,
    ) -> Result<bool, FaultKind> {
        if spec.width_is_argument {
            let Some(width) = arguments.next(self, 4)? else { return Ok(false) };
            let width = width as u32 as i32;
            spec.left |= width < 0;
            spec.width = (width.unsigned_abs() as usize).min(FIELD_MAX);
        }
        if spec.precision_is_argument {
            let Some(precision) = arguments.next(self, 4)? else { return Ok(false) };
            let precision = usize::try_from(precision as u32 as i32).ok();
            spec.precision = precision.map(|precision| precision.min(FIELD_MAX));
        }
        let bytes = match spec.conversion {
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' => spec.length.argument_bytes(),
            b'c' => 4,
            b'p' | b's' | b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => 8,
            b'%' => {
                out.push(b'%');
                return Ok(true);
            }
            _ => {
                out.push(b'%');
                out.extend(spec.field);
                out.extend((spec.conversion != 0).then_some(spec.conversion));
                return Ok(true);
            }
        };
        let Some(value) = arguments.next(self, bytes)? else { return Ok(false) };
        let unsigned = spec.length.unsigned(value);
        match spec.conversion {
            b'd' | b'i' => {
                let value = spec.length.signed(value);
                spec.integer(out, value < 0, value.unsigned_abs().to_string());
            }
            b'u' => spec.unsigned(out, unsigned.to_string()),
            b'x' => spec.prefixed(out, "0x", format!("{unsigned:x}")),
            b'X' => spec.prefixed(out, "0X", format!("{unsigned:X}")),
            b'o' => spec.octal(out, format!("{unsigned:o}")),
            b'c' => spec.pad(out, "", &[value as u8], false),
            b'p' if value == 0 => spec.pad(out, "", NULL_POINTER, false),
            b'p' => spec.pad(out, "0x", format!("{value:x}").as_bytes(), false),
            // C's library prints all of it or nothing.
            b's' if value == 0 && spec.precision.is_some_and(|most| most < NULL_STRING.len()) => {
                spec.pad(out, "", b"", false);
            }
            b's' => {
                let mut text = match value {
                    0 => NULL_STRING.to_vec(),
                    _ => self.string(arguments.lane, value)?,
                };
                text.truncate(spec.precision.unwrap_or(usize::MAX));
                spec.pad(out, "", &text, false);
            }
            conversion => spec.float(out, conversion, f64::from_bits(value)),
        }
        Ok(true)
    }
}

/// A length modifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Length {
    Char,
    Short,
    #[default]
    Int,
    Long,
}

impl Length {
    fn argument_bytes(self) -> u64 {
        if self == Self::Long { 8 } else { 4 }
    }

    fn signed(self, value: u64) -> i64 {
        match self {
            Self::Char => i64::from(value as i8),
            Self::Short => i64::from(value as i16),
            Self::Int => i64::from(value as i32),
            Self::Long => value as i64,
        }
    }

    fn unsigned(self, value: u64) -> u64 {
        match self {
            Self::Char => u64::from(value as u8),
            Self::Short => u64::from(value as u16),
            Self::Int => u64::from(value as u32),
            Self::Long => value,
        }
    }
}

fn number(text: &[u8]) -> (usize, &[u8]) {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let value = text[..digits]
        .iter()
        .fold(0usize, |v, c| v.saturating_mul(10).saturating_add(usize::from(c - b'0')));
    (value.min(FIELD_MAX), &text[digits..])
}

/// One conversion, without its value.
#[derive(Default)]
struct Spec<'a> {
    /// Flags, width and precision as they stand.
    field: &'a [u8],
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    width_is_argument: bool,
    precision: Option<usize>,
    precision_is_argument: bool,
    length: Length,
    /// 0 where the format ends.
    conversion: u8,
}

impl<'a> Spec<'a> {
    /// What stands behind a `%`, and what follows it.
    fn parse(text: &'a [u8]) -> (Self, &'a [u8]) {
        let mut spec = Self::default();
        let mut rest = spec.flags(text);
        if let Some(tail) = rest.strip_prefix(b"*") {
            (spec.width_is_argument, rest) = (true, tail);
        } else {
            (spec.width, rest) = number(rest);
        }
        if let Some(tail) = rest.strip_prefix(b".") {
            if let Some(tail) = tail.strip_prefix(b"*") {
                (spec.precision_is_argument, rest) = (true, tail);
            } else {
                let (precision, tail) = number(tail);
                (spec.precision, rest) = (Some(precision), tail);
            }
        }
        spec.field = &text[..text.len() - rest.len()];
        while let Some((&c, tail)) = rest.split_first() {
            match c {
                b'h' if spec.length == Length::Short => spec.length = Length::Char,
                b'h' => spec.length = Length::Short,
                b'l' | b'q' | b'j' | b'z' | b't' => spec.length = Length::Long,
                b'L' => {}
                _ => break,
            }
            rest = tail;
        }
        if let Some((&conversion, tail)) = rest.split_first() {
            (spec.conversion, rest) = (conversion, tail);
        }
        (spec, rest)
    }

    fn flags(&mut self, text: &'a [u8]) -> &'a [u8] {
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

    fn unsigned(&self, out: &mut Vec<u8>, digits: String) {
        let zeros = self.zero && self.precision.is_none();
        self.pad(out, "", self.digits(digits).as_bytes(), zeros);
    }

    fn octal(&self, out: &mut Vec<u8>, digits: String) {
        let mut digits = self.digits(digits);
        // The prefix is a digit: one that is there already serves.
        if self.alternate && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        let zeros = self.zero && self.precision.is_none();
        self.pad(out, "", digits.as_bytes(), zeros);
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

    /// With `#`, a point also where no digits follow it.
    fn with_point(&self, text: String) -> String {
        if !self.alternate || text.contains('.') {
            return text;
        }
        let end = text.find(['e', 'p']).unwrap_or(text.len());
        format!("{}.{}", &text[..end], &text[end..])
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
                b'f' => self.with_point(format!("{a:.precision$}")),
                b'e' => self.with_point(exponent_form(a, precision)),
                b'a' => self.with_point(hexadecimal(a, self.precision)),
                _ => self.with_point(general(a, precision.max(1), self.alternate)),
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

/// C's `%a`, with as many digits behind the point as there are, or as are wanted.
fn hexadecimal(a: f64, precision: Option<usize>) -> String {
    const DIGITS: usize = 13;
    const FRACTION_BITS: u32 = 52;
    let bits = a.to_bits();
    let (biased, fraction) = (bits >> FRACTION_BITS, bits & ((1 << FRACTION_BITS) - 1));
    let (lead, exponent) = match biased {
        0 if fraction == 0 => (0, 0),
        0 => (0, -1022),
        _ => (1, biased as i64 - 1023),
    };
    let mut number = lead << FRACTION_BITS | fraction;
    if let Some(kept) = precision.filter(|digits| *digits < DIGITS) {
        // To the nearest, ties to even.
        let unit = 1u64 << (4 * (DIGITS - kept));
        let (below, odd) = (number % unit, number / unit % 2);
        number -= below;
        if below > unit / 2 || below == unit / 2 && odd == 1 {
            number += unit;
        }
    }
    let digits = format!("{:013x}", number & ((1 << FRACTION_BITS) - 1));
    let digits = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(wanted) => format!("{digits:0<wanted$}")[..wanted].to_owned(),
    };
    let dot = if digits.is_empty() { "" } else { "." };
    format!("0x{}{dot}{digits}p{exponent:+}", number >> FRACTION_BITS)
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
        assert_eq!(text(spec(Some(2)), b'a', 1.999), "0x2.00p+0");
        assert_eq!(text(spec(Some(0)), b'a', 1.5), "0x2p+0");
        assert_eq!(text(spec(Some(15)), b'a', 1.5), "0x1.800000000000000p+0");
        let sharp = |precision| Spec { precision, alternate: true, ..Spec::default() };
        assert_eq!(text(sharp(Some(0)), b'f', 2.5), "2.");
        assert_eq!(text(sharp(Some(0)), b'e', 12345.678), "1.e+04");
        assert_eq!(text(sharp(None), b'g', 1.0), "1.00000");
        assert_eq!(text(sharp(Some(0)), b'a', 1.0), "0x1.p+0");
        let wide = Spec { width: 8, zero: true, precision: Some(2), ..Spec::default() };
        assert_eq!(text(wide, b'f', -2.71459), "-0002.71");
    }

    #[test]
    fn integers_print_as_in_c() {
        let mut out = Vec::new();
        Spec { width: 6, zero: true, ..Spec::default() }.integer(&mut out, true, "42".into());
        Spec { alternate: true, ..Spec::default() }.prefixed(&mut out, "0x", "2a".into());
        Spec { width: 5, left: true, ..Spec::default() }.integer(&mut out, false, "7".into());
        Spec { alternate: true, precision: Some(0), ..Spec::default() }.octal(&mut out, "0".into());
        Spec { alternate: true, ..Spec::default() }.octal(&mut out, "52".into());
        assert_eq!(out, b"-000420x2a7    0052");
    }

    #[test]
    fn conversions_are_taken_apart() {
        let parse = |text: &'static str| {
            let (spec, rest) = Spec::parse(text.as_bytes());
            (spec.conversion, spec.length, String::from_utf8_lossy(spec.field), rest.len())
        };
        assert_eq!(parse("hhd..."), (b'd', Length::Char, "".into(), 3));
        assert_eq!(parse("-5.3hx"), (b'x', Length::Short, "-5.3".into(), 0));
        assert_eq!(parse("llu"), (b'u', Length::Long, "".into(), 0));
        assert_eq!(parse("zu|"), (b'u', Length::Long, "".into(), 1));
        assert_eq!(parse("*.*f|"), (b'f', Length::Int, "*.*".into(), 1));
        assert_eq!(parse("5ly"), (b'y', Length::Long, "5".into(), 0));
        assert_eq!(parse(""), (0, Length::Int, "".into(), 0));
    }
}
