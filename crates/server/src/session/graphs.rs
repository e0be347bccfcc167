//! A client's graphs: put together node by node, then launched with one request.
//!
//! Every node is checked when it comes, as if it were posted by itself. What a graph uses may go
//! before it does: a graph whose module is unloaded goes with it, and a graph that copies looks
//! at its addresses again when memory was given back since it last did.

use super::Session;
use super::handles::Table;
use super::memory::Memory;
use super::posts::launch_shape;
use super::ranges::extent_of_rows;
use super::streams::Work;
use crate::device::{CheckedRange, GraphBuilder, GraphExec, Slices};
use channel::request::{
    CopyDirection, GraphBegin, GraphCopy, GraphDestroy, GraphEdges, GraphEmpty, GraphFill,
    GraphInstantiate, GraphKernel, GraphLaunch, HostReference,
};
use cuda_api::constants::memory_type;
use cuda_api::handle::HandleKind;
use cuda_api::{CUgraphExec, CUresult, CudaError, Word};
use std::sync::atomic::Ordering;

/// Most graphs of a client: programs keep one for each shape of their data.
pub const GRAPHS_MAX: usize = 65_536;
/// Most nodes of a graph: networks have some ten thousands.
pub const NODES_MAX: usize = 262_144;

/// Addresses that a graph's copies and fills touch.
struct Touched {
    address: u64,
    bytes: u64,
    host: bool,
}

/// What a graph's nodes use.
#[derive(Default)]
pub(super) struct Uses {
    kernels: u32,
    modules: Vec<u64>,
    /// True if some kernel may print.
    may_print: bool,
    touched: Vec<Touched>,
    /// The state of the client's memory in which all of `touched` was found to be there.
    memory_version: u64,
    /// Handles of its bodies, until it is made ready.
    pub(super) bodies: Vec<u64>,
}

impl Uses {
    /// Nothing yet.
    pub(super) fn of(memory: &Memory) -> Self {
        Self { memory_version: memory.version(), ..Self::default() }
    }

    /// Also what a body uses.
    pub(super) fn join(&mut self, body: Self) {
        self.kernels += body.kernels;
        self.modules.extend(body.modules);
        self.touched.extend(body.touched);
        self.memory_version = self.memory_version.min(body.memory_version);
        self.bodies.extend(body.bodies);
    }

    /// Addresses of device memory that it touches from now on.
    pub(super) fn touch_device(&mut self, address: u64, bytes: u64) {
        self.touched.push(Touched { address, bytes, host: false });
    }

    fn check(&mut self, memory: &Memory) -> CUresult {
        if self.memory_version == memory.version() {
            return Ok(());
        }
        for t in &self.touched {
            side(memory, t.address, t.bytes, t.host)?;
        }
        self.memory_version = memory.version();
        Ok(())
    }
}

pub(super) enum Graph {
    Building {
        builder: GraphBuilder,
        uses: Uses,
        /// The first thing that was wrong.
        failed: CUresult,
    },
    Ready {
        exec: GraphExec,
        uses: Uses,
    },
}

/// The client's graphs.
pub struct Graphs {
    pub(super) table: Table<Graph>,
}

impl Graphs {
    /// No graphs.
    pub fn new() -> Self {
        Self { table: Table::new(HandleKind::GraphExec, GRAPHS_MAX) }
    }

    /// Drops graphs that use a module's functions. None of them may be in use.
    pub fn forget_module(&mut self, module: u64) {
        self.table.retain(|graph| match graph {
            Graph::Building { uses, .. } | Graph::Ready { uses, .. } => {
                !uses.modules.contains(&module)
            }
        });
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

/// Checks one side of a copy, or of a fill.
fn side(memory: &Memory, address: u64, bytes: u64, host: bool) -> Result<CheckedRange, CudaError> {
    if !host {
        return memory.device_range(address, bytes);
    }
    match HostReference::from_word(address) {
        Some(reference @ HostReference::Mapped(_)) => memory.host_range(reference, bytes),
        // What is staged is gone before the graph is.
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Length of slices of rows, from the first byte to the last one.
fn extent_of_slices(
    pitch: u64,
    rows: u64,
    [width, height, depth]: [u64; 3],
) -> Result<u64, CudaError> {
    let slice = extent_of_rows(pitch, width, height)?;
    if slice == 0 || depth == 0 {
        return Ok(0);
    }
    if depth > 1 && rows < height {
        return Err(CudaError::INVALID_VALUE);
    }
    pitch
        .checked_mul(rows)
        .and_then(|distance| distance.checked_mul(depth - 1))
        .and_then(|slices| slices.checked_add(slice))
        .ok_or(CudaError::INVALID_VALUE)
}

impl Session {
    pub(super) fn begin_graph(&mut self, request: GraphBegin) -> CUresult {
        let handle = self.graphs.table.vacant(request.graph.0 as u64)?;
        let builder = GraphBuilder::new(&self.share)?;
        let uses = Uses::of(&self.memory);
        self.graphs.table.put(handle, Graph::Building { builder, uses, failed: Ok(()) });
        Ok(())
    }

    /// Does something with a graph that is being put together. What is wrong is the answer when
    /// it is instantiated, and nothing more is added to it.
    pub(super) fn build(
        &mut self,
        graph: CUgraphExec,
        add: impl FnOnce(&mut Self, &mut GraphBuilder, &mut Uses) -> CUresult,
    ) -> CUresult {
        let word = graph.0 as u64;
        let handle = self.graphs.table.handle(word)?;
        let mut graph = self.graphs.table.take(word)?;
        let result = match &mut graph {
            Graph::Building { builder, uses, failed } => {
                if failed.is_ok() {
                    *failed = match builder.nodes() < NODES_MAX {
                        true => add(self, builder, uses),
                        false => Err(CudaError::OUT_OF_MEMORY),
                    };
                }
                Ok(())
            }
            Graph::Ready { .. } => Err(CudaError::INVALID_HANDLE),
        };
        self.graphs.table.put(handle, graph);
        result
    }

    pub(super) fn add_empty(&mut self, request: GraphEmpty) -> CUresult {
        self.build(request.graph, |_, builder, _| builder.add_empty())
    }

    pub(super) fn add_kernel(&mut self, request: GraphKernel<'_>) -> CUresult {
        let launch = request.launch;
        self.build(request.graph, |session, builder, uses| {
            let shape = launch_shape(launch.grid, launch.block, launch.shared_bytes, launch.flags)?;
            let word = launch.function.0 as u64;
            let module = session.modules.module_of(word)?;
            let loaded = session.modules.loaded(word)?;
            builder.add_kernel(&loaded.function, shape, launch.parameters)?;
            uses.kernels += 1;
            uses.may_print |= loaded.may_print;
            if !uses.modules.contains(&module) {
                uses.modules.push(module);
            }
            Ok(())
        })
    }

    pub(super) fn add_copy(&mut self, r: GraphCopy) -> CUresult {
        self.build(r.graph, |session, builder, uses| {
            let extent = [r.width_bytes, r.height, r.depth];
            let mut end = |address, pitch: u64, rows: u64, host| {
                let bytes = extent_of_slices(pitch, rows, extent)?;
                let range = side(&session.memory, address, bytes, host)?;
                uses.touched.push(Touched { address, bytes, host });
                // A single row has no distance to the next one, nor a single slice; providers
                // want valid ones anyway.
                let (pitch, rows) = (pitch.max(r.width_bytes), rows.max(r.height));
                let memory_type = if host { memory_type::HOST } else { memory_type::DEVICE };
                Ok(Slices { range, pitch, rows, memory_type })
            };
            let from_host = r.direction == CopyDirection::HostToDevice;
            let to_host = r.direction == CopyDirection::DeviceToHost;
            let from = end(r.source, r.source_pitch, r.source_rows, from_host)?;
            let to = end(r.destination, r.destination_pitch, r.destination_rows, to_host)?;
            match extent.contains(&0) {
                true => builder.add_empty(),
                false => builder.add_copy(to, from, extent),
            }
        })
    }

    pub(super) fn add_fill(&mut self, r: GraphFill) -> CUresult {
        self.build(r.graph, |session, builder, uses| {
            let element = u64::from(r.element_bytes);
            let aligned = matches!(element, 1 | 2 | 4)
                && r.address.0.is_multiple_of(element)
                && (r.height <= 1 || r.pitch.is_multiple_of(element));
            let width = r.width.checked_mul(element).filter(|_| aligned);
            let width = width.ok_or(CudaError::INVALID_VALUE)?;
            let (address, bytes) = (r.address.0, extent_of_rows(r.pitch, width, r.height)?);
            let range = side(&session.memory, address, bytes, false)?;
            uses.touch_device(address, bytes);
            if bytes == 0 {
                return builder.add_empty();
            }
            let value = (r.value, r.element_bytes);
            builder.add_fill(range, r.pitch.max(width), value, [r.width, r.height])
        })
    }

    pub(super) fn add_edges(&mut self, request: GraphEdges<'_>) -> CUresult {
        self.build(request.graph, |_, builder, _| builder.add_edges(request.node, request.from))
    }

    /// The nodes of a graph that could not be made ready are gone with it.
    pub(super) fn instantiate_graph(&mut self, request: GraphInstantiate) -> Result<(), CudaError> {
        let word = request.graph.0 as u64;
        let handle = self.graphs.table.handle(word)?;
        let Graph::Building { builder, mut uses, failed } = self.graphs.table.take(word)? else {
            return Err(CudaError::INVALID_HANDLE);
        };
        failed?;
        self.gather_bodies(&mut uses)?;
        let exec = match request.replaces {
            CUgraphExec::NULL => builder.instantiate()?,
            old => self.replace(old, &builder)?,
        };
        self.graphs.table.put(handle, Graph::Ready { exec, uses });
        Ok(())
    }

    /// Makes a graph ready in the place of another one, which it takes over if the provider can.
    fn replace(&mut self, old: CUgraphExec, new: &GraphBuilder) -> Result<GraphExec, CudaError> {
        let updated = match self.graphs.table.get(old.0 as u64)? {
            Graph::Ready { exec, .. } => exec.update(new).is_ok(),
            Graph::Building { .. } => return Err(CudaError::INVALID_HANDLE),
        };
        if !updated {
            let exec = new.instantiate()?;
            self.graphs.table.take(old.0 as u64)?;
            return Ok(exec);
        }
        match self.graphs.table.take(old.0 as u64)? {
            Graph::Ready { exec, .. } => Ok(exec),
            Graph::Building { .. } => Err(CudaError::INVALID_HANDLE),
        }
    }

    pub(super) fn launch_graph(&mut self, request: GraphLaunch) -> CUresult {
        if !self.gate.has_room() {
            self.wait_until(|session| session.gate.make_room(&mut session.streams))?;
        }
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        let Graph::Ready { exec, uses } = self.graphs.table.get_mut(request.graph.0 as u64)? else {
            return Err(CudaError::INVALID_HANDLE);
        };
        uses.check(&self.memory)?;
        if uses.may_print && !self.printing {
            self.printing = self.common.printed.begin(&self.link);
        }
        exec.launch(&slot.stream)?;
        self.link.kernels.fetch_add(uses.kernels.into(), Ordering::Relaxed);
        self.gate.submitted(slot, uses.kernels)
    }

    pub(super) fn destroy_graph(&mut self, request: GraphDestroy) -> CUresult {
        // One that could not be made is gone already.
        let _ = self.graphs.table.take(request.graph.0 as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_reach_to_the_last_byte_of_the_last_one() {
        assert_eq!(extent_of_slices(100, 5, [60, 3, 2]), Ok(500 + 260));
        assert_eq!(extent_of_slices(0, 0, [60, 1, 1]), Ok(60));
        assert_eq!(extent_of_slices(100, 5, [60, 0, 2]), Ok(0));
        assert_eq!(extent_of_slices(100, 2, [60, 3, 2]), Err(CudaError::INVALID_VALUE));
        assert_eq!(extent_of_slices(u64::MAX, 9, [1, 1, 2]), Err(CudaError::INVALID_VALUE));
    }
}
