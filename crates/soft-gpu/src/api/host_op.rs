//! Host functions: functions of the program that a stream calls.

use std::ffi::c_void;

use crate::device::stream::Op;
use crate::device::stream::host::HostCall;
use crate::error::{Error, Result};
use graph::HostNode;

/// A pointer of the program's that goes back to it only.
#[derive(Clone, Copy)]
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the pointer is never dereferenced here; it goes back to the program's own function.
unsafe impl Send for UserData {}

/// The operation that calls a function of the program's; INVALID_VALUE if there is none.
pub(crate) fn host_op(node: HostNode) -> Result<Op> {
    let function = node.function.ok_or(Error::INVALID_VALUE)?;
    let data = UserData(node.user_data as *mut c_void);
    let call = move |_: Result| {
        let data = data;
        // SAFETY: the program gave this function to be called with this pointer.
        unsafe { function(data.0) }
    };
    Ok(Op::Host(HostCall { call: Box::new(call), always: false }))
}
