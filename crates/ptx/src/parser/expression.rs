//! Constant expressions: C's operators over 64-bit integers, and over doubles where the manual
//! has them. Evaluated while read; the tree keeps only the value.

use super::{Parsed, Parser};
use crate::ast::{Immediate, Span};
use crate::lexer::{TokenKind, number_value};
use crate::limits::EXPRESSION_DEPTH_MAX;

/// Binding strength of each binary operator, C's order, loosest first. `?:` is below all.
fn strength(kind: TokenKind) -> Option<(u8, Operator)> {
    use Operator::*;
    Some(match kind {
        TokenKind::Punct2(b'|', _) => (1, LogicalOr),
        TokenKind::Punct2(b'&', _) => (2, LogicalAnd),
        TokenKind::Punct(b'|') => (3, Or),
        TokenKind::Punct(b'^') => (4, Xor),
        TokenKind::Punct(b'&') => (5, And),
        TokenKind::Punct2(b'=', _) => (6, Equal),
        TokenKind::Punct2(b'!', _) => (6, NotEqual),
        TokenKind::Punct2(b'<', b'=') => (7, LessEqual),
        TokenKind::Punct2(b'>', b'=') => (7, GreaterEqual),
        TokenKind::Punct(b'<') => (7, Less),
        TokenKind::Punct(b'>') => (7, Greater),
        TokenKind::Punct2(b'<', _) => (8, ShiftLeft),
        TokenKind::Punct2(b'>', _) => (8, ShiftRight),
        TokenKind::Punct(b'+') => (9, Add),
        TokenKind::Punct(b'-') => (9, Subtract),
        TokenKind::Punct(b'*') => (10, Multiply),
        TokenKind::Punct(b'/') => (10, Divide),
        TokenKind::Punct(b'%') => (10, Remainder),
        _ => return None,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    LogicalOr,
    LogicalAnd,
    Or,
    Xor,
    And,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Parser<'_> {
    /// The next token can start a constant expression.
    pub(super) fn at_constant(&self) -> bool {
        match self.token.kind {
            TokenKind::Number(_) => true,
            TokenKind::Punct(byte) => b"-+~!(".contains(&byte),
            TokenKind::Ident => self.peek_text() == "WARP_SZ",
            TokenKind::Dot => self.fraction().is_some(),
            _ => false,
        }
    }

    /// The value of `.5`, which the lexer takes for a dotted word as `.1d` is one.
    fn fraction(&self) -> Option<Immediate> {
        number_value(self.peek_text()).filter(|value| matches!(value, Immediate::F64(_)))
    }

    /// A constant expression.
    pub(super) fn constant(&mut self, what: &str) -> Parsed<Immediate> {
        let start = self.token.span;
        self.conditional(what, start, 0)
    }

    /// A constant expression with an integer value.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<i64> {
        let start = self.token.span;
        let value = self.constant(what)?;
        value.as_i64().ok_or_else(|| {
            self.mistake(start, format!("a floating-point constant, expected {what}"))
        })
    }

    /// A non-negative integer of at most 32 bits.
    pub(super) fn unsigned(&mut self, what: &str) -> Parsed<u32> {
        let start = self.token.span;
        let value = self.integer(what)?;
        u32::try_from(value)
            .map_err(|_| self.mistake(start, format!("{value} is out of range, expected {what}")))
    }

    /// A constant without operators of its own: for places where `<`, `>` or `|` follow.
    pub(super) fn plain_constant(&mut self, what: &str) -> Parsed<Immediate> {
        let start = self.token.span;
        self.unary(what, start, 0)
    }

    fn conditional(&mut self, what: &str, start: Span, depth: u32) -> Parsed<Immediate> {
        let condition = self.binary(what, start, 0, depth)?;
        if !self.take_punct(b'?') {
            return Ok(condition);
        }
        let depth = self.deeper(start, depth)?;
        let yes = self.conditional(what, start, depth)?;
        self.expect_punct(b':', "between the values of `?`")?;
        let no = self.conditional(what, start, depth)?;
        Ok(if is_true(condition) { yes } else { no })
    }

    fn deeper(&mut self, start: Span, depth: u32) -> Parsed<u32> {
        if depth >= EXPRESSION_DEPTH_MAX {
            let message = format!("expression nested deeper than {EXPRESSION_DEPTH_MAX}");
            return Err(self.mistake(start, message));
        }
        Ok(depth + 1)
    }

    fn binary(&mut self, what: &str, start: Span, least: u8, depth: u32) -> Parsed<Immediate> {
        let depth = self.deeper(start, depth)?;
        let mut left = self.unary(what, start, depth)?;
        while let Some((strength, operator)) = strength(self.token.kind)
            && strength > least
        {
            self.advance();
            let right = self.binary(what, start, strength, depth)?;
            left = apply(operator, left, right).ok_or_else(|| {
                self.mistake(start, format!("{operator:?} has no value for these constants"))
            })?;
        }
        Ok(left)
    }

    fn unary(&mut self, what: &str, start: Span, depth: u32) -> Parsed<Immediate> {
        let depth = self.deeper(start, depth)?;
        if self.token.kind == TokenKind::Dot
            && let Some(value) = self.fraction()
        {
            self.advance();
            return Ok(value);
        }
        match self.token.kind {
            TokenKind::Number(value) => {
                self.advance();
                Ok(value)
            }
            TokenKind::Ident if self.peek_text() == "WARP_SZ" => {
                self.advance();
                Ok(Immediate::signed(32))
            }
            TokenKind::Punct(sign @ (b'-' | b'+' | b'~' | b'!')) => {
                self.advance();
                let value = self.unary(what, start, depth)?;
                apply_unary(sign, value).ok_or_else(|| {
                    self.mistake(start, format!("`{}` of a floating-point constant", sign as char))
                })
            }
            TokenKind::Punct(b'(') => {
                self.advance();
                let cast = if self.take_dot(".s64") {
                    Some(false)
                } else if self.take_dot(".u64") {
                    Some(true)
                } else {
                    None
                };
                if let Some(unsigned) = cast {
                    self.expect_punct(b')', "after the type of a cast")?;
                    let value = self.unary(what, start, depth)?;
                    return match value {
                        Immediate::Integer { bits, .. } => {
                            Ok(Immediate::Integer { bits, unsigned })
                        }
                        _ => Err(self.mistake(start, "cast of a floating-point constant".into())),
                    };
                }
                let value = self.conditional(what, start, depth)?;
                self.expect_punct(b')', "at the end of a parenthesised constant")?;
                Ok(value)
            }
            _ => Err(self.unexpected(what)),
        }
    }
}

fn is_true(value: Immediate) -> bool {
    match value {
        Immediate::Integer { bits, .. } => bits != 0,
        Immediate::F32(bits) => f32::from_bits(bits) != 0.0,
        Immediate::F64(bits) => f64::from_bits(bits) != 0.0,
    }
}

fn apply_unary(sign: u8, value: Immediate) -> Option<Immediate> {
    Some(match (sign, value) {
        (b'+', value) => value,
        (b'-', Immediate::F32(bits)) => Immediate::F32(bits ^ 1 << 31),
        (b'-', Immediate::F64(bits)) => Immediate::F64(bits ^ 1 << 63),
        (b'-', Immediate::Integer { bits, unsigned }) => {
            // The minus of -9223372036854775808 makes a signed number of what alone is unsigned.
            let smallest = bits == 1 << 63;
            Immediate::Integer { bits: bits.wrapping_neg(), unsigned: unsigned && !smallest }
        }
        (b'~', Immediate::Integer { bits, unsigned }) => {
            Immediate::Integer { bits: !bits, unsigned }
        }
        (b'!', value) => Immediate::signed(i64::from(!is_true(value))),
        _ => return None,
    })
}

fn apply(operator: Operator, left: Immediate, right: Immediate) -> Option<Immediate> {
    let (
        Immediate::Integer { bits: a, unsigned: ua },
        Immediate::Integer { bits: b, unsigned: ub },
    ) = (left, right)
    else {
        return apply_float(operator, float(left)?, float(right)?);
    };
    use Operator::*;
    let unsigned = ua || ub;
    let (sa, sb) = (a as i64, b as i64);
    let truth = |value: bool| Some(Immediate::signed(i64::from(value)));
    let shift = u32::try_from(b).ok().filter(|&count| count < 64);
    let bits = match operator {
        LogicalOr => return truth(a != 0 || b != 0),
        LogicalAnd => return truth(a != 0 && b != 0),
        Equal => return truth(a == b),
        NotEqual => return truth(a != b),
        Less => return truth(if unsigned { a < b } else { sa < sb }),
        LessEqual => return truth(if unsigned { a <= b } else { sa <= sb }),
        Greater => return truth(if unsigned { a > b } else { sa > sb }),
        GreaterEqual => return truth(if unsigned { a >= b } else { sa >= sb }),
        ShiftLeft => {
            let bits = shift.map_or(0, |count| a << count);
            return Some(Immediate::Integer { bits, unsigned: ua });
        }
        ShiftRight => {
            let bits = match (ua, shift) {
                (true, Some(count)) => a >> count,
                (true, None) => 0,
                (false, count) => (sa >> count.unwrap_or(63)) as u64,
            };
            return Some(Immediate::Integer { bits, unsigned: ua });
        }
        Or => a | b,
        Xor => a ^ b,
        And => a & b,
        Add => a.wrapping_add(b),
        Subtract => a.wrapping_sub(b),
        Multiply => a.wrapping_mul(b),
        Divide if unsigned => a.checked_div(b)?,
        Remainder if unsigned => a.checked_rem(b)?,
        Divide if b != 0 => sa.wrapping_div(sb) as u64,
        Remainder if b != 0 => sa.wrapping_rem(sb) as u64,
        Divide | Remainder => return None,
    };
    Some(Immediate::Integer { bits, unsigned })
}

fn float(value: Immediate) -> Option<f64> {
    match value {
        Immediate::F64(bits) => Some(f64::from_bits(bits)),
        Immediate::F32(bits) => Some(f64::from(f32::from_bits(bits))),
        Immediate::Integer { .. } => None,
    }
}

fn apply_float(operator: Operator, a: f64, b: f64) -> Option<Immediate> {
    use Operator::*;
    let truth = |value: bool| Some(Immediate::signed(i64::from(value)));
    let value = match operator {
        Add => a + b,
        Subtract => a - b,
        Multiply => a * b,
        Divide => a / b,
        Equal => return truth(a == b),
        NotEqual => return truth(a != b),
        Less => return truth(a < b),
        LessEqual => return truth(a <= b),
        Greater => return truth(a > b),
        GreaterEqual => return truth(a >= b),
        _ => return None,
    };
    Some(Immediate::F64(value.to_bits()))
}
