//! Shape of native code for memory accesses: which instructions make them, and how often addresses are
//! compared. Results are the same without these forms, so that only the code shows them.

use simt::inspect::inspect;
use simt::ir::vector::VectorFunction;
use simt_jit::SimdIsa;

/// The code of the kernel `k`'s versions for whole warps, without what stands behind the function.
fn whole_warps(body: &str, isa: SimdIsa) -> String {
    full(&simt_jit::listing(&kernel(body), isa).expect("native code"))
}

/// The kernel `k` of that body.
fn kernel(body: &str) -> VectorFunction {
    let text = format!(
        ".version 7.8\n.target sm_80\n.address_size 64
         .visible .entry k(.param .u64 a, .param .u64 b)
         {{
             .shared .align 16 .b8 tile[2048]; .reg .b64 %m, %n, %p, %q, %w; .reg .b32 %t, %u, %a, %b, %c, %d;
             ld.param.u64 %m, [a]; ld.param.u64 %n, [b]; mov.u32 %t, %tid.x;
             {body}
             ret;
         }}"
    );
    let (_, kernel) = inspect(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}")).remove(0);
    kernel.unwrap_or_else(|e| panic!("{e:?}\n{text}")).kernel.entry
}

/// The lines of a listing's unmasked versions.
fn full(listing: &str) -> String {
    let mut inside = false;
    let mut lines = String::new();
    for line in listing.lines() {
        if line.ends_with(':') {
            inside = line.starts_with("full ");
        } else if inside {
            // What follows the mnemonic is all that counts.
            lines.push_str(line.trim_start().split_once("  ").map_or("", |(_, code)| code));
            lines.push('\n');
        }
    }
    lines
}

/// Instructions whose names begin so.
fn count(code: &str, name: &str) -> usize {
    code.lines().filter(|line| line.starts_with(name)).count()
}

/// Accesses that differ by constants are compared with what may be accessed once, all together.
#[test]
fn accesses_from_one_pointer_are_checked_together() {
    let load = |more: u32| format!("ld.global.u32 %b, [%p+{more}]; add.u32 %a, %a, %b;");
    let body = |loads: &[u32]| {
        let loads: String = loads.iter().map(|more| load(*more)).collect();
        format!(
            "mul.wide.u32 %w, %t, 4; add.u64 %p, %m, %w; add.u64 %q, %n, %w; mov.u32 %a, 0;
             {loads} st.global.u32 [%q], %a;"
        )
    };
    for isa in SimdIsa::ALL {
        let one = whole_warps(&body(&[0]), isa);
        let four = whole_warps(&body(&[0, 128, 512, 4096]), isa);
        assert!(count(&one, "cmp") > 0, "{isa:?}: no comparison:\n{one}");
        assert_eq!(count(&four, "cmp"), count(&one, "cmp"), "{isa:?}:\n{four}");
    }
}

/// An access whose lanes are permuted within words side by side loads whole registers.
#[test]
fn lanes_turned_around_are_permuted() {
    let body = "xor.b32 %u, %t, 5; mul.wide.u32 %w, %u, 4; add.u64 %p, %m, %w; add.u64 %q, %n, %w;
                ld.global.u32 %a, [%p]; st.global.u32 [%q], %a;";
    let code = whole_warps(body, SimdIsa::Avx512);
    assert!(count(&code, "vpermd") + count(&code, "vpermi2d") > 0, "{code}");
    assert_eq!(count(&code, "vpgather") + count(&code, "vpscatter"), 0, "{code}");
}

/// An asynchronous copy is one operation, of which no lane's register has a part, and both instruction sets have code
/// for it: whole spans where lanes lie side by side in both memories, else a move a lane or a line.
#[test]
fn asynchronous_copies_stay_copies() {
    for (bytes, apart) in [4, 8, 16].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let turned = if apart { 5 } else { 0 };
        let body = format!(
            "xor.b32 %u, %t, {turned}; mad.lo.u32 %a, %u, {bytes}, 0; mov.u32 %b, tile; add.u32 %a, %a, %b;
             mul.wide.u32 %w, %u, {bytes}; add.u64 %p, %m, %w;
             cp.async.ca.shared.global [%a], [%p], {bytes}; cp.async.wait_all;"
        );
        let kernel = kernel(&body);
        let text = kernel.to_string();
        assert!(text.contains(&format!("copytoshared.bytes.{bytes} ")), "{text}");
        assert!(!text.contains("store.shared") && !text.contains("load.global"), "{text}");
        for isa in SimdIsa::ALL {
            let summary = simt_jit::summary(&kernel, isa).expect("native code");
            assert_eq!(summary.interpreted, Default::default(), "{isa:?}, {bytes} bytes:\n{text}");
            let code = whole_warps(&body, isa);
            assert_eq!(count(&code, "vpgather") + count(&code, "vpscatter"), 0, "{isa:?}:\n{code}");
            // By "vmovdqu" or "vmovdqu32", from any scratch register.
            let stores_span =
                |l: &&str| l.starts_with("vmovdqu") && l.contains(" [rcx") && l.contains("ymm");
            let spans = code.lines().filter(stores_span);
            assert_eq!(
                spans.count(),
                if apart { 0 } else { bytes },
                "{isa:?}, {bytes} bytes:\n{code}"
            );
        }
    }
}

/// A fragment's loads and stores are one operation each; its elements are moved line by line.
#[test]
fn fragments_are_moved_line_by_line() {
    let text = include_str!("../../../../bench/kernels/programs/tensor_wmma.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        let vector = kernel.to_string();
        assert!(vector.contains("loadfragment") && vector.contains("storefragment"), "{vector}");
        assert!(!vector.contains("load.global") && !vector.contains("store.global"), "{vector}");
        for isa in SimdIsa::ALL {
            let summary = simt_jit::summary(&kernel, isa).expect("native code");
            let interpreted: Vec<_> = summary.interpreted.keys().collect();
            let fell_back = interpreted.iter().any(|op| op.contains("fragment"));
            assert!(!fell_back, "{isa:?}, {name}: {interpreted:?}");
            let code = full(&simt_jit::listing(&kernel, isa).expect("native code"));
            assert!(!code.is_empty(), "{name} has no version for whole warps");
            assert_eq!(count(&code, "vpgather") + count(&code, "vpscatter"), 0, "{name}:\n{code}");
            let lines = match isa {
                SimdIsa::Avx512 => [32, 64].map(|n| count(&code, &format!("vinserti{n}x4"))),
                SimdIsa::Avx2 => ["vunpcklpd", "vunpckhpd"].map(|name| count(&code, name)),
            };
            assert!(lines.iter().sum::<usize>() > 0, "{name}:\n{code}");
        }
    }
}

/// Four elements a lane are loaded a lane at a time and turned into registers of elements.
#[test]
fn rows_are_turned_with_avx2() {
    let body = "mul.wide.u32 %w, %t, 32; add.u64 %p, %m, %w; add.u64 %q, %n, %w;
                ld.global.v4.u32 {%a, %b, %c, %d}, [%p]; st.global.v4.u32 [%q], {%d, %c, %b, %a};";
    let code = whole_warps(body, SimdIsa::Avx2);
    // Four slices of eight lanes, in and out.
    assert_eq!(count(&code, "vinserti128"), 16, "{code}");
    assert_eq!(count(&code, "vextracti128"), 16, "{code}");
    assert!(count(&code, "vunpcklp") > 0, "{code}");
}
