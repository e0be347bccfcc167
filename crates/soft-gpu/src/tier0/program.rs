//! A kernel ready to run: its decoded functions, and what its blocks share.

use super::block::{BlockEnvironment, InterpretedBlock};
use super::decode::{self, Code};
use super::file::RegisterFile;
use super::lanes::Target;
use crate::compile::heap::DeviceHeap;
use crate::compile::vector::{Mode, VectorFunction, VectorKernel, WINDOW_BYTES};
use crate::kernel::{BlockRun, Dim3, Kernel, KernelInfo, Launch};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Local memory for the frames of calls that were not inlined, bytes a thread. CUDA's default
/// stack is 1 KiB; frames here also hold what hardware would keep in registers.
const STACK_BYTES: u64 = 16 << 10;
/// Register files kept for the next block, each function: as many as workers are likely.
const SPARE_FILES_MAX: usize = 64;

/// A kernel.
pub(super) struct Program {
    info: KernelInfo,
    target: Target,
    entry: Arc<Code>,
    independent_source: VectorFunction,
    independent: OnceLock<Arc<Code>>,
    functions: HashMap<u32, Arc<Code>>,
    const_ranges: Vec<(u64, u64)>,
    heap: Option<Arc<DeviceHeap>>,
    /// Local memory, bytes a thread.
    pub(super) local_bytes: u64,
    /// Register files of finished blocks, by whether they are the entry's. They hold old values
    /// of this kernel only, so nothing leaks to other modules.
    spare: Mutex<Vec<RegisterFile>>,
}

impl Program {
    /// Decodes a kernel.
    pub(super) fn new(kernel: VectorKernel, target: Target) -> Self {
        let entry = Arc::new(decode::decode(&kernel.entry, target));
        let functions: HashMap<u32, Arc<Code>> = kernel
            .functions
            .iter()
            .map(|(n, f)| (*n, Arc::new(decode::decode(f, target))))
            .collect();
        let stack = if functions.is_empty() { 0 } else { STACK_BYTES };
        let local_bytes = (u64::from(kernel.entry.frame_bytes) + stack).min(WINDOW_BYTES);
        debug_assert_eq!(kernel.entry_independent.mode, Mode::Independent);
        Self {
            info: kernel.info,
            target,
            entry,
            independent_source: kernel.entry_independent,
            independent: OnceLock::new(),
            functions,
            const_ranges: kernel.const_ranges,
            heap: kernel.heap,
            local_bytes: local_bytes.next_multiple_of(16),
            spare: Mutex::default(),
        }
    }

    /// The kernel's code for lockstep.
    pub(super) fn entry(&self) -> &Arc<Code> {
        &self.entry
    }

    /// The kernel's code for any order of blocks; decoded when first needed.
    pub(super) fn independent(&self) -> &Arc<Code> {
        self.independent
            .get_or_init(|| Arc::new(decode::decode(&self.independent_source, self.target)))
    }

    /// A function by its number.
    pub(super) fn function(&self, number: u32) -> Option<Arc<Code>> {
        self.functions.get(&number).cloned()
    }

    /// A register file for `code`.
    pub(super) fn file(&self, code: &Arc<Code>) -> RegisterFile {
        if Arc::ptr_eq(code, &self.entry) {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(file) = spare.pop() {
                return file;
            }
        }
        RegisterFile::new(code)
    }

    /// Takes a register file back.
    pub(super) fn recycle(&self, file: RegisterFile, code: &Arc<Code>) {
        if Arc::ptr_eq(code, &self.entry) {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_FILES_MAX {
                spare.push(file);
            }
        }
    }
}

/// [`Program`] behind the trait that devices know.
pub(super) struct InterpretedKernel(pub(super) Arc<Program>);

impl Kernel for InterpretedKernel {
    fn info(&self) -> &KernelInfo {
        &self.0.info
    }

    fn start(self: Arc<Self>, launch: Arc<Launch>, index: Dim3) -> Box<dyn BlockRun> {
        let program = self.0.clone();
        let environment = BlockEnvironment {
            launch,
            index,
            const_ranges: program.const_ranges.clone(),
            heap: program.heap.clone(),
            kernel: program.info.name.clone(),
        };
        let static_shared = u64::from(program.info.shared_bytes);
        Box::new(InterpretedBlock::new(program, environment, static_shared))
    }
}
