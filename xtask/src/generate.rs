//! Makes the generated files: those of `cuda-api` from the tables in `xtask/data`, pages from the
//! results of benchmarks and from sources. The result is committed; a test compares.

use crate::Generated;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// All generated files, from the tables below `root`.
pub fn all(root: &Path) -> Result<Vec<Generated>> {
    let read = |name: &str| {
        let path = root.join("xtask/data").join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut files = vec![
        Generated {
            path: "crates/cuda-api/src/error/generated.rs",
            text: errors(&read("error_table.tsv")?)?,
        },
        Generated {
            path: "crates/cuda-api/src/symbols/generated.rs",
            text: symbols(&read("proc_table.tsv")?)?,
        },
        Generated {
            path: "crates/cuda-api/src/attributes.rs",
            text: attributes(&read("device_attributes.tsv")?)?,
        },
        Generated {
            path: "crates/nvml/src/names_generated.rs",
            text: nvml(&read("nvml_functions.txt")?)?,
        },
    ];
    files.extend(crate::h200::pages(root)?);
    files.push(crate::performance::page(root)?);
    files.extend(crate::reference::pages(root)?);
    files.push(crate::json_fields::page(root)?);
    Ok(files)
}

/// Has `openmps` write the pages of its commands, which a test of crate `openmps` compares.
pub(crate) fn of_commands(root: &Path) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(["run", "--quiet", "--package", "openmps", "--"]);
    crate::dist::run(command.args(["man", "--reference", "docs/reference"]))?;
    println!("wrote docs/reference/commands.md, control-commands.md");
    Ok(())
}

fn columns<const N: usize>(line: &str) -> Result<[&str; N]> {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields.try_into() {
        Ok(fields) => Ok(fields),
        Err(_) => bail!("a row of {N} columns was expected: {line:?}"),
    }
}

fn errors(table: &str) -> Result<String> {
    let mut consts = String::new();
    let mut rows = String::new();
    for line in table.lines() {
        let [code, name, text] = columns(line)?;
        let code: u32 = code.parse().with_context(|| format!("{line:?}"))?;
        if let Some(short) = name.strip_prefix("CUDA_ERROR_") {
            writeln!(consts, "    /// {name}: {text}")?;
            writeln!(consts, "    pub const {short}: Self = Self::known({code});")?;
        }
        writeln!(rows, "    ErrorRow {{ code: {code}, name: c\"{name}\", text: c{text:?} }},")?;
    }
    Ok(format!(
        "//! Errors of the driver API. Made by `cargo xtask generate`; do not edit.\n\
         #![cfg_attr(rustfmt, rustfmt_skip)]\n\n\
         use super::{{CudaError, ErrorRow}};\n\n\
         impl CudaError {{\n{consts}}}\n\n\
         pub(super) const ERROR_ROWS: &[ErrorRow] = &[\n{rows}];\n"
    ))
}

fn nvml(names: &str) -> Result<String> {
    let (mut list, mut each) = (String::new(), String::new());
    for (index, name) in names.lines().enumerate() {
        writeln!(list, "    \"{name}\",")?;
        writeln!(each, "            {index} {name};")?;
    }
    Ok(format!(
        "//! NVML's functions. Made by `cargo xtask generate`; do not edit.\n\
         #![cfg_attr(rustfmt, rustfmt_skip)]\n\n\
         /// Every exported function that has an entry, sorted.\n\
         pub(crate) const NAMES: &[&str] = &[\n{list}];\n\n\
         /// Gives a macro the index and name of each.\n\
         macro_rules! exported_functions {{\n    ($then:ident) => {{\n        $then! {{\n{each}        }}\n    }};\n}}\n\
         pub(crate) use exported_functions;\n"
    ))
}

fn symbols(table: &str) -> Result<String> {
    let mut entries = Vec::new();
    let mut names = BTreeSet::new();
    for line in table.lines().skip(1) {
        let [base, version, per_thread, symbol] = columns(line)?;
        let version: u32 = version.parse().with_context(|| format!("{line:?}"))?;
        names.insert(symbol);
        entries.push((base, version, per_thread == "1", symbol));
    }
    entries.sort();
    let names: Vec<&str> = names.into_iter().collect();
    let mut list = String::new();
    let mut each = String::new();
    for (index, name) in names.iter().enumerate() {
        writeln!(list, "    \"{name}\",")?;
        writeln!(each, "            {index} {name};")?;
    }
    let mut rows = String::new();
    for (base, version, per_thread, symbol) in &entries {
        let symbol = names.binary_search(symbol).expect("inserted above");
        writeln!(
            rows,
            "    ProcEntry {{ base: \"{base}\", version: {version}, per_thread: {per_thread}, \
             symbol: {symbol} }},"
        )?;
    }
    Ok(format!(
        "//! Exported symbols and what cuGetProcAddress knows. Made by `cargo xtask generate`; \
         do not edit.\n#![cfg_attr(rustfmt, rustfmt_skip)]\n\n\
         use super::ProcEntry;\n\n\
         /// Every exported symbol, sorted.\n\
         pub const SYMBOLS: &[&str] = &[\n{list}];\n\n\
         /// Every name and version of cuGetProcAddress, sorted by name.\n\
         pub const PROC_TABLE: &[ProcEntry] = &[\n{rows}];\n\n\
         /// Expands `$callback! {{ index symbol; ... }}` with every exported symbol and its index \
         in\n/// [`SYMBOLS`].\n\
         #[macro_export]\nmacro_rules! exported_symbols {{\n    ($callback:ident) => {{\n        \
         $callback! {{\n{each}        }}\n    }};\n}}\n"
    ))
}

fn attributes(table: &str) -> Result<String> {
    let mut consts = String::new();
    let mut names = String::new();
    let mut last = 0;
    for line in table.lines().skip(1) {
        let [number, name] = columns(line)?;
        let number: u32 = number.parse().with_context(|| format!("{line:?}"))?;
        last = last.max(number);
        writeln!(consts, "pub const {name}: u32 = {number};")?;
        writeln!(names, "    ({number}, \"{name}\"),")?;
    }
    Ok(format!(
        "//! Device attributes: cuda.h's `CUdevice_attribute` without its prefix. Made by\n\
         //! `cargo xtask generate`; do not edit.\n\
         #![cfg_attr(rustfmt, rustfmt_skip)]\n\
         #![allow(missing_docs, reason = \"each name is documented in cuda.h's manual\")]\n\n\
         {consts}\n\
         /// Largest number that a program may ask for; what this list lacks below it is answered\n\
         /// with 0.\npub const ATTRIBUTE_MAX: u32 = {};\n\n\
         /// Numbers and names, ascending.\n\
         pub const ATTRIBUTES: &[(u32, &str)] = &[\n{names}];\n",
        last.max(150)
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn committed_files_are_what_the_tables_make() {
        let root = crate::root();
        for file in super::all(&root).unwrap() {
            let committed = std::fs::read_to_string(root.join(file.path)).unwrap();
            assert!(committed == file.text, "{}: run `cargo xtask generate`", file.path);
        }
    }
}
