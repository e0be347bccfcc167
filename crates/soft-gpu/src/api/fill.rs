//! Memsets.

use cuda_api::*;

use super::{Driver, driver, exports};
use crate::device::memory::{AllocationKind, PointerKind};
use crate::device::stream::Op;
use crate::device::stream::transfer::{Fill, Transfer};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use graph::{FillNode, NodeKind};

/// What to fill: `height` rows of `width` elements.
#[derive(Clone, Copy)]
struct Area {
    address: u64,
    pitch: usize,
    width: usize,
    height: usize,
}

impl Driver {
    /// Puts a fill into a stream: the synchronous form's is `None`, the default stream.
    fn fill(
        &self,
        stream: Option<CUstream>,
        per_thread: bool,
        area: Area,
        value: u32,
        element: u32,
    ) -> Result {
        self.working_tenant()?;
        let synchronous = stream.is_none();
        let stream = self.stream(stream.unwrap_or(CUstream::NULL), per_thread)?;
        if self.captured(stream, || Ok(NodeKind::Fill(as_node(area, value, element))))? {
            return Ok(());
        }
        let (_, _, tenant) = self.device.stream_properties(stream)?;
        let Some((fill, kind)) = self.checked_fill(&tenant, area, value, element)? else {
            return Ok(());
        };
        let seq = self.device.enqueue(stream, Op::Transfer(Box::new(Transfer::fill(fill))))?;
        // The program may look at it with its own eyes as soon as the call is back.
        let seen_by_host = matches!(
            kind,
            PointerKind::Host { .. } | PointerKind::Allocation(AllocationKind::Managed)
        );
        if synchronous && seen_by_host {
            self.device.wait_stream(stream, seq)?;
        }
        Ok(())
    }

    /// Checks a fill, and says what kind of memory it fills; `None` if there is nothing to fill.
    fn checked_fill(
        &self,
        tenant: &Tenant,
        area: Area,
        value: u32,
        element: u32,
    ) -> Result<Option<(Fill, PointerKind)>> {
        let Area { address, pitch, width, height } = area;
        if width == 0 || height == 0 {
            return Ok(None);
        }
        let row = (width as u64).checked_mul(element.into()).ok_or(Error::INVALID_VALUE)?;
        let aligned = address.is_multiple_of(element.into())
            && (height == 1 || (pitch as u64).is_multiple_of(element.into()));
        if !aligned || (height > 1 && (pitch as u64) < row) {
            return Err(Error::INVALID_VALUE);
        }
        let bytes = (height as u64 - 1)
            .checked_mul(pitch as u64)
            .and_then(|rows| rows.checked_add(row))
            .ok_or(Error::INVALID_VALUE)?;
        let found =
            self.device.memory.usable(tenant, address, bytes).ok_or(Error::INVALID_VALUE)?;
        let fill = Fill {
            address,
            pitch: pitch as u64,
            value,
            element,
            width: width as u64,
            height: height as u64,
            chunks: found.kind.is_device(),
        };
        Ok(Some((fill, found.kind)))
    }

    /// The fill that a graph's node stands for, checked; `None` if there is nothing to fill.
    pub(crate) fn fill_of(&self, tenant: &Tenant, node: &FillNode) -> Result<Option<Fill>> {
        let area = rows(node.dst, node.pitch, node.width, node.height);
        Ok(self.checked_fill(tenant, area, node.value, node.elementSize)?.map(|(fill, _)| fill))
    }
}

/// A fill as a graph has it.
fn as_node(area: Area, value: u32, element: u32) -> FillNode {
    FillNode {
        dst: CUdeviceptr(area.address),
        pitch: area.pitch,
        value,
        elementSize: element,
        width: area.width,
        height: area.height,
    }
}

fn row(pointer: CUdeviceptr, count: usize) -> Area {
    Area { address: pointer.0, pitch: 0, width: count, height: 1 }
}

fn rows(pointer: CUdeviceptr, pitch: usize, width: usize, height: usize) -> Area {
    Area { address: pointer.0, pitch, width, height }
}

exports! {
    fn cuMemsetD8_v2(
        dst: CUdeviceptr, value: u8, count: usize,
    ) | cuMemsetD8_v2_ptds per_thread {
        driver()?.fill(None, per_thread, row(dst, count), value.into(), 1)
    }

    fn cuMemsetD16_v2(
        dst: CUdeviceptr, value: c_ushort, count: usize,
    ) | cuMemsetD16_v2_ptds per_thread {
        driver()?.fill(None, per_thread, row(dst, count), value.into(), 2)
    }

    fn cuMemsetD32_v2(
        dst: CUdeviceptr, value: c_uint, count: usize,
    ) | cuMemsetD32_v2_ptds per_thread {
        driver()?.fill(None, per_thread, row(dst, count), value, 4)
    }

    fn cuMemsetD2D8_v2(
        dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize,
    ) | cuMemsetD2D8_v2_ptds per_thread {
        let area = rows(dst, pitch, width, height);
        driver()?.fill(None, per_thread, area, value.into(), 1)
    }

    fn cuMemsetD2D16_v2(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize,
    ) | cuMemsetD2D16_v2_ptds per_thread {
        let area = rows(dst, pitch, width, height);
        driver()?.fill(None, per_thread, area, value.into(), 2)
    }

    fn cuMemsetD2D32_v2(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize,
    ) | cuMemsetD2D32_v2_ptds per_thread {
        let area = rows(dst, pitch, width, height);
        driver()?.fill(None, per_thread, area, value, 4)
    }

    fn cuMemsetD8Async(
        dst: CUdeviceptr, value: u8, count: usize, stream: CUstream,
    ) | cuMemsetD8Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, row(dst, count), value.into(), 1)
    }

    fn cuMemsetD16Async(
        dst: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream,
    ) | cuMemsetD16Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, row(dst, count), value.into(), 2)
    }

    fn cuMemsetD32Async(
        dst: CUdeviceptr, value: c_uint, count: usize, stream: CUstream,
    ) | cuMemsetD32Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, row(dst, count), value, 4)
    }

    fn cuMemsetD2D8Async(
        dst: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream,
    ) | cuMemsetD2D8Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, rows(dst, pitch, width, height), value.into(), 1)
    }

    fn cuMemsetD2D16Async(
        dst: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize,
        stream: CUstream,
    ) | cuMemsetD2D16Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, rows(dst, pitch, width, height), value.into(), 2)
    }

    fn cuMemsetD2D32Async(
        dst: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize,
        stream: CUstream,
    ) | cuMemsetD2D32Async_ptsz per_thread {
        driver()?.fill(Some(stream), per_thread, rows(dst, pitch, width, height), value, 4)
    }
}
