//! A graph that can be launched: the plan of a graph as it was when it was made, and what the
//! backend made of it.

use crate::id::node_number;
use crate::plan::{Plan, Step};
use cuda_api::{CUgraphNode, CudaError};
use std::collections::BTreeMap;

pub(crate) struct Exec<E> {
    pub(crate) plan: Plan,
    pub(crate) flags: u64,
    /// What the backend launches.
    pub(crate) built: Option<E>,
    /// The plan has changed since.
    pub(crate) stale: bool,
    /// It allocates or frees memory.
    pub(crate) has_memory: bool,
    /// References to objects of the program's.
    pub(crate) user_objects: BTreeMap<u64, u64>,
}

impl<E> Exec<E> {
    /// The step that a node became.
    pub(crate) fn step(&self, node: CUgraphNode) -> Result<&Step, CudaError> {
        let found = self.plan.find(node_number(node)?);
        found.ok_or(CudaError::INVALID_VALUE)
    }

    /// As [`Exec::step`], to change it.
    pub(crate) fn change(&mut self, node: CUgraphNode) -> Result<&mut Step, CudaError> {
        self.stale = true;
        let found = self.plan.find_mut(node_number(node)?);
        found.ok_or(CudaError::INVALID_VALUE)
    }

    /// Lets the steps from `first` on do what those of another plan do. They are as many, of the
    /// same types.
    pub(crate) fn take_over(&mut self, first: usize, steps: Vec<Step>) {
        self.stale = true;
        for (old, new) in self.plan.steps[first..].iter_mut().zip(steps) {
            (old.kind, old.bodies) = (new.kind, new.bodies);
        }
    }
}
