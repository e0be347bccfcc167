//! Messages by which a client comes to its server.

use super::{
    Body, COMMAND_LINE_BYTES_MAX, DEVICES_MAX, Device, NAME_BYTES_MAX, PATH_BYTES_MAX,
    REASON_BYTES_MAX, RequestedLimits, SCHEDULING_BYTES_MAX, Settings,
};
use crate::codec::{CodecError, Decoder, Encoder};
use cuda_api::CUuuid;

/// The first number of processes that have no PID where the daemon runs. Linux's PIDs are below it.
const NAMELESS_FIRST: u32 = 1 << 31;

/// The number by which daemon and servers know a client's process: its PID, or, where it has none
/// there (0), one that comes from its token.
pub const fn process_number(pid: u32, token: u64) -> u32 {
    match pid {
        0 => NAMELESS_FIRST | (token ^ token >> 32) as u32,
        _ => pid,
    }
}

/// The PID of the process with a number; 0 if it has none where the daemon runs.
pub const fn pid_of_process(number: u32) -> u32 {
    if number < NAMELESS_FIRST { number } else { 0 }
}

/// What a peer says of itself: which versions of the protocol it speaks, and of which release it is. All
/// zeros of one that speaks version 2 only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The oldest version.
    pub min: u16,
    /// The newest version.
    pub max: u16,
    /// The release, and the commit where it is known: for people.
    pub build: String,
}

impl Release {
    /// This build.
    pub fn of_this_build() -> Self {
        let (min, max) = (crate::PROTOCOL_VERSION_MIN, crate::PROTOCOL_VERSION);
        Self { min, max, build: crate::build().to_owned() }
    }
}

impl Body for Release {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u16(self.min);
        to.u16(self.max);
        to.text(&self.build, NAME_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self { min: from.u16()?, max: from.u16()?, build: from.text(NAME_BYTES_MAX)? })
    }
}

/// A client introduces itself to the daemon. Nothing of it is believed: who the client is comes
/// from its socket's credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Its process id as it sees itself: another one in another PID namespace.
    pub pid: u32,
    /// Its command line.
    pub command_line: String,
    /// Version of its client library.
    pub library_version: String,
    /// What it asks for by its variables.
    pub requested: RequestedLimits,
    /// What its environment says of its scheduling (crate `scheduling`, settings of a client); empty
    /// if nothing.
    pub scheduling: String,
    /// The device whose server it wants; all zeros: the daemon's first.
    pub device: CUuuid,
    /// A number that the process has for life and that no other is likely to have: by it the daemon knows
    /// a process without a PID.
    pub token: u64,
    /// Its client library.
    pub release: Release,
    /// By what lines of client, daemon and server about this attempt are found; 0: it has no number.
    pub request: u32,
}

impl Body for Hello {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.pid);
        to.text(&self.command_line, COMMAND_LINE_BYTES_MAX);
        to.text(&self.library_version, NAME_BYTES_MAX);
        self.requested.write_within(to)?;
        to.text(&self.scheduling, SCHEDULING_BYTES_MAX);
        to.raw(&self.device.bytes);
        to.u64(self.token);
        to.grown(|to| {
            self.release.write_within(to)?;
            to.u32(self.request);
            Ok(())
        })
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            pid: from.u32()?,
            command_line: from.text(COMMAND_LINE_BYTES_MAX)?,
            library_version: from.text(NAME_BYTES_MAX)?,
            requested: RequestedLimits::read_within(from)?,
            scheduling: from.text(SCHEDULING_BYTES_MAX)?,
            device: CUuuid { bytes: from.array()? },
            token: from.u64()?,
            release: from.grown(Release::read_within)?,
            request: from.grown(Decoder::u32)?,
        })
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first address.
    pub address: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Window {
    /// Of a host window: where the server places the managed variables of modules, in both
    /// processes. What is before it is the client's, for pinned memory.
    pub const fn managed(self) -> Self {
        let bytes = self.bytes / 16;
        Self { address: self.address + self.bytes - bytes, bytes }
    }

    /// True if a range lies in the window.
    pub const fn contains(self, address: u64, bytes: u64) -> bool {
        address >= self.address
            && bytes <= self.bytes
            && address - self.address <= self.bytes - bytes
    }
}

impl Body for Window {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u64(self.address);
        to.u64(self.bytes);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self { address: from.u64()?, bytes: from.u64()? })
    }
}

/// Flag of [`Welcome`]: the provider has tenants, so a fault of one client is no other's. It also wakes the threads
/// that sleep on a word that a stream writes: no client has to ask for that by [`Notify`](crate::request::Notify).
pub const WELCOME_HAS_TENANTS: u32 = 1;

/// Flag of [`Welcome`]: the provider looks for mistakes and wants to know what the client gives out
/// and takes back ([`MemoryNote`](crate::request::MemoryNote)).
pub const WELCOME_WANTS_NOTES: u32 = 2;
/// [`Welcome::flags`]: the server takes records of events behind which no word is written
/// ([`RECORD_UNMARKED`](crate::request::RECORD_UNMARKED)).
pub const WELCOME_TAKES_UNMARKED: u32 = 4;

/// The server takes a client and gives it all that it can answer alone from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Welcome {
    /// The client's number at this server.
    pub client_id: u32,
    /// The server's process id.
    pub server_pid: u32,
    /// Addresses of the client's device memory.
    pub window: Window,
    /// Addresses of the client's pinned host memory, in client and server.
    pub host_window: Window,
    /// What cuDriverGetVersion answers.
    pub driver_version: i32,
    /// The least stream priority (the largest number).
    pub priority_least: i32,
    /// The greatest stream priority (the smallest number).
    pub priority_greatest: i32,
    /// [`WELCOME_HAS_TENANTS`], [`WELCOME_WANTS_NOTES`], [`WELCOME_TAKES_UNMARKED`].
    pub flags: u32,
    /// Where the server's log is; empty if nowhere.
    pub log_path: String,
    /// The device that the server serves: one. Its ordinal is its place in [`Devices`](super::Devices).
    pub devices: Vec<Device>,
    /// The server.
    pub release: Release,
}

impl Body for Welcome {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.client_id);
        to.u32(self.server_pid);
        self.window.write_within(to)?;
        self.host_window.write_within(to)?;
        to.i32(self.driver_version);
        to.i32(self.priority_least);
        to.i32(self.priority_greatest);
        to.u32(self.flags);
        to.text(&self.log_path, PATH_BYTES_MAX);
        to.list(&self.devices, DEVICES_MAX, |to, device| device.write_within(to))?;
        to.grown(|to| self.release.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            client_id: from.u32()?,
            server_pid: from.u32()?,
            window: Window::read_within(from)?,
            host_window: Window::read_within(from)?,
            driver_version: from.i32()?,
            priority_least: from.i32()?,
            priority_greatest: from.i32()?,
            flags: from.u32()?,
            log_path: from.text(PATH_BYTES_MAX)?,
            devices: from.list(DEVICES_MAX, Device::read_within)?,
            release: from.grown(Release::read_within)?,
        })
    }
}

/// Daemon or server does not take a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// What cuInit answers: a CUresult other than success.
    pub result: u32,
    /// Why, for the program's standard error.
    pub reason: String,
}

impl Body for Refused {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.result);
        to.text(&self.reason, REASON_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self { result: from.u32()?, reason: from.text(REASON_BYTES_MAX)? })
    }
}

/// The daemon hands a client over to its server. Process and user are those of the client's
/// socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its process id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its command line, as it says itself.
    pub command_line: String,
    /// Which windows of addresses it gets, by number: those that it has already if it comes from
    /// another server. No two servers of a user give the same ones.
    pub window: u32,
    /// What it is given.
    pub settings: Settings,
    /// Its scheduling, as the daemon's rules or its environment say: settings of a client.
    pub scheduling: String,
    /// It comes from another server, and has what it had there, also if its limits are less by now.
    pub comes_again: bool,
    /// The version of the protocol that it speaks; 0 from a daemon that speaks version 2 only.
    pub protocol: u16,
    /// [`Hello::request`].
    pub request: u32,
}

impl Body for Client {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.pid);
        to.u32(self.uid);
        to.u32(self.gid);
        to.text(&self.command_line, COMMAND_LINE_BYTES_MAX);
        to.u32(self.window);
        self.settings.write_within(to)?;
        to.text(&self.scheduling, SCHEDULING_BYTES_MAX);
        to.bool(self.comes_again);
        to.grown(|to| {
            to.u16(self.protocol);
            to.u32(self.request);
            Ok(())
        })
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            pid: from.u32()?,
            uid: from.u32()?,
            gid: from.u32()?,
            command_line: from.text(COMMAND_LINE_BYTES_MAX)?,
            window: from.u32()?,
            settings: Settings::read_within(from)?,
            scheduling: from.text(SCHEDULING_BYTES_MAX)?,
            comes_again: from.bool()?,
            protocol: from.grown(Decoder::u16)?,
            request: from.grown(Decoder::u32)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_a_pid_are_distinguished_by_their_tokens() {
        assert_eq!((process_number(7, 1 << 40), pid_of_process(7)), (7, 7));
        let (one, other) = (process_number(0, 0x1234_0000_0000), process_number(0, 0x1235));
        assert_ne!(one, other);
        assert_eq!((pid_of_process(one), pid_of_process(other)), (0, 0));
        assert_eq!(process_number(0, 0x1235), other, "whenever it comes");
    }
}
