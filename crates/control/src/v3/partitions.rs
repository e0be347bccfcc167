//! Static partitions of devices' SMs: whole chunks that a program has to name. A partition without programs lends its
//! chunks, if it may, to neighbours that may borrow.

use channel::message::Device;
use cuda_api::attributes::{COMPUTE_CAPABILITY_MAJOR, MULTIPROCESSOR_COUNT};
use cuda_api::{CUuuid, CudaError};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use thiserror::Error;

/// Characters of a partition's own name.
const NAME_CHARS: usize = 32;

/// Why partitions are as they were.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PartitionError {
    #[error(
        "Failed to fulfill the requested SM partition of {chunks} chunks, error \
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: {free} chunks in a row are free"
    )]
    Full { chunks: u32, free: u32 },
    #[error("there is no device {0:?}")]
    Device(String),
    #[error("there is no partition {0:?}; lspart lists them")]
    Unknown(String),
    #[error("SM partition '{0}' exists already on this device of the server")]
    Exists(String),
    #[error(
        "the SMs beyond whole chunks, or the last {0} chunks before them, are another partition's"
    )]
    Remainder(u32),
    #[error("Partition {0} in use. Terminate all clients before removing.")]
    InUse(String),
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub device: CUuuid,
    /// What stands behind the device's UUID and a slash.
    name: String,
    first_chunk: u32,
    pub chunks: u32,
    /// Its SMs.
    pub sms: u32,
    pub of: Purpose,
}

/// Whose partition it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// Number of the named server whose clients may have it; 0: the daemon's, of protocol 2.
    pub named: u32,
    /// The operator's name for it; none in protocol 2.
    pub label: String,
    /// It has the SMs beyond whole chunks too.
    pub remainder: bool,
    /// It lends its chunks while no program has it.
    pub shareable: bool,
    /// Chunks that it has at most with those that it borrows; 0: it borrows none.
    pub chunks_max: u32,
}

impl Partition {
    /// `GPU-…/name`
    pub fn id(&self) -> String {
        format!("{}/{}", self.device, self.name)
    }
}

/// A device's SMs and what they are given out in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sms {
    all: u32,
    /// SMs of a chunk.
    chunk: u32,
}

impl Sms {
    /// Chunks are 8 SMs from compute capability 9.0 on, 4 before.
    fn of(device: &Device) -> Sms {
        let number = |which: u32| device.attributes.get(which as usize).copied().unwrap_or(0);
        let chunk = if number(COMPUTE_CAPABILITY_MAJOR) >= 9 { 8 } else { 4 };
        Sms { all: number(MULTIPROCESSOR_COUNT).max(0) as u32, chunk }
    }

    fn chunks(self) -> u32 {
        self.all / self.chunk
    }
}

/// Partitions as one daemon writes them for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PartitionsRecord {
    made: u64,
    all: Vec<PartitionRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PartitionRecord {
    device: String,
    name: String,
    first_chunk: u32,
    chunks: u32,
    sms: u32,
    named: u32,
    label: String,
    remainder: bool,
    #[serde(default)]
    shareable: bool,
    #[serde(default)]
    chunks_max: u32,
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    all: Vec<Partition>,
    /// Made so far: names are never used again.
    made: u64,
    /// Which client process has which partition: server, process, id.
    clients: Vec<(u32, u32, String)>,
}

impl Partitions {
    /// What the next daemon is given of them; programs have their names in variables.
    pub fn record(&self) -> PartitionsRecord {
        let record = |of: &Partition| PartitionRecord {
            device: of.device.to_string(),
            name: of.name.clone(),
            first_chunk: of.first_chunk,
            chunks: of.chunks,
            sms: of.sms,
            named: of.of.named,
            label: of.of.label.clone(),
            remainder: of.of.remainder,
            shareable: of.of.shareable,
            chunks_max: of.of.chunks_max,
        };
        PartitionsRecord { made: self.made, all: self.all.iter().map(record).collect() }
    }

    /// Those that a daemon before had, without their clients.
    pub fn from_record(record: PartitionsRecord) -> Self {
        let partition = |of: PartitionRecord| {
            let PartitionRecord { name, first_chunk, chunks, sms, .. } = of;
            let device = CUuuid::parse(&of.device)?;
            let of = Purpose {
                named: of.named,
                label: of.label,
                remainder: of.remainder,
                shareable: of.shareable,
                chunks_max: of.chunks_max,
            };
            Some(Partition { device, name, first_chunk, chunks, sms, of })
        };
        let all = record.all.into_iter().filter_map(partition).collect();
        Self { all, made: record.made, clients: Vec::new() }
    }

    /// Makes one of so many chunks in a row.
    pub fn add(
        &mut self,
        device: &Device,
        chunks: u32,
        of: Purpose,
    ) -> Result<String, PartitionError> {
        let sms = Sms::of(device);
        let all = sms.chunks();
        let mut mine = self.all.iter().filter(|p| p.device == device.uuid);
        if of.named != 0 && mine.any(|p| (p.of.named, &p.of.label) == (of.named, &of.label)) {
            return Err(PartitionError::Exists(of.label));
        }
        let taken = |chunk: u32| {
            let has = |p: &&Partition| (p.first_chunk..p.first_chunk + p.chunks).contains(&chunk);
            self.all.iter().filter(|p| p.device == device.uuid).any(|p| has(&p))
        };
        let (mut first, mut longest, mut run) = (None, 0, 0);
        for chunk in 0..all {
            run = if taken(chunk) { 0 } else { run + 1 };
            longest = longest.max(run);
            if run == chunks && first.is_none() {
                first = Some(chunk + 1 - chunks);
            }
        }
        if of.remainder && chunks <= all {
            // SMs of a partition lie side by side, so it has the last chunks.
            let last = all - chunks;
            if (last..all).any(taken) {
                return Err(PartitionError::Remainder(chunks));
            }
            first = Some(last);
        }
        let Some(first_chunk) = first else {
            return Err(PartitionError::Full { chunks, free: longest });
        };
        self.made += 1;
        let name = name_of(self.made, first_chunk, chunks);
        let rest = if of.remainder { sms.all - all * sms.chunk } else { 0 };
        let sms = chunks * sms.chunk + rest;
        let partition = Partition { device: device.uuid, name, first_chunk, chunks, sms, of };
        let id = partition.id();
        self.all.push(partition);
        Ok(id)
    }

    /// Takes one away that no client has; by its whole id, or the part behind the slash.
    pub fn remove(&mut self, device: CUuuid, name: &str) -> Result<(), PartitionError> {
        let found = self.all.iter().position(|partition| {
            partition.device == device && (partition.id() == name || partition.name == name)
        });
        let index = found.ok_or_else(|| PartitionError::Unknown(name.to_owned()))?;
        let id = self.all[index].id();
        if self.clients.iter().any(|(_, _, of)| *of == id) {
            return Err(PartitionError::InUse(id));
        }
        self.all.remove(index);
        Ok(())
    }

    /// The partition that a program names for a device, of those that clients of the named server of
    /// that number may have, as SMs; an error says what would do.
    pub fn of_client(
        &self,
        wanted: &str,
        device: &Device,
        named: u32,
    ) -> Result<(String, (u32, u32)), String> {
        let here = |p: &&Partition| p.device == device.uuid && p.of.named == named;
        let mine = || self.all.iter().filter(here);
        let matches = |partition: &&Partition| {
            // The device by its whole UUID or the beginning of it; a name may have slashes.
            wanted.split_once('/').is_some_and(|(uuid, name)| {
                name == partition.name
                    && uuid.len() > 4
                    && device.uuid.to_string().starts_with(uuid)
            })
        };
        let known = || mine().map(Partition::id).collect::<Vec<_>>().join(", ");
        match mine().find(matches) {
            Some(partition) => {
                let chunk = Sms::of(device).chunk;
                let first = partition.first_chunk * chunk;
                Ok((partition.id(), (first, first + partition.sms)))
            }
            None if mine().next().is_none() => Err(format!(
                "this daemon gives SMs out in static partitions (-S) and the device has none: \
                 `sm_partition add {} CHUNKS` makes one",
                device.uuid
            )),
            None if wanted.is_empty() => {
                let whose = match named {
                    0 => "this daemon gives SMs out in static partitions (-S)",
                    _ => "this server has SM partitions on the device (`sm-partition list`)",
                };
                Err(format!("{whose}: set CUDA_MPS_SM_PARTITION to one of {}", known()))
            }
            None => {
                Err(format!("CUDA_MPS_SM_PARTITION is {wanted:?}, which is none of {}", known()))
            }
        }
    }

    /// The SMs of a partition's programs now, as first and end: its own, and chunks beside them that partitions of
    /// the same server lend. Those of `enters` count as having programs.
    pub fn sms_now(&self, id: &str, device: &Device, enters: Option<&str>) -> Option<(u32, u32)> {
        let sms = Sms::of(device);
        let all: Vec<(String, &Partition)> =
            self.of_device(device.uuid).map(|partition| (partition.id(), partition)).collect();
        let has_clients = |id: &str| {
            enters == Some(id) || self.clients.iter().any(|(_, _, partition)| *partition == *id)
        };
        // The server whose partitions may borrow a chunk.
        let mut lent_to: Vec<Option<u32>> = vec![None; sms.chunks() as usize];
        for (id, of) in all.iter().filter(|(_, of)| of.of.shareable) {
            let chunks = of.first_chunk as usize..(of.first_chunk + of.chunks) as usize;
            if let (false, Some(chunks)) = (has_clients(id), lent_to.get_mut(chunks)) {
                chunks.fill(Some(of.of.named));
            }
        }
        // In the order of their making, so that it is the same for all.
        for (other, of) in all.iter().filter(|(id, _)| has_clients(id)) {
            let (mut first, mut end) = (of.first_chunk, of.first_chunk + of.chunks);
            let mut take = |chunk: Option<u32>| {
                let place = chunk.and_then(|chunk| lent_to.get_mut(chunk as usize));
                place.is_some_and(|to| to.take_if(|to| *to == of.of.named).is_some())
            };
            while end - first < of.of.chunks_max && !of.of.remainder && take(Some(end)) {
                end += 1;
            }
            while end - first < of.of.chunks_max && take(first.checked_sub(1)) {
                first -= 1;
            }
            if other == id {
                // Its SMs beyond whole chunks are behind its last chunk.
                let rest = of.sms - of.chunks * sms.chunk;
                return Some((first * sms.chunk, end * sms.chunk + rest));
            }
        }
        let (_, of) = all.iter().find(|(other, _)| other == id)?;
        Some((of.first_chunk * sms.chunk, of.first_chunk * sms.chunk + of.sms))
    }

    /// The ID of a server's partition of a device by the operator's name for it.
    pub fn id_of(&self, device: CUuuid, named: u32, label: &str) -> Option<String> {
        let wanted = |p: &&Partition| (p.of.named, p.of.label.as_str()) == (named, label);
        self.of_device(device).find(wanted).map(Partition::id)
    }

    /// Those of a device, in the order of their making.
    pub fn of_device(&self, device: CUuuid) -> impl Iterator<Item = &Partition> {
        self.all.iter().filter(move |partition| partition.device == device)
    }

    /// Takes away one of a named server's that no client has.
    pub fn remove_named(
        &mut self,
        device: CUuuid,
        named: u32,
        label: &str,
    ) -> Result<(), PartitionError> {
        let wanted = |p: &&Partition| (p.of.named, p.of.label.as_str()) == (named, label);
        let id = self.of_device(device).find(wanted).map(Partition::id);
        let id = id.ok_or_else(|| PartitionError::Unknown(label.to_owned()))?;
        self.remove(device, &id)
    }

    /// Takes away those of a named server whose labels are wanted.
    pub fn forget_labels(&mut self, named: u32, goes: impl Fn(&str) -> bool) {
        self.all.retain(|partition| partition.of.named != named || !goes(&partition.of.label));
    }

    /// A named server is gone, with its partitions.
    pub fn forget_named(&mut self, named: u32) {
        self.all.retain(|partition| partition.of.named != named);
    }

    /// SMs of a device and of a chunk of it.
    pub fn sms_of(device: &Device) -> (u32, u32) {
        let Sms { all, chunk } = Sms::of(device);
        (all, chunk)
    }

    /// A client of a server has a partition from now on.
    pub fn enter(&mut self, server: u32, process: u32, id: String) {
        self.clients.push((server, process, id));
    }

    /// A client is gone.
    pub fn leave(&mut self, server: u32, process: u32) {
        if let Some(at) = self.clients.iter().position(|c| (c.0, c.1) == (server, process)) {
            self.clients.remove(at);
        }
    }

    /// A server has ended, with its clients.
    pub fn forget_server(&mut self, server: u32) {
        self.clients.retain(|client| client.0 != server);
    }

    /// The table of `lspart`.
    pub fn table(&self, devices: &[Device]) -> String {
        let mut text = String::new();
        row(&mut text, ["GPU", "Partition", "free", "used", "free", "used", "clients"]);
        row(&mut text, ["", "", "chunk", "chunk", "SM", "SM", ""]);
        for device in devices {
            let uuid = device.uuid.to_string();
            let short = uuid.get(..12).unwrap_or(&uuid);
            let sms = Sms::of(device);
            let mine = || self.all.iter().filter(|partition| partition.device == device.uuid);
            let used: u32 = mine().map(|partition| partition.chunks).sum();
            let number = |n: u32| n.to_string();
            let free = sms.chunks() - used.min(sms.chunks());
            let free_sms = sms.all - (used * sms.chunk).min(sms.all);
            row(
                &mut text,
                [
                    short,
                    "-",
                    &number(free),
                    &number(used),
                    &number(free_sms),
                    &number(used * sms.chunk),
                    "-",
                ],
            );
            for partition in mine() {
                let id = partition.id();
                let has_clients = self.clients.iter().any(|(_, _, of)| *of == id);
                let (chunks, of_sms) =
                    (number(partition.chunks), number(partition.chunks * sms.chunk));
                let clients = if has_clients { "Yes" } else { "No" };
                row(&mut text, [short, &partition.name, "-", &chunks, "-", &of_sms, clients]);
            }
        }
        text
    }
}

fn row(text: &mut String, cells: [&str; 7]) {
    let [gpu, partition, free, used, free_sms, used_sms, clients] = cells;
    let line = format!("{gpu:14}{partition:37}{free:7}{used:7}{free_sms:6}{used_sms:6}{clients}");
    let _ = writeln!(text, "{}", line.trim_end());
}

/// A name of [`NAME_CHARS`] characters that says which chunks it has, and of which making.
fn name_of(made: u64, first: u32, chunks: u32) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bits = u128::from(made) << 32 | u128::from(first) << 16 | u128::from(chunks);
    let mut name = String::new();
    for _ in 0..NAME_CHARS {
        name.push(char::from(DIGITS[(bits & 63) as usize]));
        bits >>= 6;
    }
    name
}

/// What a client's first driver call answers that names no partition where there are some.
pub(crate) const NO_PARTITION: CudaError = CudaError::INVALID_RESOURCE_CONFIGURATION;

#[cfg(test)]
mod tests {
    use super::*;

    fn device(sms: i32, major: i32) -> Device {
        let mut device = Device { uuid: CUuuid { bytes: [7; 16] }, ..Device::default() };
        device.attributes[MULTIPROCESSOR_COUNT as usize] = sms;
        device.attributes[COMPUTE_CAPABILITY_MAJOR as usize] = major;
        device
    }

    #[test]
    fn chunks_are_given_out_once() {
        let hopper = device(132, 9);
        let mut partitions = Partitions::default();
        let small = partitions.add(&hopper, 5, Purpose::default()).unwrap();
        let large = partitions.add(&hopper, 10, Purpose::default()).unwrap();
        assert_eq!(partitions.of_client(&small, &hopper, 0).unwrap().1, (0, 40));
        let short = format!("GPU-0707/{}", small.split_once('/').unwrap().1);
        assert_eq!(partitions.of_client(&short, &hopper, 0).unwrap().0, small);
        assert_eq!(partitions.of_client(&large, &hopper, 0).unwrap().1, (40, 120));
        let full = partitions.add(&hopper, 2, Purpose::default()).unwrap_err();
        assert_eq!(full, PartitionError::Full { chunks: 2, free: 1 });
        assert!(full.to_string().starts_with(
            "Failed to fulfill the requested SM partition of 2 chunks, error \
             CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"
        ));
        partitions.enter(5, 6, small.clone());
        let in_use = partitions.remove(hopper.uuid, &small);
        assert_eq!(in_use, Err(PartitionError::InUse(small.clone())));
        partitions.leave(5, 6);
        partitions.remove(hopper.uuid, &small).unwrap();
        assert_eq!(partitions.remove(hopper.uuid, &small), Err(PartitionError::Unknown(small)));
        assert_eq!(partitions.of_client("x", &hopper, 0).unwrap_err().matches(&large).count(), 1);
        assert!(
            partitions.of_client("", &hopper, 0).unwrap_err().contains("CUDA_MPS_SM_PARTITION")
        );
    }

    #[test]
    fn named_servers_have_partitions_of_their_own_and_one_has_the_remainder() {
        let hopper = device(132, 9);
        let of = |named, label: &str, remainder| Purpose {
            named,
            label: label.into(),
            remainder,
            ..Purpose::default()
        };
        let mut partitions = Partitions::default();
        let large = partitions.add(&hopper, 4, of(1, "large", true)).unwrap();
        assert_eq!(partitions.of_client(&large, &hopper, 1).unwrap().1, (96, 132));
        assert!(partitions.of_client(&large, &hopper, 2).is_err(), "another server's");
        let unnamed = partitions.of_client("", &hopper, 1).unwrap_err();
        assert!(unnamed.contains("sm-partition list") && !unnamed.contains("-S"), "{unnamed}");
        let other = partitions.add(&hopper, 2, of(2, "large", false)).unwrap();
        assert_eq!(partitions.of_client(&other, &hopper, 2).unwrap().1, (0, 16));
        let again = partitions.add(&hopper, 1, of(1, "large", false));
        assert_eq!(again, Err(PartitionError::Exists("large".into())));
        let rest = partitions.add(&hopper, 1, of(1, "rest", true));
        assert_eq!(rest, Err(PartitionError::Remainder(1)));
        assert!(partitions.remove_named(hopper.uuid, 2, "small").is_err());
        partitions.remove_named(hopper.uuid, 2, "large").unwrap();
        partitions.forget_named(1);
        assert_eq!(partitions.of_device(hopper.uuid).count(), 0);
    }

    #[test]
    fn chunks_are_lent_while_no_program_has_them() {
        let hopper = device(132, 9);
        let mut partitions = Partitions::default();
        let mut add = |label: &str, chunks, shareable, chunks_max, remainder| {
            let label = label.to_owned();
            let of = Purpose { named: 1, label, remainder, shareable, chunks_max };
            partitions.add(&hopper, chunks, of).unwrap()
        };
        let left = add("left", 2, true, 0, false);
        let middle = add("middle", 4, false, 7, false);
        let right = add("right", 2, true, 3, false);
        let last = add("last", 2, true, 4, true);
        let now = |of: &Partitions, id: &str, enters| of.sms_now(id, &hopper, enters).unwrap();
        assert_eq!(now(&partitions, &middle, None), (16, 48), "it has no programs");
        // Two to the right, then one to the left.
        assert_eq!(now(&partitions, &middle, Some(&middle)), (8, 64));
        partitions.enter(1, 2, middle.clone());
        assert_eq!(now(&partitions, &middle, Some(&right)), (0, 48), "those of the left alone");
        assert_eq!(
            now(&partitions, &right, Some(&right)),
            (48, 64),
            "no partition lends beside it"
        );
        partitions.enter(1, 3, left.clone());
        assert_eq!(now(&partitions, &middle, Some(&right)), (16, 48));
        assert_eq!(now(&partitions, &last, Some(&last)), (112, 132), "with the remainder");
        let record = serde_json::to_string(&partitions.record()).unwrap();
        let mut again = Partitions::from_record(serde_json::from_str(&record).unwrap());
        again.enter(1, 2, middle.clone());
        assert_eq!(now(&again, &middle, None), (8, 64));
        // Another server's partitions lend nothing.
        let of = Purpose { named: 2, label: "x".into(), chunks_max: 9, ..Purpose::default() };
        let other = again.add(&hopper, 1, of).unwrap();
        assert_eq!(now(&again, &other, Some(&other)), (64, 72));
    }

    #[test]
    fn the_table_has_a_row_a_device_and_a_partition() {
        let ampere = device(80, 8);
        let mut partitions = Partitions::default();
        let id = partitions.add(&ampere, 14, Purpose::default()).unwrap();
        partitions.enter(1, 2, id.clone());
        let table = partitions.table(&[ampere]);
        let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["GPU", "Partition", "free", "used", "free", "used", "clients"]);
        assert_eq!(lines[2], ["GPU-07070707", "-", "6", "14", "24", "56", "-"]);
        let name = id.split_once('/').unwrap().1;
        assert_eq!(lines[3], ["GPU-07070707", name, "-", "14", "-", "56", "Yes"]);
    }
}
