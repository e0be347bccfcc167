//! The module level: header, variables, functions, and what is read past.

use super::{Parsed, Parser, clip};
use crate::ast::{Alias, FunctionKind, Linkage, SourceFile, SourceLocation, StateSpace, Version};
use crate::lexer::TokenKind;

/// The linkage that a dotted word means.
pub(super) fn linkage_of(word: &str) -> Option<Linkage> {
    Some(match word {
        ".visible" => Linkage::Visible,
        ".extern" => Linkage::Extern,
        ".weak" => Linkage::Weak,
        ".common" => Linkage::Common,
        _ => return None,
    })
}

/// What `.target` may name beside an architecture.
const TARGET_OPTIONS: &[&str] =
    &["texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"];

/// The state space that a dotted word declares variables in.
pub(super) fn variable_space_of(word: &str) -> Option<StateSpace> {
    Some(match word {
        ".global" => StateSpace::Global,
        ".const" => StateSpace::Const,
        ".shared" | ".shared::cta" => StateSpace::Shared,
        ".local" => StateSpace::Local,
        ".param" => StateSpace::Param,
        ".tex" => StateSpace::Tex,
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn read_module(&mut self) {
        if self.read_header().is_err() || self.read_address_size().is_err() {
            // Without a header nothing else can be trusted to be PTX at all.
            return;
        }
        while !self.at_end() && !self.truncated {
            if self.read_item().is_err() {
                self.skip_item();
            }
        }
    }

    pub(super) fn read_header(&mut self) -> Parsed<()> {
        if !self.take_dot(".version") {
            return Err(self.unexpected("`.version` at the start of the file"));
        }
        let span = self.token.span;
        if !matches!(self.token.kind, TokenKind::Number(_)) {
            return Err(self.unexpected("a version such as `8.5`"));
        }
        self.advance();
        self.module.version_span = span;
        let text = self.text(span);
        let version = text.split_once('.').and_then(|(major, minor)| {
            Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        self.module.version = version.ok_or_else(|| {
            self.mistake(span, format!("`.version {text}`: expected a version such as `8.5`"))
        })?;
        if !self.take_dot(".target") {
            return Err(self.unexpected("`.target` after `.version`"));
        }
        self.read_target()
    }

    fn read_target(&mut self) -> Parsed<()> {
        self.module.target_span = self.token.span;
        loop {
            let (_, span) = self.expect_ident("a target such as `sm_80`")?;
            let text = self.text(span);
            let Some(architecture) = text.strip_prefix("sm_").or(text.strip_prefix("compute_"))
            else {
                if !TARGET_OPTIONS.contains(&text) {
                    let expected = TARGET_OPTIONS.join("`, `");
                    let message = format!(
                        "Unsupported .target '{}', expected one like `sm_80`, or `{expected}`",
                        clip(text)
                    );
                    return Err(self.mistake(span, message));
                }
                self.module.target.options.push(text.to_owned());
                if !self.take_punct(b',') {
                    return Ok(());
                }
                continue;
            };
            let digits = architecture.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let suffix = &architecture[digits.len()..];
            let sm = digits.parse().ok().filter(|_| suffix.len() <= 1);
            self.module.target.sm = sm.ok_or_else(|| {
                self.mistake(span, format!("unknown target `{text}`, expected one like `sm_80`"))
            })?;
            self.module.target.suffix = suffix.chars().next();
            if !self.take_punct(b',') {
                return Ok(());
            }
        }
    }

    /// `.address_size 64`, if that comes next.
    fn read_address_size(&mut self) -> Parsed<()> {
        if !self.take_dot(".address_size") {
            return Ok(());
        }
        let span = self.token.span;
        let bits = self.unsigned("32 or 64")?;
        if bits != 32 && bits != 64 {
            return Err(self.mistake(span, format!("`.address_size {bits}`: expected 32 or 64")));
        }
        if bits == 32 {
            return Err(self.mistake(span, "32-Bit compilation is no longer supported".to_owned()));
        }
        self.module.address_size_bits = bits;
        Ok(())
    }

    fn read_item(&mut self) -> Parsed<()> {
        if self.token.kind != TokenKind::Dot {
            return Err(self.unexpected("a directive such as `.visible`, `.entry` or `.global`"));
        }
        let mut linkage = Linkage::Internal;
        if let Some(word) = linkage_of(self.peek_text()) {
            self.advance();
            linkage = word;
        }
        let word = if self.token.kind == TokenKind::Dot { self.peek_text() } else { "" };
        match word {
            ".entry" | ".func" if linkage != Linkage::Common => {
                let kind = if word == ".entry" { FunctionKind::Entry } else { FunctionKind::Func };
                self.advance();
                self.read_function(kind, linkage)
            }
            _ if variable_space_of(word).is_some() => self.read_module_variables(linkage),
            _ if linkage != Linkage::Internal => Err(self
                .unexpected("`.entry`, `.func`, `.global`, `.const` or `.shared` after linkage")),
            ".version" | ".target" | ".address_size" => {
                Err(self.unexpected("`.version`, `.target` and `.address_size` once, at the start"))
            }
            ".pragma" => {
                let text = self.read_pragma()?;
                self.module.pragmas.push(text);
                Ok(())
            }
            ".alias" => self.read_alias(),
            ".file" => self.read_file(),
            ".section" => self.read_section(),
            ".loc" => self.read_loc().map(|_| ()),
            _ => Err(self.unexpected("a directive of the module level")),
        }
    }

    /// `.pragma "text";`, at the directive.
    pub(super) fn read_pragma(&mut self) -> Parsed<String> {
        self.advance();
        let mut text = self.expect_string("a string after `.pragma`")?;
        while self.take_punct(b',') {
            text.push(',');
            text.push_str(&self.expect_string("a string after `,`")?);
        }
        self.expect_punct(b';', "after `.pragma`")?;
        Ok(text)
    }

    fn read_alias(&mut self) -> Parsed<()> {
        let start = self.advance().span;
        let (alias, _) = self.expect_function("the alias, a declared function")?;
        self.expect_punct(b',', "between the names of `.alias`")?;
        let (target, _) = self.expect_function("the function that the alias stands for")?;
        self.expect_punct(b';', "after `.alias`")?;
        if self.module.aliases.iter().any(|known| known.name == alias) || alias == target {
            let message = "Duplicate definition of an alias, expected a new name".to_owned();
            return Err(self.mistake(start, message));
        }
        // A chain would need following, and could be a ring: keep the end of it.
        let target = self.module.resolve_alias(target);
        self.module.aliases.push(Alias { span: start, name: alias, target });
        Ok(())
    }

    /// `.file 1 "path" [, timestamp, size]`, at the directive.
    pub(super) fn read_file(&mut self) -> Parsed<()> {
        self.advance();
        let index = self.unsigned("the number of a file")?;
        let path = self.expect_string("the path of a file")?;
        while self.take_punct(b',') {
            self.integer("a time stamp or a size")?;
        }
        self.module.files.push(SourceFile { index, path });
        Ok(())
    }

    /// `.section name { ... }`, at the directive: debug information, not read.
    pub(super) fn read_section(&mut self) -> Parsed<()> {
        self.advance();
        if self.token.kind != TokenKind::Dot {
            return Err(self.unexpected("the name of a section"));
        }
        self.advance();
        self.expect_punct(b'{', "at the start of a section")?;
        let mut open = 1u32;
        while open > 0 {
            match self.token.kind {
                TokenKind::Eof => return Err(self.unexpected("`}` at the end of a section")),
                TokenKind::Punct(b'{') => open += 1,
                TokenKind::Punct(b'}') => open -= 1,
                _ => {}
            }
            self.advance();
        }
        Ok(())
    }

    /// `.loc file line column [, function_name label [+ n], inlined_at file line column]`.
    pub(super) fn read_loc(&mut self) -> Parsed<SourceLocation> {
        self.advance();
        let number = |parser: &mut Self, what| {
            let start = parser.token.span;
            let value = parser.plain_constant(what)?.as_i64().unwrap_or(-1);
            u32::try_from(value).map_err(|_| {
                parser.mistake(start, format!("{value} is out of range, expected {what}"))
            })
        };
        let file = number(self, "the number of a file")?;
        let line = number(self, "a line")?;
        let column = number(self, "a column")?;
        while self.take_punct(b',') {
            let (_, span) = self.expect_ident("`function_name` or `inlined_at`")?;
            match self.text(span) {
                "function_name" => {
                    self.expect_ident("a label of the debug strings")?;
                    if self.take_punct(b'+') {
                        number(self, "an offset")?;
                    }
                }
                "inlined_at" => {
                    for what in ["the number of a file", "a line", "a column"] {
                        number(self, what)?;
                    }
                }
                other => {
                    let message = format!(
                        "`{}` in `.loc`, expected `function_name` or `inlined_at`",
                        clip(other)
                    );
                    return Err(self.mistake(span, message));
                }
            }
        }
        Ok(SourceLocation { file, line, column })
    }

    /// Skips what is left of an item after a mistake: to after a semicolon, or after the braces
    /// that follow.
    fn skip_item(&mut self) {
        let start = self.token.span.start;
        while self.names.depth() > 0 {
            self.names.close_scope();
        }
        loop {
            match self.token.kind {
                TokenKind::Eof => return,
                TokenKind::Punct(b';') => {
                    self.advance();
                    return;
                }
                TokenKind::Punct(b'{') => {
                    self.advance();
                    self.skip_braces();
                    return;
                }
                // The next item starts here, if the mistake was in the last one's end.
                TokenKind::Dot
                    if matches!(self.peek_text(), ".visible" | ".entry" | ".func" | ".extern")
                        && self.token.span.start > start
                        && self.source[..self.token.span.start as usize]
                            .ends_with(['\n', '\r']) =>
                {
                    return;
                }
                _ => {
                    self.advance();
                }
            }
        }
    }

    /// Skips to after the `}` that closes a `{` just read.
    fn skip_braces(&mut self) {
        let mut open = 1u32;
        while open > 0 && !self.at_end() {
            match self.token.kind {
                TokenKind::Punct(b'{') => open += 1,
                TokenKind::Punct(b'}') => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }

    /// A whole number inside a directive that may be written as any constant.
    pub(super) fn extents(&mut self, what: &str) -> Parsed<[u32; 3]> {
        let mut extents = [1u32; 3];
        for (index, extent) in extents.iter_mut().enumerate() {
            if index > 0 && !self.take_punct(b',') {
                break;
            }
            *extent = self.unsigned(what)?;
        }
        Ok(extents)
    }
}
