//! Who may touch a range of memory: its tenant; on several devices also those of the program's tenants
//! on other devices that have peer access, and its copies.
//!
//! Invariant: a range is in the spaces of all tenants that [`Tables::shown`] names for it, and leaves
//! them all before it is unmapped.

use std::sync::Arc;

use super::Tables;
use crate::device::Device;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::kernel::Range;

/// A range that kernels or copies may touch.
pub(in crate::device) struct Shown {
    range: Range,
    /// The device whose memory it is, if peer access decides who else may touch it.
    home: Option<u32>,
    to: Vec<Arc<Tenant>>,
}

impl Device {
    /// Makes memory of a tenant's device usable by that tenant, its program's copies, and the peers
    /// that have access.
    pub(super) fn show_own(&self, tables: &mut Tables, tenant: &Arc<Tenant>, range: Range) {
        let mut to = vec![tenant.clone()];
        let program = self.copies.as_ref().filter(|_| self.is_default(tenant));
        if let Some(copies) = program {
            to.push(copies.clone());
            let peers = tables.peers.iter().filter(|((_, of), _)| *of == tenant.device);
            to.extend(peers.map(|((from, _), _)| self.default_tenant_on(*from).clone()));
        }
        self.show(tables, range, program.map(|_| tenant.device), to);
    }

    /// Makes memory usable that all devices of a program may touch: the host's, and managed memory.
    pub(super) fn show_everywhere(&self, tables: &mut Tables, tenant: &Arc<Tenant>, range: Range) {
        let to = match self.copies.as_ref().filter(|_| self.is_default(tenant)) {
            None => vec![tenant.clone()],
            Some(copies) => {
                self.default_tenants.iter().chain(std::iter::once(copies)).cloned().collect()
            }
        };
        self.show(tables, range, None, to);
    }

    /// Makes a mapping usable on the given devices, and by copies.
    pub(super) fn show_on(
        &self,
        tables: &mut Tables,
        tenant: &Arc<Tenant>,
        devices: impl Iterator<Item = u32>,
        range: Range,
    ) {
        let to = match self.copies.as_ref().filter(|_| self.is_default(tenant)) {
            None => vec![tenant.clone()],
            Some(copies) => devices
                .map(|device| self.default_tenant_on(device).clone())
                .chain(std::iter::once(copies.clone()))
                .collect(),
        };
        self.show(tables, range, None, to);
    }

    fn show(&self, tables: &mut Tables, range: Range, home: Option<u32>, to: Vec<Arc<Tenant>>) {
        to.iter().for_each(|tenant| publish(tables, tenant, range));
        tables.shown.insert(range.start, Shown { range, home, to });
    }

    /// Takes a range from all who may touch it, then runs `unmap`.
    pub(super) fn hide<R>(&self, tables: &mut Tables, start: u64, unmap: impl FnOnce() -> R) -> R {
        let Some(shown) = tables.shown.remove(&start) else { return unmap() };
        shown.to.iter().for_each(|tenant| take_back(tables, tenant, start));
        let mut unmap = Some(unmap);
        let mut result = None;
        self.while_all_still(&shown.to, &mut || {
            result = unmap.take().map(|unmap| unmap());
        });
        result.expect("it was called once")
    }

    fn while_all_still(&self, tenants: &[Arc<Tenant>], unmap: &mut dyn FnMut()) {
        match tenants {
            [] => unmap(),
            [first, others @ ..] => {
                self.while_still(first, || self.while_all_still(others, unmap));
            }
        }
    }

    /// Whether a device can reach another one's memory.
    pub fn can_access_peer(&self, from: u32, of: u32) -> bool {
        from != of && self.settings.peer_access
    }

    /// Lets kernels of one device touch all memory of another one's that is not mapped by the program,
    /// what is there and what will come.
    pub fn enable_peer(&self, from: u32, of: u32) -> Result {
        if !self.can_access_peer(from, of) {
            return Err(Error::PEER_ACCESS_UNSUPPORTED);
        }
        let mut tables = self.memory.tables();
        let count = tables.peers.entry((from, of)).or_insert(0);
        *count += 1;
        if *count > 1 {
            return Ok(());
        }
        let tenant = self.default_tenant_on(from).clone();
        let mut added = Vec::new();
        for shown in tables.shown.values_mut().filter(|shown| shown.home == Some(of)) {
            shown.to.push(tenant.clone());
            added.push(shown.range);
        }
        added.into_iter().for_each(|range| publish(&mut tables, &tenant, range));
        Ok(())
    }

    /// Takes that back.
    pub fn disable_peer(&self, from: u32, of: u32) {
        let mut tables = self.memory.tables();
        match tables.peers.get_mut(&(from, of)) {
            None => return,
            Some(count) if *count > 1 => return *count -= 1,
            Some(_) => tables.peers.remove(&(from, of)),
        };
        let tenant = self.default_tenant_on(from).clone();
        let mut taken = Vec::new();
        for shown in tables.shown.values_mut().filter(|shown| shown.home == Some(of)) {
            shown.to.retain(|other| other.id != tenant.id);
            taken.push(shown.range.start);
        }
        taken.into_iter().for_each(|start| take_back(&mut tables, &tenant, start));
        // Blocks that run have seen the last of it when this returns.
        self.while_still(&tenant, || {});
    }
}

fn publish(tables: &mut Tables, tenant: &Arc<Tenant>, range: Range) {
    let ranges = tables.ranges.entry(tenant.id).or_default();
    ranges.insert(range.start, range);
    tenant.space.publish(ranges.values().copied().collect());
}

fn take_back(tables: &mut Tables, tenant: &Arc<Tenant>, start: u64) {
    let ranges = tables.ranges.entry(tenant.id).or_default();
    ranges.remove(&start);
    let left = ranges.values().copied().collect();
    if ranges.is_empty() {
        tables.ranges.remove(&tenant.id);
    }
    tenant.space.publish(left);
}
