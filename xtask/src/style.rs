//! Style test: documents for users have short sentences, short table cells, links that resolve and no retired words,
//! as ordinary tests.
//!
//! Not here: whether what they say is true, and files that documents name ([`crate::documents`]). `--help` texts are
//! read as `docs/reference/commands.md`, which a test of crate `openmps` compares with them.

use crate::tidy::{read, tracked};
use crate::words::{RETIRED_WORDS, found_in};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Words of the longest sentence.
const SENTENCE_WORDS_MAX: usize = 40;

/// Mean words of a document's sentences must be below.
const SENTENCE_WORDS_MEAN: f64 = 20.0;

/// Characters of the longest cell of a table.
const CELL_CHARS_MAX: usize = 160;

/// Words of `docs/scheduling.md`.
const SCHEDULING_WORDS_MAX: usize = 1500;

/// Documents for users, beside all of `docs/`.
const FOR_USERS: &[&str] = &["README.md", "SECURITY.md", "SPECIFICATION.md", "CONTRIBUTING.md"];

/// A document as readers see it.
#[derive(Default)]
struct Prose {
    /// Sentences of paragraphs and list items, with their lines from 1.
    sentences: Vec<(usize, String)>,
    /// Cells of tables, likewise.
    cells: Vec<(usize, String)>,
    /// Anchors of headings.
    anchors: BTreeSet<String>,
}

/// The anchor that Markdown gives a heading.
fn anchor(heading: &str) -> String {
    let text = without_links(heading).replace('`', "");
    let kept = text.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A text with the words of its links in the links' places.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain.replace(['[', '!'], "")
}

/// What is in backquotes, as one word.
fn with_short_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { "`code`" }).collect()
}

/// The sentences of a paragraph: a full stop, question or exclamation mark ends one before a space.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let last = sentences.last_mut().expect("one is there");
        last.push_str(word);
        last.push(' ');
        if word.trim_end_matches([')', '"', '*', '_']).ends_with(['.', '?', '!']) {
            sentences.push(String::new());
        }
    }
    sentences.retain(|sentence| word_count(sentence) > 0);
    sentences
}

fn word_count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

/// The mark of a list item, if the line begins one, removed.
fn list_item(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let numbered = line.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok());
    let marked = line.strip_prefix("* ").or_else(|| line.strip_prefix("- "));
    marked.or(numbered.map(|(_, item)| item))
}

fn prose(text: &str) -> Prose {
    let mut prose = Prose::default();
    let (mut paragraph, mut first_line) = (String::new(), 0);
    let (mut is_code, mut is_comment) = (false, false);
    let end = |paragraph: &mut String, first_line: usize, prose: &mut Prose| {
        let plain = with_short_code(&without_links(paragraph));
        prose.sentences.extend(sentences(&plain).into_iter().map(|text| (first_line, text)));
        paragraph.clear();
    };
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            end(&mut paragraph, first_line, &mut prose);
            continue;
        }
        if line.trim_start().starts_with("<!--") {
            is_comment = true;
        }
        let is_left_out = is_code || is_comment || line.starts_with("    ");
        if is_comment && line.contains("-->") {
            is_comment = false;
        }
        if is_left_out || line.trim().is_empty() || line.starts_with('#') || line.starts_with('|') {
            end(&mut paragraph, first_line, &mut prose);
        }
        if is_left_out || line.trim().is_empty() {
            continue;
        }
        if let Some(heading) = line.strip_prefix('#') {
            prose.anchors.insert(anchor(heading.trim_start_matches('#')));
        } else if line.starts_with('|') {
            let line = line.replace("\\|", "/");
            let cells =
                line.trim_matches('|').split('|').map(|cell| (number, cell.trim().to_owned()));
            prose.cells.extend(cells);
        } else {
            let item = list_item(line);
            if item.is_some() {
                end(&mut paragraph, first_line, &mut prose);
            }
            if paragraph.is_empty() {
                first_line = number;
            }
            paragraph.push_str(item.unwrap_or(line));
            paragraph.push(' ');
        }
    }
    end(&mut paragraph, first_line, &mut prose);
    prose
}

/// The documents that are held to the style, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let root = crate::root();
    let mut paths = tracked("docs/*.md");
    paths.extend(FOR_USERS.iter().map(|name| root.join(name)));
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Complaints about the lengths of sentences and cells of one document.
fn too_long(text: &str) -> Vec<(usize, String)> {
    let prose = prose(text);
    let mut complaints = Vec::new();
    let of_cells = prose.cells.iter().flat_map(|(line, cell)| {
        sentences(&with_short_code(&without_links(cell))).into_iter().map(|text| (*line, text))
    });
    for (line, sentence) in prose.sentences.iter().cloned().chain(of_cells) {
        let words = word_count(&sentence);
        if words > SENTENCE_WORDS_MAX {
            complaints.push((line, format!("a sentence of {words} words: {sentence}")));
        }
    }
    for (line, cell) in &prose.cells {
        let chars = without_links(cell).chars().count();
        if chars > CELL_CHARS_MAX {
            complaints.push((*line, format!("a cell of {chars} characters: {cell}")));
        }
    }
    let words: usize = prose.sentences.iter().map(|(_, sentence)| word_count(sentence)).sum();
    let mean = words as f64 / prose.sentences.len().max(1) as f64;
    if mean >= SENTENCE_WORDS_MEAN {
        complaints.push((1, format!("sentences have {mean:.1} words on the average")));
    }
    complaints
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn sentences_and_cells_are_short() {
    let mut complaints = Vec::new();
    for (path, text) in documents() {
        let found = too_long(&text);
        complaints
            .extend(found.iter().map(|(line, why)| format!("{}:{line}: {why}", path.display())));
    }
    assert_none(&complaints);
}

#[test]
fn the_page_on_scheduling_is_short() {
    let words = word_count(&read(&crate::root().join("docs/scheduling.md")));
    assert!(words <= SCHEDULING_WORDS_MAX, "docs/scheduling.md has {words} words");
}

#[test]
fn documents_have_no_retired_words() {
    let mut complaints = Vec::new();
    for (path, text) in documents() {
        let mut is_code = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_code ^= line.trim_start().starts_with("```");
            if is_code || line.trim_start().starts_with("<!--") {
                continue;
            }
            // Paths of links are names too.
            for word in found_in(&without_links(line), RETIRED_WORDS) {
                complaints.push(format!("{}:{number}: {word}", path.display()));
            }
        }
    }
    assert_none(&complaints);
}

/// The links of a text: what stands between `](` and `)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

#[test]
fn links_into_documents_resolve() {
    let mut complaints = Vec::new();
    for path in tracked("*.md").into_iter().filter(|path| !path.ends_with("report.md")) {
        let text = read(&path);
        for link in links(&text).filter(|link| link.contains('#') && !link.contains("://")) {
            let (file, wanted) = link.split_once('#').expect("it was looked for");
            let target = match file {
                "" => path.clone(),
                _ => path.parent().unwrap_or(Path::new("")).join(file),
            };
            let is_there = target.extension().is_none_or(|ending| ending != "md")
                || (target.is_file() && prose(&read(&target)).anchors.contains(wanted));
            if !is_there {
                complaints.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_none(&complaints);
}

/// A link out of `docs/` leads nowhere in the book.
#[test]
fn links_of_the_book_stay_in_it() {
    let docs = crate::root().join("docs");
    let mut complaints = Vec::new();
    for path in tracked("docs/*.md") {
        let folder = path.parent().expect("a page is in a folder");
        let depth = folder.strip_prefix(&docs).expect("it is in docs").components().count();
        for link in links(&read(&path)).filter(|link| !link.contains("://")) {
            if link.matches("../").count() > depth {
                complaints.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_none(&complaints);
}

/// A page that the table of contents lacks is not in the book.
#[test]
fn the_book_has_every_page() {
    let docs = crate::root().join("docs");
    let contents = read(&docs.join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = links(&contents).map(|link| docs.join(link)).collect();
    for path in tracked("docs/*.md") {
        let is_contents = path.ends_with("SUMMARY.md");
        assert!(is_contents || listed.contains(&path), "{} is not in the book", path.display());
    }
}

#[test]
fn long_sentences_and_cells_are_found() {
    let long = "word ".repeat(41);
    let of = |text: &str| too_long(text).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(of("Short one. Another one.\n\n* an item\n"), [0; 0]);
    assert_eq!(of(&format!("# {long}\n\nShort.\n\n{long}.\n")), [5, 1], "too long, and the mean");
    assert_eq!(of(&format!("```text\n{long}\n```\n    {long}\n<!-- {long}\n{long} -->\n")), [0; 0]);
    assert_eq!(of(&format!("Short.\n\n| a | {long} |\n")), [3, 3], "a sentence, and a cell");
    assert_eq!(of(&format!("Short.\n\n* [{long}](x)\n* b\n* c\n* d\n")), [3]);
    assert_eq!(of(&format!("Code is `{long}` one word.\n")), [0; 0]);
    assert_eq!(of(&"Two words here. ".repeat(40)), [0; 0]);
}

#[test]
fn headings_have_the_anchors_of_markdown() {
    assert_eq!(anchor(" What `openmps ps` prints, [here](x)"), "what-openmps-ps-prints-here");
    assert_eq!(anchor("On an H200"), "on-an-h200");
}
