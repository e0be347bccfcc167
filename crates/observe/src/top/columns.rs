//! Columns: which of a table have room, so that none is cut that holds a figure.

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Its width at least.
    pub(super) least: u16,
    /// Its width at the most; what is longer is cut. `u16::MAX`: it takes the room that is left.
    pub(super) most: u16,
    /// The higher, the sooner it is left out; 0: never.
    pub(super) rank: u8,
    pub(super) right: bool,
}

impl Column {
    /// Words stand at the left.
    pub(super) fn words(head: &'static str, rank: u8) -> Self {
        let least = head.len() as u16;
        Self { head, least, most: 255, rank, right: false }
    }

    /// Numbers stand at the right.
    pub(super) fn number(head: &'static str, rank: u8) -> Self {
        Self { right: true, ..Self::words(head, rank) }
    }

    fn takes_the_rest(&self) -> bool {
        self.most == u16::MAX
    }
}

/// Which columns of these widths and ranks fit into a line.
pub(super) fn kept(columns: impl Iterator<Item = (u16, u8)>, space: u16) -> Vec<bool> {
    let columns: Vec<(u16, u8)> = columns.collect();
    let mut kept = vec![true; columns.len()];
    let width = |kept: &[bool]| -> u32 {
        let widths = columns.iter().zip(kept).filter(|(_, kept)| **kept);
        widths.map(|((width, _), _)| u32::from(*width) + 1).sum::<u32>().saturating_sub(1)
    };
    while width(&kept) > u32::from(space) {
        let of_rank = |at: &usize| kept[*at] && columns[*at].1 > 0;
        let Some(last) = (0..columns.len()).filter(of_rank).max_by_key(|at| columns[*at].1) else {
            break;
        };
        kept[last] = false;
    }
    kept
}

/// A table of the columns that fit; each is as wide as what stands in it.
pub(super) fn table_of(
    columns: &[Column],
    rows: Vec<(Vec<Line<'static>>, Style)>,
    space: u16,
) -> Table<'static> {
    let width = |(at, column): (usize, &Column)| {
        let longest = rows.iter().map(|(cells, _)| cells[at].width()).max().unwrap_or(0);
        match column.takes_the_rest() {
            true => column.least,
            false => u16::try_from(longest).unwrap_or(u16::MAX).clamp(column.least, column.most),
        }
    };
    let widths: Vec<u16> = columns.iter().enumerate().map(width).collect();
    let ranks = widths.iter().copied().zip(columns.iter().map(|column| column.rank));
    let kept = kept(ranks, space);
    let aligned = |line: Line<'static>, column: &Column| match column.right {
        true => line.alignment(Alignment::Right),
        false => line,
    };
    let chosen = |cells: Vec<Line<'static>>| {
        let cells = cells.into_iter().zip(columns).zip(&kept).filter(|(_, kept)| **kept);
        Row::new(cells.map(|((line, column), _)| aligned(line, column)).collect::<Vec<_>>())
    };
    let head = chosen(columns.iter().map(|column| Line::from(column.head)).collect());
    let constraints = columns.iter().zip(&widths).zip(&kept).filter(|(_, kept)| **kept);
    let constraints = constraints.map(|((column, width), _)| match column.takes_the_rest() {
        true => Constraint::Min(*width),
        false => Constraint::Length(*width),
    });
    let constraints: Vec<Constraint> = constraints.collect();
    let rows: Vec<Row<'static>> =
        rows.into_iter().map(|(cells, style)| chosen(cells).style(style)).collect();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(rows, constraints).header(head.style(bold))
}

#[cfg(test)]
mod tests {
    use super::kept;

    #[test]
    fn columns_of_the_highest_rank_go_first_and_those_of_none_stay() {
        let columns = [(5, 0), (5, 2), (5, 1), (5, 0)];
        let kept = |space| kept(columns.into_iter(), space);
        assert_eq!(kept(23), [true; 4]);
        assert_eq!(kept(22), [true, false, true, true]);
        assert_eq!(kept(16), [true, false, false, true]);
        assert_eq!(kept(3), [true, false, false, true]);
    }
}
