//! Graph launch: what the backend makes of a plan, and the memory that a launch gives and takes.

use crate::backend::Backend;
use crate::exec::Exec;
use crate::memory::Allocation;
use crate::node::{AllocNode, NodeKind};
use crate::plan::Plan;
use crate::stream::StreamKey;
use cuda_api::constants::graph_instantiate::AUTO_FREE_ON_LAUNCH;
use cuda_api::{CUdevice, CUresult, CudaError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<E: Send + 'static> Exec<E> {
    /// Makes a plan ready to be launched.
    pub(crate) fn new<B: Backend<Exec = E>>(
        backend: B,
        plan: Plan,
        flags: u64,
        user_objects: BTreeMap<u64, u64>,
    ) -> Result<Self, CudaError> {
        let has_memory = plan.steps.iter().any(|step| step.kind.is_memory());
        back(&plan)?;
        let mut exec = Self { plan, flags, built: None, stale: false, has_memory, user_objects };
        exec.apply_priority_flag();
        exec.built = Some(backend.instantiate(&exec.plan.steps)?);
        Ok(exec)
    }

    /// What the backend launches, as the plan is now.
    pub(crate) fn ready<B: Backend<Exec = E>>(&mut self, backend: B) -> Result<&mut E, CudaError> {
        if self.stale || self.built.is_none() {
            let built = match self.built.take() {
                Some(old) => backend.replace(old, &self.plan.steps)?,
                None => backend.instantiate(&self.plan.steps)?,
            };
            self.built = Some(built);
            self.stale = false;
        }
        self.built.as_mut().ok_or(CudaError::UNKNOWN)
    }

    /// Launches in a stream.
    pub(crate) fn launch<B: Backend<Exec = E>>(
        &mut self,
        backend: B,
        stream: StreamKey,
    ) -> CUresult {
        if !self.has_memory {
            return backend.launch(self.ready(backend)?, stream);
        }
        let memory = Memory::of(&self.plan);
        memory.check(backend, self.flags & AUTO_FREE_ON_LAUNCH != 0)?;
        back(&self.plan)?;
        backend.launch(self.ready(backend)?, stream)?;
        memory.launched(backend);
        Ok(())
    }

    /// Waits for launches if something depends on that they have ended.
    pub(crate) fn finish<B: Backend<Exec = E>>(&mut self, backend: B) {
        if let Some(built) = &mut self.built
            && (self.has_memory || !self.user_objects.is_empty())
        {
            backend.finish(built);
        }
    }
}

impl<E: Send + 'static> Exec<E> {
    /// Takes the memory of a device away that its nodes allocate, but for what the program has, when no
    /// launch uses it any more.
    pub(crate) fn trim<B: Backend<Exec = E>>(&mut self, backend: B, device: CUdevice) -> CUresult {
        if !self.has_memory {
            return Ok(());
        }
        self.finish(backend);
        for node in allocations(&self.plan).filter(|node| node.location.id == device) {
            let live = backend.graphs().lock().live.contains_key(&node.allocation.address);
            if !live && node.allocation.set_backed(false)? {
                // What the backend made may know the memory by more than its address.
                self.stale = true;
                backend.graphs().trimmed.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// The nodes that allocate.
fn allocations(plan: &Plan) -> impl Iterator<Item = &AllocNode> {
    plan.steps.iter().filter_map(|step| match &step.kind {
        NodeKind::Alloc(node) => Some(node),
        _ => None,
    })
}

/// Has the memory there that a plan allocates.
fn back(plan: &Plan) -> CUresult {
    allocations(plan).try_for_each(|node| node.allocation.set_backed(true).map(drop))
}

/// What a launch does with graphs' memory.
struct Memory {
    /// Allocated and not freed.
    given: Vec<Arc<Allocation>>,
    /// Freed, and allocated by an earlier launch.
    taken: Vec<u64>,
}

impl Memory {
    fn of(plan: &Plan) -> Self {
        let mut memory = Self { given: Vec::new(), taken: Vec::new() };
        for step in &plan.steps {
            match &step.kind {
                NodeKind::Alloc(node) => memory.given.push(node.allocation.clone()),
                NodeKind::Free(pointer) => {
                    let own = memory.given.iter().position(|a| a.address == pointer.0);
                    match own {
                        Some(at) => drop(memory.given.swap_remove(at)),
                        None => memory.taken.push(pointer.0),
                    }
                }
                _ => {}
            }
        }
        memory
    }

    /// CUDA_ERROR_INVALID_VALUE if the program has not freed what an earlier launch gave it and
    /// this one would give again, or has no longer what this one frees.
    fn check<B: Backend>(&self, backend: B, auto_free: bool) -> CUresult {
        let tables = backend.graphs().lock();
        let given_before = |a: &Arc<Allocation>| tables.live.contains_key(&a.address);
        if !auto_free && self.given.iter().any(given_before) {
            return Err(CudaError::INVALID_VALUE);
        }
        match self.taken.iter().all(|address| tables.live.contains_key(address)) {
            true => Ok(()),
            false => Err(CudaError::INVALID_VALUE),
        }
    }

    fn launched<B: Backend>(self, backend: B) {
        let mut gone = Vec::new();
        let mut tables = backend.graphs().lock();
        for address in self.taken {
            gone.extend(tables.live.remove(&address));
        }
        for allocation in self.given {
            gone.extend(tables.live.insert(allocation.address, allocation));
        }
        // Not before the tables are let go: what is freed is waited for.
        drop(tables);
        drop(gone);
    }
}
