//! Kernel log: what the Linux kernel says of a device's fault.
//!
//! A provider without tenants says that there was a fault, and neither where nor whose. NVIDIA's
//! kernel driver says more in the kernel's log (lines with `Xid`): for an access to memory that is
//! none, the address (its page) and whether it was read or written; for other faults, their kind.
//! The log can be read where /dev/kmsg can: by root, and by all users if `kernel.dmesg_restrict` is 0.
//!
//! This module only reads. Whose the fault was is for sessions to say.

use locks::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// The kernel's log.
const PATH: &str = "/dev/kmsg";
/// Longest record, bytes: what the kernel makes of a line of at most 1 KiB, escaped.
const RECORD_BYTES_MAX: usize = 8192;
/// Most records that are read at one fault: more than a kernel's log holds by default.
const RECORDS_MAX: usize = 100_000;
/// Most lines that are kept of one fault: each SM that saw it writes some.
const LINES_MAX: usize = 4;
/// The lines come before the error does; they are waited for a little nevertheless.
const LOOKS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// What is known of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// The address that could not be accessed: that of its page.
    pub address: Option<u64>,
    /// What the log says, for people.
    pub text: String,
}

/// The kernel's log from now on.
pub struct KernelLog {
    file: Result<Mutex<File>, ErrorKind>,
}

impl KernelLog {
    /// Opens the log at its end. If that cannot be, every report says so.
    pub fn open() -> Self {
        let open = || {
            let mut file =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(PATH)?;
            file.seek(SeekFrom::End(0))?;
            std::io::Result::Ok(Mutex::new(file))
        };
        Self { file: open().map_err(|error| error.kind()) }
    }

    /// A log that cannot be read.
    pub fn none() -> Self {
        Self { file: Err(ErrorKind::NotFound) }
    }

    /// What has been said of a device's fault since the last call, or since [`Self::open`].
    pub fn report(&self, pci_bus_id: &str) -> FaultReport {
        let file = match &self.file {
            Ok(file) => file,
            Err(kind) => {
                let text = format!("{PATH}, where its address may stand, cannot be read: {kind}");
                return FaultReport { address: None, text };
            }
        };
        let mut file = file.lock();
        for _ in 0..LOOKS_MAX {
            let report = digest(&records(&mut file), pci_bus_id, std::process::id());
            if !report.text.is_empty() {
                return report;
            }
            std::thread::sleep(PAUSE);
        }
        FaultReport { address: None, text: "the kernel's log says nothing of it".to_owned() }
    }
}

/// The messages of all records that have not been read yet.
fn records(file: &mut File) -> Vec<String> {
    let mut messages = Vec::new();
    let mut buffer = [0u8; RECORD_BYTES_MAX];
    for _ in 0..RECORDS_MAX {
        match file.read(&mut buffer) {
            Ok(bytes) if bytes > 0 => messages.extend(message(&buffer[..bytes])),
            // Records were overwritten before they were read: the next call goes on behind them.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    messages
}

/// The message of a record: `priority,number,time,flags;message`, and lines of details.
fn message(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (_, message) = text.split_once(';')?;
    Some(message.lines().next().unwrap_or_default().to_owned())
}

/// What lines say of a fault of that device. A line that names a process must name this one, by its
/// number, unless none does: in a namespace of processes we do not know our number.
fn digest(messages: &[String], pci_bus_id: &str, pid: u32) -> FaultReport {
    let device = format!("(PCI:{})", short_bus_id(pci_bus_id));
    let about_device = messages.iter().filter_map(|message| {
        let (_, rest) = message.split_once("Xid ")?;
        rest.strip_prefix(&device)?.strip_prefix(": ")
    });
    let lines: Vec<&str> = about_device.collect();
    let ours = format!("pid={pid},");
    let named = lines.iter().any(|line| line.contains(&ours));
    let fits = |line: &&&str| !named || !line.contains("pid=") || line.contains(&ours);
    let lines: Vec<&str> = lines.iter().filter(fits).copied().collect();
    let address = lines.iter().find_map(|line| faulted_at(line));
    // The line with the address first.
    let (with, without): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| faulted_at(line).is_some());
    let kept: Vec<String> =
        with.into_iter().chain(without).take(LINES_MAX).map(|line| format!("Xid {line}")).collect();
    FaultReport { address, text: kept.join("; ") }
}

/// A bus id as the kernel's log writes it: `00000000:00:06.0` is `0000:00:06` there.
fn short_bus_id(id: &str) -> String {
    let id = id.split('.').next().unwrap_or(id).to_ascii_lowercase();
    let (domain, place) = id.split_once(':').unwrap_or(("0", &id));
    format!("{:0>4}:{place}", domain.trim_start_matches('0'))
}

/// The address in `faulted @ 0x7f12_34560000.`: its upper and lower 32 bits.
fn faulted_at(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("faulted @ 0x")?;
    let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != '_').unwrap_or(rest.len());
    let (upper, lower) = rest[..end].split_once('_')?;
    let part = |digits| u32::from_str_radix(digits, 16).ok();
    Some(u64::from(part(upper)?) << 32 | u64::from(part(lower)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "NVRM: Xid (PCI:0000:00:06): 31, pid=663, name=fault, channel 0x0000000a, \
        intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_4 faulted @ 0x7f12_34560000. \
        Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE";
    const MISALIGNED: &str = "NVRM: Xid (PCI:0000:00:06): 13, Graphics SM Warp Exception on \
        (GPC 1, TPC 4, SM 0): Misaligned Address";

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn a_record_is_its_message() {
        let record = b"4,1234,28890455,-;NVRM: text; more\n SUBSYSTEM=pci\n";
        assert_eq!(message(record).as_deref(), Some("NVRM: text; more"));
        assert_eq!(message(b"nothing of the kind"), None);
    }

    #[test]
    fn the_address_of_an_access_is_found() {
        let report = digest(&lines(&["usb 1-1: new device", STORE]), "00000000:00:06.0", 663);
        assert_eq!(report.address, Some(0x7f12_3456_0000));
        assert!(report.text.starts_with("Xid 31, pid=663"), "{}", report.text);
        assert!(report.text.contains("VIRT_WRITE"), "{}", report.text);
    }

    #[test]
    fn what_other_processes_and_devices_did_is_left_out() {
        let other = STORE.replace("pid=663", "pid=700").replace("7f12", "7f13");
        let report = digest(&lines(&[&other, STORE]), "0000:00:06.0", 663);
        assert_eq!(report.address, Some(0x7f12_3456_0000));
        assert!(!report.text.contains("pid=700"));
        assert_eq!(digest(&lines(&[STORE]), "0000:00:07.0", 663), FaultReport::default());
        // Where no line has our number, the number is of another namespace.
        assert_eq!(digest(&lines(&[STORE]), "0000:00:06.0", 1).address, Some(0x7f12_3456_0000));
    }

    #[test]
    fn a_fault_without_an_address_has_its_kind() {
        let report = digest(&lines(&[MISALIGNED, MISALIGNED]), "0000:00:06.0", 1);
        assert_eq!(report.address, None);
        assert!(report.text.ends_with("Misaligned Address"), "{}", report.text);
        let many = vec![MISALIGNED.to_owned(); 50];
        assert_eq!(digest(&many, "0000:00:06.0", 1).text.matches("Xid").count(), LINES_MAX);
    }

    #[test]
    fn bus_ids_are_written_alike() {
        for id in ["00000000:3B:00.0", "0000:3b:00.0", "0:3b:00.0"] {
            assert_eq!(short_bus_id(id), "0000:3b:00");
        }
        assert_eq!(short_bus_id("00010000:3b:00.0"), "10000:3b:00");
    }

    #[test]
    fn no_line_makes_it_panic() {
        for line in ["faulted @ 0x", "faulted @ 0x_", "faulted @ 0xé_1", "Xid (PCI:", "Xid "] {
            assert_eq!(faulted_at(line), None);
            digest(&lines(&[line]), "", 0);
        }
    }
}
