//! ptxas: a stand-in for NVIDIA's assembler that keeps PTX, by which packages that make machine code
//! themselves (Triton, XLA) run on the software GPU.
//!
//! It assembles nothing. The input is read and checked as PTX for the target that is asked for, and
//! written as it came, with a NUL at its end: the image that the driver loads. Options, messages and
//! status are those of ptxas; what only says how machine code is made is accepted and changes nothing.

mod options;

use cuda_api::CudaError;
use cuda_api::driver_version::API_VERSION;
use cuda_api::link::Link;
use options::{Options, Wish};
use ptx::ast::Module;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Name of the program.
pub(crate) const NAME: &str = "ptxas";

/// Status of ptxas when it made nothing.
const FAILED: u8 = 255;
/// CUjitInputType: PTX text.
const JIT_PTX: u32 = 1;
/// Largest file that is read: as for images that are loaded.
const INPUT_BYTES_MAX: u64 = 1 << 30;

/// Runs the program.
pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let mut messages = String::new();
    let made = Options::read(arguments).and_then(|wish| match wish {
        Wish::Version => {
            print(&version());
            Ok(())
        }
        Wish::Help => {
            print(&options::help());
            Ok(())
        }
        Wish::Assemble(options) => assemble(&options, &mut messages),
    });
    let status = match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            messages += &why;
            messages.push('\n');
            ExitCode::from(FAILED)
        }
    };
    // Standard error may be closed.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), messages.as_bytes());
    status
}

/// What ends the program, as a line of its own.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn fatal(why: impl std::fmt::Display) -> Self {
        Self(format!("ptxas fatal   : {why}"))
    }
}

fn print(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
}

/// The release is that of the driver: what packages make for it is then PTX that the driver reads.
fn version() -> String {
    let reported = provider::asked_driver_version().ok().flatten().unwrap_or(API_VERSION);
    let (major, minor) = (reported / 1000, reported % 1000 / 10);
    format!(
        "ptxas: openmps {}, in the place of the PTX optimizing assembler: it checks PTX and keeps it\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Checks the input and writes it.
fn assemble(options: &Options, messages: &mut String) -> Result<(), Failure> {
    let text = read(&options.input)?;
    let name = options.input.display().to_string();
    let module = checked(&text, &name, options, messages)?;
    if options.verbose {
        describe(&module, options, messages);
    }
    let mut link = Link::new(options.registers_max);
    let fatal = |error: CudaError| Failure::fatal(format_args!("{name}: {error}"));
    link.add(JIT_PTX, text.as_bytes()).map_err(fatal)?;
    let image = link.complete().map_err(fatal)?;
    if options.architecture.is_virtual {
        // By ptxas' manual such a target is for parsing only.
        return Ok(());
    }
    std::fs::write(&options.output, image).map_err(|error| {
        let output = options.output.display();
        Failure::fatal(format_args!("Output file '{output}' could not be written: {error}"))
    })
}

/// The text of a file.
fn read(path: &Path) -> Result<String, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::fatal(format_args!("Input file '{path}' could not be opened: {why}"))
    };
    let bytes = std::fs::metadata(path).map_err(|error| cannot(&error))?.len();
    if bytes > INPUT_BYTES_MAX {
        return Err(cannot(&format_args!("it has more than {} MiB", INPUT_BYTES_MAX >> 20)));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot(&error))?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    // Bytes that are no UTF-8 can stand in comments only, where they do not matter.
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// The module, if it is PTX for the target; what is found goes to the messages.
fn checked(
    text: &str,
    name: &str,
    options: &Options,
    messages: &mut String,
) -> Result<Module, Failure> {
    let found =
        ptx::parse(text).and_then(|module| ptx::check(&module).map(|notes| (module, notes)));
    let (module, notes) = match found {
        Ok((module, warnings)) => (module, warnings),
        Err(errors) => {
            let log = errors.to_string();
            return Err(Failure(log.replace("application ptx input", name)));
        }
    };
    if !options.disable_warnings {
        for note in notes {
            let line = note.to_string().replace("application ptx input", name);
            // Writing to a String cannot fail.
            let _ = writeln!(messages, "{line}");
        }
    }
    let asked = &options.architecture;
    if module.target.sm > asked.sm {
        let why = "SM version specified by .target is higher than default SM version assumed";
        return Err(Failure::fatal(why));
    }
    if !module.target.runs_on(asked.sm) {
        let suffix = module.target.suffix.map(String::from).unwrap_or_default();
        return Err(Failure::fatal(format_args!(
            "PTX with .target 'sm_{}{suffix}' cannot be compiled to architecture '{}'",
            module.target.sm, asked.name
        )));
    }
    Ok(module)
}

/// What ptxas says of each kernel with -v, as far as it is known without machine code.
fn describe(module: &Module, options: &Options, messages: &mut String) {
    for (_, kernel) in module.kernels() {
        let name = module.name(kernel.name);
        // Writing to a String cannot fail.
        let _ = writeln!(
            messages,
            "ptxas info    : Compiling entry function '{name}' for '{}'\n\
             ptxas info    : Function properties for {name}\n    \
             0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
            options.architecture.name
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const GOOD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry k()\n{ .reg .b32 %r<2>;\n add.s32 %r1, %r1, 1;\n ret; }\n";

    /// What is made of a text with some options, and all that is said.
    fn run(text: &str, more: &[&str]) -> (Result<Vec<u8>, String>, String) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let place = |name: &str| -> PathBuf {
            std::env::temp_dir()
                .join(format!("openmps-ptxas-{}-{number}.{name}", std::process::id()))
        };
        let (input, output) = (place("ptx"), place("out"));
        std::fs::write(&input, text).unwrap();
        let named = [input.display().to_string(), "-o".to_owned(), output.display().to_string()];
        let arguments = named.into_iter().chain(more.iter().map(|word| (*word).to_owned()));
        let mut messages = String::new();
        let made = match Options::read(arguments.collect()) {
            Ok(Wish::Assemble(options)) => assemble(&options, &mut messages),
            Ok(_) => panic!("nothing to assemble"),
            Err(failure) => Err(failure),
        };
        let bytes = std::fs::read(&output);
        let _ = (std::fs::remove_file(&input), std::fs::remove_file(&output));
        let made = made.map(|()| bytes.unwrap_or_default()).map_err(|Failure(why)| why);
        (made, messages)
    }

    #[test]
    fn ptx_is_kept_with_a_nul_behind_it() {
        let (made, said) = run(GOOD, &["--gpu-name=sm_80"]);
        assert_eq!(made.unwrap(), [GOOD.as_bytes(), b"\0"].concat());
        assert_eq!(said, "");
    }

    #[test]
    fn mistakes_are_said_as_ptxas_says_them() {
        let why = run(&GOOD.replace("%r1, 1", "%r9, 1"), &["-arch=sm_80"]).0.unwrap_err();
        assert!(why.contains(".ptx, line 6; error   : "), "{why}");
        assert!(why.ends_with("\nptxas fatal   : Ptx assembly aborted due to errors"), "{why}");
        let why = run("int main() {}", &["-arch=sm_80"]).0.unwrap_err();
        assert!(why.contains("line 1; error"), "{why}");
    }

    #[test]
    fn targets_are_held_against_the_one_asked_for() {
        let higher = run(GOOD, &["-arch", "sm_75"]).0.unwrap_err();
        assert!(higher.contains(".target is higher than"), "{higher}");
        assert!(run(GOOD, &["-arch", "sm_90a"]).0.is_ok());
        let own = GOOD.replace("8.0\n.target sm_80", "8.0\n.target sm_90a");
        assert!(run(&own, &["-arch", "sm_90a"]).0.is_ok());
        let other = run(&own, &["-arch", "sm_100"]).0.unwrap_err();
        assert!(other.contains("'sm_90a' cannot be compiled to architecture 'sm_100'"), "{other}");
        assert_eq!(run(GOOD, &["-arch", "compute_80"]).0, Ok(Vec::new()));
    }

    #[test]
    fn registers_are_limited_in_the_text() {
        let made = run(GOOD, &["-arch=sm_80", "--maxrregcount=32"]).0.unwrap();
        assert!(String::from_utf8(made).unwrap().contains(".maxnreg 32"));
    }

    #[test]
    fn kernels_are_described_if_that_is_wanted() {
        let (made, said) = run(GOOD, &["-v", "-arch=sm_80"]);
        assert!(made.is_ok());
        assert!(
            said.starts_with("ptxas info    : Compiling entry function 'k' for 'sm_80'\n"),
            "{said}"
        );
        assert!(said.contains("0 bytes spill stores"), "{said}");
    }

    #[test]
    fn what_cannot_be_read_or_written_is_said() {
        let arguments = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let fails = |words: &[&str]| {
            let Ok(Wish::Assemble(options)) = Options::read(arguments(words)) else {
                panic!("options")
            };
            assemble(&options, &mut String::new()).unwrap_err().0
        };
        let why = fails(&["-arch=sm_80", "/nowhere/x.ptx"]);
        assert!(
            why.starts_with("ptxas fatal   : Input file '/nowhere/x.ptx' could not be opened"),
            "{why}"
        );
    }

    #[test]
    fn the_version_is_found_as_packages_look_for_it() {
        let version = version();
        assert!(version.contains("release 13.0, V13.0.0"), "{version}");
    }
}
