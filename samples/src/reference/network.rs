//! Layers of neural networks, in double precision.

/// `outputs[o] = bias[o] + sum of weight(i, o) * inputs[i]` for one sample.
pub fn dense(inputs: &[f64], bias: &[f32], weight: impl Fn(usize, usize) -> f32) -> Vec<f64> {
    (0..bias.len())
        .map(|o| {
            let sum: f64 =
                inputs.iter().enumerate().map(|(i, &x)| f64::from(weight(i, o)) * x).sum();
            sum + f64::from(bias[o])
        })
        .collect()
}

/// `max(0, x)` of each.
pub fn relu(mut values: Vec<f64>) -> Vec<f64> {
    for value in &mut values {
        *value = value.max(0.0);
    }
    values
}

/// Probabilities from scores.
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - best).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The index of the largest value, and by how much it leads.
pub fn best(values: &[f64]) -> (usize, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    let lead = match order.get(1) {
        Some(&second) => values[order[0]] - values[second],
        None => f64::INFINITY,
    };
    (order[0], lead)
}

/// Planes of one image: `channels` planes of `height` x `width`.
#[derive(Clone, Debug, PartialEq)]
pub struct Planes {
    /// Planes one after the other, each row by row.
    pub values: Vec<f64>,
    /// Number of planes.
    pub channels: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Columns of a plane.
    pub width: usize,
}

impl Planes {
    fn at(&self, channel: usize, y: isize, x: isize) -> f64 {
        let inside =
            (0..self.height as isize).contains(&y) && (0..self.width as isize).contains(&x);
        if !inside {
            return 0.0;
        }
        self.values[(channel * self.height + y as usize) * self.width + x as usize]
    }

    /// 3 x 3 convolution with zero padding and a ReLU. Filters `[out channel][in channel][3][3]`.
    pub fn convolved(&self, filters: &[f32], bias: &[f32]) -> Self {
        let mut values = Vec::with_capacity(bias.len() * self.height * self.width);
        for (channel, &bias) in bias.iter().enumerate() {
            for y in 0..self.height as isize {
                for x in 0..self.width as isize {
                    let mut sum = f64::from(bias);
                    for c in 0..self.channels {
                        for tap in 0..9 {
                            let filter = filters[(channel * self.channels + c) * 9 + tap];
                            let (dy, dx) = (tap as isize / 3 - 1, tap as isize % 3 - 1);
                            sum += f64::from(filter) * self.at(c, y + dy, x + dx);
                        }
                    }
                    values.push(sum.max(0.0));
                }
            }
        }
        Self { values, channels: bias.len(), ..*self }
    }

    /// The largest of each 2 x 2 square.
    pub fn pooled(&self) -> Self {
        let (height, width) = (self.height / 2, self.width / 2);
        let mut values = Vec::with_capacity(self.channels * height * width);
        for channel in 0..self.channels {
            for y in 0..height as isize {
                for x in 0..width as isize {
                    let corners = [(0, 0), (0, 1), (1, 0), (1, 1)];
                    let largest = corners
                        .iter()
                        .map(|(dy, dx)| self.at(channel, 2 * y + dy, 2 * x + dx))
                        .fold(f64::NEG_INFINITY, f64::max);
                    values.push(largest);
                }
            }
        }
        Self { values, channels: self.channels, height, width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_relu_softmax_by_hand() {
        let scores = dense(&[1.0, 2.0], &[0.5, -9.0], |i, o| (i + 10 * o) as f32);
        assert_eq!(scores, [2.5, 10.0 + 22.0 - 9.0]);
        assert_eq!(relu(vec![-1.0, 2.0]), [0.0, 2.0]);
        let probabilities = softmax(&[0.0, 2f64.ln(), 5f64.ln()]);
        for (got, expected) in probabilities.iter().zip([0.125, 0.25, 0.625]) {
            assert!((got - expected).abs() < 1e-12);
        }
        assert_eq!(best(&[1.0, 3.0, 2.5]), (1, 0.5));
    }

    #[test]
    fn convolution_moves_and_pads() {
        let image = Planes { values: vec![1.0, 2.0, 3.0, 4.0], channels: 1, height: 2, width: 2 };
        // Only the tap to the right: each pixel gets its right neighbour, nothing beyond the edge.
        let mut filter = [0.0; 9];
        filter[5] = 1.0;
        assert_eq!(image.convolved(&filter, &[0.0]).values, [2.0, 0.0, 4.0, 0.0]);
        // All taps: the sum of the image everywhere; a bias below it is cut off at zero.
        let two = image.convolved(&[1.0; 18], &[0.5, -11.0]);
        assert_eq!(two.values, [10.5, 10.5, 10.5, 10.5, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(two.channels, 2);
    }

    #[test]
    fn pooling_takes_the_largest() {
        let values = (0..16).map(f64::from).collect();
        let image = Planes { values, channels: 1, height: 4, width: 4 };
        assert_eq!(image.pooled().values, [5.0, 7.0, 13.0, 15.0]);
    }
}
