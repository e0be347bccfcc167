//! Fragments of matrices in memory (`wmma.load`, `wmma.store`): which elements each lane's registers hold,
//! and where those are.
//!
//! Which element is in which lane is hardware's business in PTX, so loads and stores need only
//! agree with the products: the fragments are those of `mma` ([`crate::ir::matrix`]), which is what
//! the hardware does too.

use crate::ir::op::Space;
use crate::ir::width::Width;

/// Which operand of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentOf {
    /// The first factor.
    A,
    /// The second one.
    B,
    /// C or D.
    Sum,
}

/// A matrix whose fragments lanes hold, in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where.
    pub space: Space,
    /// Which operand.
    pub of: FragmentOf,
    /// Rows of A and D.
    pub m: u8,
    /// Columns of B and D.
    pub n: u8,
    /// Columns of A, rows of B.
    pub k: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Lines in memory are rows.
    pub row: bool,
}

/// How a fragment's registers lie in memory. A lane has a *line* and a *place* of its own: with a
/// distance of `d` bytes from one line of the matrix to the next, piece `p` of a register of a tile is
/// `(tile.line + line_step * line + p) * d + tile.column + place_bytes * place` bytes from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Width of the registers.
    pub width: Width,
    /// Lane `4 j + i` has line `j` and place `i`; else line `i` and place `j`.
    pub four_places: bool,
    /// Parts of a register, the lowest bits first, which are in as many lines.
    pub pieces: u32,
    /// From one lane's line to the next one's.
    pub line_step: u32,
    /// From one lane's place to the next one's.
    pub place_bytes: u32,
    /// The registers.
    pub tiles: Vec<Tile>,
}

/// A register of all lanes, or two whose elements are side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The first register.
    pub register: usize,
    /// How many.
    pub registers: usize,
    /// The line of lanes with line 0.
    pub line: u32,
    /// Bytes from the start of a line to the first place.
    pub column: u32,
}

impl Fragment {
    /// Width of the registers.
    pub fn width(self) -> Width {
        if self.bits == 64 { Width::W64 } else { Width::W32 }
    }

    /// `.m8n32k16` is multiplied as its transpose.
    fn is_transposed(self) -> bool {
        (self.m, self.n) == (8, 32)
    }

    /// Elements from one line to the next, if the program does not say.
    pub fn line(self) -> u32 {
        let (rows, columns) = match self.of {
            FragmentOf::A => (self.m, self.k),
            FragmentOf::B => (self.k, self.n),
            FragmentOf::Sum => (self.m, self.n),
        };
        u32::from(if self.row { columns } else { rows })
    }

    /// Where its elements are; `None` if several of them are in a byte, and not in one register.
    pub fn layout(self) -> Option<Layout> {
        let [m, n, k, bits] = [self.m, self.n, self.k, self.bits].map(u32::from);
        let width = self.width();
        let packed = width.bits() / bits;
        // Element `e` of register `i` is at `(l / 4 + outer, step * (l % 4) + inner + e)`.
        let mut at: Vec<(u32, u32)> = Vec::new();
        let (step, along);
        if self.of == FragmentOf::Sum {
            // Pairs of columns, of rows if transposed.
            let tall = m != 8 || self.is_transposed();
            for tile in 0..(m * n / if tall { 128 } else { 64 }) {
                let (outer, inner) =
                    if (m, n) == (16, 16) { (0, 8 * tile) } else { (16 * tile, 0) };
                for half in 0..if tall { 2 } else { 1 } {
                    at.extend(
                        (0..2).step_by(packed as usize).map(|e| (outer + 8 * half, inner + e)),
                    );
                }
            }
            (step, along) = (2, self.row != self.is_transposed());
        } else {
            // The factor whose lines are dealt out in sixteens, and the other in eights.
            let is_a = self.of == FragmentOf::A;
            let tall = if is_a { m != 8 } else { self.is_transposed() };
            let (lines, high) = (if is_a { m } else { n }, if tall { 16 } else { 8 });
            for (tile, group) in
                (0..lines / high).flat_map(|t| (0..k / (4 * packed)).map(move |g| (t, g)))
            {
                at.extend((0..high / 8).map(|half| (high * tile + 8 * half, 4 * packed * group)));
            }
            (step, along) = (packed, self.row == is_a);
        }
        (bits >= 8 || along).then_some(())?;
        // Two registers of 32 bits side by side: tiles are aligned so that one access is aligned for both.
        let is_pair =
            |i: usize| along && bits == 32 && at.get(i + 1) == Some(&(at[i].0, at[i].1 + 1));
        let mut tiles: Vec<Tile> = Vec::new();
        let mut register = 0;
        while let Some(&(outer, inner)) = at.get(register) {
            let registers = if is_pair(register) { 2 } else { 1 };
            let (line, column) = if along { (outer, inner) } else { (inner, outer) };
            tiles.push(Tile { register, registers, line, column: column * bits / 8 });
            register += registers;
        }
        Some(match along {
            true => Layout {
                width,
                four_places: true,
                pieces: 1,
                line_step: 1,
                place_bytes: step * bits / 8,
                tiles,
            },
            false => Layout {
                width,
                four_places: false,
                pieces: packed,
                line_step: step,
                place_bytes: bits / 8,
                tiles,
            },
        })
    }
}

impl Layout {
    /// Registers.
    pub fn registers(&self) -> usize {
        self.tiles.iter().map(|tile| tile.registers).sum()
    }

    /// Bytes of a piece.
    pub fn piece_bytes(&self) -> u32 {
        self.width.bytes() / self.pieces
    }

    /// Bytes that a lane has side by side: all tiles have as many.
    pub fn bytes(&self) -> u32 {
        self.piece_bytes() * self.tiles.first().map_or(1, |tile| tile.registers as u32)
    }

    /// Lines and places that lanes have.
    pub fn lanes(&self) -> (u32, u32) {
        if self.four_places { (8, 4) } else { (4, 8) }
    }

    /// Lines of all, and bytes of one.
    pub fn extent(&self) -> (u32, u32) {
        let (lines, places) = self.lanes();
        let line = self.tiles.iter().map(|tile| tile.line).max().unwrap_or(0);
        let column = self.tiles.iter().map(|tile| tile.column).max().unwrap_or(0);
        let lines = line + self.line_step * (lines - 1) + self.pieces;
        (lines, column + self.place_bytes * (places - 1) + self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every byte of the matrix is in one register of one lane, and none outside of it.
    #[test]
    fn fragments_are_the_whole_matrix() {
        use FragmentOf::{A, B, Sum};
        let shapes = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];
        let all = shapes.into_iter().flat_map(|s| {
            [(s, A, 16), (s, B, 16), (s, Sum, 16), (s, Sum, 32), (s, A, 8), (s, B, 8)]
        });
        let more = [
            ((16, 16, 8), A, 32),
            ((16, 16, 8), B, 32),
            ((8, 8, 4), A, 64),
            ((8, 8, 4), B, 64),
            ((8, 8, 4), Sum, 64),
        ];
        for ((m, n, k), of, bits) in all.chain(more) {
            for row in [false, true] {
                let fragment = Fragment { space: Space::Global, of, m, n, k, bits, row };
                let layout = fragment.layout().expect("elements of bytes");
                let bytes = match of {
                    A => u32::from(m) * u32::from(k),
                    B => u32::from(k) * u32::from(n),
                    Sum => u32::from(m) * u32::from(n),
                } * u32::from(bits)
                    / 8;
                let distance = fragment.line() * u32::from(bits) / 8;
                let mut seen = HashSet::new();
                for (tile, lane) in
                    layout.tiles.iter().flat_map(|t| (0..32).map(move |lane| (t, lane)))
                {
                    let (line, place) = if layout.four_places {
                        (lane / 4, lane % 4)
                    } else {
                        (lane % 4, lane / 4)
                    };
                    for p in 0..layout.pieces {
                        let at = (tile.line + layout.line_step * line + p) * distance
                            + tile.column
                            + layout.place_bytes * place;
                        assert!(
                            (at..at + layout.bytes()).all(|byte| seen.insert(byte)),
                            "{fragment:?}"
                        );
                    }
                }
                assert_eq!(
                    (seen.len() as u32, seen.iter().max()),
                    (bytes, Some(&(bytes - 1))),
                    "{fragment:?}"
                );
                let (lines, line) = layout.extent();
                assert_eq!((lines - 1) * distance + line, bytes, "{fragment:?}");
            }
        }
    }
}
