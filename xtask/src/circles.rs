//! Circular dependencies: files of a crate that name each other, found in their paths, as ordinary tests.
//!
//! A file depends on the file in which what it names is declared: through `use`, or by a path in its code, also in
//! macros; and on those that pass the name on (`pub use`) on its way there. A parent file that declares its modules and
//! passes their names on depends on nothing by that. Tests are left out, and methods are not followed: a method that a
//! file calls is no name that it takes from another file. A circle is a largest set of files each of which depends, by
//! way of others, on each other. ARCHITECTURE.md has a table of those that stay, with reasons.

use crate::tidy::{read, tracked};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Circles that the repository may have at most.
const CIRCLES_MAX: usize = 4;

/// Where the sources of crates with modules are.
const SOURCES: &[&str] =
    &["crates/*/src", "bench/kernels/src", "samples/src", "tests/src", "xtask/src"];

type Names = Vec<String>;

/// A module: a file, or a `mod name { ... }` in one.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// What `use` brings in: the name here, the path.
    imports: Vec<(String, Names)>,
    /// Modules of which all names are brought in.
    globs: Vec<Names>,
    /// Paths in its code, in full.
    paths: BTreeSet<Names>,
    /// All names in its code but for those in `use`.
    words: BTreeSet<String>,
}

#[derive(Default)]
struct Package {
    files: Vec<PathBuf>,
    modules: Vec<Module>,
}

impl Package {
    /// Reads a file and those of its modules. `folder` is where those are.
    fn add_file(&mut self, path: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let file = self.files.len();
        self.files.push(path.to_path_buf());
        let tokens = TokenStream::from_str(&read(path))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.add_module(Module { file, parent, ..Module::default() }, folder, tokens)
    }

    fn add_module(&mut self, module: Module, folder: &Path, tokens: TokenStream) -> usize {
        let number = self.modules.len();
        self.modules.push(module);
        self.read_tokens(number, folder, &tokens.into_iter().collect::<Vec<_>>());
        number
    }

    fn read_tokens(&mut self, module: usize, folder: &Path, tokens: &[TokenTree]) {
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += if is_test_attribute(rest) {
                item_length(rest)
            } else if is_word(&rest[0], "use") && rest.len() > 1 && !is_group(&rest[1]) {
                self.read_use(module, rest)
            } else if is_word(&rest[0], "mod") && rest.len() > 2 {
                self.read_mod(module, folder, rest)
            } else {
                self.read_path(module, folder, rest)
            };
        }
    }

    /// A path, or one token. Returns the tokens taken.
    fn read_path(&mut self, module: usize, folder: &Path, tokens: &[TokenTree]) -> usize {
        match &tokens[0] {
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                self.read_tokens(module, folder, &inside);
                1
            }
            TokenTree::Ident(first) => {
                let mut path = vec![first.to_string()];
                let mut at = 1;
                while is_double_colon(&tokens[at..])
                    && let Some(TokenTree::Ident(next)) = tokens.get(at + 2)
                {
                    path.push(next.to_string());
                    at += 3;
                }
                let module = &mut self.modules[module];
                module.words.extend(path.iter().cloned());
                module.paths.insert(path);
                at
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
        }
    }

    fn read_use(&mut self, module: usize, tokens: &[TokenTree]) -> usize {
        let length = tokens.iter().position(|token| is_punct(token, ';')).unwrap_or(tokens.len());
        self.read_use_tree(module, &tokens[1..length], &Names::new());
        length + 1
    }

    fn read_use_tree(&mut self, module: usize, tokens: &[TokenTree], before: &Names) {
        for tree in tokens.split(|token| is_punct(token, ',')) {
            let mut path = before.clone();
            let mut alias = None;
            let mut tree = tree.iter().peekable();
            while let Some(token) = tree.next() {
                match token {
                    TokenTree::Ident(word) if *word == "as" => {
                        alias = tree.next().map(ToString::to_string);
                    }
                    TokenTree::Ident(word) => path.push(word.to_string()),
                    TokenTree::Punct(star) if star.as_char() == '*' => {
                        self.modules[module].globs.push(std::mem::take(&mut path));
                    }
                    TokenTree::Group(list) => {
                        let list: Vec<TokenTree> = list.stream().into_iter().collect();
                        self.read_use_tree(module, &list, &path);
                        path.clear();
                    }
                    TokenTree::Punct(_) | TokenTree::Literal(_) => {}
                }
            }
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            if let Some(last) = path.last() {
                let name = alias.unwrap_or_else(|| last.clone());
                self.modules[module].imports.push((name, path));
            }
        }
    }

    fn read_mod(&mut self, module: usize, folder: &Path, tokens: &[TokenTree]) -> usize {
        let name = tokens[1].to_string();
        let child = match &tokens[2] {
            TokenTree::Group(inside) => {
                let file = self.modules[module].file;
                let child = Module { file, parent: Some(module), ..Module::default() };
                self.add_module(child, &folder.join(&name), inside.stream())
            }
            _ => {
                let inside = folder.join(&name);
                let paths = [inside.with_extension("rs"), inside.join("mod.rs")];
                let Some(path) = paths.iter().find(|path| path.is_file()) else { return 3 };
                self.add_file(path, &inside, Some(module))
            }
        };
        self.modules[module].children.insert(name, child);
        3
    }

    /// The modules in which `module` finds what `path` names, if that is in this package: those that pass it on, and
    /// last the one that declares it.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Vec<usize>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.inside(0, rest, depth),
            "self" => self.inside(module, rest, depth),
            "super" => {
                let parent = self.modules[module].parent?;
                match rest.first() {
                    Some(next) if next == "super" => self.resolve(parent, rest, depth),
                    _ => self.inside(parent, rest, depth),
                }
            }
            name => {
                let is_known = self.modules[module].children.contains_key(name)
                    || self.modules[module].imports.iter().any(|(alias, _)| alias == name);
                if is_known { self.inside(module, path, depth) } else { None }
            }
        }
    }

    /// The same for names looked up in `module` itself.
    fn inside(&self, module: usize, path: &[String], depth: usize) -> Option<Vec<usize>> {
        let Some((first, rest)) = path.split_first() else { return Some(vec![module]) };
        let here = &self.modules[module];
        if let Some(child) = here.children.get(first) {
            // Of a function and a module of one name the path means the function, if it ends here.
            return self.inside(*child, rest, depth);
        }
        let passed_on = |mut found: Vec<usize>| {
            found.insert(0, module);
            found
        };
        let mut imports = here.imports.iter().filter(|(alias, _)| alias == first);
        if depth < 8
            && let Some((_, import)) = imports.next()
        {
            let path: Names = import.iter().chain(rest).cloned().collect();
            // A name of another package that is passed on.
            return self.resolve(module, &path, depth + 1).map(passed_on);
        }
        if depth < 8 && !here.words.contains(first) {
            for glob in &here.globs {
                let path: Names = glob.iter().chain(path).cloned().collect();
                let found = self.resolve(module, &path, depth + 1);
                let declares = |found: &Vec<usize>| {
                    found.last().is_some_and(|last| self.modules[*last].words.contains(first))
                };
                if let Some(found) = found.filter(declares) {
                    return Some(passed_on(found));
                }
            }
        }
        Some(vec![module])
    }

    /// Whether `module` is declared in the file of `outer`, or within what is.
    fn is_around(&self, outer: usize, module: usize) -> bool {
        let file = self.modules[outer].file;
        let parent = |module: &usize| self.modules[*module].parent;
        std::iter::successors(Some(module), parent).any(|m| self.modules[m].file == file)
    }

    /// The files that each file depends on, with a name that it takes.
    fn dependencies(&self) -> Vec<BTreeMap<usize, BTreeSet<String>>> {
        let mut found = vec![BTreeMap::<usize, BTreeSet<String>>::new(); self.files.len()];
        for (number, module) in self.modules.iter().enumerate() {
            let used = module.imports.iter().filter(|(name, path)| {
                // A trait whose methods are called need not be named.
                let is_trait = path.last().is_some_and(|last| *last != *name) && name == "_";
                is_trait || module.words.contains(name)
            });
            let used = used.map(|(_, path)| path).chain(&module.globs).chain(&module.paths);
            for path in used {
                for there in self.resolve(number, path, 0).into_iter().flatten() {
                    let is_around = self.is_around(there, number);
                    let there = self.modules[there].file;
                    if there != module.file && !is_around {
                        let name = path.last().cloned().unwrap_or_default();
                        found[module.file].entry(there).or_default().insert(name);
                    }
                }
            }
        }
        found
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if *ident == word)
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

fn is_group(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(_))
}

fn is_double_colon(tokens: &[TokenTree]) -> bool {
    tokens.len() > 1 && is_punct(&tokens[0], ':') && is_punct(&tokens[1], ':')
}

/// `#[cfg(test)]`, alone or within `all(...)`, or `#[test]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else { return false };
    let text = attribute.stream().to_string().replace(' ', "");
    is_punct(hash, '#') && ["cfg(test", "cfg(all(test"].iter().any(|begin| text.starts_with(begin))
}

/// The tokens of an item with its attributes: to its `;` or its block.
fn item_length(tokens: &[TokenTree]) -> usize {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => is_punct(token, ';'),
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
}

/// The sets of files that depend on each other, as numbers.
fn circles(dependencies: &[BTreeMap<usize, BTreeSet<String>>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..dependencies.len())
        .map(|file| {
            let mut seen = BTreeSet::new();
            let mut next = vec![file];
            while let Some(file) = next.pop() {
                next.extend(dependencies[file].keys().filter(|file| seen.insert(**file)));
            }
            seen
        })
        .collect();
    let mut found: Vec<Vec<usize>> = (0..dependencies.len())
        .filter(|file| reached[*file].contains(file))
        .map(|file| {
            reached[file].iter().filter(|f| reached[**f].contains(&file)).copied().collect()
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A circle: its files, relative to the repository's root, and its arrows, one a line.
struct Circle {
    files: BTreeSet<String>,
    arrows: Vec<String>,
}

fn circles_of(package: &Package) -> Vec<Circle> {
    let dependencies = package.dependencies();
    let root = crate::root();
    let name = |file: &usize| {
        let path = &package.files[*file];
        path.strip_prefix(&root).unwrap_or(path).display().to_string()
    };
    let describe = |circle: Vec<usize>| {
        let arrows = circle.iter().flat_map(|from| {
            let to = dependencies[*from].iter().filter(|(to, _)| circle.contains(to));
            to.map(|(to, names)| {
                let names = names.iter().cloned().collect::<Vec<_>>().join(", ");
                format!("{} -> {}: {names}", name(from), name(to))
            })
        });
        Circle { files: circle.iter().map(name).collect(), arrows: arrows.collect() }
    };
    circles(&dependencies).into_iter().map(describe).collect()
}

/// All circles of the repository.
fn all_circles() -> Vec<Circle> {
    let roots = SOURCES.iter().flat_map(|source| {
        tracked(&format!("{source}/lib.rs"))
            .into_iter()
            .chain(tracked(&format!("{source}/main.rs")))
    });
    let of_root = |path: PathBuf| {
        let mut package = Package::default();
        package.add_file(&path, path.parent().expect("a file is in a folder"), None);
        circles_of(&package)
    };
    roots.flat_map(of_root).collect()
}

/// The rows of ARCHITECTURE's table of circles: the files and folders (with a slash at the end) that may be in it.
fn allowed() -> Vec<Vec<String>> {
    let text = read(&crate::root().join("ARCHITECTURE.md"));
    let (_, table) =
        text.split_once("\n| circle of files | reason |\n").expect("a table of circles");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let files = row.split('|').nth(1).unwrap_or_default();
        files.split('`').skip(1).step_by(2).map(|file| format!("crates/{file}")).collect()
    })
    .collect()
}

#[test]
fn circles_of_files_have_a_reason() {
    let allowed = allowed();
    let is_in = |file: &String, row: &Vec<String>| {
        row.iter().any(|place| file == place || (place.ends_with('/') && file.starts_with(place)))
    };
    let circles = all_circles();
    let mut complaints = Vec::new();
    let mut found = vec![Vec::new(); allowed.len()];
    for circle in &circles {
        let row = allowed.iter().position(|row| circle.files.iter().all(|file| is_in(file, row)));
        match row {
            Some(row) => found[row].push(circle.arrows.join("\n  ")),
            None => complaints.push(format!("a circle:\n  {}", circle.arrows.join("\n  "))),
        }
    }
    for (row, found) in allowed.iter().zip(found) {
        if found.len() != 1 {
            let row = row.join(", ");
            let arrows = found.join("\n\n  ");
            complaints
                .push(format!("{} circles in {row}, the row of one:\n  {arrows}", found.len()));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(circles.len() <= CIRCLES_MAX, "{} circles", circles.len());
}
