//! The samples' kernels against plain Rust, and how fast they go on one core.
//!
//! The figures are printed, not asserted; run
//! `cargo test --release -p soft-gpu --test filetests throughput -- --nocapture --ignored`.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use rustix::time::{ClockId, clock_gettime};
use simt::inspect::{Stage, dump};
use simt::launch_shape::LaunchShape;

fn sample(name: &str) -> String {
    let path = format!("{}/../../samples/kernels/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a sample's PTX")
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Time that this thread has had a processor for: other load on the machine does not count.
fn processor_s() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Best of several runs, in units a second.
fn best(units: f64, mut run: impl FnMut()) -> f64 {
    run();
    let times = (0..9).map(|_| {
        let start = processor_s();
        run();
        processor_s() - start
    });
    units / times.fold(f64::INFINITY, f64::min)
}

struct VectorAdd {
    device: Device,
    kernel: std::sync::Arc<dyn simt::kernel::Kernel>,
    params: Vec<u8>,
    sum: u64,
    n: usize,
}

impl VectorAdd {
    fn new(set: Set, n: usize) -> Self {
        let device = Device::new(set);
        let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let b: Vec<f32> = (0..n).map(|i| 1.0 - i as f32).collect();
        let text = std::fs::read_to_string(format!(
            "{}/../simt-interpreter/tests/filetests/vector_add.ptx",
            env!("CARGO_MANIFEST_DIR")
        ));
        let kernel = device.load(&text.expect("PTX")).expect("a module").kernel("add");
        let mut params = Params::default();
        for values in [&a, &b] {
            let at = device.memory.allocate(4 * n as u64, true);
            device.memory.write(at, &bytes_of(values));
            params.push(&at.to_le_bytes());
        }
        let sum = device.memory.allocate(4 * n as u64, true);
        params.push(&sum.to_le_bytes());
        params.push(&(n as u32).to_le_bytes());
        Self { device, kernel: kernel.expect("a kernel"), params: params.0, sum, n }
    }

    fn run(&mut self) {
        let shape = Shape::linear(self.n.div_ceil(256) as u32, 256);
        self.device.run(&self.kernel, shape, &self.params).expect("no fault");
    }
}

struct Mandelbrot {
    device: Device,
    kernel: std::sync::Arc<dyn simt::kernel::Kernel>,
    params: Vec<u8>,
    counts: u64,
}

const SIDE: u32 = 192;
const LIMIT: u32 = 300;

impl Mandelbrot {
    fn new(set: Set) -> Self {
        let device = Device::new(set);
        let kernel = device.load(&sample("mandelbrot")).expect("a module").kernel("mandelbrot");
        let counts = device.memory.allocate(u64::from(4 * SIDE * SIDE), true);
        let mut params = Params::default();
        params.push(&counts.to_le_bytes());
        params.push(&SIDE.to_le_bytes());
        params.push(&SIDE.to_le_bytes());
        for v in [-2.0f32, -1.25, 2.5 / SIDE as f32] {
            params.push(&v.to_le_bytes());
        }
        params.push(&LIMIT.to_le_bytes());
        Self { device, kernel: kernel.expect("a kernel"), params: params.0, counts }
    }

    fn run(&mut self) -> Vec<u32> {
        let shape = Shape::linear(8, 256);
        self.device.run(&self.kernel, shape, &self.params).expect("no fault");
        u32s(&self.device.memory.read(self.counts, (4 * SIDE * SIDE) as usize))
    }

    fn reference() -> Vec<u32> {
        let step = 2.5 / SIDE as f32;
        (0..SIDE * SIDE)
            .map(|pixel| {
                let cx = -2.0 + (pixel % SIDE) as f32 * step;
                let cy = -1.25 + (pixel / SIDE) as f32 * step;
                let (mut x, mut y, mut count) = (0f32, 0f32, 0);
                while count < LIMIT {
                    let (xx, yy) = (x * x, y * y);
                    if xx + yy > 4.0 {
                        break;
                    }
                    let xy = x * y;
                    x = xx - yy + cx;
                    y = xy + xy + cy;
                    count += 1;
                }
                count
            })
            .collect()
    }
}

struct NBody {
    device: Device,
    kernel: std::sync::Arc<dyn simt::kernel::Kernel>,
    params: Vec<u8>,
    positions: u64,
    bodies: Vec<f32>,
}

const BODIES: u32 = 1024;
const DT: f32 = 0.01;
const SOFTENING2: f32 = 0.1;

impl NBody {
    fn new(set: Set) -> Self {
        let device = Device::new(set);
        let kernel = device.load(&sample("n_body")).expect("a module").kernel("n_body_step");
        let mut state = 1u32;
        let bodies: Vec<f32> = (0..4 * BODIES)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 24) as f32
            })
            .collect();
        let bytes = u64::from(16 * BODIES);
        let places: Vec<u64> = (0..4).map(|_| device.memory.allocate(bytes, true)).collect();
        device.memory.write(places[0], &bytes_of(&bodies));
        let mut params = Params::default();
        places.iter().for_each(|p| params.push(&p.to_le_bytes()));
        params.push(&BODIES.to_le_bytes());
        params.push(&DT.to_le_bytes());
        params.push(&SOFTENING2.to_le_bytes());
        Self {
            device,
            kernel: kernel.expect("a kernel"),
            params: params.0,
            positions: places[2],
            bodies,
        }
    }

    fn run(&mut self) -> Vec<f32> {
        let shape = Shape { shared: 16 * 256, ..Shape::linear(BODIES / 256, 256) };
        self.device.run(&self.kernel, shape, &self.params).expect("no fault");
        f32s(&self.device.memory.read(self.positions, (16 * BODIES) as usize))
    }

    fn reference(&self) -> Vec<f64> {
        let body =
            |i: usize| -> [f64; 4] { std::array::from_fn(|k| f64::from(self.bodies[4 * i + k])) };
        (0..BODIES as usize)
            .flat_map(|i| {
                let own = body(i);
                let mut a = [0f64; 3];
                for j in 0..BODIES as usize {
                    let other = body(j);
                    let d: [f64; 3] = std::array::from_fn(|k| other[k] - own[k]);
                    let r2 = d.iter().map(|d| d * d).sum::<f64>() + f64::from(SOFTENING2);
                    let pull = other[3] / (r2 * r2.sqrt());
                    (0..3).for_each(|k| a[k] += d[k] * pull);
                }
                let dt = f64::from(DT);
                [own[0] + a[0] * dt * dt, own[1] + a[1] * dt * dt, own[2] + a[2] * dt * dt, own[3]]
            })
            .collect()
    }
}

/// Slow paths that native code of these kernels may take, however many warps there are: each access
/// takes one until its range of memory is known.
const SLOW_PATHS_MAX: u64 = 8;

#[test]
fn vector_add_is_exact() {
    for set in ALL_SETS {
        let mut add = VectorAdd::new(set, 1000);
        add.run();
        let sum = f32s(&add.device.memory.read(add.sum, 4000));
        let right = |i: usize| i as f32 * 0.5 + (1.0 - i as f32);
        assert!(sum.iter().enumerate().all(|(i, s)| *s == right(i)), "{set:?}");
        let slow_paths = add.device.counters.native.slow_paths;
        assert!(slow_paths <= SLOW_PATHS_MAX, "{set:?}: {slow_paths}");
    }
}

#[test]
fn mandelbrot_is_exact() {
    for set in ALL_SETS {
        assert!(Mandelbrot::new(set).run() == Mandelbrot::reference(), "{set:?}");
    }
}

#[test]
fn n_body_is_close() {
    for set in ALL_SETS {
        let mut bodies = NBody::new(set);
        let reference = bodies.reference();
        let before = bodies.bodies.clone();
        for (i, (got, right)) in bodies.run().iter().zip(reference).enumerate() {
            // What the forces do is the way that a body moves, of which the position is a rounding.
            let moved = right - f64::from(before[i]);
            let rounding = f64::from(f32::EPSILON) * right.abs();
            let error = (f64::from(*got) - right).abs();
            let most = rounding + 1e-5 * moved.abs();
            assert!(error <= most, "{set:?}: {i}: {got}, not {right}: moved by {moved}");
        }
        let slow_paths = bodies.device.counters.native.slow_paths;
        assert!(slow_paths <= SLOW_PATHS_MAX, "{set:?}: {slow_paths}");
    }
}

#[test]
#[ignore = "prints figures; run it alone and optimised"]
fn throughput() {
    for set in ALL_SETS {
        let mut add = VectorAdd::new(set, 64 << 10);
        let rate = best(f64::from(64 << 10), || add.run());
        println!("{set:?} vector add, L2: {:.3} Gelem/s", rate / 1e9);
        let mut mandelbrot = Mandelbrot::new(set);
        let steps: f64 = mandelbrot.run().iter().map(|c| f64::from(*c)).sum();
        let rate = best(steps, || drop(mandelbrot.run()));
        println!("{set:?} mandelbrot: {:.3} Giter/s", rate / 1e9);
        let mut bodies = NBody::new(set);
        let pairs = f64::from(BODIES) * f64::from(BODIES);
        let rate = best(pairs, || drop(bodies.run()));
        println!("{set:?} n-body: {:.3} Gpair/s", rate / 1e9);
    }
}

#[test]
fn a_kernel_can_be_shown_as_vector_ir() {
    let text = dump(&sample("mandelbrot"), Some("mandelbrot"), Stage::Vector(LaunchShape::Rows));
    let text = text.expect("it compiles").expect("the kernel");
    assert!(text.contains("function mandelbrot (lockstep") && text.contains("b0: convergent"));
    assert!(
        dump(&sample("mandelbrot"), Some("other"), Stage::Vector(LaunchShape::Rows))
            .expect("PTX")
            .is_none()
    );
}

/// A warp that multiplies 16 x 16 by 16 x 8, over and over, into four tiles of sums.
#[test]
#[ignore = "prints figures"]
fn matrix_products() {
    const ROUNDS: u32 = 20_000;
    let (a, b) = ("%a0, %a1, %a2, %a3", "%b0, %b1");
    for (shape, ty, sum) in [
        ("m16n8k16", "bf16", "f32"),
        ("m16n8k16", "f16", "f32"),
        ("m16n8k8", "tf32", "f32"),
        ("m16n8k32", "s8", "s32"),
    ] {
        let mut text = String::from(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n\
             .reg .b32 %a<4>, %b<2>, %c<16>, %i;\n.reg .pred %p;\n.reg .b64 %out;\n\
             mov.u32 %i, %laneid;\n",
        );
        // Numbers near 1 in any format.
        for (register, step) in [("a0", 1), ("a1", 2), ("a2", 3), ("a3", 1), ("b0", 2), ("b1", 1)] {
            text.push_str(&format!(
                "mul.lo.u32 %{register}, %i, {}; or.b32 %{register}, %{register}, 0x3c003c00;\n",
                0x10001 * step
            ));
        }
        for i in 0..16 {
            text.push_str(&format!("mov.b32 %c{i}, 0;\n"));
        }
        text.push_str(&format!("mov.u32 %i, {ROUNDS};\nAGAIN:\n"));
        for tile in 0..4 {
            let c: Vec<String> = (0..4).map(|i| format!("%c{}", 4 * tile + i)).collect();
            let c = c.join(", ");
            text.push_str(&format!(
                "mma.sync.aligned.{shape}.row.col.{sum}.{ty}.{ty}.{sum} {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};\n"
            ));
        }
        text.push_str(
            "sub.u32 %i, %i, 1;\nsetp.ne.u32 %p, %i, 0;\n@%p bra AGAIN;\n\
             ld.param.u64 %out, [out];\nst.global.b32 [%out], %c0;\nst.global.b32 [%out], %c15;\nret;\n}\n",
        );
        for set in ALL_SETS {
            let mut device = Device::new(set);
            let kernel = device.load(&text).expect("a module").kernel("k").expect("a kernel");
            let out = device.memory.allocate(4, true);
            let k = shape[5..].trim_start_matches('k').parse::<f64>().expect("k");
            let operations = 2.0 * 16.0 * 8.0 * k * 4.0 * f64::from(ROUNDS);
            let rate = best(operations, || {
                device.run(&kernel, Shape::linear(1, 32), &out.to_le_bytes()).expect("no fault");
            });
            println!("{ty} {set:?}: {:.1} G operations/s", rate / 1e9);
        }
    }
}
