//! Graphs and capture (the manual's "Graph Management"): the functions are crate graph's.

use crate::boundary::FromProgram;
use crate::graph::backend::ClientGraphs;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::{c_char, c_uint, c_void};
use cuda_api::*;

/// The graphs of an attached process.
fn graphs() -> Result<ClientGraphs, CudaError> {
    mode::client().map(ClientGraphs)
}

macro_rules! forward {
    ($($number:literal $policy:ident $name:ident $(| $variant:ident)?
        ($($params:tt)*);)*) => {
        $(forward!(@row $name [$($variant)?] ($($params)*));)*
    };
    (@row $name:ident [] ($($param:ident: $ty:ty),* $(,)?)) => {
        #[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
        pub(crate) fn $name($($param: <$ty as FromProgram>::Argument),*) -> CUresult {
            graph::api::$name(graphs()?, $($param),*)
        }
    };
    (@row $name:ident [$variant:ident] ($($param:ident: $ty:ty),* $(,)?)) => {
        #[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
        pub(crate) fn $name(
            default: DefaultStream,
            $($param: <$ty as FromProgram>::Argument),*
        ) -> CUresult {
            let per_thread = default == DefaultStream::PerThread;
            graph::api::$name(graphs()?, per_thread, $($param),*)
        }
    };
}

graph_functions!(forward);

// Rows that stand among those of streams.
forward! {
    663 local cuStreamIsCapturing | cuStreamIsCapturing_ptsz(
        stream: CUstream, capture_status: *mut c_uint);
    664 local cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz(
        stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut u64,
        graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
        num_dependencies_out: *mut usize);
    665 local cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz(
        stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut u64,
        graph_out: *mut CUgraph, dependencies_out: *mut *const CUgraphNode,
        edge_data_out: *mut *const CUgraphEdgeData, num_dependencies_out: *mut usize);
    672 local cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
}
