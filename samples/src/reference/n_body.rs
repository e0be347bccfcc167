//! Bodies under gravity, in double precision.

/// Position or velocity, as the kernel's `float4`; the fourth component of a position is the mass.
pub type Vector = [f32; 4];

/// Positions and velocities after some steps.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// x, y, z, mass.
    pub positions: Vec<[f64; 4]>,
    /// x, y, z, unused.
    pub velocities: Vec<[f64; 4]>,
}

impl Bodies {
    /// Bodies as the device gets them.
    pub fn new(positions: &[Vector], velocities: &[Vector]) -> Self {
        let widen = |vectors: &[Vector]| vectors.iter().map(|v| v.map(f64::from)).collect();
        Self { positions: widen(positions), velocities: widen(velocities) }
    }

    /// One step of length `dt`; the forces are those at its beginning. The softening must be above
    /// zero, since a body meets itself at distance zero.
    pub fn step(&mut self, dt: f64, softening2: f64) {
        let before = self.positions.clone();
        for ((own, position), velocity) in
            before.iter().zip(&mut self.positions).zip(&mut self.velocities)
        {
            for axis in 0..3 {
                let pull: f64 = before
                    .iter()
                    .map(|other| {
                        let distance2: f64 =
                            (0..3).map(|k| (other[k] - own[k]).powi(2)).sum::<f64>() + softening2;
                        other[3] * (other[axis] - own[axis]) / (distance2 * distance2.sqrt())
                    })
                    .sum();
                velocity[axis] += pull * dt;
                position[axis] += velocity[axis] * dt;
            }
        }
    }

    /// All components of the positions, in order.
    pub fn flat_positions(&self) -> Vec<f64> {
        self.positions.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Bodies;

    #[test]
    fn two_bodies_fall_towards_each_other() {
        let mut bodies =
            Bodies::new(&[[-1.0, 0.0, 0.0, 4.0], [1.0, 0.0, 0.0, 4.0]], &[[0.0; 4]; 2]);
        bodies.step(0.5, 1e-30);
        // Pull = 4 / 2^2 = 1; velocity 0.5; distance 0.25.
        assert!((bodies.velocities[0][0] - 0.5).abs() < 1e-12);
        assert!((bodies.positions[0][0] + 0.75).abs() < 1e-12);
        assert!((bodies.positions[1][0] - 0.75).abs() < 1e-12);
        assert_eq!(bodies.positions[1][3], 4.0);
    }

    #[test]
    fn momentum_is_kept() {
        let mut bodies = Bodies::new(
            &[[0.0, 0.0, 0.0, 1.0], [1.0, 2.0, 0.5, 2.0], [-1.0, 0.3, 0.0, 3.0]],
            &[[0.1, 0.0, 0.0, 0.0], [0.0, 0.2, 0.0, 0.0], [0.0, 0.0, -0.1, 0.0]],
        );
        let momentum = |bodies: &Bodies, axis: usize| -> f64 {
            let both = bodies.positions.iter().zip(&bodies.velocities);
            both.map(|(position, velocity)| position[3] * velocity[axis]).sum()
        };
        let before: Vec<f64> = (0..3).map(|axis| momentum(&bodies, axis)).collect();
        for _ in 0..10 {
            bodies.step(0.01, 0.05);
        }
        for (axis, before) in before.iter().enumerate() {
            assert!((momentum(&bodies, axis) - before).abs() < 1e-12);
        }
    }
}
