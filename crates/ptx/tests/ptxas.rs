//! The instruction table against ptxas, the one judge of PTX there is: what each accepts, for
//! which `.version` and `.target`.
//!
//! `tests/ptxas.sh` fetches ptxas and runs this; `OPENMPS_PTXAS` is its path. Disagreements are
//! written to `ptxas-*.txt` in the target directory's `tmp`. Not compared are the operands of what
//! the table knows by name only (`*`: tcgen05, multimem); [`UNSEEN`] and
//! [`UNREFUSED`] name what may differ.

use ptx::examples::{self, Example, FIRST_LINE};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

/// Versions of the ISA that ptxas 13.5 knows, from the first that has 64-bit addresses.
const VERSIONS: &[&str] = &[
    "2.3", "3.0", "3.1", "3.2", "4.0", "4.1", "4.2", "4.3", "5.0", "5.1", "6.0", "6.1", "6.2",
    "6.3", "6.4", "6.5", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0",
    "8.1", "8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0", "9.1", "9.2", "9.3", "9.4",
    "9.5",
];
const NEWEST: &str = "9.5";

/// Targets that ptxas 13.5 knows, from the first with 64-bit addresses of `.shared` and all.
const TARGETS: &[&str] = &[
    "sm_20", "sm_30", "sm_32", "sm_35", "sm_37", "sm_50", "sm_52", "sm_53", "sm_60", "sm_61",
    "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a", "sm_103f", "sm_107", "sm_107a",
    "sm_107f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a",
    "sm_121f",
];
/// Between them they have every instruction; the last are for what is no more.
const RICHEST: &[(&str, &str)] = &[
    (NEWEST, "sm_90a"),
    (NEWEST, "sm_100a"),
    (NEWEST, "sm_103a"),
    (NEWEST, "sm_107a"),
    (NEWEST, "sm_110a"),
    (NEWEST, "sm_120a"),
    ("6.3", "sm_72"),
];

type Verdict = Option<String>;

/// What ptxas takes without looking at it, and we refuse: the start of a template, and words of the
/// mutant or of our verdict. Mostly instructions that ptxas expands before it checks them.
const UNSEEN: &[(&str, &str)] = &[
    // The name of a function in the place of any number.
    ("", "device_function"),
    // A generic address of 32 bits: refused by the second half of ptxas, which is not run here.
    ("", "[%r9]"),
    // A pair of halves as a predicate.
    ("", "'%hx1'"),
    // Something else than an address in brackets, and mbarriers that are not in shared memory.
    ("cp.", "expected an address in brackets"),
    ("red", "expected an address in brackets"),
    ("red.async", "expected one in space 'shared'"),
    ("red.async", "found 2 operands"),
    ("st.async", "expected"),
    ("st.mmio", "st.mmio.release"),
    ("st.mmio", "constant of type '.b128'"),
    ("fence", "expected"),
    ("clusterlaunchcontrol", "expected"),
    // Words that say nothing new.
    ("cp.", "Illegal modifier"),
    ("cp.reduce", "Unexpected instruction type"),
    ("fence", "Illegal modifier"),
    ("tensormap", "Illegal modifier"),
    ("red.async", "Illegal modifier"),
    ("atom", ".noftz"),
    ("red", ".noftz"),
    ("cvt", ".satfinite"),
    ("ld.", "Illegal modifier"),
    ("st.", "modifier"),
    ("rcp", ".ftz"),
    ("testp", "A modifier is missing"),
    // Floats, constants, vectors or nothing in the place of whole numbers and results.
    ("tensormap", "expected"),
    ("v", "operand 1, the integer"),
    ("atom", "operand 1, `_`"),
    ("atom", "found 4 operands"),
    ("mov.vec", "expected a vector"),
    ("mov.btype", "the symbol"),
    ("mov.atype", "the symbol"),
    ("movmatrix", "operand"),
    ("createpolicy", "operand 2"),
    ("mbarrier", "operand 3, a vector"),
    ("bar", "operand 3, the integer 0"),
    ("cvt.pack", "operand"),
    ("wgmma", "operand 4"),
    // Metadata, selectors and scales of products, and words that products do not have.
    ("mma.sp", "operand"),
    ("mma", "operand 5"),
    ("mma", "operand 7"),
    ("mma", "Illegal modifier"),
    ("mma", "Unexpected instruction type"),
    ("mma", "A modifier is missing"),
    ("brx", "WARP_SZ"),
    ("txq", "operand 3, a vector"),
    ("tex", "operand"),
    ("tld4", "operand"),
    ("cvt.rnd{.relu}{.satfinite}.dtype", "cvt.rn.f16x2.f32"),
    ("cvt.rs{.relu}{.satfinite}.dtype", "cvt.rs.f16x2.f32"),
    ("tex", "found"),
    ("su", "operand"),
    ("cvt.rn.satfinite{.relu}{.scaled}", "operand 1, a vector"),
    // Forms of ISA 9.4 that the table does not have.
    ("set.cmp.ptype", "Unexpected instruction type"),
    ("fma", "fma.r"),
    // More than 128 bits at once, where the module has not what that needs.
    ("ld", "expected a vector of"),
    ("st", "expected a vector of"),
];

/// What we take and ptxas does not, in the same way.
const UNREFUSED: &[(&str, &str)] = &[
    // A pair of halves as a number, in what ptxas expands.
    ("", "%hx1"),
    // A constant in the place of a predicate, where ptxas goes by way of other numbers.
    ("setp", "Arguments mismatch"),
    ("set.", "Arguments mismatch"),
    // Registers of the right size that are not plain bits; the bits of a special register of 32.
    ("cvt.rs", "Arguments mismatch"),
    ("cvt.rn", "ue8m0"),
    ("cvt.sat", "%tid.x"),
    ("st.async", "%sd1"),
    ("st.async", "%q2"),
    // `.cta` behind another word than the name.
    ("barrier{.cta}.arrive", "barrier.arrive.cta"),
    // Halves of a texture in registers of 32 bits.
    ("tex", "Arguments mismatch"),
    // Constants that only another operand makes wrong, and spaces of addresses in registers.
    ("cp.async.c", "out of range"),
    ("cp.async.bulk", "State space incorrect"),
    ("cp.async", "Unknown modifier"),
    ("isspacep", "%q1"),
    ("txq", "force_unnormalized_coords"),
    ("ldmatrix", "Vector of size 1"),
    ("stmatrix", "Vector of size 1"),
    ("movmatrix", "Arguments mismatch"),
    ("mma", "Vector expected"),
];

/// What ptxas makes a macro of that takes no name of a variable; it counts such a macro's lines as
/// another instruction's.
const MACROS: &[&str] = &["st.bulk.shared::cta"];

/// Starts of what ptxas says of a text that it cannot read at all, for any target.
const UNREADABLE: &[&str] = &["Parsing error", "Result discard mode", "Not a name of any"];

/// The verdict of ptxas on each body: `None` if it takes it.
fn ptxas(path: &str, version: &str, target: &str, bodies: &[String]) -> Vec<Verdict> {
    bodies.chunks(150).flat_map(|part| ptxas_once(path, version, target, part)).collect()
}

/// The option that makes ptxas read and check, which is all it does for a virtual architecture.
fn architecture(target: &str) -> String {
    let name = target.split(',').next().unwrap_or(target);
    let number: u32 = name.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    let name = name.trim_start_matches("sm_").trim_start_matches("compute_");
    let arch = if number < 75 { "121" } else { name };
    format!("-arch=compute_{arch}")
}

fn ptxas_once(path: &str, version: &str, target: &str, bodies: &[String]) -> Vec<Verdict> {
    let mut verdicts = vec![None; bodies.len()];
    let arch = architecture(target);
    let thread = std::thread::current().id();
    let file =
        format!("{}/ptxas-{}-{thread:?}.ptx", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut bodies = bodies.to_vec();
    loop {
        std::fs::write(&file, examples::module(version, target, &bodies)).unwrap();
        let output = Command::new(path).args([&arch, &file]).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        let mut stopped = None;
        for line in log.lines() {
            // Some instructions are macros, whose own lines are numbered too.
            let Some((_, rest)) = line.split_once(&format!("{file}, line ")) else { continue };
            let Some((at, message)) = rest.split_once("; ") else { continue };
            let index = at.parse::<u32>().unwrap().wrapping_sub(FIRST_LINE) as usize;
            if index >= bodies.len() {
                // A declaration that this version or target does not know, nor what uses it.
                continue;
            }
            let (kind, message) = message.split_once(": ").unwrap();
            if kind.starts_with("fatal") {
                stopped = Some(index);
            } else if !kind.starts_with("error") {
                continue;
            }
            verdicts[index].get_or_insert_with(|| message.to_owned());
        }
        if let Some(index) = stopped {
            // What follows was not read; labels are looked for at the end only.
            for (body, verdict) in bodies.iter_mut().zip(&verdicts) {
                if verdict.is_some() {
                    "exit".clone_into(body);
                }
            }
            debug_assert_eq!(bodies[index], "exit");
        } else if output.status.code().is_some() {
            let _ = std::fs::remove_file(&file);
            return verdicts;
        } else if bodies.len() == 1 {
            return vec![Some("ptxas crashes".to_owned())];
        } else {
            let (first, second) = bodies.split_at(bodies.len() / 2);
            let halves = [first, second].map(|half| ptxas_once(path, version, target, half));
            let again = halves.into_iter().flatten();
            return verdicts.into_iter().zip(again).map(|(old, new)| old.or(new)).collect();
        }
    }
}

/// Our own verdict on each body.
fn ours(version: &str, target: &str, bodies: &[String]) -> Vec<Verdict> {
    let mut verdicts = vec![None; bodies.len()];
    for (start, part) in (0..).step_by(60).zip(bodies.chunks(60)) {
        let mut part = part.to_vec();
        loop {
            let text = examples::module(version, target, &part);
            let parsed = ptx::parse(&text);
            let again = parsed.is_err();
            let Err(errors) = parsed.and_then(|module| ptx::check(&module)) else { break };
            let mut progress = false;
            for diagnostic in &errors.diagnostics {
                let index = diagnostic.position.line.wrapping_sub(FIRST_LINE) as usize;
                if index >= part.len() {
                    continue;
                }
                verdicts[start + index].get_or_insert_with(|| diagnostic.message.clone());
                progress |= part[index] != "exit";
                part[index] = "exit".to_owned();
            }
            if !again || !progress {
                break;
            }
        }
    }
    verdicts
}

/// Where the two differ, as lines of text by template.
#[derive(Default)]
struct Report {
    compared: usize,
    /// Differences of [`UNSEEN`] and [`UNREFUSED`].
    known: usize,
    by_template: BTreeMap<String, Vec<String>>,
}

impl Report {
    /// Enters a disagreement, if it is one.
    fn enter(&mut self, example: &Example, at: &str, theirs: Verdict, own: Verdict) {
        if theirs.is_none() == own.is_none() {
            return;
        }
        let (who, known) = match theirs {
            None => ("too strict", UNSEEN),
            Some(_) => ("too lax", UNREFUSED),
        };
        let why = theirs.or(own).unwrap_or_default();
        let said = format!("{} -- {why}", example.text());
        if known.iter().any(|(of, word)| example.template.starts_with(of) && said.contains(word)) {
            self.known += 1;
            return;
        }
        let line = format!("{who} {at}: {} -- {why}", example.text());
        self.by_template.entry(example.template.to_owned()).or_default().push(line);
    }

    fn finish(self, name: &str) {
        let mut text = String::new();
        let mut count = 0;
        for (template, lines) in &self.by_template {
            count += lines.len();
            writeln!(text, "{template}\n    {}\n", lines.join("\n    ")).unwrap();
        }
        let file = format!("{}/ptxas-{name}.txt", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&file, text).unwrap();
        let Self { compared, known, .. } = self;
        println!("{name}: {compared} compared, {count} differ, {known} are known to: {file}");
        assert_eq!(count, 0, "see {file}");
    }
}

fn path() -> String {
    std::env::var("OPENMPS_PTXAS").expect("OPENMPS_PTXAS, the path of ptxas")
}

/// The verdict of the most lenient of the richest targets on each body.
fn at_any_target(
    bodies: &[String],
    judge: impl Fn(&str, &str, &[String]) -> Vec<Verdict>,
) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = vec![Some(String::new()); bodies.len()];
    for (version, target) in RICHEST {
        let unreadable = |text: &String| UNREADABLE.iter().any(|start| text.starts_with(start));
        let left: Vec<usize> = (0..bodies.len())
            .filter(|&at| verdicts[at].as_ref().is_some_and(|text| !unreadable(text)))
            .collect();
        let asked: Vec<String> = left.iter().map(|&at| bodies[at].clone()).collect();
        for (at, verdict) in left.into_iter().zip(judge(version, target, &asked)) {
            // What is said of another target than the one that has it says nothing.
            let says = |verdict: &Verdict| {
                verdict.as_ref().is_some_and(|text| {
                    !text.is_empty() && !text.contains("target") && !text.contains("version")
                })
            };
            if verdict.is_none() || !says(&verdicts[at]) {
                verdicts[at] = verdict;
            }
        }
    }
    verdicts
}

/// Every spelling that the table takes is taken by ptxas for one target at least.
#[test]
#[ignore = "needs ptxas, which tests/ptxas.sh fetches"]
fn every_spelling_is_accepted() {
    let path = path();
    let examples = examples::all();
    let bodies: Vec<String> = examples.iter().map(Example::text).collect();
    let verdicts =
        at_any_target(&bodies, |version, target, bodies| ptxas(&path, version, target, bodies));
    let mut report = Report { compared: examples.len(), ..Report::default() };
    for (example, verdict) in examples.iter().zip(verdicts) {
        let Some(why) = verdict else { continue };
        let line = format!("{} -- {why}", example.text());
        report.by_template.entry(example.template.to_owned()).or_default().push(line);
    }
    report.finish("spellings");
}

/// Operands that stand in the place of each other.
const OPERANDS: &[&str] = &[
    "%p1",
    "%c1",
    "%uc1",
    "%h1",
    "%w1",
    "%sw1",
    "%r1",
    "%u1",
    "%i1",
    "%f1",
    "%d1",
    "%ud1",
    "%sd1",
    "%e1",
    "%q1",
    "%hf1",
    "%hx1",
    "1",
    "-1",
    "0",
    "300",
    "1.0",
    "0f3F800000",
    "0d3FF0000000000000",
    "[%d9]",
    "[%r9]",
    "[shared_data]",
    "[global_data]",
    "[const_data]",
    "[local_data]",
    "[param_data]",
    "_",
    "!%p1",
    "%tid.x",
    "%clock64",
    "global_data",
    "shared_data",
    "{%r1, %r2}",
    "{%r1, %r2, %r3, %r4}",
    "{%f1, %f2}",
    "{%h1, %h2}",
    "{%d1, %d2}",
    "%r1|%p1",
    "%p1|%p2",
    "%h1|%p1",
    "WARP_SZ",
    "L1",
    "device_function",
];

/// What becomes of an example when one thing in it is left out, doubled or replaced.
fn mutations(example: &Example) -> Vec<Example> {
    let mut found = Vec::new();
    let mut push = |name: String, operands: Vec<String>| {
        found.push(Example { template: example.template, name, operands });
    };
    let words: Vec<&str> = example.name.split('.').collect();
    for (at, _) in words.iter().enumerate().skip(1) {
        let mut less = words.clone();
        less.remove(at);
        push(less.join("."), example.operands.clone());
        for other in examples::words(words[0]) {
            let mut other_words = words.clone();
            other_words[at] = &other;
            push(other_words.join("."), example.operands.clone());
        }
    }
    for other in examples::words(words[0]) {
        push(format!("{}.{other}", example.name), example.operands.clone());
        if words.len() > 2 {
            let (first, rest) = example.name.rsplit_once('.').unwrap();
            push(format!("{first}.{other}.{rest}"), example.operands.clone());
        }
    }
    for at in 0..example.operands.len() {
        let mut less = example.operands.clone();
        less.remove(at);
        push(example.name.clone(), less);
        for other in OPERANDS {
            let mut others = example.operands.clone();
            others[at] = (*other).to_owned();
            push(example.name.clone(), others);
        }
    }
    for more in ["%r1", "%d1", "1", "%p1"] {
        let operands = example.operands.iter().cloned().chain([more.to_owned()]).collect();
        push(example.name.clone(), operands);
    }
    found
}

/// Both judges agree on every mutation of the first spelling of each template.
#[test]
#[ignore = "needs ptxas, which tests/ptxas.sh fetches"]
fn mutations_are_judged_alike() {
    let path = path();
    let only = std::env::var("OPENMPS_PTXAS_ONLY").unwrap_or_default();
    let step = std::env::var("OPENMPS_PTXAS_STEP").map_or(1, |step| step.parse().unwrap());
    let mut templates = std::collections::HashSet::new();
    let mut seen = std::collections::HashSet::new();
    let mutants: Vec<Example> = examples::all()
        .iter()
        .filter(|example| example.name.starts_with(&only) && templates.insert(example.template))
        .flat_map(mutations)
        .filter(|mutant| seen.insert(mutant.text()))
        .step_by(step)
        .collect();
    let bodies: Vec<String> = mutants.iter().map(Example::text).collect();
    let theirs =
        at_any_target(&bodies, |version, target, bodies| ptxas(&path, version, target, bodies));
    let own = at_any_target(&bodies, ours);
    let mut report = Report { compared: mutants.len(), ..Report::default() };
    for ((mutant, theirs), own) in mutants.iter().zip(theirs).zip(own) {
        report.enter(mutant, "any target", theirs, own);
    }
    report.finish("mutations");
}

/// Where a spelling is known: for which targets at the newest version, and in which versions for
/// the first of these targets.
#[derive(Clone, Default, PartialEq)]
struct Known {
    targets: Vec<&'static str>,
    versions: Vec<&'static str>,
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (self.versions.first(), self.versions.last());
        write!(f, "{}..{}", first.unwrap_or(&"never"), last.unwrap_or(&""))?;
        // Plain targets go on to the end; those of one architecture or family are named.
        let mut named: Vec<&str> = Vec::new();
        for target in &self.targets {
            let covered = named.iter().any(|own| !own.ends_with(['a', 'f']));
            if !covered {
                named.push(target);
            }
        }
        write!(f, "/{}", named.join("|"))?;
        let plain = named.iter().find(|own| !own.ends_with(['a', 'f']));
        let from = plain.map_or(0, |own| TARGETS.iter().position(|target| target == own).unwrap());
        let gone = TARGETS[from..].iter().find(|target| !self.targets.contains(target));
        match (plain, gone) {
            (Some(_), Some(gone)) => write!(f, " not {gone}"),
            _ => Ok(()),
        }
    }
}

/// Asks `judge` about each body at every target, then at every version for the target of
/// `first_of` (`None`: the first that takes it).
fn known(
    bodies: &[String],
    first_of: Option<&[Known]>,
    judge: impl Fn(&str, &str, &[String]) -> Vec<Verdict>,
) -> Vec<Known> {
    let mut known = vec![Known::default(); bodies.len()];
    for target in TARGETS {
        for (known, verdict) in known.iter_mut().zip(judge(NEWEST, target, bodies)) {
            known.targets.extend(verdict.is_none().then_some(*target));
        }
    }
    let firsts: Vec<Option<&'static str>> =
        first_of.unwrap_or(&known).iter().map(|known| known.targets.first().copied()).collect();
    for target in TARGETS {
        let here: Vec<usize> = (0..bodies.len()).filter(|&at| firsts[at] == Some(target)).collect();
        let asked: Vec<String> = here.iter().map(|&at| bodies[at].clone()).collect();
        for version in VERSIONS.iter().filter(|_| !here.is_empty()) {
            for (&at, verdict) in here.iter().zip(judge(version, target, &asked)) {
                known[at].versions.extend(verdict.is_none().then_some(*version));
            }
        }
    }
    known
}

/// Both judges know each spelling since the same version and for the same targets.
#[test]
#[ignore = "needs ptxas, which tests/ptxas.sh fetches"]
fn spellings_exist_for_the_same_versions_and_targets() {
    let path = path();
    let only = std::env::var("OPENMPS_PTXAS_ONLY").unwrap_or_default();
    let asked = |example: &Example| {
        example.name.starts_with(&only) && !MACROS.contains(&example.name.as_str())
    };
    let examples: Vec<Example> = examples::single().into_iter().filter(asked).collect();
    let bodies: Vec<String> = examples.iter().map(Example::text).collect();
    let theirs = known(&bodies, None, |version, target, bodies| {
        if header_is_wrong(version, target) {
            return vec![Some(String::new()); bodies.len()];
        }
        ptxas(&path, version, target, bodies)
    });
    let own = known(&bodies, Some(&theirs), |version, target, bodies| {
        if header_is_wrong(version, target) {
            return vec![Some(String::new()); bodies.len()];
        }
        ours(version, target, bodies)
    });
    let mut report = Report { compared: examples.len(), ..Report::default() };
    for ((example, theirs), own) in examples.iter().zip(theirs).zip(own) {
        if theirs != own {
            let line = format!("{} -- ptxas {theirs}, we {own}", example.text());
            report.by_template.entry(example.template.to_owned()).or_default().push(line);
        }
    }
    report.finish("since");
}

/// The target is of a later version, which is told at its place and not at the instruction's.
fn header_is_wrong(version: &str, target: &str) -> bool {
    let text =
        format!(".version {version}\n.target {target}\n.address_size 64\n.entry f() {{ ret; }}\n");
    ptx::parse(&text).and_then(|module| ptx::check(&module)).is_err()
}

/// A module that ptxas was asked about.
struct Judged {
    text: String,
    target: &'static str,
    /// What ptxas said.
    taken: bool,
    /// Our own verdict is the contrary, for the reason in the comment above it.
    differs: bool,
}

/// What `data/judged.txt` has: paragraphs, the first line of each the verdict (`yes` or `no`,
/// perhaps with `differs`), the version and the target.
fn judged() -> Vec<Judged> {
    let read = |paragraph: &'static str| {
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.starts_with('#')).collect();
        let (head, body) = lines.split_first()?;
        let (verdict, header) = head.split_once(' ').unwrap();
        let (differs, header) = match header.strip_prefix("differs ") {
            Some(header) => (true, header),
            None => (false, header),
        };
        let (version, target) = header.split_once(' ').unwrap();
        let body = body.join("\n");
        let size = if body.contains(".address_size") { "" } else { ".address_size 64\n" };
        let text = format!(".version {version}\n.target {target}\n{size}{body}\n");
        Some(Judged { text, target, taken: verdict == "yes", differs })
    };
    include_str!("data/judged.txt").split("\n\n").filter_map(read).collect()
}

#[test]
fn modules_are_judged_as_recorded() {
    for Judged { text, taken, differs, .. } in judged() {
        let own = ptx::parse(&text).and_then(|module| ptx::check(&module));
        assert_eq!(own.is_ok(), taken != differs, "{text}{own:?}");
    }
}

/// The record is what ptxas says.
#[test]
#[ignore = "needs ptxas, which tests/ptxas.sh fetches"]
fn modules_are_recorded_as_judged() {
    let path = path();
    let file = format!("{}/ptxas-judged-{}.ptx", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut wrong = Vec::new();
    for Judged { text, target, taken, .. } in judged() {
        std::fs::write(&file, &text).unwrap();
        let output = Command::new(&path).args([&architecture(target), &file]).output().unwrap();
        if output.status.success() != taken {
            wrong.push(format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    let _ = std::fs::remove_file(&file);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
