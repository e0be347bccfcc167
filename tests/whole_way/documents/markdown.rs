//! Markdown: the fenced blocks of a document, and the marks above them that say how each is tested.
//!
//! A mark is an HTML comment right above the fence, with directives between semicolons, a reason being the last one:
//!
//! | directive | meaning |
//! | --- | --- |
//! | `not run: REASON` | the block is left out, and counted |
//! | `transcript` | lines without `$` are output, compared by columns and not by figures |
//! | `output of COMMAND` | the whole block is what that command prints, compared in the same way |
//! | `file NAME` | the block is written into that file of the working directory |
//! | `daemon` | a daemon runs before |
//! | `no daemon` | none does |
//! | `set NAME=VALUE` | an environment variable of this block |
//! | `WORD is a client`, `a server`, `the user`, `the device` | what the reader puts in the place of WORD |
//! | `needs PROGRAM` | left out, and counted, where that program is not installed |

/// How a block is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its lines are run as commands.
    Commands,
    /// Lines after `$ ` are run, the others are output.
    Transcript,
    /// It is what this command prints.
    OutputOf(String),
    /// It is the content of this file.
    File(String),
    /// It is left out, for this reason.
    NotRun(String),
    /// It is no input of any program: a drawing.
    Text,
}

/// What the reader puts in the place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// PID of a program that is a client of the daemon.
    Client,
    /// PID of its server.
    Server,
    /// Number of the user.
    User,
    /// The UUID of the device, or as much of it.
    Device,
}

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Line of the fence, from 1.
    pub line: usize,
    /// How it is tested.
    pub kind: Kind,
    /// Whether a daemon shall run before it; `None`: as it is.
    pub daemon: Option<bool>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Words that stand for something.
    pub stands: Vec<(String, Stands)>,
    /// Programs without which it cannot run.
    pub needs: Vec<String>,
    /// Its lines.
    pub lines: Vec<String>,
}

/// A part of a block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A command.
    Command(&'a str),
    /// What a command prints.
    Output(&'a str),
}

impl Block {
    /// Its lines as commands and output. Where a line begins with `$ ` only such are commands.
    pub fn parts(&self) -> Vec<Line<'_>> {
        let prompts = self.lines.iter().any(|line| line.starts_with("$ "));
        let lines = self.lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty());
        lines
            .map(|line| match line.strip_prefix("$ ") {
                Some(command) => Line::Command(command),
                None if prompts => Line::Output(line),
                None => Line::Command(line),
            })
            .collect()
    }
}

/// The blocks of a document.
///
/// # Errors
/// What is wrong with a mark, with its line.
pub fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let (mut mark, mut open): (String, Option<Block>) = (String::new(), None);
    let mut in_mark = false;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mut block) = open.take() {
            if line.trim_start().starts_with("```") {
                blocks.push(block);
            } else {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
        } else if let Some(language) = line.trim_start().strip_prefix("```") {
            let block = block(number, language.trim(), &std::mem::take(&mut mark));
            open = Some(block.map_err(|error| format!("line {number}: {error}"))?);
        } else if let Some(rest) = line.strip_prefix("<!-- test:") {
            mark.push_str(rest);
            in_mark = !rest.contains("-->");
        } else if in_mark {
            mark.push(' ');
            mark.push_str(line);
            in_mark = !line.contains("-->");
        } else if !mark.is_empty() && !line.trim().is_empty() {
            return Err(format!("line {number}: a mark without a block below it"));
        }
    }
    match open {
        Some(block) => Err(format!("line {}: the block does not end", block.line)),
        None => Ok(blocks),
    }
}

fn block(line: usize, language: &str, mark: &str) -> Result<Block, String> {
    let mut kind = match language {
        "" | "sh" | "console" => Some(Kind::Commands),
        "text" => Some(Kind::Text),
        _ => None,
    };
    let (mut daemon, mut environment) = (None, Vec::new());
    let (mut stands, mut needs) = (Vec::new(), Vec::new());
    // A reason may have any punctuation.
    let directives = mark.split("-->").flat_map(|mark| {
        let reason = mark.find("not run: ").unwrap_or(mark.len());
        let (before, reason) = mark.split_at(reason);
        before.split(';').chain([reason])
    });
    for directive in directives.map(str::trim) {
        let (first, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match (first, rest) {
            ("", _) => {}
            ("transcript", "") => kind = Some(Kind::Transcript),
            ("daemon", "") => daemon = Some(true),
            ("no", "daemon") => daemon = Some(false),
            ("not", rest) => match rest.strip_prefix("run: ") {
                Some(reason) => kind = Some(Kind::NotRun(reason.trim().to_owned())),
                None => return Err("`not run: REASON` is meant".to_owned()),
            },
            ("output", rest) => match rest.strip_prefix("of ") {
                Some(command) => kind = Some(Kind::OutputOf(command.trim().to_owned())),
                None => return Err("`output of COMMAND` is meant".to_owned()),
            },
            ("file", name) => kind = Some(Kind::File(name.to_owned())),
            ("needs", program) => needs.push(program.to_owned()),
            ("set", setting) => match setting.split_once('=') {
                Some((name, value)) => environment.push((name.to_owned(), value.to_owned())),
                None => return Err("`set NAME=VALUE` is meant".to_owned()),
            },
            (word, "is a client") => stands.push((word.to_owned(), Stands::Client)),
            (word, "is a server") => stands.push((word.to_owned(), Stands::Server)),
            (word, "is the user") => stands.push((word.to_owned(), Stands::User)),
            (word, "is the device") => stands.push((word.to_owned(), Stands::Device)),
            _ => return Err(format!("no directive of a mark: {directive}")),
        }
    }
    let kind = kind.ok_or(format!("a block of {language} needs a mark: `file NAME`"))?;
    Ok(Block { line, kind, daemon, environment, stands, needs, lines: Vec::new() })
}

#[test]
fn blocks_are_read_with_their_marks() {
    let text = "# Head\n```sh\na\nb\n```\nwords\n<!-- test: transcript; daemon;\n18903 is a client -->\n\
                ```console\n$ ls\nfile\n```\n<!-- test: not run: takes minutes; and more -->\n\n```\nx\n```\n```text\n-\n```\n";
    let blocks = blocks(text).expect("they are right");
    let kinds: Vec<_> = blocks.iter().map(|block| block.kind.clone()).collect();
    let reason = "takes minutes; and more".to_owned();
    assert_eq!(kinds, [Kind::Commands, Kind::Transcript, Kind::NotRun(reason), Kind::Text]);
    assert_eq!(blocks.iter().map(|block| block.line).collect::<Vec<_>>(), [2, 9, 15, 18]);
    assert_eq!(blocks[0].parts(), [Line::Command("a"), Line::Command("b")]);
    assert_eq!(blocks[1].parts(), [Line::Command("ls"), Line::Output("file")]);
    assert_eq!(blocks[1].stands, [("18903".to_owned(), Stands::Client)]);
    assert_eq!((blocks[0].daemon, blocks[1].daemon), (None, Some(true)));
}

#[test]
fn wrong_marks_are_refused() {
    for text in [
        "<!-- test: whenever -->\n```\n```\n",
        "<!-- test: not run -->\n```\n```\n",
        "<!-- test: transcript -->\nwords\n```\n```\n",
        "```toml\n```\n",
        "```sh\nls\n",
    ] {
        assert!(blocks(text).is_err(), "{text}");
    }
}
