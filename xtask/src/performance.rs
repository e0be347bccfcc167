//! Performance page: makes `docs/reports/performance.md` from the results in `bench/performance/results`.
//!
//! The words stand in `bench/performance/report.md`; a line `<!-- NAME -->` there is replaced by the
//! table in `results/NAME.json`.

use crate::Generated;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// One recorded table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    /// What yields the figures.
    command: String,
    /// Where it ran.
    machine: String,
    /// When, as `YYYY-MM-DD`.
    date: String,
    /// Headings.
    columns: Vec<String>,
    /// One cell a column.
    rows: Vec<Vec<String>>,
}

/// The page, from the words and results below `root`.
pub fn page(root: &Path) -> Result<Generated> {
    let folder = root.join("bench/performance");
    let words = std::fs::read_to_string(folder.join("report.md"))
        .with_context(|| format!("reading report.md in {}", folder.display()))?;
    let mut text = String::from(
        "<!-- Made by `cargo xtask generate` from bench/performance/report.md and the results \
         beside it; do not edit. -->\n\n",
    );
    for line in words.lines() {
        match line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            None => writeln!(text, "{line}")?,
            Some(name) => text.push_str(&table(&folder.join(format!("results/{name}.json")))?),
        }
    }
    Ok(Generated { path: "docs/reports/performance.md", text })
}

/// A result as a table, below the line that says where it comes from.
fn table(path: &Path) -> Result<String> {
    let json =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let recorded: Recorded =
        serde_json::from_str(&json).with_context(|| format!("in {}", path.display()))?;
    let mut text = format!("`{}`, {}, {}:\n\n", recorded.command, recorded.machine, recorded.date);
    writeln!(text, "| {} |", recorded.columns.join(" | "))?;
    let numeric = |column: usize| {
        let is_figure = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit());
        recorded.rows.iter().filter_map(|row| row.get(column)).any(is_figure)
    };
    let rules: Vec<&str> = (0..recorded.columns.len())
        .map(|column| if column > 0 && numeric(column) { "---:" } else { "---" })
        .collect();
    writeln!(text, "| {} |", rules.join(" | "))?;
    for row in &recorded.rows {
        if row.len() != recorded.columns.len() {
            bail!("{}: a row of {} cells: {row:?}", path.display(), row.len());
        }
        writeln!(text, "| {} |", row.join(" | "))?;
    }
    Ok(text)
}
