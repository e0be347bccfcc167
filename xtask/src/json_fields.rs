//! Reference page of JSON: the fields of what `openmps ps --json` prints, by the structs that are printed.
//!
//! A test of crate `control` compares the page's fields with those of a whole report.

use crate::Generated;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Files with the structs. Where two have a struct of one name, the first file's is meant.
const SOURCES: &[&str] = &["report.rs", "status.rs", "faults.rs"];

/// A field: its name, type and documentation.
struct Field {
    name: String,
    kind: String,
    meaning: String,
}

/// The structs by name.
type Structs = BTreeMap<String, Vec<Field>>;

/// The page, from the sources below `root`.
pub(crate) fn page(root: &Path) -> Result<Generated> {
    let (mut structs, mut schema) = (Structs::new(), None);
    for name in SOURCES {
        let path = root.join("crates/control/src").join(name);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        schema = schema
            .or_else(|| Some(text.split_once("SCHEMA: u32 = ")?.1.split_once(';')?.0.to_owned()));
        read(&text, &mut structs);
    }
    let schema = schema.context("the report has a number of its schema")?;
    let mut text = format!(
        "<!-- Made by `cargo xtask generate`; do not edit. -->\n\n# JSON\n\n\
         `openmps ps --json` prints one object in one line: all that the daemon knows, as far as its reader may.\n\n\
         * `schema` is the number of its form, now {schema}. It grows when a field is removed or means something \
         else. New fields do not change it, so readers ignore what they do not know.\n\
         * Where no daemon answers, the object is `{{\"running\": false, \"pipe_directory\": ..., \"servers\": []}}`, \
         with status 1 and a line on standard error.\n\
         * Times end in their unit, `_ns` or `_s`. Counts and times are since the client's, server's or daemon's \
         start. `null` is what is not known or not limited.\n\n\
         | field | what it is |\n| --- | --- |\n"
    );
    rows("Report", "", &structs, &mut text)?;
    Ok(Generated { path: "docs/reference/json.md", text })
}

/// Reads the public structs of a source.
fn read(source: &str, structs: &mut Structs) {
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {"));
        let Some(name) = name else { continue };
        let (mut fields, mut meaning) = (Vec::new(), String::new());
        for line in lines.by_ref().map(str::trim).take_while(|line| *line != "}") {
            if let Some(words) = line.strip_prefix("///") {
                meaning += words;
            } else if let Some((name, kind)) =
                line.strip_prefix("pub ").and_then(|f| f.split_once(": "))
            {
                let kind = kind.trim_end_matches(',').to_owned();
                let meaning = std::mem::take(&mut meaning).trim().to_owned();
                fields.push(Field { name: name.to_owned(), kind, meaning });
            }
        }
        structs.entry(name.to_owned()).or_insert(fields);
    }
}

/// Writes a row for each field of a struct, and for those of its fields that are structs their fields'.
fn rows(name: &str, path: &str, structs: &Structs, text: &mut String) -> Result<()> {
    for field in structs.get(name).with_context(|| format!("no struct {name}"))? {
        let dot = if path.is_empty() { "" } else { "." };
        let (inner, brackets) = unwrapped(&field.kind);
        let path = format!("{path}{dot}{}{brackets}", field.name);
        match structs.contains_key(inner) {
            true => rows(inner, &path, structs, text)?,
            false => {
                writeln!(text, "| `{path}` | {} |", field.meaning.replace("`None`", "`null`"))?
            }
        }
    }
    Ok(())
}

/// The type within `Option` and `Vec`, without its path, and brackets for each `Vec`.
fn unwrapped(kind: &str) -> (&str, String) {
    let (mut kind, mut brackets) = (kind, String::new());
    loop {
        let inner = |wrapper: &str| kind.strip_prefix(wrapper)?.strip_suffix('>');
        match (inner("Option<"), inner("Vec<")) {
            (Some(inner), _) => kind = inner,
            (None, Some(inner)) => {
                kind = inner;
                brackets.push_str("[]");
            }
            (None, None) => return (kind.rsplit("::").next().unwrap_or(kind), brackets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_their_paths() {
        let mut structs = Structs::new();
        let source = "/// It.\npub struct Report {\n    /// One,\n    /// or `None`.\n    #[serde(default)]\n    pub one: \
                      Option<u32>,\n    /// Others.\n    pub others: Vec<status::Other>,\n}\n\
                      pub struct Other {\n    /// Two.\n    pub two: Vec<String>,\n}\n";
        read(source, &mut structs);
        let mut text = String::new();
        rows("Report", "", &structs, &mut text).unwrap();
        assert_eq!(text, "| `one` | One, or `null`. |\n| `others[].two[]` | Two. |\n");
    }
}
