//! Tables of protocol 3: columns for people, or CSV with or without its header.

use crate::command::request::Failure;
use crate::log::printable;

/// How a table is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Csv { header: bool },
}

impl Format {
    pub fn parse(text: Option<&str>) -> Result<Format, Failure> {
        match text {
            None | Some("table") => Ok(Format::Table),
            Some("csv") => Ok(Format::Csv { header: true }),
            Some("csv,noheader") => Ok(Format::Csv { header: false }),
            Some(other) => Err(Failure(format!(
                "{other:?} is no format: there are table, csv and csv,noheader"
            ))),
        }
    }
}

/// Prints rows below a header.
pub(super) fn print(format: Format, header: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let mut lines = Vec::with_capacity(rows.len() + 1);
    match format {
        Format::Csv { header: with } => {
            if with {
                lines.push(header.join(","));
            }
            lines.extend(
                rows.iter()
                    .map(|row| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",")),
            );
        }
        Format::Table => {
            let width = |place: usize| {
                let cells = rows.iter().filter_map(|row| row.get(place));
                let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
                widest.max(header.get(place).map_or(0, |name| name.len()))
            };
            let widths: Vec<usize> = (0..header.len()).map(width).collect();
            let line = |cells: &mut dyn Iterator<Item = &str>| {
                let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
                padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
            };
            lines.push(line(&mut header.iter().copied()));
            lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// A cell of CSV: in quotes where a comma or a quote is in it.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_columns_or_csv() {
        let rows = [vec!["a".to_owned(), "x,\"y\"".into()], vec!["longer".into(), "z".into()]];
        let print = |format| print(Format::parse(format).ok().unwrap(), &["name", "cmd"], &rows);
        assert_eq!(print(None), "name    cmd\na       x,\"y\"\nlonger  z\n");
        assert_eq!(print(Some("csv")), "name,cmd\na,\"x,\"\"y\"\"\"\nlonger,z\n");
        assert_eq!(print(Some("csv,noheader")), "a,\"x,\"\"y\"\"\"\nlonger,z\n");
        assert!(Format::parse(Some("json")).is_err());
    }
}
