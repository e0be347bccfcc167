//! What clients are given, as the daemon keeps it: defaults for servers to come, each server's own,
//! and changes for clients that run.

use super::kept::{Kept, Place as ProcessPlace};
use crate::daemon::servers::questions::Reply;
use crate::daemon::state::{Server, State};
use crate::daemon::{Daemon, QueryError, protocol};
use crate::settings::Settings;
use channel::message::{Change, Question, SetBy};
use cuda_api::CUuuid;
use cuda_api::settings::{Percentage, Priority};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a server may take to change a client's limits: what runs may have to end first.
const CHANGE_S_MAX: u64 = 10;

/// Why a client's limits are as they were.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{0}")]
    Refused(String),
}

impl Daemon {
    /// Has programs' shares follow the number of programs on a device, if that is the policy: of
    /// those whose shares were not set otherwise.
    pub(in crate::daemon) fn follow_number(&self, state: &mut State, device: CUuuid) {
        let Some(policy) = self.options.share else { return };
        let on_device = |server: &&mut Server| server.device == device;
        let programs: usize =
            state.servers.iter_mut().filter(on_device).map(|server| server.clients).sum();
        let share = policy.of(u32::try_from(programs).unwrap_or(u32::MAX));
        for server in state.servers.iter_mut().filter(|server| server.device == device) {
            server.link.settings.set_share(share, SetBy::Daemon);
            // A server that starts has no clients yet.
            protocol::send_settings(server, true);
        }
        state.defaults.set_share(share, SetBy::Daemon);
    }

    /// Something of what servers to come are given.
    pub(crate) fn defaults<R>(&self, look: impl FnOnce(&Settings) -> R) -> R {
        look(&self.lock().defaults)
    }

    /// Something of what clients to come of a server are given.
    pub(crate) fn settings_of<R>(
        &self,
        server: u32,
        look: impl FnOnce(&Settings) -> R,
    ) -> Result<R, QueryError> {
        let mut state = self.lock();
        state
            .server(server)
            .map(|server| look(&server.link.settings))
            .ok_or(QueryError::Gone(server))
    }

    /// Sets the share of SMs of clients of servers to come.
    pub(crate) fn set_default_share(&self, share: Percentage) {
        self.lock().defaults.set_share(share, SetBy::Daemon);
    }

    /// Sets the priority of clients to come: of servers that run, too, as NVIDIA's MPS has no other
    /// way to do that.
    pub(crate) fn set_default_priority(&self, priority: Priority) {
        let mut state = self.lock();
        state.defaults.set_priority(priority, SetBy::Daemon);
        for server in state.servers.iter_mut() {
            server.link.settings.set_priority(priority, SetBy::Daemon);
            protocol::send_settings(server, false);
        }
    }

    /// Limits the memory of clients of servers to come.
    pub(crate) fn set_default_memory(
        &self,
        device: &str,
        bytes: u64,
        text: &str,
    ) -> Result<(), String> {
        self.lock().defaults.set_memory(device, bytes, text, SetBy::Daemon)
    }

    /// Sets the share of SMs of clients to come of a server.
    pub(crate) fn set_share(&self, server: u32, share: Percentage) -> Result<(), ChangeError> {
        self.change_settings(server, |settings| {
            settings.set_share(share, SetBy::Server);
            Ok(())
        })
    }

    /// Limits the memory of clients to come of a server.
    pub(crate) fn set_memory(
        &self,
        server: u32,
        device: &str,
        bytes: u64,
        text: &str,
    ) -> Result<(), ChangeError> {
        self.change_settings(server, |settings| {
            settings.set_memory(device, bytes, text, SetBy::Server)
        })
    }

    fn change_settings(
        &self,
        pid: u32,
        change: impl FnOnce(&mut Settings) -> Result<(), String>,
    ) -> Result<(), ChangeError> {
        let mut state = self.lock();
        let server = state.server(pid).ok_or(QueryError::Gone(pid))?;
        change(&mut server.link.settings).map_err(ChangeError::Refused)?;
        protocol::send_settings(server, false);
        Ok(())
    }

    /// Changes what a client has that runs: the one that has this number in its server, and this PID if that is
    /// known. Its process has that at other servers too.
    pub(crate) fn set_of_client(
        &self,
        server: u32,
        (id, pid): (u32, Option<u32>),
        change: Change,
    ) -> Result<(), ChangeError> {
        let deadline = Instant::now() + Duration::from_secs(CHANGE_S_MAX);
        match self.ask(server, Question::Set(id, change.clone()), deadline)? {
            Reply::Done(0) => {
                let change = self.as_given(server, id, change);
                self.keep(server, pid, |kept, place| kept.keep(place, &change));
                Ok(())
            }
            Reply::Done(code) => {
                Err(ChangeError::Refused(format!("the server answered error {code}")))
            }
            Reply::Refused(reason) => Err(ChangeError::Refused(reason)),
            _ => Err(QueryError::Silent(server).into()),
        }
    }

    /// A change as the server has made it: it gives SMs out in groups.
    fn as_given(&self, server: u32, id: u32, change: Change) -> Change {
        let Change::Sms(sms @ 1..) = change else { return change };
        let status = self.statuses(&[server]).pop().and_then(|(_, status)| status.ok());
        let clients = status.into_iter().flat_map(|status| status.clients);
        let given = clients.filter(|client| client.id == id).map(|client| client.limits.sms.0);
        Change::Sms(given.max().unwrap_or(sms))
    }

    /// Keeps what was changed of a server's client, if its process is known.
    pub(in crate::daemon) fn keep(
        &self,
        server: u32,
        pid: Option<u32>,
        keep: impl FnOnce(&mut Kept, ProcessPlace),
    ) {
        let mut state = self.lock();
        let device = state.server(server).map(|server| server.device);
        if let (Some(pid), Some(device)) = (pid, device) {
            keep(&mut state.kept, (pid, device));
        }
    }
}
