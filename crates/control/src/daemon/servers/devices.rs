//! Devices: those that the daemon serves, described by a process of its own, which initialises the
//! provider and ends, so that no user needs a server to ask what there is.
//!
//! A thread waits for that process; it ends with it. What was found holds for the daemon's life.

use super::inventory::Asking;
use super::protocol::{self, Socket};
use crate::daemon::Daemon;
use crate::daemon::clients::admission::Door;
use crate::daemon::clients::launch_error::{LaunchError, WAITING_MAX, WAITING_OF_USER_MAX};
use crate::daemon::state::State;
use channel::message::{Devices, Message};
use channel::socket::ReceiveError;
use cuda_api::CUuuid;
use recovery::servers::{Crash, Failures, NoServer, READY_S_MAX};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl State {
    /// The UUID of the device that a client of a named server (0: of none) names, or of the first one.
    /// `None`: not known yet.
    pub fn device_named(&self, uuid: CUuuid, named: u32) -> Option<Result<CUuuid, LaunchError>> {
        let devices = match self.devices_of(named)? {
            Ok(devices) => devices,
            Err(error) => return Some(Err(error)),
        };
        let found = devices.find(uuid).map(|place| devices.devices[place].uuid);
        Some(found.ok_or(LaunchError::NoSuchDevice(uuid)))
    }

    /// The devices that clients of a named server see (0: of none). `None`: not known yet.
    pub fn devices_of(&self, named: u32) -> Option<Result<Arc<Devices>, LaunchError>> {
        let all = self.inventory.devices()?;
        Some(self.tenancy.devices_of(named, all).map_err(LaunchError::from))
    }
}

/// True if as many clients wait for the answer as may, of all users or of this one.
fn has_too_many_waiting(waiting: &[Asking], uid: u32) -> bool {
    waiting.len() >= WAITING_MAX
        || waiting.iter().filter(|asking| asking.uid == uid).count() >= WAITING_OF_USER_MAX
}

fn not_started(error: &io::Error) -> LaunchError {
    NoServer::NotStarted(error.to_string()).into()
}

impl Daemon {
    /// Has the devices described, unless they are known or that is in flight.
    pub(in crate::daemon) fn find_devices(&self, state: &mut State) -> Result<(), LaunchError> {
        if state.inventory.devices.is_some() || state.inventory.is_asked() {
            return Ok(());
        }
        if state.servers.stopping.is_some() {
            return Err(NoServer::Stopping.into());
        }
        if let Some(failures) = &state.inventory.failures {
            failures.may_start(Instant::now())?;
        }
        let described =
            self.this.upgrade().ok_or(LaunchError::None(NoServer::Stopping)).and_then(|daemon| {
                let (child, socket, exit) =
                    self.spawn_describer().map_err(|error| not_started(&error))?;
                std::thread::Builder::new()
                    .name("devices".to_owned())
                    .spawn(move || daemon.hear_devices(child, &socket))
                    .map_err(|error| not_started(&error))?;
                Ok(exit)
            });
        match described {
            Ok(exit) => {
                state.inventory.asked = Some(Arc::new(exit));
                Ok(())
            }
            Err(error) => {
                self.count_description_failure(state, error.to_string());
                Err(error)
            }
        }
    }

    fn spawn_describer(&self) -> io::Result<(Child, Socket, OwnedFd)> {
        let (ours, theirs) = Socket::pair()?;
        ours.set_receive_timeout(Some(Duration::from_secs(READY_S_MAX)))?;
        let mut command = self.server_command(&theirs)?;
        let child = command.arg(crate::daemon::DESCRIBE).spawn()?;
        let exit = super::process::pidfd(child.id())?;
        Ok((child, ours, exit))
    }

    /// Waits for what the process says, and for its end.
    fn hear_devices(&self, mut child: Child, socket: &Socket) {
        let said = socket.receive();
        if matches!(said, Err(ReceiveError::TimedOut)) {
            let _ = child.kill();
        }
        let status = child.wait();
        let mut state = self.lock();
        let state = &mut *state;
        state.inventory.asked = None;
        match said {
            Ok((Message::Devices(devices), _)) => {
                for (ordinal, device) in devices.devices.iter().enumerate() {
                    let (name, uuid) = (&device.name, device.uuid);
                    self.logs.control.control(format!("Device {ordinal}: {name} (uuid {uuid})"));
                }
                state.inventory.failures = None;
                state.inventory.devices = Some(Arc::new(devices));
                self.make_partitions_wanted(state);
            }
            // It was asked to end.
            _ if state.servers.stopping.is_some() => {}
            other => {
                let reason = match (other, status) {
                    (Ok((Message::Failed(reason), _)), _) => reason,
                    (Err(ReceiveError::TimedOut), _) => format!("no answer after {READY_S_MAX} s"),
                    (Ok((other, _)), _) => format!("unexpected {}", other.name()),
                    (Err(ReceiveError::Closed), Ok(status)) => super::process::ending(status),
                    (Err(error), _) => error.to_string(),
                };
                self.logs.control.control(format!("The devices cannot be described: {reason}"));
                self.count_description_failure(state, reason.clone());
                self.refuse_all(state, &LaunchError::Ended(reason));
            }
        }
        self.answer_asking(state);
        self.changed.notify_all();
        self.wake();
    }

    fn count_description_failure(&self, state: &mut State, reason: String) {
        let previous = state.inventory.failures.as_ref();
        let crash = Crash { served: Duration::ZERO, killed: false, reason };
        let failures = Failures::after(previous, crash, Instant::now());
        state.inventory.failures = Some(failures);
    }

    /// A client wants to know the devices.
    pub(in crate::daemon) fn describe_to(&self, mut asking: Asking, gid: u32, door: &Door) {
        let mut state = self.lock();
        let state = &mut *state;
        let may = self.may_wait(state, asking.uid, gid);
        let may = may
            .and_then(|()| self.chosen(state, door.chosen(), (asking.pid, asking.uid, gid)))
            .and_then(|chosen| {
                asking.named = chosen.named;
                self.find_devices(state)
            });
        match may {
            Err(error) => self.refuse_one(asking.pid, asking.uid, &asking.socket, &error),
            Ok(()) if has_too_many_waiting(&state.inventory.waiting, asking.uid) => {
                let error = LaunchError::TooManyWaiting(WAITING_OF_USER_MAX);
                protocol::refuse(&asking.socket, error.result(), error.to_string());
            }
            Ok(()) => {
                state.inventory.waiting.push(asking);
                self.answer_asking(state);
            }
        }
    }

    /// Sends the devices to those who wait for them, once they are known.
    fn answer_asking(&self, state: &mut State) {
        if state.inventory.devices.is_some() {
            for asking in std::mem::take(&mut state.inventory.waiting) {
                match state.devices_of(asking.named) {
                    Some(Ok(devices)) => protocol::send_devices(&asking.socket, &devices),
                    Some(Err(error)) => {
                        self.refuse_one(asking.pid, asking.uid, &asking.socket, &error);
                    }
                    None => state.inventory.waiting.push(asking),
                }
            }
        }
    }

    /// The devices; waits until they are known.
    pub(crate) fn devices(&self) -> Result<Arc<Devices>, LaunchError> {
        let mut state = self.lock();
        self.find_devices(&mut state)?;
        let (state, found) = self.wait_until(state, None, |state| {
            let known = state.inventory.devices.clone().map(Ok);
            known.or_else(|| (!state.inventory.is_asked()).then_some(Err(())))
        });
        let reason = state.inventory.failures.as_ref().map(|failures| failures.reason.clone());
        match found {
            Some(Ok(devices)) => Ok(devices),
            _ => Err(reason.map_or(NoServer::Stopping.into(), LaunchError::Ended)),
        }
    }

    /// The devices, if they are known.
    pub(crate) fn known_devices(&self) -> Option<Arc<Devices>> {
        self.lock().inventory.devices.clone()
    }
}
