//! NVML's functions on the software GPU: those that have a true answer.
//!
//! A function that is not here is NVML_ERROR_NOT_SUPPORTED, as on a device that lacks the part in
//! question: sensors, power, fans, ECC, MIG, links, video engines, virtual GPUs, and all that would
//! change something.

mod events;
mod identity;
pub(crate) mod init;
mod memory_limits;
mod processes;
mod state;
mod system;
#[cfg(test)]
mod tests;

use crate::device::Device;
use crate::mode;
use crate::out::Argument;
use crate::status::{Answer, Failure};
use cuda_api::pointer::FromProgram;
use std::ffi::c_void;

/// A function that the software GPU answers.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) code: *const c_void,
}

// SAFETY: the addresses are of functions, which any thread may call.
unsafe impl Sync for Function {}

/// All of them.
pub(crate) static FUNCTIONS: [&[Function]; 6] = [
    events::FUNCTIONS,
    identity::FUNCTIONS,
    memory_limits::FUNCTIONS,
    processes::FUNCTIONS,
    state::FUNCTIONS,
    system::FUNCTIONS,
];

/// An `nvmlDevice_t`: a number that no program takes for none, and the device's behind it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(usize);

impl Handle {
    const FIRST: usize = 0x6f6d_7073;

    /// That of the device of this number.
    fn of(index: usize) -> Self {
        Self(Self::FIRST + index)
    }

    /// The device's number; INVALID_ARGUMENT if this is no handle.
    fn index(self) -> Answer<u32> {
        self.device()?;
        Ok((self.0 - Self::FIRST) as u32)
    }

    /// The device; INVALID_ARGUMENT if this is no handle.
    fn device(self) -> Answer<&'static Device> {
        let index = self.0.checked_sub(Self::FIRST).ok_or(Failure::INVALID_ARGUMENT)?;
        mode::devices()?.get(index).ok_or(Failure::INVALID_ARGUMENT)
    }
}

impl FromProgram for Handle {
    type Argument = Self;
    unsafe fn believe(self) -> Self {
        self
    }
}

impl Argument for Handle {
    type Inside = Self;
}

/// Defines functions of the API: C outside, checked arguments inside, and the list of them.
macro_rules! functions {
    ($(fn $name:ident($($param:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            #[allow(non_snake_case, reason = "nvml.h's name")]
            unsafe extern "C" fn $name($($param: $ty),*) -> u32 {
                $(
                    // SAFETY: the argument is the program's, passed by nvml.h's signature.
                    let $param = unsafe { cuda_api::pointer::FromProgram::believe($param) };
                    let $param: <$ty as $crate::out::Argument>::Inside = $param.into();
                )*
                // A panic must not cross the boundary.
                let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(
                    || -> $crate::status::Answer { $body },
                ));
                $crate::status::code(answer.unwrap_or(Err($crate::status::Failure::UNKNOWN)))
            }
        )*

        /// The functions of this module.
        pub(super) static FUNCTIONS: &[super::Function] = &[$(super::Function {
            name: stringify!($name),
            code: $name as *const std::ffi::c_void,
        }),*];
    };
}
use functions;
