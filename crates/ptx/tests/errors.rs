//! Wrong input has a clear end: where, what was found, what was expected.

use proptest::prelude::*;
use ptx::{Errors, Severity};

fn errors(source: &str) -> Errors {
    match ptx::parse(source).and_then(|module| ptx::check(&module)) {
        Ok(_) => panic!("accepted:\n{source}"),
        Err(errors) => errors,
    }
}

/// The body of a kernel, from line 6 on.
fn body(text: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n\
         {{.reg .pred %p<3>;.reg .b32 %r<5>;.reg .f32 %f<5>;.reg .b64 %rd<5>;.shared .b32 s[4];\n\
         {text}\nret;\n}}\n"
    )
}

/// Each: source, line and column of the first error, and words that its message must have.
#[track_caller]
fn expect(source: &str, line: u32, column: u32, words: &[&str]) {
    let errors = errors(source);
    let first = &errors.diagnostics[0];
    assert_eq!((first.position.line, first.position.column), (line, column), "{errors}");
    for word in words {
        assert!(first.message.contains(word), "no `{word}` in: {errors}");
    }
}

#[test]
fn text_that_is_not_ptx() {
    expect("", 1, 1, &["end of file", "`.version`"]);
    expect("hello world", 1, 1, &["found `hello`", "`.version`"]);
    expect("\n  int main() {}", 2, 3, &["`int`", "`.version`"]);
    expect(".version eight\n", 1, 10, &["found `eight`", "`8.5`"]);
    expect(".version 8.0\n.reg", 2, 1, &["`.target`"]);
    expect(".version 8.0\n.target gpu_1\n", 2, 9, &["Unsupported .target 'gpu_1'", "sm_80"]);
    expect(".version 8.0\n.target sm_80\n.address_size 48", 3, 15, &["48", "32 or 64"]);
    expect(".version 8.0\n.target sm_xx\n", 2, 9, &["sm_xx"]);
    expect(".version 8.0\n.target sm_80\n/* no end", 3, 1, &["comment"]);
}

/// As ptxas: comments, strings and what is behind the last kernel are no exceptions.
#[test]
fn text_is_ascii() {
    let header = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let refused = |text: &str, line: u32, column: u32| {
        let message = format!("Unexpected non-ASCII character encountered on line {line}");
        expect(text, line, column, &[&message]);
        let errors = ptx::parse_bytes(text.as_bytes()).unwrap_err();
        assert_eq!(errors.diagnostics[0].message, message);
        let kind = ptx::image::kind_of(text.as_bytes());
        assert_eq!(kind, Some(ptx::image::ImageKind::Ptx), "{text}");
    };
    refused(&format!("//\u{fc}\n{header}"), 1, 3);
    refused(&format!("{header}/* gr\u{fc}n */"), 4, 6);
    refused(&format!("{header}.file 1 \"\u{e9}.cu\""), 4, 10);
    refused(&format!("{header}.visible .entry gr\u{fc}n() {{ ret; }}"), 4, 19);
    refused(&format!("{header}.visible .entry k() {{ ret; }}\n\u{e9}"), 5, 1);
    let errors = ptx::parse_bytes(b".version 8.0\n//\xff").unwrap_err();
    assert!(errors.to_string().contains("non-ASCII character encountered on line 2"), "{errors}");
}

#[test]
fn addresses_have_64_bits() {
    let text = ".version 8.0\n.target sm_80\n.address_size 32\n.visible .entry k() { ret; }";
    expect(text, 3, 15, &["32-Bit compilation is no longer supported"]);
}

#[test]
fn mistakes_of_syntax() {
    expect(&body("add.s32 %r1, %r2 %r3;"), 6, 18, &["found `%r3`", "`;`"]);
    expect(&body("add.s32 %r1, , %r3;"), 6, 14, &["found `,`", "an operand"]);
    expect(&body("ld.global.u32 %r1, [%rd1;"), 6, 25, &["`]`"]);
    expect(&body("@%r9 bra L;"), 6, 2, &["Unknown symbol '%r9'", "%r<5>"]);
    expect(&body(".reg .b32 ;"), 6, 11, &["name of a register"]);
    expect(&body(".reg .q32 x;"), 6, 6, &["`.q32`", "a type"]);
    expect(&body(".shared .align 3 .b8 x[4];"), 6, 16, &["alignment 3", "power of two"]);
    expect(&body("mov.u32 %r1, 99999999999999999999;"), 6, 14, &["64 bits"]);
    expect(&body("mov.u32 %r1, 1/0;"), 6, 14, &["Divide"]);
    expect(".version 8.0\n.target sm_80\n.visible .entry k() {", 3, 22, &["end of file", "`}`"]);
}

/// A kernel with one instruction, in line 4, for this version and target.
fn module(version: &str, target: &str, instruction: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.visible .entry k() {{ .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .pred %p;\n\
         {instruction}; ret; }}\n"
    )
}

#[test]
fn what_the_version_or_the_target_does_not_have() {
    for (version, target, instruction, words) in [
        (
            "7.3",
            "sm_80",
            "ld.global.L1::evict_last.b32 %r1, [%d1]",
            "PTX ISA .version 7.4 or later",
        ),
        ("8.0", "sm_80", "elect.sync _|%p, -1", ".target sm_90 or higher"),
        ("8.6", "sm_90", "add.f32x2 %d1, %d2, %d3", ".target sm_100 or higher"),
        ("8.0", "sm_90", "wgmma.fence.sync.aligned", ".target sm_90a"),
        (
            "8.6",
            "sm_100",
            "redux.sync.min.f32 %r1, %r2, -1",
            "sm_100f or higher in the same family",
        ),
        ("6.4", "sm_70", "shfl.up.b32 %r1, %r2, %r3, %r4", "from PTX ISA .version 6.4"),
        ("7.8", "sm_80", "mov.u32 %r1, %clusterid.x", ".target sm_90 or higher"),
    ] {
        expect(&module(version, target, instruction), 4, 1, &[words]);
    }
    for (version, target) in [("8.0", "sm_90a"), ("8.6", "sm_100a"), ("8.8", "sm_103f")] {
        let text = module(version, target, "elect.sync _|%p, -1");
        ptx::check(&ptx::parse(&text).unwrap()).unwrap();
    }
    let header = |version, target| module(version, target, "mov.b32 %r1, 0");
    expect(&header("7.9", "sm_80"), 1, 10, &["Unsupported .version 7.9"]);
    expect(&header("8.0", "sm_999"), 2, 9, &["Unsupported .target 'sm_999'"]);
    expect(&header("7.0", "sm_90"), 2, 9, &["7.0 does not support .target sm_90"]);
}

#[test]
fn directives_that_exclude_each_other() {
    let kernel = |directives: &str| {
        format!(".version 9.0\n.target sm_90\n.visible .entry k() {directives} {{ ret; }}\n")
    };
    expect(&kernel(".maxntid 0"), 3, 17, &["Positive non-zero value expected for maxntid"]);
    expect(&kernel(".maxntid 8 .reqntid 8"), 3, 17, &[".maxntid and .reqntid cannot both"]);
    expect(&kernel(".blocksareclusters"), 3, 17, &["required for directive '.blocksareclusters'"]);
    expect(&kernel(".noreturn"), 3, 17, &["near '.noreturn'"]);
    expect(&kernel(".frobnicate 3"), 3, 17, &["near '.frobnicate'"]);
}

#[test]
fn names_that_are_not_declared() {
    expect(&body("add.s32 %r1, %r2, %x;"), 6, 19, &["Unknown symbol '%x'"]);
    expect(&body("bra nowhere;"), 6, 5, &["Unknown symbol 'nowhere'", "label"]);
    expect(&body("ld.global.u32 %r1, [nothing];"), 6, 21, &["Unknown symbol 'nothing'"]);
    expect(&body("call unknown;"), 6, 6, &["Unknown symbol 'unknown'", "function"]);
    expect(&body("{ inner: } bra inner;"), 6, 16, &["Unknown symbol 'inner'"]);
    expect(&body("{ .reg .b32 t; } mov.b32 t, 1;"), 6, 26, &["Unknown symbol 't'"]);
}

#[test]
fn names_that_are_declared_twice() {
    expect(&body(".reg .b32 x, x;"), 6, 14, &["Duplicate definition of 'x'", "line 6, column 11"]);
    expect(&body("L: L:"), 6, 4, &["Duplicate definition of 'L'", "line 6, column 1"]);
    expect(&body(".shared .b32 s[4];"), 6, 14, &["Duplicate definition of 's'"]);
    let twice = body("") + ".visible .entry k(.param .u64 p) { ret; }";
    expect(&twice, 9, 17, &["Duplicate definition of 'k'", "line 4, column 17"]);
    let differs =
        body("").replace(".visible", ".func f(.param .b32 a);\n.func f() { ret; }\n.visible");
    expect(&differs, 5, 7, &["'f' differs", "line 4, column 7"]);
}

#[test]
fn modifiers_that_the_instruction_does_not_have() {
    expect(&body("add.s33 %r1, %r2, %r3;"), 6, 1, &["Unknown modifier '.s33'", "add"]);
    expect(&body("add.wide.s32 %r1, %r2, %r3;"), 6, 1, &["Illegal modifier '.wide'"]);
    expect(&body("mul.s32 %r1, %r2, %r3;"), 6, 1, &["missing", "mul.mode.type"]);
    expect(&body("and.s32 %r1, %r2, %r3;"), 6, 1, &["Unexpected instruction type '.s32'"]);
    expect(&body("setp.lo.s32 %p1, %r2, %r3;"), 6, 1, &["setp"]);
}

#[test]
fn operands_that_do_not_fit() {
    expect(&body("add.s32 %r1, %r2;"), 6, 1, &["found 2 operands", "d, a, b"]);
    expect(&body("add.s32 %r1, %r2, %f1;"), 6, 1, &["operand 3", "'%f1' of type '.f32'", "'.s32'"]);
    expect(&body("add.s64 %rd1, %rd2, %r1;"), 6, 1, &["operand 3", "'.b32'", "'.s64'"]);
    expect(&body("add.f32 %f1, %f2, 1;"), 6, 1, &["operand 3", "the integer 1"]);
    expect(&body("add.s32 1, %r2, %r3;"), 6, 1, &["operand 1", "a register"]);
    expect(&body("add.s32 %r1, %tid.x, 1;"), 6, 1, &["special register '%tid'"]);
    expect(&body("@%r1 bra L; L:"), 6, 1, &["Predicate expression expected", "'%r1'"]);
    expect(&body("ld.global.u32 %r1, [s];"), 6, 1, &["in space '.shared'", "'global'"]);
    expect(&body("ld.global.v2.u32 {%r1}, [%rd1];"), 6, 1, &["vector of 1", "vector of 2"]);
    expect(&body("ld.global.u32 %r1, [%f1];"), 6, 1, &["address by a register, '%f1'"]);
    expect(&body("ld.global.u64 %r1, [%rd1];"), 6, 1, &["'%r1'", "'.u64'"]);
    expect(&body("st.param.u64 [p], %rd1;"), 6, 1, &["not an input parameter"]);
    expect(&body("mov.b64 {%r1, %r2, %r3}, %rd1;"), 6, 1, &["together 64 bits"]);
    expect(&body("bar.sync 16;"), 6, 1, &["the integer 16", "[0..15]"]);
    expect(&body("L: brx.idx %r1, L;"), 6, 4, &["`.branchtargets`"]);
}

#[test]
fn calls_that_do_not_fit_their_function() {
    let with = |call: &str| {
        body(call).replace(".visible", ".func (.param .b32 r) f(.param .b64 a);\n.visible")
    };
    expect(&with("call f;"), 7, 1, &["0 results", "expected 1"]);
    expect(&with("call (%r1), f;"), 7, 1, &["0 arguments", "expected 1"]);
    expect(&with("call (%r1), f, (%r2);"), 7, 1, &["'%r2'", "type '.b64'"]);
    expect(&with("call (%r1), k, (%rd1);"), 7, 1, &["kernel 'k'", ".func"]);
    expect(&with("call (%r1), %rd1, (%rd1);"), 7, 1, &["prototype"]);
}

#[test]
fn variables_that_cannot_be() {
    let module = |text: &str| format!(".version 8.0\n.target sm_80\n{text}\n");
    expect(&module(".global .u32 x[2] = {1, 2, 3};"), 3, 14, &["greater number", "found 3"]);
    expect(&module(".global .u32 x[2][2] = {1, 2};"), 3, 14, &["expected a list in braces"]);
    expect(&module(".global .u32 x = {1};"), 3, 14, &["expected a single value"]);
    expect(&module(".global .f32 x = 1;"), 3, 14, &["type mismatch", "'.f32'"]);
    expect(&module(".shared .u32 x = 1;"), 3, 14, &["No initial value"]);
    expect(&module(".global .b8 x[];"), 3, 13, &["incomplete type"]);
    expect(&module(".global .b64 x[1152921504606846976][64];"), 3, 14, &["too large"]);
    expect(&module(".global .u64 x = y;"), 3, 18, &["Unknown symbol 'y'"]);
    expect(&module(".global .f16 x = 1.0;"), 3, 14, &["No initial value", "type"]);
    let most = ptx::limits::VARIABLE_BYTES_MAX;
    expect(&module(&format!(".global .b8 x[{}];", most + 1)), 3, 13, &["too large"]);
    assert!(ptx::parse(&module(&format!(".global .b8 x[{most}];"))).is_ok());
    let kernel = ".entry k(.param .align 8 .b8 p[40000]) { ret; }";
    expect(&module(kernel), 3, 8, &["40000", "4352"]);
    let newer = module(kernel).replace("8.0", "8.1");
    expect(&newer, 3, 8, &["40000", "32764"]);
}

#[test]
fn several_errors_are_told_in_one_run() {
    let errors = errors(&body("add.s32 %r1, %x, 1;\nadd.s32 , 1;\nmov.u32 %r1, 1;\nbra gone;"));
    let lines: Vec<u32> = errors.diagnostics.iter().map(|d| d.position.line).collect();
    assert_eq!(lines, [6, 7, 9]);
    let log = errors.to_string();
    assert!(log.starts_with("ptxas application ptx input, line 6; error   : Unknown symbol '%x'"));
    assert!(log.ends_with("ptxas fatal   : Ptx assembly aborted due to errors"));
}

#[test]
fn the_log_is_bounded() {
    let errors = errors(&body(&"add.s32 %r1, %x, 1;\n".repeat(1000)));
    assert_eq!(errors.diagnostics.len(), ptx::diagnostic::ERRORS_MAX);
    assert!(errors.truncated);
}

#[test]
fn a_function_that_was_left_unfinished_can_be_declared_again() {
    let source = ".version 8.0\n.target sm_80\n.func (.reg .u32 %a) f(.reg .u32 %b) oops\n;\n\
                  .func (.reg .u32 %a) f(.reg .u32 %b);";
    expect(source, 3, 38, &["found `oops`", "`;`"]);
}

#[test]
fn warnings_do_not_hide_errors() {
    let unknown = "from_the_future %r1;\n".repeat(500);
    let later = body(&format!("{unknown}add.s32 %r1, %r2;")).replacen("8.0", "9.9", 1);
    let errors = errors(&later);
    assert!(errors.diagnostics.iter().any(|d| d.severity == Severity::Error), "{errors}");
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, close: &str, middle: &str| {
        format!("{}{middle}{}", open.repeat(100_000), close.repeat(100_000))
    };
    expect(&body(&deep("{", "}", "")), 6, 257, &["nested deeper"]);
    let expression = format!("mov.u32 %r1, {};", deep("(", ")", "1"));
    assert!(errors(&body(&expression)).diagnostics[0].message.contains("nested deeper"));
    let minus = format!("mov.u32 %r1, {}1;", "-".repeat(100_000));
    assert!(errors(&body(&minus)).diagnostics[0].message.contains("nested deeper"));
    let operand = format!("mov.u32 %r1, {};", deep("{", "}", "1"));
    assert!(errors(&body(&operand)).diagnostics[0].message.contains("nested"));
    let initialiser =
        format!(".version 8.0\n.target sm_80\n.global .u32 x[1] = {};", deep("{", "}", "1"));
    assert!(errors(&initialiser).diagnostics[0].message.contains("nested deeper"));
}

/// Pieces that PTX is made of, whole and broken.
const PIECES: &[&str] = &[
    ".version 8.0",
    ".target sm_80",
    ".address_size 64",
    ".visible",
    ".entry k(",
    ".func",
    "f",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ";",
    ",",
    ":",
    "|",
    "+",
    "-",
    "!",
    "@",
    "@!",
    "=",
    "?",
    ".reg .b32 %r<4>;",
    ".reg .pred %p;",
    ".reg .v4 .f32 v;",
    ".param .b64 a",
    ".param .b8 b[8]",
    ".shared .align 8 .b8 s[64];",
    ".global .u32 g = 1;",
    ".const .f32 c[2] = {1.0, 2.0};",
    ".global .u64 q = generic(g)+4;",
    ".local .b32 l;",
    ".extern",
    ".weak",
    ".alias f, f2;",
    "add.s32 %r1, %r2, 3;",
    "setp.lt.u32 %p, %r1, %r2;",
    "@%p bra L;",
    "L:",
    "bra L;",
    "ld.global.v2.u32 {%r1, %r2}, [a+8];",
    "st.shared.b32 [s], %r1;",
    "mov.f32 v.x, 0f3F800000;",
    "mov.u64 %rd, g;",
    "call (%r1), f, (%r2);",
    "T: .branchtargets L, L;",
    "brx.idx %r1, T;",
    "P: .callprototype (.param .b32 _) _ (.param .b32 _);",
    "mystery.x {a}, b;",
    "ret;",
    "%r1",
    "%tid.x",
    "_",
    "0",
    "0x7fffffff",
    "18446744073709551615",
    "1.5",
    "0d3FF0000000000000",
    "~1",
    ".loc 1 2 3",
    ".pragma \"x\";",
    ".section .debug { .b8 1 }",
    ".file 1 \"f\"",
    "// c\n",
    "/*",
    "*/",
    "\"",
    "#\n",
    "\n",
    ".maxntid 1, 2, 3",
    ".noreturn",
    ".align 8",
    ".v4",
    ".f32",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Words of PTX in any order: an error with a place, or a module that prints and reads back.
    #[test]
    fn pieces_in_any_order(
        order in prop::collection::vec(0..PIECES.len(), 0..60),
        inside in any::<bool>(),
    ) {
        let text: Vec<&str> = order.into_iter().map(|piece| PIECES[piece]).collect();
        let text = text.join(" ");
        let text = if inside { body(&text) } else { text };
        ptx::fuzz_oracle::text(text.as_bytes());
    }

    /// Real text with pieces put in and parts cut out.
    #[test]
    fn damaged_text(
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..PIECES.len(), 0usize..40), 1..5),
    ) {
        let mut text = include_str!("data/language.ptx").to_owned();
        for (at, piece, cut) in edits {
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            text.replace_range(at..end, PIECES[piece]);
        }
        ptx::fuzz_oracle::text(text.as_bytes());
    }
}
