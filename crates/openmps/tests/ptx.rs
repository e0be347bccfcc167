//! `openmps ptx` at the command line.

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const GOOD: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p) {
  .shared .align 4 .b8 s[64];
  .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [p];
  ld.global.u32 %r0, [%d0];
  st.shared.u32 [s], %r0;
  add.u32 %r1, %r0, %r0;
  st.global.u32 [%d0], %r1;
  ret;
}
";
/// An instruction that no table has.
const BAD: &str = ".version 8.1
.target sm_90
.address_size 64
.visible .entry fine() { ret; }
.visible .entry strange() {
  .reg .b64 %d; .reg .f32 %f;
  multimem.red.global.add.f32 [%d], %f;
  ret;
}
";

/// Output, errors, status.
fn openmps(arguments: &[&str], input: &str) -> (String, String, i32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_openmps"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

/// A file of this test alone, gone with it.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("openmps-ptx-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn check_tells_what_each_kernel_needs() {
    let (good, bad) = (File::new("good.ptx", GOOD), File::new("bad.ptx", BAD));
    let (output, errors, status) = openmps(&["ptx", "check", "--json", good.name()], "");
    assert_eq!((errors.as_str(), status), ("", 0));
    let report: Value = serde_json::from_str(&output).unwrap();
    let file = &report["files"][0];
    assert_eq!((&file["file"], &file["error"]), (&good.name().into(), &Value::Null));
    let kernel = &file["kernels"][0];
    assert_eq!((&kernel["name"], &kernel["accepted"]), (&"twice".into(), &true.into()));
    assert_eq!((&kernel["unsupported"], &kernel["shared_bytes"]), (&Value::Null, &64.into()));
    assert!(kernel["registers"].as_u64().unwrap() >= 8);
    assert!(kernel["code_instructions"].as_u64().unwrap() >= 4);
    if let Some(bytes) = kernel.get("code_bytes") {
        assert!(bytes.as_u64().unwrap() > 0);
        assert_eq!(kernel["native_instructions"], kernel["code_instructions"]);
        assert_eq!(kernel["interpreted"], serde_json::json!({}));
    }
    assert!(kernel["compile_ms"].as_f64().unwrap() > 0.0);

    let missing = "/nonexistent/kernel.ptx";
    let arguments = ["ptx", "check", "--json", bad.name(), good.name(), missing];
    let (output, _, status) = openmps(&arguments, "");
    assert_eq!(status, 1);
    let report: Value = serde_json::from_str(&output).unwrap();
    let strange = &report["files"][0]["kernels"][1];
    assert_eq!(report["files"][0]["kernels"][0]["accepted"], true);
    assert_eq!(strange["accepted"], false);
    assert_eq!(strange["unsupported"], "multimem.red.global.add.f32 [%d], %f");
    assert_eq!(strange["line"], 7);
    assert_eq!(report["files"][1]["kernels"][0]["accepted"], true);
    assert!(report["files"][2]["error"].as_str().unwrap().starts_with("cannot be read"));

    let (output, _, status) = openmps(&["ptx", "check", bad.name()], "");
    assert_eq!(status, 1);
    let complaint =
        "not accepted: line 7: `multimem.red.global.add.f32 [%d], %f` is not supported\n";
    assert!(output.contains(complaint), "{output}");
    assert!(output.ends_with("1 of 2 kernels accepted\n"), "{output}");
}

#[test]
fn check_reads_standard_input_and_refuses_what_is_no_ptx() {
    let (output, _, status) = openmps(&["ptx", "check", "-"], GOOD);
    assert_eq!(status, 0);
    assert!(output.ends_with("1 of 1 kernels accepted\n"), "{output}");
    let wrong = GOOD.replace("add.u32 %r1", "add.u32 %r7");
    let (output, _, status) = openmps(&["ptx", "check", "-"], &wrong);
    assert_eq!(status, 1);
    assert!(output.contains("line 10; error") && output.contains("column"), "{output}");
    let (output, _, status) = openmps(&["ptx", "check", "-"], "hello");
    assert_eq!(status, 1);
    assert!(output.contains("neither PTX text, fatbin nor ELF file"), "{output}");
    // An ELF file without kernels in it.
    let (output, _, status) = openmps(&["ptx", "check", "/bin/sh"], "");
    assert_eq!(status, 1);
    assert!(output.contains("no PTX in it, neither in fatbins nor as text"), "{output}");
}

/// The kernels that `openmps bench` runs are text in this program.
#[test]
fn check_finds_text_among_a_programs_data() {
    let (output, _, status) = openmps(&["ptx", "check", env!("CARGO_BIN_EXE_openmps")], "");
    assert_eq!(status, 0, "{output}");
    assert!(output.contains("vector_add"), "{output}");
}

#[test]
fn what_never_ends_is_refused() {
    let (output, _, status) = openmps(&["ptx", "check", "/dev/zero"], "");
    assert_eq!(status, 1);
    assert!(output.contains("cannot be read: it has more than 256 MiB"), "{output}");
}

#[test]
fn dump_shows_each_stage() {
    let dump = |stage: &str, more: &[&str]| {
        let arguments = [&["ptx", "dump", "--stage", stage], more, &["-"]].concat();
        openmps(&arguments, BAD)
    };
    let (parse, _, status) = dump("parse", &[]);
    assert!(status == 0 && parse.contains(".entry fine") && parse.contains(".entry strange"));
    let (parse, _, _) = dump("parse", &["--kernel", "fine"]);
    assert!(parse.contains(".entry fine") && !parse.contains("strange"), "{parse}");
    let (ir, _, status) = dump("ir", &["--kernel", "fine"]);
    assert_eq!((ir.as_str(), status), ("function fine (frame 0 bytes)\nb0:\n    jump return\n", 0));
    let (vector, _, status) = dump("vector", &[]);
    assert!(status == 0 && vector.contains("function strange (lockstep"), "{vector}");
    let (asm, _, status) = dump("asm", &["--kernel", "fine"]);
    assert!(status == 0 && asm.starts_with("// fine: "), "{asm}");
    let (intervals, _, status) = dump("intervals", &["--kernel", "fine"]);
    assert!(status == 0 && intervals.contains("b0: 0..1"), "{intervals}");
    let sum = |stage: &str| openmps(&["ptx", "dump", "--stage", stage, "-"], GOOD).0;
    let allocation = sum("allocation");
    assert!(
        allocation.contains("vector, weight") || allocation.contains("scalar, weight"),
        "{allocation}"
    );
    assert!(sum("schedule").contains("b0:"), "{}", sum("schedule"));
    let (_, errors, status) = dump("vector", &["--kernel", "other"]);
    assert_eq!(status, 1);
    assert!(errors.contains("has no kernel called other"), "{errors}");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let missing = File::new("missing.ptx", GOOD);
    for stage in ["parse", "ir", "vector", "intervals", "allocation", "schedule", "asm"] {
        let (output, errors, status) =
            openmps(&["ptx", "dump", "--stage", stage, "--kernel", "thrice", missing.name()], "");
        if errors.contains("this processor has no native code") {
            continue;
        }
        assert_eq!((output.as_str(), status), ("", 1), "{stage}");
        assert!(errors.contains("has no kernel called thrice"), "{stage}: {errors}");
    }
    for block in ["0", "32,32,2", "4294967295,4294967295,4294967295"] {
        let (_, errors, status) = openmps(&["ptx", "dump", "--block", block, missing.name()], "");
        assert_eq!(status, 1, "{block}");
        assert!(errors.contains("a block has 1 to 1024 threads"), "{block}: {errors}");
    }
}
