//! Race detection for accumulator registers that asynchronous products (`wgmma`) may still write.
//!
//! A product's sums are there once the thread has waited for its group; an instruction that uses
//! one before, or overwrites one that has not been used or copied, does so while it is written.
//! Registers are known by their numbers in the program. A copy is the same sum: what counts is when
//! it is used.

use crate::check::happens_before::Shadow;
use crate::check::happens_before::products::{Products, Sum};
use simt::ir::op::Touch;

impl Shadow {
    /// Something happens to a register in these lanes of a warp. What is wrong with it: the first
    /// lane in which a product may still write there, and the product's line.
    pub(in crate::check) fn touched(
        &mut self,
        warp: u32,
        (line, lanes): (u32, u32),
        register: u32,
        touch: Touch,
    ) -> Option<(u32, u32)> {
        let Products { groups, waits, sums } = &mut self.warps[warp as usize].products;
        let (group, over) = (*groups, waits.back().map_or(0, |wait| wait.over));
        if touch == Touch::Product {
            sums.insert(register, Sum { line, group, lanes, passed_on: false });
            return None;
        }
        let sum = sums.get_mut(&register).filter(|sum| sum.lanes & lanes != 0)?;
        let was = std::mem::replace(sum, Sum { passed_on: true, ..*sum });
        let wrong = match touch {
            Touch::Product | Touch::Kept => false,
            Touch::Read => true,
            Touch::Written => {
                *sum = Sum { lanes: was.lanes & !lanes, ..was };
                !was.passed_on
            }
        };
        (wrong && was.group >= over).then_some(((was.lanes & lanes).trailing_zeros(), was.line))
    }

    /// These lanes of a warp have copied a register to another one.
    pub(in crate::check) fn sum_copied(&mut self, warp: u32, lanes: u32, (from, to): (u32, u32)) {
        let sums = &mut self.warps[warp as usize].products.sums;
        if let Some(sum) = sums.get_mut(&from).filter(|sum| sum.lanes & lanes != 0) {
            sum.passed_on = true;
            let copy = Sum { lanes: sum.lanes & lanes, passed_on: false, ..*sum };
            sums.insert(to, copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = u32::MAX;

    /// A product at line 5 that writes register 1.
    fn multiplied() -> Shadow {
        let mut shadow = Shadow::new(1, 16, 2);
        assert_eq!(shadow.touched(1, (5, ALL), 1, Touch::Product), None);
        shadow
    }

    #[test]
    fn sums_are_there_once_their_warp_has_waited() {
        for touch in [Touch::Read, Touch::Written] {
            let mut shadow = multiplied();
            assert_eq!(shadow.touched(1, (9, ALL), 2, touch), None, "another register");
            assert_eq!(shadow.touched(0, (9, ALL), 1, touch), None, "another warp");
            shadow.wait_products(1, 0);
            shadow.commit_products(1);
            shadow.wait_products(1, 1);
            shadow.wait_products(0, 0);
            assert_eq!(shadow.touched(1, (9, 1), 1, touch), Some((0, 5)));
            let mut shadow = multiplied();
            shadow.commit_products(1);
            shadow.wait_products(1, 0);
            assert_eq!(shadow.touched(1, (9, ALL), 1, touch), None);
        }
    }

    #[test]
    fn a_copy_is_the_same_sum_and_what_is_copied_may_go() {
        let mut shadow = multiplied();
        shadow.sum_copied(1, ALL, (1, 7));
        assert_eq!(shadow.touched(1, (9, ALL), 1, Touch::Written), None);
        assert_eq!(shadow.touched(1, (9, ALL), 1, Touch::Read), None, "it has another value");
        assert_eq!(shadow.touched(1, (9, ALL), 7, Touch::Read), Some((0, 5)));
        let mut shadow = multiplied();
        assert_eq!(shadow.touched(1, (9, ALL), 1, Touch::Kept), None);
        assert_eq!(shadow.touched(1, (9, ALL), 1, Touch::Written), None);
    }

    #[test]
    fn lanes_are_distinguished() {
        let mut shadow = multiplied();
        shadow.sum_copied(1, 0xf, (1, 7));
        assert_eq!(shadow.touched(1, (9, !0xf), 7, Touch::Read), None);
        assert_eq!(shadow.touched(1, (9, 0x1c), 7, Touch::Written), Some((2, 5)));
        assert_eq!(
            shadow.touched(1, (9, 0x1c), 7, Touch::Read),
            None,
            "it has another value there"
        );
        assert_eq!(shadow.touched(1, (9, ALL), 7, Touch::Read), Some((0, 5)));
    }
}
