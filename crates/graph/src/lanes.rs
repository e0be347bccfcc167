//! Which steps of a plan can share a stream.
//!
//! For a device that has streams and no graphs: steps that wait for one another anyway go one
//! after the other in a lane, those that need not wait go to lanes of their own.

use crate::plan::Step;

/// Most lanes of one graph: more than any device runs side by side with profit.
const LANES_MAX: usize = 16;

/// A lane for each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// By step: its lane. Steps of a lane run in their order.
    pub of_step: Vec<usize>,
    /// How many there are.
    pub count: usize,
}

impl Lanes {
    /// Spreads steps over lanes.
    pub fn new(steps: &[Step]) -> Self {
        let mut of_step: Vec<usize> = Vec::with_capacity(steps.len());
        // By lane: its last step.
        let mut last: Vec<usize> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let mut lanes = step.dependencies.iter().map(|d| (of_step[d.step], d.step));
            let lane = match lanes.find(|(lane, step)| last[*lane] == *step) {
                Some((lane, _)) => lane,
                None if last.len() < LANES_MAX => {
                    last.push(index);
                    last.len() - 1
                }
                // Any lane will do: its steps are earlier ones.
                None => index % LANES_MAX,
            };
            last[lane] = index;
            of_step.push(lane);
        }
        Self { of_step, count: last.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(dependencies: &[&[usize]]) -> Vec<usize> {
        let steps: Vec<Step> = dependencies.iter().map(|d| Step::empty(d)).collect();
        Lanes::new(&steps).of_step
    }

    #[test]
    fn a_row_needs_one_lane_and_a_fork_two() {
        assert_eq!(lanes(&[&[], &[0], &[1]]), [0, 0, 0]);
        assert_eq!(lanes(&[&[], &[0], &[0], &[1, 2], &[3]]), [0, 0, 1, 0, 0]);
        assert_eq!(lanes(&[&[], &[], &[0, 1]]), [0, 1, 0]);
    }

    #[test]
    fn there_is_a_largest_number_of_lanes() {
        let steps: Vec<Step> = (0..100).map(|_| Step::empty(&[])).collect();
        assert_eq!(Lanes::new(&steps).count, LANES_MAX);
    }
}
