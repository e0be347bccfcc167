//! What can be asked of a device: streams, operations in them, waiting, tenants.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::clock::now_ns;
use crate::device::execution::account::Account;
use crate::device::execution::core::{Core, Parker};
use crate::device::execution::grid::SmMask;
use crate::device::execution::worker::Settled;
use crate::device::slab::Key;
use crate::device::stream::event::EventPoint;
use crate::device::stream::transfer::{Progress, Transfer};
use crate::device::stream::{Group, Head, Op, Stream};
use crate::device::tenant::{Tenant, TenantId};
use crate::device::{CoreGuard, Device, limits};
use crate::error::{Error, Result};

/// A transfer of up to this many bytes is done by the thread that submits it if nothing is before
/// it: handing it to a worker would take longer.
const INLINE_BYTES_MAX: u64 = 64 << 10;

/// A thread that waits for urgent work stays awake this long, ns: other work has all processors, and
/// one that sleeps may not soon get one again. What is urgent mostly takes less.
const AWAKE_NS: u64 = 50_000;

/// How a stream is made.
#[derive(Clone, Default)]
pub struct StreamSpec {
    /// Does not synchronise with the legacy default stream.
    pub non_blocking: bool,
    /// Within [`limits::PRIORITY_GREATEST`] and [`limits::PRIORITY_LEAST`].
    pub priority: i32,
    /// SMs its blocks may use.
    pub sms: SmMask,
}

impl Device {
    /// The streams of a context and tenant, among which the legacy default stream's rules hold.
    pub fn group(&self, context: u64, tenant: &Arc<Tenant>) -> Result<Key<Group>> {
        let mut core = self.lock();
        if let Some(key) = core.group_of.get(&(context, tenant.id)) {
            return Ok(*key);
        }
        let key = core.groups.insert(Group::default()).ok_or(Error::OUT_OF_MEMORY)?;
        core.group_of.insert((context, tenant.id), key);
        Ok(key)
    }

    /// Makes a stream.
    pub fn create_stream(
        &self,
        group: Key<Group>,
        tenant: &Arc<Tenant>,
        spec: StreamSpec,
    ) -> Result<Key<Stream>> {
        tenant.alive()?;
        self.start_threads();
        let mut core = self.lock();
        let mut stream = Stream::new(group, tenant.clone(), spec.priority);
        stream.blocking = !spec.non_blocking;
        stream.sms = self.sms_of(tenant, spec.sms);
        let key = core.streams.insert(stream).ok_or(Error::OUT_OF_MEMORY)?;
        match core.groups.get_mut(group) {
            Some(group) => group.streams.push(key),
            None => {
                core.streams.remove(key);
                return Err(Error::INVALID_CONTEXT);
            }
        }
        Ok(key)
    }

    /// The legacy default stream of a group, made when first asked for.
    pub fn legacy_stream(&self, group: Key<Group>, tenant: &Arc<Tenant>) -> Result<Key<Stream>> {
        if let Some(key) = self.lock().groups.get(group).and_then(|g| g.legacy) {
            return Ok(key);
        }
        let key = self.create_stream(group, tenant, StreamSpec::default())?;
        let mut core = self.lock();
        let existing = match core.groups.get_mut(group) {
            Some(group) => *group.legacy.get_or_insert(key),
            None => return Err(Error::INVALID_CONTEXT),
        };
        if existing != key {
            core.destroy_stream(key);
        }
        Ok(existing)
    }

    /// Lets a stream go; work in it is completed first.
    pub fn destroy_stream(&self, key: Key<Stream>) -> Result {
        let mut core = self.lock();
        if core.streams.get(key).is_none_or(|s| s.destroyed) {
            return Err(Error::INVALID_HANDLE);
        }
        core.destroy_stream(key);
        Ok(())
    }

    /// Ends the streams of a context with all that is in them, and waits until nothing of them
    /// runs.
    pub fn destroy_groups(&self, context: u64) {
        let mut core = self.lock();
        let (mut groups, mut streams) = (Vec::new(), Vec::new());
        core.group_of.retain(|(of, _), group| {
            if *of == context {
                groups.push(*group);
            }
            *of != context
        });
        for group in &groups {
            streams.extend(core.groups.get(*group).into_iter().flat_map(|g| g.streams.clone()));
        }
        for stream in &streams {
            core.cancel_stream(*stream);
            core.destroy_stream(*stream);
        }
        core.start_ready();
        drop(core);
        for stream in streams {
            self.wait_cancelled(stream);
        }
        let mut core = self.lock();
        for group in groups {
            core.groups.remove(group);
        }
    }

    /// Waits until nothing of a cancelled stream runs. It does not wait for a function of the
    /// program's, which may never return.
    fn wait_cancelled(&self, key: Key<Stream>) {
        let in_host_call = {
            let core = self.lock();
            core.streams.get(key).is_none_or(|s| matches!(s.head, Head::Host))
        };
        if !in_host_call {
            let _ = self.wait_stream(key, u64::MAX);
        }
    }

    /// What is submitted to the streams until the end of the returned value takes one entry in each of them. Waits
    /// while the first of them is full.
    pub fn batch<'a>(&'a self, streams: &'a [Key<Stream>]) -> Result<impl Drop + 'a> {
        struct Batch<'a>(&'a Device, &'a [Key<Stream>]);
        impl Drop for Batch<'_> {
            fn drop(&mut self) {
                let mut core = self.0.lock();
                for key in self.1 {
                    if let Some(stream) = core.streams.get_mut(*key) {
                        stream.end_batch();
                    }
                }
            }
        }
        let mut core = self.lock();
        if let Some(first) = streams.first() {
            core = self.wait_for_entry(core, *first)?;
        }
        for key in streams {
            if let Some(stream) = core.streams.get_mut(*key) {
                stream.begin_batch();
            }
        }
        Ok(Batch(self, streams))
    }

    /// Waits while a stream is full.
    fn wait_for_entry<'a>(
        &'a self,
        mut core: CoreGuard<'a>,
        key: Key<Stream>,
    ) -> Result<CoreGuard<'a>> {
        loop {
            let stream =
                core.streams.get_mut(key).filter(|s| !s.destroyed).ok_or(Error::INVALID_HANDLE)?;
            stream.tenant.alive()?;
            if !stream.is_full() {
                return Ok(core);
            }
            let parker = Parker::new();
            let half = stream.submitted - limits::STREAM_QUEUE_MAX as u64 / 2;
            stream.wait_for(half, parker.clone());
            drop(core);
            parker.wait(0);
            core = self.lock();
        }
    }

    /// Adds an operation to a stream; waits while the stream is full. Returns its number.
    pub fn enqueue(&self, key: Key<Stream>, op: Op) -> Result<u64> {
        // Early, if kernels that are to run before read the same: then less is found.
        if let Some(written) = &self.written {
            match &op {
                Op::Transfer(transfer) => transfer.note_written(written),
                Op::WriteValue(write) => {
                    written.write(write.address, if write.wide { 8 } else { 4 })
                }
                _ => {}
            }
        }
        let mut core = self.wait_for_entry(self.lock(), key)?;
        core.order_with_legacy(key);
        if let Op::Transfer(transfer) = op {
            if transfer.bytes() <= INLINE_BYTES_MAX
                && let Some(stream) = core.streams.get_mut(key)
                && stream.drained()
            {
                stream.submitted += 1;
                let seq = stream.submitted;
                stream.head = Head::TransferRunning;
                let tenant = stream.tenant.clone();
                let mut transfer = transfer;
                if core.trace.is_on() {
                    transfer.begins(now_ns());
                }
                drop(core);
                self.transfer_inline(key, &tenant, transfer);
                return Ok(seq);
            }
            let seq = core.push(key, Op::Transfer(transfer)).ok_or(Error::INVALID_HANDLE)?;
            core.start_submitted(key);
            return Ok(seq);
        }
        let seq = core.push(key, op).ok_or(Error::INVALID_HANDLE)?;
        core.start_submitted(key);
        Ok(seq)
    }

    fn transfer_inline(&self, key: Key<Stream>, tenant: &Arc<Tenant>, mut transfer: Box<Transfer>) {
        let progress = loop {
            let _mapped = tenant.copies.access();
            match transfer.step(&tenant.copies, || tenant.wants_worker_back()) {
                Progress::More => {}
                end => break end,
            }
        };
        self.lock().settle_transfer(key, tenant, transfer, progress);
    }

    /// Waits until the first `seq` operations of a stream are complete, doing them itself where
    /// it can; fails if the stream's tenant has an error.
    pub fn wait_stream(&self, key: Key<Stream>, seq: u64) -> Result {
        let mut core = self.lock();
        loop {
            let Some(stream) = core.streams.get(key) else { return Ok(()) };
            let tenant = stream.tenant.clone();
            let seq = seq.min(stream.submitted);
            if stream.completed >= seq {
                core.wake_workers();
                drop(core);
                return tenant.alive();
            }
            let assignment = core.assign_for(key);
            core.wake_workers();
            if let Some(mut assignment) = assignment {
                drop(core);
                let settled: Settled = self.execute(&mut assignment);
                core = self.lock();
                core.settle(assignment, settled);
                continue;
            }
            let parker = Parker::new();
            let awake_ns = if core.is_urgent(key) { AWAKE_NS } else { 0 };
            if let Some(stream) = core.streams.get_mut(key) {
                stream.wait_for(seq, parker.clone());
            }
            drop(core);
            parker.wait(awake_ns);
            core = self.lock();
        }
    }

    /// Waits for all that was submitted to a stream so far.
    pub fn synchronize_stream(&self, key: Key<Stream>) -> Result {
        let (legacy, submitted) = {
            let core = self.lock();
            let stream = core.streams.get(key).ok_or(Error::INVALID_HANDLE)?;
            let group = core.groups.get(stream.group);
            (group.is_some_and(|g| g.legacy == Some(key)), stream.submitted)
        };
        // The legacy stream stands for all blocking streams: a marker in it waits for them.
        let seq = if legacy { self.enqueue(key, Op::Marker)? } else { submitted };
        self.wait_stream(key, seq)
    }

    /// Wakes a worker for work that no worker was woken for, as no thread will wait for it.
    pub fn announce(&self) {
        self.lock().announce();
    }

    /// NOT_READY if something submitted to a stream is not complete.
    pub fn query_stream(&self, key: Key<Stream>) -> Result {
        let mut core = self.lock();
        // A thread that asks does not wait, so no thread does the work by waiting.
        core.announce();
        let stream = core.streams.get(key).ok_or(Error::INVALID_HANDLE)?;
        stream.tenant.alive()?;
        let group = core.groups.get(stream.group);
        let drained = match group {
            Some(group) if group.legacy == Some(key) => group
                .streams
                .iter()
                .filter_map(|k| core.streams.get(*k))
                .all(|s| !s.blocking || s.drained()),
            _ => stream.drained(),
        };
        if drained { Ok(()) } else { Err(Error::NOT_READY) }
    }

    /// Waits for all that was submitted to the streams of a group so far.
    pub fn synchronize_group(&self, group: Key<Group>, tenant: &Tenant) -> Result {
        let streams: Vec<(Key<Stream>, u64)> = {
            let core = self.lock();
            let Some(group) = core.groups.get(group) else { return tenant.alive() };
            let streams = group.streams.iter();
            streams.filter_map(|k| core.streams.get(*k).map(|s| (*k, s.submitted))).collect()
        };
        // All of them, even if one of them fails: when this returns nothing runs any more.
        let waits = streams.into_iter().map(|(stream, seq)| self.wait_stream(stream, seq));
        let mut waited: Result = Ok(());
        for one in waits {
            waited = waited.and(one);
        }
        waited.and(tenant.alive())
    }

    /// Records a point in a stream.
    pub fn record(&self, stream: Key<Stream>) -> Result<Arc<EventPoint>> {
        let point = Arc::new(EventPoint::new(stream));
        self.enqueue(stream, Op::Record(point.clone()))?;
        Ok(point)
    }

    /// Makes what is submitted to `stream` from now on wait for a point.
    pub fn wait_for_point(&self, stream: Key<Stream>, point: &EventPoint) -> Result {
        if point.reached_ns().is_some() {
            let core = self.lock();
            return core.streams.get(stream).map(|_| ()).ok_or(Error::INVALID_HANDLE);
        }
        let seq = point.seq.load(Ordering::Acquire);
        self.enqueue(stream, Op::WaitStream { stream: point.stream, seq }).map(|_| ())
    }

    /// Blocks the calling thread until a point is reached.
    pub fn synchronize_point(&self, point: &EventPoint) -> Result {
        if point.reached_ns().is_some() {
            return Ok(());
        }
        self.wait_stream(point.stream, point.seq.load(Ordering::Acquire))
    }

    /// A stream's priority, whether it is blocking, and its tenant.
    pub fn stream_properties(&self, key: Key<Stream>) -> Result<(i32, bool, Arc<Tenant>)> {
        let core = self.lock();
        let stream = core.streams.get(key).filter(|s| !s.destroyed).ok_or(Error::INVALID_HANDLE)?;
        Ok((stream.priority, stream.blocking, stream.tenant.clone()))
    }

    /// On how many SMs a stream's blocks may be placed.
    pub fn stream_sms(&self, key: Key<Stream>) -> Result<u32> {
        let core = self.lock();
        let stream = core.streams.get(key).ok_or(Error::INVALID_HANDLE)?;
        Ok(stream.sms.as_ref().map_or(self.settings.sms, |sms| sms.len() as u32))
    }

    /// SMs that a stream's blocks may be placed on, ascending, and those of its tenant's share; `None`: all.
    pub fn sms_of_stream(&self, key: Key<Stream>) -> Result<[SmMask; 2]> {
        let core = self.lock();
        let stream = core.streams.get(key).ok_or(Error::INVALID_HANDLE)?;
        let account = core.accounts.get(stream.tenant.account);
        Ok([stream.sms.clone(), account.and_then(|account| account.sms.clone())])
    }

    /// Among which streams a stream is, and whether it is their legacy default stream.
    pub fn stream_group(&self, key: Key<Stream>) -> Result<(Key<Group>, bool)> {
        let core = self.lock();
        let group = core.streams.get(key).ok_or(Error::INVALID_HANDLE)?.group;
        let legacy = core.groups.get(group).and_then(|group| group.legacy);
        Ok((group, legacy == Some(key)))
    }

    /// A number for a grid that no other launch has.
    pub fn next_grid_id(&self) -> u64 {
        self.grid_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a tenant on the first device.
    pub fn create_tenant(&self) -> Result<Arc<Tenant>> {
        self.create_tenant_on(0)
    }

    /// Makes a tenant.
    pub fn create_tenant_on(&self, device: u32) -> Result<Arc<Tenant>> {
        let id = TenantId(self.tenant_ids.fetch_add(1, Ordering::Relaxed));
        let mut core = self.lock();
        let Core { tenants, accounts, group_of, groups, profile, .. } = &mut *core;
        // Those that ended are remembered while something of theirs is left.
        let forgotten = tenants.extract_if(|_, t| t.ended() && Arc::strong_count(t) == 1);
        forgotten.for_each(|(_, t)| drop(accounts.remove(t.account)));
        // Their streams would have kept them, so their groups have none.
        group_of.retain(|(_, tenant), group| {
            let known = tenants.contains_key(tenant);
            if !known {
                groups.remove(*group);
            }
            known
        });
        let lasting = u64::from(self.count());
        profile.make_room(|id| id.0 < lasting || tenants.contains_key(&id));
        let account = accounts.insert(Account::default()).ok_or(Error::OUT_OF_MEMORY)?;
        let tenant = Tenant::new(id, account, device);
        tenants.insert(id, tenant.clone());
        Ok(tenant)
    }

    /// The tenant of that number.
    pub fn tenant(&self, id: TenantId) -> Option<Arc<Tenant>> {
        self.lock().tenants.get(&id).cloned()
    }

    /// Ends everything a tenant has in its streams, and waits until none of its blocks runs and no
    /// function of its program is in progress. After that its streams take nothing more. Not for the
    /// tenant's own host functions to call.
    pub fn end_tenant(&self, tenant: &Arc<Tenant>) {
        tenant.mark_ended();
        let streams: Vec<Key<Stream>> = {
            let mut core = self.lock();
            core.cancel_tenant(tenant.id);
            core.streams.iter().filter(|(_, s)| s.tenant.id == tenant.id).map(|(k, _)| k).collect()
        };
        for key in streams {
            let _ = self.wait_stream(key, u64::MAX);
        }
        self.end_host_calls(tenant);
        self.trim(tenant);
    }
}
