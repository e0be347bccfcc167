//! The exported symbols: one jump each, through a table of addresses.
//!
//! An entry leads to NVML_ERROR_UNINITIALIZED until nvmlInit, then to our answer, to
//! NVML_ERROR_NOT_SUPPORTED, or into NVIDIA's library. The few functions that do something before
//! nvmlInit have no entry: [`crate::api::init`] exports them.
//!
//! Invariant: an entry is always code that may be called with the symbol's own signature.

use crate::api;
use crate::mode::Vendor;
use crate::names_generated::{NAMES, exported_functions};
use crate::status::Failure;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// How many functions have an entry.
const COUNT: usize = NAMES.len();

/// Where each function's jump leads, by its index.
static ENTRIES: [AtomicPtr<c_void>; COUNT] =
    [const { AtomicPtr::new(uninitialized as *mut c_void) }; COUNT];

/// What every function answers before nvmlInit.
extern "C" fn uninitialized() -> u32 {
    Failure::UNINITIALIZED.0
}

/// What every function that has no answer of its own says.
extern "C" fn not_supported() -> u32 {
    Failure::NOT_SUPPORTED.0
}

/// What a function says that NVIDIA's library lacks.
extern "C" fn function_not_found() -> u32 {
    Failure::FUNCTION_NOT_FOUND.0
}

/// Leads all calls to the software GPU's answers.
pub(crate) fn lead_to_own() {
    fill(|name| match api::FUNCTIONS.iter().copied().flatten().find(|own| own.name == name) {
        Some(own) => own.code,
        None => not_supported as *const c_void,
    });
}

/// Leads all calls to NVML_ERROR_UNINITIALIZED.
pub(crate) fn lead_nowhere() {
    fill(|_| uninitialized as *const c_void);
}

/// Leads all calls to NVIDIA's library, which has NVML's functions by their names.
pub(crate) fn lead_to(vendor: &Vendor) {
    fill(|name| vendor.function(name).unwrap_or(function_not_found as *const c_void));
}

fn fill(code: impl Fn(&str) -> *const c_void) {
    for (entry, name) in ENTRIES.iter().zip(NAMES) {
        entry.store(code(name).cast_mut(), Ordering::Release);
    }
}

macro_rules! jumps {
    ($($index:literal $name:ident;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "nvml.h's name")]
        unsafe extern "C" fn $name() {
            cuda_api::jump_to_entry!(ENTRIES, $index)
        }
    )*};
}

exported_functions!(jumps);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_to_a_function_that_exists_and_there_is_one() {
        let mut seen = std::collections::BTreeSet::new();
        for own in api::FUNCTIONS.iter().copied().flatten() {
            assert!(NAMES.contains(&own.name), "{}", own.name);
            assert!(seen.insert(own.name), "{} twice", own.name);
        }
    }
}
