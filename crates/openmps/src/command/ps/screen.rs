//! How a table gets to standard output: how wide it may be there, and whether its head stands out.

use super::table::Table;
use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use rustix::termios::tcgetwinsize;
use std::io;

/// What standard output can do.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    /// Stands out the head of a table.
    head: Style,
    /// Characters of a line; `None` for what is no terminal.
    width: Option<usize>,
}

impl Screen {
    /// What standard output is now: a window changes its size.
    pub(super) fn now() -> Self {
        let stdout = io::stdout();
        let colours = AutoStream::choice(&stdout) != ColorChoice::Never;
        let head = if colours { Style::new().bold() } else { Style::new() };
        let width = tcgetwinsize(&stdout).ok().map(|size| usize::from(size.ws_col));
        // A terminal that does not say how wide it is says 0.
        Self { head, width: width.filter(|width| *width > 0) }
    }

    /// How wide a table may be, in characters; `None` if that does not matter.
    pub(super) fn width(self) -> Option<usize> {
        self.width
    }

    /// A table that follows what was printed before.
    pub(super) fn below(self, table: &Table) -> String {
        table.lines.iter().enumerate().map(|(n, line)| self.line(table, n, line) + "\n").collect()
    }

    fn line(self, table: &Table, n: usize, line: &str) -> String {
        let style = if table.head && n == 0 { self.head } else { Style::new() };
        format!("{style}{line}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_table_stands_out() {
        let lines = ["PID", "524"].map(str::to_owned).into();
        let table = Table { lines, head: true };
        let plain = Screen { head: Style::new(), width: None };
        assert_eq!(plain.below(&table), "PID\n524\n");
        let bold = Screen { head: Style::new().bold(), width: Some(80) };
        assert_eq!(bold.below(&table), "\x1b[1mPID\x1b[0m\n524\n");
        let no_table = Table { head: false, ..table };
        assert_eq!(bold.below(&no_table), "PID\n524\n");
    }
}
