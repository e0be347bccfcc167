//! Limits of programs that run, when what they hang on has changed: memory of their namespace or their cgroup, and SMs
//! that partitions lend each other.
//!
//! A thread compares what servers know with what holds now: soon after a command or a client's coming and
//! going, and once a second, since the kernel's controller does not notify of other limits.

use crate::daemon::{Daemon, Reply, State};
use crate::v3::Membership;
use channel::message::{Change, MemoryGroup, Question, pid_of_process};
use cuda_api::CUuuid;
use recovery::servers::Phase;
use std::io;
use std::time::{Duration, Instant};

/// How often limits are compared while there are programs that have some.
const FOLLOW_MS: u64 = 1000;
/// How long a server may take to change a client's limits.
const CHANGE_S_MAX: u64 = 10;

impl Daemon {
    /// Starts the thread, where there are namespaces.
    pub(crate) fn start_following(&self) -> io::Result<()> {
        let Some(daemon) = self.shared().filter(|_| self.is_v3()) else { return Ok(()) };
        let follow = move || {
            while daemon.wait_for_changes() {
                daemon.follow_changes();
            }
        };
        std::thread::Builder::new().name("follow".to_owned()).spawn(follow).map(drop)
    }

    /// Has limits compared at once.
    pub(crate) fn follow_soon(&self, state: &mut State) {
        state.tenancy.follow_now = true;
        self.has_changed();
    }

    /// Waits until limits are to be compared; false at the daemon's end. Without clients it waits for some.
    fn wait_for_changes(&self) -> bool {
        let has_clients = |state: &mut State| {
            (state.ended || !state.tenancy.memberships.is_empty()).then_some(())
        };
        let (state, _) = self.wait_until(self.lock(), None, has_clients);
        let deadline = Instant::now() + Duration::from_millis(FOLLOW_MS);
        let is_due = |state: &mut State| (state.ended || state.tenancy.follow_now).then_some(());
        let (mut state, _) = self.wait_until(state, Some(deadline), is_due);
        state.tenancy.follow_now = false;
        !state.ended
    }

    fn follow_changes(&self) {
        let clients: Vec<(Membership, CUuuid)> = {
            let state = self.lock();
            let ready = |membership: &Membership| {
                let server = state.servers.iter().find(|of| of.pid == membership.server)?;
                let is_ready = !matches!(server.phase, Phase::Starting { .. }) && !server.fault;
                is_ready.then_some(server.device)
            };
            let of = |membership: &Membership| Some((membership.clone(), ready(membership)?));
            state.tenancy.memberships.iter().filter_map(of).collect()
        };
        for (membership, device) in clients {
            for change in self.changes_of(&membership, device) {
                self.send_change(&membership, change);
            }
        }
    }

    /// What a client's server does not know yet.
    fn changes_of(&self, membership: &Membership, device: CUuuid) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut groups = membership.groups();
        let known_namespace = membership.namespace_memory.as_ref().and_then(|_| groups.next());
        let known_cgroup = groups.next();
        {
            let state = self.lock();
            let now =
                state.tenancy.named.memory_group(membership.named, &membership.namespace, device);
            if let (Some(before), Some(now)) = (known_namespace, now)
                && before != now
                && before.name == now.name
            {
                changes.push(Change::Group(now));
            }
            let devices = state.inventory.devices();
            let known = devices.and_then(|all| all.devices.get(all.find(device)?));
            let sms = membership.partition.as_deref().zip(known);
            let sms = sms.and_then(|(id, known)| state.tenancy.partitions.sms_now(id, known, None));
            if let (Some((first, end)), true) = (sms, membership.sms.is_some())
                && membership.sms != sms
            {
                changes.push(Change::Partition(first, end));
            }
        }
        if let Some(before) = known_cgroup {
            changes.extend(self.cgroup_change(membership, before, device));
        }
        changes
    }

    /// Other limits of a client's cgroup, by the name that its server knows.
    fn cgroup_change(
        &self,
        membership: &Membership,
        before: MemoryGroup,
        device: CUuuid,
    ) -> Option<Change> {
        let cgroup = crate::cgroup::cgroup_of(pid_of_process(membership.client))?;
        let now = self.limits_of_cgroup(membership.client, Some(&cgroup), device);
        let (soft_bytes, hard_bytes) =
            now.map_or((0, u64::MAX), |now| (now.soft_bytes, now.hard_bytes));
        let now = MemoryGroup { name: before.name.clone(), soft_bytes, hard_bytes };
        (now != before).then_some(Change::Group(now))
    }

    /// Notifies a client's server, and notes that it knows. One that does not answer is notified again.
    fn send_change(&self, membership: &Membership, change: Change) {
        let (server, client) = (membership.server, membership.client);
        let status = self.statuses(&[server]).pop().and_then(|(_, status)| status.ok());
        let clients = status.into_iter().flat_map(|status| status.clients);
        let Some(id) = clients.filter(|of| of.process == client).map(|of| of.id).max() else {
            return;
        };
        let deadline = Instant::now() + Duration::from_secs(CHANGE_S_MAX);
        let question = Question::Set(id, change.clone());
        if !matches!(self.ask(server, question, deadline), Ok(Reply::Done(0))) {
            return;
        }
        let mut state = self.lock();
        let of = |of: &&mut Membership| (of.server, of.client) == (server, client);
        let Some(mut known) = state.tenancy.memberships.iter_mut().find(of).cloned() else {
            return;
        };
        match change {
            Change::Group(group) => {
                known.set_group(&group);
                state.tenancy.memacct.change(server, client, &group);
            }
            Change::Partition(first, end) => known.sms = Some((first, end)),
            _ => {}
        }
        self.note_left(&mut state, server, client);
        self.note_membership(&mut state, known);
    }
}
