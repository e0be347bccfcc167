//! Linking: several PTX texts as one, as relocatable device code and cuLink* want it.
//!
//! Names with internal linkage stay the text's own: where two texts have the same one, it is
//! renamed. Of several `.weak` or `.common` definitions the first is taken, unless there is a
//! `.visible` one. An undefined name stays `.extern`: whether the device knows it is not
//! this module's business. Functions that no kernel reaches go: of a library, a program takes what
//! it uses. Nothing is compiled here.
//!
//! The joined text is for the newest target of its parts; each kernel of an older one says in a pragma
//! which it was made for ([`target_of`]), since programs choose their code by that.

use crate::ast::{Function, FunctionKind, Item, Linkage, Module, Name, Span, Statement};
use crate::{Errors, parse};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Most texts that are linked at once: programs have one a source file.
pub const LINK_TEXTS_MAX: usize = 4096;

/// Why texts cannot be linked.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// One of them is no PTX.
    #[error("input {index}: {errors}")]
    Parse {
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        errors: Errors,
    },
    /// Two definitions, neither of them weak.
    #[error("input {index} defines {name} again, which input {first} defines")]
    Duplicate {
        /// The name.
        name: String,
        /// The text that defines it first, from 0.
        first: usize,
        /// The text that does so again.
        index: usize,
    },
    /// More than [`LINK_TEXTS_MAX`], or none.
    #[error("{0} inputs, expected 1 to {LINK_TEXTS_MAX}")]
    Count(usize),
}

/// Start of the pragma that says what a kernel was made for.
const MADE_FOR: &str = "openmps: made for sm_";

/// The target that a function was made for: the module's, unless it was linked with others.
pub fn target_of(module: &Module, function: &Function) -> u32 {
    let pragmas = &function.directives.pragmas;
    let made_for = pragmas.iter().find_map(|pragma| pragma.strip_prefix(MADE_FOR)?.parse().ok());
    made_for.unwrap_or(module.target.sm)
}

/// Joins texts into one, in their order.
///
/// # Errors
/// A text that does not parse, a name that is defined twice, too many texts.
pub fn link(texts: &[&str]) -> Result<String, LinkError> {
    join(texts, false)
}

/// As [`link`], with the last text's definitions in the place of all others of their names.
///
/// # Errors
/// As [`link`].
pub fn link_over(texts: &[&str]) -> Result<String, LinkError> {
    join(texts, true)
}

fn join(texts: &[&str], last_wins: bool) -> Result<String, LinkError> {
    if texts.is_empty() || texts.len() > LINK_TEXTS_MAX {
        return Err(LinkError::Count(texts.len()));
    }
    let mut modules = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        modules.push(parse(text).map_err(|errors| LinkError::Parse { index, errors })?);
    }
    separate_internal_names(&mut modules);
    keep_one_definition(&mut modules, last_wins)?;
    drop_unreachable(&mut modules);
    Ok(print(&mut modules))
}

/// Something at module scope that has a name.
struct Symbol {
    name: Name,
    linkage: Linkage,
    defined: bool,
}

/// All of a module's, functions first.
fn symbols(module: &Module) -> impl Iterator<Item = Symbol> {
    let functions = module.functions.iter().enumerate().map(|(index, function)| Symbol {
        name: function.name,
        // Kernels are found by their names, regardless of their linkage.
        linkage: match (function.kind, function.linkage) {
            (FunctionKind::Entry, Linkage::Internal) => Linkage::Visible,
            (_, linkage) => linkage,
        },
        defined: function.body.is_some()
            || module.aliases.iter().any(|alias| alias.name.index() == index),
    });
    let variables = module.variables.iter().map(|variable| Symbol {
        name: variable.name,
        linkage: variable.linkage,
        defined: variable.linkage != Linkage::Extern,
    });
    functions.chain(variables)
}

/// Renames what has internal linkage and a name that another module uses too.
fn separate_internal_names(modules: &mut [Module]) {
    let mut users: HashMap<String, usize> = HashMap::new();
    for module in modules.iter() {
        for symbol in symbols(module) {
            *users.entry(module.name(symbol.name).to_owned()).or_default() += 1;
        }
    }
    for (index, module) in modules.iter_mut().enumerate() {
        let own: Vec<Name> = symbols(module)
            .filter(|symbol| symbol.linkage == Linkage::Internal)
            .map(|symbol| symbol.name)
            .filter(|name| users[module.name(*name)] > 1)
            .collect();
        for name in own {
            let mut new = format!("{}${index}", module.name(name));
            while users.contains_key(&new) {
                new.push('$');
            }
            users.insert(new.clone(), 1);
            rename(module, name, &new);
        }
    }
}

/// Spells a name differently wherever the module has it.
fn rename(module: &mut Module, name: Name, spelling: &str) {
    let start = module.source.len() as u32;
    module.source = format!("{}{spelling}", module.source).into();
    module.names[name.0 as usize] = Span { start, end: start + spelling.len() as u32 };
}

/// Of each name that is defined several times, turns all definitions but one into declarations.
/// With `last_wins` that is the last module's, if it has one.
fn keep_one_definition(modules: &mut [Module], last_wins: bool) -> Result<(), LinkError> {
    // Who defines a name, and whether weakly.
    let mut winners: HashMap<String, (usize, bool)> = HashMap::new();
    for (index, module) in modules.iter().enumerate() {
        for symbol in symbols(module).filter(|s| s.defined && s.linkage != Linkage::Internal) {
            let name = module.name(symbol.name).to_owned();
            let weak = matches!(symbol.linkage, Linkage::Weak | Linkage::Common);
            match winners.get(&name) {
                _ if last_wins && index + 1 == modules.len() => {
                    winners.insert(name, (index, false));
                }
                Some(&(first, false)) if !weak => {
                    return Err(LinkError::Duplicate { name, first, index });
                }
                Some(&(_, first_weak)) if !first_weak || weak => {}
                _ => {
                    winners.insert(name, (index, weak));
                }
            }
        }
    }
    for (index, module) in modules.iter_mut().enumerate() {
        let loses = |name: &str| winners.get(name).is_some_and(|(winner, _)| *winner != index);
        let losers: HashSet<Name> = symbols(module)
            .filter(|symbol| symbol.linkage != Linkage::Internal && loses(module.name(symbol.name)))
            .map(|symbol| symbol.name)
            .collect();
        for function in module.functions.iter_mut().filter(|f| losers.contains(&f.name)) {
            function.linkage = Linkage::Extern;
            function.body = None;
        }
        for variable in module.variables.iter_mut().filter(|v| losers.contains(&v.name)) {
            variable.linkage = Linkage::Extern;
            variable.init = None;
        }
        let lost: Vec<bool> =
            module.functions.iter().map(|function| losers.contains(&function.name)).collect();
        module.aliases.retain(|alias| !lost[alias.name.index()]);
        for item in &mut module.items {
            if let Item::Definition(id) = *item
                && lost[id.index()]
            {
                *item = Item::Declaration(id);
            }
        }
    }
    Ok(())
}

/// Drops functions that neither a kernel nor a variable's initial value leads to. What has to be
/// the same in all modules has the same name by now, and nothing else has.
fn drop_unreachable(modules: &mut [Module]) {
    let mut uses: HashMap<String, HashSet<String>> = HashMap::new();
    let mut to_visit: Vec<String> = Vec::new();
    for module in modules.iter() {
        let names: HashSet<&str> = module.functions.iter().map(|f| module.name(f.name)).collect();
        let mentioned = |text: &str| -> HashSet<String> {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)));
            words.filter(|word| names.contains(word)).map(str::to_owned).collect()
        };
        for &item in &module.items {
            match item {
                Item::Definition(id) => {
                    let name = module.name(module.function(id).name);
                    uses.entry(name.to_owned())
                        .or_default()
                        .extend(mentioned(&module.function_text(id)));
                    if module.function(id).kind == FunctionKind::Entry {
                        to_visit.push(name.to_owned());
                    }
                }
                Item::Variable(id) => to_visit.extend(mentioned(&module.variable_text(id))),
                Item::Declaration(_) => {}
            }
        }
        for alias in &module.aliases {
            let [name, target] =
                [alias.name, alias.target].map(|id| module.name(module.function(id).name));
            uses.entry(name.to_owned()).or_default().insert(target.to_owned());
        }
    }
    let mut reached: HashSet<String> = HashSet::new();
    while let Some(name) = to_visit.pop() {
        if reached.insert(name.clone()) {
            to_visit.extend(uses.get(&name).into_iter().flatten().cloned());
        }
    }
    for module in modules.iter_mut() {
        let live: Vec<bool> =
            module.functions.iter().map(|f| reached.contains(module.name(f.name))).collect();
        module.items.retain(|item| match item {
            Item::Declaration(id) | Item::Definition(id) => live[id.index()],
            Item::Variable(_) => true,
        });
        module.aliases.retain(|alias| live[alias.name.index()]);
    }
}

/// The modules one behind the other under one header. What is declared is not declared again.
fn print(modules: &mut [Module]) -> String {
    let mut text = String::new();
    let newest = modules.iter().map(|m| m.version).max().unwrap_or_default();
    let target = modules.iter().map(|m| &m.target).max_by_key(|t| (t.sm, t.suffix)).cloned();
    let address_size_bits = modules.iter().map(|m| m.address_size_bits).max().unwrap_or(64);
    let mut files = 0;
    let mut declared: HashSet<String> = HashSet::new();
    for (index, module) in modules.iter_mut().enumerate() {
        let own = module.target.sm;
        if target.as_ref().is_some_and(|target| target.sm != own) {
            note_target(module, own);
        }
        module.items = undeclared_items(module, &mut declared);
        files = number_files_from(module, files);
        if index == 0 {
            module.version = newest;
            module.target = target.clone().unwrap_or_default();
            module.address_size_bits = address_size_bits;
            let _ = write!(text, "{module}");
        } else {
            let _ = write!(text, "{}", module.content());
        }
    }
    text
}

/// Notes at each kernel what it was made for, unless that is known from an earlier linking.
fn note_target(module: &mut Module, sm: u32) {
    for kernel in module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Entry) {
        let pragmas = &mut kernel.directives.pragmas;
        if !pragmas.iter().any(|pragma| pragma.starts_with(MADE_FOR)) {
            pragmas.push(format!("{MADE_FOR}{sm}"));
        }
    }
}

/// The module's items without declarations of what is already known. Adds what it declares.
fn undeclared_items(module: &Module, declared: &mut HashSet<String>) -> Vec<Item> {
    let mut items = Vec::new();
    for &item in &module.items {
        let (name, only_declared) = match item {
            Item::Declaration(id) => (module.function(id).name, true),
            Item::Definition(id) => (module.function(id).name, false),
            Item::Variable(id) => {
                let variable = module.variable(id);
                (variable.name, variable.linkage == Linkage::Extern)
            }
        };
        let new = declared.insert(module.name(name).to_owned());
        if new || !only_declared {
            items.push(item);
        }
    }
    items
}

/// Gives the module's source files numbers after `last`; answers the new last one.
fn number_files_from(module: &mut Module, last: u32) -> u32 {
    let mut end = last;
    for file in &mut module.files {
        file.index = file.index.saturating_add(last);
        end = end.max(file.index);
    }
    let statements = module.functions.iter_mut().filter_map(|f| f.body.as_mut()).flatten();
    for statement in statements {
        if let Statement::Location(location) = statement {
            location.file = location.file.saturating_add(last);
        }
    }
    end
}
