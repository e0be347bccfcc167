//! Accesses that find a range which other instructions have left for them: native code remembers so
//! many ranges for all accesses of a kernel, and what was found for a load may serve a store.
//!
//! Each kernel loads by as many instructions as there are ranges, then does what may not be done:
//! writes to memory that may only be read, or accesses what is misaligned. Native code against the
//! interpreter.

use super::harness::{Device, Params, Shape};
use super::tiers::{Set, without_address};
use simt::kernel::{FaultKind, RECENT_RANGES};
use simt_jit::SimdIsa;

/// Threads: a warp and a half, so that one is not whole.
const THREADS: u32 = 48;
const BYTES: usize = 16384;

/// What threads do at `%p`, the middle of memory. `%w` is a number that all have 0 in; `%o` is four
/// times the thread's number in an unknown order, `%h` holds for some lanes.
const ACCESSES: [&str; 16] = [
    "add.u64 %p, %p, %x; st.global.u32 [%p], %a;",
    "add.u64 %p, %p, %x; st.global.u8 [%p], %a;",
    "add.u64 %p, %p, %x; @%h st.global.u32 [%p], %a;",
    "st.global.u32 [%p], %a;",
    "add.u64 %p, %p, %o; st.global.u32 [%p], %a;",
    "add.u64 %p, %p, %o; @%h st.global.u32 [%p], %a;",
    "add.u64 %p, %p, %o; add.u64 %p, %p, %o; st.global.v2.u32 [%p], {%a, %t};",
    "add.u64 %p, %p, %x; add.u64 %p, %p, %x; st.global.v2.u32 [%p], {%a, %t};",
    "mul.lo.u64 %x, %x, 4; add.u64 %p, %p, %x; st.global.v4.u32 [%p], {%a, %t, %a, %t};",
    "mul.lo.u64 %x, %x, 25; add.u64 %p, %p, %x; st.global.u32 [%p], %a;",
    "add.u64 %p, %p, %o; red.global.add.u32 [%p], %a;",
    "add.u64 %p, %p, %x; atom.global.max.u32 %a, [%p], %t; red.global.and.b32 [%p+256], %a;",
    "xor.b32 %u, %t, 5; mul.wide.u32 %x, %u, 4; add.u64 %p, %p, %x; st.global.u32 [%p], %a;",
    // Misaligned: what is added to a pointer, lanes that are apart, one of them.
    "ld.global.v2.u64 {%x, %o}, [%p+8]; cvt.u32.u64 %a, %o;",
    "shr.u64 %o, %x, 1; add.u64 %x, %x, %o; add.u64 %p, %p, %x; ld.global.u32 %a, [%p];",
    "shr.u64 %o, %o, 7; add.u64 %x, %x, %o; add.u64 %p, %p, %x; ld.global.u32 %a, [%p];",
];
/// Those that are misaligned.
const MISALIGNED: usize = 13;

fn kernel(access: &str) -> String {
    let loads: String = (0..RECENT_RANGES + 1)
        .map(|n| format!("ld.global.u32 %u, [%q+{}]; xor.b32 %a, %a, %u;\n", 256 * (n % 32)))
        .collect();
    format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .reg .b64 %m, %p, %q, %x, %o, %out; .reg .b32 %t, %u, %a; .reg .pred %h;
             ld.param.u64 %m, [a]; ld.param.u64 %out, [b];
             mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 4; add.u64 %q, %m, %x; mov.u32 %a, 0;
             {loads}
             ld.global.u32 %u, [%q]; and.b32 %u, %u, 63; mul.wide.u32 %o, %u, 4;
             setp.lt.u32 %h, %u, 40; add.u64 %p, %m, {half};
             bar.sync 0;
             {access}
             bar.sync 0;
             add.u64 %out, %out, %q; sub.u64 %out, %out, %m; st.global.u32 [%out], %a;
             ret;
         }}",
        half = BYTES / 2,
    )
}

fn run(set: Set, text: &str, writable: bool) -> Result<[Vec<u8>; 2], FaultKind> {
    let mut device = Device::new(set);
    let module = device.load(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = module.kernel("k").expect("a kernel");
    let memory = device.memory.allocate(BYTES as u64, writable);
    let contents: Vec<u8> = (0..BYTES as u32).map(|n| (n * 37 + n / 256) as u8).collect();
    device.memory.write(memory, &contents);
    let out = device.memory.allocate(4 * u64::from(THREADS), true);
    let mut params = Params::default();
    [memory, out].iter().for_each(|address| params.push(&address.to_le_bytes()));
    device
        .run(&kernel, Shape::linear(1, THREADS), &params.0)
        .map_err(|fault| without_address(fault.kind))?;
    let results = device.memory.read(out, 4 * THREADS as usize);
    Ok([device.memory.read(memory, BYTES), results])
}

#[test]
fn what_a_load_found_is_for_no_store() {
    for (number, access) in ACCESSES.into_iter().enumerate() {
        let text = kernel(access);
        for writable in [true, false] {
            let interpreted = run(Set::Interpreted, &text, writable);
            let fine = writable && number < MISALIGNED;
            assert_eq!(interpreted.is_ok(), fine, "{access}: {interpreted:?}");
            for isa in SimdIsa::ALL {
                let native = run(Set::Native(isa), &text, writable);
                assert!(
                    native == interpreted,
                    "{isa:?}, {writable}: {:?}, not {:?}\n{text}",
                    native.err(),
                    interpreted.err(),
                );
            }
        }
    }
}
