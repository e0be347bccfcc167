//! Pipeline: the order in which a kernel's passes run, from the syntax tree to the vector IR.

use crate::analysis::liveness::Liveness;
use crate::analysis::{divergence, register_estimate};
use crate::call_graph::{held_by_variables, info, reachable};
use crate::error::CompileError;
use crate::ir::vector::{Mode, VectorFunction, VectorKernel};
use crate::ir::{self, Function};
use crate::kernel::KernelInfo;
use crate::launch_shape::LaunchShape;
use crate::lower;
use crate::runtime::heap::DeviceHeap;
use crate::transform::promote_calls::Candidates;
use crate::transform::{
    block_layout, dce, group_mma_by_accumulator, inline, loop_exit_copies, mask_to_shifts, mem2reg,
    promote_calls, simplify_cfg, split_at_guards, wgmma_hazard_notes,
};
use crate::variable_layout::{KernelLayout, ModuleLayout};
use crate::vectorize;
use ptx::ast::{self, FunctionId, FunctionKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A kernel and what it calls, after all passes that do not depend on how it is launched.
pub(crate) struct Lowered {
    pub(crate) info: KernelInfo,
    pub(crate) entry: Prepared,
    /// Functions that were not inlined, by their number.
    pub(crate) called: HashMap<u32, Prepared>,
    pub(crate) const_ranges: Vec<(u64, u64)>,
    pub(crate) heap: Option<Arc<DeviceHeap>>,
}

impl Lowered {
    pub(crate) fn new(
        ast: &ast::Module,
        module: &ModuleLayout,
        id: FunctionId,
        copy_notes: bool,
    ) -> Result<Self, CompileError> {
        let functions = reachable(ast, id);
        let layout = KernelLayout::place(ast, module, &functions)?;
        let stack = functions.iter().any(|id| lower::alloca::uses_stack(ast.function(*id)));
        let env = lower::Environment { module: ast, layout: &layout, stack, copy_notes };
        let mut callees: BTreeMap<u32, Function> = BTreeMap::new();
        for &callee in &functions[1..] {
            callees.insert(callee.index() as u32, lower::lower(&env, callee));
        }
        let mut entry = lower::lower(&env, id);
        let recursive = inline::recursive_functions(&callees);
        let mut named = promote_calls::named(callees.values().chain([&entry]));
        named.extend(held_by_variables(ast));
        // Kernels are named where they are launched.
        for id in functions.iter().filter(|id| ast.function(**id).kind == FunctionKind::Entry) {
            named.remove(&(id.index() as u32));
        }
        let candidates = Candidates::of(&callees, &recursive, |number| named.contains(&number));
        for f in callees.values_mut().chain([&mut entry]) {
            promote_calls::run(f, &candidates);
        }
        inline::run(&mut entry, &callees, &recursive);
        wgmma_hazard_notes::run(&mut entry);
        let entry = Prepared::new(entry);
        let mut called = HashMap::new();
        let mut work: Vec<u32> = entry.callees(&callees).into_iter().collect();
        while let Some(number) = work.pop() {
            if called.contains_key(&number) {
                continue;
            }
            let Some(mut function) = callees.get(&number).cloned() else { continue };
            inline::run(&mut function, &callees, &recursive);
            wgmma_hazard_notes::forget(&mut function);
            let prepared = Prepared::new(function);
            work.extend(prepared.callees(&callees));
            called.insert(number, prepared);
        }
        let mut info = info(ast, id)
            .ok_or_else(|| CompileError::plain("parameters are too large".to_owned()))?;
        info.shared_bytes = (layout.shared_bytes - layout.kept_shared_bytes) as u32;
        info.kept_shared_bytes = layout.kept_shared_bytes as u32;
        info.const_bytes = u32::try_from(layout.const_bytes).unwrap_or(u32::MAX);
        info.local_bytes = entry.frame_bytes;
        let callees = || called.values().map(|prepared: &Prepared| &prepared.function);
        let directives = &ast.function(id).directives;
        info.registers = register_estimate::estimate(&entry.function, callees(), directives);
        info.barriers = register_estimate::barriers(callees().chain([&entry.function]));
        let (const_ranges, heap) = (module.const_ranges.clone(), module.heap.clone());
        Ok(Self { info, entry, called, const_ranges, heap })
    }

    /// The vector IR for launches of a geometry.
    pub(crate) fn vectorized(&self, launch_shape: LaunchShape) -> VectorKernel {
        let entry = self.entry.shaped(launch_shape);
        let function = |prepared: &Prepared| {
            // No shape is believed there.
            prepared.shaped(LaunchShape::Any).vectorized(Mode::Independent)
        };
        VectorKernel {
            info: self.info.clone(),
            entry: entry.vectorized(Mode::Lockstep),
            entry_independent: entry.vectorized(Mode::Independent),
            functions: self.called.iter().map(|(number, f)| (*number, function(f))).collect(),
            const_ranges: self.const_ranges.clone(),
            heap: self.heap.clone(),
        }
    }
}

/// A function after the passes that do not look at shapes.
pub(crate) struct Prepared {
    pub(crate) function: Function,
    pub(crate) offsets: Vec<u32>,
    pub(crate) frame_bytes: u32,
}

impl Prepared {
    pub(crate) fn new(mut f: Function) -> Self {
        simplify_cfg::run(&mut f);
        mem2reg::run(&mut f);
        let (offsets, frame_bytes) = mem2reg::place_frame(&mut f);
        dce::run(&mut f);
        mask_to_shifts::run(&mut f);
        dce::drop_unused(&mut f);
        simplify_cfg::run(&mut f);
        block_layout::run(&mut f);
        Self { function: f, offsets, frame_bytes }
    }

    /// The shapes of its values where launches have this geometry.
    pub(crate) fn shaped(&self, launch_shape: LaunchShape) -> Shaped<'_> {
        let mut function = self.function.clone();
        group_mma_by_accumulator::run(&mut function);
        let liveness = Liveness::of(&function);
        let shapes = divergence::analyse(&function, &liveness, launch_shape);
        let (mut liveness, mut shapes) =
            loop_exit_copies::run(&mut function, liveness, shapes, launch_shape);
        if split_at_guards::run(&mut function, &shapes) {
            liveness = Liveness::of(&function);
            shapes = divergence::analyse(&function, &liveness, launch_shape);
        }
        Shaped { prepared: self, function, liveness, shapes }
    }

    /// Functions that may be called from here: all, if any call is indirect.
    pub(crate) fn callees(&self, all: &BTreeMap<u32, Function>) -> BTreeSet<u32> {
        let mut numbers = BTreeSet::new();
        for block in &self.function.blocks {
            if let ir::Term::Call { site, .. } = block.term {
                match self.function.calls[site as usize].callee {
                    ir::Callee::Direct(number) => _ = numbers.insert(number),
                    ir::Callee::Indirect(_) => return all.keys().copied().collect(),
                }
            }
        }
        numbers
    }
}

/// A function after all passes, with what they found.
pub(crate) struct Shaped<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) function: Function,
    pub(crate) liveness: Liveness,
    pub(crate) shapes: divergence::Shapes,
}

impl Shaped<'_> {
    pub(crate) fn vectorized(&self, mode: Mode) -> VectorFunction {
        let Prepared { offsets, frame_bytes, .. } = self.prepared;
        let frame = vectorize::Frame { offsets, bytes: *frame_bytes };
        vectorize::vectorize(&self.function, &self.shapes, &self.liveness, &frame, mode)
    }
}
