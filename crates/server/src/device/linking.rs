//! Linking by a provider that does not know how openmps packs what is to be linked (see
//! [`cuda_api::link`]): NVIDIA's driver, which has functions of its own for it.

use super::Share;
use cuda_api::{CUlinkState, CudaError};
use std::ffi::c_uint;
use std::ptr;

/// Has the provider link these inputs, each with its CUjitInputType and with a structure that was
/// checked to stay within its bytes: what it answers, or a cubin.
pub fn link(share: &Share, inputs: &[(c_uint, &[u8])]) -> Result<Vec<u8>, CudaError> {
    let t = share.device().table();
    let mut state = CUlinkState::NULL;
    // SAFETY: no options; the local is written.
    unsafe { t.cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &mut state)? };
    let added = inputs.iter().try_for_each(|(kind, input)| {
        let mut input = input.to_vec();
        input.push(0);
        let (data, bytes) = (input.as_mut_ptr().cast(), input.len());
        // SAFETY: the data are `bytes` long and end with a NUL, the name is a C string, there are
        // no options; the provider copies what it wants to keep.
        unsafe {
            t.cuLinkAddData_v2(
                state,
                *kind,
                data,
                bytes,
                c"".as_ptr(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        }
    });
    let (mut image, mut bytes) = (ptr::null_mut(), 0);
    let linked = added.and_then(|()| {
        // SAFETY: the locals are written; the image is read before the state is destroyed, and has
        // as many bytes as the provider says.
        unsafe {
            t.cuLinkComplete(state, &mut image, &mut bytes)?;
            if image.is_null() {
                return Err(CudaError::UNKNOWN);
            }
            Ok(std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec())
        }
    });
    // SAFETY: made above, and not used any more.
    unsafe { t.cuLinkDestroy(state)? };
    linked
}
