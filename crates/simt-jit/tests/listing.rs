//! Every kernel of the samples has native code, and it can be shown.

use simt::inspect::inspect;
use simt_jit::Flavour;

#[test]
fn native_code_of_the_samples_can_be_shown() {
    let folder = format!("{}/../../samples/kernels", env!("CARGO_MANIFEST_DIR"));
    let mut kernels = 0;
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("PTX");
        for (name, kernel) in inspect(&text).expect("PTX") {
            let kernel = kernel.expect("a kernel").kernel.entry;
            for flavour in Flavour::ALL {
                let listing = simt_jit::listing(&kernel, flavour)
                    .unwrap_or_else(|| panic!("{name} has no {flavour:?} code"));
                for mark in ["entry b0:", "full b0:", "masked b0:", "vzeroupper", "ret"] {
                    assert!(listing.contains(mark), "{name} has no {mark} ({flavour:?})");
                }
                // For whoever looks: `cargo test -p simt-jit --test listing -- --nocapture`.
                println!("{listing}");
            }
            kernels += 1;
        }
    }
    assert!(kernels > 10, "{kernels} kernels");
}

/// A loop over places that came from memory has scalar code.
#[test]
fn rows_of_a_sparse_matrix_are_made_lane_by_lane() {
    let text = include_str!("../../../bench/kernels/programs/spmv.ptx");
    for (name, kernel) in inspect(text).expect("PTX") {
        let kernel = kernel.expect("a kernel").kernel.entry;
        for flavour in Flavour::ALL {
            let listing = simt_jit::listing(&kernel, flavour).expect("native code");
            assert!(listing.contains("vfmadd231sd"), "{name}, {flavour:?}:\n{listing}");
        }
    }
}
