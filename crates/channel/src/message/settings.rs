//! What clients are given of a device and what they ask for: shares of SMs, memory, priorities.

use super::Body;
use crate::codec::{CodecError, Decoder, Encoder};
use cuda_api::settings::{
    DEVICE_NAME_BYTES_MAX, MEMORY_LIMITS_MAX, MemoryLimit, Percentage, Priority,
};

/// Longest name of a static partition, bytes: UUID, slash, 32 characters.
pub const PARTITION_BYTES_MAX: usize = 128;

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SetBy {
    /// Without a limit: all that the device has.
    #[default]
    Default = 0,
    /// The daemon's variable, its options, or a command for servers to come.
    Daemon = 1,
    /// A command for that server.
    Server = 2,
    /// The program's own variable.
    Program = 3,
    /// `openmps set`, while the program runs.
    Live = 4,
}

impl SetBy {
    /// The number's meaning.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Default),
            1 => Some(Self::Daemon),
            2 => Some(Self::Server),
            3 => Some(Self::Program),
            4 => Some(Self::Live),
            _ => None,
        }
    }

    /// As a word of a report.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Daemon => "daemon",
            Self::Server => "server",
            Self::Program => "program",
            Self::Live => "set",
        }
    }

    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let found = from.u8()?;
        Self::from_number(found)
            .ok_or(CodecError::Value { what: "source of a setting", found: found.into() })
    }
}

fn read_share(from: &mut Decoder<'_>) -> Result<Percentage, CodecError> {
    let found = from.u32()?;
    Percentage::from_thousandths(found)
        .ok_or(CodecError::Value { what: "share", found: found.into() })
}

fn read_priority(from: &mut Decoder<'_>) -> Result<Priority, CodecError> {
    let found = from.u8()?;
    Priority::from_number(found).ok_or(CodecError::Value { what: "priority", found: found.into() })
}

fn write_limit(to: &mut Encoder, limit: &MemoryLimit) {
    to.text(&limit.device, DEVICE_NAME_BYTES_MAX);
    to.u64(limit.bytes);
}

fn read_limit(from: &mut Decoder<'_>) -> Result<MemoryLimit, CodecError> {
    Ok(MemoryLimit { device: from.text(DEVICE_NAME_BYTES_MAX)?, bytes: from.u64()? })
}

/// What a program asks for by its own variables. It can only have less by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.
    pub share: Option<Percentage>,
    /// CUDA_MPS_PINNED_DEVICE_MEM_LIMIT.
    pub memory: Vec<MemoryLimit>,
    /// CUDA_MPS_CLIENT_PRIORITY.
    pub priority: Option<Priority>,
    /// CUDA_MPS_SM_PARTITION; empty if it is not set.
    pub partition: String,
    /// CUDA_DEVICE_MAX_CONNECTIONS; 0 if it is not set.
    pub connections: u32,
    /// By what variables name the job of several processes that it is one of; empty if it is none.
    pub job: String,
}

/// Longest name of a job, bytes: a host and a port, or an identifier of a launcher's.
pub const JOB_BYTES_MAX: usize = 256;

impl Body for RequestedLimits {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.bool(self.share.is_some());
        if let Some(share) = self.share {
            to.u32(share.thousandths());
        }
        to.list(&self.memory, MEMORY_LIMITS_MAX, |to, limit| {
            write_limit(to, limit);
            Ok(())
        })?;
        to.bool(self.priority.is_some());
        if let Some(priority) = self.priority {
            to.u8(priority.number());
        }
        to.text(&self.partition, PARTITION_BYTES_MAX);
        to.u32(self.connections);
        to.text(&self.job, JOB_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            share: if from.bool()? { Some(read_share(from)?) } else { None },
            memory: from.list(MEMORY_LIMITS_MAX, read_limit)?,
            priority: if from.bool()? { Some(read_priority(from)?) } else { None },
            partition: from.text(PARTITION_BYTES_MAX)?,
            connections: from.u32()?,
            job: from.text(JOB_BYTES_MAX)?,
        })
    }
}

/// Longest name of a group of clients, bytes: a cgroup's path.
pub const GROUP_BYTES_MAX: usize = 1024;

/// Limits of the device memory of a group of clients: of a cgroup's programs, or a namespace's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryGroup {
    /// The cgroup's path, or what the namespace is called.
    pub name: String,
    /// Up to so many bytes the group gets memory that others have beyond theirs.
    pub soft_bytes: u64,
    /// More than so many bytes it does not get.
    pub hard_bytes: u64,
}

impl MemoryGroup {
    fn write_parts(&self, to: &mut Encoder) {
        to.text(&self.name, GROUP_BYTES_MAX);
        to.u64(self.soft_bytes);
        to.u64(self.hard_bytes);
    }

    fn read_parts(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let name = from.text(GROUP_BYTES_MAX)?;
        Ok(Self { name, soft_bytes: from.u64()?, hard_bytes: from.u64()? })
    }
}

/// What a client is given: the daemon's settings and the program's requested limits in one. Devices are as
/// they were named; only the server knows which it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The share of SMs, and who set it.
    pub share: (Percentage, SetBy),
    /// Limits of memory: of those that name a device the last one holds, but one of the program's
    /// own only ever lowers.
    pub memory: Vec<(MemoryLimit, SetBy)>,
    /// The priority, and who set it.
    pub priority: (Priority, SetBy),
    /// SMs of its static partition on the device, as ranges' first and end, if there are partitions.
    pub partition: Option<(u32, u32)>,
    /// The group that its device memory counts for, if that is limited.
    pub group: Option<MemoryGroup>,
    /// Queues that its streams share (CUDA_DEVICE_MAX_CONNECTIONS); 0: each has its own.
    pub connections: u32,
    /// To a server: clients that are there get the share too, unless their own variable or `openmps set`
    /// says theirs.
    pub now: bool,
    /// The group of its namespace's clients, which its device memory counts for as well.
    pub namespace: Option<MemoryGroup>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            share: (Percentage::ALL, SetBy::Default),
            memory: Vec::new(),
            priority: (Priority::Normal, SetBy::Default),
            partition: None,
            group: None,
            connections: 0,
            now: false,
            namespace: None,
        }
    }
}

impl Settings {
    /// The memory that a client may have of a device, bytes, and who set that; `None`: all.
    pub fn memory_of(&self, ordinal: u32, uuid: &str) -> Option<(u64, SetBy)> {
        let named =
            |limit: &MemoryLimit| cuda_api::settings::names_device(&limit.device, ordinal, uuid);
        let mut found: Option<(u64, SetBy)> = None;
        for (limit, by) in self.memory.iter().filter(|(limit, _)| named(limit)) {
            let lowers = found.is_none_or(|(bytes, _)| limit.bytes < bytes);
            if *by != SetBy::Program || lowers {
                found = Some((limit.bytes, *by));
            }
        }
        found
    }
}

impl Body for Settings {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.share.0.thousandths());
        to.u8(self.share.1 as u8);
        // The daemon's and the program's.
        to.list(&self.memory, 2 * MEMORY_LIMITS_MAX, |to, (limit, by)| {
            write_limit(to, limit);
            to.u8(*by as u8);
            Ok(())
        })?;
        to.u8(self.priority.0.number());
        to.u8(self.priority.1 as u8);
        to.bool(self.partition.is_some());
        if let Some((first, end)) = self.partition {
            to.u32(first);
            to.u32(end);
        }
        to.bool(self.group.is_some());
        if let Some(group) = &self.group {
            group.write_parts(to);
        }
        to.u32(self.connections);
        to.bool(self.now);
        to.grown(|to| {
            to.bool(self.namespace.is_some());
            if let Some(group) = &self.namespace {
                group.write_parts(to);
            }
            Ok(())
        })?;
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let share = (read_share(from)?, SetBy::read(from)?);
        let memory =
            from.list(2 * MEMORY_LIMITS_MAX, |from| Ok((read_limit(from)?, SetBy::read(from)?)))?;
        let priority = (read_priority(from)?, SetBy::read(from)?);
        let partition = if from.bool()? { Some((from.u32()?, from.u32()?)) } else { None };
        let group = if from.bool()? { Some(MemoryGroup::read_parts(from)?) } else { None };
        let (connections, now) = (from.u32()?, from.bool()?);
        let namespace = from.grown(|from| match from.bool()? {
            true => MemoryGroup::read_parts(from).map(Some),
            false => Ok(None),
        })?;
        Ok(Self { share, memory, priority, partition, group, connections, now, namespace })
    }
}

/// A change of what a client is given, while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Device memory, bytes; `None`: all.
    Memory(Option<u64>),
    /// The share of SMs.
    Share(Percentage),
    /// A number of SMs; 0: those that it was given at first.
    Sms(u32),
    /// The priority.
    Priority(Priority),
    /// Other limits of a group that it is in, by its name.
    Group(MemoryGroup),
    /// Other SMs of its static partition, as first and end.
    Partition(u32, u32),
}

impl Body for Change {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        match self {
            Self::Memory(Some(bytes)) => {
                to.u8(0);
                to.u64(*bytes);
            }
            Self::Memory(None) => to.u8(4),
            Self::Share(share) => {
                to.u8(1);
                to.u32(share.thousandths());
            }
            Self::Sms(sms) => {
                to.u8(2);
                to.u32(*sms);
            }
            Self::Priority(priority) => {
                to.u8(3);
                to.u8(priority.number());
            }
            Self::Group(group) => {
                to.u8(5);
                group.write_parts(to);
            }
            Self::Partition(first, end) => {
                to.u8(6);
                to.u32(*first);
                to.u32(*end);
            }
        }
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(match from.u8()? {
            0 => Self::Memory(Some(from.u64()?)),
            4 => Self::Memory(None),
            1 => Self::Share(read_share(from)?),
            2 => Self::Sms(from.u32()?),
            3 => Self::Priority(read_priority(from)?),
            5 => Self::Group(MemoryGroup::read_parts(from)?),
            6 => Self::Partition(from.u32()?, from.u32()?),
            found => return Err(CodecError::Value { what: "change", found: found.into() }),
        })
    }
}

/// What holds for a client at a server, as the server says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Device memory, bytes, and who set that; `None`: all.
    pub memory: Option<(u64, SetBy)>,
    /// SMs that its kernels may have, and who set that.
    pub sms: (u32, SetBy),
    /// SMs of the device.
    pub sms_of_device: u32,
    /// Its priority, and who set that.
    pub priority: (Priority, SetBy),
}

impl Body for ClientLimits {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.bool(self.memory.is_some());
        if let Some((bytes, by)) = self.memory {
            to.u64(bytes);
            to.u8(by as u8);
        }
        to.u32(self.sms.0);
        to.u8(self.sms.1 as u8);
        to.u32(self.sms_of_device);
        to.u8(self.priority.0.number());
        to.u8(self.priority.1 as u8);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let memory = if from.bool()? { Some((from.u64()?, SetBy::read(from)?)) } else { None };
        Ok(Self {
            memory,
            sms: (from.u32()?, SetBy::read(from)?),
            sms_of_device: from.u32()?,
            priority: (read_priority(from)?, SetBy::read(from)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(device: &str, bytes: u64) -> MemoryLimit {
        MemoryLimit { device: device.into(), bytes }
    }

    #[test]
    fn the_last_limit_of_a_device_holds_and_programs_only_lower_it() {
        let uuid = "GPU-0a000000-0000-0000-0000-000000000000";
        let of = |memory| Settings { memory, ..Settings::default() }.memory_of(0, uuid);
        let (server, program) = (SetBy::Server, SetBy::Program);
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![(limit("1", 5), server)]), None);
        let two = vec![(limit("0", 5), SetBy::Daemon), (limit(uuid, 7), server)];
        assert_eq!(of(two), Some((7, server)));
        let lowered = vec![(limit("0", 5), server), (limit("GPU-0a", 3), program)];
        assert_eq!(of(lowered), Some((3, program)));
        let raised = vec![(limit("0", 5), server), (limit("0", 9), program)];
        assert_eq!(of(raised), Some((5, server)));
        assert_eq!(of(vec![(limit("0", 9), program)]), Some((9, program)));
    }
}
