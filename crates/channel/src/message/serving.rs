//! What a server says to a daemon that did not start it: the one that did is gone.

use super::{Body, Release};
use crate::codec::{CodecError, Decoder, Encoder};
use cuda_api::CUuuid;

/// Windows that a message lists: as many as a user can have, and they fit.
const WINDOWS_LISTED_MAX: usize = 1024;

/// A server that serves on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// The device that it serves.
    pub device: CUuuid,
    /// It ends, and takes no more clients.
    pub ends: bool,
    /// A fault has spoiled its context.
    pub fault: bool,
    /// Its clients: the process ID, and the number of the windows of addresses; with 0 windows that it
    /// needs itself.
    pub clients: Vec<(u32, u32)>,
    /// The server's.
    pub release: Release,
}

impl Body for Serving {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.raw(&self.device.bytes);
        to.bool(self.ends);
        to.bool(self.fault);
        to.list(&self.clients, WINDOWS_LISTED_MAX, |to, (pid, window)| {
            to.u32(*pid);
            to.u32(*window);
            Ok(())
        })?;
        to.grown(|to| self.release.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            device: CUuuid { bytes: from.array()? },
            ends: from.bool()?,
            fault: from.bool()?,
            clients: from.list(WINDOWS_LISTED_MAX, |from| Ok((from.u32()?, from.u32()?)))?,
            release: from.grown(Release::read_within)?,
        })
    }
}
