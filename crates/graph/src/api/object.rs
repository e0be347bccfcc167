//! Objects of the program's that graphs keep alive.

use crate::backend::Backend;
use crate::id::{object_number, object_word};
use crate::store::UserObject;
use core::ffi::{c_uint, c_void};
use cuda_api::pointer::Out;
use cuda_api::{CUgraph, CUhostFn, CUresult, CUuserObject, CudaError};

/// CU_USER_OBJECT_NO_DESTRUCTOR_SYNC: the only flag, and it must be set.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// CU_GRAPH_USER_OBJECT_MOVE: the graph takes over references of the caller's.
const MOVE: c_uint = 1;

pub fn cuUserObjectCreate<B: Backend>(
    b: B,
    object: Out<CUuserObject>,
    pointer: Out<c_void>,
    destroy: CUhostFn,
    references: c_uint,
    flags: c_uint,
) -> CUresult {
    object.required()?;
    if destroy.is_none() || references == 0 || flags != NO_DESTRUCTOR_SYNC {
        return Err(CudaError::INVALID_VALUE);
    }
    let pointer = pointer.address() as usize;
    let mut tables = b.graphs().lock();
    let number = tables.next_number();
    let made = UserObject { pointer, destroy, references: references.into() };
    tables.user_objects.insert(number, made);
    object.set(object_word(number))
}

pub fn cuUserObjectRetain<B: Backend>(b: B, object: CUuserObject, count: c_uint) -> CUresult {
    let number = object_number(object)?;
    let mut tables = b.graphs().lock();
    let found = tables.user_objects.get_mut(&number).ok_or(CudaError::INVALID_VALUE)?;
    if count == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    found.references += u64::from(count);
    Ok(())
}

pub fn cuUserObjectRelease<B: Backend>(b: B, object: CUuserObject, count: c_uint) -> CUresult {
    let number = object_number(object)?;
    let mut tables = b.graphs().lock();
    let found = tables.user_objects.get(&number).ok_or(CudaError::INVALID_VALUE)?;
    if count == 0 || u64::from(count) > found.references {
        return Err(CudaError::INVALID_VALUE);
    }
    let gone = tables.release(number, count.into());
    drop(tables);
    gone.into_iter().for_each(UserObject::destroy);
    Ok(())
}

pub fn cuGraphRetainUserObject<B: Backend>(
    b: B,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
    flags: c_uint,
) -> CUresult {
    let number = object_number(object)?;
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    let found = tables.user_objects.get_mut(&number).ok_or(CudaError::INVALID_VALUE)?;
    match flags {
        _ if count == 0 => return Err(CudaError::INVALID_VALUE),
        0 => found.references += u64::from(count),
        MOVE if u64::from(count) <= found.references => {}
        _ => return Err(CudaError::INVALID_VALUE),
    }
    *tables.graph_mut(id)?.user_objects.entry(number).or_default() += u64::from(count);
    Ok(())
}

pub fn cuGraphReleaseUserObject<B: Backend>(
    b: B,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
) -> CUresult {
    let number = object_number(object)?;
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    let objects = &mut tables.graph_mut(id)?.user_objects;
    let count = u64::from(count);
    let held = objects.get_mut(&number).filter(|held| count > 0 && **held >= count);
    let held = held.ok_or(CudaError::INVALID_VALUE)?;
    *held -= count;
    if *held == 0 {
        objects.remove(&number);
    }
    let gone = tables.release(number, count);
    drop(tables);
    gone.into_iter().for_each(UserObject::destroy);
    Ok(())
}
