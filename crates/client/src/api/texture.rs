//! Texture and surface objects (the manual's "Texture Object Management" and "Surface Object
//! Management").

use crate::boundary::{In, Out};
use crate::program::memory::arrays::ObjectKind;
use crate::program::mode;
use cuda_api::constants::resource_type;
use cuda_api::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUresult, CUsurfObject,
    CUtexObject, CudaError,
};

pub(crate) fn cuTexObjectCreate(
    object: Out<CUtexObject>,
    resource: In<CUDA_RESOURCE_DESC>,
    texture: In<CUDA_TEXTURE_DESC>,
    view: In<CUDA_RESOURCE_VIEW_DESC>,
) -> CUresult {
    let (client, context) = mode::enter()?;
    object.required()?;
    let (resource, texture) = (resource.get()?, texture.get()?);
    let view = if view.is_null() { None } else { Some(view.get()?) };
    let of_array =
        matches!(resource.resType, resource_type::ARRAY | resource_type::MIPMAPPED_ARRAY);
    if view.is_some() && !of_array {
        return Err(CudaError::INVALID_VALUE);
    }
    object.set(client.create_texture(context, resource, texture, view)?)
}

pub(crate) fn cuTexObjectDestroy(object: CUtexObject) -> CUresult {
    let client = mode::client()?;
    client.destroy_object(ObjectKind::Texture, object)
}

pub(crate) fn cuTexObjectGetResourceDesc(
    resource: Out<CUDA_RESOURCE_DESC>,
    object: CUtexObject,
) -> CUresult {
    let client = mode::client()?;
    resource.set(client.arrays().object(ObjectKind::Texture, object)?.resource)
}

pub(crate) fn cuTexObjectGetTextureDesc(
    texture: Out<CUDA_TEXTURE_DESC>,
    object: CUtexObject,
) -> CUresult {
    let client = mode::client()?;
    let described = client.arrays().object(ObjectKind::Texture, object)?.texture;
    texture.set(described.ok_or(CudaError::INVALID_VALUE)?)
}

/// CUDA_ERROR_INVALID_VALUE for an object that was made without a view, as CUDA has it.
pub(crate) fn cuTexObjectGetResourceViewDesc(
    view: Out<CUDA_RESOURCE_VIEW_DESC>,
    object: CUtexObject,
) -> CUresult {
    let client = mode::client()?;
    let described = client.arrays().object(ObjectKind::Texture, object)?.view;
    view.set(described.ok_or(CudaError::INVALID_VALUE)?)
}

pub(crate) fn cuSurfObjectCreate(
    object: Out<CUsurfObject>,
    resource: In<CUDA_RESOURCE_DESC>,
) -> CUresult {
    let (client, context) = mode::enter()?;
    object.required()?;
    let resource = resource.get()?;
    if resource.resType != resource_type::ARRAY {
        return Err(CudaError::INVALID_VALUE);
    }
    object.set(client.create_surface(context, resource)?)
}

pub(crate) fn cuSurfObjectDestroy(object: CUsurfObject) -> CUresult {
    let client = mode::client()?;
    client.destroy_object(ObjectKind::Surface, object)
}

pub(crate) fn cuSurfObjectGetResourceDesc(
    resource: Out<CUDA_RESOURCE_DESC>,
    object: CUsurfObject,
) -> CUresult {
    let client = mode::client()?;
    resource.set(client.arrays().object(ObjectKind::Surface, object)?.resource)
}
