//! What the environment says about the software GPU.
//!
//! Read once, when the device is made; a value that cannot be read counts as not given
//! (`openmps doctor` finds such).

use std::path::PathBuf;
use std::time::Duration;

use cuda_api::environment::*;
use cuda_api::extension::SOFTWARE_GPU_NAME;
use cuda_api::visible::visible_devices;
use simt_jit::{SimdIsa, Store, Tiers};

use crate::device::capability::{CLUSTER_BLOCKS_MAX, Capability};
use crate::device::limits::SMS_PER_GPC;
use crate::device::occupancy::clusters_of_gpc;
use crate::device::{identity, limits, profile};

/// Fewest virtual SMs by default, so that a share of 10 % means something on a small machine.
const SMS_DEFAULT_MIN: u32 = 8;
/// Most virtual SMs or worker threads: more than any machine has cores.
const SMS_MAX: u32 = 1024;

/// Most devices of a machine.
pub const DEVICES_MAX: u32 = 16;

/// Most native code that is kept for later processes, bytes, by default: a kernel's is a few KiB.
const STORE_BYTES_MAX: u64 = 256 << 20;
/// Where it is below the directory for caches.
const STORE_DIRECTORY: &str = "openmps/code";

/// Compute capability by default. Compilers then choose what every device of the last years has
/// and what this one runs fastest (`mma.sync`, `ldmatrix`, `cp.async`), not what only one
/// generation has (`wgmma`, tensor maps).
const CAPABILITY_DEFAULT: &str = "8.0";

/// How long a kernel only waits before a line says so, by default.
const STALL_DEFAULT: Duration = Duration::from_secs(10);

/// How the device is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What an SM is: OPENMPS_SOFT_CC, else [`CAPABILITY_DEFAULT`].
    pub capability: &'static Capability,
    /// It was asked for: then the device is nothing more. Else it also takes what devices of later
    /// compute capabilities take, images and clusters: programs lose nothing by it.
    pub strict: bool,
    /// The devices that are visible, by their numbers on the machine: the first is device 0.
    pub devices: Vec<u32>,
    /// Devices reach each other's memory: unless OPENMPS_SOFT_PEER is 0.
    pub peer_access: bool,
    /// Virtual SMs of a device: OPENMPS_SOFT_SMS, else 8 or the cores if more.
    pub sms: u32,
    /// Threads that run blocks: OPENMPS_SOFT_THREADS, else one a core.
    pub threads: u32,
    /// Memory of a device in bytes: OPENMPS_SOFT_MEMORY (K, M, G suffixes), else its share of half of
    /// RAM.
    pub memory_bytes: u64,
    /// Calls wait for all work of a context where NVIDIA's driver does: OPENMPS_SOFT_CONTEXT_WAITS=1.
    pub context_waits: bool,
    /// Keep the clients of a server apart: unless OPENMPS_SOFT_TENANTS is 0.
    pub tenants: bool,
    /// Say what happens on stderr: OPENMPS_SOFT_LOG set to anything but 0.
    pub log: bool,
    /// Look for races and reads of unwritten memory: OPENMPS_SOFT_CHECK set to anything but 0.
    pub check: bool,
    /// Where to write what each kernel did: OPENMPS_SOFT_PROFILE, `%p` being the process's number.
    pub profile: Option<PathBuf>,
    /// What runs kernels: OPENMPS_SOFT_TIER.
    pub tiers: Tiers,
    /// Where native code is kept for later processes.
    pub code_store: Option<CodeStore>,
    /// Which native code they get: OPENMPS_SOFT_SIMD, else the best that the processor runs.
    pub isa: Option<SimdIsa>,
    /// Directories to try for the file with which processes take turns: OPENMPS_SOFT_DIR, else
    /// /dev/shm, then /tmp. Empty: no turns.
    pub turn_dirs: Vec<PathBuf>,
    /// How long a kernel only waits before a line says so; zero: never. OPENMPS_SOFT_STALL in seconds, else
    /// [`STALL_DEFAULT`].
    pub stall: Duration,
    /// Where such lines go.
    pub say: fn(&str),
}

impl Settings {
    /// What cuDeviceGetName answers: the compute capability is named if it was asked for.
    pub fn device_name(&self) -> String {
        let Capability { major, minor, .. } = self.capability;
        match self.strict {
            true => format!("{SOFTWARE_GPU_NAME}, sm_{major}{minor}"),
            false => SOFTWARE_GPU_NAME.to_owned(),
        }
    }

    /// From the environment of this process.
    pub fn from_environment() -> Self {
        Self::from_lookup(|name| std::env::var_os(name).and_then(|v| v.into_string().ok()))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let number = |name: &str, default: u32| {
            lookup(name)
                .and_then(|v| v.trim().parse::<u32>().ok())
                .filter(|n| *n > 0)
                .unwrap_or(default)
                .min(SMS_MAX)
        };
        let asked = lookup(OPENMPS_SOFT_CC).and_then(|v| Capability::parse(&v));
        let default = || Capability::parse(CAPABILITY_DEFAULT).expect("a row of the table");
        let on = |name: &str| lookup(name).is_some_and(|v| !v.is_empty() && v != "0");
        let memory = lookup(OPENMPS_SOFT_MEMORY).and_then(|v| parse_bytes(&v));
        let turn_dirs = match lookup(OPENMPS_SOFT_DIR) {
            Some(dir) if !dir.is_empty() => vec![PathBuf::from(dir)],
            _ => vec![PathBuf::from("/dev/shm"), PathBuf::from("/tmp")],
        };
        let installed = installed(&lookup);
        let uuids = identity::uuids(installed);
        let list = lookup(CUDA_VISIBLE_DEVICES);
        // They are alike, so both orders are that of their addresses.
        let visible = visible_devices(list.as_deref(), &uuids);
        Self {
            devices: visible.into_iter().map(|place| place as u32).collect(),
            peer_access: lookup(OPENMPS_SOFT_PEER).is_none_or(|v| v.trim() != "0"),
            capability: asked.unwrap_or_else(default),
            strict: asked.is_some(),
            sms: number(OPENMPS_SOFT_SMS, cores.max(SMS_DEFAULT_MIN)),
            threads: number(OPENMPS_SOFT_THREADS, cores),
            memory_bytes: memory
                .unwrap_or_else(|| physical_memory_bytes() / 2 / u64::from(installed))
                / limits::CHUNK_BYTES
                * limits::CHUNK_BYTES,
            context_waits: on(OPENMPS_SOFT_CONTEXT_WAITS),
            tenants: lookup(OPENMPS_SOFT_TENANTS).is_none_or(|v| v.trim() != "0"),
            log: on(OPENMPS_SOFT_LOG),
            check: on(OPENMPS_SOFT_CHECK),
            profile: lookup(OPENMPS_SOFT_PROFILE)
                .filter(|path| !path.is_empty())
                .map(|path| profile::path_of_process(&path)),
            tiers: lookup(OPENMPS_SOFT_TIER).and_then(|v| Tiers::parse(&v)).unwrap_or_default(),
            code_store: CodeStore::from_lookup(&lookup),
            isa: SimdIsa::choose(lookup(OPENMPS_SOFT_SIMD).as_deref()),
            turn_dirs,
            stall: lookup(OPENMPS_SOFT_STALL)
                .and_then(|v| v.trim().parse().ok())
                .map_or(STALL_DEFAULT, Duration::from_secs),
            say: |line| crate::device::say(line),
        }
    }
}

/// Devices that the machine has: OPENMPS_SOFT_DEVICES, 1 to [`DEVICES_MAX`].
fn installed(lookup: &impl Fn(&str) -> Option<String>) -> u32 {
    let number = lookup(OPENMPS_SOFT_DEVICES).and_then(|text| text.trim().parse().ok());
    number.filter(|number| (1..=DEVICES_MAX).contains(number)).unwrap_or(1)
}

/// The same of this process, whichever of them it sees.
pub fn installed_devices() -> u32 {
    installed(&|name: &str| std::env::var_os(name).and_then(|v| v.into_string().ok()))
}

impl Settings {
    /// Numbers of SMs from one device's first to the next one's: no GPC has SMs of two devices.
    pub fn sm_stride(&self) -> u32 {
        match self.devices.len() {
            0 | 1 => self.sms,
            _ => self.sms.next_multiple_of(SMS_PER_GPC),
        }
    }

    /// Most blocks of a cluster of a function that allows any size; 0 if there are no clusters.
    pub fn cluster_blocks_max(&self) -> u32 {
        match self.strict {
            true => self.capability.cluster_blocks_max,
            false => CLUSTER_BLOCKS_MAX,
        }
    }

    /// Clusters of so many blocks that are resident at once where `resident` of their blocks are
    /// on each SM.
    pub fn clusters(&self, resident: u32, blocks: u32) -> u32 {
        let (whole, rest) = (self.sms / SMS_PER_GPC, self.sms % SMS_PER_GPC);
        whole * self.clusters_of_gpc(SMS_PER_GPC, resident, blocks)
            + self.clusters_of_gpc(rest, resident, blocks)
    }

    /// The same on some SMs, which ascend.
    pub fn clusters_on(&self, sms: &[u32], resident: u32, blocks: u32) -> u32 {
        let gpcs = sms.chunk_by(|a, b| a / SMS_PER_GPC == b / SMS_PER_GPC);
        gpcs.map(|gpc| self.clusters_of_gpc(gpc.len() as u32, resident, blocks)).sum()
    }

    fn clusters_of_gpc(&self, sms: u32, resident: u32, blocks: u32) -> u32 {
        match self.strict {
            true => clusters_of_gpc(sms, resident, blocks),
            // Few SMs are no reason to refuse clusters.
            false => sms * resident / blocks,
        }
    }
}

/// Where native code is kept, and how much of it. NVIDIA's driver reads the same variables for the
/// code that it makes of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeStore {
    /// CUDA_CACHE_PATH, else the user's cache directory.
    pub directory: PathBuf,
    /// CUDA_CACHE_MAXSIZE.
    pub bytes_max: u64,
}

impl CodeStore {
    /// The store itself.
    pub fn open(&self) -> Store {
        Store::new(self.directory.clone(), self.bytes_max)
    }

    fn from_lookup(lookup: &impl Fn(&str) -> Option<String>) -> Option<Self> {
        if lookup(CUDA_CACHE_DISABLE).is_some_and(|v| v.trim() == "1") {
            return None;
        }
        // Directories that are not absolute are not meant (XDG base directory specification).
        let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".cache"));
        let directory =
            absolute(CUDA_CACHE_PATH).or_else(|| absolute("XDG_CACHE_HOME")).or_else(home)?;
        let bytes_max = lookup(CUDA_CACHE_MAXSIZE).and_then(|v| v.trim().parse().ok());
        Some(Self {
            directory: directory.join(STORE_DIRECTORY),
            bytes_max: bytes_max.unwrap_or(STORE_BYTES_MAX),
        })
    }
}

/// Bytes from "1073741824", "512M", "16G"; `None` if it is not such a number.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 10),
        'm' | 'M' => (&text[..text.len() - 1], 20),
        'g' | 'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes >= limits::CHUNK_BYTES).then_some(bytes)
}

/// RAM of the machine, bytes.
pub(crate) fn physical_memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram * u64::from(machine.mem_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_suffix() {
        assert_eq!(parse_bytes("512M"), Some(512 << 20));
        assert_eq!(parse_bytes(" 3g "), Some(3 << 30));
        assert_eq!(parse_bytes("4194304"), Some(4 << 20));
        assert_eq!(parse_bytes("1"), None);
        assert_eq!(parse_bytes("x"), None);
        assert_eq!(parse_bytes("99999999999G"), None);
    }

    #[test]
    fn native_code_is_kept_where_cuda_keeps_it_or_in_the_users_cache() {
        let store = |given: &[(&str, &str)]| {
            CodeStore::from_lookup(&|name: &str| {
                given.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string())
            })
        };
        let place = |given: &[(&str, &str)]| store(given).map(|s| s.directory);
        let (home, xdg) = (("HOME", "/home/u"), ("XDG_CACHE_HOME", "/var/u"));
        assert_eq!(place(&[home]), Some("/home/u/.cache/openmps/code".into()));
        assert_eq!(place(&[home, xdg]), Some("/var/u/openmps/code".into()));
        assert_eq!(place(&[home, ("XDG_CACHE_HOME", "u")]), place(&[home]));
        assert_eq!(place(&[xdg, ("CUDA_CACHE_PATH", "/c")]), Some("/c/openmps/code".into()));
        assert_eq!(place(&[home, ("CUDA_CACHE_DISABLE", "1")]), None);
        assert_eq!(place(&[]), None);
        let bounded = store(&[home, ("CUDA_CACHE_MAXSIZE", "1048576")]);
        assert_eq!(bounded.map(|s| s.bytes_max), Some(1 << 20));
    }

    #[test]
    fn what_is_given_wins_over_the_default() {
        let given = Settings::from_lookup(|name| match name {
            "OPENMPS_SOFT_CC" => Some("9.0".into()),
            "OPENMPS_SOFT_SMS" => Some("20".into()),
            "OPENMPS_SOFT_THREADS" => Some("zero".into()),
            "OPENMPS_SOFT_MEMORY" => Some("64M".into()),
            "OPENMPS_SOFT_PROFILE" => Some("/run/%p.tsv".into()),
            "OPENMPS_SOFT_DIR" => Some("/run/x".into()),
            _ => None,
        });
        assert_eq!((given.capability.number(), given.strict), (90, true));
        assert_eq!(given.sms, 20);
        assert!(given.threads >= 1);
        assert_eq!(given.memory_bytes, 64 << 20);
        let profile = PathBuf::from(format!("/run/{}.tsv", std::process::id()));
        assert_eq!(given.profile, Some(profile));
        assert_eq!(given.turn_dirs, [PathBuf::from("/run/x")]);
    }

    #[test]
    fn devices_are_as_many_as_are_asked_for_and_those_that_are_visible() {
        let with = |devices: &str, visible: Option<&str>| {
            Settings::from_lookup(|name| match name {
                "OPENMPS_SOFT_DEVICES" => Some(devices.to_owned()),
                "CUDA_VISIBLE_DEVICES" => visible.map(str::to_owned),
                _ => None,
            })
        };
        assert_eq!(with("4", None).devices, [0, 1, 2, 3]);
        assert_eq!(with("4", Some("2,0")).devices, [2, 0]);
        let third = identity::uuids(4)[3].to_string();
        assert_eq!(with("4", Some(&third)).devices, [3]);
        assert_eq!(with("4", Some("-1")).devices, [0u32; 0]);
        for wrong in ["0", "17", "x", ""] {
            assert_eq!(with(wrong, None).devices, [0], "{wrong}");
        }
        let sms = |devices, sms| Settings { sms, ..with(devices, None) }.sm_stride();
        assert_eq!([sms("1", 8), sms("2", 8), sms("2", 40)], [8, 16, 48]);
    }

    #[test]
    fn a_capability_that_was_not_asked_for_shuts_nothing_out() {
        let with = |cc: Option<&str>| {
            let cc = cc.map(str::to_owned);
            Settings::from_lookup(|name| cc.clone().filter(|_| name == "OPENMPS_SOFT_CC"))
        };
        let default = with(None);
        assert_eq!((default.capability.number(), default.strict), (80, false));
        assert_eq!(default.cluster_blocks_max(), 16);
        assert_eq!(with(Some("8.0")).cluster_blocks_max(), 0);
        assert_eq!(with(Some("12.0")).cluster_blocks_max(), 8);
        assert!(!with(Some("4.2")).strict);
    }
}
