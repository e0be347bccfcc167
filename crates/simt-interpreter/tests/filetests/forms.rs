//! Tables of single instructions.
//!
//! A line is `FORM : TYPES : CASE | CASE ...`. TYPES are the operands' registers in order, results
//! before `<-`: `h` 16 bits, `r` 32, `d` 64, `p` predicate, `#` a literal that the case gives.
//! A case is `sources => results`; numbers are decimal, hexadecimal (the bits), floats with a dot
//! or exponent (`1.5f` for f32, `1.5` for f64), `_` for a result that does not matter.
//! A line that starts with a blank continues the one before.
//!
//! Every case runs three ways: as one lane among others, in a warp of which only some lanes run,
//! and as a value that all lanes share; and each with every instruction set.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use std::fmt::Write;

struct Form {
    line: usize,
    name: String,
    results: Vec<char>,
    sources: Vec<char>,
    cases: Vec<(Vec<String>, Vec<Option<u64>>)>,
}

fn number(text: &str) -> u64 {
    let (text, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let sign = |v: u64| if negative { v.wrapping_neg() } else { v };
    if let Some(hex) = text.strip_prefix("0x") {
        return sign(u64::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("number {text}")));
    }
    if let Some(single) = text.strip_suffix('f') {
        let v: f32 = single.parse().unwrap_or_else(|_| panic!("number {text}"));
        return u64::from(if negative { -v } else { v }.to_bits());
    }
    if text.contains(['.', 'e']) {
        let v: f64 = text.parse().unwrap_or_else(|_| panic!("number {text}"));
        return if negative { -v } else { v }.to_bits();
    }
    sign(text.parse().unwrap_or_else(|_| panic!("number {text}")))
}

fn parse(text: &str) -> Vec<Form> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("").trim_end();
        match lines.last_mut() {
            _ if line.is_empty() => {}
            Some((_, last)) if line.starts_with(' ') => last.push_str(line),
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines
        .into_iter()
        .map(|(line, text)| {
            // State spaces have colons of their own, always doubled.
            let mut parts = text.splitn(3, " : ");
            let mut part = || parts.next().unwrap_or_else(|| panic!("line {line}: {text}")).trim();
            let (name, types, cases) = (part().to_owned(), part(), part());
            let (results, sources) = types.split_once("<-").expect("types have an arrow");
            let letters = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<Vec<_>>();
            let cases = cases
                .split('|')
                .map(|case| {
                    let (from, to) = case.split_once("=>").expect("a case has an arrow");
                    let sources = from.split_whitespace().map(str::to_owned).collect();
                    let results =
                        to.split_whitespace().map(|t| (t != "_").then(|| number(t))).collect();
                    (sources, results)
                })
                .collect();
            Form { line, name, results: letters(results), sources: letters(sources), cases }
        })
        .collect()
}

fn register_type(letter: char) -> &'static str {
    match letter {
        'h' => "b16",
        'r' => "b32",
        'd' => "b64",
        'p' => "pred",
        other => panic!("type {other}"),
    }
}

fn bits(letter: char) -> u32 {
    match letter {
        'h' => 16,
        'r' => 32,
        'd' => 64,
        _ => 1,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A lane among 32.
    Lanes,
    /// Under a branch that other lanes do not take.
    Masked,
    /// The same in all lanes: loaded through a uniform address.
    Uniform,
}

/// Version and target of a table's kernels: the first that have all of its forms.
fn target(file: &str) -> &'static str {
    match file {
        "blackwell.forms" => ".version 9.3\n.target sm_120a",
        "stochastic.forms" => ".version 8.7\n.target sm_100a",
        "isa_94.forms" => ".version 9.4\n.target sm_107a",
        _ => ".version 8.6\n.target sm_90a",
    }
}

/// A kernel that runs the form on operand `i` of row `tid` (or `ctaid`), rows of 8 words.
fn kernel(target: &str, form: &Form, literals: &[&String], way: Way) -> String {
    let mut k = String::new();
    let mut declare = String::new();
    let mut operands = Vec::new();
    let mut body = String::new();
    let mut stores = String::new();
    for (i, letter) in form.results.iter().enumerate() {
        writeln!(declare, "  .reg .{} %o{i};", register_type(*letter)).unwrap();
        // What is not written must not be what is expected.
        match letter {
            'p' => writeln!(body, "  mov.pred %o{i}, 0;").unwrap(),
            _ => writeln!(body, "  mov.{} %o{i}, 0;", register_type(*letter)).unwrap(),
        }
        operands.push(format!("%o{i}"));
        let store = match letter {
            'p' => format!("  selp.b64 %x, 1, 0, %o{i};"),
            'd' => format!("  mov.b64 %x, %o{i};"),
            l => format!("  cvt.u64.u{} %x, %o{i};", bits(*l)),
        };
        writeln!(stores, "{store}\n  st.global.b64 [%out+{}], %x;", 8 * i).unwrap();
    }
    // Instructions with two results write them as `a|b`, vectors in braces.
    if operands.len() == 2 {
        operands = vec![operands.join("|")];
    }
    let mut literal = literals.iter();
    for (i, letter) in form.sources.iter().enumerate() {
        if *letter == '#' {
            operands.push((*literal.next().expect("a literal")).clone());
            continue;
        }
        writeln!(declare, "  .reg .{} %i{i};", register_type(*letter)).unwrap();
        writeln!(body, "  ld.global.b64 %x, [%in+{}];", 8 * i).unwrap();
        match letter {
            'p' => writeln!(body, "  setp.ne.b64 %i{i}, %x, 0;").unwrap(),
            'd' => writeln!(body, "  mov.b64 %i{i}, %x;").unwrap(),
            l => writeln!(body, "  cvt.u{}.u64 %i{i}, %x;", bits(*l)).unwrap(),
        }
        operands.push(format!("%i{i}"));
    }
    // In a way of their own: `=` replaces the operand list, `$n` its entries.
    let instruction = match form.name.split_once(" = ") {
        Some((_, template)) => {
            let mut text = template.to_owned();
            let all: Vec<String> = (0..form.results.len())
                .map(|i| format!("%o{i}"))
                .chain((0..form.sources.len()).map(|i| format!("%i{i}")))
                .collect();
            for (i, operand) in all.iter().enumerate() {
                text = text.replace(&format!("${i}"), operand);
            }
            text
        }
        None => format!("{} {}", form.name, operands.join(", ")),
    };
    let row = if way == Way::Uniform { "%ctaid.x" } else { "%tid.x" };
    let lane = "%tid.x";
    write!(
        k,
        "{target}\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         \x20 .reg .b64 %in, %out, %x;\n  .reg .b32 %row, %lane;\n  .reg .pred %odd;\n{declare}\
         \x20 mov.u32 %row, {row};\n  mov.u32 %lane, {lane};\n\
         \x20 ld.param.u64 %in, [in];\n  mad.wide.u32 %in, %row, 64, %in;\n\
         \x20 ld.param.u64 %out, [out];\n"
    )
    .unwrap();
    // Every lane has a row of results, also when the row of operands is shared.
    k.push_str("  .reg .b32 %rank;\n  mov.u32 %rank, %ctaid.x;\n");
    k.push_str("  mad.lo.u32 %rank, %rank, 32, %lane;\n");
    k.push_str("  mad.wide.u32 %out, %rank, 64, %out;\n");
    if way == Way::Masked {
        k.push_str("  and.b32 %lane, %lane, 1;\n  setp.ne.u32 %odd, %lane, 0;\n");
        k.push_str("  @%odd bra OTHER;\n");
    }
    k.push_str(&body);
    // Several instructions in braces end by themselves.
    let end = if instruction.ends_with('}') { "" } else { ";" };
    writeln!(k, "  {instruction}{end}").unwrap();
    if way == Way::Masked {
        // The results must survive what the other lanes do.
        k.push_str("  bra STORE;\nOTHER:\n");
        k.push_str(&body);
        writeln!(k, "  {instruction}{end}\nSTORE:").unwrap();
    }
    k.push_str(&stores);
    k.push_str("  ret;\n}\n");
    k
}

fn check(file: &str, form: &Form, set: Set, way: Way, failures: &mut Vec<String>) {
    // Cases with the same literals share a kernel.
    let literal_of = |case: &(Vec<String>, Vec<Option<u64>>)| -> Vec<String> {
        form.sources
            .iter()
            .zip(&case.0)
            .filter(|(letter, _)| **letter == '#')
            .map(|(_, text)| text.clone())
            .collect()
    };
    let mut left: Vec<_> = form.cases.iter().collect();
    while !left.is_empty() {
        let literals = literal_of(left[0]);
        let (batch, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|case| literal_of(case) == literals);
        left = rest;
        for chunk in batch.chunks(32) {
            let text = kernel(target(file), form, &literals.iter().collect::<Vec<_>>(), way);
            let mut device = Device::new(set);
            let module = match device.load(&text) {
                Ok(module) => module,
                Err(error) => {
                    failures.push(format!("{file}:{}: {}: {error}\n{text}", form.line, form.name));
                    return;
                }
            };
            let rows = 32 * chunk.len().max(1) as u64;
            let (input, output) =
                (device.memory.allocate(64 * 32, true), device.memory.allocate(64 * rows, true));
            for row in 0..32 {
                // Spare lanes repeat the cases.
                let case = chunk[row % chunk.len()];
                assert_eq!(case.0.len(), form.sources.len(), "{file}:{}: sources", form.line);
                assert_eq!(case.1.len(), form.results.len(), "{file}:{}: results", form.line);
                for (i, source) in case.0.iter().enumerate() {
                    if form.sources[i] != '#' {
                        let at = input + (64 * row + 8 * i) as u64;
                        device.memory.write(at, &number(source).to_le_bytes());
                    }
                }
            }
            let shape = match way {
                Way::Uniform => Shape::linear(chunk.len() as u32, 32),
                _ => Shape::linear(1, 32),
            };
            let mut params = Params::default();
            params.push(&input.to_le_bytes());
            params.push(&output.to_le_bytes());
            let kernel = module.kernel("k").expect("the kernel");
            if let Err(fault) = device.run(&kernel, shape, &params.0) {
                failures.push(format!("{file}:{}: {}: {fault:?}", form.line, form.name));
                return;
            }
            for rank in 0..if way == Way::Uniform { rows as usize } else { 32 } {
                let case = match way {
                    Way::Uniform => chunk[rank / 32],
                    _ => chunk[rank % chunk.len()],
                };
                for (i, expected) in case.1.iter().enumerate() {
                    let Some(expected) = expected else { continue };
                    let bytes = device.memory.read(output + (64 * rank + 8 * i) as u64, 8);
                    let got = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                    let width = bits(form.results[i]);
                    let expected =
                        if width == 64 { *expected } else { expected & ((1 << width) - 1) };
                    if got != expected {
                        failures.push(format!(
                            "{file}:{}: {} {:?}: result {i} is {got:#x}, not {expected:#x} ({way:?}, {set:?}, lane {})",
                            form.line, form.name, case.0, rank % 32
                        ));
                        return;
                    }
                }
            }
        }
    }
}

fn run_file(name: &str) {
    let path = format!("{}/../simt-interpreter/tests/filetests/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the table");
    let forms = parse(&text);
    assert!(!forms.is_empty(), "{name} has no forms");
    let mut failures = Vec::new();
    for form in &forms {
        for set in ALL_SETS {
            for way in [Way::Lanes, Way::Masked, Way::Uniform] {
                check(name, form, set, way, &mut failures);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn integer_forms() {
    run_file("integer.forms");
}

#[test]
fn float_forms() {
    run_file("float.forms");
}

#[test]
fn half_forms() {
    run_file("half.forms");
}

#[test]
fn conversion_forms() {
    run_file("convert.forms");
}

#[test]
fn comparison_forms() {
    run_file("compare.forms");
}

#[test]
fn narrow_forms() {
    run_file("narrow.forms");
}

#[test]
fn corner_forms() {
    run_file("corners.forms");
}

#[test]
fn blackwell_forms() {
    run_file("blackwell.forms");
}

#[test]
fn forms_of_isa_94() {
    run_file("isa_94.forms");
}

#[test]
fn stochastic_forms() {
    run_file("stochastic.forms");
}

#[test]
fn video_forms() {
    run_file("video.forms");
}
