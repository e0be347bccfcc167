//! Tokens to tree: recursive descent with names resolved on the way.
//!
//! PTX wants every register, variable and function declared before it is used, so one pass
//! suffices; only labels are settled at the end of their function. A mistake is recorded where
//! it is seen and reading goes on after the next semicolon, so one run reports several. Whether
//! operands fit their instruction is not asked here.

mod body;
mod declaration;
mod directives;
mod expression;
mod function;
mod initializer;
mod labels;
mod operand;
mod scope;

use crate::ast::{Module, Name, Span, Target, Version, position_in};
use crate::diagnostic::{Diagnostic, ERRORS_MAX, Errors, Position, Severity};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::limits::SOURCE_BYTES_MAX;
use crate::parser::scope::Names;
use function::FunctionState;

/// The mistake is recorded; give up this statement.
#[derive(Debug)]
struct Stop;

type Parsed<T> = Result<T, Stop>;

struct Parser<'s> {
    source: &'s str,
    lines: Vec<u32>,
    lexer: Lexer<'s>,
    /// The token to be read next.
    token: Token,
    /// End of the token read last.
    last_end: u32,
    names: Names<'s>,
    /// Modifier and opcode of each name, found once.
    words: operand::WordCache,
    module: Module,
    /// The function being read.
    function: FunctionState,
    diagnostics: Vec<Diagnostic>,
    truncated: bool,
}

/// Reads PTX text. Trailing NUL bytes are taken for the end of the text.
///
/// # Errors
/// At least one finding with line, column, what was found and what was expected. Reading goes on
/// after an error as far as it is useful; at most [`ERRORS_MAX`] findings are kept.
pub fn parse(source: &str) -> Result<Module, Errors> {
    let source = source.trim_end_matches('\0');
    if source.len() > SOURCE_BYTES_MAX {
        return Err(whole_file(format!(
            "the text is {} bytes long, expected at most {SOURCE_BYTES_MAX}",
            source.len()
        )));
    }
    if let Some(errors) = not_ascii(source.as_bytes()) {
        return Err(errors);
    }
    let mut parser = Parser::new(source);
    parser.read_module();
    parser.finish()
}

/// What is wrong with bytes that are not ASCII, wherever they stand: comments and strings too.
fn not_ascii(source: &[u8]) -> Option<Errors> {
    let at = source.iter().position(|byte| !byte.is_ascii())?;
    let good = &source[..at];
    let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count() as u32;
    let column = 1 + good.iter().rev().take_while(|&&byte| byte != b'\n').count() as u32;
    let mut errors =
        whole_file(format!("Unexpected non-ASCII character encountered on line {line}"));
    errors.diagnostics[0].position = Position { line, column };
    Some(errors)
}

/// True if the text starts as a module does: with `.version`, after blanks and comments. A driver
/// takes nothing else for PTX at all.
pub fn starts_a_module(source: &str) -> bool {
    Parser::new(source).at_dot(".version")
}

/// Reads the version and the target at the start of PTX text, and nothing else of it.
///
/// # Errors
/// One finding: what stands there instead.
pub fn header(source: &str) -> Result<(Version, Target), Errors> {
    let mut parser = Parser::new(source);
    match parser.read_header() {
        Ok(()) => Ok((parser.module.version, parser.module.target)),
        Err(Stop) => Err(Errors { diagnostics: parser.diagnostics, truncated: false }),
    }
}

/// Reads PTX from bytes, as found in an image.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(source: &[u8]) -> Result<Module, Errors> {
    match std::str::from_utf8(source) {
        Ok(text) => parse(text),
        // What is not UTF-8 is not ASCII.
        Err(error) => Err(not_ascii(source).unwrap_or_else(|| whole_file(error.to_string()))),
    }
}

fn whole_file(message: String) -> Errors {
    let position = Position { line: 1, column: 1 };
    let diagnostics = vec![Diagnostic { position, severity: Severity::Error, message }];
    Errors { diagnostics, truncated: false }
}

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Self {
        let starts = source.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let lines: Vec<u32> =
            std::iter::once(0).chain(starts.map(|(at, _)| at as u32 + 1)).collect();
        let mut lexer = Lexer::new(source);
        let token = lexer.next_token();
        Parser {
            source,
            lines,
            lexer,
            token,
            last_end: 0,
            names: Names::new(source),
            words: operand::WordCache::default(),
            module: Module {
                source: "".into(),
                lines: Vec::new(),
                names: Vec::new(),
                version_span: Span::default(),
                target_span: Span::default(),
                version: Default::default(),
                target: Default::default(),
                address_size_bits: 32,
                functions: Vec::new(),
                variables: Vec::new(),
                items: Vec::new(),
                aliases: Vec::new(),
                files: Vec::new(),
                pragmas: Vec::new(),
            },
            function: FunctionState::new(),
            diagnostics: Vec::new(),
            truncated: false,
        }
    }

    fn finish(mut self) -> Result<Module, Errors> {
        if !self.diagnostics.is_empty() {
            self.diagnostics.sort_by_key(|diagnostic| diagnostic.position);
            return Err(Errors { diagnostics: self.diagnostics, truncated: self.truncated });
        }
        self.module.source = self.source.into();
        self.module.lines = self.lines;
        self.module.names = self.names.spans;
        Ok(self.module)
    }

    // ---- tokens -----------------------------------------------------------------------------

    fn text(&self, span: Span) -> &'s str {
        &self.source[span.start as usize..span.end as usize]
    }

    /// Text of the token to be read next.
    fn peek_text(&self) -> &'s str {
        self.text(self.token.span)
    }

    fn advance(&mut self) -> Token {
        let token = self.token;
        self.last_end = token.span.end;
        self.token = self.lexer.next_token();
        token
    }

    fn at_punct(&self, byte: u8) -> bool {
        self.token.kind == TokenKind::Punct(byte)
    }

    fn at_end(&self) -> bool {
        self.token.kind == TokenKind::Eof
    }

    /// The token is the dotted word `word` (given with its dot).
    fn at_dot(&self, word: &str) -> bool {
        self.token.kind == TokenKind::Dot && self.peek_text() == word
    }

    fn take_punct(&mut self, byte: u8) -> bool {
        let here = self.at_punct(byte);
        if here {
            self.advance();
        }
        here
    }

    fn take_dot(&mut self, word: &str) -> bool {
        let here = self.at_dot(word);
        if here {
            self.advance();
        }
        here
    }

    fn expect_punct(&mut self, byte: u8, after: &str) -> Parsed<Token> {
        if self.at_punct(byte) {
            return Ok(self.advance());
        }
        Err(self.unexpected(&format!("`{}` {after}", byte as char)))
    }

    fn expect_ident(&mut self, what: &str) -> Parsed<(Name, Span)> {
        if self.token.kind != TokenKind::Ident {
            return Err(self.unexpected(what));
        }
        let span = self.advance().span;
        Ok((self.names.intern(span), span))
    }

    fn expect_string(&mut self, what: &str) -> Parsed<String> {
        if self.token.kind != TokenKind::String {
            return Err(self.unexpected(what));
        }
        let span = self.advance().span;
        let text = self.text(span);
        Ok(text[1..text.len() - 1].to_owned())
    }

    // ---- mistakes ---------------------------------------------------------------------------

    /// Records a mistake at `span`.
    fn mistake(&mut self, span: Span, message: String) -> Stop {
        if self.diagnostics.len() >= ERRORS_MAX {
            self.truncated = true;
        } else {
            let position = position_in(&self.lines, span.start);
            self.diagnostics.push(Diagnostic { position, severity: Severity::Error, message });
        }
        Stop
    }

    /// Records that the next token is not what was expected.
    fn unexpected(&mut self, expected: &str) -> Stop {
        let message = match self.token.kind {
            TokenKind::Eof => {
                format!("Parsing error near end of file: expected {expected}")
            }
            TokenKind::Invalid(needed) => format!(
                "Parsing error near '{}': expected {needed}",
                clip(self.text(self.token.span))
            ),
            _ => format!(
                "Parsing error near '{0}': syntax error, found `{0}`, expected {expected}",
                clip(self.peek_text())
            ),
        };
        self.mistake(self.token.span, message)
    }

    /// Skips to after the next semicolon, or to a `}` or the end that closes the statement's
    /// surroundings. Braces opened on the way are skipped whole.
    fn skip_statement(&mut self) {
        let mut open = 0u32;
        loop {
            match self.token.kind {
                TokenKind::Eof => return,
                TokenKind::Punct(b';') if open == 0 => {
                    self.advance();
                    return;
                }
                TokenKind::Punct(b'}') if open == 0 => return,
                TokenKind::Punct(b'{') => open += 1,
                TokenKind::Punct(b'}') => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }
}

/// The first part of a long piece of text, for a message.
fn clip(text: &str) -> String {
    const CLIP_CHARS_MAX: usize = 40;
    let line = text.lines().next().unwrap_or("");
    let mut out: String = line.chars().take(CLIP_CHARS_MAX).collect();
    if out.len() < text.len() {
        out.push_str("...");
    }
    out
}
