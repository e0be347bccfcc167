//! control.log and server.log: where they go and what a line looks like.
//!
//! A log is a service to people; it is never a reason for the daemon to stop. A line that cannot
//! be written (a full disk) is counted, and the count is written when there is room again. A
//! process that may connect can make lines, so a log has a bound.

use channel::log_line::{self, Form, Level};
use cuda_api::environment::{CUDA_MPS_LOG_DIRECTORY, OPENMPS_LOG_FORMAT};
use locks::Mutex;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The directory when `CUDA_MPS_LOG_DIRECTORY` says nothing.
pub const DEFAULT_LOG_DIRECTORY: &str = "/var/log/nvidia-mps";

pub use channel::log_line::LINE_BYTES_MAX;

/// Bytes of a log after which a new one is begun; the full one stays as `control.log.old`, in place
/// of what was so called before. Half a million lines.
pub const LOG_BYTES_MAX: u64 = 64 << 20;

/// Who speaks in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRole {
    /// The control daemon.
    Control,
    /// A server that serves.
    Server,
    /// A server before it has started.
    Other,
}

/// One line without its end, in local time, as OPENMPS_LOG_FORMAT wants it.
pub fn line(role: LogRole, pid: u32, text: impl Display) -> String {
    line_at(Level::Info, role, pid, text)
}

fn line_at(level: Level, role: LogRole, pid: u32, text: impl Display) -> String {
    static FORM: LazyLock<Form> =
        LazyLock::new(|| Form::parse(&std::env::var(OPENMPS_LOG_FORMAT).unwrap_or_default()));
    let now = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f%:z").to_string();
    log_line::line(*FORM, &now, &format!("{role:?}"), pid, level, &text.to_string())
}

/// `text` with `?` for each control character.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Cuts `text` to at most `bytes_max` bytes, between characters.
pub fn truncate(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// A file that lines are appended to.
#[derive(Debug)]
pub struct LogFile {
    inner: Mutex<Inner>,
    /// Lines go to standard error too: for a daemon in the foreground.
    echo: bool,
}

#[derive(Debug)]
struct Inner {
    file: Option<Bounded>,
    /// Since a line was written.
    lines_lost: u64,
    /// In all.
    lines_lost_ever: u64,
}

/// A file that is begun anew when it is full.
#[derive(Debug)]
pub(crate) struct Bounded {
    file: File,
    /// The last line is a part of one.
    torn: bool,
    path: PathBuf,
    bytes_max: u64,
}

impl Bounded {
    pub(crate) fn open(path: PathBuf, bytes_max: u64) -> io::Result<Bounded> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        let torn = !ends_with_a_line(&path);
        Ok(Bounded { file, torn, path, bytes_max })
    }

    /// Writes whole lines, behind a part of one that a full disk left, as far as there is room. False if that was
    /// not all.
    pub(crate) fn write(&mut self, lines: &str) -> io::Result<bool> {
        if let Ok(open) = self.file.metadata() {
            let there = std::fs::metadata(&self.path);
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino())) {
                if open.len() >= self.bytes_max {
                    self.begin_anew();
                }
            } else {
                self.open_again();
            }
        }
        let text = format!("{}{lines}", if self.torn { "\n" } else { "" });
        let written = self.file.write(text.as_bytes())?;
        let is_whole = written == text.len();
        self.torn = !is_whole && (written > 0 || self.torn);
        Ok(is_whole)
    }

    /// Goes on in the file that has the path now: what was open there has been moved or deleted.
    fn open_again(&mut self) {
        // Where none can be had, lines go on into the one that is open.
        if let Ok(new) = Bounded::open(self.path.clone(), self.bytes_max) {
            *self = new;
        }
    }

    /// Sets the full file aside. Where that cannot be done it grows on.
    fn begin_anew(&mut self) {
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        if std::fs::rename(&self.path, old).is_ok() {
            self.open_again();
        }
    }
}

impl LogFile {
    fn new(file: Option<Bounded>, echo: bool) -> LogFile {
        LogFile { inner: Mutex::new(Inner { file, lines_lost: 0, lines_lost_ever: 0 }), echo }
    }

    /// A log at a path.
    pub fn at(path: PathBuf) -> io::Result<LogFile> {
        Ok(LogFile::new(Some(Bounded::open(path, LOG_BYTES_MAX)?), false))
    }

    /// A log of which nothing is kept.
    pub fn nowhere() -> LogFile {
        LogFile::new(None, false)
    }

    /// Appends a line of the control daemon.
    pub fn control(&self, text: impl Display) {
        self.append(&line(LogRole::Control, std::process::id(), text));
    }

    /// Appends a line of the control daemon that is more than information.
    pub fn control_at(&self, level: Level, text: impl Display) {
        self.append(&line_at(level, LogRole::Control, std::process::id(), text));
    }

    /// Opens the file again, even if it is open: an operator may have moved the old one.
    pub fn open_again(&self) {
        let mut inner = self.inner.lock();
        if let Some(file) = &mut inner.file {
            file.open_again();
        }
    }

    /// Lines that could not be written, in all.
    pub fn lines_lost_ever(&self) -> u64 {
        self.inner.lock().lines_lost_ever
    }

    /// Appends a line that has its stamp already.
    pub fn append(&self, line: &str) {
        if self.echo {
            // Standard error may be closed or full: see this file's head.
            let _ = writeln!(io::stderr(), "{line}");
        }
        let mut inner = self.inner.lock();
        let Inner { file: Some(file), lines_lost, lines_lost_ever } = &mut *inner else { return };
        let mut text = String::with_capacity(line.len() + 1);
        if *lines_lost > 0 {
            let note = format!("{lines_lost} lines were lost: the log could not be written");
            text.push_str(&self::line(LogRole::Control, std::process::id(), note));
            text.push('\n');
        }
        text.push_str(line);
        text.push('\n');
        match file.write(&text) {
            Ok(true) => *lines_lost = 0,
            Ok(false) | Err(_) => {
                *lines_lost += 1;
                *lines_lost_ever += 1;
            }
        }
    }
}

/// True of a file that is empty, not there, or whose last line is whole.
fn ends_with_a_line(path: &Path) -> bool {
    let last = || -> io::Result<[u8; 1]> {
        let (mut file, mut last) = (File::open(path)?, [0]);
        file.seek(io::SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last)
    };
    last().map_or(true, |last| last == *b"\n")
}

/// The two logs and what had to be said about their place.
#[derive(Debug)]
pub struct Logs {
    /// control.log
    pub control: LogFile,
    /// server.log
    pub server: LogFile,
    /// Where they lie; `None` if nowhere.
    pub directory: Option<PathBuf>,
    /// Why they do not lie where they should.
    pub complaint: Option<String>,
}

impl Logs {
    /// Opens both in the directory that the environment names, else in `fallback` with a
    /// complaint, else nowhere with a complaint.
    pub fn open(fallback: &Path, echo: bool) -> Logs {
        let wanted = std::env::var_os(CUDA_MPS_LOG_DIRECTORY)
            .filter(|value| !value.is_empty())
            .map_or_else(|| PathBuf::from(DEFAULT_LOG_DIRECTORY), PathBuf::from);
        // A log is opened again long after the daemon has left the directory it was started in.
        let wanted = std::path::absolute(&wanted).unwrap_or(wanted);
        let first = match open_both(&wanted) {
            Ok(files) => return Logs::with(files, wanted, None, echo),
            Err(error) => format!("cannot write logs in {}: {error}", wanted.display()),
        };
        match open_both(fallback) {
            Ok(files) => {
                let complaint = format!("{first}; they are written in {}", fallback.display());
                Logs::with(files, fallback.to_path_buf(), Some(complaint), echo)
            }
            Err(error) => Logs {
                control: LogFile::new(None, echo),
                server: LogFile::new(None, echo),
                directory: None,
                complaint: Some(format!(
                    "{first}, nor in {}: {error}; nothing is logged",
                    fallback.display()
                )),
            },
        }
    }

    /// Has standard error lead to control.log, else nowhere: what is left of a crash is written there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take_stderr(&self) -> io::Result<()> {
        let log = self
            .directory
            .as_ref()
            .map(|directory| OpenOptions::new().append(true).open(directory.join("control.log")));
        let nothing = || OpenOptions::new().write(true).open("/dev/null");
        let target = log.and_then(Result::ok).map_or_else(nothing, Ok)?;
        Ok(rustix::stdio::dup2_stderr(&target)?)
    }

    /// Opens both files again.
    pub fn open_again(&self) {
        self.control.open_again();
        self.server.open_again();
    }

    fn with(
        files: [Bounded; 2],
        directory: PathBuf,
        complaint: Option<String>,
        echo: bool,
    ) -> Logs {
        let [control, server] = files;
        Logs {
            control: LogFile::new(Some(control), echo),
            server: LogFile::new(Some(server), echo),
            directory: Some(directory),
            complaint,
        }
    }
}

fn open_both(directory: &Path) -> io::Result<[Bounded; 2]> {
    std::fs::create_dir_all(directory)?;
    let open = |name| Bounded::open(directory.join(name), LOG_BYTES_MAX);
    Ok([open("control.log")?, open("server.log")?])
}

/// Puts the bytes that come out of the log FIFO together into lines.
#[derive(Debug, Default)]
pub struct LineAssembler {
    partial: Vec<u8>,
}

impl LineAssembler {
    /// Takes `bytes` and gives each line that is now whole, without its end. A line longer than
    /// [`LINE_BYTES_MAX`] comes in pieces.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for &byte in bytes {
            if byte != b'\n' {
                self.partial.push(byte);
            }
            if byte == b'\n' || self.partial.len() == LINE_BYTES_MAX {
                if !self.partial.is_empty() {
                    each(&printable(&String::from_utf8_lossy(&self.partial)));
                }
                self.partial.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_stamped_as_nvidia_does() {
        let line = line(LogRole::Control, 261, "NEW UI\nforged");
        assert!(line.ends_with(" Control   261] NEW UI?forged"), "{line}");
        let stamp = &line[..line.find(" Control").unwrap()];
        assert_eq!(stamp.len(), "[2026-11-21 02:32:00.123+01:00".len(), "{line}");
        let moment = stamp[1..].replacen(' ', "T", 1).parse::<jiff::Timestamp>().expect("a moment");
        let apart = jiff::Timestamp::now().duration_since(moment).unsigned_abs();
        assert!(apart < std::time::Duration::from_secs(3600), "{line}: with its zone");
        assert!(super::line(LogRole::Other, 1, "é".repeat(9000)).len() < LINE_BYTES_MAX);
    }

    #[test]
    fn torn_writes_become_whole_lines() {
        let mut assembler = LineAssembler::default();
        let mut lines = Vec::new();
        for piece in [&b"on"[..], b"e\n\ntwo\x1b\nth", b"ree\n"] {
            assembler.push(piece, |line| lines.push(line.to_owned()));
        }
        assert_eq!(lines, ["one", "two?", "three"]);
        assembler.push(&vec![b'x'; 3 * LINE_BYTES_MAX], |line| lines.push(line.to_owned()));
        assert_eq!(lines.len(), 6);
        assert!(assembler.partial.is_empty());
    }

    #[test]
    fn a_full_disk_costs_lines_and_nothing_else() {
        // /dev/full answers every write with ENOSPC.
        let full = Bounded::open("/dev/full".into(), LOG_BYTES_MAX).unwrap();
        let log = LogFile::new(Some(full), false);
        log.control("one");
        log.control("two");
        assert_eq!(log.inner.lock().lines_lost, 2);

        let path = std::env::temp_dir().join(format!("openmps-log-{}", std::process::id()));
        log.inner.lock().file = Some(Bounded::open(path.clone(), LOG_BYTES_MAX).unwrap());
        log.control("three");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("2 lines were lost") && lines[1].ends_with("three"), "{text}");
    }

    #[test]
    fn a_full_log_is_set_aside_once() {
        let name = format!("openmps-bounded-log-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("control.log");
        let log = LogFile::new(Some(Bounded::open(path.clone(), 100).unwrap()), false);
        let lines: Vec<String> = (0..50).map(|number| format!("this is line {number:2}")).collect();
        lines.iter().for_each(|line| log.append(line));
        let read = |name| std::fs::read_to_string(directory.join(name)).unwrap();
        let kept = read("control.log.old") + &read("control.log");
        assert!((100..=240).contains(&kept.len()), "{} bytes", kept.len());
        assert!(lines.join("\n").ends_with(kept.trim_end()), "the newest, in order: {kept}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_line_that_was_torn_ends_before_the_next_and_counts_as_lost() {
        let path = std::env::temp_dir().join(format!("openmps-torn-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let log = LogFile::new(Some(Bounded::open(path.clone(), LOG_BYTES_MAX).unwrap()), false);
        // As if there had been room for a part of a line only.
        let mut inner = log.inner.lock();
        let file = inner.file.as_mut().unwrap();
        file.write("torn").unwrap();
        file.torn = true;
        drop(inner);
        log.inner.lock().lines_lost = 1;
        log.append("next");
        log.append("last");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], &lines[2..]), ("torn", &["next", "last"][..]), "{text}");
        assert!(lines[1].contains("1 lines were lost"), "{text}");
    }
}
