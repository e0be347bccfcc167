//! Graphs, destroyed when dropped.

use std::{mem::ManuallyDrop, ptr};

use cudarc::driver::{CudaStream, result, sys};

use crate::driver::{self, Failure};

/// A graph that is put together.
#[derive(Debug)]
pub struct Graph(sys::CUgraph);

impl Graph {
    /// An empty one.
    pub fn new() -> Result<Self, Failure> {
        let mut graph = Self(ptr::null_mut());
        driver::cuGraphCreate(&mut graph)?;
        Ok(graph)
    }

    /// What a stream captured since it began to.
    pub fn captured(stream: &CudaStream) -> Result<Self, Failure> {
        let mut graph = Self(ptr::null_mut());
        driver::cuStreamEndCapture(stream, &mut graph)?;
        Ok(graph)
    }

    /// A graph that another one owns.
    ///
    /// # Safety
    /// It must be alive as long as this is used.
    pub unsafe fn borrowed(graph: sys::CUgraph) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(graph))
    }

    /// Ready to be launched.
    pub fn instantiate(&self) -> Result<Exec, Failure> {
        let mut exec = Exec(ptr::null_mut());
        driver::cuGraphInstantiateWithFlags(&mut exec, self)?;
        Ok(exec)
    }

    /// The driver's handle.
    pub fn raw(&self) -> sys::CUgraph {
        self.0
    }

    pub(crate) fn place(&mut self) -> *mut sys::CUgraph {
        &mut self.0
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: its own. An error cannot be reported from here.
            let _ = unsafe { result::graph::destroy(self.0) };
        }
    }
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Exec(sys::CUgraphExec);

impl Exec {
    /// Launches it.
    pub fn launch(&self, stream: &CudaStream) -> Result<(), Failure> {
        driver::cuGraphLaunch(self, stream)
    }

    pub(crate) fn raw(&self) -> sys::CUgraphExec {
        self.0
    }

    pub(crate) fn place(&mut self) -> *mut sys::CUgraphExec {
        &mut self.0
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: as above.
            let _ = unsafe { result::graph::exec_destroy(self.0) };
        }
    }
}
