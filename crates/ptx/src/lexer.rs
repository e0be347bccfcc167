//! Text to tokens.
//!
//! A hand-written scanner over bytes that yields one token a call and keeps no history. It knows
//! nothing of PTX's grammar beyond the shape of its words: `.global`, `.L2::128B` and `.2d` are
//! one token each, `%r1` and `$L__BB0_3` are identifiers, numbers come with their value. Bytes
//! that start no token come out as [`TokenKind::Invalid`], never as a failure of the scanner.

use crate::ast::{Immediate, Span};

/// What a token is. Numbers carry their value, everything else its span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name, an opcode, `_`.
    Ident,
    /// A dotted word; the span includes the dot.
    Dot,
    /// A number.
    Number(Immediate),
    /// `"..."`; the span includes the quotes.
    String,
    /// Punctuation of one byte.
    Punct(u8),
    /// `<<` (two bytes the same) or `<=` ... (with `=`): first and second byte.
    Punct2(u8, u8),
    /// What cannot start a token or is malformed; the message says what was expected.
    Invalid(&'static str),
    /// End of the text.
    Eof,
}

/// A token and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// The scanner. `source` must be shorter than 4 GiB.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

/// Bytes of an identifier after the first.
const fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Lexer { source, at: 0 }
    }

    fn byte(&self, offset: usize) -> u8 {
        self.source.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    fn take_while(&mut self, mut keep: impl FnMut(u8) -> bool) {
        let rest = &self.source.as_bytes()[self.at..];
        self.at += rest.iter().position(|&byte| !keep(byte)).unwrap_or(rest.len());
    }

    /// Skips white space, comments and `#` lines. False at an unterminated comment.
    fn skip_blank(&mut self) -> bool {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
            match (self.byte(0), self.byte(1)) {
                (b'/', b'/') | (b'#', _) => self.take_while(|byte| byte != b'\n'),
                (b'/', b'*') => match self.source[self.at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => return false,
                },
                _ => return true,
            }
        }
    }

    /// The next token.
    pub(crate) fn next_token(&mut self) -> Token {
        if !self.skip_blank() {
            let start = self.at;
            self.at = self.source.len();
            return self.token(start, TokenKind::Invalid("the end of a comment, `*/`"));
        }
        let start = self.at;
        let kind = match self.byte(0) {
            _ if start >= self.source.len() => TokenKind::Eof,
            first if first.is_ascii_alphabetic() || first == b'_' || first == b'$' => {
                self.take_while(continues_word);
                TokenKind::Ident
            }
            b'%' if continues_word(self.byte(1)) && !self.byte(1).is_ascii_digit() => {
                self.at += 1;
                self.take_while(continues_word);
                TokenKind::Ident
            }
            b'.' if continues_word(self.byte(1)) => self.dotted_word(),
            first if first.is_ascii_digit() => self.number(),
            b'"' => self.string(),
            first => self.punctuation(first),
        };
        self.token(start, kind)
    }

    fn token(&self, start: usize, kind: TokenKind) -> Token {
        Token { kind, span: Span { start: start as u32, end: self.at as u32 } }
    }

    fn dotted_word(&mut self) -> TokenKind {
        self.at += 1;
        self.take_while(continues_word);
        while self.byte(0) == b':' && self.byte(1) == b':' && continues_word(self.byte(2)) {
            self.at += 2;
            self.take_while(continues_word);
        }
        TokenKind::Dot
    }

    fn string(&mut self) -> TokenKind {
        self.at += 1;
        let mut escaped = false;
        self.take_while(|byte| {
            let end = byte == b'\n' || (byte == b'"' && !escaped);
            escaped = byte == b'\\' && !escaped;
            !end
        });
        if self.byte(0) != b'"' {
            return TokenKind::Invalid("the end of a string, `\"`, on the same line");
        }
        self.at += 1;
        TokenKind::String
    }

    fn punctuation(&mut self, first: u8) -> TokenKind {
        let second = self.byte(1);
        if matches!(
            (first, second),
            (b'<', b'<' | b'=')
                | (b'>', b'>' | b'=')
                | (b'=' | b'!', b'=')
                | (b'&', b'&')
                | (b'|', b'|')
        ) {
            self.at += 2;
            return TokenKind::Punct2(first, second);
        }
        if b",;:{}()[]<>+-*/%!~&|^=?@".contains(&first) {
            self.at += 1;
            return TokenKind::Punct(first);
        }
        self.at += self.source[self.at..].chars().next().map_or(1, char::len_utf8);
        TokenKind::Invalid("a PTX token")
    }

    /// A number. The caller saw a digit.
    fn number(&mut self) -> TokenKind {
        let start = self.at;
        self.take_while(continues_word);
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            self.at += 1;
            self.take_while(continues_word);
        } else if self.byte(0) == b'.' && !continues_word(self.byte(1)) {
            self.at += 1;
        } else if self.byte(0) == b'.'
            && matches!(self.byte(1), b'e' | b'E')
            && (self.byte(2).is_ascii_digit() || matches!(self.byte(2), b'+' | b'-'))
        {
            // `1.e5`
            self.at += 1;
            self.take_while(continues_word);
        }
        let source = self.source;
        let bytes = source.as_bytes();
        if matches!(bytes[self.at - 1], b'e' | b'E')
            && matches!(self.byte(0), b'+' | b'-')
            && !source[start..self.at].starts_with("0x")
            && !source[start..self.at].starts_with("0X")
            && !source[start..self.at].starts_with("0f")
        {
            self.at += 1;
            self.take_while(continues_word);
        }
        match number_value(&source[start..self.at]) {
            Some(value) => TokenKind::Number(value),
            None => TokenKind::Invalid("a number that fits 64 bits"),
        }
    }
}

/// Value of a number as written: decimal, octal, `0x`, `0b`, with `U`; `0f` and `0d` bit
/// patterns; decimal floats.
pub(crate) fn number_value(text: &str) -> Option<Immediate> {
    let lower = text.as_bytes().get(1).map(u8::to_ascii_lowercase);
    if text.starts_with('0') {
        if lower == Some(b'f') && text.len() == 10 {
            return u32::from_str_radix(&text[2..], 16).ok().map(Immediate::F32);
        }
        if lower == Some(b'd') && text.len() == 18 {
            return u64::from_str_radix(&text[2..], 16).ok().map(Immediate::F64);
        }
    }
    let digits = text.strip_suffix('U').unwrap_or(text);
    let (radix, digits) = match (text.as_bytes(), lower) {
        ([b'0', ..], Some(b'x')) => (16, digits.get(2..)?),
        ([b'0', ..], Some(b'b')) => (2, digits.get(2..)?),
        ([b'0', ..], Some(b'0'..=b'9')) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            (8, digits.get(1..)?)
        }
        _ => (10, digits),
    };
    // `from_str_radix` would take a sign; the scanner never passes one, but keep it out anyway.
    if digits.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && let Ok(bits) = u64::from_str_radix(digits, radix)
    {
        let unsigned = text.ends_with('U') || bits > i64::MAX as u64;
        return Some(Immediate::Integer { bits, unsigned });
    }
    let float = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b))
        && text.bytes().any(|b| b".eE".contains(&b));
    float.then(|| text.parse::<f64>().ok().map(|value| Immediate::F64(value.to_bits()))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(TokenKind, &str)> {
        let mut lexer = Lexer::new(source);
        let mut out = Vec::new();
        loop {
            let token = lexer.next_token();
            if token.kind == TokenKind::Eof {
                return out;
            }
            out.push((token.kind, &source[token.span.start as usize..token.span.end as usize]));
        }
    }

    #[test]
    fn words_of_an_instruction() {
        let source = "@!%p1 ld.global.L2::128B.b32 %r1, [%rd2+-8]; // x\n $L__BB0_1: tex.2d";
        let texts: Vec<&str> = kinds(source).into_iter().map(|(_, text)| text).collect();
        let expected = [
            "@",
            "!",
            "%p1",
            "ld",
            ".global",
            ".L2::128B",
            ".b32",
            "%r1",
            ",",
            "[",
            "%rd2",
            "+",
            "-",
            "8",
            "]",
            ";",
            "$L__BB0_1",
            ":",
            "tex",
            ".2d",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn numbers_have_their_value() {
        let signed = |value| Some(Immediate::signed(value));
        assert_eq!(number_value("42"), signed(42));
        assert_eq!(number_value("0x1F"), signed(31));
        assert_eq!(number_value("017"), signed(15));
        assert_eq!(number_value("0b101"), signed(5));
        assert_eq!(number_value("0"), signed(0));
        assert_eq!(number_value("08"), None);
        let unsigned = |bits| Some(Immediate::Integer { bits, unsigned: true });
        assert_eq!(number_value("7U"), unsigned(7));
        assert_eq!(number_value("0xFFFFFFFFFFFFFFFF"), unsigned(u64::MAX));
        assert_eq!(number_value("99999999999999999999"), None);
        assert_eq!(number_value("0f3F800000"), Some(Immediate::F32(0x3f80_0000)));
        assert_eq!(number_value("0d3FF0000000000000"), Some(Immediate::F64(1f64.to_bits())));
        assert_eq!(number_value("1.5e-3"), Some(Immediate::F64(1.5e-3f64.to_bits())));
        assert_eq!(number_value("2."), Some(Immediate::F64(2f64.to_bits())));
        assert_eq!(number_value("1abc"), None);
    }

    #[test]
    fn a_version_number_is_one_token() {
        assert!(matches!(kinds("8.5")[..], [(TokenKind::Number(Immediate::F64(_)), "8.5")]));
    }

    #[test]
    fn malformed_text_is_invalid_not_lost() {
        assert!(matches!(kinds("/* open")[..], [(TokenKind::Invalid(_), "/* open")]));
        assert!(matches!(kinds("\"open\n")[0].0, TokenKind::Invalid(_)));
        assert!(matches!(kinds("é")[..], [(TokenKind::Invalid(_), "é")]));
        assert!(matches!(kinds("\0")[..], [(TokenKind::Invalid(_), "\0")]));
    }
}
