//! Printed text: what kernels print where the provider has no tenants.
//!
//! Such a provider has one buffer for the kernels of all clients and writes what is in it to this
//! process' standard output, which is a file in memory here. What comes while just one client may
//! have printed is that client's. What comes while several may have goes to none of them, so
//! that no client reads another one's text: it goes to the log, with their names.

use crate::log::Log;
use locks::{Mutex, MutexGuard};
use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, fallocate, fcntl_setfl, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

/// Most text that is kept for a client until it fetches it, bytes: the buffer of a driver has 1 MiB,
/// and a client fetches whenever it waits for its work. What comes on top is lost, as it is when
/// the driver's own buffer runs over; the log says how much.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

/// A client that may have printed, or for which there is text.
#[derive(Default)]
struct Writer {
    name: String,
    /// True while kernels that may print are in flight, or were since the last look.
    active: bool,
    text: Vec<u8>,
}

/// By the client's number.
#[derive(Default)]
struct Writers(BTreeMap<u32, Writer>);

impl Writers {
    /// Gives new text to the client that has printed it, behind which so many bytes are lost; a line for
    /// the log if that client is not known, or has printed more than is kept.
    fn give(&mut self, text: &[u8], lost: u64) -> Option<String> {
        let mut active = self.0.values_mut().filter(|writer| writer.active);
        let (first, second) = (active.next(), active.next());
        match (first, second) {
            (Some(only), None) => {
                let room = KEPT_BYTES_MAX.saturating_sub(only.text.len());
                let kept = text.len().min(room);
                only.text.extend_from_slice(&text[..kept]);
                let lost = lost + (text.len() - kept) as u64;
                (lost > 0).then(|| {
                    format!(
                        "Client {} prints more than it fetches: {lost} bytes of its text are lost",
                        only.name
                    )
                })
            }
            _ => {
                let active = self.0.values().filter(|writer| writer.active);
                let names: Vec<&str> = active.map(|writer| writer.name.as_str()).collect();
                let text = String::from_utf8_lossy(text);
                let lost = match lost {
                    0 => String::new(),
                    lost => format!(" (and {lost} bytes more, which are lost)"),
                };
                let names = names.join(", ");
                Some(format!("Kernels of one of the clients {names} print{lost}: {text}"))
            }
        }
    }

    /// Drops clients of which nothing is left.
    fn forget_spent(&mut self) {
        self.0.retain(|_, writer| writer.active || !writer.text.is_empty());
    }
}

/// The standard output, taken over, and whose what is.
pub struct Printed {
    /// The file; `None` if the standard output is left as it is.
    file: Option<File>,
    /// With how far the file was read.
    writers: Mutex<(u64, Writers)>,
}

impl Printed {
    /// Leaves the standard output as it is.
    pub fn none() -> Self {
        Self { file: None, writers: Mutex::default() }
    }

    /// Takes this process' standard output over, for good.
    ///
    /// # Errors
    /// If the system has no file or no descriptor for it.
    pub fn of_standard_output() -> io::Result<Self> {
        Self::of(libc::STDOUT_FILENO)
    }

    fn of(descriptor: RawFd) -> io::Result<Self> {
        let file = File::from(memfd_create(c"printed", MemfdFlags::CLOEXEC)?);
        // Writers append, regardless of what is read and given back meanwhile.
        fcntl_setfl(&file, OFlags::APPEND)?;
        // SAFETY: a plain system call on an open descriptor; the other one refers to the file from now on.
        if unsafe { libc::dup2(file.as_raw_fd(), descriptor) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file: Some(file), writers: Mutex::default() })
    }

    /// True if what is printed can be fetched here.
    pub fn is_taken_over(&self) -> bool {
        self.file.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Writers)> {
        self.writers.lock()
    }

    /// A client launches a kernel that may print. True if that has to be collected.
    #[cold]
    pub fn begin(&self, client: u32, name: impl FnOnce() -> String) -> bool {
        if self.is_taken_over() {
            self.begin_as(client, name());
        }
        self.is_taken_over()
    }

    fn begin_as(&self, client: u32, name: String) {
        let mut writers = self.lock();
        let writer = writers.1.0.entry(client).or_default();
        (writer.name, writer.active) = (name, true);
    }

    /// Takes in what has been written so far; the provider was made to write all that there is. With
    /// `done`, no kernel of that client is in flight any more.
    pub fn collect(&self, client: u32, done: bool, log: &Log) {
        let mut writers = self.lock();
        let (read, writers) = &mut *writers;
        let (text, lost) = self.file.as_ref().map(|file| take(file, read)).unwrap_or_default();
        if (!text.is_empty() || lost > 0)
            && let Some(line) = writers.give(&text, lost)
        {
            log.line(line);
        }
        if done && let Some(writer) = writers.0.get_mut(&client) {
            writer.active = false;
        }
        writers.forget_spent();
    }

    /// Moves a client's text to a buffer, as much as it has room for.
    pub fn fetch(&self, client: u32, buffer: &mut [u8]) -> usize {
        let mut writers = self.lock();
        let Some(writer) = writers.1.0.get_mut(&client) else { return 0 };
        let bytes = writer.text.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&writer.text[..bytes]);
        writer.text.drain(..bytes);
        writers.1.forget_spent();
        bytes
    }

    /// A client is gone.
    pub fn forget(&self, client: u32) {
        self.lock().1.0.remove(&client);
    }
}

/// What was appended to a file since `read`, as much as is kept, and how many bytes are not; its pages are
/// given back.
fn take(file: &File, read: &mut u64) -> (Vec<u8>, u64) {
    let end = file.metadata().map_or(*read, |data| data.len());
    let all = end.saturating_sub(*read);
    let bytes = all.min(KEPT_BYTES_MAX as u64);
    let mut text = vec![0; bytes as usize];
    if file.read_exact_at(&mut text, *read).is_err() {
        return (Vec::new(), 0);
    }
    *read = end;
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // If it fails, memory is kept for nothing.
    let _ = fallocate(file, hole, 0, end);
    (text, all - bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A taken-over descriptor, and the other end of it.
    fn printed() -> (Printed, File) {
        let output = File::options().write(true).open("/dev/null").expect("a file");
        (Printed::of(output.as_raw_fd()).expect("a file in memory"), output)
    }

    fn fetch(printed: &Printed, client: u32) -> String {
        let mut buffer = [0; 64];
        let bytes = printed.fetch(client, &mut buffer);
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    }

    #[test]
    fn what_one_client_prints_comes_to_it() {
        let (printed, mut output) = printed();
        let log = Log::none();
        printed.begin_as(7, "seven".into());
        output.write_all(b"one\n").expect("room");
        printed.collect(7, false, &log);
        output.write_all(b"two\n").expect("room");
        printed.collect(7, true, &log);
        assert_eq!(fetch(&printed, 8), "");
        assert_eq!(fetch(&printed, 7), "one\ntwo\n");
        assert_eq!(fetch(&printed, 7), "");
        assert!(printed.lock().1.0.is_empty());
    }

    #[test]
    fn what_one_of_several_prints_comes_to_none() {
        let (printed, mut output) = printed();
        let lines = std::sync::Arc::new(Mutex::new(Vec::new()));
        struct Lines(std::sync::Arc<Mutex<Vec<u8>>>);
        impl Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = Log::new(Lines(lines.clone()));
        printed.begin_as(1, "first".into());
        printed.begin_as(2, "second".into());
        output.write_all(b"whose?\n").expect("room");
        printed.collect(1, true, &log);
        output.write_all(b"mine\n").expect("room");
        printed.collect(2, true, &log);
        assert_eq!((fetch(&printed, 1), fetch(&printed, 2)), (String::new(), "mine\n".into()));
        let lines = String::from_utf8(lines.lock().clone()).expect("text");
        assert!(lines.contains("one of the clients first, second print: whose?"), "{lines}");
    }

    #[test]
    fn text_that_is_not_fetched_has_an_end() {
        let mut writers = Writers::default();
        writers.0.insert(1, Writer { active: true, ..Writer::default() });
        let half = vec![b'x'; KEPT_BYTES_MAX / 2 + 1];
        assert_eq!(writers.give(&half, 0), None);
        for lost in [2, half.len()] {
            let said = writers.give(&half, 0).expect("that text is lost is said");
            assert!(said.contains(&format!(": {lost} bytes")), "{said}");
        }
        assert_eq!(writers.0[&1].text.len(), KEPT_BYTES_MAX);
    }

    #[test]
    fn text_beyond_what_is_read_at_a_time_is_not_lost_without_a_word() {
        let (printed, mut output) = printed();
        printed.begin_as(1, "first".into());
        output.write_all(&vec![b'x'; KEPT_BYTES_MAX + 5]).expect("room");
        let (read, _) = &mut *printed.lock();
        let (text, lost) = take(printed.file.as_ref().expect("a file"), read);
        assert_eq!((text.len(), lost), (KEPT_BYTES_MAX, 5));
    }
}
