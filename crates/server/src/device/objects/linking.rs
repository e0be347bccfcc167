//! Linking by a provider that does not know how openmps packs what is to be linked (see
//! [`cuda_api::link`]): NVIDIA's driver, which has functions of its own for it. It compiles by them too,
//! without that others wait, which loading a text makes them do.

use crate::device::objects::jit_option::JitOptions;
use crate::device::safe_calls::Owned;
use crate::device::{BuildLog, Device, NumericJitOption, Share};
use cuda_api::attributes::{COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR};
use cuda_api::constants::jit_option::FALLBACK_STRATEGY;
use cuda_api::{CUlinkState, CudaError};
use ptx::fatbin::{Fatbin, PtxChoice};
use std::borrow::Cow;
use std::ffi::c_uint;
use std::ptr;

/// CUjitInputType of PTX.
pub const INPUT_PTX: c_uint = 1;

/// Has the provider link these inputs, each with its CUjitInputType and with a structure that was
/// checked to stay within its bytes: what it answers, or a cubin.
pub fn link(share: &Share, inputs: &[(c_uint, &[u8])]) -> Result<Vec<u8>, CudaError> {
    link_with(share, inputs, &mut JitOptions::new(std::iter::empty(), (0, 0)))
}

/// The text of which a driver makes the code of an image for this device, if it is one.
fn text_of<'a>(device: &Device, image: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    const ELF_MAGIC: &[u8] = b"\x7fELF";
    let Ok(fatbin) = Fatbin::read(image) else {
        return (!image.starts_with(ELF_MAGIC)).then_some(Cow::Borrowed(image));
    };
    let sm = device.sm();
    if fatbin.cubin_for(sm).is_some() {
        return None;
    }
    fatbin.ptx_for(sm, PtxChoice::UpToDevice)?.payload().ok()
}

impl Device {
    /// Its compute capability as PTX has it: 90 is 9.0.
    pub fn sm(&self) -> u32 {
        let attributes = &self.info().attributes;
        let number = |attribute: u32| attributes.get(attribute as usize).map_or(0, |n| *n as u32);
        10 * number(COMPUTE_CAPABILITY_MAJOR) + number(COMPUTE_CAPABILITY_MINOR)
    }
}

/// Compiles an image whose code the provider would have to make of a text: a cubin, or what the provider
/// answers, and its logs, for which there is room for as many bytes as asked for. `None`: it is none, or the
/// provider does not compile it by itself.
pub(in crate::device) fn compile(
    share: &Share,
    image: &[u8],
    options: &[NumericJitOption],
    log_bytes: (usize, usize),
) -> Option<(Result<Vec<u8>, CudaError>, BuildLog)> {
    let text = text_of(share.device(), image)?;
    // The one option that these functions do not take.
    let options = options.iter().copied().filter(|option| option.number() != FALLBACK_STRATEGY);
    let mut options = JitOptions::new(options, log_bytes);
    let compiled = link_with(share, &[(INPUT_PTX, &text)], &mut options);
    // What only a linker objects to is the loader's to judge.
    let is_answer = match compiled {
        Ok(_) => true,
        Err(error) => [CudaError::INVALID_PTX, CudaError::OUT_OF_MEMORY].contains(&error),
    };
    is_answer.then(|| (compiled, options.into_log()))
}

fn link_with(
    share: &Share,
    inputs: &[(c_uint, &[u8])],
    options: &mut JitOptions,
) -> Result<Vec<u8>, CudaError> {
    let (t, calls) = (share.device().table(), share.device().calls());
    let mut state = CUlinkState::NULL;
    let (count, numbers, values) = options.lists();
    // SAFETY: the lists are as long as their number says, and what they lead to lives until after the state
    // is destroyed; the local is written. The state has no other owner.
    let owned = unsafe {
        t.cuLinkCreate_v2(count, numbers, values, &mut state)?;
        Owned::new_unchecked(state)
    };
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
    calls.cuLinkDestroy(owned)?;
    linked
}
