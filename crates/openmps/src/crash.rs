//! Crash report: what a server or daemon says in its log when it panics or is ended by a fatal signal.
//!
//! Lines go to standard error, which the daemon has made the way to the log. Each has the log's stamp, in
//! UTC: the handler of a signal may call little, and local time is not of it. After the report a signal
//! takes its course: the process ends by it, with a core if the system keeps one.

use crate::version;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_int, c_void};
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Signals that end a process for a mistake of its own.
const SIGNALS: &[(c_int, &str)] = &[
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];
/// Calls that a report of a signal shows.
const FRAMES_MAX: usize = 64;
/// Longest line, bytes: what a pipe takes in one piece.
const LINE_BYTES_MAX: usize = 4096;

/// Who reports, and what it knows of the thread's work.
#[derive(Clone, Copy)]
struct Reporter {
    role: &'static str,
    /// What the thread that asks was doing last; callable in the handler of a signal.
    last_request: fn() -> &'static str,
    before: [Option<libc::sigaction>; SIGNALS.len()],
}

static REPORTER: OnceLock<Reporter> = OnceLock::new();

thread_local! {
    /// A panic that is not caught ends in SIGABRT, of which there is nothing more to say.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Has this process report panics and fatal signals on standard error. `role` is as in the log's lines.
pub(crate) fn report(role: &'static str, last_request: fn() -> &'static str) {
    let mut before = [None; SIGNALS.len()];
    for (place, (signal, _)) in before.iter_mut().zip(SIGNALS) {
        *place = current(*signal);
    }
    if REPORTER.set(Reporter { role, last_request, before }).is_err() {
        return;
    }
    std::panic::set_hook(Box::new(report_panic));
    // The first call loads a library, which a handler must not.
    let mut frame = [std::ptr::null_mut()];
    // SAFETY: there is room for the one address.
    unsafe { libc::backtrace(frame.as_mut_ptr(), 1) };
    for (signal, _) in SIGNALS {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros are a sigaction without handler, and the fields are set to what the call wants.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = report_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(*signal, action, std::ptr::null_mut());
        }
    }
}

/// What a signal does now.
fn current(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call fills the structure, which is read after it succeeded.
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init())
    }
}

fn report_panic(panic: &std::panic::PanicHookInfo<'_>) {
    PANICKED.set(true);
    let message = panic.payload_as_str().unwrap_or("panic");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    say(&format!("panic{place}: {message}; {}", Circumstances));
    let backtrace = std::backtrace::Backtrace::force_capture().to_string();
    backtrace.lines().for_each(|line| say(line.trim_end()));
}

/// Build, thread and last request: what a report says beside its reason.
struct Circumstances;

impl fmt::Display for Circumstances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = [0_u8; 16];
        // SAFETY: PR_GET_NAME writes 16 bytes, the last of them 0.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        let name = CStr::from_bytes_until_nul(&name).ok().and_then(|name| name.to_str().ok());
        let last = REPORTER.get().map_or("none", |reporter| (reporter.last_request)());
        write!(
            f,
            "build {}, thread {}, last request {last}",
            version::BUILD,
            name.unwrap_or("without a name")
        )
    }
}

/// The handler of fatal signals.
extern "C" fn report_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let place = SIGNALS.iter().position(|(number, _)| *number == signal);
    let (Some(reporter), Some(place)) = (REPORTER.get(), place) else { return };
    // SAFETY: the system gives a handler with SA_SIGINFO its information.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    // What the signal did before takes place when this returns: an instruction that faults does so again, and a
    // signal that a process has sent is raised again, which ends this one, even if there was another handler.
    // SAFETY: all of these may be called in a handler; the structure is one that the system gave.
    unsafe {
        match &reporter.before[place] {
            Some(before) if code > 0 => drop(libc::sigaction(signal, before, std::ptr::null_mut())),
            _ => drop(libc::signal(signal, libc::SIG_DFL)),
        }
        if code <= 0 {
            libc::raise(signal);
        }
    }
    if signal == libc::SIGABRT && PANICKED.get() {
        return;
    }
    if BUFFERS.taken.swap(true, Ordering::AcqRel) {
        // Another thread reports.
        return;
    }
    // SAFETY: one thread comes here in the life of the process, and once.
    let (bytes, frames) = unsafe { (&mut *BUFFERS.line.get(), &mut *BUFFERS.frames.get()) };
    let mut line = Line::begun(bytes, reporter.role);
    let _ = write!(line, "fatal signal {signal} ({})", SIGNALS[place].1);
    if signal != libc::SIGABRT && code > 0 {
        let _ = write!(line, " at address {address:p}");
    }
    let _ = write!(line, "; {Circumstances}; calls:");
    line.end();
    // SAFETY: there is room for so many addresses. The library is loaded since `report`, so neither call
    // takes memory.
    unsafe {
        let count = libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int);
        libc::backtrace_symbols_fd(frames.as_ptr(), count, libc::STDERR_FILENO);
    }
}

/// Writes one line with its stamp.
fn say(text: &str) {
    let mut bytes = [0; LINE_BYTES_MAX];
    let role = REPORTER.get().map_or("Other", |reporter| reporter.role);
    let mut line = Line::begun(&mut bytes, role);
    let _ = line.write_str(text);
    line.end();
}

/// What the handler of a signal writes into: its stack has a few KiB, and the heap may be what is broken.
struct Buffers {
    taken: AtomicBool,
    line: UnsafeCell<[u8; LINE_BYTES_MAX]>,
    frames: UnsafeCell<[*mut c_void; FRAMES_MAX]>,
}

// SAFETY: the buffers are used by the one thread that finds them not taken.
unsafe impl Sync for Buffers {}

static BUFFERS: Buffers = Buffers {
    taken: AtomicBool::new(false),
    line: UnsafeCell::new([0; LINE_BYTES_MAX]),
    frames: UnsafeCell::new([std::ptr::null_mut(); FRAMES_MAX]),
};

/// A line of the log in memory that is given to it.
struct Line<'a> {
    bytes: &'a mut [u8; LINE_BYTES_MAX],
    length: usize,
}

impl<'a> Line<'a> {
    fn begun(bytes: &'a mut [u8; LINE_BYTES_MAX], role: &str) -> Self {
        let mut line = Self { bytes, length: 0 };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let _ = write!(
            line,
            "[{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}.{:03}+00:00 {role:<7} {:>5}] \
             error: ",
            second % 60,
            since.subsec_millis(),
            std::process::id()
        );
        line
    }

    /// Writes it, as one piece.
    fn end(mut self) {
        self.length = self.length.min(LINE_BYTES_MAX - 1);
        self.bytes[self.length] = b'\n';
        // A system call and nothing else, as in a handler it must be. A line that cannot be written is lost.
        let _ = rustix::io::write(rustix::stdio::stderr(), &self.bytes[..=self.length]);
    }
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length < LINE_BYTES_MAX {
                self.bytes[self.length] = if byte.is_ascii_control() { b'?' } else { byte };
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Year, month and day of a day since 1970-01-01: Howard Hinnant's `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    const CRASH: &str = "OPENMPS_TEST_CRASH";

    /// Runs this test's program again, so that it crashes.
    fn crash(how: &str) -> Output {
        Command::new(std::env::current_exe().expect("this test"))
            .args(["crash::tests::crashes_if_told_to", "--exact", "--nocapture"])
            .env(CRASH, how)
            .output()
            .expect("this test once more")
    }

    #[test]
    fn crashes_if_told_to() {
        let Ok(how) = std::env::var(CRASH) else { return };
        report("Server", || "LaunchKernel");
        match how.as_str() {
            "panic" => panic!("on purpose\nwith two lines"),
            "abort" => std::process::abort(),
            "sent abort" => send(libc::SIGABRT),
            "sent segv" => send(libc::SIGSEGV),
            // SAFETY: none; it is to crash.
            _ => unsafe { std::ptr::without_provenance_mut::<u8>(64).write_volatile(1) },
        }
    }

    /// As `kill` does, and as a service manager whose watchdog bites.
    fn send(signal: c_int) {
        let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(rustix::process::getpid(), signal).expect("it is sent");
        std::thread::sleep(std::time::Duration::from_secs(20));
        println!("it goes on");
    }

    #[test]
    fn a_fatal_signal_that_is_sent_ends_the_process() {
        for (how, by) in [("sent abort", libc::SIGABRT), ("sent segv", libc::SIGSEGV)] {
            let output = crash(how);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.signal(), Some(by), "{how}: {said}");
            assert!(said.contains(&format!("fatal signal {by} (")), "{how}: {said}");
            assert!(!said.contains(" at address "), "{how}: {said}");
        }
    }

    #[test]
    fn a_crash_says_build_thread_request_and_calls_and_ends_as_ever() {
        let signal = |how: &str| {
            let output = crash(how);
            (output.status.signal(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let common = [version::BUILD, "thread ", "last request LaunchKernel", "Server ", "error: "];
        let (by, said) = signal("segv");
        assert_eq!(by, Some(libc::SIGSEGV), "{said}");
        assert!(said.contains("fatal signal 11 (SIGSEGV) at address 0x40; "), "{said}");
        assert!(common.iter().all(|part| said.contains(part)), "{said}");
        assert!(said.lines().filter(|line| line.contains("[0x")).count() > 2, "{said}");
        let (by, said) = signal("abort");
        assert_eq!(by, Some(libc::SIGABRT), "{said}");
        assert!(said.contains("fatal signal 6 (SIGABRT); "), "{said}");
        let (by, said) = signal("panic");
        assert_eq!(by, None, "a test catches it: {said}");
        let line = said.lines().find(|line| line.contains("on purpose")).expect("the message");
        assert!(line.contains("crash.rs:") && line.contains("on purpose?with two lines"), "{line}");
        assert!(common.iter().all(|part| line.contains(part)), "{line}");
        assert!(said.contains("crashes_if_told_to"), "the calls: {said}");
    }

    #[test]
    fn days_are_dates() {
        for (days, date) in [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29))] {
            assert_eq!(civil(days), date);
        }
        assert_eq!((civil(20_786), civil(47_540)), ((2026, 11, 29), (2100, 2, 28)));
    }
}
