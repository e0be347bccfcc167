//! Coverage of lowering: which forms of the instruction table, and which that compilers emit, are not lowered.
//!
//! `ptx::examples` has each template with each pair of optional modifiers; `ptx/tests/data/forms_*.ptx` has
//! what compilers emit, `more_*.ptx` some that no compiler was seen to emit. What does not become operations
//! is listed in `unsupported.txt`, so that the list cannot change unnoticed; write it anew with
//! `SIMT_BLESS=1 cargo test -p simt --test coverage`.

use ptx::examples::{self, Example, FIRST_LINE, TARGETS};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Instructions of a module that is only checked.
const CHECKED_TOGETHER: usize = 60;

/// Spellings of a template that are listed.
const SPELLINGS_MAX: usize = 3;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// What is not lowered of the files whose names start so.
fn of_files(prefix: &str) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    let mut instructions = 0;
    for entry in std::fs::read_dir(here().join("../ptx/tests/data")).unwrap() {
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
    texts
}

/// Those that a target's checker takes, and the others.
fn taken(target: (&str, &str), list: Vec<Example>) -> (Vec<Example>, Vec<Example>) {
    let (mut yes, mut no) = (Vec::new(), Vec::new());
    let mut list = list.into_iter().peekable();
    while list.peek().is_some() {
        let part: Vec<Example> = list.by_ref().take(CHECKED_TOGETHER).collect();
        let mut bodies: Vec<String> = part.iter().map(Example::text).collect();
        let mut refused = vec![false; part.len()];
        loop {
            let text = examples::module(target.0, target.1, &bodies);
            let Err(errors) = ptx::parse(&text).and_then(|module| ptx::check(&module)) else {
                break;
            };
            let before = refused.clone();
            for diagnostic in &errors.diagnostics {
                let index = diagnostic.position.line.wrapping_sub(FIRST_LINE) as usize;
                if index < part.len() {
                    refused[index] = true;
                    "exit".clone_into(&mut bodies[index]);
                }
            }
            assert_ne!(refused, before, "{errors}");
        }
        for (example, refused) in part.into_iter().zip(refused) {
            if refused { no.push(example) } else { yes.push(example) }
        }
    }
    (yes, no)
}

fn is_lowered(target: (&str, &str), instruction: &str) -> bool {
    let text = examples::module(target.0, target.1, &[instruction.to_owned()]);
    let kernels = simt::inspect::inspect(&text).unwrap_or_else(|e| panic!("{instruction}: {e}"));
    kernels.into_iter().all(|(_, inspected)| {
        let inspected = inspected.unwrap_or_else(|e| panic!("{instruction}: {e}"));
        inspected.unsupported().is_none()
    })
}

/// An instruction on a texture or surface by its handle, if it is on one by its name.
fn by_handle(instruction: &str) -> Option<String> {
    ["tex", "surf"].into_iter().find_map(|name| {
        let named = instruction
            .replace(&format!("[{name},"), "[%d9,")
            .replace(&format!("[{name}]"), "[%d9]");
        (named != instruction).then_some(named)
    })
}

/// A read of a texture without the predicate of residency, if it has one.
fn without_residency(instruction: &str) -> Option<String> {
    let (start, rest) = instruction.split_once("|%p")?;
    Some(format!("{start}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())))
}

/// What is not lowered of the instruction table: by template, how many of its spellings.
fn of_templates() -> String {
    // By template: how many spellings there are, and which are not lowered.
    let mut templates: BTreeMap<&'static str, (usize, BTreeSet<String>)> = BTreeMap::new();
    let mut left = examples::all();
    let total = left.len();
    let (mut named, mut resident) = (0, 0);
    for target in TARGETS {
        let (yes, no) = taken(*target, left);
        left = no;
        for example in yes {
            let (spellings, missing) = templates.entry(example.template).or_default();
            *spellings += 1;
            let text = example.text();
            if is_lowered(*target, &text) {
                continue;
            }
            let handled = by_handle(&text);
            let plain = handled.as_deref().and_then(without_residency);
            let is_lowered =
                |text: &Option<String>| text.as_ref().is_some_and(|text| is_lowered(*target, text));
            match () {
                () if is_lowered(&handled) => named += 1,
                () if is_lowered(&plain) => resident += 1,
                () => _ = missing.insert(text),
            }
        }
    }
    assert!(left.len() * 100 < total, "{} of {total} are taken by no target", left.len());
    let mut found = String::new();
    for (template, (spellings, missing)) in templates {
        if missing.is_empty() {
            continue;
        }
        writeln!(found, "{template}\n    {} of {spellings} spellings", missing.len()).unwrap();
        for text in missing.iter().take(SPELLINGS_MAX) {
            writeln!(found, "    {text}").unwrap();
        }
    }
    writeln!(found, "{resident} spellings with a predicate of residency, lowered without").unwrap();
    writeln!(found, "{named} spellings with a texture or surface by name, lowered by handle")
        .unwrap();
    found
}

#[test]
fn what_is_not_lowered_is_listed() {
    let mut found = of_templates();
    for prefix in ["forms_", "more_"] {
        writeln!(found, "\n{prefix}*.ptx").unwrap();
        for text in of_files(prefix) {
            writeln!(found, "{}", text.trim()).unwrap();
        }
    }
    let list = here().join("tests/unsupported.txt");
    if std::env::var_os("SIMT_BLESS").is_some() {
        std::fs::write(&list, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&list).unwrap_or_default());
}
