//! Host memory that kernels may touch: allocated by the driver, or the program's and registered.

use std::sync::Arc;

use super::pages;
use super::{Tables, overlaps};
use crate::device::Device;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::kernel::Range;

/// Size of a page, bytes.
const PAGE_BYTES: u64 = 4096;

/// A range of host memory.
pub(super) struct HostRange {
    pub(super) end: u64,
    pub(super) tenant: Arc<Tenant>,
    pub(super) context: u64,
    pub(super) flags: u32,
    pub(super) registered: bool,
    pub(super) id: u64,
}

impl Device {
    /// Allocates zeroed host memory.
    pub fn allocate_host(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        bytes: u64,
        flags: u32,
    ) -> Result<u64> {
        if bytes == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(Error::OUT_OF_MEMORY)?;
        self.memory.charge_host(&mut self.memory.tables(), bytes)?;
        let mapped = pages::map_shared(bytes);
        let mut tables = self.memory.tables();
        let Ok(start) = mapped else {
            tables.host_bytes -= bytes;
            return Err(Error::OUT_OF_MEMORY);
        };
        self.add_host(&mut tables, tenant, context, start, start + bytes, flags, false, true);
        Ok(start)
    }

    /// Frees what [`Device::allocate_host`] returned.
    pub fn free_host(&self, address: u64) -> Result {
        let mut tables = self.memory.tables();
        if tables.host.get(&address).is_none_or(|h| h.registered) {
            return Err(Error::INVALID_VALUE);
        }
        self.drop_host(&mut tables, address);
        Ok(())
    }

    /// Lets kernels touch memory of the program's own; read only unless `writable`.
    pub fn register_host(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        address: u64,
        bytes: u64,
        flags: u32,
        writable: bool,
    ) -> Result {
        let end = address.checked_add(bytes).ok_or(Error::INVALID_VALUE)?;
        if bytes == 0 || address == 0 {
            return Err(Error::INVALID_VALUE);
        }
        match pages::rights(address, bytes) {
            Some((true, can_write)) if can_write || !writable => {}
            _ => return Err(Error::INVALID_VALUE),
        }
        let mut tables = self.memory.tables();
        let allocated = tables.host.range(..=address).next_back();
        if allocated.is_some_and(|(_, host)| !host.registered && address < host.end) {
            return Err(Error::INVALID_VALUE);
        }
        if overlaps(&tables.host, address, end, |_, h| h.end) {
            return Err(Error::HOST_MEMORY_ALREADY_REGISTERED);
        }
        if overlaps(&tables.allocations, address, end, |s, a| s + a.bytes)
            || overlaps(&tables.mappings, address, end, |_, m| m.end)
        {
            return Err(Error::INVALID_VALUE);
        }
        self.add_host(&mut tables, tenant, context, address, end, flags, true, writable);
        Ok(())
    }

    /// Takes registered memory from kernels again.
    pub fn unregister_host(&self, address: u64) -> Result {
        let mut tables = self.memory.tables();
        match tables.host.get(&address) {
            None if address == 0 => Err(Error::INVALID_VALUE),
            None => {
                let before = tables.host.range(..address).next_back();
                Err(match before.is_some_and(|(_, host)| address < host.end) {
                    true => Error::INVALID_VALUE,
                    false => Error::HOST_MEMORY_NOT_REGISTERED,
                })
            }
            Some(host) if !host.registered => Err(Error::INVALID_VALUE),
            Some(_) => {
                self.drop_host(&mut tables, address);
                Ok(())
            }
        }
    }

    fn drop_host(&self, tables: &mut Tables, address: u64) {
        let Some(host) = tables.host.remove(&address) else { return };
        if let Some(written) = &self.written {
            written.forget(address, host.end - address);
        }
        if !host.registered {
            tables.host_bytes -= host.end - address;
        }
        self.hide(tables, address, || {
            if !host.registered {
                pages::release(address, host.end - address);
            }
        });
    }

    pub(super) fn free_host_of_context(&self, tables: &mut Tables, context: u64) {
        let all: Vec<u64> = tables
            .host
            .iter()
            .filter(|(_, h)| h.context == context)
            .map(|(start, _)| *start)
            .collect();
        for address in all {
            self.drop_host(tables, address);
        }
    }
}

impl Device {
    #[expect(clippy::too_many_arguments, reason = "one entry's fields")]
    fn add_host(
        &self,
        tables: &mut Tables,
        tenant: &Arc<Tenant>,
        context: u64,
        start: u64,
        end: u64,
        flags: u32,
        registered: bool,
        writable: bool,
    ) {
        let id = tables.next_id();
        let tenant_of = tenant.clone();
        tables
            .host
            .insert(start, HostRange { end, tenant: tenant_of, context, flags, registered, id });
        self.show_everywhere(tables, tenant, Range { start, end, writable });
    }
}
