//! Options of ptxas: which there are, and what of them matters where no machine code is made.

use super::Failure;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;

/// What an option does here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It says how machine code is made, or what is said of it: nothing here.
    None,
    Architecture,
    Output,
    RegistersMax,
    Verbose,
    DisableWarnings,
    Version,
    Help,
    /// What it asks for cannot be had.
    Refused,
}

/// One option: its long name, its short one, whether a value follows, what it does.
struct Row(&'static str, &'static str, bool, Effect);

use Effect::{
    Architecture as Arch, DisableWarnings, Help, None as Nothing, Output, Refused, RegistersMax,
    Verbose, Version,
};

/// Options of ptxas of CUDA 12 and 13, by its --help, and those that packages pass beyond.
const OPTIONS: &[Row] = &[
    Row("Ofast-compile", "Ofc", true, Nothing),
    Row("allow-expensive-optimizations", "allow-expensive-optimizations", true, Nothing),
    Row("compile-as-tools-patch", "astoolspatch", false, Nothing),
    Row("compile-only", "c", false, Nothing),
    Row("compiler-annotations", "annotate", false, Nothing),
    Row("def-load-cache", "dlcm", true, Nothing),
    Row("def-store-cache", "dscm", true, Nothing),
    Row("device-debug", "g", false, Nothing),
    Row("device-function-maxrregcount", "func-maxrregcount", true, Nothing),
    Row("device-stack-protector", "device-stack-protector", true, Nothing),
    Row("disable-optimizer-constants", "disable-optimizer-consts", false, Nothing),
    Row("disable-warnings", "w", false, DisableWarnings),
    Row("dont-merge-basicblocks", "no-bb-merge", false, Nothing),
    Row("entry", "e", true, Nothing),
    Row("extensible-whole-program", "ewp", false, Nothing),
    Row("fmad", "fmad", true, Nothing),
    Row("force-load-cache", "flcm", true, Nothing),
    Row("force-store-cache", "fscm", true, Nothing),
    Row("g-tensor-memory-access-check", "g-tmem-access-check", false, Nothing),
    Row("generate-line-info", "lineinfo", false, Nothing),
    Row("gpu-name", "arch", true, Arch),
    Row("help", "h", false, Help),
    Row("input-as-string", "ias", true, Refused),
    Row("legacy-bar-warp-wide-behavior", "legacy-bar-warp-wide-behavior", false, Nothing),
    Row("machine", "m", true, Nothing),
    Row("make-errors-visible-at-exit", "make-errors-visible-at-exit", false, Nothing),
    Row("maxntid", "maxntid", true, Nothing),
    Row("maxrregcount", "maxrregcount", true, RegistersMax),
    Row("minnctapersm", "minnctapersm", true, Nothing),
    Row("opt-level", "O", true, Nothing),
    Row("optimize-float-atomics", "opt-fp-atomics", false, Nothing),
    Row("options-file", "optf", true, Refused),
    Row("output-file", "o", true, Output),
    Row("override-directive-values", "override-directive-values", false, Nothing),
    Row("position-independent-code", "pic", true, Nothing),
    Row("preserve-relocs", "preserve-relocs", false, Nothing),
    Row("register-usage-level", "regUsageLevel", true, Nothing),
    // Not in ptxas' --help; Triton passes it.
    Row("regAllocOptLevel", "regAllocOptLevel", true, Nothing),
    Row("return-at-end", "ret-end", false, Nothing),
    Row("sp-bounds-check", "sp-bounds-check", false, Nothing),
    Row("split-compile", "split-compile", true, Nothing),
    Row(
        "suppress-async-bulk-multicast-advisory-warning",
        "suppress-async-bulk-multicast-advisory-warning",
        false,
        Nothing,
    ),
    Row("suppress-debug-info", "suppress-debug-info", false, Nothing),
    Row("suppress-double-demote-warning", "suppress-double-demote-warning", false, Nothing),
    Row("suppress-stack-size-warning", "suppress-stack-size-warning", false, Nothing),
    Row("verbose", "v", false, Verbose),
    Row("version", "V", false, Version),
    Row("warn-on-double-precision-use", "warn-double-usage", false, Nothing),
    Row("warn-on-local-memory-usage", "warn-lmem-usage", false, Nothing),
    Row("warn-on-spills", "warn-spills", false, Nothing),
    Row("warning-as-error", "Werror", false, Nothing),
];

/// Short options whose value may stand right behind them.
const ATTACHED: &[&str] = &["O", "m", "o"];

/// What is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Architecture {
    /// As it was given.
    pub(super) name: String,
    /// Compute capability times ten.
    pub(super) sm: u32,
    /// `compute_80` rather than `sm_80`.
    pub(super) is_virtual: bool,
}

impl Architecture {
    fn parse(name: &str) -> Result<Self, Failure> {
        let (is_virtual, number) = match name.split_once('_') {
            Some(("sm", number)) => (false, number),
            Some(("compute", number)) => (true, number),
            _ => (false, ""),
        };
        if !ptx::is_target(number) {
            return Err(Failure::fatal(format_args!(
                "Value '{name}' is not defined for option 'gpu-name'"
            )));
        }
        let sm = number.trim_end_matches(['a', 'f']).parse().unwrap_or(0);
        Ok(Self { name: name.to_owned(), sm, is_virtual })
    }
}

/// What is to be made of which file.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
    pub(super) architecture: Architecture,
    pub(super) registers_max: Option<u32>,
    pub(super) verbose: bool,
    pub(super) disable_warnings: bool,
}

/// What the command line asks for.
#[derive(Debug)]
pub(super) enum Wish {
    Version,
    Help,
    Assemble(Options),
}

impl Options {
    /// Reads the words of a command line.
    pub(super) fn read(words: Vec<String>) -> Result<Wish, Failure> {
        if words.is_empty() {
            return Ok(Wish::Help);
        }
        let mut words = VecDeque::from(words);
        let mut inputs = Vec::new();
        // ptxas' own defaults.
        let mut output = PathBuf::from("elf.o");
        let mut architecture = Architecture::parse("sm_52")?;
        let (mut registers_max, mut verbose, mut disable_warnings) = (None, false, false);
        while let Some(word) = words.pop_front() {
            if !word.starts_with('-') || word == "-" {
                inputs.push(PathBuf::from(word));
                continue;
            }
            let (row, value) = find(&word)?;
            let Row(name, _, takes_value, effect) = *row;
            let value = match (takes_value, value) {
                (true, Some(value)) => value,
                (true, None) => words.pop_front().ok_or_else(|| {
                    Failure::fatal(format_args!("Argument expected after '{word}'"))
                })?,
                (false, None) => String::new(),
                (false, Some(value)) => {
                    return Err(Failure::fatal(format_args!(
                        "Option '{name}' takes no value '{value}'"
                    )));
                }
            };
            match effect {
                Effect::None => {}
                Effect::Architecture => architecture = Architecture::parse(&value)?,
                Effect::Output => output = PathBuf::from(value),
                Effect::RegistersMax => registers_max = registers(&value)?,
                Effect::Verbose => verbose = true,
                Effect::DisableWarnings => disable_warnings = true,
                Effect::Version => return Ok(Wish::Version),
                Effect::Help => return Ok(Wish::Help),
                Effect::Refused => {
                    return Err(Failure::fatal(format_args!(
                        "Option '{name}' is not supported by openmps' ptxas, which keeps PTX; \
                         OPENMPS_COMPILERS=own leaves packages their own"
                    )));
                }
            }
        }
        let input = match <[PathBuf; 1]>::try_from(inputs) {
            Ok([input]) => input,
            Err(none) if none.is_empty() => {
                return Err(Failure::fatal(
                    "No input files specified; use option --help for more information",
                ));
            }
            Err(_) => return Err(Failure::fatal("openmps' ptxas takes one input file")),
        };
        Ok(Wish::Assemble(Self {
            input,
            output,
            architecture,
            registers_max,
            verbose,
            disable_warnings,
        }))
    }
}

/// The option that a word names, and the value in the word.
fn find(word: &str) -> Result<(&'static Row, Option<String>), Failure> {
    let text = word.trim_start_matches('-');
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let known =
        |name: &str| OPTIONS.iter().find(|Row(long, short, ..)| *long == name || *short == name);
    if let Some(row) = known(name) {
        return Ok((row, value));
    }
    let attached =
        ATTACHED.iter().find_map(|short| Some((known(short)?, text.strip_prefix(*short)?)));
    match attached.filter(|_| !word.starts_with("--")) {
        Some((row, value)) => Ok((row, Some(value.to_owned()))),
        None => Err(Failure::fatal(format_args!("Unknown option '-{name}'"))),
    }
}

/// A number of registers; `None` where the architecture's most or least are meant.
fn registers(value: &str) -> Result<Option<u32>, Failure> {
    match value {
        "archmax" | "archmin" | "0" => Ok(None),
        number => number.parse().map(Some).map_err(|_| {
            Failure::fatal(format_args!("Value '{value}' is not defined for option 'maxrregcount'"))
        }),
    }
}

/// The options, one a line.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Usage  : ptxas [options] <ptx file>\n\n\
         openmps' ptxas checks PTX and writes it as it is, for the software GPU, which runs no machine\n\
         code. Most options say how machine code is made, and change nothing.\n\n",
    );
    for Row(long, short, takes_value, effect) in OPTIONS {
        let value = if *takes_value { " <value>" } else { "" };
        let note = match effect {
            Effect::None => "",
            Effect::Refused => "  not supported",
            _ => "  heeded",
        };
        let left = format!("--{long}{value}");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{left:<52} (-{short}){note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options, String> {
        match Options::read(words.split(' ').map(str::to_owned).collect()) {
            Ok(Wish::Assemble(options)) => Ok(options),
            Ok(other) => Err(format!("{other:?}")),
            Err(Failure(why)) => Err(why),
        }
    }

    #[test]
    fn what_packages_pass_is_understood() {
        // Triton's, then XLA's.
        let triton =
            "-lineinfo --fmad=false -v --regAllocOptLevel=2 --gpu-name=sm_80 /t/a.ptx -o /t/a.o";
        let options = read(triton).unwrap();
        assert_eq!((options.input, options.output), ("/t/a.ptx".into(), "/t/a.o".into()));
        assert!(options.verbose && options.architecture.sm == 80);
        let xla =
            "/t/a.ptx -o /t/a.cubin -arch=sm_90a --warn-on-spills -v --generate-line-info -O0 -m64";
        let options = read(xla).unwrap();
        assert_eq!((options.output, options.architecture.sm), ("/t/a.cubin".into(), 90));
        assert_eq!(read("-arch sm_80 --maxrregcount 64 a").unwrap().registers_max, Some(64));
        assert_eq!(read("-arch sm_80 -maxrregcount=archmax a").unwrap().registers_max, None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (words, why) in [
            ("--gpu-nme=sm_80 a", "Unknown option '-gpu-nme'"),
            ("--Onothing a", "Unknown option '-Onothing'"),
            ("-arch=sm_81 a", "Value 'sm_81' is not defined for option 'gpu-name'"),
            ("-arch=80 a", "Value '80' is not defined"),
            ("-arch=sm_80", "No input files"),
            ("-arch=sm_80 a b", "one input file"),
            ("a -o", "Argument expected after '-o'"),
            ("--verbose=yes a", "takes no value 'yes'"),
            ("--maxrregcount=many a", "Value 'many' is not defined"),
            ("--input-as-string x", "not supported"),
        ] {
            let said = read(words).unwrap_err();
            assert!(said.starts_with("ptxas fatal   : ") && said.contains(why), "{words}: {said}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = OPTIONS.iter().map(|Row(long, ..)| *long).collect();
        names.extend(OPTIONS.iter().filter(|Row(long, short, ..)| long != short).map(|row| row.1));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
