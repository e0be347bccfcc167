//! Program: a kernel ready to run, with its decoded functions and what its blocks share.

use crate::check::{Checker, Checks};
use crate::decode::{self, Code};
use crate::ops::map::Target;
use crate::ops::memory::{Locate, locate_for};
use crate::register_file::RegisterFile;
use crate::run::block::{BlockEnvironment, InterpretedBlock};
use crate::run::cluster::InterpretedCluster;
use crate::tier1_abi::{Generator, Layout, NativeCode};
use locks::Mutex;
use simt::ir::op::{Op, Special};
use simt::ir::vector::{Mode, VectorFunction, VectorKernel, WINDOW_BYTES};
use simt::kernel::{BlockRun, Dim3, Kernel, KernelInfo, Launch};
use simt::runtime::heap::DeviceHeap;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Local memory for the frames of calls that were not inlined, and as much for `alloca`, bytes a thread,
/// at least. CUDA's default limit is 1 KiB; frames here also hold what hardware would keep in registers.
const STACK_BYTES_MIN: u64 = 16 << 10;
/// For the same reason, how many times the launch's limit they may take.
const STACK_FACTOR: u64 = 2;
/// Register files kept for the next block, each function: as many as workers are likely.
const SPARE_FILES_MAX: usize = 64;

/// One of a kernel's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeId {
    /// The kernel, for lockstep.
    Entry,
    /// The kernel, for any order of blocks.
    Independent,
    /// A function by its number in the module.
    Function(u32),
}

/// A kernel.
pub(crate) struct Program {
    info: KernelInfo,
    target: Target,
    entry: Code,
    /// The kernel as it was before it was decoded, if it can move up.
    entry_source: Option<(VectorFunction, Arc<dyn Generator>)>,
    /// How often the kernel was started or went on.
    heat: AtomicU32,
    native: OnceLock<Option<NativeCode>>,
    independent_source: VectorFunction,
    independent: OnceLock<Code>,
    functions: HashMap<u32, Code>,
    /// Where the module's constant banks lie.
    pub(crate) const_ranges: Vec<(u64, u64)>,
    /// What `malloc` takes from.
    pub(crate) heap: Option<Arc<DeviceHeap>>,
    /// The kernel's own frame, bytes.
    frame_bytes: u64,
    /// Its threads have a stack for `alloca`.
    has_stack: bool,
    /// Finds the memory of uncommon accesses, for this processor.
    pub(crate) locate: Locate,
    /// Register files of finished blocks, by whether they are the entry's. They hold old values
    /// of this kernel only, so nothing leaks to other modules.
    spare: Mutex<Vec<RegisterFile>>,
    /// Where findings go, if accesses are accounted for.
    checker: Option<Checker>,
}

impl Program {
    /// Decodes a kernel.
    pub(crate) fn new(
        kernel: VectorKernel,
        target: Target,
        generator: Option<Arc<dyn Generator>>,
        checks: Option<Checks>,
    ) -> Self {
        let checker = checks.map(Checker::new);
        let decode = |f: &VectorFunction| decode::decode(f, target, checker.is_some());
        // Where accesses are accounted for, every address must be in a register.
        let entry = match checker {
            Some(_) => decode(&kernel.entry_independent),
            None => decode(&kernel.entry),
        };
        let functions: HashMap<u32, Code> =
            kernel.functions.iter().map(|(n, f)| (*n, decode(f))).collect();
        let frame_bytes = u64::from(kernel.entry.frame_bytes);
        let blocks = kernel.entry.blocks.iter().flat_map(|b| &b.insts);
        let mut insts = kernel.entry.prologue.iter().chain(blocks);
        let has_stack = insts.any(|inst| inst.op == Op::Special(Special::StackEnd));
        debug_assert_eq!(kernel.entry_independent.mode, Mode::Independent);
        let at_once = generator.as_ref().is_some_and(|g| g.threshold() == 0);
        let program = Self {
            info: kernel.info,
            target,
            entry,
            entry_source: generator.map(|g| (kernel.entry, g)),
            heat: AtomicU32::new(0),
            native: OnceLock::new(),
            independent_source: kernel.entry_independent,
            independent: OnceLock::new(),
            functions,
            const_ranges: kernel.const_ranges,
            heap: kernel.heap,
            frame_bytes,
            has_stack,
            locate: locate_for(target),
            spare: Mutex::default(),
            checker,
        };
        if at_once {
            program.make_native();
        }
        program
    }

    fn make_native(&self) {
        if let Some((function, generator)) = &self.entry_source {
            self.native.get_or_init(|| generator.generate(function, &Layout::new(&self.entry)));
        }
    }

    /// The kernel's native code, if there is any by now. Code is made in the background, so that
    /// neither this kernel nor other clients wait for it.
    #[inline(always)]
    pub(crate) fn native(self: &Arc<Self>) -> Option<&NativeCode> {
        match self.native.get() {
            Some(native) => native.as_ref(),
            None => {
                self.warm_up();
                None
            }
        }
    }

    fn warm_up(self: &Arc<Self>) {
        let Some((_, generator)) = &self.entry_source else { return };
        if self.heat.fetch_add(1, Ordering::Relaxed) == generator.threshold() {
            let program = self.clone();
            // Without a thread the kernel stays interpreted.
            drop(
                std::thread::Builder::new()
                    .name("openmps-jit".to_owned())
                    .spawn(move || program.make_native()),
            );
        }
    }

    /// Local memory of a launch, bytes a thread, and how much of that is at its end for `alloca`: the
    /// kernel's frame, and room for those of what it calls, are in front.
    fn local_bytes(&self, launch: &Launch) -> (u64, u64) {
        let limit = STACK_BYTES_MIN.max(STACK_FACTOR * u64::from(launch.stack_bytes));
        let frames = if self.functions.is_empty() { 0 } else { limit };
        let frames = (self.frame_bytes + frames).next_multiple_of(16).min(WINDOW_BYTES);
        let stack = if self.has_stack { limit.next_multiple_of(16) } else { 0 };
        let stack = stack.min(WINDOW_BYTES - frames);
        (frames + stack, stack)
    }

    /// Where findings go, if accesses are accounted for.
    pub(crate) fn checker(&self) -> Option<&Checker> {
        self.checker.as_ref()
    }

    /// Bytes at the beginning of shared memory that are kept for libraries, and start as zeros.
    pub(crate) fn kept_shared_bytes(&self) -> u64 {
        self.info.kept_shared_bytes.into()
    }

    /// The name, for faults.
    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    /// Whether there is a function of that number.
    pub(crate) fn has_function(&self, number: u32) -> bool {
        self.functions.contains_key(&number)
    }

    /// A function's code. Numbers that do not exist are never asked for; they would give the
    /// entry's.
    pub(crate) fn code(&self, id: CodeId) -> &Code {
        match id {
            CodeId::Entry => &self.entry,
            CodeId::Independent => self.independent.get_or_init(|| self.decode_independent()),
            CodeId::Function(number) => self.functions.get(&number).unwrap_or(&self.entry),
        }
    }

    fn decode_independent(&self) -> Code {
        decode::decode(&self.independent_source, self.target, self.checker.is_some())
    }

    /// A register file for a function.
    pub(crate) fn file(&self, id: CodeId) -> RegisterFile {
        if id == CodeId::Entry {
            let mut spare = self.spare.lock();
            if let Some(file) = spare.pop() {
                return file;
            }
        }
        let code = self.code(id);
        RegisterFile::new(code.file_bytes, &code.constants)
    }

    /// Takes a register file back.
    pub(crate) fn recycle(&self, file: RegisterFile, id: CodeId) {
        if id == CodeId::Entry {
            let mut spare = self.spare.lock();
            if spare.len() < SPARE_FILES_MAX {
                spare.push(file);
            }
        }
    }
}

/// [`Program`] behind the trait that devices know.
pub(crate) struct InterpretedKernel(pub(crate) Arc<Program>);

impl Kernel for InterpretedKernel {
    fn info(&self) -> &KernelInfo {
        &self.0.info
    }

    fn start(self: Arc<Self>, launch: Arc<Launch>, index: Dim3) -> Box<dyn BlockRun> {
        match launch.cluster_extents().count() {
            1 => Box::new(self.block(launch, index)),
            _ => Box::new(InterpretedCluster::new(&self, launch, index)),
        }
    }
}

impl InterpretedKernel {
    /// A block by itself.
    pub(crate) fn block(&self, launch: Arc<Launch>, index: Dim3) -> InterpretedBlock {
        let program = self.0.clone();
        let info = &program.info;
        let static_shared = u64::from(info.shared_bytes) + u64::from(info.kept_shared_bytes);
        let (local_bytes, stack_bytes) = program.local_bytes(&launch);
        let peers = Arc::default();
        let environment = BlockEnvironment { launch, program, local_bytes, stack_bytes, peers };
        InterpretedBlock::new(environment, index, static_shared)
    }
}
