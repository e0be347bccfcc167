//! Settings file, `/etc/openmps.toml`: what variables and options of a daemon would say, in one place.
//!
//! A key is a variable's name in lower case without its prefix, or an option's; the tables are made of
//! [`VARIABLES`]. A daemon is started with what the file says as if by variables and options, so nothing
//! else knows of it. Precedence, for each setting, from the strongest:
//!
//! 1. a command to the running daemon, until that is stopped: it is not written into the file
//! 2. an option of the command line
//! 3. a variable of the daemon's environment
//! 4. the settings file
//! 5. the default
//!
//! A daemon reads the file at its start and at SIGHUP. Programs do not read it.

use crate::error::ConfigurationError;
use crate::options;
use cuda_api::environment::{self, OPENMPS_CONFIG, VARIABLES, Values, Variable};
use cuda_api::nearest::nearest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Root's file.
pub const SYSTEM_PATH: &str = "/etc/openmps.toml";
/// The name of another user's file, in `$XDG_CONFIG_HOME` or `~/.config`.
const USER_NAME: &str = "openmps.toml";
/// Of a daemon: which file it was started with, and the names of the variables that come from it,
/// separated by commas. Set by the program itself.
pub(crate) const CONFIGURED: &str = "OPENMPS_CONFIGURED";

/// A table of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The daemon, and what it gives to programs.
    Daemon,
    /// Its servers.
    Server,
    /// The software GPU.
    SoftwareGpu,
}

impl Section {
    const ALL: [Self; 3] = [Self::Daemon, Self::Server, Self::SoftwareGpu];

    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Server => "server",
            Self::SoftwareGpu => "software_gpu",
        }
    }

    /// The table that a variable stands in; `None` for one that is not for the daemon and its servers.
    fn of(variable: &Variable) -> Option<Self> {
        // Programs look for the directory too, and the file itself is named by a variable.
        if [environment::CUDA_MPS_PIPE_DIRECTORY, OPENMPS_CONFIG].contains(&variable.name) {
            return None;
        }
        let reads = |reader| variable.readers.split(", ").any(|of| of == reader);
        match () {
            () if reads("daemon") || reads("provider") => Some(Self::Daemon),
            () if reads("server") => Some(Self::Server),
            () if reads("software GPU") => Some(Self::SoftwareGpu),
            () => None,
        }
    }
}

/// Options of the command line that no variable stands for: key, option, whether it takes a value, what
/// it does.
const OPTION_KEYS: &[(&str, &str, bool, &str)] = &[
    ("multiuser_server", "-M", false, "true: root's servers are for all users"),
    ("static_partitioning", "-S", false, "true: SMs are given out in static partitions only"),
    ("one_user", "--one-user", false, "true: servers of one user at a time; others wait"),
    ("allow", "--allow", true, "Users and @groups whose programs are served, and no others"),
    ("share", "--share", true, "1/n or 2/n: programs' shares of SMs follow their number"),
];

/// A key of the file.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// It stands for a variable.
    Variable(Section, &'static Variable),
    /// It stands for an option: its place in the table.
    Option(usize),
}

impl Key {
    /// All keys, in the order of their tables.
    pub fn all() -> impl Iterator<Item = Self> {
        Section::ALL.into_iter().flat_map(|section| {
            let options = (0..OPTION_KEYS.len()).map(Self::Option);
            let variables = VARIABLES.iter().filter(move |of| Section::of(of) == Some(section));
            options
                .filter(move |_| section == Section::Daemon)
                .chain(variables.map(move |of| Self::Variable(section, of)))
        })
    }

    /// The table that it stands in.
    pub const fn section(self) -> Section {
        match self {
            Self::Variable(section, _) => section,
            Self::Option(_) => Section::Daemon,
        }
    }

    /// Its name in that table.
    pub fn name(self) -> String {
        match self {
            Self::Variable(_, variable) => {
                let prefixes = ["OPENMPS_SOFT_", "OPENMPS_", "CUDA_MPS_", "CUDA_"];
                let name = prefixes.iter().find_map(|prefix| variable.name.strip_prefix(prefix));
                name.unwrap_or(variable.name).to_lowercase()
            }
            Self::Option(at) => OPTION_KEYS[at].0.to_owned(),
        }
    }

    /// The variable or the option that it stands for.
    pub const fn stands_for(self) -> &'static str {
        match self {
            Self::Variable(_, variable) => variable.name,
            Self::Option(at) => OPTION_KEYS[at].1,
        }
    }

    /// What holds without it.
    pub const fn default(self) -> &'static str {
        match self {
            Self::Variable(_, variable) => variable.default,
            Self::Option(_) => "off",
        }
    }

    /// What it does.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Variable(_, variable) => variable.meaning,
            Self::Option(at) => OPTION_KEYS[at].3,
        }
    }
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFile {
    /// Values of variables, by their names.
    pub variables: BTreeMap<&'static str, String>,
    /// Options with their values, as words of a command line.
    pub options: Vec<String>,
    /// It has servers or features of protocol 3.
    pub has_servers: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "schema_version")]
    _schema_version: Option<Value>,
    #[serde(default)]
    daemon: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    server: BTreeMap<Spanned<String>, Spanned<Value>>,
    #[serde(default)]
    software_gpu: BTreeMap<Spanned<String>, Spanned<Value>>,
    // Of protocol 3: read by `configuration`.
    #[serde(default)]
    servers: Option<Value>,
    #[serde(default)]
    features: Option<Value>,
    #[serde(default)]
    compute_policy: Option<Value>,
}

/// What is wrong at a place of the text.
struct Mistake(Range<usize>, String);

/// The file of this user, whether there is one or not; `None` if the environment says that none is to be
/// read, or there is no home directory.
pub fn path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = variable(OPENMPS_CONFIG) {
        return (named != "none").then(|| PathBuf::from(named));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(SYSTEM_PATH));
    }
    let absolute = |value| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let folder = variable("XDG_CONFIG_HOME").and_then(absolute);
    let home = || variable("HOME").and_then(absolute).map(|home| home.join(".config"));
    folder.or_else(home).map(|folder| folder.join(USER_NAME))
}

/// Reads a file; `None` if it is not there.
///
/// # Errors
/// What is wrong, with the line and what to do.
pub fn read(path: &Path) -> Result<Option<SettingsFile>, ConfigurationError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // The home directory is another user's: `sudo -u` without `-H`.
        Err(_) if !can_be_seen(path) => return Ok(None),
        Err(error) => {
            return Err(ConfigurationError::Read { path: path.to_owned(), error });
        }
    };
    let wrong = |text| ConfigurationError::Wrong { path: path.to_owned(), text };
    parse(&text).map(Some).map_err(wrong)
}

/// False of a path into a directory that this user may not search.
fn can_be_seen(path: &Path) -> bool {
    let there = std::fs::symlink_metadata(path);
    !there.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Reads a file's text.
///
/// # Errors
/// The line, what is wrong there and what is allowed.
pub fn parse(text: &str) -> Result<SettingsFile, String> {
    let at = |span: Range<usize>, reason: String| {
        let line = text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1;
        format!("line {line}: {reason}")
    };
    let file: File = toml::from_str(text).map_err(|error| match error.span() {
        Some(span) => at(span, error.message().to_owned()),
        None => error.message().to_owned(),
    })?;
    let mut read = SettingsFile::default();
    let sections = [
        (Section::Daemon, file.daemon),
        (Section::Server, file.server),
        (Section::SoftwareGpu, file.software_gpu),
    ];
    for (section, table) in sections {
        for (name, value) in table {
            read.take(section, &name, &value).map_err(|Mistake(span, reason)| at(span, reason))?;
        }
    }
    read.has_servers =
        file.servers.is_some() || file.features.is_some() || file.compute_policy.is_some();
    if read.has_servers {
        crate::v3::configuration::parse(text)?;
        let protocol = read.variables.get(environment::CUDA_MPS_PROTOCOL_VERSION);
        if protocol.is_none_or(|version| version != "3") {
            return Err(
                "[servers] and [features] are of protocol 3: put protocol_version = 3 into \
                        [daemon], or take them out"
                    .to_owned(),
            );
        }
    }
    Ok(read)
}

impl SettingsFile {
    fn take(
        &mut self,
        section: Section,
        name: &Spanned<String>,
        value: &Spanned<Value>,
    ) -> Result<(), Mistake> {
        let found =
            Key::all().find(|key| key.section() == section && key.name() == *name.get_ref());
        let Some(key) = found else {
            return Err(Mistake(name.span(), unknown(section, name.get_ref())));
        };
        let wrong = |reason: String| {
            let name = key.name();
            Mistake(value.span(), format!("{name}: {reason}"))
        };
        match key {
            Key::Variable(_, variable) => {
                let separator =
                    if variable.name == environment::OPENMPS_CLASS_RULES { "; " } else { "," };
                let text = text_of(value.get_ref(), separator)
                    .ok_or_else(|| wrong(format!("wants {}", variable.values)))?;
                check(variable, &text).map_err(wrong)?;
                self.variables.insert(variable.name, text);
            }
            Key::Option(at) => {
                let (_, option, takes_value, _) = OPTION_KEYS[at];
                let words = match value.get_ref() {
                    Value::Boolean(set) if !takes_value => {
                        set.then(|| option.to_owned()).into_iter().collect()
                    }
                    _ if !takes_value => return Err(wrong("wants true or false".to_owned())),
                    other => {
                        let text = text_of(other, ",");
                        let text =
                            text.ok_or_else(|| wrong("wants a text or a list".to_owned()))?;
                        vec![format!("{option}={text}")]
                    }
                };
                options::parse(words.iter().cloned().chain(["-f".to_owned()]))
                    .map_err(|error| wrong(error.to_string()))?;
                self.options.extend(words);
            }
        }
        Ok(())
    }
}

/// What to say of a name that is none.
fn unknown(section: Section, name: &str) -> String {
    if name == "pipe_directory" {
        return "programs look for the directory of the sockets too: it is set by the variable \
                CUDA_MPS_PIPE_DIRECTORY alone"
            .to_owned();
    }
    let elsewhere = Key::all().find(|key| key.name() == name);
    if let Some(key) = elsewhere {
        return format!("{name} belongs into [{}]", key.section().name());
    }
    let names: Vec<String> =
        Key::all().filter(|key| key.section() == section).map(Key::name).collect();
    let near = nearest(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!(", {near} was probably meant"));
    format!(
        "[{}] has no {name}{near}; `openmps config defaults` lists all settings",
        section.name()
    )
}

/// A value as a variable's text.
fn text_of(value: &Value, separator: &str) -> Option<String> {
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is_set) => u8::from(*is_set).to_string(),
        Value::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| text_of(item, separator)).collect();
            texts?.join(separator)
        }
        Value::Datetime(_) | Value::Table(_) => return None,
    })
}

/// Whether a variable's readers can use a value.
fn check(variable: &Variable, text: &str) -> Result<(), String> {
    use environment::{
        OPENMPS_CLASS_RULES, OPENMPS_CPUS, OPENMPS_HOLD_MAX, OPENMPS_ISOLATE_LONG,
        OPENMPS_SCHEDULING,
    };
    if !variable.values.accept(text) {
        return Err(format!("{text:?} is not {}", variable.values));
    }
    let is_time = || scheduling::units::duration_ns(text).is_some_and(|ns| ns >= 1_000_000);
    let said = match variable.name {
        OPENMPS_CLASS_RULES => {
            scheduling::rules::Rules::parse(text).map(drop).map_err(|error| error.to_string())
        }
        OPENMPS_SCHEDULING => {
            scheduling::Settings::parse(text).map(drop).map_err(|error| error.to_string())
        }
        OPENMPS_CPUS => {
            cuda_api::settings::parse_cpus(text).map(drop).map_err(|error| error.to_string())
        }
        environment::OPENMPS_FAULT_BUDGET => {
            crate::fault_budget::FaultBudget::parse(text).map(drop)
        }
        OPENMPS_ISOLATE_LONG if text == "0" || is_time() => Ok(()),
        OPENMPS_HOLD_MAX if is_time() => Ok(()),
        OPENMPS_ISOLATE_LONG | OPENMPS_HOLD_MAX => {
            Err("not a time of at least 1ms with its unit, such as 1s or 500ms".to_owned())
        }
        _ => Ok(()),
    };
    said.map_err(|error| format!("{text:?}: {error}"))
}

/// Where a setting's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A variable of the environment.
    Variable,
    /// The settings file.
    File,
    /// Nothing says otherwise.
    Default,
}

impl Source {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}

/// The value of a key for a daemon with this file and this environment, and where it comes from.
pub fn value(
    key: Key,
    file: &SettingsFile,
    variable: impl Fn(&str) -> Option<String>,
) -> (String, Source) {
    let default = || (key.default().to_owned(), Source::Default);
    match key {
        Key::Variable(_, row) => match variable(row.name).filter(|text| !text.trim().is_empty()) {
            Some(text) => (text, Source::Variable),
            None => file
                .variables
                .get(row.name)
                .map_or_else(default, |text| (text.clone(), Source::File)),
        },
        Key::Option(at) => {
            let option = OPTION_KEYS[at].1;
            let said = file.options.iter().find_map(|word| match word.strip_prefix(option)? {
                "" => Some("true"),
                value => value.strip_prefix('='),
            });
            said.map_or_else(default, |said| (said.to_owned(), Source::File))
        }
    }
}

/// A file that says nothing, with all keys as comments.
pub fn defaults() -> String {
    let mut text = String::from(
        "# Settings of openmps' daemon and servers: /etc/openmps.toml of root's, and openmps.toml in\n\
         # $XDG_CONFIG_HOME or ~/.config of another user's. `openmps config check` checks it, and\n\
         # `kill -HUP` has a daemon read it again. A command goes before an option, that before a\n\
         # variable, that before this file. Commands are not written down.\n",
    );
    let mut section = None;
    for key in Key::all() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let _ = write!(text, "\n[{}]\n", key.section().name());
        }
        let allowed = match key {
            Key::Variable(_, Variable { values: Values::Any, .. }) | Key::Option(_) => {
                String::new()
            }
            Key::Variable(_, variable) => format!(" Allowed: {}.", variable.values),
        };
        let said = format!(
            "{} ({}.){allowed} Default: {}.",
            key.meaning().trim_end_matches('.').to_owned() + ".",
            key.stands_for(),
            key.default().trim_end_matches('.')
        );
        wrapped(&mut text, &said);
        let _ = writeln!(text, "# {} =\n", key.name());
    }
    text.trim_end().to_owned() + "\n"
}

/// Comment lines of at most 100 characters.
fn wrapped(text: &mut String, said: &str) {
    let mut line = String::from("#");
    for word in said.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

/// What a daemon that starts is to be given because of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Additions {
    /// Words before those of the command line.
    pub words: Vec<String>,
    /// Variables.
    pub variables: BTreeMap<&'static str, String>,
    /// The value of [`CONFIGURED`].
    pub configured: String,
}

/// What a file adds to an environment.
pub(crate) fn additions(
    path: &Path,
    file: &SettingsFile,
    variable: impl Fn(&str) -> Option<String>,
) -> Additions {
    let mut variables = file.variables.clone();
    variables.retain(|name, _| variable(name).is_none_or(|text| text.trim().is_empty()));
    let mut words = file.options.clone();
    if file.has_servers {
        words.push(format!("--apply={}", path.display()));
    }
    let names: Vec<&str> = variables.keys().copied().collect();
    let configured = format!("{},{}", path.display(), names.join(","));
    Additions { words, variables, configured }
}

/// The file that this process was started with, and the variables that come from it.
pub(crate) fn configured() -> Option<(PathBuf, BTreeMap<&'static str, String>)> {
    let text = std::env::var(CONFIGURED).ok()?;
    let mut parts = text.split(',');
    let path = PathBuf::from(parts.next()?);
    let names: Vec<&str> = parts.collect();
    let rows = VARIABLES.iter().filter(|row| names.contains(&row.name));
    let values = rows.filter_map(|row| Some((row.name, std::env::var(row.name).ok()?)));
    Some((path, values.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
[daemon]
active_thread_percentage = 50
pinned_device_mem_limit = "0=1G"
class_rules = ["user:ann batch", "all normal"]
scheduling = "preset=balanced"
standby = true
multiuser_server = true
share = "1/n"

[server]
warm = "64M"

[software_gpu]
sms = 4
"#;

    #[test]
    fn a_file_is_what_variables_and_options_would_say() {
        let read = parse(EXAMPLE).expect("it is right");
        let of = |name: &str| read.variables.get(name).map(String::as_str);
        assert_eq!(of("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), Some("50"));
        assert_eq!(of("OPENMPS_CLASS_RULES"), Some("user:ann batch; all normal"));
        assert_eq!((of("OPENMPS_STANDBY"), of("OPENMPS_WARM")), (Some("1"), Some("64M")));
        assert_eq!(of("OPENMPS_SOFT_SMS"), Some("4"));
        assert_eq!(read.options, ["-M", "--share=1/n"]);
        assert_eq!(parse(""), Ok(SettingsFile::default()));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_line_and_what_to_do() {
        for (from, to, line, part) in [
            ("= 50", "= 500", 3, "at most 100"),
            ("0=1G", "1G", 4, "a list as 0=1G"),
            ("user:ann batch", "user:ann urgent", 5, "latency, normal or batch"),
            ("preset=balanced", "preset=x", 6, "preset"),
            ("standby = true", "standbye = true", 7, "standby was probably meant"),
            ("standby = true", "warm = 1", 7, "belongs into [server]"),
            ("standby = true", "pipe_directory = \"/x\"", 7, "CUDA_MPS_PIPE_DIRECTORY alone"),
            ("server = true", "server = 1", 8, "true or false"),
            ("1/n", "3/n", 9, "1/n"),
            ("64M", "64MB", 12, "with K, M or G"),
            ("sms = 4", "sms = ", 15, ""),
            ("[server]", "[sever]", 11, "unknown field `sever`"),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let error = parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
            let line = format!("line {line}: ");
            assert!(error.starts_with(&line) && error.contains(part), "{to}: {error}");
        }
    }

    #[test]
    fn protocol_3_has_its_own_grammar_in_the_same_file() {
        let servers = "schema_version = \"1.0\"\n[daemon]\nprotocol_version = 3\n\
                       [servers.training]\nactive_thread_percentage = 25\n";
        let read = parse(servers).expect("it is right");
        assert!(read.has_servers);
        let path = Path::new("/etc/openmps.toml");
        let words = additions(path, &read, |_| None).words;
        assert_eq!(words, ["--apply=/etc/openmps.toml"]);
        let wrong = servers.replace("= 25", "= 250");
        assert!(parse(&wrong).unwrap_err().starts_with("line 5: "));
        let two = servers.replace("= 3", "= 2");
        assert!(parse(&two).unwrap_err().contains("protocol_version = 3"));
    }

    #[test]
    fn a_variable_goes_before_the_file_and_that_before_the_default() {
        let file = parse(EXAMPLE).expect("it is right");
        let environment = |name: &str| (name == "OPENMPS_WARM").then(|| "0".to_owned());
        let of = |name: &str| {
            let key = Key::all().find(|key| key.name() == name).expect("a key");
            let (text, source) = value(key, &file, environment);
            (text, source.name())
        };
        assert_eq!(of("warm"), ("0".to_owned(), "variable"));
        assert_eq!(of("standby"), ("1".to_owned(), "file"));
        assert_eq!(of("share"), ("1/n".to_owned(), "file"));
        assert_eq!(of("multiuser_server"), ("true".to_owned(), "file"));
        assert_eq!(of("one_user"), ("off".to_owned(), "default"));
        assert_eq!(of("idle_s"), ("300".to_owned(), "default"));
        let added = additions(Path::new("/x.toml"), &file, environment);
        assert!(!added.variables.contains_key("OPENMPS_WARM"), "the variable stays");
        assert!(added.variables.contains_key("OPENMPS_STANDBY"));
        assert!(added.configured.starts_with("/x.toml,") && added.configured.contains("STANDBY"));
    }

    #[test]
    fn each_key_has_one_place_and_a_file_of_defaults_is_right() {
        let mut names: Vec<(Section, String)> =
            Key::all().map(|key| (key.section(), key.name())).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(parse(&defaults()), Ok(SettingsFile::default()));
        for key in Key::all() {
            assert!(defaults().contains(&format!("\n# {} =\n", key.name())));
        }
    }
}
