//! Differential test: holds an implementation of PTX against the interpreter, and shrinks what
//! differs.

use crate::generate::{Node, Program, Synchronising};
use crate::{Buffer, Launch, run, run_in_random_order};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a launch of a text on buffers; an error is a finding too, and so is a panic.
pub type Runner<'a> = dyn Fn(&str, &Launch, &mut Vec<Buffer>) -> Result<(), String> + 'a;

/// What is held against the interpreter, by name.
pub type Runners<'a> = [(&'a str, &'a Runner<'a>)];

/// Compares one program.
///
/// # Errors
/// What differs, in words.
pub fn compare(program: &Program, runners: &Runners<'_>) -> Result<(), String> {
    compare_text(&program.text(), &program.launch(), &program.buffers(), runners)
}

/// Compares one launch of a text on buffers.
///
/// # Errors
/// What differs, in words.
pub fn compare_text(
    text: &str,
    launch: &Launch,
    buffers: &[Buffer],
    runners: &Runners<'_>,
) -> Result<(), String> {
    let module = parse(text)?;
    let mut expected = buffers.to_vec();
    caught(|| run(&module, launch, &mut expected)).map_err(|e| format!("the reference: {e}"))?;
    compare_with(&expected, text, launch, buffers, runners)
}

fn parse(text: &str) -> Result<ptx::ast::Module, String> {
    let module = ptx::parse(text).map_err(|e| format!("not PTX: {e}"))?;
    ptx::check(&module).map_err(|e| format!("not PTX: {e}"))?;
    Ok(module)
}

/// Orders of threads in which the reference runs a program whose threads wait for each other: it
/// must give the same in all of them, or the program is not what it should be.
const ORDERS: u64 = 2;

/// Compares one program whose threads wait for each other.
///
/// # Errors
/// What differs, in words.
pub fn compare_synchronising(program: &Synchronising, runners: &Runners<'_>) -> Result<(), String> {
    let (text, launch, buffers) = (program.text(), program.launch(), program.buffers());
    let module = parse(&text)?;
    let mut results = (0..ORDERS).map(|order| {
        let mut result = buffers.clone();
        let ran = caught(|| run_in_random_order(&module, &launch, &mut result, order));
        ran.map(|()| result).map_err(|e| format!("the reference, order {order}: {e}"))
    });
    let expected = results.next().ok_or("no order")??;
    for result in results {
        if let Some(difference) = difference(&expected, &result?) {
            return Err(format!("the reference depends on the order: {difference}"));
        }
    }
    compare_with(&expected, &text, &launch, &buffers, runners)
}

/// Tries the program of a seed whose threads wait for each other.
///
/// # Panics
/// With the smallest program found that differs, and its seed.
pub fn check_synchronising(seed: u64, runners: &Runners<'_>) {
    let mut program = Synchronising::new(seed);
    let Err(mut difference) = compare_synchronising(&program, runners) else { return };
    let smaller = |program: &Synchronising| {
        program.smaller().find_map(|smaller| {
            compare_synchronising(&smaller, runners).err().map(|e| (smaller, e))
        })
    };
    while let Some(found) = smaller(&program) {
        (program, difference) = found;
    }
    panic!("seed {seed}: {difference}\n{:?}\n{}", program.launch(), program.text());
}

fn compare_with(
    expected: &[Buffer],
    text: &str,
    launch: &Launch,
    buffers: &[Buffer],
    runners: &Runners<'_>,
) -> Result<(), String> {
    for (name, runner) in runners {
        let mut got = buffers.to_vec();
        caught(|| runner(text, launch, &mut got)).map_err(|e| format!("{name}: {e}"))?;
        if let Some(difference) = difference(expected, &got) {
            return Err(format!("{name}: {difference}"));
        }
    }
    Ok(())
}

/// Makes a panic an error: it must not hide which program it came of, nor keep that from being made small.
fn caught(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let formatted = payload.downcast_ref::<String>().map(String::as_str);
        let text = formatted.or_else(|| payload.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a message")))
    })
}

/// The first difference in words.
fn difference(expected: &[Buffer], got: &[Buffer]) -> Option<String> {
    for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
        if let Some(at) = expected.iter().zip(got).position(|(e, g)| e != g) {
            let at = at & !7;
            let word = |bytes: &[u8]| -> String {
                bytes[at..].iter().take(8).rev().map(|b| format!("{b:02x}")).collect()
            };
            let (e, g) = (word(expected), word(got));
            return Some(format!("buffer {number}, byte {at}: 0x{g}, not 0x{e}"));
        }
    }
    None
}

/// Tries the program of a seed.
///
/// # Panics
/// With the smallest program found that differs, and its seed.
pub fn check(seed: u64, runners: &Runners<'_>) {
    if let Some(finding) = find(Program::new(seed), ATTEMPTS_MAX, runners) {
        panic!("seed {seed}: {finding}");
    }
}

/// Programs tried while one is made small: enough for the largest, few enough to wait for.
const ATTEMPTS_MAX: usize = 3000;

/// A program that differs.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The smallest that was found.
    pub program: Program,
    /// In what, in words.
    pub difference: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { program, difference } = self;
        write!(f, "{difference}\n{:?}\n{}", program.launch(), program.text())
    }
}

/// Tries a program, and makes it small if it differs: by at most `attempts_max` more runs.
pub fn find(program: Program, attempts_max: usize, runners: &Runners<'_>) -> Option<Finding> {
    let difference = compare(&program, runners).err()?;
    Some(shrink(Finding { program, difference }, attempts_max, runners))
}

/// Cuts statements out of a program, and puts bodies in the place of branches, as long as it
/// differs.
fn shrink(mut best: Finding, attempts_max: usize, runners: &Runners<'_>) -> Finding {
    let mut attempts = 0;
    loop {
        let mut smaller = false;
        let mut index = 0;
        // Statement by statement, in the order of the tree; another one moves into the place of
        // one that goes.
        while attempts < attempts_max {
            let mut any = false;
            let mut gone = false;
            for way in [Cut::Remove, Cut::Unwrap] {
                let mut program = best.program.clone();
                let mut left = index;
                match program.bodies().find_map(|body| cut(body, &mut left, way)) {
                    None => break,
                    Some(false) => continue,
                    Some(true) => any = true,
                }
                attempts += 1;
                if let Err(difference) = compare(&program, runners) {
                    best = Finding { program, difference };
                    (smaller, gone) = (true, true);
                    break;
                }
            }
            if !any {
                break;
            }
            index += usize::from(!gone);
        }
        if !smaller || attempts >= attempts_max {
            return best;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Remove,
    Unwrap,
}

/// Applies a cut to statement number `left` of the tree: whether there is such a cut, or `None`
/// if the tree has fewer statements.
fn cut(nodes: &mut Vec<Node>, left: &mut usize, way: Cut) -> Option<bool> {
    for at in 0..nodes.len() {
        if *left > 0 {
            *left -= 1;
            let inner = bodies(&mut nodes[at]).into_iter().find_map(|body| cut(body, left, way));
            if inner.is_some() {
                return inner;
            }
            continue;
        }
        let plain = matches!(nodes[at], Node::Lines(_) | Node::Break(_));
        if way == Cut::Remove {
            nodes.remove(at);
        } else if !plain {
            let inner: Vec<Node> =
                bodies(&mut nodes[at]).into_iter().flat_map(|body| body.clone()).collect();
            nodes.splice(at..=at, inner);
        }
        return Some(way == Cut::Remove || !plain);
    }
    None
}

fn bodies(node: &mut Node) -> Vec<&mut Vec<Node>> {
    match node {
        Node::Lines(_) | Node::Break(_) => Vec::new(),
        Node::If { then, otherwise, .. } => vec![then, otherwise],
        Node::Loop { body, .. } => vec![body],
        Node::Switch { bodies, .. } => bodies.iter_mut().collect(),
        Node::Tangle { bodies, .. } => bodies.iter_mut().map(|(body, ..)| body).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that panics on what it cannot do.
    fn panics_on(word: &str) -> impl Fn(&str, &Launch, &mut Vec<Buffer>) -> Result<(), String> {
        move |text, launch, buffers| {
            assert!(!text.contains(word), "the grid makes no progress");
            let module = parse(text)?;
            run_in_random_order(&module, launch, buffers, 0).map_err(|e| e.to_string())
        }
    }

    #[test]
    fn a_panic_is_a_finding_with_its_seed_and_a_small_program() {
        let segments = |text: &str| text.lines().filter(|l| l.starts_with("// ")).count();
        let fits = |seed: &u64| {
            let text = Synchronising::new(*seed).text();
            text.contains("bar.red") && segments(&text) > 2
        };
        let seed = (0..).find(fits).expect("a program of several segments");
        let runner = panics_on("bar.red");
        let check = || check_synchronising(seed, &[("a device", &runner)]);
        let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("a finding");
        let text = payload.downcast::<String>().expect("a message");
        let start = format!("seed {seed}: a device: panic: the grid makes no progress");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains("bar.red"), "{text}");
        assert_eq!(segments(&text), 1, "{text}");
    }
}
