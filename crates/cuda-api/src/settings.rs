//! Values of settings of MPS: shares of SMs, sizes of memory, priorities, read from commands and variables.
//!
//! One reader for daemon, client and `openmps`, so that all take and refuse the same texts. A
//! refusal says what is allowed.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Longest name of a device in a setting, bytes: a UUID has 40.
pub const DEVICE_NAME_BYTES_MAX: usize = 64;
/// Most limits of memory in one variable, or set for one server: 16 devices, each by number and UUID.
pub const MEMORY_LIMITS_MAX: usize = 32;

/// Why a text is no value of a setting: what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRefused {
    /// The text.
    pub found: String,
    /// What is allowed.
    pub allowed: &'static str,
}

impl fmt::Display for SettingRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.found, self.allowed)
    }
}

impl core::error::Error for SettingRefused {}

fn refused<T>(found: &str, allowed: &'static str) -> Result<T, SettingRefused> {
    Err(SettingRefused { found: found.to_owned(), allowed })
}

/// What servers count of launches, and where device times come from. A provider that counts by itself
/// (the software GPU) does so in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Counting {
    /// Nothing is counted and nothing is timed.
    Off = 0,
    /// Launches are counted, and a sample of them is timed by events.
    #[default]
    Sampled = 1,
    /// As [`Counting::Sampled`], but every launch is timed.
    Every = 2,
    /// As [`Counting::Sampled`], and CUPTI says in short windows what kernels take.
    Cupti = 3,
}

impl Counting {
    /// What is allowed.
    pub const ALLOWED: &'static str = "off, sampled, every or cupti";
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Sampled, Self::Every, Self::Cupti];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sampled => "sampled",
            Self::Every => "every",
            Self::Cupti => "cupti",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// What is allowed, if the text is something else.
    pub fn parse(text: &str) -> Result<Self, SettingRefused> {
        match Self::ALL.into_iter().find(|counting| counting.name() == text) {
            Some(counting) => Ok(counting),
            None => refused(text, Self::ALLOWED),
        }
    }

    /// By its number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|counting| *counting as u8 == number)
    }
}

/// When launches of which a program repeats the sequence are submitted as one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchBatching {
    /// Never.
    Off,
    /// While the device has other work, and as in [`LaunchBatching::Oversubscribed`].
    On,
    /// While programs leave no core free.
    Oversubscribed,
}

impl LaunchBatching {
    /// By the word for it; `None` if that is no such word.
    pub fn of_text(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(Self::Off),
            "on" => Some(Self::On),
            "oversubscribed" => Some(Self::Oversubscribed),
            _ => None,
        }
    }

    /// Where nothing is set: a launch to the software GPU costs no more than a node of a graph.
    pub fn default_of(is_software: bool) -> Self {
        if is_software { Self::Off } else { Self::Oversubscribed }
    }
}

/// A share of a device's SMs: more than 0 % and at most 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentage {
    thousandths: u32,
}

impl Percentage {
    /// All SMs.
    pub const ALL: Self = Self { thousandths: 100_000 };
    /// What is allowed.
    pub const ALLOWED: &'static str = "a percentage of more than 0 and at most 100";

    /// A share of so many thousandths of a percent, 1 to 100000.
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        match thousandths {
            1..=100_000 => Some(Self { thousandths }),
            _ => None,
        }
    }

    /// 100 % through `parts`, rounded up, so that a third of 132 SMs is 44.
    pub fn of_parts(parts: u32) -> Self {
        Self { thousandths: 100_000_u32.div_ceil(parts.max(1)) }
    }

    /// Thousandths of a percent.
    pub const fn thousandths(self) -> u32 {
        self.thousandths
    }

    /// Reads `25`, `33.3`, `25%`.
    ///
    /// # Errors
    /// What is allowed, if the text is something else.
    pub fn parse(text: &str) -> Result<Self, SettingRefused> {
        let number = text.trim().trim_end_matches('%').trim_end();
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value = if plain { number.parse::<f64>().ok() } else { None };
        // Rounded, not cut: 33.3 is not a binary fraction.
        let thousandths = value.filter(|v| *v <= 100.0).map(|v| (v * 1000.0 + 0.5) as u32);
        match thousandths.and_then(Self::from_thousandths) {
            Some(share) => Ok(share),
            None => refused(text, Self::ALLOWED),
        }
    }

    /// SMs that make up the share of `all`: rounded down to whole steps, one step at least.
    pub fn sms(self, all: u32, step: u32) -> u32 {
        let step = step.clamp(1, all.max(1));
        let exact = (u64::from(all) * u64::from(self.thousandths) / 100_000) as u32;
        if exact >= all { all } else { (exact / step * step).max(step) }
    }
}

/// As NVIDIA's shell prints it: with one digit behind the point.
impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", f64::from(self.thousandths) / 1000.0)
    }
}

/// A priority of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// 0: as streams say.
    #[default]
    Normal = 0,
    /// 1: each stream is less urgent than all of clients with normal priority.
    BelowNormal = 1,
}

impl Priority {
    /// What is allowed.
    pub const ALLOWED: &'static str = "0 (normal) or 1 (below normal)";

    /// The priority of a number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Normal),
            1 => Some(Self::BelowNormal),
            _ => None,
        }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Reads `0`, `1`, `normal`, `below-normal`.
    ///
    /// # Errors
    /// What is allowed, if the text is something else.
    pub fn parse(text: &str) -> Result<Self, SettingRefused> {
        match text.trim() {
            "0" | "normal" => Ok(Self::Normal),
            "1" | "below" | "below-normal" => Ok(Self::BelowNormal),
            _ => refused(text, Self::ALLOWED),
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::BelowNormal => "below normal",
        })
    }
}

/// What a size of memory may be.
pub const SIZE_ALLOWED: &str = "a whole number above 0 with K, M or G behind it, as 512M or 4G";
/// The same of a number that is too large.
pub const SIZE_MAX_ALLOWED: &str = "a size below 16 EiB: it is too large";

/// Reads a size of memory: a whole number with `K`, `M` or `G`, with or without `B` or `iB` behind. Bytes.
///
/// # Errors
/// What is allowed, if the text is something else.
pub fn parse_size(text: &str) -> Result<u64, SettingRefused> {
    let word = text.trim();
    let word = word.strip_suffix(['B', 'b']).map_or(word, |word| {
        // `GiB` says what `GB` means here.
        word.strip_suffix(['i', 'I']).unwrap_or(word)
    });
    let shift = match word.as_bytes().last() {
        Some(b'G' | b'g') => 30,
        Some(b'M' | b'm') => 20,
        Some(b'K' | b'k') => 10,
        _ => return refused(text, SIZE_ALLOWED),
    };
    let digits = &word[..word.len() - 1];
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || digits.bytes().all(|byte| byte == b'0') {
        return refused(text, SIZE_ALLOWED);
    }
    // A whole number that is too large for 64 bits is one all the same.
    match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)) {
        Some(bytes) => Ok(bytes),
        None => refused(text, SIZE_MAX_ALLOWED),
    }
}

/// Reads a number of bytes, with `K`, `M` or `G` behind it or nothing; `None` if the text is something else.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match text.as_bytes().get(number.len()..)? {
        [] => 0,
        [b'K' | b'k'] => 10,
        [b'M' | b'm'] => 20,
        [b'G' | b'g'] => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Bytes as the largest unit that gives a whole number, as [`parse_size`] reads it; `B` for what
/// none does.
pub fn size_text(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let whole = units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << *shift));
    match whole {
        Some((unit, shift)) => alloc::format!("{}{unit}", bytes >> shift),
        None => alloc::format!("{bytes}B"),
    }
}

/// What names a device in a setting.
pub const DEVICE_ALLOWED: &str =
    "a device: its number, or its UUID, or the beginning of that from GPU- on";

/// Checks the word by which a setting names a device: a number, or a UUID or its beginning.
///
/// # Errors
/// What is allowed, if it is neither.
pub fn parse_device(text: &str) -> Result<&str, SettingRefused> {
    let word = text.trim();
    let number = word.parse::<u16>().is_ok();
    let is_uuid = |digits: &str| {
        digits.len() <= 36 && digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let uuid = ["GPU-", "MIG-"].iter().any(|p| word.strip_prefix(p).is_some_and(is_uuid));
    if number || uuid { Ok(word) } else { refused(text, DEVICE_ALLOWED) }
}

/// True if a setting's word names the device with that number and UUID.
pub fn names_device(word: &str, ordinal: u32, uuid: &str) -> bool {
    match word.parse::<u32>() {
        Ok(number) => number == ordinal,
        Err(_) => {
            word.len() > 4 && uuid.get(..word.len()).is_some_and(|u| u.eq_ignore_ascii_case(word))
        }
    }
}

/// A limit of memory on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The device's number or UUID, as it was given.
    pub device: String,
    /// Bytes.
    pub bytes: u64,
}

/// Reads `0=1G,GPU-…=512MB`.
///
/// # Errors
/// What is allowed, for the first part that is something else.
pub fn parse_memory_limits(text: &str) -> Result<Vec<MemoryLimit>, SettingRefused> {
    const ALLOWED: &str = "a list of DEVICE=SIZE with commas between, as 0=1G,1=512MB";
    let mut limits = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((device, size)) = part.split_once('=') else { return refused(part, ALLOWED) };
        if limits.len() >= MEMORY_LIMITS_MAX {
            return refused(text, ALLOWED);
        }
        let device = parse_device(device)?.to_owned();
        limits.push(MemoryLimit { device, bytes: parse_size(size)? });
    }
    Ok(limits)
}

/// CPUs of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// Those near the device.
    Near,
    /// Those of the daemon.
    All,
    /// These.
    List(Vec<u32>),
}

/// Reads `near`, `all`, or numbers and ranges of CPUs as the kernel and taskset write them (`0-3,8`);
/// nothing is `near`.
///
/// # Errors
/// What is allowed.
pub fn parse_cpus(text: &str) -> Result<Cpus, SettingRefused> {
    /// CPUs that a set has room for.
    const CPUS_MAX: u32 = 1024;
    let refused = || SettingRefused {
        found: text.to_owned(),
        allowed: "a list of CPUs as 0-3,8, near (the device) or all (of the daemon's)",
    };
    match text.trim() {
        "near" => return Ok(Cpus::Near),
        "all" => return Ok(Cpus::All),
        _ => {}
    }
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX);
        let (first, last) = number(first).zip(number(last)).ok_or_else(refused)?;
        if first > last {
            return Err(refused());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(Cpus::List(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_down_to_whole_steps() {
        let sms = |text: &str, all, step| Percentage::parse(text).unwrap().sms(all, step);
        assert_eq!(sms("25", 8, 1), 2);
        assert_eq!(sms("25", 132, 2), 32);
        assert_eq!((sms("50", 132, 2), sms("75%", 132, 2), sms("99.9", 132, 2)), (66, 98, 130));
        assert_eq!((sms("100", 132, 2), sms("1", 132, 2), sms("0.001", 8, 1)), (132, 2, 1));
        assert_eq!(sms("100", 1, 2), 1);
        assert_eq!(
            (Percentage::of_parts(8).sms(8, 1), Percentage::of_parts(3).sms(132, 2)),
            (1, 44)
        );
    }

    #[test]
    fn percentages_are_read_as_they_are_printed() {
        for (text, shown) in
            [("40", "40.0"), ("55.5", "55.5"), ("12.0", "12.0"), ("33.333", "33.3")]
        {
            assert_eq!(alloc::format!("{}", Percentage::parse(text).unwrap()), shown);
        }
        for wrong in ["", "0", "150", "abc", "-1", "1e1", "inf", "NaN", "100.001", "0.0001", "5 %x"]
        {
            assert!(Percentage::parse(wrong).is_err(), "{wrong}");
        }
        let text = alloc::format!("{}", Percentage::parse("150").unwrap_err());
        assert_eq!(text, "\"150\" is not a percentage of more than 0 and at most 100");
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!((parse_size("512MB"), parse_size("4606M")), (Ok(512 << 20), Ok(4606 << 20)));
        assert_eq!((parse_size("2GiB"), parse_size("512mib")), (Ok(2 << 30), Ok(512 << 20)));
        assert_eq!((parse_size("1024K"), parse_size("2g")), (Ok(1 << 20), Ok(2 << 30)));
        for wrong in
            ["", "G", "0G", "1", "xyz", "1T", "-1G", "1.5G", "99999999999999G", "+1G", "1Gi", "1iB"]
        {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        for large in ["99999999999999G", "999999999999999999999999K"] {
            assert_eq!(parse_size(large).unwrap_err().allowed, SIZE_MAX_ALLOWED, "{large}");
        }
        assert_eq!(parse_size("00000000000000000000000G").unwrap_err().allowed, SIZE_ALLOWED);
        assert_eq!(
            (size_text(3 << 30), size_text(1536 << 20), size_text(5)),
            ("3G".into(), "1536M".into(), "5B".into())
        );
    }

    #[test]
    fn devices_are_numbers_or_uuids() {
        let uuid = "GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d";
        for word in ["0", "15", uuid, "GPU-d0a1", "MIG-d0a1"] {
            assert_eq!(parse_device(word), Ok(word));
        }
        for wrong in ["", "x", "-1", "GPU", "GPU-xyz", "0x1", "99999"] {
            assert!(parse_device(wrong).is_err(), "{wrong}");
        }
        assert!(names_device("0", 0, uuid) && names_device("GPU-D0a1", 3, uuid));
        assert!(!names_device("1", 0, uuid) && !names_device("GPU-", 0, uuid));
        assert!(!names_device("GPU-d0a1cf3e-b77a-11c2-91d0-85871bc94d2d0", 0, uuid));
    }

    #[test]
    fn memory_limits_are_a_list() {
        let limits = parse_memory_limits("0=1G, 1=512MB,").unwrap();
        assert_eq!(limits.len(), 2);
        assert_eq!((limits[1].device.as_str(), limits[1].bytes), ("1", 512 << 20));
        assert_eq!(parse_memory_limits(""), Ok(Vec::new()));
        for wrong in ["1G", "0=", "0=1", "x=1G", "0:1G"] {
            assert!(parse_memory_limits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn priorities_have_numbers_and_words() {
        assert_eq!(Priority::parse("0"), Ok(Priority::Normal));
        assert_eq!(Priority::parse("below-normal"), Ok(Priority::BelowNormal));
        assert!(["", "2", "-1", "high"].iter().all(|wrong| Priority::parse(wrong).is_err()));
    }

    #[test]
    fn lists_of_cpus_are_the_kernel_s() {
        assert_eq!(parse_cpus("0-3,8"), Ok(Cpus::List(Vec::from([0, 1, 2, 3, 8]))));
        assert_eq!(parse_cpus(" 5,5 "), Ok(Cpus::List(Vec::from([5]))));
        assert_eq!((parse_cpus("near"), parse_cpus("all")), (Ok(Cpus::Near), Ok(Cpus::All)));
        for wrong in ["", "3-1", "a", "1,", "-1", "0-9999", "1-2-3"] {
            assert!(parse_cpus(wrong).is_err(), "{wrong}");
        }
    }
}
