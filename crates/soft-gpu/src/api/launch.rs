//! Launches of kernels: made ready, and put into streams.

use cuda_api::constants::launch_attribute;
use cuda_api::pointer::Out;
use cuda_api::*;

use super::event::record;
use super::function::Function;
use super::graph::SoftGraphs;
use super::prepare::read_parameters;
use super::{Driver, driver, exports};
use crate::error::Result;

impl Driver {
    pub(super) fn launch(
        &'static self,
        function: CUfunction,
        config: &CUlaunchConfig,
        per_thread: bool,
        params: Out<*mut std::ffi::c_void>,
        extra: Out<*mut std::ffi::c_void>,
    ) -> Result {
        let graphs = SoftGraphs(self);
        if self.graphs.capturing()
            && graph::capture_launch(graphs, per_thread, function, config, params, extra)?
        {
            return Ok(());
        }
        let events = events_of(config)?;
        events.iter().try_for_each(|event| self.events.get(event.0).map(|_| ()))?;
        let stream = self.stream(config.stream, per_thread)?;
        let read = |function: &Function| read_parameters(function, params, extra);
        self.prepare(function, config, read)?.submit(self, stream)?;
        events.into_iter().try_for_each(|event| record(event, config.stream, per_thread, 0))
    }
}

exports! {
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        params: *mut *mut c_void, extra: *mut *mut c_void,
    ) | cuLaunchKernel_ptsz per_thread {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let config = CUlaunchConfig::plain(grid, block, shared_bytes, stream);
        driver()?.launch(function, &config, per_thread, params, extra)
    }

    fn cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CUstream,
        params: *mut *mut c_void,
    ) | cuLaunchCooperativeKernel_ptsz per_thread {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let mut cooperative = CUlaunchAttribute::number(launch_attribute::COOPERATIVE, 1);
        let mut config = CUlaunchConfig::plain(grid, block, shared_bytes, stream);
        (config.attrs, config.numAttrs) = (&mut cooperative, 1);
        let extra = Out::null();
        driver()?.launch(function, &config, per_thread, params, extra)
    }

    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) | cuLaunchKernelEx_ptsz per_thread {
        driver()?.launch(function, &config.get()?, per_thread, params, extra)
    }
}

/// Events that a launch's attributes want recorded.
fn events_of(config: &CUlaunchConfig) -> Result<Vec<CUevent>> {
    config.attributes()?.filter_map(|a| a.map(|a| a.event()).transpose()).collect()
}
