//! Copies: one, two and three dimensions, synchronous and in streams.
//!
//! What a copy may touch is checked when it is submitted (INVALID_VALUE) and again when the bytes
//! move. Pageable host memory behaves as CUDA promises: the source of an asynchronous copy has
//! been read when the call returns, a target has been written.

use cuda_api::constants::memory_type;
use cuda_api::pointer::Out;
use cuda_api::*;
use driver_common::batch::read_during_call;

use super::{Driver, driver, exports, thread};
use crate::device::memory::PointerKind;
use crate::device::stream::Op;
use crate::device::stream::transfer::{Copy, Side, Transfer};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use graph::{CopyEnd, CopyNode, NodeKind, StreamOrder};

/// Pageable sources up to this size are copied aside so that the call need not wait.
const STAGED_BYTES_MAX: u64 = 64 << 10;

/// What kind of memory an end of a copy is said to be in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The program's own memory.
    Host,
    /// Device memory.
    Device,
    /// Host or device memory, as the address says.
    Unified,
}

/// When a copy is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// When the stream gets there.
    InStream,
    /// When the call returns.
    WithCall,
    /// When the stream gets there; but its source has been read when the call returns.
    SourceWithCall,
}

impl Done {
    pub(super) fn of(synchronous: bool) -> Self {
        if synchronous { Self::WithCall } else { Self::InStream }
    }
}

/// One end of a copy as the program describes it.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Address of the first byte.
    pub(super) address: u64,
    /// Bytes from one row to the next.
    pub(super) pitch: u64,
    /// Bytes from one slice to the next.
    pub(super) slice: u64,
    /// What it is said to be in.
    pub(super) place: Place,
}

impl End {
    /// Bytes without rows.
    pub(super) fn linear(address: u64, place: Place) -> Self {
        Self { address, pitch: 0, slice: 0, place }
    }
}

/// Bytes from the first to past the last byte of an extent.
fn extent(end: &End, width: u64, height: u64, depth: u64) -> Result<u64> {
    let rows = (height - 1).checked_mul(end.pitch);
    let slices = (depth - 1).checked_mul(end.slice);
    rows.zip(slices)
        .and_then(|(rows, slices)| rows.checked_add(slices))
        .and_then(|sum| sum.checked_add(width))
        .ok_or(Error::INVALID_VALUE)
}

impl Driver {
    /// Checks one end of a 3-D copy of `bytes` bytes in all; true in the second place if it
    /// is pageable memory.
    fn side(&self, tenant: &Tenant, end: &End, bytes: u64) -> Result<(Side, bool)> {
        let host = matches!(end.place, Place::Host);
        let side = |device| Side {
            address: end.address,
            pitch: end.pitch,
            slice: end.slice,
            device,
            host,
        };
        if end.address == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let known = self.device.memory.pointer(end.address);
        match (end.place, known) {
            // Memory of ours is checked wherever the program says it is.
            (_, Some(_)) => {
                self.device
                    .memory
                    .usable(tenant, end.address, bytes)
                    .ok_or(Error::INVALID_VALUE)?;
                Ok((side(true), false))
            }
            (Place::Device, None) => Err(Error::INVALID_VALUE),
            (Place::Host | Place::Unified, None) => Ok((side(false), true)),
        }
    }

    /// Makes a 3-D copy in a stream; returns when CUDA would.
    pub(super) fn copy(
        &self,
        stream: CUstream,
        per_thread: bool,
        done: Done,
        ends: (End, End),
        [width, height, depth]: [u64; 3],
    ) -> Result {
        self.working_tenant()?;
        let stream = self.stream(stream, per_thread)?;
        if done == Done::WithCall {
            self.check_not_capturing(stream)?;
        } else if self.captured(stream, || Ok(as_node(ends, [width, height, depth])))? {
            return Ok(());
        }
        if width == 0 || height == 0 || depth == 0 {
            return Ok(());
        }
        let (dst_end, src_end) = ends;
        let (_, _, tenant) = self.device.stream_properties(stream)?;
        let (dst, dst_pageable) =
            self.side(&tenant, &dst_end, extent(&dst_end, width, height, depth)?)?;
        let src_bytes = extent(&src_end, width, height, depth)?;
        let (mut src, src_pageable) = self.side(&tenant, &src_end, src_bytes)?;
        let mut staged = None;
        let mut wait = done == Done::WithCall || dst_pageable;
        let now = done == Done::SourceWithCall;
        let kind = self.device.memory.pointer(src.address).map(|known| known.kind);
        let is_host = src_pageable || matches!(kind, Some(PointerKind::Host { .. }));
        wait |= now && !is_host;
        if (src_pageable || now) && !wait {
            let stages = now || src_bytes <= STAGED_BYTES_MAX;
            if stages && self.device.query_stream(stream).is_err() {
                let mut bytes = vec![0u8; src_bytes as usize].into_boxed_slice();
                // SAFETY: the program says that the source is `src_bytes` bytes long; `bytes` is
                // ours and as long.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        src.address as *const u8,
                        bytes.as_mut_ptr(),
                        bytes.len(),
                    );
                }
                (src.address, src.device) = (bytes.as_ptr() as u64, false);
                staged = Some(bytes);
            } else {
                wait = true;
            }
        }
        let copy = Copy { dst, src, width, height, depth, staged };
        let op = Op::Transfer(Box::new(Transfer::copy(copy)));
        let seq = self.device.enqueue(stream, op)?;
        if wait {
            self.device.wait_stream(stream, seq)?;
            // As the manual has it: what was printed is shown when a copy comes back that waits.
            self.flush_printf(&tenant);
        }
        Ok(())
    }

    fn copy_linear(
        &self,
        stream: CUstream,
        per_thread: bool,
        synchronous: bool,
        dst: End,
        src: End,
        bytes: usize,
    ) -> Result {
        self.copy(stream, per_thread, Done::of(synchronous), (dst, src), [bytes as u64, 1, 1])
    }
}

/// A copy as a graph has it.
fn as_node((dst, src): (End, End), extent: [u64; 3]) -> NodeKind {
    let end = |end: End| {
        let memory_type = match end.place {
            Place::Host => memory_type::HOST,
            Place::Device => memory_type::DEVICE,
            Place::Unified => memory_type::UNIFIED,
        };
        CopyEnd {
            memory_type,
            host: end.address,
            device: CUdeviceptr(end.address),
            pitch: end.pitch as usize,
            height: end.slice.checked_div(end.pitch).unwrap_or(0) as usize,
            ..CopyEnd::default()
        }
    };
    let extent = extent.map(|n| n as usize);
    NodeKind::Copy(CopyNode { destination: end(dst), source: end(src), extent })
}

impl Driver {
    /// The copy that a graph's node stands for, checked; `None` if there is nothing to copy.
    pub(crate) fn copy_of(&self, tenant: &Tenant, node: &CopyNode) -> Result<Option<Copy>> {
        let (ends, [width, height, depth]) = box_of(node)?;
        if width == 0 || height == 0 || depth == 0 {
            return Ok(None);
        }
        let side = |end: &End| self.side(tenant, end, extent(end, width, height, depth)?);
        let (dst, _) = side(&ends.0)?;
        let (src, _) = side(&ends.1)?;
        Ok(Some(Copy { dst, src, width, height, depth, staged: None }))
    }
}

fn device(pointer: CUdeviceptr) -> End {
    End::linear(pointer.0, Place::Device)
}

fn host(address: u64) -> End {
    End::linear(address, Place::Host)
}

fn unified(pointer: CUdeviceptr) -> End {
    End::linear(pointer.0, Place::Unified)
}

exports! {
    fn cuMemcpy(
        dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize,
    ) | cuMemcpy_ptds per_thread {
        let (dst, src) = (unified(dst), unified(src));
        driver()?.copy_linear(CUstream::NULL, per_thread, true, dst, src, byte_count)
    }

    fn cuMemcpyAsync(
        dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, stream: CUstream,
    ) | cuMemcpyAsync_ptsz per_thread {
        driver()?.copy_linear(stream, per_thread, false, unified(dst), unified(src), byte_count)
    }

    fn cuMemcpyHtoD_v2(
        dst: CUdeviceptr, src: *const c_void, byte_count: usize,
    ) | cuMemcpyHtoD_v2_ptds per_thread {
        let (dst, src) = (device(dst), host(src.cast::<u8>().address()));
        driver()?.copy_linear(CUstream::NULL, per_thread, true, dst, src, byte_count)
    }

    fn cuMemcpyDtoH_v2(
        dst: *mut c_void, src: CUdeviceptr, byte_count: usize,
    ) | cuMemcpyDtoH_v2_ptds per_thread {
        let (dst, src) = (host(dst.cast::<u8>().address()), device(src));
        driver()?.copy_linear(CUstream::NULL, per_thread, true, dst, src, byte_count)
    }

    fn cuMemcpyDtoD_v2(
        dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize,
    ) | cuMemcpyDtoD_v2_ptds per_thread {
        let (dst, src) = (device(dst), device(src));
        driver()?.copy_linear(CUstream::NULL, per_thread, false, dst, src, byte_count)
    }

    fn cuMemcpyHtoDAsync_v2(
        dst: CUdeviceptr, src: *const c_void, byte_count: usize, stream: CUstream,
    ) | cuMemcpyHtoDAsync_v2_ptsz per_thread {
        let (dst, src) = (device(dst), host(src.cast::<u8>().address()));
        driver()?.copy_linear(stream, per_thread, false, dst, src, byte_count)
    }

    fn cuMemcpyDtoHAsync_v2(
        dst: *mut c_void, src: CUdeviceptr, byte_count: usize, stream: CUstream,
    ) | cuMemcpyDtoHAsync_v2_ptsz per_thread {
        let (dst, src) = (host(dst.cast::<u8>().address()), device(src));
        driver()?.copy_linear(stream, per_thread, false, dst, src, byte_count)
    }

    fn cuMemcpyDtoDAsync_v2(
        dst: CUdeviceptr, src: CUdeviceptr, byte_count: usize, stream: CUstream,
    ) | cuMemcpyDtoDAsync_v2_ptsz per_thread {
        driver()?.copy_linear(stream, per_thread, false, device(dst), device(src), byte_count)
    }

    fn cuMemcpyPeer(
        dst: CUdeviceptr, _dst_context: CUcontext, src: CUdeviceptr, _src_context: CUcontext,
        byte_count: usize,
    ) | cuMemcpyPeer_ptds per_thread {
        let (dst, src) = (device(dst), device(src));
        driver()?.copy_linear(CUstream::NULL, per_thread, true, dst, src, byte_count)
    }

    fn cuMemcpyPeerAsync(
        dst: CUdeviceptr, _dst_context: CUcontext, src: CUdeviceptr, _src_context: CUcontext,
        byte_count: usize, stream: CUstream,
    ) | cuMemcpyPeerAsync_ptsz per_thread {
        driver()?.copy_linear(stream, per_thread, false, device(dst), device(src), byte_count)
    }

    fn cuMemcpyBatchAsync(
        dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
        attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
        fail_idx: *mut usize, stream: CUstream,
    ) | cuMemcpyBatchAsync_ptsz per_thread {
        fail_idx.set_if_wanted(usize::MAX);
        let during_call = read_during_call(count, attrs, attrs_idxs, num_attrs)?;
        copy_batch((dsts, srcs, sizes), &during_call, fail_idx, stream, per_thread)
    }

    fn cuMemcpyBatchAsync_v2(
        dsts: *mut CUdeviceptr, srcs: *mut CUdeviceptr, sizes: *mut usize, count: usize,
        attrs: *mut CUmemcpyAttributes, attrs_idxs: *mut usize, num_attrs: usize,
        stream: CUstream,
    ) | cuMemcpyBatchAsync_v2_ptsz per_thread {
        let during_call = read_during_call(count, attrs, attrs_idxs, num_attrs)?;
        copy_batch((dsts, srcs, sizes), &during_call, Out::null(), stream, per_thread)
    }

    fn cuMemcpy3DPeer(p_copy: *const CUDA_MEMCPY3D_PEER) | cuMemcpy3DPeer_ptds per_thread {
        // All contexts share their addresses.
        copy_box((&p_copy.get()?.without_contexts()).into(), CUstream::NULL, per_thread, true)
    }

    fn cuMemcpy3DPeerAsync(
        p_copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream,
    ) | cuMemcpy3DPeerAsync_ptsz per_thread {
        copy_box((&p_copy.get()?.without_contexts()).into(), stream, per_thread, false)
    }

    fn cuMemcpy2D_v2(p_copy: *const CUDA_MEMCPY2D) | cuMemcpy2D_v2_ptds per_thread {
        copy_box((&p_copy.get()?).into(), CUstream::NULL, per_thread, true)
    }

    fn cuMemcpy2DUnaligned_v2(
        p_copy: *const CUDA_MEMCPY2D,
    ) | cuMemcpy2DUnaligned_v2_ptds per_thread {
        copy_box((&p_copy.get()?).into(), CUstream::NULL, per_thread, true)
    }

    fn cuMemcpy2DAsync_v2(
        p_copy: *const CUDA_MEMCPY2D, stream: CUstream,
    ) | cuMemcpy2DAsync_v2_ptsz per_thread {
        copy_box((&p_copy.get()?).into(), stream, per_thread, false)
    }

    fn cuMemcpy3D_v2(p_copy: *const CUDA_MEMCPY3D) | cuMemcpy3D_v2_ptds per_thread {
        copy_box((&p_copy.get()?).into(), CUstream::NULL, per_thread, true)
    }

    fn cuMemcpy3DAsync_v2(
        p_copy: *const CUDA_MEMCPY3D, stream: CUstream,
    ) | cuMemcpy3DAsync_v2_ptsz per_thread {
        copy_box((&p_copy.get()?).into(), stream, per_thread, false)
    }
}

/// Copies each of a batch in turn: a stream promises more order than a batch asks for. Where the
/// first one failed goes to `failed`, or usize::MAX if it was none of them.
fn copy_batch(
    (dsts, srcs, sizes): (Out<CUdeviceptr>, Out<CUdeviceptr>, Out<usize>),
    during_call: &[bool],
    failed: Out<usize>,
    stream: CUstream,
    per_thread: bool,
) -> Result {
    let driver = driver()?;
    let (count, sizes) = (during_call.len(), sizes.array(during_call.len()));
    // A batch is for streams that have an order of their own.
    if driver.stream_key(driver.stream(stream, per_thread)?)?.order == StreamOrder::Legacy {
        return Err(Error::INVALID_VALUE);
    }
    for index in 0..count {
        if sizes.at(index)? == 0 {
            return Err(Error::INVALID_VALUE);
        }
    }
    for (index, during_call) in during_call.iter().enumerate() {
        let done = if *during_call { Done::SourceWithCall } else { Done::InStream };
        let copied = dsts.array(count).at(index).and_then(|dst| {
            let (src, bytes) = (srcs.array(count).at(index)?, sizes.at(index)?);
            let ends = (unified(dst), unified(src));
            driver.copy(stream, per_thread, done, ends, [bytes as u64, 1, 1])
        });
        if copied.is_err() {
            failed.set_if_wanted(index);
            return copied;
        }
    }
    Ok(())
}

/// One end of a 3-D copy, `rows` from one slice to the next.
fn end_of(end: &CopyEnd, extent: [u64; 3], rows: usize) -> Result<End> {
    let (base, place) = match end.memory_type {
        memory_type::HOST => (end.host, Place::Host),
        memory_type::DEVICE => (end.device.0, Place::Device),
        memory_type::UNIFIED => (end.device.0, Place::Unified),
        memory_type::ARRAY => {
            return driver()?.array_end(end.array, end.offset.map(|o| o as u64), extent);
        }
        _ => return Err(Error::INVALID_VALUE),
    };
    let width = extent[0];
    let [x, y, z] = end.offset.map(|o| o as u64);
    // A pitch of 0 means rows without gaps.
    let pitch = if end.pitch == 0 { width.saturating_add(x) } else { end.pitch as u64 };
    if width.checked_add(x).is_none_or(|row| row > pitch) {
        return Err(Error::INVALID_VALUE);
    }
    let slice = pitch.checked_mul(rows as u64).ok_or(Error::INVALID_VALUE)?;
    let offset = z
        .checked_mul(slice)
        .and_then(|o| o.checked_add(y.checked_mul(pitch)?))
        .and_then(|o| o.checked_add(x))
        .ok_or(Error::INVALID_VALUE)?;
    let address = base.checked_add(offset).ok_or(Error::INVALID_VALUE)?;
    Ok(End { address, pitch, slice, place })
}

/// Both ends of a copy, and its extent.
fn box_of(node: &CopyNode) -> Result<((End, End), [u64; 3])> {
    let extent = node.extent.map(|n| n as u64);
    let end = |end: &CopyEnd| {
        if end.level != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // A height of 0 means slices without gaps.
        let rows = match end.height {
            0 => node.extent[1].saturating_add(end.offset[1]),
            given => given,
        };
        end_of(end, extent, rows)
    };
    let source = end(&node.source)?;
    Ok(((end(&node.destination)?, source), extent))
}

/// Makes a 3-D copy that the program describes.
fn copy_box(node: CopyNode, stream: CUstream, per_thread: bool, synchronous: bool) -> Result {
    let driver = driver()?;
    thread::current()?;
    let (ends, extent) = box_of(&node)?;
    driver.copy(stream, per_thread, Done::of(synchronous), ends, extent)
}
