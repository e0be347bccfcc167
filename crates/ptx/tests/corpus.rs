//! Every PTX file of the repository parses: those of `samples/` that nvcc wrote, and those of
//! `tests/data`, which cover what the samples do not use.

use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    files
}

#[test]
fn the_samples_parse() {
    let files = files("../../samples/kernels");
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let module = ptx::parse(&text).unwrap_or_else(|e| panic!("{}:\n{e}", file.display()));
        assert!(module.kernels().count() > 0, "{}", file.display());
        for function in &module.functions {
            for instruction in function.instructions() {
                assert_ne!(instruction.opcode, ptx::ast::Opcode::Unknown);
            }
        }
    }
}

#[test]
fn the_samples_check_without_warnings() {
    for file in files("../../samples/kernels") {
        let module = ptx::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let warnings = ptx::check(&module).unwrap_or_else(|e| panic!("{}:\n{e}", file.display()));
        assert!(warnings.is_empty(), "{}: {warnings:?}", file.display());
    }
}

#[test]
fn what_is_printed_reads_back_the_same() {
    for file in files("../../samples/kernels") {
        ptx::fuzz_oracle::text(&std::fs::read(&file).unwrap());
    }
}

/// `tests/data/forms_*.ptx`: each form that nvcc, NVRTC, Numba, CuPy and Triton were seen to emit,
/// once. ptxas 13.5 accepts all of them.
#[test]
fn every_form_that_compilers_emit_is_known() {
    let mut forms = std::collections::BTreeSet::new();
    for file in files("tests/data") {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        // `more_*.ptx` are forms that no compiler was seen to emit.
        if !name.starts_with("forms_") && !name.starts_with("more_") {
            continue;
        }
        let module = ptx::parse(&std::fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|e| panic!("{}:\n{e}", file.display()));
        let warnings = ptx::check(&module).unwrap_or_else(|e| panic!("{}:\n{e}", file.display()));
        assert!(warnings.is_empty(), "{}: {warnings:?}", file.display());
        for function in module.functions.iter().filter(|_| name.starts_with("forms_")) {
            forms.extend(function.instructions().map(|instruction| instruction.form(&module)));
        }
    }
    assert_eq!(forms.len(), 595);
}

#[test]
fn every_test_file_reads_back_the_same() {
    for file in files("tests/data") {
        ptx::fuzz_oracle::text(&std::fs::read(&file).unwrap());
    }
}
