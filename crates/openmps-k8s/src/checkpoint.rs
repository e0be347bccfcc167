//! Checkpoints: what is prepared on this node, a file a claim.
//!
//! A file is written beside its place and renamed, and says how long it is and what its sum is: one that a crash left
//! torn is told from a whole one and put aside. It outlives this process and the daemon. After a crash of the machine
//! nothing of it is needed, because no pod is left: so it is not flushed, which would cost some ms a claim.

use crate::share::{ClaimName, Namespace};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The first word of a file.
const MAGIC: &str = "openmps-checkpoint-1";

/// A claim that is prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreparedClaim {
    /// The claim.
    pub claim: ClaimName,
    /// Names of the pods that it was reserved for when it was prepared.
    pub pods: Vec<String>,
    /// What its shares are, as they were allocated.
    pub namespaces: Vec<Namespace>,
    /// It is not wanted any more; what is left of it goes when the daemon answers.
    pub is_over: bool,
}

/// A folder of checkpoints.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What was found in a folder.
#[derive(Debug, Default)]
pub struct FolderContents {
    /// Whole ones.
    pub records: Vec<PreparedClaim>,
    /// Where torn ones were put.
    pub torn: Vec<PathBuf>,
}

impl Store {
    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> io::Result<Store> {
        fs::create_dir_all(folder)?;
        Ok(Store { folder: folder.to_owned() })
    }

    fn path(&self, uid: &str) -> io::Result<PathBuf> {
        match !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            true => Ok(self.folder.join(format!("{uid}.json"))),
            false => {
                let reason = format!("{uid:?} is no UID of a claim");
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
        }
    }

    /// Writes a claim's; it outlives this process when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, record: &PreparedClaim) -> io::Result<()> {
        let path = self.path(&record.claim.uid)?;
        let body = serde_json::to_string(record)?;
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        write!(file, "{MAGIC} {} {:016x}\n{body}\n", body.len(), sum(body.as_bytes()))?;
        fs::rename(&beside, &path)
    }

    /// A claim's; `None` if there is none. One that is torn is put aside.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, uid: &str) -> io::Result<Option<PreparedClaim>> {
        let path = self.path(uid)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(match parse(&text) {
                Some(record) => Some(record),
                None => {
                    set_aside(&path)?;
                    None
                }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes a claim's away; one that is not there is no error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        match fs::remove_file(self.path(uid)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes drafts that a killed agent has left. Only for who has the lock of all agents.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn remove_drafts(&self) -> io::Result<()> {
        remove_files(&self.folder, |name| name.ends_with(".new"))
    }

    /// All of them. Torn ones are put aside.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(&self) -> io::Result<FolderContents> {
        let mut found = FolderContents::default();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|of| of.to_str());
            if extension == Some("json") {
                match fs::read_to_string(&path).ok().as_deref().map(parse) {
                    Some(Some(record)) => found.records.push(record),
                    Some(None) => found.torn.push(set_aside(&path)?),
                    // It went meanwhile.
                    None => {}
                }
            }
        }
        found.records.sort_by(|a, b| a.claim.uid.cmp(&b.claim.uid));
        Ok(found)
    }
}

/// Removes the files of a folder whose names `is_unwanted` is true for.
pub(crate) fn remove_files(folder: &Path, is_unwanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&is_unwanted) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = path.with_extension("torn");
    fs::rename(path, &aside)?;
    Ok(aside)
}

fn parse(text: &str) -> Option<PreparedClaim> {
    let (head, rest) = text.split_once('\n')?;
    let body = rest.strip_suffix('\n')?;
    let mut words = head.split(' ');
    let is_whole = words.next()? == MAGIC
        && words.next()?.parse() == Ok(body.len())
        && u64::from_str_radix(words.next()?, 16) == Ok(sum(body.as_bytes()));
    is_whole.then(|| serde_json::from_str(body).ok()).flatten()
}

/// FNV-1a: tells a torn file from a whole one, nothing else.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("openmps-k8s-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn record(uid: &str) -> PreparedClaim {
        let claim = ClaimName { namespace: "n".into(), name: "c".into(), uid: uid.into() };
        PreparedClaim { claim, pods: vec!["p".into()], ..PreparedClaim::default() }
    }

    #[test]
    fn what_is_written_is_read_and_goes() {
        let folder = folder("checkpoint");
        let store = Store::open(&folder).unwrap();
        assert_eq!(store.read("u-1").unwrap(), None);
        store.write(&record("u-1")).unwrap();
        store.write(&record("u-2")).unwrap();
        assert_eq!(Store::open(&folder).unwrap().read("u-1").unwrap(), Some(record("u-1")));
        assert_eq!(store.all().unwrap().records.len(), 2);
        store.remove("u-1").unwrap();
        store.remove("u-1").unwrap();
        assert_eq!(store.all().unwrap().records, [record("u-2")]);
        assert!(store.write(&record("../x")).unwrap_err().to_string().contains("no UID"));
        fs::remove_dir_all(folder).unwrap();
    }

    /// A part of a file that a crash leaves is not taken for a whole one.
    #[test]
    fn a_torn_file_is_put_aside() {
        let folder = folder("torn");
        let store = Store::open(&folder).unwrap();
        store.write(&record("u-1")).unwrap();
        let path = folder.join("u-1.json");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(store.read("u-1").unwrap(), None, "{length} bytes");
            assert!(!path.exists() && folder.join("u-1.torn").exists());
        }
        let mut changed = whole;
        let place = changed.len() - 5;
        changed[place] ^= 1;
        fs::write(&path, changed).unwrap();
        let found = store.all().unwrap();
        assert_eq!((found.records.len(), found.torn.len()), (0, 1));
        fs::remove_dir_all(folder).unwrap();
    }
}
