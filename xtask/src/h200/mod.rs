//! Makes `docs/reports/h200.md` and its plots from the newest results in `bench/h200/results`.
//!
//! The words stand in `bench/h200/report.md`; a line `<!-- NAME -->` there is replaced by the table
//! of that name ([`tables`]). Nothing here measures, and no figure stands in the words.

mod ends;
mod figures;
mod plot;
mod tables;
mod waits;

use crate::Generated;
use anyhow::{Context, Result, bail};
use figures::Figures;
use std::path::{Path, PathBuf};

/// The page and its plots, from the results below `root`.
pub fn pages(root: &Path) -> Result<Vec<Generated>> {
    let results = root.join("bench/h200/results");
    let with_run = newest(&results, "run.json")?
        .with_context(|| format!("no results in {}", results.display()))?;
    let mut figures = Figures::read(&with_run)?;
    if let Some(folder) = newest(&results, "waits.json")? {
        figures.read_waits(&folder)?;
    }
    let words = root.join("bench/h200/report.md");
    let words =
        std::fs::read_to_string(&words).with_context(|| format!("reading {}", words.display()))?;
    let mut pages = vec![Generated { path: "docs/reports/h200.md", text: page(&words, &figures)? }];
    pages.extend(plot::all(&figures));
    Ok(pages)
}

/// The last of the folders with a file; they are named by their dates.
fn newest(results: &Path, file: &str) -> Result<Option<PathBuf>> {
    let entries =
        std::fs::read_dir(results).with_context(|| format!("reading {}", results.display()))?;
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(folders.filter(|path| path.join(file).exists()).max())
}

fn page(words: &str, figures: &Figures) -> Result<String> {
    let mut page = String::from(
        "<!-- Made by `cargo xtask generate` from bench/h200/report.md and the newest results in \
         bench/h200/results; do not edit. -->\n\n",
    );
    for line in words.lines() {
        let name = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        match name {
            None => page.push_str(line),
            Some(name) => match tables::table(name, figures) {
                Some(table) => page.push_str(table.trim_end()),
                None => bail!("bench/h200/report.md asks for {name}, which is no table"),
            },
        }
        page.push('\n');
    }
    Ok(page)
}
