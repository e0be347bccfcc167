//! How a table gets to standard output: once, or again and again in its own place on a terminal.

use super::table::Table;
use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use rustix::termios::tcgetwinsize;
use std::io;

/// Back to the first column of the first line; the rest of a line gone; the rest of the screen gone.
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// What standard output can do.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    /// Stands out the head of a table.
    head: Style,
    /// Lines and characters of a line; `None` for what is no terminal.
    size: Option<(usize, usize)>,
}

impl Screen {
    /// What standard output is now: a window changes its size.
    pub(super) fn now() -> Self {
        let stdout = io::stdout();
        let colours = AutoStream::choice(&stdout) != ColorChoice::Never;
        let head = if colours { Style::new().bold() } else { Style::new() };
        let size = tcgetwinsize(&stdout).ok().map(|size| (size.ws_row.into(), size.ws_col.into()));
        // A terminal that does not say how large it is has none of either.
        Self { head, size: size.filter(|(lines, width)| *lines > 1 && *width > 0) }
    }

    /// A table that follows what was printed before.
    pub(super) fn below(self, table: &Table) -> String {
        table.lines.iter().enumerate().map(|(n, line)| self.line(table, n, line) + "\n").collect()
    }

    /// A table in the place of the one before, cut to what there is room for. Where nothing has a
    /// place, in a file or a pipe, below it.
    pub(super) fn in_place(self, table: &Table) -> String {
        let Some((lines_max, width)) = self.size else { return self.below(table) };
        // The last line of the screen is where the cursor stays.
        let shown = table.lines.len().min(lines_max - 1);
        let mut text = HOME.to_owned();
        for (n, line) in table.lines[..shown].iter().enumerate() {
            let line: String = line.chars().take(width).collect();
            text += &self.line(table, n, &line);
            text += REST_OF_LINE;
            text += "\n";
        }
        text += REST_OF_SCREEN;
        if shown < table.lines.len() {
            let hidden = table.lines.len() - shown;
            text += &format!("and {hidden} more").chars().take(width).collect::<String>();
        }
        text
    }

    fn line(self, table: &Table, n: usize, line: &str) -> String {
        let style = if table.head && n == 0 { self.head } else { Style::new() };
        format!("{style}{line}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[&str]) -> Table {
        Table { lines: lines.iter().map(|line| (*line).to_owned()).collect(), head: true }
    }

    #[test]
    fn a_file_gets_one_table_below_the_other() {
        let file = Screen { head: Style::new(), size: None };
        assert_eq!(file.in_place(&table(&["PID", "524"])), "PID\n524\n");
    }

    #[test]
    fn a_terminal_gets_what_it_has_room_for() {
        let window = |size| Screen { head: Style::new().bold(), size: Some(size) };
        let long = table(&["PID  COMMAND", "524  ./nbody", "525  ./spin"]);
        assert_eq!(
            window((9, 8)).in_place(&long),
            "\x1b[H\x1b[1mPID  COM\x1b[0m\x1b[K\n524  ./n\x1b[K\n525  ./s\x1b[K\n\x1b[J"
        );
        assert_eq!(
            window((3, 80)).in_place(&long),
            "\x1b[H\x1b[1mPID  COMMAND\x1b[0m\x1b[K\n524  ./nbody\x1b[K\n\x1b[Jand 1 more"
        );
    }
}
