//! Reference pages that are read from sources: environment variables, scheduling settings, metrics, log lines.
//!
//! Not here: commands, which `openmps` itself prints (`crates/openmps/src/reference.rs`).

use crate::Generated;
use anyhow::{Context, Result, bail};
use cuda_api::environment::{VARIABLES, Values};
use proc_macro2::{TokenStream, TokenTree};
use scheduling::client::ClientSettings;
use scheduling::settings::{PRESETS, Settings};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The pages, from the sources below `root`.
pub(crate) fn pages(root: &Path) -> Result<Vec<Generated>> {
    Ok(vec![
        Generated { path: "docs/reference/variables.md", text: variables()? },
        Generated { path: "docs/reference/settings.md", text: settings()? },
        Generated { path: "docs/reference/metrics.md", text: metrics(root)? },
        Generated { path: "docs/reference/log-lines.md", text: log_lines(root)? },
    ])
}

fn head(title: &str, about: &str) -> String {
    format!("<!-- Made by `cargo xtask generate`; do not edit. -->\n\n# {title}\n\n{about}\n\n")
}

fn variables() -> Result<String> {
    let mut page = head(
        "Environment variables",
        "Every variable that a part of openmps reads; `openmps doctor --variables` prints the same. A value that \
         cannot be used counts as not given, and `openmps doctor` reports it.",
    );
    let mut rows: Vec<_> = VARIABLES.iter().collect();
    rows.sort_by_key(|row| row.name);
    for row in rows {
        writeln!(page, "## `{}`\n\n{}\n", row.name, row.meaning)?;
        writeln!(page, "* Read by: {}.", row.readers)?;
        writeln!(page, "* Values: {}.", with_quoted(&row.values.to_string(), row.values))?;
        writeln!(page, "* Default: {}.\n", with_quoted(row.default, row.values))?;
    }
    Ok(page.trim_end().to_owned() + "\n")
}

/// What a setting may be, as the code says where a value is refused.
fn allowed(refused: Option<impl std::fmt::Display>) -> Result<String> {
    let text = refused.context("`?` is no value")?.to_string();
    let text = text.rsplit_once(": ").map_or(text.as_str(), |(_, allowed)| allowed);
    let text =
        ["say ", "there are "].iter().fold(text, |text, begin| text.trim_start_matches(begin));
    Ok(text.to_owned())
}

/// A text with the values that a variable may have in backquotes.
fn with_quoted(text: &str, values: Values) -> String {
    let Values::OneOf(words) = values else { return text.to_owned() };
    let quoted = text.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';']);
        match words.contains(&bare) {
            true => format!("`{bare}`{}", &word[bare.len()..]),
            false => word.to_owned(),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn settings() -> Result<String> {
    let mut page = head(
        "Scheduling settings",
        "Settings of `openmps set --scheduling`, `OPENMPS_SCHEDULING` and the control command `schedule`. \
         [Scheduling](../scheduling.md) explains them.",
    );
    page.push_str("| setting | default | values |\n| --- | --- | --- |\n");
    for setting in Settings::default().to_string().split(' ') {
        let (name, value) = setting.split_once('=').context("a setting has a value")?;
        let refused = Settings::default().change(&format!("{name}=?")).err();
        writeln!(page, "| `{name}` | `{value}` | {} |", allowed(refused)?)?;
    }
    page.push_str(
        "\n## Settings of a program\n\nOptions of `openmps set PID`, and words in `OPENMPS_CLASS` and class rules:\n\n",
    );
    for name in ["class", "weight", "deadline", "quota"] {
        let refused = ClientSettings::parse(&format!("{name}=?")).err();
        writeln!(page, "* `{name}`: {}", allowed(refused)?)?;
    }
    page.push_str(
        "\n## Presets\n\n`preset=NAME` sets all settings but the policy, `pause-max`, `slowdown` and `least`:\n\n",
    );
    for (name, _) in PRESETS {
        let Ok(of) = Settings::parse(&format!("preset={name}")) else {
            bail!("{name} is no preset");
        };
        writeln!(page, "* `{name}`: `{of}`")?;
    }
    Ok(page)
}

/// The tokens of a source file without its tests.
fn tokens(path: &Path) -> Result<TokenStream> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.parse().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// Calls `found` with each name that stands before a group in parentheses, and the group's tokens.
fn calls(tokens: TokenStream, found: &mut impl FnMut(&str, &[TokenTree])) {
    let mut name = String::new();
    for tree in tokens {
        match tree {
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                found(&name, &inner);
                calls(group.stream(), found);
                name.clear();
            }
            // Of a macro: `format!(...)`.
            TokenTree::Punct(punct) if punct.as_char() == '!' => {}
            _ => name.clear(),
        }
    }
}

/// The text of a string literal, its continued lines joined.
fn literal(tree: Option<&TokenTree>) -> Option<String> {
    let TokenTree::Literal(literal) = tree? else { return None };
    let text = literal.to_string();
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    let joined = parts.fold(first, |joined, part| joined + part.trim_start());
    Some(joined.replace("\\\"", "\"").replace("{{", "{").replace("}}", "}"))
}

fn metrics(root: &Path) -> Result<String> {
    let mut page = head(
        "Metrics",
        "What `/metrics` of `openmps web` has. A counter's samples end in `_total`.\n\n\
         * Labels of `DCGM_` metrics: `gpu`, `UUID`, `pci_bus_id`, `modelName`.\n\
         * Labels of `openmps_device_` metrics: `gpu`, `uuid`, `pci_bus_id`, `model`, `server`.\n\
         * Labels of `openmps_client_` metrics: `client`, `pid`, `user`, `program`.",
    );
    page.push_str("| metric | kind | meaning |\n| --- | --- | --- |\n");
    let mut rows = BTreeSet::new();
    calls(tokens(&root.join("crates/observe/src/metrics/mod.rs"))?, &mut |name, inner| {
        let (metric, help) = (literal(inner.first()), literal(inner.get(2)));
        if let (true, Some(metric), Some(help)) =
            (matches!(name, "gauge" | "counter"), metric, help)
        {
            rows.insert((metric, name.to_owned(), help));
        }
    });
    if rows.len() < 20 {
        bail!("only {} metrics are found", rows.len());
    }
    for (metric, kind, help) in rows {
        writeln!(page, "| `{metric}` | {kind} | {help} |")?;
    }
    Ok(page)
}

/// Names of functions and macros whose first text is a line for users: of logs, and of standard error.
const WRITES_LINE: &[&str] = &["line", "log", "control", "server", "say"];

/// Parts that write lines: a title, a folder, and what the page says of it.
const WRITERS: &[(&str, &str, &str)] = &[
    ("control.log", "crates/control/src", "Lines of the control daemon."),
    ("server.log", "crates/server/src", "Lines of servers."),
    (
        "Standard error of a program",
        "crates/client/src",
        "Lines of the client library, behind `openmps: `.",
    ),
];

fn sources(folder: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, all)?;
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && !path.ends_with("tests.rs")
        {
            all.insert(path);
        }
    }
    Ok(())
}

fn log_lines(root: &Path) -> Result<String> {
    let mut page = head(
        "Log lines",
        "Lines that the code writes, from its sources. What stands in braces is filled in. Lines that are put together \
         from parts are not listed.",
    );
    for (title, folder, about) in WRITERS {
        let mut files = BTreeSet::new();
        sources(&root.join(folder), &mut files)?;
        let mut lines = BTreeSet::new();
        for path in files {
            calls(tokens(&path)?, &mut |name, inner| {
                if WRITES_LINE.contains(&name) {
                    lines.extend(text_of(inner).filter(|text| is_line(text)));
                }
            });
        }
        if lines.len() < 15 {
            bail!("only {} lines are found in {folder}", lines.len());
        }
        writeln!(page, "## {title}\n\n{about}\n")?;
        for line in lines {
            writeln!(page, "* `{}`", line.replace('`', "'"))?;
        }
        page.push('\n');
    }
    Ok(page.trim_end().to_owned() + "\n")
}

/// The text that a call writes: its first argument, or that of a `format!` which is that.
fn text_of(inner: &[TokenTree]) -> Option<String> {
    let begins = match inner.first() {
        Some(TokenTree::Punct(punct)) if punct.as_char() == '&' => 1,
        _ => 0,
    };
    match &inner[begins..] {
        [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(group), ..]
            if *name == "format" || *name == "format_args" =>
        {
            literal(group.stream().into_iter().next().as_ref())
        }
        rest => literal(rest.first()),
    }
}

/// Whether a text is a line of its own: it has words that are not filled in.
fn is_line(text: &str) -> bool {
    let fixed: String = text.split(['{', '}']).step_by(2).collect();
    fixed.split_whitespace().filter(|word| word.len() > 2).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_calls() {
        let source = r#"fn f() { log.line(format!("Client {name} is \
            refused: {why}")); x.say("one two three"); y.other("no no no"); log.line("{a} {b}"); }"#;
        let mut found = Vec::new();
        calls(source.parse().unwrap(), &mut |name, inner| {
            if WRITES_LINE.contains(&name) {
                found.extend(text_of(inner).filter(|text| is_line(text)));
            }
        });
        assert_eq!(found, ["Client {name} is refused: {why}", "one two three"]);
    }
}
