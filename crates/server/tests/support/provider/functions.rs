//! The test provider's driver functions, and the tables of them that a server is given.

use super::*;

macro_rules! provide {
    ($($name:ident($($param:ident: $ty:ty),*) $body:block)*) => {
        raw_functions! { $($name($($param: $ty),*) $body)* }
        fn find(name: &CStr) -> Option<*const c_void> {
            match name.to_str().ok()? {
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

provide! {
    cuInit(_flags: c_uint) { Ok(()) }
    cuDriverGetVersion(version: *mut c_int) { *version = 13000; Ok(()) }
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, _d: CUdevice) {
        *context = CUcontext(0xC0);
        Ok(())
    }
    cuDevicePrimaryCtxRelease_v2(_d: CUdevice) { Ok(()) }
    cuCtxSetCurrent(_c: CUcontext) { Ok(()) }
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        (*least, *greatest) = (0, -5);
        Ok(())
    }
    cuDeviceGetCount(count: *mut c_int) {
        *count = 1;
        Ok(())
    }
    cuDeviceGetName(name: *mut c_char, _len: c_int, _d: CUdevice) {
        std::ptr::copy(c"Test device".as_ptr(), name, 12);
        Ok(())
    }
    cuDeviceGetUuid_v2(uuid: *mut CUuuid, _d: CUdevice) {
        *uuid = CUuuid { bytes: *b"0123456789abcdef" };
        Ok(())
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, _d: CUdevice) {
        *bytes = MEMORY_BYTES as usize;
        Ok(())
    }
    cuDeviceGetPCIBusId(text: *mut c_char, _len: c_int, _d: CUdevice) {
        std::ptr::copy(c"0000:06:00.0".as_ptr(), text, 13);
        Ok(())
    }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, _d: CUdevice) {
        if attribute == 0 { return Err(CudaError::INVALID_VALUE); }
        *value = attribute as c_int * 10;
        Ok(())
    }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        *total = MEMORY_BYTES as usize;
        *free = (MEMORY_BYTES - world().used_bytes) as usize;
        Ok(())
    }

    cuMemAddressReserve(got: *mut CUdeviceptr, bytes: usize, _a: usize, at: CUdeviceptr, _f: u64) {
        let p = libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE, -1, 0);
        if p == libc::MAP_FAILED { return Err(CudaError::OUT_OF_MEMORY); }
        world().reservations.insert(p as u64, bytes as u64);
        *got = CUdeviceptr(p as u64);
        Ok(())
    }
    cuMemAddressFree(at: CUdeviceptr, bytes: usize) {
        let mut world = world();
        if world.mappings.range(at.0..at.0 + bytes as u64).next().is_some() {
            return Err(CudaError::INVALID_VALUE);
        }
        world.reservations.remove(&at.0).ok_or(CudaError::INVALID_VALUE)?;
        libc::munmap(at.0 as *mut c_void, bytes);
        Ok(())
    }
    cuMemCreate(
        memory: *mut CUmemGenericAllocationHandle, bytes: usize,
        _p: *const CUmemAllocationProp, _f: u64
    ) {
        let mut world = world();
        if world.used_bytes + bytes as u64 > MEMORY_BYTES {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let fd = libc::memfd_create(c"chunk".as_ptr(), libc::MFD_CLOEXEC);
        libc::ftruncate(fd, bytes as i64);
        // Memory that another process has left: the server has to clear it.
        libc::pwrite(fd, b"secret".as_ptr().cast(), 6, 4096);
        *memory = world.number() as u64;
        world.used_bytes += bytes as u64;
        world.physical.insert(*memory, (OwnedFd::from_raw_fd(fd), bytes as u64));
        Ok(())
    }
    cuMemRelease(memory: CUmemGenericAllocationHandle) {
        let mut world = world();
        let (_, bytes) = world.physical.remove(&memory).ok_or(CudaError::INVALID_VALUE)?;
        world.used_bytes -= bytes;
        Ok(())
    }
    cuMemMap(
        at: CUdeviceptr, bytes: usize, _o: usize, memory: CUmemGenericAllocationHandle, _f: u64
    ) {
        let mut world = world();
        let (fd, _) = world.physical.get(&memory).ok_or(CudaError::INVALID_VALUE)?;
        let p = libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED, fd.as_raw_fd(), 0);
        if p == libc::MAP_FAILED { return Err(CudaError::OUT_OF_MEMORY); }
        world.mappings.insert(at.0, bytes as u64);
        Ok(())
    }
    cuMemUnmap(at: CUdeviceptr, bytes: usize) {
        world().mappings.remove(&at.0).ok_or(CudaError::INVALID_VALUE)?;
        libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1, 0);
        Ok(())
    }
    cuMemSetAccess(_a: CUdeviceptr, _b: usize, _d: *const CUmemAccessDesc, _c: usize) { Ok(()) }
    cuMemExportToShareableHandle(
        out: *mut c_void, memory: CUmemGenericAllocationHandle, _t: c_uint, _f: u64
    ) {
        let world = world();
        let (fd, _) = world.physical.get(&memory).ok_or(CudaError::INVALID_VALUE)?;
        let fd = fd.try_clone().map_err(|_| CudaError::OPERATING_SYSTEM)?;
        *out.cast::<c_int>() = fd.into_raw_fd();
        Ok(())
    }
    cuMemImportFromShareableHandle(
        memory: *mut CUmemGenericAllocationHandle, fd: *mut c_void, _t: c_uint
    ) {
        let fd = std::os::fd::BorrowedFd::borrow_raw(fd as c_int);
        let fd = fd.try_clone_to_owned().map_err(|_| CudaError::OPERATING_SYSTEM)?;
        let mut world = world();
        *memory = world.number() as u64;
        // It counts as its maker's.
        world.physical.insert(*memory, (fd, 0));
        Ok(())
    }
    cuMemHostRegister_v2(p: *mut c_void, bytes: usize, _flags: c_uint) {
        let mut there = vec![0u8; bytes.div_ceil(4096)];
        libc::mincore(p, bytes, there.as_mut_ptr());
        let mut world = world();
        world.pages_missing += there.iter().filter(|page| **page & 1 == 0).count();
        world.registrations.insert(p as u64);
        Ok(())
    }
    cuMemHostUnregister(p: *mut c_void) {
        if world().registrations.remove(&(p as u64)) { Ok(()) }
        else { Err(CudaError::INVALID_VALUE) }
    }
    cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, p: *mut c_void, _f: c_uint) {
        *out = CUdeviceptr(p as u64);
        Ok(())
    }

    cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        assert_eq!(flags, 1, "a server makes non-blocking streams only");
        let mut world = world();
        let id = world.number();
        world.priorities.push(priority);
        world.streams.insert(id, Queue { tenant: TENANT.get(), ops: VecDeque::new() });
        *stream = CUstream(id);
        Ok(())
    }
    cuStreamDestroy_v2(stream: CUstream) {
        world().streams.remove(&stream.0).map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
    }
    cuStreamQuery(stream: CUstream) {
        let mut world = world();
        world.run();
        if stream.0 == 0 && !world.streams.contains_key(&0) { return Ok(()); }
        world.alive(stream.0)?;
        if !world.streams[&stream.0].ops.is_empty() { return Err(CudaError::NOT_READY); }
        if stream.0 == 0 {
            world.streams.remove(&0);
        }
        Ok(())
    }
    cuStreamSynchronize(stream: CUstream) {
        let mut world = world();
        if stream.0 == 0 && !world.streams.contains_key(&0) { return Ok(()); }
        world.alive(stream.0)?;
        assert!(world.streams[&stream.0].ops.is_empty(), "a server must not block a thread");
        if stream.0 == 0 {
            world.streams.remove(&0);
        }
        Ok(())
    }
    cuStreamWaitEvent(stream: CUstream, event: CUevent, _f: c_uint) {
        let mut world = world();
        let moment = *world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        world.enqueue(stream.0, Op::WaitEvent { event: event.0, sequence: moment.recorded })
    }
    cuStreamWriteValue32_v2(stream: CUstream, at: CUdeviceptr, value: u32, _f: c_uint) {
        world().enqueue(stream.0, Op::WriteValue { address: at.0, value })
    }
    cuStreamWaitValue32_v2(stream: CUstream, at: CUdeviceptr, value: u32, _f: c_uint) {
        world().enqueue(stream.0, Op::WaitValue { address: at.0, value })
    }
    cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let function = function.ok_or(CudaError::INVALID_VALUE)?;
        world().enqueue(stream.0, Op::Host(function, data as usize))
    }

    cuEventCreate(event: *mut CUevent, _flags: c_uint) {
        let mut world = world();
        let id = world.number();
        world.events.insert(id, Moment::default());
        *event = CUevent(id);
        Ok(())
    }
    cuEventDestroy_v2(event: CUevent) {
        let mut world = world();
        let alive = world.events.contains_key(&event.0) && world.past_events.insert(event.0);
        if alive { Ok(()) } else { Err(CudaError::INVALID_HANDLE) }
    }
    cuEventRecord(event: CUevent, stream: CUstream) {
        let mut world = world();
        world.alive(stream.0)?;
        let moment = world.events.get_mut(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        moment.recorded += 1;
        let sequence = moment.recorded;
        world.enqueue(stream.0, Op::Record { event: event.0, sequence })
    }
    cuEventQuery(event: CUevent) {
        let mut world = world();
        world.run();
        let moment = world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        if moment.reached >= moment.recorded { Ok(()) } else { Err(CudaError::NOT_READY) }
    }
    cuEventElapsedTime(ms: *mut f32, start: CUevent, end: CUevent) {
        let world = world();
        for event in [start, end] {
            let moment = world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
            if moment.recorded == 0 { return Err(CudaError::INVALID_HANDLE); }
            if moment.reached < moment.recorded { return Err(CudaError::NOT_READY); }
        }
        *ms = 1.5;
        Ok(())
    }

    cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint,
        values: *mut *mut c_void
    ) {
        let text = CStr::from_ptr(image.cast()).to_string_lossy().into_owned();
        if text.contains("garbage") {
            for index in 0..count as usize {
                if *options.add(index) == constants::jit_option::ERROR_LOG_BUFFER {
                    let to: *mut c_char = (*values.add(index)).cast();
                    std::ptr::copy(c"line 1: garbage".as_ptr(), to, 16);
                }
            }
            return Err(CudaError::INVALID_PTX);
        }
        wait_for_gate(&text, "// load gate ");
        let mut world = world();
        let id = world.number();
        world.modules.insert(id, text);
        world.globals.insert(id, Box::new([7; 64]));
        *module = CUmodule(id);
        Ok(())
    }
    cuModuleUnload(module: CUmodule) {
        let mut world = world();
        world.globals.remove(&module.0);
        world.modules.remove(&module.0).map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
    }
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let mut world = world();
        world.modules.get(&module.0).ok_or(CudaError::INVALID_HANDLE)?;
        if !["add", "note", "hold", "fault", "stall", "local"].contains(&name.as_str()) {
            return Err(CudaError::NOT_FOUND);
        }
        let id = world.number();
        world.functions.insert(id, name);
        *function = CUfunction(id);
        Ok(())
    }
    cuModuleGetGlobal_v2(
        at: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char
    ) {
        let world = world();
        let place = world.globals.get(&module.0).ok_or(CudaError::INVALID_HANDLE)?;
        if CStr::from_ptr(name) != c"table" { return Err(CudaError::NOT_FOUND); }
        (*at, *bytes) = (CUdeviceptr(place.as_ptr() as u64), 64);
        Ok(())
    }
    cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) {
        let world = world();
        let name = world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        let is_local = attribute == constants::function_attribute::LOCAL_SIZE_BYTES;
        *value = if is_local && name == "local" { 4096 } else { attribute as c_int + 100 };
        Ok(())
    }
    cuFuncSetCacheConfig(function: CUfunction, _preferred: c_uint) {
        let mut world = world();
        world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        world.preferences += 1;
        Ok(())
    }
    cuFuncSetAttribute(function: CUfunction, attribute: c_uint, value: c_int) {
        let mut world = world();
        world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        let carveout = constants::function_attribute::PREFERRED_SHARED_MEMORY_CARVEOUT;
        world.preferences += u32::from(attribute == carveout);
        if value < 0 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }
    cuFuncGetParamInfo(
        function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize
    ) {
        let world = world();
        let name = world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        (*offset, *bytes) = *layout(name).get(index).ok_or(CudaError::INVALID_VALUE)?;
        Ok(())
    }
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _f: CUfunction, block: c_int, _s: usize
    ) {
        *blocks = 2048 / block;
        Ok(())
    }
    cuLaunchKernel(
        function: CUfunction, gx: c_uint, _gy: c_uint, _gz: c_uint, _bx: c_uint, _by: c_uint,
        _bz: c_uint, _shared: c_uint, stream: CUstream, _p: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        let name = world().kernel_of(function, gx)?;
        let parameters = buffer(extra);
        if name == "stall" {
            wait_until_open(u32_of(&parameters, 0));
        }
        world().enqueue(stream.0, Op::Kernel { name, parameters })
    }

    cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        let c = &*config;
        let attributes = std::slice::from_raw_parts(c.attrs, c.numAttrs as usize);
        if attributes.iter().any(CUlaunchAttribute::is_programmatic) {
            world().early_launches += 1;
        }
        let own = attributes.iter().find(|attribute| attribute.id == launch_attribute::PRIORITY);
        if let Some(own) = own {
            let bytes = [own.value[0], own.value[1], own.value[2], own.value[3]];
            world().launch_priorities.push(c_int::from_le_bytes(bytes));
        }
        let ([gx, gy, gz], [bx, by, bz]) =
            ([c.gridDimX, c.gridDimY, c.gridDimZ], [c.blockDimX, c.blockDimY, c.blockDimZ]);
        cuLaunchKernel(
            function, gx, gy, gz, bx, by, bz, c.sharedMemBytes, c.stream, params, extra,
        )
    }

    cuGraphCreate(graph: *mut CUgraph, _f: c_uint) {
        let mut world = world();
        let id = world.number();
        world.graphs.insert(id, MadeGraph::default());
        *graph = CUgraph(id);
        Ok(())
    }
    cuGraphDestroy(graph: CUgraph) {
        world().graphs.remove(&graph.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }
    // Graphs are chains here: kernels in the order in which they were added.
    cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, _d: *const CUgraphNode, _n: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        let mut world = world();
        let CUDA_KERNEL_NODE_PARAMS_v1 { func, gridDimX, extra, .. } = (*params).v1;
        let (name, parameters) = (world.kernel_of(func, gridDimX)?, buffer(extra));
        let id = world.number();
        let graph = world.graphs.get_mut(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        graph.nodes.push(GraphNode { node: id, op: Op::Kernel { name, parameters } });
        *node = CUgraphNode(id);
        Ok(())
    }
    cuGraphAddMemsetNode(
        node: *mut CUgraphNode, graph: CUgraph, _d: *const CUgraphNode, _n: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS, _c: CUcontext
    ) {
        let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } = *params;
        let pattern = value.to_le_bytes()[..elementSize as usize].to_vec();
        let mut world = world();
        let id = world.number();
        let graph = world.graphs.get_mut(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        let op = Op::Fill { to: dst.0, pitch, pattern, width, height };
        graph.nodes.push(GraphNode { node: id, op });
        *node = CUgraphNode(id);
        Ok(())
    }
    cuGraphAddDependencies(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize
    ) {
        cuGraphAddDependencies_v2(graph, from, to, std::ptr::null(), count)
    }
    cuGraphAddDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        data: *const CUgraphEdgeData, count: usize
    ) {
        let mut world = world();
        let edges = world.edges(graph, (from, to, data), count)?;
        let is_early = edges.iter().any(|(.., data)| !data.is_full());
        if is_early && world.early_edges == EarlyEdges::Unknown {
            return Err(CudaError::NOT_FOUND);
        }
        let graph = world.graphs.get_mut(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        graph.edges.extend(edges);
        Ok(())
    }
    cuGraphRemoveDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        data: *const CUgraphEdgeData, count: usize
    ) {
        let mut world = world();
        let gone = world.edges(graph, (from, to, data), count)?;
        let graph = world.graphs.get_mut(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        for edge in gone {
            let at = graph.edges.iter().position(|known| *known == edge);
            graph.edges.remove(at.ok_or(CudaError::INVALID_VALUE)?);
        }
        Ok(())
    }
    cuGraphKernelNodeSetAttribute(
        node: CUgraphNode, id: c_uint, value: *const CUlaunchAttributeValue
    ) {
        if id == launch_attribute::PRIORITY {
            world().node_priorities.insert(node.0, (*value)[0] as c_int);
        }
        Ok(())
    }
    cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) {
        let mut world = world();
        let MadeGraph { nodes, edges } =
            world.graphs.get(&graph.0).ok_or(CudaError::INVALID_VALUE)?.clone();
        if flags & graph_instantiate::USE_NODE_PRIORITY != 0 {
            let of = |node: &GraphNode| world.node_priorities.get(&node.node).copied();
            let own: Vec<c_int> = nodes.iter().filter_map(of).collect();
            world.launch_priorities.extend(own);
        }
        let is_early = edges.iter().any(|(.., data)| !data.is_full());
        if is_early && world.early_edges == EarlyEdges::NotInstantiated {
            return Err(CudaError::INVALID_VALUE);
        }
        let (id, event) = (world.number(), world.number());
        // It is no event of the server's.
        world.events.insert(event, Moment::default());
        world.past_events.insert(event);
        world.execs.insert(id, Exec { nodes, event });
        *exec = CUgraphExec(id);
        Ok(())
    }
    cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        let mut world = world();
        let CUDA_KERNEL_NODE_PARAMS_v1 { func, gridDimX, extra, .. } = (*params).v1;
        let (name, parameters) = (world.kernel_of(func, gridDimX)?, buffer(extra));
        world.nodes_set += 1;
        let exec = world.execs.get_mut(&exec.0).ok_or(CudaError::INVALID_VALUE)?;
        let known = exec.nodes.iter_mut().find(|known| known.node == node.0);
        let known = known.ok_or(CudaError::INVALID_VALUE)?;
        assert!(
            matches!(&known.op, Op::Kernel { name: before, .. } if *before == name),
            "a node keeps its function"
        );
        known.op = Op::Kernel { name, parameters };
        Ok(())
    }
    cuGraphExecDestroy(exec: CUgraphExec) {
        world().execs.remove(&exec.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let mut world = world();
        let Exec { nodes, event } = world.execs.get(&exec.0).ok_or(CudaError::INVALID_VALUE)?;
        let (nodes, event) = (nodes.clone(), *event);
        world.graph_launches += 1;
        let moment = world.events.entry(event).or_default();
        let before = moment.recorded;
        moment.recorded += 1;
        world.enqueue(stream.0, Op::WaitEvent { event, sequence: before })?;
        for GraphNode { op, .. } in nodes {
            world.enqueue(stream.0, op)?;
        }
        world.enqueue(stream.0, Op::Record { event, sequence: before + 1 })
    }

    cuArray3DCreate_v2(array: *mut CUarray, _d: *const CUDA_ARRAY3D_DESCRIPTOR) {
        let mut world = world();
        let id = world.number();
        world.arrays.insert(id);
        *array = CUarray(id);
        Ok(())
    }
    cuArrayDestroy(array: CUarray) {
        if world().arrays.remove(&array.0) { Ok(()) } else { Err(CudaError::INVALID_HANDLE) }
    }
    // Arrays have no content here.
    cuMemcpy3D_v2(_c: *const CUDA_MEMCPY3D) { Ok(()) }

    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, s: CUstream) {
        let mut world = world();
        world.values_written += u32::from(s.is_null());
        world.enqueue(s.0, Op::Copy { to: to.0, from: from as u64, bytes })
    }
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, s: CUstream) {
        world().enqueue(s.0, Op::Copy { to: to as u64, from: from.0, bytes })
    }
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, s: CUstream) {
        world().enqueue(s.0, Op::Copy { to: to.0, from: from.0, bytes })
    }
    cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, s: CUstream) {
        let c = *copy;
        let side = |kind, host: u64, device: CUdeviceptr| if kind == 1 { host } else { device.0 };
        let op = Op::CopyRows {
            to: side(c.dstMemoryType, c.dstHost as u64, c.dstDevice),
            to_pitch: c.dstPitch,
            from: side(c.srcMemoryType, c.srcHost as u64, c.srcDevice),
            from_pitch: c.srcPitch,
            width: c.WidthInBytes,
            // Slices lie against each other: tests copy one.
            height: c.Height * c.Depth,
        };
        world().enqueue(s.0, op)
    }
    cuMemsetD8Async(to: CUdeviceptr, value: u8, width: usize, s: CUstream) {
        let op = Op::Fill { to: to.0, pitch: 0, pattern: vec![value], width, height: 1 };
        world().enqueue(s.0, op)
    }
    cuMemsetD32Async(to: CUdeviceptr, value: c_uint, width: usize, s: CUstream) {
        let pattern = value.to_le_bytes().to_vec();
        world().enqueue(s.0, Op::Fill { to: to.0, pitch: 0, pattern, width, height: 1 })
    }
    cuMemsetD2D16Async(
        to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, s: CUstream
    ) {
        let pattern = value.to_le_bytes().to_vec();
        world().enqueue(s.0, Op::Fill { to: to.0, pitch, pattern, width, height })
    }
}

/// Waits for the gate that a text's first line names behind these words, if it does.
fn wait_for_gate(text: &str, words: &str) {
    let gate = text.strip_prefix(words).and_then(|rest| rest.lines().next()?.parse().ok());
    gate.into_iter().for_each(wait_until_open);
}

fn wait_until_open(gate: u32) {
    let is_closed = || {
        let mut world = world();
        world.waited_for.insert(gate);
        !world.gates.contains(&gate)
    };
    while is_closed() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A table of this file's functions.
pub fn resolved(find: impl FnMut(&CStr) -> Option<*const c_void>) -> DriverTable {
    // SAFETY: each function of this file has cuda.h's signature under its name.
    unsafe { DriverTable::resolve(find) }
}

/// The provider's table. Loading a text that begins with `// load gate N` takes until that gate is opened
/// ([`open_gate`](super::open_gate)).
pub fn table() -> &'static DriverTable {
    static TABLE: OnceLock<DriverTable> = OnceLock::new();
    TABLE.get_or_init(|| resolved(find))
}

/// The provider's table, with functions that link. What they make of a text is no text; one that begins with
/// `// gate N` takes until that gate is opened ([`open_gate`]), without that others wait for it.
pub fn table_that_compiles() -> &'static DriverTable {
    raw_functions! {
        create(
            count: c_uint, options: *mut c_uint, values: *mut *mut c_void, state: *mut CUlinkState
        ) {
            let is_log = |at: &usize| *options.add(*at) == constants::jit_option::ERROR_LOG_BUFFER;
            let log = (0..count as usize).rfind(is_log).map(|at| *values.add(at) as usize);
            let mut world = world();
            let id = world.number();
            world.links.insert(id, Link { log, cubin: Vec::new() });
            *state = CUlinkState(id);
            Ok(())
        }
        add(
            state: CUlinkState, _: c_uint, text: *mut c_void, _: usize, _: *const c_char, _: c_uint,
            _: *mut c_uint, _: *mut *mut c_void
        ) {
            let text = CStr::from_ptr(text.cast()).to_string_lossy().into_owned();
            wait_for_gate(&text, "// gate ");
            let mut world = world();
            let link = world.links.get_mut(&state.0).ok_or(CudaError::INVALID_HANDLE)?;
            if text.contains("garbage") {
                if let Some(log) = link.log {
                    put_bytes(log as u64, b"line 2: garbage\0");
                }
                return Err(CudaError::INVALID_PTX);
            }
            if text.contains(".extern") {
                return Err(CudaError::INVALID_IMAGE);
            }
            link.cubin = [b"compiled ", text.as_bytes(), b"\0"].concat();
            Ok(())
        }
        complete(state: CUlinkState, cubin: *mut *mut c_void, bytes: *mut usize) {
            let mut world = world();
            let link = world.links.get_mut(&state.0).ok_or(CudaError::INVALID_HANDLE)?;
            // It lives as long as the state.
            (*cubin, *bytes) = (link.cubin.as_mut_ptr().cast(), link.cubin.len());
            Ok(())
        }
        destroy(state: CUlinkState) {
            world().links.remove(&state.0).map(drop).ok_or(CudaError::INVALID_HANDLE)
        }
    }
    static TABLE: OnceLock<DriverTable> = OnceLock::new();
    let with_links = |name: &CStr| match name.to_bytes() {
        b"cuLinkCreate_v2" => Some(create as *const c_void),
        b"cuLinkAddData_v2" => Some(add as *const c_void),
        b"cuLinkComplete" => Some(complete as *const c_void),
        b"cuLinkDestroy" => Some(destroy as *const c_void),
        _ => find(name),
    };
    TABLE.get_or_init(|| resolved(with_links))
}

/// The provider's table, with launches that do nothing: for what the server itself costs.
pub fn table_of_nothing() -> &'static DriverTable {
    raw_functions! {
        launch(
            _: CUfunction, _: c_uint, _: c_uint, _: c_uint, _: c_uint, _: c_uint, _: c_uint,
            _: c_uint, _: CUstream, _: *mut *mut c_void, _: *mut *mut c_void
        ) { Ok(()) }
        launch_graph(_: CUgraphExec, _: CUstream) { Ok(()) }
        set_node(_: CUgraphExec, _: CUgraphNode, _: *const CUDA_KERNEL_NODE_PARAMS) { Ok(()) }
    }
    static TABLE: OnceLock<DriverTable> = OnceLock::new();
    let with_launch = |name: &CStr| match name.to_bytes() {
        b"cuLaunchKernel" => Some(launch as *const c_void),
        b"cuGraphLaunch" => Some(launch_graph as *const c_void),
        b"cuGraphExecKernelNodeSetParams_v2" => Some(set_node as *const c_void),
        _ => find(name),
    };
    TABLE.get_or_init(|| resolved(with_launch))
}
