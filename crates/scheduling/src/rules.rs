//! Rules: which settings clients get by their user or their command, as the operator says.

use crate::client::{ClientSettingError, ClientSettings};

/// Most rules: an operator's list, not a data base.
const RULES_MAX: usize = 256;

/// Why a text is no list of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule has no `user:`, `command:` or `all` in front.
    #[error(
        "rule {0:?}: begin with user:NAME, command:PATTERN or all, then settings: user:ann batch"
    )]
    Subject(String),
    /// A rule's settings are wrong.
    #[error("rule {0:?}: {1}")]
    Settings(String, ClientSettingError),
    /// There are too many.
    #[error("at most {RULES_MAX} rules are taken")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    Command(String),
    All,
}

/// A list of rules. Text: `user:ann batch; command:*train* batch weight=2; all normal`. The first rule
/// that fits a client decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<(Subject, String)>,
}

impl Rules {
    /// Reads a list.
    ///
    /// # Errors
    /// The first rule that is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        for rule in text.split([';', '\n']).map(str::trim).filter(|rule| !rule.is_empty()) {
            let (subject, settings) = rule.split_once(' ').unwrap_or((rule, ""));
            let subject = match subject.split_once(':') {
                Some(("user", name)) if !name.is_empty() => Subject::User(name.to_owned()),
                Some(("command", pattern)) if !pattern.is_empty() => {
                    Subject::Command(pattern.to_owned())
                }
                None if subject == "all" => Subject::All,
                _ => return Err(RuleError::Subject(rule.to_owned())),
            };
            ClientSettings::parse(settings)
                .map_err(|error| RuleError::Settings(rule.to_owned(), error))?;
            rules.push((subject, settings.trim().to_owned()));
        }
        if rules.len() > RULES_MAX {
            return Err(RuleError::TooMany);
        }
        Ok(Self { rules })
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What the first rule says that fits a client: its user's name and number, its command line.
    pub fn settings_of(&self, user: &str, uid: u32, command: &str) -> Option<&str> {
        let fits = |subject: &Subject| match subject {
            Subject::User(name) => name == user || name.parse() == Ok(uid),
            Subject::Command(pattern) => matches(pattern.as_bytes(), command.as_bytes()),
            Subject::All => true,
        };
        let rule = self.rules.iter().find(|(subject, _)| fits(subject))?;
        Some(&rule.1)
    }
}

/// Whether a pattern fits a command line: `*` stands for any text. One without `*` fits if it is the
/// name of the program, with or without its path, or stands in the command line as a word.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if !pattern.contains(&b'*') {
        let mut words = text.split(|byte| *byte == b' ');
        return words.any(|word| {
            word == pattern || word.rsplit(|byte| *byte == b'/').next() == Some(pattern)
        });
    }
    // The last `*` and where it began to stand for text: what does not fit is tried one further on.
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, t) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = Rules::parse(
            "user:ann batch; command:*train*.py batch weight=2\ncommand:serve latency; user:1007 weight=5",
        )
        .unwrap();
        let of = |user, uid, command| rules.settings_of(user, uid, command);
        assert_eq!(of("ann", 1, "serve"), Some("batch"));
        assert_eq!(of("bob", 2, "python3 my_training.py --x"), None);
        assert_eq!(of("bob", 2, "python3 my_training.py"), Some("batch weight=2"));
        assert_eq!(of("bob", 2, "/opt/bin/serve --port 1"), Some("latency"));
        assert_eq!(of("bob", 2, "/opt/bin/server"), None);
        assert_eq!(of("", 1007, "x"), Some("weight=5"));
        assert_eq!(Rules::parse("all batch").unwrap().settings_of("x", 1, "y"), Some("batch"));
    }

    #[test]
    fn wrong_rules_are_named() {
        for (text, part) in [
            ("ann batch", "user:NAME"),
            ("user: batch", "user:NAME"),
            ("user:ann urgent", "latency, normal or batch"),
        ] {
            let error = Rules::parse(&format!("all normal; {text}")).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
        assert_eq!(Rules::parse(&"all;".repeat(300)), Err(RuleError::TooMany));
        assert!(Rules::parse(" ; ").unwrap().is_empty());
    }

    #[test]
    fn patterns_are_matched() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*x", "aax", true),
            ("**", "abc", true),
            ("a*", "ba", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
