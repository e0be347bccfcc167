//! The commands of protocol 3, `<module> <verb>`: one table, from which parsing, privilege and help come.

mod client;
mod device;
mod feature;
mod namespace;
mod partition;
mod server;
mod table;

use crate::command::request::{Failure, Request};
use std::fmt::Write;

type Outcome = Result<String, Failure>;

/// One verb of a module.
struct Verb {
    module: &'static str,
    verb: &'static str,
    /// Its words without a key, as help shows them; those in brackets may be left out.
    words: &'static [&'static str],
    /// Its `key=value`, by key, and what help says of the value.
    options: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
    /// Only root and the daemon's owner may give it.
    privileged: bool,
    help: &'static str,
    run: fn(&Call<'_>) -> Outcome,
}

/// A verb as it was given: its words, options and flags are those of the table.
struct Call<'a> {
    request: &'a Request<'a>,
    words: Vec<&'a str>,
    options: Vec<(&'static str, &'a str)>,
    flags: Vec<&'static str>,
}

impl<'a> Call<'a> {
    fn option(&self, key: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// An option that the verb cannot do without.
    fn wanted(&self, key: &str) -> Result<&'a str, Failure> {
        self.option(key).ok_or_else(|| Failure(format!("--{key}=... is wanted")))
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The word at a place, if it was given.
    fn word(&self, place: usize) -> Option<&'a str> {
        self.words.get(place).copied()
    }

    /// The word at a place that the table says is always there.
    fn at(&self, place: usize) -> &'a str {
        self.words.get(place).copied().unwrap_or_default()
    }

    fn format(&self) -> Result<table::Format, Failure> {
        table::Format::parse(self.option("format"))
    }
}

const FORMAT: (&str, &str) = ("format", "table|csv[,noheader]");
const SERVER: (&str, &str) = ("server", "name");
const MEMORY: (&str, &str) = ("pinned-memory-limit", "4G|none");
const SHARE: (&str, &str) = ("active-thread-percentage", "1..100");
const PRIORITY: (&str, &str) = ("client-priority", "0|1");
const WEIGHT: (&str, &str) = ("timeslice-pct", "1..100");
const DOMAINS: (&str, &str) = ("locality-domains", "false");
const DEVICE: (&str, &str) = ("device", "ordinal|uuid");

macro_rules! verbs {
    ($($module:literal $verb:literal [$($word:literal)*] [$($option:expr),*] [$($flag:literal)*]
        $who:ident $run:expr, $help:literal;)*) => {
        const VERBS: &[Verb] = &[$(Verb {
            module: $module,
            verb: $verb,
            words: &[$($word),*],
            options: &[$($option),*],
            flags: &[$($flag),*],
            privileged: verbs!(@ $who),
            help: $help,
            run: $run,
        }),*];
    };
    (@ anyone) => { false };
    (@ owner) => { true };
}

verbs! {
    "server" "create" ["<name>"] [("uid", "N"), ("allowed-devices", "uuid|ordinal,..."), DOMAINS] []
        owner server::create, "Make a server and start it";
    "server" "delete" ["<name>"] [] ["force"] owner server::delete,
        "End a server; --force: with its clients";
    "server" "list" ["[<name>]"] [FORMAT] [] anyone server::list, "Print the servers";
    "server" "set" ["<name>"] [("uid", "N"), MEMORY, SHARE, DOMAINS, PRIORITY, WEIGHT] []
        owner server::set, "Change what clients to come of a server are given";
    "server" "get" ["<name>" "<field>"] [] [] anyone server::get, "Print a field of `server list`";
    "namespace" "create" ["<namespace>"] [SERVER] [] owner namespace::create,
        "Make a namespace of a server";
    "namespace" "delete" ["<namespace>"] [SERVER] ["force"] owner namespace::delete,
        "Take a namespace away; --force: terminate its clients";
    "namespace" "list" ["[<namespace>]"] [SERVER, FORMAT] [] anyone namespace::list,
        "Print the namespaces";
    "namespace" "set" ["<namespace>"] [SERVER, MEMORY, SHARE, PRIORITY, WEIGHT, DEVICE,
        ("memory-limit", "4G|none"), ("memory-guarantee", "4G|none"), ("clients", "N|none"),
        ("sm-partition", "name|none"), ("cgroup", "/path"), ("cgroup-depth", "N")] [] owner namespace::set,
        "Change what clients to come of a namespace are given; --memory-limit and --memory-guarantee apply to all of \
         them together, those that run too; --device: on one device";
    "namespace" "get" ["<namespace>" "<server>" "<field>"] [] [] anyone namespace::get,
        "Print a field of `namespace list`";
    "client" "list" [] [SERVER, FORMAT] ["all"] anyone client::list,
        "Print the clients, one row a process; --all: a row for each of its devices";
    "client" "get" ["<pid>" "<field>"] [] [] anyone client::get,
        "Print pid, server, device, pci-id, linux-ns, maws-ns or cmd of a client";
    "client" "terminate" ["<pid>"] [] [] owner client::terminate,
        "Destroy what a client has on its devices; then it is safe to kill it";
    "device" "list" [] [SERVER, FORMAT] [] anyone device::list,
        "Print the devices, and which server's clients see which";
    "sm-partition" "create" ["<name>"] [SERVER, DEVICE, ("chunks", "N"),
        ("include-remainder", "true|false"), ("shareable", "true|false"), ("max-chunks", "N")] [] owner partition::create,
        "Give chunks of a device's SMs to clients of a server that name the partition";
    "sm-partition" "delete" ["<name>"] [SERVER, DEVICE] [] owner partition::delete,
        "Take a partition away";
    "sm-partition" "list" [] [SERVER, DEVICE, FORMAT] ["all"] anyone partition::list,
        "Print the partitions; --all: what is unallocated too";
    "feature" "enable" ["<memacct|context-share>"] [] [] owner feature::enable, "Switch a feature on";
    "feature" "disable" ["<memacct|context-share>"] [] [] owner feature::disable,
        "Switch a feature off";
    "feature" "describe" ["[<feature>]"] [FORMAT] [] anyone feature::describe, "Print the features";
    "memacct" "set" [] [("audit_log", "true|false")] [] owner feature::memacct_set,
        "Set whether control.log says what memory accounting does";
    "memacct" "limit" ["<cgroup>"] [DEVICE, ("soft-limit", "1G|none"), ("hard-limit", "4G|none")] []
        owner feature::memacct_limit,
        "Limit the device memory of a cgroup's programs to come; none of both takes limits away";
    "memacct" "list" [] [FORMAT] [] owner feature::memacct_list,
        "Print the limits of cgroups and the memory of their programs";
    "memacct" "describe" [] [FORMAT] [] anyone feature::memacct_describe,
        "Print how memory is accounted for";
}

impl Verb {
    fn usage(&self) -> String {
        let mut text = format!("{} {}", self.module, self.verb);
        for word in self.words {
            let _ = write!(text, " {word}");
        }
        for (key, value) in self.options {
            let _ = write!(text, " [--{key}={value}]");
        }
        for flag in self.flags {
            let _ = write!(text, " [--{flag}]");
        }
        text
    }
}

/// The commands, two lines each.
pub(crate) fn help() -> String {
    help_of(|_| true)
}

fn help_of(wanted: impl Fn(&Verb) -> bool) -> String {
    let verbs = VERBS.iter().filter(|verb| wanted(verb));
    verbs.fold(String::new(), |mut text, verb| {
        let _ = writeln!(text, "  {}\n      {}", verb.usage(), verb.help);
        text
    })
}

/// Whether a word is a module's name.
pub(crate) fn is_module(word: &str) -> bool {
    VERBS.iter().any(|verb| verb.module == word)
}

/// Carries out a command whose first word is `module`.
pub(crate) fn run(module: &str, request: &Request<'_>) -> Outcome {
    let (verb, rest) = match request.arguments.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => return Ok(help_of(|verb| verb.module == module)),
        [verb, rest @ ..] => (*verb, rest),
    };
    let known = || VERBS.iter().filter(|row| row.module == module);
    let Some(row) = known().find(|row| row.verb == verb) else {
        let verbs: Vec<&str> = known().map(|row| row.verb).collect();
        return Err(Failure(format!(
            "Unknown verb \"{verb}\" of {module}: it has {}",
            verbs.join(", ")
        )));
    };
    if matches!(rest, ["help" | "--help" | "-h", ..]) {
        return Ok(help_of(|of| (of.module, of.verb) == (module, verb)));
    }
    if row.privileged && !request.owner {
        return Err(Failure(format!("{module} {verb} is only for {}", request.owner_text())));
    }
    (row.run)(&parse(row, rest, request)?)
}

fn parse<'a>(row: &Verb, words: &[&'a str], request: &'a Request<'a>) -> Result<Call<'a>, Failure> {
    let mut call = Call { request, words: Vec::new(), options: Vec::new(), flags: Vec::new() };
    let usage = |reason: String| Failure(format!("{reason}\nusage: {}", row.usage()));
    for word in words {
        let bare = word.strip_prefix("--");
        let key = |name: &str| row.options.iter().map(|(key, _)| *key).find(|key| *key == name);
        match bare.unwrap_or(word).split_once('=') {
            Some((name, value)) => match key(name) {
                Some(key) if !value.is_empty() => call.options.push((key, value)),
                Some(_) => return Err(usage(format!("{word:?} lacks its value"))),
                None => return Err(usage(format!("{name:?} is no option of this command"))),
            },
            None => match bare {
                None => call.words.push(word),
                Some(name) => match row.flags.iter().find(|flag| **flag == name) {
                    Some(flag) => call.flags.push(flag),
                    None => return Err(usage(format!("{word:?} is no flag of this command"))),
                },
            },
        }
    }
    let least = row.words.iter().filter(|word| !word.starts_with('[')).count();
    if !(least..=row.words.len()).contains(&call.words.len()) {
        return Err(usage(format!("{} words were given", call.words.len())));
    }
    Ok(call)
}

/// Reads `true` or `false`.
fn boolean(key: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(Failure(format!("{key} is true or false, not {value:?}"))),
    }
}

/// The value of the field that a command asks for, of a row of a list. Its words are joined by `-` or `_`.
fn field(header: &[&str], row: &[String], wanted: &str) -> Outcome {
    let place = header.iter().position(|name| *name == wanted.replace('_', "-"));
    let value = place.and_then(|place| row.get(place));
    value.map(|value| format!("{value}\n")).ok_or_else(|| {
        Failure(format!("{wanted:?} is no field of it: there are {}", header.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_one_a_name() {
        for (index, row) in VERBS.iter().enumerate() {
            let same = |of: &Verb| (of.module, of.verb) == (row.module, row.verb);
            assert!(!VERBS[..index].iter().any(same), "{} {}", row.module, row.verb);
            assert!(!row.help.ends_with('.') && help().contains(row.help));
        }
        assert!(is_module("sm-partition") && !is_module("ps"));
    }
}
