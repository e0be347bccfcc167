//! Images as the provider can load them, and what is to be known of them.
//!
//! The software GPU does all of this itself. NVIDIA's driver does not know how openmps packs what is
//! to be linked, says of no image whether its kernels print, and places managed variables where no
//! other process reaches them. So the part that the driver would take is looked for in a fat binary,
//! and where that has managed variables they are placed here, in memory that client, server and
//! device have at the same addresses, and their addresses written into the code. An image without
//! any is loaded as it came. Other variables lie in the client's device memory, where the client gives
//! them a place, so that they outlive this server.

use crate::device::{self, INPUT_PTX, Share};
use crate::session::memory::Memory;
use crate::session::module::image::Image;
use cuda_api::CudaError;
use cuda_api::extension::variable_place;
use cuda_api::link::unpack;
use ptx::fatbin::{Fatbin, PtxChoice};
use ptx::managed::Managed;
use ptx::module_state::{State, cubin_state, ptx_state};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::c_uint;

/// CUjitInputType of a fat binary and of a cubin that is to be linked.
const INPUT_FATBINARY: c_uint = 2;
const INPUT_OBJECT: c_uint = 3;

/// Variables that were placed here, by name: first address and bytes. The provider has
/// variables of the same names, which nothing uses.
pub type Placed = BTreeMap<String, (u64, u64)>;

/// Where a client wants variables.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct VariablePlace {
    /// First address, a multiple of [`VARIABLES_ALIGN_BYTES`].
    pub(in crate::session) address: u64,
    /// Room, bytes; none asks how much is needed.
    pub(in crate::session) bytes: u64,
    /// The values lie there.
    pub(in crate::session) kept: bool,
}

/// What became of the variables of code that lie in the device's memory.
enum Unmanaged {
    /// They need a place of so many bytes.
    Needs(u64),
    /// The code that uses them there, and where each of them is.
    Placed(Vec<u8>, Placed),
}

/// Variables begin at a multiple of this: more than any of them asks for.
pub(in crate::session) const VARIABLES_ALIGN_BYTES: u64 = 256;

/// What became of an image.
pub(in crate::session) enum Prepared {
    /// It can be loaded.
    Code(Code),
    /// Its variables need a place of so many bytes.
    NeedsPlace(u64),
}

/// An image made ready.
pub(in crate::session) struct Code {
    /// What the provider is to load.
    pub(in crate::session) image: Vec<u8>,
    /// True if its kernels may print.
    pub(in crate::session) may_print: bool,
    /// Its variables that the provider does not place.
    pub(in crate::session) placed: Placed,
    /// What of it could change: it says who else may use what is loaded.
    pub(in crate::session) state: State,
    /// It is not the client's image as it came.
    pub(in crate::session) is_changed: bool,
}

/// What preparing an image takes of a session.
pub(in crate::session) struct Preparation<'a> {
    pub(in crate::session) share: &'a Share,
    pub(in crate::session) memory: &'a mut Memory,
    /// A text that was compiled to see how much room its variables need, and its cubin.
    pub(in crate::session) compiled: &'a mut Option<(Vec<u8>, Vec<u8>)>,
    /// Reports why managed variables are not placed.
    pub(in crate::session) stay_away: &'a dyn Fn(&str),
}

impl Preparation<'_> {
    /// Makes an image ready whose structure was checked, for a module of that handle.
    pub(in crate::session) fn prepare(
        &mut self,
        (image, bytes): (Image, Vec<u8>),
        place: Option<VariablePlace>,
        plain: bool,
    ) -> Result<Prepared, CudaError> {
        if self.share.is_tenant() {
            if let Some(place) = place {
                let how = match place {
                    VariablePlace { bytes: 0, .. } => variable_place::MEASURE,
                    VariablePlace { kept: true, .. } => variable_place::KEPT,
                    VariablePlace { .. } => variable_place::NEW,
                };
                self.share.place_variables((place.address, place.bytes), how)?;
            }
            let may_print = image.may_print(&bytes);
            let (placed, state) = (Placed::new(), State::Unknown);
            return Ok(Prepared::Code(Code {
                image: bytes,
                may_print,
                placed,
                state,
                is_changed: false,
            }));
        }
        let linked = linked(self.share, &bytes)?;
        let (part, may_print) = match &linked {
            // Linking may hide the name of what prints.
            Some(cubin) => (Cow::Borrowed(&cubin[..]), image.may_print(&bytes)),
            None => {
                let part = part_for(self.share, image, &bytes);
                let may_print = Image::check(&part)?.may_print(&part);
                (part, may_print)
            }
        };
        let mut code = self.place_managed(&part)?;
        let mut state = match &code {
            Some(_) => State::Unknown,
            None => state_of(&part),
        };
        let variable = matches!(state, State::Variables(_)) || code.is_some();
        if let Some(place) = place.filter(|_| variable) {
            let cubin = match &code {
                Some((cubin, _)) => Some(Cow::Borrowed(&cubin[..])),
                None => self.cubin_of(&part, plain),
            };
            match self.place_unmanaged(cubin, place)? {
                Some(Unmanaged::Needs(bytes)) => return Ok(Prepared::NeedsPlace(bytes)),
                Some(Unmanaged::Placed(image, mut placed)) => {
                    match code.take() {
                        Some((_, managed)) => placed.extend(managed),
                        // What is left under the variables' names is not used any more.
                        None => state = state_of(&image),
                    }
                    code = Some((image, placed));
                }
                None => {}
            }
        }
        if let Some((image, placed)) = code {
            return Ok(Prepared::Code(Code { image, may_print, placed, state, is_changed: true }));
        }
        drop(part);
        let is_changed = linked.is_some();
        let image = linked.unwrap_or(bytes);
        Ok(Prepared::Code(Code { image, may_print, placed: Placed::new(), state, is_changed }))
    }

    /// Code as a cubin, in which addresses can be written. A text is compiled, if it is to be compiled
    /// without options; the result is kept for the load that follows with a place.
    fn cubin_of<'a>(&mut self, code: &'a [u8], plain: bool) -> Option<Cow<'a, [u8]>> {
        match Image::check(code).ok()? {
            Image::Elf => Some(Cow::Borrowed(code)),
            Image::Text if plain => {
                let kept = self.compiled.take().filter(|(text, _)| *text == code);
                let cubin = match kept {
                    Some((_, cubin)) => cubin,
                    None => device::link(self.share, &[(INPUT_PTX, code)]).ok()?,
                };
                *self.compiled = Some((code.to_vec(), cubin.clone()));
                Some(Cow::Owned(cubin))
            }
            _ => None,
        }
    }

    /// Places the variables of code in the client's memory, if it has any that can be placed. Others
    /// stay the driver's.
    fn place_unmanaged(
        &mut self,
        cubin: Option<Cow<'_, [u8]>>,
        place: VariablePlace,
    ) -> Result<Option<Unmanaged>, CudaError> {
        let found = cubin.and_then(|cubin| Some((Managed::find_unmanaged(&cubin).ok()?, cubin)));
        let Some((found, cubin)) = found.filter(|(found, _)| !found.is_empty()) else {
            *self.compiled = None;
            return Ok(None);
        };
        if place.bytes < found.bytes() {
            return Ok(Some(Unmanaged::Needs(found.bytes())));
        }
        *self.compiled = None;
        let mut cubin = cubin.into_owned();
        found.place(&mut cubin, place.address);
        if !place.kept {
            let range = self.memory.device_range(place.address, found.bytes())?;
            device::write(self.share, range, &found.first_values(place.address))?;
        }
        let placed = found.variables().iter();
        let placed = placed.map(|(name, v)| (name.clone(), (place.address + v.offset, v.bytes)));
        Ok(Some(Unmanaged::Placed(cubin, placed.collect())))
    }

    /// Places the managed variables of code, if it has any: the code that uses them there, and where
    /// each of them is. Their memory is what the session's memory says was placed last.
    fn place_managed(&mut self, code: &[u8]) -> Result<Option<(Vec<u8>, Placed)>, CudaError> {
        let Some(mut cubin) = cubin_to_search(self.share, code) else { return Ok(None) };
        let managed = match Managed::find(&cubin) {
            Ok(managed) if managed.is_empty() => return Ok(None),
            Ok(managed) => managed,
            Err(why) => {
                (self.stay_away)(&why.to_string());
                return Ok(None);
            }
        };
        let base = self.memory.place_managed(&managed)?;
        managed.place(cubin.to_mut(), base);
        let placed = managed.variables().iter();
        let placed = placed.map(|(name, v)| (name.clone(), (base + v.offset, v.bytes)));
        Ok(Some((cubin.into_owned(), placed.collect())))
    }
}

/// The part of an image that the device runs: a cubin or PTX. The whole image if none suits it.
fn part_for<'a>(share: &Share, image: Image, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let sm = share.device().sm();
    let payload = || {
        let fatbin = Fatbin::read(bytes).ok()?;
        let ptx = || fatbin.ptx_for(sm, PtxChoice::UpToDevice);
        fatbin.cubin_for(sm).or_else(ptx)?.payload().ok()
    };
    match image {
        Image::Text | Image::Elf => Cow::Borrowed(bytes),
        Image::Fatbin { .. } => payload().unwrap_or(Cow::Borrowed(bytes)),
    }
}

/// What of code could change while it is loaded.
fn state_of(code: &[u8]) -> State {
    match Image::check(code) {
        Ok(Image::Elf) => cubin_state(code),
        Ok(Image::Text) => {
            let end = code.iter().position(|byte| *byte == 0).unwrap_or(code.len());
            std::str::from_utf8(&code[..end]).map_or(State::Unknown, ptx_state)
        }
        _ => State::Unknown,
    }
}

/// A cubin that may have managed variables. A text with some is compiled: there are no places in it
/// to write addresses to. What is wrong with a text is said when it is loaded.
fn cubin_to_search<'a>(share: &Share, code: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    const DIRECTIVE: &[u8] = b".managed";
    match Image::check(code).ok()? {
        Image::Elf => Some(Cow::Borrowed(code)),
        Image::Text if memchr::memmem::find(code, DIRECTIVE).is_some() => {
            device::link(share, &[(INPUT_PTX, code)]).ok().map(Cow::Owned)
        }
        _ => None,
    }
}

/// What the provider makes of an image that openmps has packed to be linked; `None` for others.
fn linked(share: &Share, image: &[u8]) -> Result<Option<Vec<u8>>, CudaError> {
    let Some(inputs) = unpack(image) else { return Ok(None) };
    let typed = inputs.into_iter().map(|input| Ok((input_type(input)?, input)));
    device::link(share, &typed.collect::<Result<Vec<_>, CudaError>>()?).map(Some)
}

/// CUjitInputType of an input whose structure was checked; CUDA_ERROR_NOT_SUPPORTED for archives,
/// whose structure is not.
fn input_type(input: &[u8]) -> Result<c_uint, CudaError> {
    if input.starts_with(b"!<arch>") {
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(match Image::check(input)? {
        Image::Text => INPUT_PTX,
        Image::Elf => INPUT_OBJECT,
        Image::Fatbin { .. } => INPUT_FATBINARY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_of_a_kind_whose_structure_is_known() {
        assert_eq!(input_type(b"!<arch>\nlibrary"), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(input_type(b".version 8.0\n.target sm_80\0"), Ok(INPUT_PTX));
    }
}
