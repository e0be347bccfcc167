//! Texture objects, on arrays and on memory, and surface objects. An object is a table in device
//! memory, and its handle the address (see `simt::texture`).
//!
//! Deliberately absent: mipmaps, cubes and views.

use cuda_api::pointer::In;
use cuda_api::*;
use simt::texture::{AddressMode, Descriptor, Texel};

use super::{Driver, driver, exports, thread};
use crate::device::memory::AllocationKind;
use crate::error::{Error, Result};

/// CU_RESOURCE_TYPE_ARRAY.
const ARRAY: u32 = 0;
/// CU_RESOURCE_TYPE_LINEAR.
const LINEAR: u32 = 2;
/// CU_RESOURCE_TYPE_PITCH2D.
const PITCH_2D: u32 = 3;
/// CU_TRSF_READ_AS_INTEGER.
const READ_AS_INTEGER: u32 = 1;
/// CU_TRSF_NORMALIZED_COORDINATES.
const NORMALIZED_COORDINATES: u32 = 2;
/// CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION: nothing to disable.
const DISABLE_TRILINEAR: u32 = 0x20;

/// A CUarray_format.
fn texel(format: u32) -> Result<Texel> {
    Ok(match format {
        0x01 => Texel::U8,
        0x02 => Texel::U16,
        0x03 => Texel::U32,
        0x08 => Texel::S8,
        0x09 => Texel::S16,
        0x0a => Texel::S32,
        0x10 => Texel::F16,
        0x20 => Texel::F32,
        _ => return Err(Error::INVALID_VALUE),
    })
}

/// A CUaddress_mode.
fn address_mode(mode: u32) -> Result<AddressMode> {
    Ok(match mode {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => return Err(Error::INVALID_VALUE),
    })
}

fn narrow(extent: u64) -> Result<u32> {
    u32::try_from(extent).ok().filter(|extent| *extent > 0).ok_or(Error::INVALID_VALUE)
}

/// Texels without a place: format and channels as arrays and descriptions give them.
fn blank(format: u32, channels: u64) -> Result<Descriptor> {
    let channels = match channels {
        1 | 2 | 4 => channels as u8,
        _ => return Err(Error::INVALID_VALUE),
    };
    Ok(Descriptor {
        base: 0,
        width: 1,
        height: 1,
        depth: 1,
        row_bytes: 0,
        slice_bytes: 0,
        texel: texel(format)?,
        channels,
        address: [AddressMode::Clamp; 3],
        linear: false,
        normalized: false,
        scaled: false,
        border: [0.0; 4],
    })
}

/// Memory that a texture reads: linear, or rows a pitch apart.
fn of_memory(resource: &CUDA_RESOURCE_DESC) -> Result<Descriptor> {
    let words = &resource.resource;
    // Address, format and channels; then a size, or width, height and pitch.
    let mut object = Descriptor { base: words[0], ..blank(words[1] as u32, words[1] >> 32)? };
    let bytes = u64::from(object.texel_bytes());
    if object.base == 0 || !object.base.is_multiple_of(bytes) {
        return Err(Error::INVALID_VALUE);
    }
    if resource.resType == LINEAR {
        object.width = narrow(words[2] / bytes)?;
        return Ok(object);
    }
    (object.width, object.height) = (narrow(words[2])?, narrow(words[3])?);
    object.row_bytes = words[4];
    let row = u64::from(object.width) * bytes;
    if object.row_bytes < row || !object.row_bytes.is_multiple_of(bytes) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(object)
}

impl Driver {
    /// What an object shows.
    fn resource(&self, resource: &CUDA_RESOURCE_DESC) -> Result<Descriptor> {
        if resource.flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        match resource.resType {
            ARRAY => {
                let array = self.array(CUarray(resource.resource[0] as usize))?;
                let d = &array.descriptor;
                let extent = |n: usize| narrow(n.max(1) as u64);
                Ok(Descriptor {
                    base: array.address,
                    width: extent(d.Width)?,
                    height: extent(d.Height)?,
                    depth: extent(d.Depth)?,
                    row_bytes: array.pitch,
                    slice_bytes: array.slice,
                    ..blank(d.Format, u64::from(d.NumChannels))?
                })
            }
            LINEAR | PITCH_2D => of_memory(resource),
            _ => Err(Error::NOT_SUPPORTED),
        }
    }

    /// What a texture object shows, and how.
    fn texture(
        &self,
        resource: &CUDA_RESOURCE_DESC,
        texture: &CUDA_TEXTURE_DESC,
    ) -> Result<Descriptor> {
        let known = READ_AS_INTEGER | NORMALIZED_COORDINATES | DISABLE_TRILINEAR;
        if texture.flags & !known != 0 || texture.filterMode > 1 {
            return Err(Error::INVALID_VALUE);
        }
        let mut object = self.resource(resource)?;
        let small = object.texel.bytes() < 4 && object.texel != Texel::F16;
        object.scaled = small && texture.flags & READ_AS_INTEGER == 0;
        if resource.resType == LINEAR {
            // Only whole texels can be asked for, and there is nothing outside.
            object.address = [AddressMode::Border; 3];
            return Ok(object);
        }
        for (mode, asked) in object.address.iter_mut().zip(texture.addressMode) {
            *mode = address_mode(asked)?;
        }
        object.linear = texture.filterMode == 1;
        object.normalized = texture.flags & NORMALIZED_COORDINATES != 0;
        object.border = texture.borderColor;
        Ok(object)
    }

    /// Places an object in memory of the current context; its handle.
    fn place_object(&self, object: &Descriptor) -> Result<u64> {
        let context = thread::current()?;
        let tenant = self.working_tenant()?;
        let (bytes, align) = (Descriptor::BYTES as u64, Descriptor::ALIGN);
        let kind = AllocationKind::Module { writable: false };
        let at = self.device.allocate(&tenant, context.number(), bytes, align, kind)?;
        let mapped = tenant.space.access();
        // SAFETY: just allocated, as long as an object, mapped while `mapped` lives, and known to
        // nobody else.
        unsafe { (at as *mut u8).copy_from(object.to_bytes().as_ptr(), Descriptor::BYTES) };
        drop(mapped);
        Ok(at)
    }

    fn free_object(&self, handle: u64) -> Result {
        thread::current()?;
        self.device.free(handle, |kind| kind == AllocationKind::Module { writable: false })
    }
}

exports! {
    fn cuTexObjectCreate(
        tex_object: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC,
        texture: *const CUDA_TEXTURE_DESC, view: *const c_void,
    ) {
        let driver = driver()?;
        tex_object.required()?;
        let view: In<c_void> = view;
        if view.address() != 0 {
            // Views are of arrays.
            return Err(Error::INVALID_VALUE);
        }
        let object = driver.texture(&resource.get()?, &texture.get()?)?;
        tex_object.set(driver.place_object(&object)?)
    }

    fn cuTexObjectDestroy(tex_object: CUtexObject) {
        driver()?.free_object(tex_object)
    }

    fn cuSurfObjectCreate(surf_object: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        let driver = driver()?;
        surf_object.required()?;
        let resource = resource.get()?;
        if resource.resType != ARRAY {
            return Err(Error::INVALID_VALUE);
        }
        let object = driver.resource(&resource)?;
        surf_object.set(driver.place_object(&object)?)
    }

    fn cuSurfObjectDestroy(surf_object: CUsurfObject) {
        driver()?.free_object(surf_object)
    }
}
