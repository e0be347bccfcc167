//! Start: a process that is ready waits for the others, and ends when it is asked to.
//!
//! The program that starts a group waits until it sees as many `FILE.ready.PID` as it started
//! processes, and makes FILE. A process whose parent has gone gives up waiting, so that an
//! interrupted group leaves nothing behind.

use std::{
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};

use crate::options::Options;

/// How often to look whether the barrier is open, while so many processes or fewer wait there.
const POLL: Duration = Duration::from_millis(1);
/// A larger group looks less often: a thousand processes that look each millisecond do nothing else.
const GROUP_AT_POLL: u32 = 32;
/// When the group's size is looked at anew for the first time; then after twice the time, and so on.
const COUNT: Duration = Duration::from_millis(200);

/// Waits as the options say; returns at once if they say nothing.
pub fn wait(options: &Options) -> Result<()> {
    if let Some(path) = &options.barrier {
        wait_for_file(path)?;
    }
    if let Some(start_ms) = options.start_at {
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        if let Some(rest) = Duration::from_millis(start_ms).checked_sub(now) {
            thread::sleep(rest);
        }
    }
    Ok(())
}

/// The file by which this process says that it is ready.
pub fn ready_path(barrier: &Path) -> PathBuf {
    let mut name = barrier.as_os_str().to_owned();
    name.push(format!(".ready.{}", std::process::id()));
    name.into()
}

/// Says ready, and waits until `barrier` exists.
pub fn wait_for_file(barrier: &Path) -> Result<()> {
    let ready = ready_path(barrier);
    File::create(&ready).with_context(|| format!("cannot make {}", ready.display()))?;
    let parent = std::os::unix::process::parent_id();
    let began = Instant::now();
    let (mut pause, mut count_at) = (POLL, Duration::ZERO);
    while !barrier.exists() {
        if std::os::unix::process::parent_id() != parent {
            bail!("the process that was to make {} is gone", barrier.display());
        }
        if began.elapsed() >= count_at {
            pause = POLL * (ready_processes(barrier) / GROUP_AT_POLL).max(1);
            count_at = (2 * count_at).max(COUNT);
        }
        thread::sleep(pause);
    }
    Ok(())
}

/// How many processes have said that they are ready.
fn ready_processes(barrier: &Path) -> u32 {
    let Some((folder, name)) = barrier.parent().zip(barrier.file_name()) else { return 0 };
    let mut start = name.as_bytes().to_vec();
    start.extend(b".ready.");
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().as_bytes().starts_with(&start)).count() as u32
}

/// The file that ends a sample (`--until`).
pub struct Until<'a> {
    path: Option<&'a Path>,
    parent: u32,
}

impl<'a> Until<'a> {
    /// The file that the options name, if they do.
    pub fn new(options: &'a Options) -> Self {
        Self { path: options.until.as_deref(), parent: std::os::unix::process::parent_id() }
    }

    /// True once the file exists. An error if who was to make it is gone.
    pub fn reached(&self) -> Result<bool> {
        let Some(path) = self.path else { return Ok(false) };
        if path.exists() {
            return Ok(true);
        }
        if std::os::unix::process::parent_id() != self.parent {
            bail!("the process that was to make {} is gone", path.display());
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn says_ready_and_goes_on_when_the_file_appears() {
        let folder = std::env::temp_dir().join(format!("samples-start-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let barrier = folder.join("go");
        let ready = super::ready_path(&barrier);
        let waiting = {
            let barrier = barrier.clone();
            std::thread::spawn(move || super::wait_for_file(&barrier))
        };
        while !ready.exists() {
            assert!(!waiting.is_finished());
            std::thread::yield_now();
        }
        assert!(!waiting.is_finished());
        std::fs::write(&barrier, "").unwrap();
        waiting.join().unwrap().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error() {
        assert!(super::wait_for_file(Path::new("/nonexistent/go")).is_err());
    }
}
