//! The list of cases: inputs, sizes and launches.
//!
//! Sizes are such that the data fits the second-level cache of today's processors: what is compared
//! is code, not memory, but for one case. Sizes that a C source has as a constant are named after it here.

use crate::arguments::{Random, doubles, float, floats, int, random_words, words};
use crate::case::{Argument, Case, Element, Tolerance};
use crate::textures;
use Element::{F32, F64, U32};

/// All cases, each made when asked for: inputs are large.
pub(crate) fn all() -> &'static [fn() -> Case] {
    &[
        vector_add,
        vector_add_memory,
        saxpy,
        transpose,
        stencil,
        convolution,
        matrix_multiply,
        matrix_multiply_blocked,
        mandelbrot,
        n_body,
        k_means,
        black_scholes,
        monte_carlo,
        sha256,
        reduction,
        scan,
        softmax,
        attention,
        fft,
        bitonic_sort,
        histogram,
        spmv,
        string_search,
        graph_search,
        tensor_mma,
        tensor_wmma,
        textures::nearest_1d,
        textures::linear_2d,
        textures::rotated_2d,
        textures::linear_3d,
        textures::pitched,
        textures::memory,
        textures::cubemap,
        textures::surface,
    ]
}

/// A case with its sources; the rest is for the caller to fill in. `no OpenCL` in front marks
/// kernels that OpenCL cannot express.
macro_rules! case {
    (no OpenCL $name:ident: $($rest:tt)*) => {
        case!(@ "", $name: $($rest)*)
    };
    ($name:ident: $($rest:tt)*) => {
        case!(@ include_str!(concat!("../programs/", stringify!($name), ".cl")), $name: $($rest)*)
    };
    (@ $opencl:expr, $name:ident: $unit:literal, $work:expr, $grid:expr, $block:expr, $tolerance:expr, $arguments:expr) => {
        Case {
            name: stringify!($name),
            kernel: stringify!($name),
            ptx: include_str!(concat!("../programs/", stringify!($name), ".ptx")).into(),
            c: include_str!(concat!("../programs/", stringify!($name), ".c")),
            opencl: $opencl,
            unit: $unit,
            work: $work,
            grid: $grid,
            block: $block,
            arguments: $arguments,
            tolerance: $tolerance,
        }
    };
}

/// Blocks of `block` threads for `count` threads in one dimension.
fn line(count: usize, block: usize) -> [u32; 3] {
    [(count / block) as u32, 1, 1]
}

fn vector_add() -> Case {
    const N: usize = 64 << 10;
    case!(vector_add: "Gelem/s", N as f64, line(N, 256), [256, 1, 1], Tolerance::Exact, vec![
        floats(N, -1.0, 1.0), floats(N, 0.0, 9.0), Argument::Output(F32, N), int(N),
    ])
}

/// The same, larger than the caches.
fn vector_add_memory() -> Case {
    const N: usize = 8 << 20;
    let case = case!(vector_add: "Gelem/s", N as f64, line(N, 256), [256, 1, 1], Tolerance::Exact, vec![
        floats(N, -1.0, 1.0), floats(N, 0.0, 9.0), Argument::Output(F32, N), int(N),
    ]);
    Case { name: "vector_add_memory", ..case }
}

fn saxpy() -> Case {
    const N: usize = 64 << 10;
    case!(saxpy: "Gelem/s", N as f64, [32, 1, 1], [256, 1, 1], Tolerance::Relative(1e-6), vec![
        floats(N, -1.0, 1.0), floats(N, 0.0, 9.0), Argument::Output(F32, N), float(2.5), int(N),
    ])
}

fn transpose() -> Case {
    const SIDE: usize = 256;
    let tiles = (SIDE / 32) as u32;
    case!(transpose: "Gelem/s", (SIDE * SIDE) as f64, [tiles, tiles, 1], [32, 8, 1],
        Tolerance::Exact, vec![
        floats(SIDE * SIDE, -1.0, 1.0), Argument::Output(F32, SIDE * SIDE), int(SIDE),
    ])
}

fn stencil() -> Case {
    const SIDE: usize = 192;
    let work = (SIDE * SIDE) as f64;
    case!(stencil: "Gelem/s", work, [6, 24, 1], [32, 8, 1], Tolerance::Exact, vec![
        doubles(SIDE * SIDE, 0.0, 1.0), Argument::Output(F64, SIDE * SIDE), int(SIDE), int(SIDE),
    ])
}

fn convolution() -> Case {
    const WIDTH: usize = 256;
    const HEIGHT: usize = 128;
    const PITCH: usize = WIDTH + 4;
    let work = (2 * 25 * WIDTH * HEIGHT) as f64;
    case!(convolution: "GFLOP/s", work, [8, 16, 1], [32, 8, 1], Tolerance::Relative(1e-5), vec![
        floats(PITCH * (HEIGHT + 4), 0.0, 1.0), floats(25, -1.0, 1.0),
        Argument::Output(F32, WIDTH * HEIGHT), int(WIDTH), int(PITCH),
    ])
}

fn square_matrices(side: usize) -> Vec<Argument> {
    vec![
        floats(side * side, -1.0, 1.0),
        floats(side * side, 0.0, 1.0),
        Argument::Output(F32, side * side),
        int(side),
    ]
}

fn matrix_multiply() -> Case {
    const SIDE: usize = 192;
    let (work, tiles) = ((2 * SIDE * SIDE * SIDE) as f64, (SIDE / 16) as u32);
    case!(matrix_multiply: "GFLOP/s", work, [tiles, tiles, 1], [16, 16, 1],
        Tolerance::Relative(1e-4), square_matrices(SIDE))
}

fn matrix_multiply_blocked() -> Case {
    const SIDE: usize = 192;
    let (work, tiles) = ((2 * SIDE * SIDE * SIDE) as f64, (SIDE / 64) as u32);
    case!(matrix_multiply_blocked: "GFLOP/s", work, [tiles, tiles, 1], [256, 1, 1],
        Tolerance::Relative(1e-4), square_matrices(SIDE))
}

/// Steps that all points take until they escape or reach the limit.
fn mandelbrot_steps(width: usize, height: usize, corner: [f32; 2], step: f32, limit: u32) -> u64 {
    let mut steps = 0;
    for row in 0..height {
        for column in 0..width {
            let (cx, cy) = (corner[0] + column as f32 * step, corner[1] + row as f32 * step);
            let (mut x, mut y) = (0f32, 0f32);
            for _ in 0..limit {
                if x * x + y * y > 4.0 {
                    break;
                }
                (x, y) = (x * x - y * y + cx, 2.0 * x * y + cy);
                steps += 1;
            }
        }
    }
    steps
}

fn mandelbrot() -> Case {
    const WIDTH: usize = 256;
    const HEIGHT: usize = 128;
    const LIMIT: u32 = 300;
    let (corner, step) = ([-2.0f32, -0.625], 2.5 / WIDTH as f32);
    let work = mandelbrot_steps(WIDTH, HEIGHT, corner, step, LIMIT) as f64;
    // Whether a compiler fuses a product and a sum decides the count of points on the rim.
    case!(mandelbrot: "Giter/s", work, [2, 128, 1], [128, 1, 1], Tolerance::Share(0.01), vec![
        Argument::Output(U32, WIDTH * HEIGHT), int(WIDTH), float(corner[0]), float(corner[1]),
        float(step), int(LIMIT as usize),
    ])
}

fn n_body() -> Case {
    const N: usize = 1024;
    case!(n_body: "Gpair/s", (N * N) as f64, line(N, 256), [256, 1, 1],
        Tolerance::Relative(1e-3), vec![
        floats(4 * N, 0.1, 1.0), Argument::Output(F32, 4 * N), int(N), float(0.01),
    ])
}

fn k_means() -> Case {
    const N: usize = 16 << 10;
    let mut random = Random::seeded(77);
    let centres = words((0..64).map(|_| random.float(0.0, 1.0).to_bits()));
    // Two centres may be equally near to the last bit.
    case!(k_means: "Gpair/s", (16 * N) as f64, line(N, 256), [256, 1, 1], Tolerance::Share(1e-3),
        vec![floats(4 * N, 0.0, 1.0), centres, Argument::Output(U32, N), int(N)])
}

fn black_scholes() -> Case {
    const N: usize = 16 << 10;
    case!(black_scholes: "Gopt/s", N as f64, line(N, 128), [128, 1, 1], Tolerance::Relative(1e-3),
        vec![
        floats(N, 5.0, 30.0), floats(N, 1.0, 100.0), floats(N, 0.25, 10.0),
        Argument::Output(F32, N), Argument::Output(F32, N), float(0.02), float(0.3), int(N),
    ])
}

fn monte_carlo() -> Case {
    const STREAMS: usize = 4096;
    const ROUNDS: usize = 256;
    let mut random = Random::new();
    case!(monte_carlo: "Gpoint/s", (STREAMS * ROUNDS) as f64, line(STREAMS, 256), [256, 1, 1],
        Tolerance::Share(0.01), vec![
        words((0..STREAMS).map(|_| random.bits() | 1)), Argument::Output(U32, STREAMS),
        int(ROUNDS),
    ])
}

fn sha256() -> Case {
    const N: usize = 4096;
    case!(sha256: "Gbyte/s", (64 * N) as f64, line(N, 128), [128, 1, 1], Tolerance::Exact, vec![
        random_words(16 * N), Argument::Output(U32, 8 * N), int(N),
    ])
}

fn reduction() -> Case {
    const PARTS: usize = 64;
    const PART: usize = 2048;
    let work = (PARTS * PART) as f64;
    case!(reduction: "Gelem/s", work, [64, 1, 1], [256, 1, 1], Tolerance::Relative(1e-4), vec![
        floats(PARTS * PART, 0.0, 1.0), Argument::Output(F32, PARTS), int(PART),
    ])
}

fn scan() -> Case {
    const N: usize = 64 << 10;
    case!(scan: "Gelem/s", N as f64, line(N, 1024), [256, 1, 1], Tolerance::Exact, vec![
        random_words(N), Argument::Output(U32, N),
    ])
}

fn softmax() -> Case {
    const ROWS: usize = 256;
    const WIDTH: usize = 256;
    let work = (ROWS * WIDTH) as f64;
    case!(softmax: "Gelem/s", work, line(ROWS, 4), [128, 1, 1], Tolerance::Relative(1e-5), vec![
        floats(ROWS * WIDTH, -4.0, 4.0), Argument::Output(F32, ROWS * WIDTH),
    ])
}

fn attention() -> Case {
    const N: usize = 512;
    const KEYS: usize = 128;
    const DIMENSIONS: usize = 32;
    let work = (4 * N * KEYS * DIMENSIONS) as f64;
    case!(attention: "GFLOP/s", work, line(N, 64), [64, 1, 1], Tolerance::Relative(1e-3), vec![
        floats(N * DIMENSIONS, -0.5, 0.5), floats(KEYS * DIMENSIONS, -0.5, 0.5),
        floats(KEYS * DIMENSIONS, 0.0, 1.0), Argument::Output(F32, N * DIMENSIONS), int(N),
    ])
}

fn fft() -> Case {
    const RUNS: usize = 64;
    const RUN: usize = 512;
    let factors = (0..RUN as u32 / 2).flat_map(|k| {
        let angle = -2.0 * std::f64::consts::PI * f64::from(k) / RUN as f64;
        [angle.cos() as f32, angle.sin() as f32].map(f32::to_bits)
    });
    let work = (RUNS * RUN * 9 * 5) as f64;
    case!(fft: "GFLOP/s", work, [64, 1, 1], [256, 1, 1], Tolerance::Relative(1e-4), vec![
        floats(2 * RUNS * RUN, -1.0, 1.0), words(factors), Argument::Output(F32, 2 * RUNS * RUN),
    ])
}

fn bitonic_sort() -> Case {
    const RUNS: usize = 64;
    const RUN: usize = 512;
    let work = (RUNS * RUN) as f64;
    case!(bitonic_sort: "Gkey/s", work, [64, 1, 1], [256, 1, 1], Tolerance::Exact, vec![
        random_words(RUNS * RUN), Argument::Output(U32, RUNS * RUN),
    ])
}

fn histogram() -> Case {
    const PARTS: usize = 16;
    const PART: usize = 4096;
    let work = (4 * PARTS * PART) as f64;
    case!(histogram: "Gbyte/s", work, [16, 1, 1], [256, 1, 1], Tolerance::Exact, vec![
        random_words(PARTS * PART), Argument::Output(U32, 256 * PARTS), int(PART),
    ])
}

fn spmv() -> Case {
    const ROWS: usize = 4096;
    let mut random = Random::new();
    let mut starts = vec![0u32];
    for row in 0..ROWS {
        starts.push(starts[row] + 4 + random.bits() % 13);
    }
    let nonzero = starts[ROWS] as usize;
    let columns: Vec<u32> = (0..nonzero).map(|_| random.bits() % ROWS as u32).collect();
    case!(spmv: "Gnnz/s", nonzero as f64, line(ROWS, 128), [128, 1, 1], Tolerance::Relative(1e-9),
        vec![
        words(starts.into_iter()), words(columns.into_iter()), doubles(nonzero, -1.0, 1.0),
        doubles(ROWS, -1.0, 1.0), Argument::Output(F64, ROWS), int(ROWS),
    ])
}

fn string_search() -> Case {
    const N: usize = 64 << 10;
    let pattern = b"abracadabra";
    let mut random = Random::new();
    // Four letters, and the pattern itself now and then: partial matches are common.
    let mut text: Vec<u8> =
        (0..N + pattern.len()).map(|_| b"abrc"[random.bits() as usize % 4]).collect();
    for start in (0..N).step_by(997) {
        text[start..start + pattern.len()].copy_from_slice(pattern);
    }
    case!(string_search: "Gbyte/s", N as f64, [64, 1, 1], [256, 1, 1], Tolerance::Exact, vec![
        Argument::Input(text), Argument::Input(pattern.to_vec()), Argument::Output(U32, N),
        int(N), int(pattern.len()),
    ])
}

fn graph_search() -> Case {
    const NODES: usize = 1024;
    const EDGES_EACH: usize = 4;
    let mut random = Random::new();
    let starts = (0..=NODES).map(|node| (EDGES_EACH * node) as u32);
    let targets = (0..EDGES_EACH * NODES).map(|_| random.bits() % NODES as u32);
    let work = (EDGES_EACH * NODES) as f64;
    // In C one thread runs and has no other to lock out: the comparison would be of locks with
    // none.
    case!(no OpenCL graph_search: "", work, [1, 1, 1], [256, 1, 1], Tolerance::Exact, vec![
        words(starts), words(targets), Argument::Output(U32, NODES), int(NODES),
    ])
}

/// Square matrices of 16-bit floats; `narrow` makes one of a small multiple of 1/8, exactly.
fn narrow_matrices(side: usize, depth: usize, narrow: fn(f32) -> u16) -> Vec<Argument> {
    let mut random = Random::new();
    let mut matrix = || {
        let mut value = || narrow((random.bits() % 33) as f32 / 8.0 - 2.0);
        Argument::Input((0..side * depth).flat_map(|_| value().to_le_bytes()).collect())
    };
    vec![matrix(), matrix(), Argument::Output(F32, side * side), int(side)]
}

/// The upper half of a float: exact for the few bits that are used here.
fn bf16(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

/// Half precision of a multiple of 1/8 whose magnitude is at most 2: always a normal number.
fn f16(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let (sign, exponent, fraction) = (bits >> 31, (bits >> 23 & 0xff) - 112, bits >> 13 & 0x3ff);
    (sign << 15 | exponent << 10 | fraction) as u16
}

fn tensor_mma() -> Case {
    const SIDE: usize = 256;
    const DEPTH: usize = 512;
    let (work, tiles) = ((2 * SIDE * SIDE * DEPTH) as f64, (SIDE / 128) as u32);
    let mut arguments = narrow_matrices(SIDE, DEPTH, bf16);
    arguments.push(int(DEPTH));
    case!(no OpenCL tensor_mma: "GFLOP/s", work, [tiles, tiles, 1], [128, 1, 1],
        Tolerance::Relative(1e-5), arguments)
}

fn tensor_wmma() -> Case {
    const SIDE: usize = 256;
    let (work, tiles) = ((2 * SIDE * SIDE * SIDE) as f64, (SIDE / 16) as u32);
    case!(no OpenCL tensor_wmma: "GFLOP/s", work, [tiles * tiles / 4, 1, 1], [128, 1, 1],
        Tolerance::Relative(1e-5), narrow_matrices(SIDE, SIDE, f16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_they_stand_for() {
        assert_eq!([-2.0, -0.125, 0.0, 1.0, 1.875].map(f16), [0xc000, 0xb000, 0, 0x3c00, 0x3f80]);
        assert_eq!([-2.0, 1.875].map(bf16), [0xc000, 0x3ff0]);
    }

    #[test]
    fn every_kernel_takes_its_cases_arguments() {
        for make in all() {
            let case = make();
            let has = |n: usize| case.ptx.contains(&format!("{}_param_{n}]", case.kernel));
            assert!(case.ptx.contains(&format!(".entry {}(", case.kernel)), "{}", case.kernel);
            let count = case.arguments.len();
            assert!(has(count - 1) && !has(count), "{}", case.kernel);
            let threads = case.block.iter().product::<u32>();
            assert!((32..=1024).contains(&threads) && threads % 32 == 0, "{}", case.kernel);
        }
    }
}
