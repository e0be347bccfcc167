//! The rows of graphs and stream capture: a part of the table that can be had by itself, because
//! who implements it does so with crate graph, which has a function for each row.

/// Expands `$callback! { rows }` with the rows of graphs; see `driver_functions` for a row's
/// shape.
#[macro_export]
macro_rules! graph_functions {
    ($callback:ident) => { $crate::graph_functions! { @after $callback } };
    // The rows before these come as they are: the whole table is this macro's too.
    (@after $callback:ident $($before:tt)*) => {
        $callback! {
            $($before)*

            // Capture.
            1001 special cuStreamBeginCapture | cuStreamBeginCapture_ptsz(stream: CUstream);
            1002 special cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz(
                stream: CUstream, mode: c_uint);
            1003 special cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz(
                stream: CUstream, graph: CUgraph, dependencies: *const CUgraphNode,
                dependency_data: *const CUgraphEdgeData, num_dependencies: usize, mode: c_uint);
            1004 special cuStreamEndCapture | cuStreamEndCapture_ptsz(
                stream: CUstream, graph: *mut CUgraph);
            1005 local cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz(
                stream: CUstream, capture_status_out: *mut c_uint, id_out: *mut u64);
            1006 local cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz(
                stream: CUstream, dependencies: *mut CUgraphNode, num_dependencies: usize,
                flags: c_uint);
            1007 local cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz(
                stream: CUstream, dependencies: *mut CUgraphNode,
                dependency_data: *const CUgraphEdgeData, num_dependencies: usize, flags: c_uint);

            // Graphs.
            1051 local cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
            1052 local cuGraphDestroy(graph: CUgraph);
            1053 local cuGraphClone(clone: *mut CUgraph, original: CUgraph);
            1054 local cuGraphGetNodes(
                graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
            1055 local cuGraphGetRootNodes(
                graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
            1056 local cuGraphGetEdges(
                graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
                num_edges: *mut usize);
            1057 local cuGraphGetEdges_v2(
                graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode,
                edge_data: *mut CUgraphEdgeData, num_edges: *mut usize);
            1058 local cuGraphAddDependencies(
                graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                num_dependencies: usize);
            1059 local cuGraphAddDependencies_v2(
                graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                edge_data: *const CUgraphEdgeData, num_dependencies: usize);
            1060 local cuGraphRemoveDependencies(
                graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                num_dependencies: usize);
            1061 local cuGraphRemoveDependencies_v2(
                graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
                edge_data: *const CUgraphEdgeData, num_dependencies: usize);
            1062 local cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, flags: c_uint);
            1063 local cuGraphGetId(graph: CUgraph, graph_id: *mut c_uint);
            1064 special cuGraphConditionalHandleCreate(
                handle: *mut u64, graph: CUgraph, context: CUcontext, default_value: c_uint,
                flags: c_uint);

            // Nodes.
            1101 local cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint);
            1102 local cuGraphNodeGetDependencies(
                node: CUgraphNode, dependencies: *mut CUgraphNode, num_dependencies: *mut usize);
            1103 local cuGraphNodeGetDependencies_v2(
                node: CUgraphNode, dependencies: *mut CUgraphNode, edge_data: *mut CUgraphEdgeData,
                num_dependencies: *mut usize);
            1104 local cuGraphNodeGetDependentNodes(
                node: CUgraphNode, dependent_nodes: *mut CUgraphNode,
                num_dependent_nodes: *mut usize);
            1105 local cuGraphNodeGetDependentNodes_v2(
                node: CUgraphNode, dependent_nodes: *mut CUgraphNode,
                edge_data: *mut CUgraphEdgeData, num_dependent_nodes: *mut usize);
            1106 local cuGraphDestroyNode(node: CUgraphNode);
            1107 local cuGraphNodeFindInClone(
                node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph);
            1108 local cuGraphNodeGetContainingGraph(node: CUgraphNode, graph: *mut CUgraph);
            1109 local cuGraphNodeGetLocalId(node: CUgraphNode, node_id: *mut c_uint);
            1110 local cuGraphNodeGetToolsId(node: CUgraphNode, tools_node_id: *mut u64);
            1111 special cuGraphAddNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *mut CUgraphNodeParams);
            1112 special cuGraphAddNode_v2(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                dependency_data: *const CUgraphEdgeData, num_dependencies: usize,
                params: *mut CUgraphNodeParams);
            1113 local cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams);
            1114 local cuGraphAddKernelNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_KERNEL_NODE_PARAMS_v1);
            1115 local cuGraphAddKernelNode_v2(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_KERNEL_NODE_PARAMS);
            1116 local cuGraphKernelNodeGetParams(
                node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS_v1);
            1117 local cuGraphKernelNodeGetParams_v2(
                node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS);
            1118 local cuGraphKernelNodeSetParams(
                node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1);
            1119 local cuGraphKernelNodeSetParams_v2(
                node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
            1120 local cuGraphKernelNodeGetAttribute(
                node: CUgraphNode, attribute: c_uint, value: *mut CUlaunchAttributeValue);
            1121 local cuGraphKernelNodeSetAttribute(
                node: CUgraphNode, attribute: c_uint, value: *const CUlaunchAttributeValue);
            1122 local cuGraphKernelNodeCopyAttributes(
                destination: CUgraphNode, source: CUgraphNode);
            1123 local cuGraphAddMemcpyNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_MEMCPY3D, context: CUcontext);
            1124 local cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D);
            1125 local cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D);
            1126 local cuGraphAddMemsetNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_MEMSET_NODE_PARAMS,
                context: CUcontext);
            1127 local cuGraphMemsetNodeGetParams(
                node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS);
            1128 local cuGraphMemsetNodeSetParams(
                node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS);
            1129 local cuGraphAddHostNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_HOST_NODE_PARAMS);
            1130 local cuGraphHostNodeGetParams(
                node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS);
            1131 local cuGraphHostNodeSetParams(
                node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS);
            1132 local cuGraphAddChildGraphNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, child: CUgraph);
            1133 local cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph);
            1134 local cuGraphAddEmptyNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize);
            1135 local cuGraphAddEventRecordNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, event: CUevent);
            1136 local cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
            1137 local cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent);
            1138 local cuGraphAddEventWaitNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, event: CUevent);
            1139 local cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent);
            1140 local cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent);
            1141 local cuGraphAddBatchMemOpNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
            1142 local cuGraphBatchMemOpNodeGetParams(
                node: CUgraphNode, params: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS);
            1143 local cuGraphBatchMemOpNodeSetParams(
                node: CUgraphNode, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
            1144 special cuGraphAddMemAllocNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            1145 local cuGraphMemAllocNodeGetParams(
                node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS);
            1146 local cuGraphAddMemFreeNode(
                node: *mut CUgraphNode, graph: CUgraph, dependencies: *const CUgraphNode,
                num_dependencies: usize, pointer: CUdeviceptr);
            1147 local cuGraphMemFreeNodeGetParams(node: CUgraphNode, pointer: *mut CUdeviceptr);
            1148 local cuDeviceGraphMemTrim(device: CUdevice);
            1149 local cuDeviceGetGraphMemAttribute(
                device: CUdevice, attribute: c_uint, value: *mut c_void);
            1150 local cuDeviceSetGraphMemAttribute(
                device: CUdevice, attribute: c_uint, value: *mut c_void);

            // Graphs that can be launched.
            1151 special cuGraphInstantiate(
                exec: *mut CUgraphExec, graph: CUgraph, error_node: *mut CUgraphNode,
                log_buffer: *mut c_char, buffer_size: usize);
            1152 special cuGraphInstantiate_v2(
                exec: *mut CUgraphExec, graph: CUgraph, error_node: *mut CUgraphNode,
                log_buffer: *mut c_char, buffer_size: usize);
            1153 special cuGraphInstantiateWithFlags(
                exec: *mut CUgraphExec, graph: CUgraph, flags: u64);
            1154 special cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
                exec: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
            1155 special cuGraphUpload | cuGraphUpload_ptsz(exec: CUgraphExec, stream: CUstream);
            1156 special cuGraphLaunch | cuGraphLaunch_ptsz(exec: CUgraphExec, stream: CUstream);
            1157 special cuGraphExecDestroy(exec: CUgraphExec);
            1158 local cuGraphExecGetFlags(exec: CUgraphExec, flags: *mut u64);
            1159 local cuGraphExecGetId(exec: CUgraphExec, graph_id: *mut c_uint);
            1160 special cuGraphExecUpdate(
                exec: CUgraphExec, graph: CUgraph, error_node: *mut CUgraphNode,
                result: *mut c_uint);
            1161 special cuGraphExecUpdate_v2(
                exec: CUgraphExec, graph: CUgraph, result: *mut CUgraphExecUpdateResultInfo);
            1162 local cuGraphNodeSetEnabled(
                exec: CUgraphExec, node: CUgraphNode, is_enabled: c_uint);
            1163 local cuGraphNodeGetEnabled(
                exec: CUgraphExec, node: CUgraphNode, is_enabled: *mut c_uint);
            1164 local cuGraphExecNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams);
            1165 local cuGraphExecKernelNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1);
            1166 local cuGraphExecKernelNodeSetParams_v2(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS);
            1167 local cuGraphExecMemcpyNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D,
                context: CUcontext);
            1168 local cuGraphExecMemsetNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS,
                context: CUcontext);
            1169 local cuGraphExecHostNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS);
            1170 local cuGraphExecChildGraphNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, child: CUgraph);
            1171 local cuGraphExecEventRecordNodeSetEvent(
                exec: CUgraphExec, node: CUgraphNode, event: CUevent);
            1172 local cuGraphExecEventWaitNodeSetEvent(
                exec: CUgraphExec, node: CUgraphNode, event: CUevent);
            1173 local cuGraphExecBatchMemOpNodeSetParams(
                exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS);

            // Nodes again.
            1174 local cuGraphNodeGetParams(node: CUgraphNode, params: *mut CUgraphNodeParams);

            // The program's objects that a graph keeps.
            1201 local cuUserObjectCreate(
                object: *mut CUuserObject, pointer: *mut c_void, destroy: CUhostFn,
                initial_refcount: c_uint, flags: c_uint);
            1202 local cuUserObjectRetain(object: CUuserObject, count: c_uint);
            1203 local cuUserObjectRelease(object: CUuserObject, count: c_uint);
            1204 local cuGraphRetainUserObject(
                graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint);
            1205 local cuGraphReleaseUserObject(
                graph: CUgraph, object: CUuserObject, count: c_uint);
        }
    };
}
