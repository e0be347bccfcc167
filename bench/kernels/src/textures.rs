//! Texture kernels: cases that read textures and surfaces. What is counted is reads of texels that
//! the program asks for, regardless of how many the filter reads for each.

use crate::arguments::{Random, float, int, words};
use crate::case::{Argument, Case, Element::F32, Tolerance};
use crate::image::{CLAMP, Home, Image, WRAP};
use cuda_api::constants::array_format::{FLOAT, UNSIGNED_INT8, UNSIGNED_INT32};

fn image(home: Home, extents: [usize; 3], (format, channels): (u32, u32)) -> Image {
    let count = extents.map(|extent| extent.max(1)).iter().product::<usize>() * channels as usize;
    let mut random = Random::new();
    let texels = match format {
        FLOAT => (0..count).flat_map(|_| random.float(-1.0, 1.0).to_le_bytes()).collect(),
        UNSIGNED_INT32 => (0..count).flat_map(|_| (random.bits() >> 4).to_le_bytes()).collect(),
        _ => (0..count).map(|_| random.bits() as u8).collect(),
    };
    let (linear, normalized) = (false, false);
    Image { home, extents, format, channels, address: CLAMP, linear, normalized, texels }
}

pub(crate) fn nearest_1d() -> Case {
    const THREADS: usize = 16384;
    let table = image(Home::Array, [4096, 0, 0], (FLOAT, 1));
    case!(no OpenCL texture_1d_nearest: "Gfetch/s", (16 * THREADS) as f64, [64, 1, 1], [256, 1, 1],
        Tolerance::Exact, vec![Argument::Image(table), Argument::Output(F32, THREADS), float(0.25)])
}

pub(crate) fn linear_2d() -> Case {
    const SIDE: usize = 256;
    let texels = image(Home::Array, [SIDE, SIDE, 0], (FLOAT, 1));
    let texels = Image { address: WRAP, linear: true, normalized: true, ..texels };
    case!(no OpenCL texture_2d_linear: "Gfetch/s", (4 * SIDE * SIDE) as f64, [16, 16, 1], [16, 16, 1],
        Tolerance::Relative(1e-5), vec![
        Argument::Image(texels), Argument::Output(F32, SIDE * SIDE), int(SIDE), float(0.0061035156),
    ])
}

pub(crate) fn rotated_2d() -> Case {
    const SIDE: usize = 256;
    let texels = image(Home::Array, [SIDE, SIDE, 0], (UNSIGNED_INT8, 4));
    let texels = Image { linear: true, ..texels };
    // Coordinates are rounded in other places in C: now and then a weight is the next one.
    case!(no OpenCL texture_2d_rotated: "Gfetch/s", (2 * SIDE * SIDE) as f64, [16, 16, 1], [16, 16, 1],
        Tolerance::Relative(0.02), vec![
        Argument::Image(texels), Argument::Output(F32, SIDE * SIDE), int(SIDE), float(0.8), float(0.6),
    ])
}

pub(crate) fn linear_3d() -> Case {
    const SIDE: usize = 64;
    const WIDTH: usize = 128;
    let texels = image(Home::Array, [SIDE; 3], (UNSIGNED_INT8, 1));
    let texels = Image { linear: true, normalized: true, ..texels };
    case!(no OpenCL texture_3d_linear: "Gfetch/s", (32 * WIDTH * WIDTH) as f64, [8, 8, 1], [16, 16, 1],
        Tolerance::Relative(1e-5), vec![
        Argument::Image(texels), Argument::Output(F32, WIDTH * WIDTH), int(WIDTH), float(0.0078125),
    ])
}

pub(crate) fn pitched() -> Case {
    const SIDE: usize = 256;
    let texels = Image { linear: true, ..image(Home::Rows, [SIDE, SIDE, 1], (FLOAT, 1)) };
    case!(no OpenCL texture_pitched: "Gfetch/s", (9 * SIDE * SIDE) as f64, [8, 32, 1], [32, 8, 1],
        Tolerance::Relative(1e-5), vec![
        Argument::Image(texels), Argument::Output(F32, SIDE * SIDE), int(SIDE),
    ])
}

pub(crate) fn memory() -> Case {
    const VECTORS: usize = 4096;
    const THREADS: usize = 16384;
    let mut random = Random::new();
    let numbers = (0..8 * THREADS).map(|_| random.bits() % VECTORS as u32);
    case!(no OpenCL texture_memory: "Gfetch/s", (8 * THREADS) as f64, [64, 1, 1], [256, 1, 1],
        Tolerance::Relative(1e-5), vec![
        Argument::Image(image(Home::Linear, [VECTORS, 1, 1], (FLOAT, 4))), words(numbers),
        Argument::Output(F32, THREADS), int(THREADS),
    ])
}

pub(crate) fn cubemap() -> Case {
    const WIDTH: usize = 128;
    let texels = image(Home::Cube, [64, 64, 6], (FLOAT, 1));
    let texels = Image { linear: true, normalized: true, ..texels };
    case!(no OpenCL texture_cubemap: "Gfetch/s", (8 * WIDTH * WIDTH) as f64, [8, 8, 1], [16, 16, 1],
        Tolerance::Relative(1e-5), vec![
        Argument::Image(texels), Argument::Output(F32, WIDTH * WIDTH), int(WIDTH), float(0.015625),
    ])
}

pub(crate) fn surface() -> Case {
    const SIDE: usize = 256;
    let of = |home| Argument::Image(image(home, [SIDE, SIDE, 0], (UNSIGNED_INT32, 1)));
    case!(no OpenCL surface_2d: "Gfetch/s", (5 * SIDE * SIDE) as f64, [8, 32, 1], [32, 8, 1],
        Tolerance::Exact, vec![of(Home::Surface), of(Home::Written)])
}
