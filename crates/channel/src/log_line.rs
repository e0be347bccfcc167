//! Log line: the one form of lines of control.log and server.log, as text or JSON.
//!
//! Text is as NVIDIA's: `[2026-11-21 02:32:00.123+01:00 Control   261] text`, and `warning: ` or `error: `
//! before the text of a line that is one. Control characters in it, which may hold what a client sent,
//! become `?`: no text begins another line.

use crate::codec::cut;
use core::fmt::Write;

/// Bytes of the longest line, its end included: what a pipe takes in one piece (PIPE_BUF), so that lines of
/// several writers do not mix.
pub const LINE_BYTES_MAX: usize = 4096;
/// Of a JSON line everything but the message: time, level, role, process.
const JSON_REST_BYTES_MAX: usize = 256;

/// How much a line wants to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What happens.
    Info,
    /// Something was refused, or is not as its owner may think.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people, and for what reads NVIDIA's logs.
    Text,
    /// One JSON object a line.
    Json,
}

impl Form {
    /// What the variable OPENMPS_LOG_FORMAT says.
    pub fn parse(text: &str) -> Self {
        if text.trim() == "json" { Self::Json } else { Self::Text }
    }
}

/// One line without its end. `now` is local time with what it is ahead of UTC, in RFC 3339's order:
/// `2026-11-21 02:32:00.123+01:00`.
pub fn line(form: Form, now: &str, role: &str, pid: u32, level: Level, text: &str) -> String {
    match form {
        Form::Text => {
            let mut line = format!("[{now} {role:<7} {pid:>5}] ");
            if level != Level::Info {
                line.push_str(level.name());
                line.push_str(": ");
            }
            line.extend(text.chars().map(|c| if c.is_control() { '?' } else { c }));
            let end = cut(&line, LINE_BYTES_MAX - 1).len();
            line.truncate(end);
            line
        }
        Form::Json => {
            let time = now.replacen(' ', "T", 1);
            let level = level.name();
            let mut line = format!(
                r#"{{"time":"{time}","level":"{level}","role":"{role}","pid":{pid},"message":""#
            );
            for c in text.chars() {
                let before = line.len();
                match c {
                    '"' | '\\' => {
                        line.push('\\');
                        line.push(c);
                    }
                    c if c.is_control() => drop(write!(line, "\\u{:04x}", c as u32)),
                    c => line.push(c),
                }
                if line.len() > LINE_BYTES_MAX - JSON_REST_BYTES_MAX {
                    line.truncate(before);
                    break;
                }
            }
            line.push_str("\"}");
            line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02 03:04:05.678+01:00";

    #[test]
    fn a_line_has_the_vendors_shape_and_its_level_where_it_is_more_than_information() {
        let text = |level, text| line(Form::Text, NOW, "Server", 82, level, text);
        let stamp = format!("[{NOW} Server     82] ");
        assert_eq!(text(Level::Info, "Server has started"), format!("{stamp}Server has started"));
        assert_eq!(text(Level::Warning, "a\nb"), format!("{stamp}warning: a?b"));
        assert_eq!(text(Level::Error, "x"), format!("{stamp}error: x"));
        let long = text(Level::Info, &"ä".repeat(9000));
        assert!(long.len() < LINE_BYTES_MAX && long.len() > LINE_BYTES_MAX - 4);
    }

    #[test]
    fn json_is_one_object_a_line() {
        let json = |text: &str| line(Form::Json, NOW, "Control", 7, Level::Warning, text);
        assert_eq!(
            json("a \"b\" \\ c\nd"),
            r#"{"time":"2026-01-02T03:04:05.678+01:00","level":"warning","role":"Control","pid":7,"message":"a \"b\" \\ c\u000ad"}"#
        );
        for text in ["\u{1}", "\"", "ä"] {
            let long = json(&text.repeat(9000));
            assert!(long.len() < LINE_BYTES_MAX && long.ends_with("\"}"), "{}", long.len());
        }
        assert_eq!([Form::parse("json"), Form::parse("x")], [Form::Json, Form::Text]);
    }
}
