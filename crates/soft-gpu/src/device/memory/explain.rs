//! Explanation of a fault: why an address cannot be used, in words.
//!
//! Said after the fact, for a person: the tables may have changed since the access. Of other
//! tenants nothing is reported but that the memory is theirs.

use super::{Memory, PointerKind};
use super::{Tables, holding};
use crate::device::tenant::{Tenant, TenantId};

/// Freed ranges that are remembered: a use after free follows the free soon.
const FREED_MAX: usize = 64;
/// How far beyond an allocation an address still counts as an overrun of it, bytes.
const NEAR_BYTES: u64 = 64 << 10;
/// Addresses below this are null pointers with an offset.
const NULL_BYTES: u64 = 64 << 10;

/// A range that was allocated.
pub(super) struct Freed {
    start: u64,
    end: u64,
    tenant: TenantId,
}

impl Tables {
    /// Remembers a range that is about to go.
    pub(super) fn note_freed(&mut self, tenant: TenantId, start: u64, end: u64) {
        if self.freed.len() == FREED_MAX {
            self.freed.pop_front();
        }
        self.freed.push_back(Freed { start, end, tenant });
    }

    fn explain(&self, tenant: &Tenant, address: u64, bytes: u64, write: bool) -> String {
        if let Some(p) = self.pointer(address) {
            if p.tenant.id != tenant.id && p.tenant.family == tenant.family {
                let (own, other) = (tenant.device, p.tenant.device);
                return format!(
                    "memory of device {other}, to which device {own} has no peer access"
                );
            }
            if p.tenant.id != tenant.id {
                return "memory of another client".to_owned();
            }
            let end = p.base + p.bytes;
            let what = match p.kind {
                PointerKind::Allocation(_) => "the allocation",
                PointerKind::Mapping => "the mapping",
                PointerKind::Host { .. } => "the host memory",
            };
            let place = format!("{what} of {} bytes at {:#x}", p.bytes, p.base);
            if address.checked_add(bytes).is_none_or(|last| last > end) {
                return format!("it reaches over the end of {place}");
            }
            return match write {
                true => format!("{place} is for reading only"),
                false => format!("{place} is not for kernels to read"),
            };
        }
        let freed = |of: &dyn Fn(&Freed) -> bool| {
            self.freed.iter().rev().find(|f| (f.start..f.end).contains(&address) && of(f))
        };
        if let Some(f) = freed(&|f| f.tenant == tenant.id) {
            let (inside, size) = (address - f.start, f.end - f.start);
            return format!(
                "{inside} bytes into memory of {size} bytes at {:#x}, which was freed",
                f.start
            );
        }
        if freed(&|_| true).is_some() {
            return "memory of another client".to_owned();
        }
        if address < NULL_BYTES {
            return "a null pointer".to_owned();
        }
        let mine = self.allocations.iter().filter(|(_, a)| a.tenant.id == tenant.id);
        let ranges = mine.map(|(start, a)| (*start, start + a.bytes));
        // Few enough: this is said once, and the program is over.
        let (mut before, mut behind) = (None::<(u64, u64)>, None::<(u64, u64)>);
        for (start, end) in ranges {
            if end <= address && before.is_none_or(|(_, e)| end > e) {
                before = Some((start, end));
            }
            if start > address && behind.is_none_or(|(s, _)| start < s) {
                behind = Some((start, end));
            }
        }
        match (before, behind) {
            (Some((start, end)), _) if address - end < NEAR_BYTES => format!(
                "{} bytes behind the end of the allocation of {} bytes at {start:#x}",
                address - end,
                end - start
            ),
            (_, Some((start, end))) if start - address <= NEAR_BYTES => format!(
                "{} bytes before the allocation of {} bytes at {start:#x}",
                start - address,
                end - start
            ),
            _ if holding(&self.reservations, address, |_, r| r.end).is_some() => {
                "reserved addresses without memory".to_owned()
            }
            _ => "no memory is there".to_owned(),
        }
    }
}

impl Memory {
    /// Why `tenant`'s kernels cannot read (or write) `bytes` at `address`.
    pub fn explain(&self, tenant: &Tenant, address: u64, bytes: u64, write: bool) -> String {
        self.tables().explain(tenant, address, bytes, write)
    }
}
