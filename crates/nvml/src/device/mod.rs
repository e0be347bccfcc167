//! Device: what is known of the software GPU without using it, its description, its users, how busy
//! it is.

mod activity;
pub(crate) mod memory_limits;
mod users;
mod xid;

pub(crate) use activity::ProcessSample;
pub(crate) use users::{User, Users};
pub(crate) use xid::{Watch, XidSource};

use activity::{Activity, ProcessActivity};
use cuda_api::extension::DeviceDescription;
use driver_common::pci::address as address_numbers;
use locks::Mutex;
use provider::Provider;
use provider::compute_mode::{self, ComputeMode};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use crate::status::{Answer, Failure};

/// The directory of the daemon that this process asks: this user's, or that of the driver root in which this library
/// lies, for hooks of container runtimes, which have no environment.
fn daemon_directory() -> PathBuf {
    if no_directory_is_named()
        && let Some(root) = provider::driver_root()
    {
        return root.join(provider::DRIVER_ROOT_PIPE);
    }
    control::locate::pipe_directory()
}

/// No variable says where the daemon is.
fn no_directory_is_named() -> bool {
    std::env::var_os(cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY).is_none_or(|of| of.is_empty())
}

/// The device.
pub(crate) struct Device {
    pub(crate) name: String,
    uuid: [u8; 16],
    /// `0000:00:00.0`
    pci_bus_id: String,
    pub(crate) memory_bytes: u64,
    pub(crate) compute_capability: (i32, i32),
    pub(crate) sms: u32,
    pub(crate) clock_khz: u32,
    pub(crate) memory_clock_khz: u32,
    pub(crate) memory_bus_bits: u32,
    /// What cuDriverGetVersion answers.
    pub(crate) driver_version: i32,
    /// The file in which processes on the device count.
    shared_file: Option<PathBuf>,
    activity: Mutex<Activity>,
    processes: Mutex<ProcessActivity>,
}

impl Device {
    /// The devices of a provider that describes them; `None` if it does not. All of the machine's,
    /// whichever the process may use: so NVML has it.
    pub(crate) fn all_of(provider: &Provider) -> Option<Answer<Vec<Self>>> {
        let describe = provider.extension()?.device_describe;
        let mut driver_version = 0;
        // SAFETY: the place is writable; the function may be called before cuInit.
        if unsafe { (provider.table().cuDriverGetVersion)(&mut driver_version) }.is_err() {
            return Some(Err(Failure::UNKNOWN));
        }
        let one = |ordinal| {
            let mut description = MaybeUninit::<DeviceDescription>::zeroed();
            // SAFETY: the place is writable and of the type that the function writes, which may be
            // called before cuInit; all bytes, also the zeros that it leaves, are a description.
            let description = unsafe {
                describe(ordinal, description.as_mut_ptr()).ok()?;
                description.assume_init()
            };
            Some(Self::new(&description, driver_version))
        };
        let all: Vec<Self> = (0..).map_while(one).collect();
        Some(if all.is_empty() { Err(Failure::UNKNOWN) } else { Ok(all) })
    }

    pub(crate) fn new(description: &DeviceDescription, driver_version: i32) -> Self {
        let directory = text(&description.shared_directory);
        let shared_file = (!directory.is_empty())
            .then(|| PathBuf::from(directory).join(cuda_api::extension::ACTIVITY_FILE_NAME));
        Self {
            name: text(&description.name),
            uuid: description.uuid,
            pci_bus_id: text(&description.pci_bus_id),
            memory_bytes: description.memory_bytes,
            compute_capability: (description.compute_major, description.compute_minor),
            sms: description.sms,
            clock_khz: description.clock_khz,
            memory_clock_khz: description.memory_clock_khz,
            memory_bus_bits: description.memory_bus_bits,
            driver_version,
            activity: Mutex::new(Activity::new(shared_file.as_deref())),
            processes: Mutex::default(),
            shared_file,
        }
    }

    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`
    pub(crate) fn uuid_text(&self) -> String {
        cuda_api::CUuuid { bytes: self.uuid }.to_string()
    }

    /// Domain, bus and device of its PCI address; zeros for what it does not say.
    pub(crate) fn pci_numbers(&self) -> [u32; 3] {
        numbers(&self.pci_bus_id).unwrap_or_default()
    }

    /// Its PCI address with that many digits for the domain.
    pub(crate) fn pci_bus_id(&self, domain_digits: usize) -> String {
        let [domain, bus, device] = self.pci_numbers();
        format!("{domain:0domain_digits$X}:{bus:02X}:{device:02X}.0")
    }

    /// Whether a PCI address is its own.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        numbers(address) == Some(self.pci_numbers())
    }

    /// Where its processes meet.
    fn meeting_place(&self) -> Option<&Path> {
        self.shared_file.as_deref().and_then(Path::parent)
    }

    /// Who may have contexts on it.
    pub(crate) fn compute_mode(&self) -> ComputeMode {
        self.meeting_place().map_or(ComputeMode::Default, compute_mode::get)
    }

    /// Sets that. NOT_SUPPORTED where processes meet nowhere.
    pub(crate) fn set_compute_mode(&self, mode: ComputeMode) -> Answer {
        let place = self.meeting_place().ok_or(Failure::NOT_SUPPORTED)?;
        compute_mode::set(place, mode).map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => Failure::NO_PERMISSION,
            _ => Failure::UNKNOWN,
        })
    }

    /// The processes that use it.
    pub(crate) fn users(&self) -> Users {
        Users::find(self.shared_file.as_deref(), &self.uuid_text())
    }

    /// Memory that is in use, bytes; at most all of it.
    pub(crate) fn used_bytes(&self) -> u64 {
        users::used_bytes(self.shared_file.as_deref()).min(self.memory_bytes)
    }

    /// Memory in all and in use as the calling process is to see it, bytes: of a client with a limit
    /// its own, of others the device's.
    pub(crate) fn memory_seen(&self) -> (u64, u64) {
        let users = self.users();
        let own = users.clients.iter().find(|user| user.pid == std::process::id());
        let limited = own.and_then(|user| Some((user.memory_limit?, user.memory_bytes)));
        seen((self.memory_bytes, self.used_bytes()), limited)
    }

    /// In how much of the last sampling period a kernel ran, percent.
    pub(crate) fn busy_percent(&self) -> u32 {
        let mut activity = self.activity.lock();
        activity.busy_percent(self.shared_file.as_deref())
    }

    /// In how much of the last sampling period a kernel of each process ran: of clients of a daemon, which
    /// counts what they do.
    pub(crate) fn process_samples(&self) -> Vec<ProcessSample> {
        let mut processes = self.processes.lock();
        processes.samples(|| self.users().clients).to_vec()
    }
}

/// Total and used memory, given a client's limit and what it has.
fn seen((total, used): (u64, u64), limited: Option<(u64, u64)>) -> (u64, u64) {
    match limited {
        Some((limit, has)) if limit < total => (limit, has.min(limit)),
        _ => (total, used),
    }
}

/// Domain, bus and device of an address such as 0000:3b:00.0; the domain may be left out.
fn numbers(address: &str) -> Option<[u32; 3]> {
    address_numbers(address).map(|(domain, bus, device, _)| [domain, bus, device])
}

/// A NUL-terminated text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_client_sees_its_limit() {
        assert_eq!(seen((100, 60), None), (100, 60));
        assert_eq!(seen((100, 60), Some((50, 20))), (50, 20));
        assert_eq!(seen((100, 60), Some((50, 70))), (50, 50), "lowered under it");
        assert_eq!(seen((100, 60), Some((200, 20))), (100, 60));
    }

    #[test]
    fn addresses_are_read_in_every_spelling() {
        assert_eq!(numbers("00000000:3B:00.0"), Some([0, 0x3b, 0]));
        assert_eq!(numbers("0001:3b:01"), Some([1, 0x3b, 1]));
        assert_eq!(numbers("3b:00.0"), Some([0, 0x3b, 0]));
        assert_eq!(numbers("1:2:3:4"), None);
        assert_eq!(numbers(""), None);
    }
}
