//! Eviction: device memory for a client within its cgroup's soft limit, from one of another that is beyond its.

use crate::cgroup::cgroup_of;
use crate::daemon::{Daemon, State};
use crate::report::CgroupMemory;
use crate::v3::dmem;
use crate::v3::memacct::{Candidate, CgroupLimit};
use channel::message::{MemoryGroup, pid_of_process};
use cuda_api::CUuuid;
use recovery::servers::ClientProcess;

/// The limits that an operator's command has set for a cgroup on a device, and the device's PCI address; `None` if there
/// is no such device.
fn of_command(
    state: &State,
    cgroup: Option<&str>,
    device: CUuuid,
) -> Option<(Option<MemoryGroup>, String)> {
    let devices = state.inventory.devices()?;
    let ordinal = devices.find(device)? as u32;
    let pci = devices.devices.get(ordinal as usize)?.pci_bus_id.clone();
    let place = (ordinal, &*device.to_string());
    Some((cgroup.and_then(|cgroup| state.tenancy.memacct.group_of(cgroup, place)), pci))
}

/// A group, for a sentence: a namespace's says what it is.
fn called(name: &str) -> String {
    match name.starts_with("namespace ") {
        true => name.to_owned(),
        false => format!("cgroup {name}"),
    }
}

impl Daemon {
    /// The limits of the cgroup that a client's process is in, if memory is accounted for.
    pub(crate) fn cgroup_group(
        &self,
        state: &State,
        process: ClientProcess,
    ) -> Option<MemoryGroup> {
        if !state.tenancy.features.memacct || pid_of_process(process.pid) == 0 {
            return None;
        }
        let pid = pid_of_process(process.pid);
        let cgroup = cgroup_of(pid);
        let (of_command, pci) = of_command(state, cgroup.as_deref(), process.device)?;
        of_command.or_else(|| self.of_others(pid, cgroup.as_deref(), &pci))
    }

    /// The limits of a client's cgroup now, whether it came with some or not. The state is not held while files are read.
    pub(crate) fn limits_of_cgroup(
        &self,
        client: u32,
        cgroup: Option<&str>,
        device: CUuuid,
    ) -> Option<MemoryGroup> {
        let (of_command, pci) = of_command(&self.lock(), cgroup, device)?;
        of_command.or_else(|| self.of_others(pid_of_process(client), cgroup, &pci))
    }

    /// What the kernel's controller says, else what the program itself does.
    fn of_others(&self, pid: u32, cgroup: Option<&str>, pci: &str) -> Option<MemoryGroup> {
        let of_kernel = cgroup.and_then(|of| dmem::of_cgroup(self.cgroup_root(), of, pci));
        of_kernel.or_else(|| dmem::of_environment(pid, cgroup))
    }

    /// A client of a server's process waits for room on its device: another client is ended for it, if there
    /// is one who may be. On a thread of its own, one at a time; the client asks again meanwhile.
    pub(crate) fn make_room(&self, state: &mut State, process: u32, client: u32) {
        if state.tenancy.memacct.evicting || state.servers.stopping.is_some() {
            return;
        }
        let Some(wants) = state.tenancy.memacct.group(process, client).cloned() else { return };
        let Some(device) = state.server(process).map(|server| server.device) else { return };
        let Some(daemon) = self.shared() else { return };
        let work = move || {
            daemon.evict((process, client), &wants, device);
            daemon.lock().tenancy.memacct.evicting = false;
        };
        let thread = std::thread::Builder::new().name("eviction".to_owned()).spawn(work);
        state.tenancy.memacct.evicting = thread.is_ok();
    }

    fn evict(&self, (process, client): (u32, u32), wants: &MemoryGroup, device: CUuuid) {
        let pids: Vec<u32> = {
            let state = self.lock();
            let here = state.servers.iter().filter(|server| server.device == device);
            here.map(|server| server.pid).collect()
        };
        let mut candidates = Vec::new();
        for (process, status) in self.statuses(&pids) {
            let clients = status.map_or_else(|_| Vec::new(), |status| status.clients);
            candidates.extend(clients.into_iter().map(|of| Candidate {
                process,
                pid: of.process,
                id: of.id,
                memory_bytes: of.memory_bytes,
            }));
        }
        let (victim, group, audit) = {
            let state = self.lock();
            let victim = state.tenancy.memacct.victim(wants, &candidates).cloned();
            let group =
                victim.as_ref().and_then(|of| state.tenancy.memacct.group(of.process, of.pid));
            (victim, group.cloned(), state.tenancy.features.audit_log)
        };
        let who = format!("client {client} of server {process} in {}", called(&wants.name));
        let Some(victim) = victim else {
            if audit {
                self.log(format!(
                    "memacct: {who} wants memory, and no other program is beyond a soft limit"
                ));
            }
            return;
        };
        let of = group.map_or_else(
            || "in no cgroup with limits".to_owned(),
            |group| format!("in {}, soft limit {} bytes", called(&group.name), group.soft_bytes),
        );
        self.log(format!(
            "memacct: client {} of server {} ({of}; it has {} bytes) is terminated for {who}",
            victim.pid, victim.process, victim.memory_bytes
        ));
        // One that has ended meanwhile has made room as well.
        let _ = self.terminate_client(victim.process, victim.id);
    }

    /// Sets limits of a cgroup: for programs to come, and for those that run and came with limits.
    pub(crate) fn set_cgroup_limit(&self, limit: CgroupLimit) -> Result<(), String> {
        let mut state = self.lock();
        state.tenancy.memacct.set(limit)?;
        self.follow_soon(&mut state);
        Ok(())
    }

    /// The limits of cgroups, for a report.
    pub(crate) fn cgroup_memory(&self) -> Vec<CgroupMemory> {
        let row = |of: &CgroupLimit| CgroupMemory {
            cgroup: of.cgroup.clone(),
            device: of.device.clone(),
            soft_bytes: of.soft_bytes,
            hard_bytes: Some(of.hard_bytes).filter(|bytes| *bytes != u64::MAX),
        };
        self.lock().tenancy.memacct.limits().iter().map(row).collect()
    }

    /// The limits of cgroups, and what the programs of each hold, bytes.
    pub(crate) fn cgroup_limits(&self) -> Vec<(CgroupLimit, u64)> {
        let rows = self.client_rows(|_| true);
        let state = self.lock();
        let used = |limit: &CgroupLimit| {
            let mine = rows.iter().filter(|row| {
                let group = state.tenancy.memacct.group(row.process, row.client.process);
                let here = limit.device.as_ref().is_none_or(|word| {
                    let ordinal = row.device.unwrap_or(usize::MAX) as u32;
                    cuda_api::settings::names_device(word, ordinal, &row.client.device_uuid)
                });
                here && group.is_some_and(|group| group.name == limit.cgroup)
            });
            mine.map(|row| row.client.memory_bytes).sum()
        };
        state.tenancy.memacct.limits().iter().map(|limit| (limit.clone(), used(limit))).collect()
    }
}
