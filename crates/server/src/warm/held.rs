//! Code in use: files in which each server of a user says what its clients have loaded, for the next server.
//!
//! A server that is started beside one that serves (in standby, or to take its place) loads the same before
//! clients come from there. The file is the warm list's directory's, named by the server's process; a list of
//! [`CodeKey`]s, each with how many modules there are of it. A server whose context a fault has corrupted takes it away:
//! its clients go, to servers that say themselves what they have.

use super::store::Store;
use crate::device::CodeKey;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// How the files' names end.
const HELD: &str = "held";
/// Most images of a file that are read.
const NAMES_MAX: usize = 4096;
/// Most modules of an image: more than a server has clients.
const MODULES_MAX: u32 = 1024;

impl Store {
    /// Says what this server's clients have, and how many modules of each.
    pub fn save_held(&self, held: &BTreeMap<CodeKey, u32>) -> io::Result<()> {
        let lines: String =
            held.iter().map(|(key, modules)| format!("{key} {modules}\n")).collect();
        self.write(&std::process::id().to_string(), HELD, lines.as_bytes())
    }

    /// This server has no clients to be taken over any more.
    pub fn remove_held(&self) {
        let _ = fs::remove_file(self.path(&std::process::id().to_string(), HELD));
    }

    /// Names of the images that clients of other servers have which are there now, and the most modules that
    /// one of these servers has of each. Files of servers that have ended go.
    pub fn held_elsewhere(&self) -> BTreeMap<String, u32> {
        let mut held = BTreeMap::new();
        for entry in fs::read_dir(self.directory()).into_iter().flatten().flatten() {
            let path = entry.path();
            let pid = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
            let Some(pid) = pid.filter(|_| path.extension().is_some_and(|kind| kind == HELD))
            else {
                continue;
            };
            if pid == std::process::id() {
                continue;
            }
            if !Path::new(&format!("/proc/{pid}")).exists() {
                let _ = fs::remove_file(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap_or_default();
            for (name, modules) in text.lines().filter_map(parse).take(NAMES_MAX) {
                let most: &mut u32 = held.entry(name.to_owned()).or_default();
                *most = modules.max(*most);
            }
        }
        held
    }
}

/// An image's name and how many modules there are of it. A server of another version says no number.
fn parse(line: &str) -> Option<(&str, u32)> {
    let (name, modules) = line.split_once(' ').unwrap_or((line, "1"));
    let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let modules =
        modules.parse().ok().filter(|modules| is_name && (1..=MODULES_MAX).contains(modules))?;
    Some((name, modules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_servers_have_that_are_there_is_in_use() {
        let place = std::env::temp_dir().join(format!("openmps-held-{}", std::process::id()));
        let store = Store::open(place.join("warm"), 1 << 20).expect("a store");
        let name = |digit: &str| digit.repeat(64);
        let write = |pid: u32, lines: &[String]| {
            let path = store.directory().join(format!("{pid}.{HELD}"));
            fs::write(&path, lines.join("\n")).expect("written");
            path
        };
        store.save_held(&[(CodeKey::of(b"own", &[]), 1)].into()).expect("written");
        // This process' parent and the first process are there; no system has the last one.
        let many = |digit: &str, modules: &str| format!("{} {modules}", name(digit));
        let odd = ["../x".to_owned(), many("d", "0"), many("d", "x"), many("d", "99999")];
        let parent = [&[name("a"), many("b", "3")][..], &odd].concat();
        write(std::os::unix::process::parent_id(), &parent);
        let init = write(1, &[many("a", "2"), many("b", "1")]);
        let gone = write(4_294_967_295, &[name("c")]);
        assert_eq!(store.held_elsewhere(), [(name("a"), 2), (name("b"), 3)].into());
        fs::remove_file(init).expect("there");
        assert!(!gone.exists());
        store.remove_held();
        assert_eq!(fs::read_dir(store.directory()).expect("there").count(), 1);
        let _ = fs::remove_dir_all(place);
    }
}
