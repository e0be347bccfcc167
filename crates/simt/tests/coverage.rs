//! Which of the instruction forms that compilers emit are lowered, and which are not.
//!
//! `ptx/tests/data/forms_*.ptx` has every form once, `more_*.ptx` some that no compiler was seen to
//! emit. What does not become operations is listed in `unsupported.txt`, so that the list cannot
//! change unnoticed; write it anew with `SIMT_BLESS=1 cargo test -p simt --test coverage`.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn what_is_not_lowered_is_listed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = String::new();
    for prefix in ["forms_", "more_"] {
        let mut texts = BTreeSet::new();
        let mut instructions = 0;
        for entry in std::fs::read_dir(here.join("../ptx/tests/data")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.starts_with(prefix) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for (kernel, inspected) in simt::inspect::inspect(&text).unwrap() {
                let inspected = inspected.unwrap_or_else(|e| panic!("{name}: {kernel}: {e}"));
                instructions += inspected.instructions();
                let kernel = inspected.kernel;
                let functions = std::iter::once(&kernel.entry).chain(kernel.functions.values());
                texts.extend(functions.flat_map(|f| f.texts.clone()));
            }
        }
        assert!(instructions > 0, "{prefix}*.ptx");
        for text in texts {
            found.push_str(text.trim());
            found.push('\n');
        }
    }
    let list = here.join("tests/unsupported.txt");
    if std::env::var_os("SIMT_BLESS").is_some() {
        std::fs::write(&list, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&list).unwrap_or_default());
}
