//! What threads do together: shuffles, votes, matches, reductions.
//!
//! A thread that comes to such an instruction waits until all that its mask names, and that have
//! not ended, wait at the same one. Then all get their results at once.

use crate::collective::{Collective, LANES, is_product};
use crate::execute::Thread;
use crate::grid::Grid;
use crate::matrix;
use ptx::ast::{AtomicOp, Instruction, Modifier as M, Opcode, ScalarType as T};

/// Runs the instructions that all of their lanes have come to; true if there was one.
pub(crate) fn together(grid: &Grid<'_>, threads: &mut [Thread]) -> Result<bool, String> {
    let mut any = false;
    for warp in threads.chunks_mut(LANES) {
        for first in 0..warp.len() {
            let Some(Collective::Warp { mask }) = warp[first].waiting else { continue };
            let lanes: Vec<usize> =
                (0..warp.len()).filter(|i| mask >> i & 1 == 1 && !warp[*i].done()).collect();
            let here = warp[first].position();
            let complete = lanes.contains(&first)
                && lanes.iter().all(|&i| {
                    matches!(warp[i].waiting, Some(Collective::Warp { mask: m }) if m == mask)
                        && warp[i].position() == here
                });
            if complete {
                perform(grid, warp, &lanes, mask)?;
                any = true;
            }
        }
    }
    Ok(any)
}

fn perform(grid: &Grid<'_>, warp: &mut [Thread], lanes: &[usize], mask: u32) -> Result<(), String> {
    let inst = warp[lanes[0]].instruction(grid).expect("a thread waits at an instruction").clone();
    let unknown = || format!("no meaning: {}", grid.module.text_line(inst.span));
    if is_product(&inst) {
        matrix::multiply(grid, warp, &inst).ok_or_else(unknown)?;
        warp.iter_mut().for_each(Thread::step_over);
        return Ok(());
    }
    let ty = inst.ty().unwrap_or(T::B32);
    // What each lane brings: all of its sources.
    let mut sources = vec![Vec::new(); LANES];
    for &lane in lanes {
        sources[lane] = warp[lane].collective_sources(grid, &inst).ok_or_else(unknown)?;
    }
    let results: Vec<(u64, bool)> = lanes
        .iter()
        .map(|&lane| result(&inst, ty, lane, lanes, mask, &sources))
        .collect::<Option<_>>()
        .ok_or_else(unknown)?;
    for (&lane, (value, predicate)) in lanes.iter().zip(results) {
        let thread = &mut warp[lane];
        thread.finish_collective(grid, &inst, value, predicate).ok_or_else(unknown)?;
    }
    Ok(())
}

/// A lane's result and its predicate.
fn result(
    inst: &Instruction,
    ty: T,
    lane: usize,
    lanes: &[usize],
    mask: u32,
    sources: &[Vec<u64>],
) -> Option<(u64, bool)> {
    let own = |i: usize| sources[lane][i];
    let of = |condition: &dyn Fn(usize) -> bool| {
        lanes.iter().filter(|l| condition(**l)).fold(0u32, |m, l| m | 1 << l)
    };
    Some(match inst.opcode {
        Opcode::Bar => (0, false),
        Opcode::Shfl => {
            let (b, c) = (own(1) as u32 & 31, own(2) as u32);
            let (clamp, segment) = (c & 31, c >> 8 & 31);
            let lane = lane as u32;
            let most = (lane & segment) | (clamp & !segment);
            let least = lane & segment;
            let (from, inside) = match () {
                () if inst.has(M::Up) => {
                    let from = lane.wrapping_sub(b);
                    (from, from as i32 >= most as i32)
                }
                () if inst.has(M::Down) => (lane + b, lane + b <= most),
                () if inst.has(M::Bfly) => (lane ^ b, (lane ^ b) <= most),
                () => {
                    let from = least | (b & !segment);
                    (from, from <= most)
                }
            };
            let from = if inside { from as usize } else { lane as usize };
            // Of a lane that is not here anything may come: programs for comparison do not ask.
            (sources.get(from)?.first().copied()?, inside)
        }
        Opcode::Vote => {
            let yes = of(&|l| sources[l][0] != 0);
            let all = of(&|_| true);
            match () {
                () if inst.has(M::Ballot) => (u64::from(yes), false),
                () if inst.has(M::All) => (u64::from(yes == all), false),
                () if inst.has(M::Any) => (u64::from(yes != 0), false),
                () => (u64::from(yes == 0 || yes == all), false),
            }
        }
        Opcode::Match => {
            let same = of(&|l| sources[l][0] == own(0));
            if inst.has(M::All) {
                let all = same == of(&|_| true);
                (if all { u64::from(mask) } else { 0 }, all)
            } else {
                (u64::from(same), false)
            }
        }
        Opcode::Redux => {
            let values = lanes.iter().map(|l| crate::integer::value(sources[*l][0], ty));
            let total = match inst.atomic_op()? {
                AtomicOp::Add => values.sum(),
                AtomicOp::Min => values.min()?,
                AtomicOp::Max => values.max()?,
                AtomicOp::And => values.fold(-1, |a, b| a & b),
                AtomicOp::Or => values.fold(0, |a, b| a | b),
                AtomicOp::Xor => values.fold(0, |a, b| a ^ b),
                _ => return None,
            };
            (total as u64, false)
        }
        _ => return None,
    })
}
