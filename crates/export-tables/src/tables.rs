//! The tables: a UUID, a number of words, and which slots have a function.
//!
//! The first word of a table is its size in bytes, itself included, except where said. Sizes are
//! those of a driver for CUDA 13.0.

use crate::host;
use crate::integrity::{self, Question};
use crate::slots::{self, guarded};
use cuda_api::CUresult;
use cuda_api::pointer::Out;
use std::ffi::{c_uint, c_void};

/// One word of a table: a size or a function's address.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Slot(*const c_void);

// SAFETY: a slot is a number or the address of a function, and is never written.
unsafe impl Sync for Slot {}

const EMPTY: Slot = Slot(std::ptr::null());

const fn function(address: *const ()) -> Slot {
    Slot(address.cast())
}

/// A table of `WORDS` words that begins with its size.
const fn sized<const WORDS: usize>(functions: &[(usize, Slot)]) -> [Slot; WORDS] {
    let mut table = [EMPTY; WORDS];
    table[0] = Slot(std::ptr::without_provenance(WORDS * size_of::<Slot>()));
    let mut next = 0;
    while next < functions.len() {
        table[functions[next].0] = functions[next].1;
        next += 1;
    }
    table
}

/// What CUDA's runtime needs of the driver beside the published API.
static RUNTIME_INTERFACE: [Slot; 13] = sized(&[
    (1, function(slots::load_module as *const ())),
    (2, function(slots::primary_context as *const ())),
    (6, function(slots::load_module as *const ())),
    (7, function(slots::nothing as *const ())),
    (8, function(slots::load_module_from_header as *const ())),
    (12, function(slots::nothing as *const ())),
]);

/// Hooks of tools around the runtime's calls.
static RUNTIME_HOOKS: [Slot; 7] = sized(&[
    (1, function(slots::nothing as *const ())),
    (2, function(slots::runtime_call_flags as *const ())),
    (3, function(slots::nothing as *const ())),
    (4, function(slots::nothing as *const ())),
    (5, function(slots::nothing as *const ())),
    (6, function(slots::runtime_domain_flags as *const ())),
]);

/// Tools' state of a thread.
static TOOLS_THREAD: [Slot; 3] = sized(&[(2, function(slots::current_context as *const ()))]);

/// Context-local storage: no size, ends with NULL.
static CONTEXT_STORAGE: [Slot; 4] = [
    function(slots::storage_put as *const ()),
    function(slots::storage_delete as *const ()),
    function(slots::storage_get as *const ()),
    EMPTY,
];

/// The integrity check.
static INTEGRITY: [Slot; 3] = sized(&[
    (1, function(integrity_check as *const ())),
    (2, function(slots::nothing as *const ())),
]);

/// Checks of contexts.
static CONTEXT_CHECKS: [Slot; 15] = sized(&[
    (2, function(slots::context_check as *const ())),
    (3, function(slots::nothing as *const ())),
]);

/// What tools and libraries ask of contexts.
static TOOLS_CONTEXT: [Slot; 93] = sized(&[
    (4, function(slots::context_id as *const ())),
    (39, function(slots::stream_id as *const ())),
    (51, function(slots::private_stream as *const ())),
]);

/// What tools and libraries ask of modules.
static TOOLS_MODULE: [Slot; 99] = sized(&[(7, function(slots::visit_functions as *const ()))]);

/// Asked for by matrix libraries, which do without what its slot would give.
static MATRIX_SUPPORT: [Slot; 17] = sized(&[(4, function(slots::not_supported as *const ()))]);

/// Must be there for profiling libraries to load; no slot was seen called.
static PROFILER: [Slot; 67] = sized(&[]);

/// A table's UUID, as its 16 bytes in order, and where the table begins.
struct Named {
    uuid: u128,
    table: &'static [Slot],
}

static TABLES: &[Named] = &[
    Named { uuid: 0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9, table: &RUNTIME_INTERFACE },
    Named { uuid: 0xa094798c_2e74_2e74_93f2_0800200c0a66, table: &RUNTIME_HOOKS },
    Named { uuid: 0x42d85a81_23f6_cb47_8298_f6e78a3aecdc, table: &TOOLS_THREAD },
    Named { uuid: 0xc693336e_1121_df11_a8c3_68f355d89593, table: &CONTEXT_STORAGE },
    Named { uuid: 0xd4082055_bde6_704b_8d34_ba123c66e1f2, table: &INTEGRITY },
    Named { uuid: 0x263e8860_7cd2_6143_92f6_bbd5006dfa7e, table: &CONTEXT_CHECKS },
    Named { uuid: 0x21318c60_9714_3248_8ca6_41ff7324c8f2, table: &TOOLS_CONTEXT },
    Named { uuid: 0x6e163fbe_b958_444d_835c_e182aff1991e, table: &TOOLS_MODULE },
    Named { uuid: 0x1734dc26_800d_4745_8726_c0f1e7dd8bca, table: &MATRIX_SUPPORT },
    Named { uuid: 0x7cb63f9b_9ca4_8e42_a484_beb66e6aed7f, table: &PROFILER },
];

/// The table of that UUID; `None` if there is none, which cuGetExportTable answers with
/// CUDA_ERROR_INVALID_VALUE and a NULL pointer.
pub fn find(uuid: [u8; 16]) -> Option<*const c_void> {
    let uuid = u128::from_be_bytes(uuid);
    TABLES.iter().find(|t| t.uuid == uuid).map(|t| t.table.as_ptr().cast())
}

/// The integrity check's function, here because its answer depends on where tables are.
extern "C" fn integrity_check(
    version: c_uint,
    unix_seconds: u64,
    result: Out<[u64; 2]>,
) -> CUresult {
    guarded(|| {
        let host = host()?;
        let question = Question {
            driver_version: host.driver_version() as u32,
            version,
            process: std::process::id(),
            // SAFETY: takes nothing and cannot fail.
            thread: unsafe { libc::pthread_self() } as u32,
            runtime_interface: RUNTIME_INTERFACE.as_ptr() as u64,
            integrity_table: INTEGRITY.as_ptr() as u64,
            integrity_function: integrity_check as *const () as u64,
            unix_seconds,
        };
        result.set(integrity::answer(&question, &host.devices()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_with_their_size() {
        for table in TABLES {
            let first = table.table[0].0 as usize;
            let is_storage = std::ptr::eq(table.table.as_ptr(), CONTEXT_STORAGE.as_ptr());
            assert_eq!(!is_storage, first == size_of_val(table.table));
        }
    }

    #[test]
    fn tables_are_found_by_the_bytes_of_their_uuid() {
        let uuid = [
            0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66,
            0xe1, 0xf2,
        ];
        assert_eq!(find(uuid).map(|p| p as u64), Some(INTEGRITY.as_ptr() as u64));
        assert_eq!(find([0; 16]), None);
    }
}
