//! Textures: texture objects, on arrays and on memory, and surface objects. An object is a table in
//! device memory, and its handle the address (see `simt::runtime::texture`).

use locks::MutexGuard;
use std::collections::HashMap;

use cuda_api::array::is_layered;
use cuda_api::constants::{array_format, resource_type};
use cuda_api::*;
use simt::runtime::texture::{AddressMode, Descriptor, Texel};

use super::array::Array;
use super::{Driver, driver, exports, thread};
use crate::device::memory::AllocationKind;
use crate::device::tenant::TenantId;
use crate::error::{Error, Result};

/// CU_TRSF_READ_AS_INTEGER.
const READ_AS_INTEGER: u32 = 1;
/// CU_TRSF_NORMALIZED_COORDINATES.
const NORMALIZED_COORDINATES: u32 = 2;
/// CU_TRSF_SRGB: for unsigned 8-bit channels that are scaled, else without effect.
const SRGB: u32 = 0x10;
/// CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION: nothing to disable.
const DISABLE_TRILINEAR: u32 = 0x20;
/// CU_TRSF_SEAMLESS_CUBEMAP.
const SEAMLESS_CUBEMAP: u32 = 0x40;
/// What an object's memory is: no kernel writes it.
const OBJECT: AllocationKind = AllocationKind::Module { writable: false };

/// CUresourceViewFormat: each format of an array in one, two and four channels, in this order.
const VIEW_FORMATS: [u32; 8] = [
    array_format::UNSIGNED_INT8,
    array_format::SIGNED_INT8,
    array_format::UNSIGNED_INT16,
    array_format::SIGNED_INT16,
    array_format::UNSIGNED_INT32,
    array_format::SIGNED_INT32,
    array_format::HALF,
    array_format::FLOAT,
];

/// What the program said of an object.
pub(crate) struct ImageObject {
    context: u64,
    tenant: TenantId,
    resource: CUDA_RESOURCE_DESC,
    /// How it is read; `None` for a surface.
    texture: Option<CUDA_TEXTURE_DESC>,
    view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

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
        layered: false,
        levels: 1,
        blends_levels: false,
        level_bias: 0.0,
        level_range: [0.0; 2],
    })
}

/// An array, or the first level of a mipmapped one.
fn of_array(array: &Array) -> Result<Descriptor> {
    let d = &array.descriptor;
    let extent = |n: usize| narrow(n.max(1) as u64);
    Ok(Descriptor {
        base: array.address,
        width: extent(d.Width)?,
        height: extent(d.Height)?,
        depth: extent(d.Depth)?,
        row_bytes: array.pitch,
        slice_bytes: array.slice,
        layered: is_layered(d),
        ..blank(d.Format, u64::from(d.NumChannels))?
    })
}

/// The part of an array that a view shows, as texels of the view's format.
fn viewed(whole: Descriptor, view: &CUDA_RESOURCE_VIEW_DESC) -> Result<Descriptor> {
    let (format, power) = match view.format {
        0 => (None, 0),
        n => (VIEW_FORMATS.get((n as usize - 1) / 3), (n - 1) % 3),
    };
    let mut part = whole;
    if view.format != 0 {
        // Formats of compressed blocks come after these.
        part.texel = texel(*format.ok_or(Error::NOT_SUPPORTED)?)?;
        part.channels = 1 << power;
    }
    // A texel is as long as before, so there are as many. What is 1 may be left out.
    let as_before = |said: usize, extent: u32| said.max(1) as u64 == u64::from(extent);
    let (first, last) = (view.firstMipmapLevel, view.lastMipmapLevel);
    let (first_layer, last_layer) = (view.firstLayer, view.lastLayer);
    let fits = part.texel_bytes() == whole.texel_bytes()
        && as_before(view.width, whole.width)
        && as_before(view.height, whole.height)
        && (whole.layered || as_before(view.depth, whole.depth))
        && first <= last
        && last < u32::from(whole.levels)
        && first_layer <= last_layer
        && last_layer < if whole.layered { whole.depth } else { 1 };
    if !fits {
        return Err(Error::INVALID_VALUE);
    }
    if whole.layered && (first_layer, last_layer) != (0, whole.depth - 1) {
        // Layers of one level lie side by side, so that a part of them in several levels is none.
        if last > 0 {
            return Err(Error::NOT_SUPPORTED);
        }
        part.base += u64::from(first_layer) * part.slice_bytes;
        part.depth = last_layer - first_layer + 1;
    }
    let levels = (last - first + 1) as u8;
    Ok(Descriptor { levels, ..part.level(first as u8) })
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
    if resource.resType == resource_type::LINEAR {
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
        let handle = resource.resource[0] as usize;
        match resource.resType {
            resource_type::ARRAY => of_array(&*self.array(CUarray(handle))?),
            resource_type::MIPMAPPED_ARRAY => {
                let mipmapped = self.mipmapped(CUmipmappedArray(handle))?;
                let levels = mipmapped.levels() as u8;
                Ok(Descriptor { levels, ..of_array(&mipmapped.first)? })
            }
            resource_type::LINEAR | resource_type::PITCH2D => of_memory(resource),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// What a texture object shows, and how.
    fn texture(
        &self,
        resource: &CUDA_RESOURCE_DESC,
        texture: &CUDA_TEXTURE_DESC,
        view: Option<&CUDA_RESOURCE_VIEW_DESC>,
    ) -> Result<Descriptor> {
        // Seams of cubes are no different here: filtering stays on a face.
        const FILTERING: u32 = DISABLE_TRILINEAR | SEAMLESS_CUBEMAP;
        let known = READ_AS_INTEGER | NORMALIZED_COORDINATES | SRGB | FILTERING;
        if texture.flags & !known != 0 || texture.filterMode > 1 || texture.mipmapFilterMode > 1 {
            return Err(Error::INVALID_VALUE);
        }
        let mut object = self.resource(resource)?;
        if let Some(view) = view {
            if !is_array(resource) {
                return Err(Error::INVALID_VALUE);
            }
            object = viewed(object, view)?;
        }
        let small = object.texel.bytes() < 4 && object.texel != Texel::F16;
        object.scaled = small && texture.flags & READ_AS_INTEGER == 0;
        if object.scaled && object.texel == Texel::U8 && texture.flags & SRGB != 0 {
            object.texel = Texel::Srgb8;
        }
        if resource.resType == resource_type::LINEAR {
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
        object.blends_levels = texture.mipmapFilterMode == 1;
        object.level_bias = texture.mipmapLevelBias;
        object.level_range = [texture.minMipmapLevelClamp, texture.maxMipmapLevelClamp];
        Ok(object)
    }

    /// Places an object in memory of the current context; its handle.
    fn place_object(
        &self,
        object: &Descriptor,
        described: impl FnOnce(u64, TenantId) -> ImageObject,
    ) -> Result<u64> {
        let context = thread::current()?;
        let tenant = self.working_tenant()?;
        let (bytes, align) = (Descriptor::BYTES as u64, Descriptor::ALIGN);
        let at = self.device.allocate(&tenant, context.number(), bytes, align, OBJECT)?;
        tenant.space.write(at, &object.to_bytes());
        self.lock_images().insert(at, described(context.number(), tenant.id));
        Ok(at)
    }

    fn lock_images(&self) -> MutexGuard<'_, HashMap<u64, ImageObject>> {
        self.images.lock()
    }

    /// Reads what is known of a texture (or else a surface) object of this thread's tenant.
    fn image<R>(
        &self,
        handle: u64,
        is_texture: bool,
        read: impl FnOnce(&ImageObject) -> R,
    ) -> Result<R> {
        thread::current()?;
        let tenant = self.tenant().id;
        self.lock_images()
            .get(&handle)
            .filter(|object| object.tenant == tenant && object.texture.is_some() == is_texture)
            .map(read)
            .ok_or(Error::INVALID_VALUE)
    }

    /// Destroys an object; 0 stands for none.
    fn destroy_object(&self, handle: u64, is_texture: bool) -> Result {
        if handle == 0 {
            return Ok(());
        }
        self.image(handle, is_texture, |_| ())?;
        self.lock_images().remove(&handle);
        self.free_image(handle, OBJECT)
    }

    /// Forgets the objects of a context whose memory goes.
    pub(super) fn forget_images(&self, context: u64) {
        self.lock_images().retain(|_, object| object.context != context);
    }
}

/// True for what has a handle in place of an address.
fn is_array(resource: &CUDA_RESOURCE_DESC) -> bool {
    matches!(resource.resType, resource_type::ARRAY | resource_type::MIPMAPPED_ARRAY)
}

exports! {
    fn cuTexObjectCreate(
        tex_object: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC,
        texture: *const CUDA_TEXTURE_DESC, view: *const CUDA_RESOURCE_VIEW_DESC,
    ) {
        let driver = driver()?;
        tex_object.required()?;
        let (resource, texture) = (resource.get()?, texture.get()?);
        let view = if view.is_null() { None } else { Some(view.get()?) };
        let object = driver.texture(&resource, &texture, view.as_ref())?;
        let texture = Some(texture);
        let handle = driver.place_object(&object, |context, tenant| {
            ImageObject { context, tenant, resource, texture, view }
        });
        tex_object.set(handle?)
    }

    fn cuTexObjectDestroy(tex_object: CUtexObject) {
        driver()?.destroy_object(tex_object, true)
    }

    fn cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject) {
        resource.set(driver()?.image(tex_object, true, |object| object.resource)?)
    }

    fn cuTexObjectGetTextureDesc(texture: *mut CUDA_TEXTURE_DESC, tex_object: CUtexObject) {
        let described = driver()?.image(tex_object, true, |object| object.texture)?;
        texture.set(described.ok_or(Error::INVALID_VALUE)?)
    }

    fn cuTexObjectGetResourceViewDesc(
        view: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject,
    ) {
        let described = driver()?.image(tex_object, true, |object| object.view)?;
        view.set(described.ok_or(Error::INVALID_VALUE)?)
    }

    fn cuSurfObjectCreate(surf_object: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        let driver = driver()?;
        surf_object.required()?;
        let resource = resource.get()?;
        if resource.resType != resource_type::ARRAY {
            return Err(Error::INVALID_VALUE);
        }
        let object = driver.resource(&resource)?;
        let handle = driver.place_object(&object, |context, tenant| {
            ImageObject { context, tenant, resource, texture: None, view: None }
        });
        surf_object.set(handle?)
    }

    fn cuSurfObjectDestroy(surf_object: CUsurfObject) {
        driver()?.destroy_object(surf_object, false)
    }

    fn cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject) {
        resource.set(driver()?.image(surf_object, false, |object| object.resource)?)
    }
}
