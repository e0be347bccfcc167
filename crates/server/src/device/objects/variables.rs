//! Variables of a module: their first values, kept so that one client after the other can have it.

use crate::device::Device;
use crate::device::safe_calls::{DEFAULT_STREAM, Live};
use cuda_api::{CUdeviceptr, CUmodule, CUresult, CUstream};
use ptx::module_state::{Variable, Variables};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

/// Most variables of a module whose first values are kept, bytes.
const BYTES_MAX: u64 = 16 << 20;

/// Addresses of device memory with the bytes that a module's load has put there.
#[derive(Debug, Default)]
pub struct FirstValues(Vec<(u64, Box<[u8]>)>);

/// Where a module's variables are: ranges of device memory that do not overlap, first address and
/// bytes. `None` if the provider does not say it of each of them, so that not all could be written.
pub(in crate::device) fn places(
    device: &Device,
    module: Live<'_, CUmodule>,
    variables: &Variables,
) -> Option<Vec<(u64, u64)>> {
    let mut ranges = BTreeMap::new();
    for variable in &variables.all {
        let address = address(device, module, variable)?;
        // What lies between the variables of a section can be written too.
        let (first, bytes) = match variable.place {
            Some((section, offset)) => {
                (address.checked_sub(offset)?, *variables.section_bytes.get(section)?)
            }
            None => (address, variable.bytes),
        };
        if address.checked_add(variable.bytes)? > first.checked_add(bytes)? {
            return None;
        }
        ranges.insert(first, bytes);
    }
    let mut end = 0;
    let mut total = 0u64;
    for (first, bytes) in &ranges {
        if *first < end {
            return None;
        }
        end = first.checked_add(*bytes)?;
        total = total.checked_add(*bytes)?;
    }
    (total <= BYTES_MAX).then(|| ranges.into_iter().filter(|(_, bytes)| *bytes > 0).collect())
}

/// The address of a variable, if it is as long as its image says and memory of the device alone.
fn address(device: &Device, module: Live<'_, CUmodule>, variable: &Variable) -> Option<u64> {
    let name = CString::new(variable.name.as_str()).ok()?;
    let (mut address, mut bytes) = (CUdeviceptr(0), 0usize);
    let (calls, mut managed) = (device.calls(), 0u32);
    calls.cuModuleGetGlobal_v2(&mut address, &mut bytes, module, &name).ok()?;
    // A provider that knows no such attribute has no managed variables.
    let _ = calls.cuPointerGetAttribute(&mut managed, address);
    (managed == 0 && address.0 != 0 && bytes as u64 == variable.bytes).then_some(address.0)
}

impl FirstValues {
    /// Reads what is at the places of a module that was just loaded. `None` if the provider refuses.
    ///
    /// # Safety
    /// The places must be of a module that is loaded.
    pub(in crate::device) unsafe fn read(device: &Device, places: Vec<(u64, u64)>) -> Option<Self> {
        let mut values = Vec::new();
        for (address, bytes) in places {
            let bytes = usize::try_from(bytes).ok()?;
            values.push((address, vec![0u8; bytes].into_boxed_slice()));
        }
        let t = device.table();
        let copy = |(address, to): &mut (u64, Box<[u8]>)| {
            let (to, bytes) = (to.as_mut_ptr().cast(), to.len());
            // SAFETY: the caller vouches for the places; the bytes are kept until the copies have
            // ended, below.
            unsafe { t.cuMemcpyDtoHAsync_v2(to, CUdeviceptr(*address), bytes, CUstream::NULL) }
        };
        let copied = values.iter_mut().try_for_each(copy);
        let ended = settle(device);
        copied.and(ended).ok().map(|()| Self(values))
    }

    /// Writes them again, for a client that has not used the module yet. No kernel uses it.
    pub(in crate::device) fn write(&self, device: &Device) -> CUresult {
        let t = device.table();
        let copied = self.0.iter().try_for_each(|(address, from)| {
            let (to, bytes) = (CUdeviceptr(*address), from.len());
            let from = from.as_ptr().cast::<c_void>();
            // SAFETY: the module is loaded for as long as its values are kept; the bytes stay.
            unsafe { t.cuMemcpyHtoDAsync_v2(to, from, bytes, CUstream::NULL) }
        });
        let ended = settle(device);
        copied.and(ended)
    }

    /// Their length, bytes.
    pub(in crate::device) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, values)| values.len() as u64).sum()
    }
}

/// Waits for copies in the default stream, in which nothing else is ever left: no client's work.
fn settle(device: &Device) -> CUresult {
    device.calls().cuStreamSynchronize(DEFAULT_STREAM)
}
