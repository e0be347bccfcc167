//! What the documents name is there: files, crates, and the tests behind promises. As ordinary tests.
//!
//! Not here: whether what they say is true.

use crate::tidy::{read, tracked};
use std::path::{Path, PathBuf};

/// Endings by which a word in backquotes is taken for a file of the repository.
const FILE_ENDINGS: &[&str] = &[".rs", ".py", ".sh", ".md", ".toml", ".tsv"];

/// Documents that are copied elsewhere before their links are followed.
const TEMPLATES: &[&str] = &["bench/h200/report.md", "bench/performance/report.md"];

fn documents() -> Vec<(PathBuf, String)> {
    let root = crate::root();
    let templates: Vec<PathBuf> = TEMPLATES.iter().map(|name| root.join(name)).collect();
    tracked("*.md")
        .into_iter()
        .filter(|path| !templates.contains(path))
        .map(|path| (path.clone(), read(&path)))
        .collect()
}

/// What stands between `begin` and `end`, on one line each.
fn between<'a>(text: &'a str, begin: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| {
        let (word, _) = rest.split_once(end)?;
        (!word.contains('\n')).then_some(word)
    })
}

/// The words in backquotes.
fn code_words(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn links_lead_somewhere() {
    let mut complaints = Vec::new();
    for (path, text) in documents() {
        let folder = path.parent().expect("a file is in a folder");
        for link in between(&text, "](", ')') {
            let target = link.split('#').next().unwrap_or_default();
            let outside = link.contains("://") || target.is_empty();
            if !outside && !folder.join(target).exists() {
                complaints.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn files_in_backquotes_exist() {
    let root = crate::root();
    let mut complaints = Vec::new();
    for (path, text) in documents() {
        let mut places = vec![root.clone(), root.join("crates")];
        places.extend(path.parent().map(Path::to_path_buf));
        // In the code map a row's files are below what the row is about.
        let of_row = |word: &str| {
            let row = text.lines().find(|line| line.starts_with('|') && line.contains(word))?;
            let folder = root.join(code_words(row).next()?);
            Some([folder.join(word), folder.join("src").join(word)].iter().any(|p| p.exists()))
        };
        for word in code_words(&text) {
            let named = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            let file = word.contains('/') && FILE_ENDINGS.iter().any(|end| word.ends_with(end));
            let there = || places.iter().any(|place| place.join(word).exists());
            if named && file && !there() && of_row(word) != Some(true) {
                complaints.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The words of a command: those behind the name of a script, up to one that is no option's name or value.
fn options_of<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(&'a str, Option<&'a str>)> {
    let mut options: Vec<(&str, Option<&str>)> = Vec::new();
    for word in words {
        match (word.starts_with("--"), options.last_mut()) {
            (true, _) => match word.split_once('=') {
                Some((name, value)) => options.push((name, Some(value))),
                None => options.push((word, None)),
            },
            (false, Some((_, value @ None))) => *value = Some(word),
            _ => {}
        }
    }
    options
}

#[test]
fn scripts_in_backquotes_have_the_options_and_parts_that_are_named() {
    let mut complaints = Vec::new();
    let scripts: Vec<PathBuf> = ["*.py", "*.sh"].into_iter().flat_map(tracked).collect();
    for (path, text) in documents() {
        // What another version wrote stays as it is.
        let is_result = path.components().any(|part| part.as_os_str() == "results");
        for code in code_words(&text).filter(|_| !is_result) {
            let mut words = code.split([' ', '`']).skip_while(|word| word.contains('='));
            let name = words.next().unwrap_or_default();
            let mut named = scripts.iter().filter(|script| script.ends_with(name));
            let (Some(script), None) = (named.next(), named.next()) else { continue };
            if name.is_empty() {
                continue;
            }
            let source = read(script);
            for (option, value) in options_of(words) {
                // Parts of a benchmark are words in its source.
                let parts = value.filter(|_| option.starts_with("--part"));
                let parts = parts.into_iter().flat_map(|value| value.split(','));
                let mut unknown = parts.filter(|part| !source.contains(*part)).collect::<Vec<_>>();
                // Options of a script that hands them on are its program's.
                if !source.contains(option) && !source.contains("\"$@\"") {
                    unknown.push(option);
                }
                complaints.extend(
                    unknown.iter().map(|of| format!("{}: `{code}`: no {of}", path.display())),
                );
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A table of promises that is read at a glance: figures and their stories are in `docs/`.
#[test]
fn the_specification_is_short() {
    const LINES_MAX: usize = 180;
    const ROW_MAX: usize = 500;
    let text = read(&crate::root().join("SPECIFICATION.md"));
    let lines = text.lines().count();
    assert!(lines <= LINES_MAX, "{lines} lines");
    let long: Vec<&str> = text.lines().filter(|row| row.len() > ROW_MAX).collect();
    assert!(long.is_empty(), "over {ROW_MAX} bytes:\n{}", long.join("\n"));
}

/// States of promises: measurements stand in the reports that they link to.
#[test]
fn a_promise_is_met_missed_or_pending() {
    let text = read(&crate::root().join("SPECIFICATION.md"));
    let is_promise = |line: &&str| {
        let id = line.strip_prefix("| ").and_then(|line| line.chars().nth(1));
        id.is_some_and(|c| c.is_ascii_digit())
    };
    let mut seen = 0;
    for line in text.lines().filter(is_promise) {
        let state = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        let linked =
            state.strip_prefix('[').and_then(|state| state.split_once("](")?.1.strip_suffix(')'));
        let word = state.trim_start_matches('[').split(']').next().unwrap_or_default();
        assert!(matches!(word, "met" | "missed" | "pending"), "{line}");
        assert!(word == "met" && state == "met" || linked.is_some(), "no link: {line}");
        seen += 1;
    }
    assert!(seen > 100, "only {seen} promises");
}

#[test]
fn the_code_map_has_every_crate() {
    let map = read(&crate::root().join("ARCHITECTURE.md"));
    for entry in std::fs::read_dir(crate::root().join("crates")).expect("there are crates") {
        let name = entry.expect("an entry").file_name().into_string().expect("ASCII");
        assert!(map.contains(&format!("| `crates/{name}` |")), "{name}");
    }
}

/// The folder of a package of the workspace.
fn package(name: &str) -> Option<PathBuf> {
    let manifest = |path: &PathBuf| read(path).contains(&format!("\nname = \"{name}\"\n"));
    tracked("*Cargo.toml").into_iter().find(manifest)?.parent().map(Path::to_path_buf)
}

#[test]
fn tests_behind_promises_exist() {
    let mut seen = 0;
    for (path, text) in documents() {
        for command in code_words(&text).filter_map(|word| word.strip_prefix("cargo test -p ")) {
            let mut words = command.split(' ');
            let name = words.next().expect("a package is named");
            let folder = package(name).unwrap_or_else(|| panic!("{}: {command}", path.display()));
            if let Some(filter) = words.next().filter(|word| !word.starts_with('-')) {
                let sources = tracked(&format!("{}/*.rs", folder.display()));
                // A function, or a module of the file or in it, as the test runner names it.
                let named = |path: &&PathBuf| {
                    let text = read(path);
                    let file = path.with_extension("");
                    let has = |begin, end| between(&text, begin, end).any(|n| n.contains(filter));
                    file.ends_with(filter)
                        || has("fn ", '(')
                        || has("mod ", ';')
                        || has("mod ", ' ')
                };
                assert!(
                    sources.iter().any(|path| named(&path)),
                    "{}: nothing is called {filter} in {name}",
                    path.display()
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 5, "the documents name the tests behind promises");
}

/// The sources of a crate as one text, in which continued lines of texts are joined.
fn sources(package: &str) -> String {
    let files = tracked(&format!("crates/{package}/src/*.rs"));
    let text: String = files.iter().map(|path| read(path)).collect();
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

/// What stands between the words of a line that the document has in capitals for what is filled in.
fn fixed_parts(line: &str) -> Vec<String> {
    let is_filled_in = |word: &&str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        matches!(bare, "N" | "NAME" | "OTHER" | "FUNCTION")
    };
    let words: Vec<&str> = line.split(' ').collect();
    let parts = words.split(is_filled_in).map(|part| part.join(" "));
    parts.filter(|part| part.len() > 4).collect()
}

/// Lines in the tables of troubleshooting are lines that the code writes.
#[test]
fn lines_in_troubleshooting_are_written_by_the_code() {
    let text = read(&crate::root().join("docs/troubleshooting.md"));
    let code: String = ["client", "control", "server", "openmps"].map(sources).concat();
    let (_, tables) = text.split_once("## By line on").expect("the page has that heading");
    let mut seen = 0;
    for row in tables.lines().filter(|row| row.starts_with("| `")) {
        let cell = row.trim_start_matches("| ").split(" | ").next().expect("a row has cells");
        for part in code_words(cell).flat_map(fixed_parts) {
            assert!(code.contains(&part), "{part:?} is written nowhere");
            seen += 1;
        }
    }
    assert!(seen > 15, "only {seen} lines");
}

/// The page on NVIDIA's MPS has every variable of it, every command, option and module.
#[test]
fn the_page_on_migration_is_complete() {
    let page = read(&crate::root().join("docs/migrate.md"));
    let is_mps =
        |name: &&str| name.starts_with("CUDA_MPS_") || *name == "CUDA_DEVICE_MAX_CONNECTIONS";
    let variables = cuda_api::environment::VARIABLES.iter().map(|row| row.name).filter(is_mps);
    let table = read(&crate::root().join("crates/control/src/command/mod.rs"));
    let commands = table.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("    \"")?.split_once('"')?;
        (rest.contains("\" anyone") || rest.contains("\" owner")).then_some(name)
    });
    let options = read(&crate::root().join("crates/control/src/options/parse.rs"));
    let options: Vec<&str> =
        between(&options, "shown: \"", '"').filter(|shown| !shown.is_empty()).collect();
    let options = options.iter().map(|shown| shown.split([',', ' ']).next().unwrap_or_default());
    let v3 = read(&crate::root().join("crates/control/src/v3/command/mod.rs"));
    let modules = v3.lines().filter_map(|line| {
        line.strip_prefix("    \"")?.split_once("\" \"").map(|(module, _)| module)
    });
    let names: Vec<&str> = variables.chain(commands).chain(options).chain(modules).collect();
    assert!(names.len() > 60, "only {} names", names.len());
    for name in names {
        let there = code_words(&page).any(|word| word.split(' ').next() == Some(name));
        assert!(there, "docs/migrate.md lacks {name}");
    }
}
