//! Locks: a thread that takes a mutex which it holds waits for itself for good. A guard that no variable has
//! lives to the end of its statement, and that of a `match` to the end of its arms: two such guards of one
//! mutex are found here. What calls hide is found in debug builds (crate `locks`, `client/src/lock.rs`).

use crate::tidy::{read, tracked};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The code alone: comments are gone, and what is in texts.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => {
                code.push_str("\"\"");
                length_of_text(rest)
            }
            // A character; a lifetime has no second quote.
            '\'' if rest.starts_with("'\\") => {
                2 + rest[2..].find('\'').map_or(rest.len() - 2, |at| at + 1)
            }
            '\'' if rest.chars().nth(2) == Some('\'') => {
                rest.chars().take(3).map(char::len_utf8).sum()
            }
            _ => {
                code.push(next);
                next.len_utf8()
            }
        };
        if next == '"' || next == '\'' {
            code.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        }
        rest = &rest[skipped..];
    }
    code
}

/// How long a text is that begins with its quote.
fn length_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Methods without arguments that return a guard.
fn accessors(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("fn ") {
        let head = &code[at + 3..];
        let head = &head[..head.find(['{', ';']).unwrap_or(head.len())];
        let Some((name, rest)) = head.split_once('(') else { continue };
        let Some((parameters, result)) = rest.split_once(')') else { continue };
        let name = name.split('<').next().unwrap_or_default();
        if parameters.trim() == "&self" && result.contains("->") && result.contains("Guard<") {
            names.insert(name.trim().to_owned());
        }
    }
    names
}

/// The guards that a piece of code takes, by what they are taken of.
fn guards(code: &str, accessors: &BTreeSet<String>) -> Vec<String> {
    if !code.contains("()") && !code.contains("locked(") {
        return Vec::new();
    }
    let flat = flat(code);
    let mut found = Vec::new();
    for name in accessors {
        let call = format!(".{name}()");
        for (at, _) in flat.match_indices(&call) {
            let receiver = receiver_of(&flat[..at]);
            if !receiver.is_empty() {
                found.push(format!("{receiver}{call}"));
            }
        }
    }
    for (at, _) in flat.match_indices("locked(&") {
        let argument = &flat[at..];
        found.extend(argument.find(')').map(|end| argument[..=end].to_owned()));
    }
    found
}

/// The code without white space but between words.
fn flat(code: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut flat = String::with_capacity(code.len());
    for part in code.split_whitespace() {
        if flat.ends_with(is_word) && part.starts_with(is_word) {
            flat.push(' ');
        }
        flat.push_str(part);
    }
    flat
}

/// The path that a piece of code ends with: names, fields and calls without arguments.
fn receiver_of(code: &str) -> &str {
    let mut begin = code.len();
    for (at, c) in code.char_indices().rev() {
        let is_call =
            matches!(c, '(' | ')') && (code[at..].starts_with("()") || code[..=at].ends_with("()"));
        if !(c.is_alphanumeric() || matches!(c, '_' | '.' | ':') || is_call) {
            break;
        }
        begin = at;
    }
    code[begin..].trim_start_matches(['.', ':'])
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Mutexes that a statement takes while it holds them, with the lines.
fn taken_twice(code: &str, accessors: &BTreeSet<String>) -> Vec<(usize, String)> {
    let mut complaints = Vec::new();
    let (mut begin, mut line) = (0, 1);
    for (end, c) in code.char_indices().filter(|(_, c)| matches!(c, ';' | '{' | '}')) {
        let statement = &code[begin..end];
        begin = end + 1;
        line += statement.matches('\n').count();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        let all = guards(statement, accessors);
        all.iter().for_each(|guard| *counts.entry(guard.clone()).or_default() += 1);
        complaints
            .extend(counts.into_iter().filter(|(_, n)| *n > 1).map(|(guard, _)| (line, guard)));
        let keeps =
            ["match", "if let", "while let", "for"].iter().any(|word| match word.split_once(' ') {
                Some((first, _)) => has_word(statement, first) && has_word(statement, "let"),
                None => has_word(statement, word),
            });
        if c == '{' && keeps && !all.is_empty() {
            let inside = guards(block_of(&code[end..]), accessors);
            let again = all.into_iter().filter(|guard| inside.contains(guard));
            complaints.extend(again.map(|guard| (line, guard)));
        }
    }
    complaints
}

/// The block that a piece of code begins with.
fn block_of(code: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return &code[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    code
}

fn crate_of(path: &Path) -> String {
    let path = path.strip_prefix(crate::root()).unwrap_or(path);
    path.components()
        .take(2)
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

#[test]
fn no_statement_takes_a_mutex_twice() {
    let files: Vec<_> =
        tracked("*.rs").into_iter().map(|path| (code_of(&read(&path)), path)).collect();
    let mut of_crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (code, path) in &files {
        of_crates.entry(crate_of(path)).or_default().extend(accessors(code));
    }
    let mut complaints = Vec::new();
    for (code, path) in &files {
        let mut accessors = of_crates.get(&crate_of(path)).cloned().unwrap_or_default();
        accessors.insert("lock".to_owned());
        for (line, guard) in taken_twice(code, &accessors) {
            complaints.push(format!("{}:{line}: {guard} is held and taken again", path.display()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn mutexes_that_are_taken_twice_are_found() {
    let declared = "impl A { fn now(&self) -> MutexGuard<'_, Now> { self.a.lock() } fn sms(&self) -> u32 { 1 } }";
    let mut accessors = accessors(declared);
    assert_eq!(accessors.iter().map(String::as_str).collect::<Vec<_>>(), ["now"]);
    accessors.insert("lock".to_owned());
    let of = |text: &str| taken_twice(&code_of(text), &accessors).len();
    assert_eq!(of("let (a, b) = (self.now().a, self.now().b);"), 1);
    assert_eq!(of("let (a, b) = (self.now().a,\n    // why\n    self\n.now().b);"), 1);
    assert_eq!(of("let a = locked(&self.a).len() + locked(&self.a).len();"), 1);
    assert_eq!(of("let a = locked(&self.a).len() + locked(&self.b).len();"), 0);
    assert_eq!(of("f(self.state().a.lock(), other.state().a.lock());"), 0);
    assert_eq!(of("let a = self.now().a; let b = self.now().b;"), 0);
    assert_eq!(of("match self.now().a { 1 => self.now().b, _ => 2 }"), 1);
    assert_eq!(of("if let Some(a) = self.a.lock().get() { f(); self.a.lock(); }"), 1);
    assert_eq!(of("if self.now().a { self.now().b = 1; }"), 0, "a condition lets go");
    assert_eq!(of("let a = \"self.now() self.now()\"; // self.now() self.now()\nf('\"');"), 0);
}
