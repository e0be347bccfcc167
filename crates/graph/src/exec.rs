//! A graph that can be launched: the plan of a graph as it was when it was made, and what the
//! backend made of it.

use crate::id::node_number;
use crate::node::NodeKind;
use crate::plan::{Plan, Step};
use cuda_api::constants::graph_instantiate::USE_NODE_PRIORITY;
use cuda_api::constants::launch_attribute::PRIORITY;
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
        self.apply_priority_flag();
    }

    /// Kernels have priorities of their own only in a graph that was instantiated with
    /// CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY; else that of the stream it is launched in.
    pub(crate) fn apply_priority_flag(&mut self) {
        if self.flags & USE_NODE_PRIORITY == 0 {
            remove_priorities(&mut self.plan.steps);
        }
    }
}

fn remove_priorities(steps: &mut [Step]) {
    for step in steps {
        if let NodeKind::Kernel(kernel) = &mut step.kind {
            kernel.attributes.retain(|attribute| attribute.id != PRIORITY);
        }
        step.bodies.iter_mut().for_each(|body| remove_priorities(&mut body.steps));
    }
}
