//! What prototypes of this design reached before it was written: no kernel may come out slower.
//!
//! They were measured on another machine (a Zen 5 core, whose units for vectors are 512 bits wide)
//! beside the same algorithms in C, built by gcc 12 or clang 19 with `-O3 -march=native`. What can
//! be compared is the ratio of the two; the figures are thousand millions a second.

/// A kernel of the prototypes: its case, what the better of their own generators reached, and C.
const PROTOTYPES: [(&str, f64, f64); 8] = [
    ("vector_add", 9.0, 20.2),
    ("vector_add_memory", 3.2, 3.4),
    ("saxpy", 2.8, 32.9),
    ("matrix_multiply", 21.0, 65.0),
    ("reduction", 4.4, 2.14),
    ("mandelbrot", 5.1, 0.48),
    ("n_body", 6.0, 0.47),
    ("spmv", 0.57, 3.6),
];

/// The least ratio of ours to C's speed; `None` for kernels that the prototypes did not have.
pub(crate) fn of(case: &str) -> Option<f64> {
    let found = PROTOTYPES.iter().find(|(name, ..)| *name == case);
    found.map(|(_, theirs, c)| theirs / c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prototype_has_its_case() {
        let names = crate::names();
        assert!(PROTOTYPES.iter().all(|(name, ..)| names.contains(name)));
        assert!(of("vector_add").is_some_and(|ratio| ratio > 0.44 && ratio < 0.45));
    }
}
