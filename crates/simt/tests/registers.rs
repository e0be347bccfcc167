//! How far the registers that kernels are said to have are from those that a compiler gives them.
//!
//! `registers.tsv` has what `ptxas -v` (13.0.88) says of the repository's kernels, compiled for the
//! earliest of sm_80 and their target. Another compiler's allocator cannot be repeated: what is asked is
//! that the estimate is right on average and far off seldom. Barriers are counted, not estimated.

use std::collections::HashMap;
use std::path::Path;

const TRUTH: &str = include_str!("registers.tsv");

#[test]
fn registers_are_about_what_a_compiler_needs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut known: HashMap<String, HashMap<String, (u32, u32)>> = HashMap::new();
    let mut ratios = Vec::new();
    for row in TRUTH.lines().skip(1) {
        let [file, kernel, registers, barriers] =
            row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let found = known.entry(file.to_owned()).or_insert_with(|| needs(&root.join(file)));
        let (estimated, counted) = found[kernel];
        assert_eq!(counted, barriers.parse::<u32>().unwrap(), "barriers of {file} {kernel}");
        // Below the smallest piece that hardware gives there is nothing to be right about.
        let truth = registers.parse::<f64>().unwrap().max(8.0);
        ratios
            .push((f64::from(estimated) / truth, format!("{file} {kernel}: {estimated} {truth}")));
    }
    assert!(ratios.len() > 100);
    let mean = ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    assert!((0.9..1.1).contains(&mean.exp()), "mean of the ratios: {}", mean.exp());
    ratios.sort_by(|a, b| a.0.ln().abs().total_cmp(&b.0.ln().abs()));
    let [tenth, worst] = [ratios.len() * 9 / 10, ratios.len() - 1];
    assert!((0.6..1.67).contains(&ratios[tenth].0), "{}", ratios[tenth].1);
    assert!((0.3..2.5).contains(&ratios[worst].0), "{}", ratios[worst].1);
}

/// Registers and barriers of a file's kernels.
fn needs(file: &Path) -> HashMap<String, (u32, u32)> {
    let text = std::fs::read_to_string(file).unwrap();
    let kernels = simt::inspect::inspect(&text).unwrap().into_iter();
    kernels
        .map(|(name, inspected)| {
            let info = inspected.unwrap().kernel.info;
            (name, (info.registers, info.barriers))
        })
        .collect()
}

/// What a kernel with these directives, in which 100 values are live, is said to have.
fn bounded(directives: &str) -> u32 {
    let each = |text: &dyn Fn(u32) -> String| (0..100).map(text).collect::<String>();
    let loads = each(&|n| format!("ld.volatile.global.u32 %v{n}, [%a+{}];\n", 4 * n));
    let stores = each(&|n| format!("st.volatile.global.u32 [%a+{}], %v{n};\n", 4 * n));
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {directives}\n\
         {{ .reg .b64 %a; .reg .b32 %v<100>; ld.param.u64 %a, [p];\n{loads}{stores} ret; }}\n"
    );
    simt::inspect::inspect(&text).unwrap().remove(0).1.unwrap().kernel.info.registers
}

#[test]
fn a_kernels_directives_bound_its_registers() {
    let free = bounded("");
    assert!((100..120).contains(&free), "{free}");
    assert_eq!(bounded(".maxnreg 40"), 40);
    assert_eq!(bounded(".maxntid 1024"), 64);
    assert_eq!(bounded(".maxntid 128 .minnctapersm 8"), 64);
    assert_eq!(bounded(".maxntid 96 .minnctapersm 16"), 40);
    assert_eq!(bounded(".reqntid 1000"), 64);
    assert_eq!(bounded(".maxntid 256"), free);
    assert_eq!(bounded(".maxntid 1024 .minnctapersm 2 .maxnreg 24"), 24);
}
