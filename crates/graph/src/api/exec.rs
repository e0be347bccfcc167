//! Graphs that can be launched: making, launching, enabling nodes.

use crate::backend::Backend;
use crate::exec::Exec;
use crate::id::{exec_number, exec_word};
use crate::plan::Plan;
use crate::store::UserObject;
use core::ffi::{c_char, c_uint};
use cuda_api::constants::graph_instantiate::*;
use cuda_api::pointer::Out;
use cuda_api::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUresult, CUstream, CudaError,
};
use locks::{Mutex, MutexGuard};
use std::sync::Arc;

type Shared<E> = Arc<Mutex<Exec<E>>>;

/// The launchable graph of a handle; CUDA_ERROR_INVALID_VALUE if there is none.
pub(super) fn find<B: Backend>(b: B, exec: CUgraphExec) -> Result<Shared<B::Exec>, CudaError> {
    let number = exec_number(exec)?;
    b.graphs().lock().execs.get(&number).cloned().ok_or(CudaError::INVALID_VALUE)
}

pub(super) fn locked<E>(exec: &Shared<E>) -> MutexGuard<'_, Exec<E>> {
    exec.lock()
}

fn instantiate<B: Backend>(b: B, exec: Out<CUgraphExec>, graph: CUgraph, flags: u64) -> CUresult {
    const KNOWN: u64 = AUTO_FREE_ON_LAUNCH | UPLOAD | USE_NODE_PRIORITY;
    exec.required()?;
    b.check_context()?;
    match flags & !KNOWN {
        0 => {}
        DEVICE_LAUNCH => return Err(CudaError::NOT_SUPPORTED),
        _ => return Err(CudaError::INVALID_VALUE),
    }
    let (plan, objects) = {
        let mut tables = b.graphs().lock();
        let id = tables.graph_id(graph)?;
        let plan = Plan::of(&tables.graphs, id)?;
        let objects = tables.graph(id)?.user_objects.clone();
        tables.retain_all(&objects);
        (plan, objects)
    };
    let made = Exec::new(b, plan, flags, objects.clone());
    let mut tables = b.graphs().lock();
    match made {
        Ok(made) => {
            let number = tables.next_number();
            tables.execs.insert(number, Arc::new(Mutex::new(made)));
            exec.set(exec_word(number))
        }
        Err(error) => {
            let gone = tables.release_all(&objects);
            drop(tables);
            gone.into_iter().for_each(UserObject::destroy);
            Err(error)
        }
    }
}

pub fn cuGraphInstantiate<B: Backend>(
    b: B,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    log: Out<c_char>,
    log_bytes: usize,
) -> CUresult {
    cuGraphInstantiate_v2(b, exec, graph, error_node, log, log_bytes)
}

pub fn cuGraphInstantiate_v2<B: Backend>(
    b: B,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    log: Out<c_char>,
    log_bytes: usize,
) -> CUresult {
    error_node.set_if_wanted(CUgraphNode::NULL);
    let result = instantiate(b, exec, graph, 0);
    if !log.is_null() && log_bytes > 0 {
        let text = match &result {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        log.set_text(log_bytes, text.as_bytes())?;
    }
    result
}

pub fn cuGraphInstantiateWithFlags<B: Backend>(
    b: B,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    flags: u64,
) -> CUresult {
    instantiate(b, exec, graph, flags)
}

pub fn cuGraphInstantiateWithParams<B: Backend>(
    b: B,
    per_thread: bool,
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    params: Out<CUDA_GRAPH_INSTANTIATE_PARAMS>,
) -> CUresult {
    let mut given = params.as_in().get()?;
    if given.flags & UPLOAD != 0 {
        b.stream(given.hUploadStream, per_thread)?;
    }
    let result = instantiate(b, exec, graph, given.flags);
    given.hErrNode_out = CUgraphNode::NULL;
    given.result_out = match result {
        Ok(()) => RESULT_SUCCESS,
        Err(CudaError::NOT_SUPPORTED) => RESULT_NODE_OPERATION_NOT_SUPPORTED,
        Err(CudaError::INVALID_VALUE) => RESULT_INVALID_STRUCTURE,
        Err(_) => RESULT_ERROR,
    };
    params.set(given)?;
    result
}

pub fn cuGraphUpload<B: Backend>(
    b: B,
    per_thread: bool,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    let exec = find(b, exec)?;
    b.stream(stream, per_thread)?;
    let mut exec = locked(&exec);
    exec.ready(b).map(|_| ())
}

pub fn cuGraphLaunch<B: Backend>(
    b: B,
    per_thread: bool,
    exec: CUgraphExec,
    stream: CUstream,
) -> CUresult {
    let exec = find(b, exec)?;
    let stream = b.stream(stream, per_thread)?;
    // A graph that is ready is no node of another one, so a capture that it is launched in is over,
    // as with NVIDIA's driver.
    b.graphs().synchronizing(stream)?;
    locked(&exec).launch(b, stream)
}

pub fn cuGraphExecDestroy<B: Backend>(b: B, exec: CUgraphExec) -> CUresult {
    let number = exec_number(exec)?;
    let found = b.graphs().lock().execs.remove(&number).ok_or(CudaError::INVALID_VALUE)?;
    let objects = {
        let mut exec = locked(&found);
        exec.finish(b);
        std::mem::take(&mut exec.user_objects)
    };
    let gone = b.graphs().lock().release_all(&objects);
    // The plan's memory goes with it, which is waited for.
    drop(found);
    gone.into_iter().for_each(UserObject::destroy);
    Ok(())
}

pub fn cuGraphExecGetFlags<B: Backend>(b: B, exec: CUgraphExec, flags: Out<u64>) -> CUresult {
    flags.set(locked(&find(b, exec)?).flags)
}

pub fn cuGraphExecGetId<B: Backend>(b: B, exec: CUgraphExec, graph_id: Out<c_uint>) -> CUresult {
    find(b, exec)?;
    graph_id.set(exec_number(exec)? as c_uint)
}

pub fn cuGraphNodeSetEnabled<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: c_uint,
) -> CUresult {
    let exec = find(b, exec)?;
    let mut exec = locked(&exec);
    let step = exec.change(node)?;
    if !step.kind.can_be_disabled() {
        return Err(CudaError::INVALID_VALUE);
    }
    step.enabled = enabled != 0;
    Ok(())
}

pub fn cuGraphNodeGetEnabled<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: Out<c_uint>,
) -> CUresult {
    let exec = find(b, exec)?;
    let exec = locked(&exec);
    let step = exec.step(node)?;
    match step.kind.can_be_disabled() {
        true => enabled.set(step.enabled.into()),
        false => Err(CudaError::INVALID_VALUE),
    }
}
