//! Are two runners' results the same?

use crate::case::{Argument, Case, Element, Tolerance};
use crate::image::{Home, Image};
use anyhow::{Result, ensure};

/// Compares all outputs of a case; the error names the first element that differs.
pub(crate) fn outputs(case: &Case, ours: &[Vec<u8>], others: &[Vec<u8>]) -> Result<()> {
    let elements = case.arguments.iter().filter_map(|argument| match argument {
        Argument::Output(element, _) => Some(*element),
        Argument::Image(Image { home: Home::Written, .. }) => Some(Element::U32),
        Argument::Input(_) | Argument::Value(_) | Argument::Image(_) => None,
    });
    for (number, element) in elements.enumerate() {
        let (a, b) = (numbers(element, &ours[number]), numbers(element, &others[number]));
        ensure!(a.len() == b.len(), "output {number} has {} elements, not {}", a.len(), b.len());
        let mut different = (0..a.len()).filter(|&i| !close(case.tolerance, a[i], b[i]));
        let Some(first) = different.next() else { continue };
        let count = 1 + different.count();
        let allowed = match case.tolerance {
            Tolerance::Share(share) => (share * a.len() as f64) as usize,
            Tolerance::Exact | Tolerance::Relative(_) => 0,
        };
        ensure!(
            count <= allowed,
            "{count} of {} elements of output {number} differ; the first, number {first}, is {} \
             and should be {}",
            a.len(),
            a[first],
            b[first]
        );
    }
    Ok(())
}

fn numbers(element: Element, bytes: &[u8]) -> Vec<f64> {
    let word = |b: &[u8]| -> [u8; 4] { b.try_into().expect("chunks of four") };
    match element {
        Element::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(word(b)).into()).collect(),
        Element::U32 => bytes.chunks_exact(4).map(|b| u32::from_le_bytes(word(b)).into()).collect(),
        Element::F64 => bytes
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().expect("chunks of eight")))
            .collect(),
    }
}

fn close(tolerance: Tolerance, a: f64, b: f64) -> bool {
    match tolerance {
        Tolerance::Exact | Tolerance::Share(_) => a == b,
        Tolerance::Relative(bound) => (a - b).abs() <= bound * a.abs().max(b.abs()).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_bound_what_may_differ() {
        assert!(close(Tolerance::Exact, 2.0, 2.0) && !close(Tolerance::Exact, 2.0, 2.5));
        assert!(close(Tolerance::Relative(0.01), 100.0, 100.9));
        assert!(!close(Tolerance::Relative(0.01), 100.0, 102.0));
        assert!(!close(Tolerance::Relative(0.01), 1.0, f64::NAN));
    }
}
