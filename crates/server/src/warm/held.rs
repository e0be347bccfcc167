//! Code in use: files in which each server of a user says what its clients have loaded, for the next server.
//!
//! A server that is started beside one that serves (in standby, or to take its place) loads the same before
//! clients come from there. The file is the warm list's directory's, named by the server's process; a list of
//! [`CodeKey`]s. A server whose context a fault has spoiled takes it away: what is started then for one suspect
//! each would load what others have.

use super::store::Store;
use crate::device::CodeKey;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// How the files' names end.
const HELD: &str = "held";
/// Most images of a file that are read.
const NAMES_MAX: usize = 4096;

impl Store {
    /// Says what this server's clients have.
    pub fn save_held(&self, keys: &BTreeSet<CodeKey>) -> io::Result<()> {
        let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
        self.write(&std::process::id().to_string(), HELD, lines.as_bytes())
    }

    /// This server has no clients to be taken over any more.
    pub fn remove_held(&self) {
        let _ = fs::remove_file(self.path(&std::process::id().to_string(), HELD));
    }

    /// Names of the images that clients of other servers have which are there now. Files of servers that have
    /// ended go.
    pub fn held_elsewhere(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
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
            let is_name =
                |line: &&str| line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
            names.extend(text.lines().filter(is_name).take(NAMES_MAX).map(str::to_owned));
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_servers_have_that_are_there_is_in_use() {
        let place = std::env::temp_dir().join(format!("openmps-held-{}", std::process::id()));
        let store = Store::open(place.join("warm"), 1 << 20).expect("a store");
        let name = |digit: &str| digit.repeat(64);
        let write = |pid: u32, names: &[String]| {
            let path = store.directory().join(format!("{pid}.{HELD}"));
            fs::write(&path, names.join("\n")).expect("written");
            path
        };
        store.save_held(&[CodeKey::of(b"own", &[])].into()).expect("written");
        // This process' parent is there; no system has the other one.
        write(std::os::unix::process::parent_id(), &[name("a"), name("b"), "../x".to_owned()]);
        let gone = write(4_294_967_295, &[name("c")]);
        assert_eq!(store.held_elsewhere(), [name("a"), name("b")].into());
        assert!(!gone.exists());
        store.remove_held();
        assert_eq!(fs::read_dir(store.directory()).expect("there").count(), 1);
        let _ = fs::remove_dir_all(place);
    }
}
