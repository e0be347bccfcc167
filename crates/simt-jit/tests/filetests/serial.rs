//! Loops that run lane by lane in native code, against the interpreter, which runs them lane for
//! lane: with all lanes and some, interrupted, in several allocations, and with a lane that faults.

use super::harness::{Device, Params, Shape};
use super::tiers::{Set, without_address};
use simt::kernel::FaultKind;
use simt_jit::SimdIsa;

/// Rows: two warps and a half.
const PACKED_A: usize = 80;
/// Elements that rows pick from.
const PICKED: usize = 512;

/// The first row of the last warp: those in front of it find out where memory is.
const LAST_WARP: usize = 64;

/// A product of a sparse matrix and a vector, each thread a row of `starts`; the last warp's values
/// are `f` bytes further than others'. `SUM` is the type of the values, of `BYTES` bytes; `LOOP` the
/// loop's body, up to the branch back to `L`.
const ROW_KERNEL: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e,
    .param .u64 f)
{
    .reg .b64 %starts, %columns, %values, %x, %out, %own, %at, %w, %v, %product; .reg .pred %p;
    .reg .b32 %t, %i, %end, %column; .reg .bBITS %sum, %one, %other;
    ld.param.u64 %starts, [a]; ld.param.u64 %columns, [b]; ld.param.u64 %values, [c];
    ld.param.u64 %x, [d]; ld.param.u64 %out, [e];
    mov.u32 %t, %tid.x; setp.ge.u32 %p, %t, 64;
    ld.param.u64 %w, [f]; @%p add.u64 %values, %values, %w;
    mul.wide.u32 %w, %t, 4; add.u64 %starts, %starts, %w;
    ld.global.u32 %i, [%starts]; ld.global.u32 %end, [%starts+4];
    mov.bBITS %sum, 0;
    setp.ge.s32 %p, %i, %end; @%p bra DONE;
    mul.wide.s32 %w, %i, 4; add.u64 %columns, %columns, %w;
    mul.wide.s32 %w, %i, BYTES; add.u64 %values, %values, %w;
L:
    LOOP
DONE:
    mul.wide.u32 %own, %t, 8; add.u64 %at, %out, %own;
    st.global.bBITS [%at], %sum;
    ret;
}";

/// Ways to write the loop: what follows an address from iteration to iteration, how places are
/// computed, and how it ends.
const LOOPS: [&str; 7] = [
    "ld.global.u32 %column, [%columns]; mul.wide.s32 %product, %column, BYTES;
     add.s64 %v, %x, %product; ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values];
     MULTIPLY
     add.s64 %columns, %columns, 4; add.s64 %values, %values, BYTES; add.s32 %i, %i, 1;
     setp.lt.s32 %p, %i, %end; @%p bra L;",
    // Places of the lane's own numbers, and an end that is not where a number comes to.
    "ld.global.u32 %column, [%columns+0];
     mul.wide.u32 %product, %column, BYTES; add.s64 %v, %product, %x;
     ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values];
     MULTIPLY
     add.s64 %columns, 4, %columns; add.s64 %values, %values, BYTES; add.s32 %i, 1, %i;
     setp.eq.s32 %p, %i, %end; @%p bra DONE; bra L;",
    // The product is read elsewhere as well.
    "ld.global.s32 %column, [%columns]; shl.b32 %column, %column, 1; shr.u32 %column, %column, 1;
     mul.wide.s32 %product, %column, BYTES; add.s64 %v, %x, %product;
     ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values];
     and.b64 %w, %product, 4095; MULTIPLY
     add.s64 %columns, %columns, 4; add.s64 %values, %values, BYTES; add.s32 %i, %i, 1;
     setp.ge.s32 %p, %i, %end; @!%p bra L;",
    // Two elements a turn: too many values for the registers of one lane.
    "add.s64 %columns, %columns, 8; add.s64 %values, %values, TWICE; add.s32 %i, %i, 2;
     ld.global.u32 %column, [%columns+-8]; mul.wide.s32 %product, %column, BYTES;
     add.s64 %v, %x, %product; ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values+-TWICE];
     MULTIPLY
     ld.global.u32 %column, [%columns+-4]; mul.wide.s32 %product, %column, BYTES;
     add.s64 %v, %x, %product; ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values+-BYTES];
     MULTIPLY
     setp.lt.s32 %p, %i, %end; @%p bra L;",
    // Addresses by the rules of no check, and one that does not grow by a power of two.
    "ld.global.u32 %column, [%columns]; mul.wide.s32 %product, %column, BYTES;
     sub.s64 %v, %x, %product; add.s64 %v, %v, %product; add.s64 %v, %v, %product;
     ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values];
     MULTIPLY
     add.s64 %columns, %columns, 4; add.s64 %w, %values, BYTES; mov.b64 %values, %w;
     add.s32 %i, %i, 1; setp.lt.s32 %p, %i, %end; @%p bra L;",
    // Each value is the one in front of the row's.
    "ld.global.u32 %column, [%columns]; mul.wide.s32 %product, %column, BYTES;
     add.s64 %v, %x, %product; ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values+-BYTES];
     MULTIPLY
     add.s64 %columns, %columns, 4; add.s64 %values, %values, BYTES; add.s32 %i, %i, 1;
     setp.lt.s32 %p, %i, %end; @%p bra L;",
    // Columns and values are loaded behind what moves their addresses.
    "add.s64 %columns, %columns, 4; add.s64 %values, %values, BYTES;
     ld.global.u32 %column, [%columns+-4]; mul.wide.s32 %product, %column, BYTES;
     add.s64 %v, %x, %product; ld.global.bBITS %one, [%v]; ld.global.bBITS %other, [%values+-BYTES];
     MULTIPLY
     add.s32 %i, %i, 1; setp.lt.s32 %p, %i, %end; @%p bra L;",
];

/// What `MULTIPLY` stands for.
const TYPES: [(&str, usize, &str); 4] = [
    ("f64", 8, "fma.rn.f64 %sum, %other, %one, %sum;"),
    ("f32", 4, "mul.rn.f32 %other, %other, %one; sub.rn.f32 %sum, %sum, %other;"),
    ("u32", 4, "mad.lo.u32 %sum, %other, %one, %sum;"),
    ("u64", 8, "mul.lo.u64 %other, %other, %one; xor.b64 %sum, %other, %sum;"),
];

fn text(form: usize, (_, bytes, multiply): (&str, usize, &str)) -> String {
    ROW_KERNEL
        .replace("LOOP", LOOPS[form])
        .replace("MULTIPLY", multiply)
        .replace("TWICE", &(2 * bytes).to_string())
        .replace("BYTES", &bytes.to_string())
        .replace("BITS", &(8 * bytes).to_string())
}

/// Numbers without a pattern.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Plain,
    Interrupted,
    /// One row is so long that others get their turn meanwhile.
    Long,
    /// A column that is not there.
    Outside,
    /// A column in front of all.
    Before,
    /// Values at an odd address: of all rows, or of the last warp's.
    Misaligned,
    LastMisaligned,
    /// The last warp's values in front of all.
    LastBefore,
    /// The last warp's first value is the first that there is.
    LastAtStart,
    /// The last row is longer than there are columns and values.
    LastTooLong,
    /// The last row begins at the end of all addresses and goes on at their start.
    LastAround,
}

impl Case {
    /// How much further the last warp's values are.
    fn shift(self, inputs: &Inputs, values: u64) -> u64 {
        let bytes = inputs.values.len() as u64;
        match self {
            Self::LastMisaligned => 1,
            Self::LastAtStart => {
                let of_one = bytes / inputs.columns.len() as u64;
                0u64.wrapping_sub(FRONT_BYTES + of_one * u64::from(inputs.starts[LAST_WARP]))
            }
            Self::LastBefore => 0u64.wrapping_sub(2 * bytes),
            Self::LastAround => {
                let count = inputs.columns.len() as u64;
                let first = u64::from(inputs.starts[LAST_WARP]);
                0u64.wrapping_sub(values + bytes / count * (first + LAST_LENGTH / 2))
            }
            _ => 0,
        }
    }
}

/// What is in front of the values.
const FRONT_BYTES: u64 = 8;
/// Elements of the last row, if it has all that its warp has.
const LAST_LENGTH: u64 = 20;

struct Inputs {
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<u8>,
    picked: Vec<u8>,
}

fn inputs(case: Case, (ty, bytes, _): (&str, usize, &str)) -> Inputs {
    let mut seed = 7;
    let mut starts = vec![0u32];
    for row in 0..PACKED_A {
        // An even number, for loops that take two at a time.
        let length = if case == Case::Long && row == 37 {
            70_000
        } else {
            2 * (random(&mut seed) % 20) as u32 * u32::from(row % 5 != 0)
        };
        starts.push(starts[row] + length);
    }
    let count = starts[PACKED_A] as usize;
    match case {
        Case::LastTooLong => starts[PACKED_A] += 1,
        Case::LastAround => {
            let first = starts[LAST_WARP];
            starts[LAST_WARP + 1..PACKED_A].fill(first);
            starts[PACKED_A] = first + LAST_LENGTH as u32;
        }
        _ => {}
    }
    let mut columns: Vec<u32> =
        (0..count).map(|_| random(&mut seed) as u32 % PICKED as u32).collect();
    match case {
        Case::Outside => columns[count / 2] = 1 << 22,
        Case::Before => columns[count / 2] = (-1i32 << 22) as u32,
        _ => {}
    }
    let mut number = || {
        let any = random(&mut seed);
        match ty {
            "f64" => (any as f64 / 1e9 - 1.0).to_le_bytes().to_vec(),
            // Some infinite, so that there are NaNs.
            "f32" if any.is_multiple_of(997) => f32::INFINITY.to_le_bytes().to_vec(),
            "f32" => (any as f32 / 1e9 - 1.0).to_le_bytes().to_vec(),
            _ => any.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[..bytes].to_vec(),
        }
    };
    let values = (0..count).flat_map(|_| number()).collect();
    let picked = (0..PICKED).flat_map(|_| number()).collect();
    Inputs { starts, columns, values, picked }
}

fn run(set: Set, case: Case, text: &str, inputs: &Inputs) -> Result<Vec<u8>, FaultKind> {
    run_blocks(set, case, text, inputs, 1).0
}

/// As many blocks of it; also how many slow paths were taken.
fn run_blocks(
    set: Set,
    case: Case,
    text: &str,
    inputs: &Inputs,
    blocks: u32,
) -> (Result<Vec<u8>, FaultKind>, u64) {
    let mut device = Device::new(set);
    device.interrupted = case == Case::Interrupted;
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let (mut params, mut shift) = (Params::default(), 0);
    for (n, bytes) in [
        words(&inputs.starts),
        words(&inputs.columns),
        inputs.values.clone(),
        inputs.picked.clone(),
    ]
    .into_iter()
    .enumerate()
    {
        let front = match case {
            Case::Misaligned if n == 2 => FRONT_BYTES + 1,
            _ if n == 2 => FRONT_BYTES,
            _ => 0,
        };
        let behind = u64::from(case == Case::LastMisaligned);
        let address = device.memory.allocate(bytes.len() as u64 + front + behind, true) + front;
        device.memory.write(address, &bytes);
        params.push(&address.to_le_bytes());
        if n == 2 {
            shift = case.shift(inputs, address);
        }
    }
    let out = device.memory.allocate(8 * PACKED_A as u64, true);
    params.push(&out.to_le_bytes());
    params.push(&shift.to_le_bytes());
    let ran = device.run(&kernel, Shape::linear(blocks, PACKED_A as u32), &params.0);
    let outcome = ran.map_err(|fault| without_address(fault.kind));
    let outcome = outcome.map(|()| device.memory.read(out, 8 * PACKED_A));
    (outcome, device.counters.native.slow_paths)
}

/// Loops go on lane by lane once the first block has found memory: nothing takes a slow path.
#[test]
fn fast_paths_are_taken() {
    for (form, ty) in (0..LOOPS.len()).flat_map(|form| TYPES.map(|ty| (form, ty))) {
        let (text, inputs) = (text(form, ty), inputs(Case::Plain, ty));
        for isa in SimdIsa::ALL.into_iter().filter(|isa| isa.is_here()) {
            let taken = [1, 3]
                .map(|blocks| run_blocks(Set::Native(isa), Case::Plain, &text, &inputs, blocks).1);
            println!("SERIAL {isa:?} loop {form} {}: {taken:?}", ty.0);
        }
    }
}

fn compare(case: Case) {
    for form in 0..LOOPS.len() {
        for ty in TYPES {
            let text = text(form, ty);
            let inputs = inputs(case, ty);
            let interpreted = run(Set::Interpreted, case, &text, &inputs);
            let fails = match case {
                Case::Plain | Case::Interrupted | Case::Long => false,
                // Where the values in front of the rows' are wanted.
                Case::LastAtStart => form == 5,
                _ => true,
            };
            assert_eq!(interpreted.is_err(), fails, "{case:?}: {interpreted:?}");
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), case, &text, &inputs);
                assert!(
                    native == interpreted,
                    "{isa:?}, {case:?}, {}, loop {form}: {:?}\n{text}",
                    ty.0,
                    native.err()
                );
            }
        }
    }
}

#[test]
fn rows_of_sparse_matrices() {
    compare(Case::Plain);
}

#[test]
fn rows_are_interrupted() {
    compare(Case::Interrupted);
}

#[test]
fn a_long_row_gives_way() {
    compare(Case::Long);
}

#[test]
fn places_that_are_not_there() {
    compare(Case::Outside);
    compare(Case::Before);
    compare(Case::Misaligned);
}

#[test]
fn places_that_are_not_there_for_the_last_warp_only() {
    compare(Case::LastMisaligned);
    compare(Case::LastBefore);
    compare(Case::LastAtStart);
    compare(Case::LastTooLong);
    compare(Case::LastAround);
}

/// A list for each thread, in one allocation a link: what is remembered of the last is of no use.
#[test]
fn lists_through_many_allocations() {
    const LINKS: usize = 40;
    let text = ".version 7.8\n.target sm_80\n.address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b)
        {
            .reg .b64 %first, %out, %w, %link, %sum, %value; .reg .b32 %t; .reg .pred %p;
            ld.param.u64 %first, [a]; ld.param.u64 %out, [b];
            mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 8;
            add.u64 %first, %first, %w; add.u64 %out, %out, %w;
            ld.global.u64 %link, [%first];
            mov.b64 %sum, 0;
        L:
            ld.u64 %value, [%link+8]; ld.u64 %link, [%link];
            mad.lo.u64 %sum, %sum, 31, %value;
            setp.ne.u64 %p, %link, 0; @%p bra L;
            st.global.u64 [%out], %sum;
            ret;
        }";
    let run = |set: Set| {
        let mut device = Device::new(set);
        let kernel = device.load(text).unwrap().kernel("k").unwrap();
        let mut seed = 3;
        let links: Vec<u64> = (0..LINKS).map(|_| device.memory.allocate(16, true)).collect();
        for (n, link) in links.iter().enumerate() {
            let next = links.get(n + 1 + n % 3).copied().unwrap_or(0);
            let bytes = [next.to_le_bytes(), random(&mut seed).to_le_bytes()].concat();
            device.memory.write(*link, &bytes);
        }
        let first = device.memory.allocate(8 * PACKED_A as u64, true);
        let firsts = (0..PACKED_A).flat_map(|t| links[t % 7].to_le_bytes()).collect::<Vec<u8>>();
        device.memory.write(first, &firsts);
        let out = device.memory.allocate(8 * PACKED_A as u64, true);
        let params = [first.to_le_bytes(), out.to_le_bytes()].concat();
        device.run(&kernel, Shape::linear(1, PACKED_A as u32), &params).unwrap();
        let counters = device.counters;
        (device.memory.read(out, 8 * PACKED_A), counters.thread_instructions, counters.global_bytes)
    };
    let interpreted = run(Set::Interpreted);
    for isa in SimdIsa::ALL {
        let native = run(Set::Native(isa));
        assert!(native.0 == interpreted.0, "{isa:?}: other sums");
        assert_eq!((native.1, native.2), (interpreted.1, interpreted.2), "{isa:?}");
    }
}
