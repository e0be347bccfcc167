//! Front half of the software GPU's compiler: PTX text to the vector IR, module by module.
//!
//! [`load_module`] parses a module and places its variables. A kernel is compiled when it is first
//! asked for, as far as that does not depend on the shape of its launches; the rest follows with its
//! first launch of a shape ([`launch_shape`]). The stages, each a folder: `lower` (syntax tree to
//! SIMT IR), `analysis` and `transform` (on the SIMT IR), `vectorize` (SIMT IR to vector IR). `ir` has
//! both IRs, `runtime` the formats of data in device memory. A tier ([`ir::vector::Tier`]) runs the
//! vector IR; nothing here knows a tier beyond that trait. [`kernel`] is the interface between tiers
//! and device.
//!
//! Deliberately absent: machine code, devices, the driver API.

pub mod analysis;
mod call_graph;
mod error;
pub mod inspect;
pub mod ir;
pub mod kernel;
pub mod launch_shape;
mod lower;
pub mod pass;
mod pipeline;
pub mod runtime;
mod transform;
mod variable_layout;
mod vectorize;

pub use crate::error::{CompileError, CompileErrorKind};
pub use crate::launch_shape::THREADS_PER_BLOCK_MAX;

use crate::call_graph::{info, reachable};
use crate::ir::vector::{FUNCTION_BASE, Tier};
use crate::kernel::{BlockRun, Dim3, Kernel, KernelInfo, Launch, Module, ModuleMemory};
use crate::launch_shape::LaunchShape;
use crate::pipeline::Lowered;
use crate::runtime::device_runtime::{self, DEVICE_CALL};
use crate::variable_layout::{KernelLayout, ModuleLayout};
use locks::Mutex;
use ptx::ast::{self, FunctionId, SymbolRef};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Parses a module, places and initialises its variables. Kernels are compiled for `tier` when
/// they are first launched.
pub fn load_module(
    text: &str,
    memory: &mut dyn ModuleMemory,
    tier: Arc<dyn Tier>,
) -> Result<Arc<dyn Module>, CompileError> {
    let (ast, layout) = front(text, memory)?;
    let kernels = ast.kernels().map(|(id, _)| id).collect::<Vec<_>>();
    // What can be refused for its size is refused now, not at the first launch.
    for id in &kernels {
        KernelLayout::place(&ast, &layout, &reachable(&ast, *id))?;
        info(&ast, *id).ok_or_else(|| {
            let f = ast.function(*id);
            CompileError::at(&ast, f.span, "parameters are too large".to_owned())
        })?;
    }
    let calls_device = ast.functions.iter().any(|function| ast.name(function.name) == DEVICE_CALL);
    let compiled = Mutex::default();
    Ok(Arc::new(LoadedModule { ast, layout, kernels, calls_device, tier, compiled }))
}

/// Parses and checks a module and places its variables.
fn front(
    text: &str,
    memory: &mut dyn ModuleMemory,
) -> Result<(ast::Module, ModuleLayout), CompileError> {
    let mut ast = ptx::parse(text).map_err(|e| CompileError::plain(e.to_string()))?;
    if let Some(library) = device_runtime::needed_by(&ast) {
        let linked = ptx::link::link(&[text, &library]);
        let linked = linked.map_err(|e| CompileError::plain(e.to_string()))?;
        ast = ptx::parse(&linked).map_err(|e| CompileError::plain(e.to_string()))?;
    }
    // Instructions that a later version may have are warnings: they trap when they are reached.
    ptx::check(&ast).map_err(|e| CompileError::plain(e.to_string()))?;
    check_externs(&ast)?;
    let layout = ModuleLayout::place(&ast, memory)?;
    Ok((ast, layout))
}

struct LoadedModule {
    ast: ast::Module,
    layout: ModuleLayout,
    kernels: Vec<FunctionId>,
    calls_device: bool,
    tier: Arc<dyn Tier>,
    compiled: Mutex<HashMap<usize, Option<Arc<dyn Kernel>>>>,
}

impl Module for LoadedModule {
    fn kernel(&self, name: &str) -> Option<Arc<dyn Kernel>> {
        let id = self
            .kernels
            .iter()
            .copied()
            .find(|id| self.ast.name(self.ast.function(*id).name) == name)?;
        let mut compiled = self.compiled.lock();
        compiled
            .entry(id.index())
            .or_insert_with(|| {
                // Layouts were checked when the module was loaded.
                let tier = self.tier.clone();
                let notes = tier.wants_copy_notes();
                let kernel = Lowered::new(&self.ast, &self.layout, id, notes).ok()?;
                Some(Arc::new(LoadedKernel { kernel, tier, forms: Default::default() }))
            })
            .clone()
    }

    fn kernel_names(&self) -> Vec<String> {
        let name = |id: &FunctionId| self.ast.name(self.ast.function(*id).name).to_owned();
        self.kernels.iter().map(name).collect()
    }

    fn calls_device(&self) -> bool {
        self.calls_device
    }

    fn kernel_name_at(&self, address: u64) -> Option<String> {
        let offset =
            address.checked_sub(FUNCTION_BASE).filter(|offset| offset.is_multiple_of(16))?;
        let id = self.kernels.iter().find(|id| id.index() as u64 == offset / 16)?;
        Some(self.ast.name(self.ast.function(*id).name).to_owned())
    }

    fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.layout.module_variable(self.ast.find_variable(name)?.index())
    }

    fn managed(&self, name: &str) -> Option<(u64, u64)> {
        let variable = self.ast.find_variable(name)?.index();
        self.ast.variables.get(variable).filter(|variable| variable.managed)?;
        self.layout.module_variable(variable)
    }
}

/// Functions that the device runtime has, so that they need no body.
const RUNTIME_FUNCTIONS: [&str; 6] =
    ["vprintf", "__assertfail", "malloc", "free", "cudaGraphSetConditional", DEVICE_CALL];

/// True for what CUDA's device runtime has beside those and beside the library of our own: the module
/// loads, and a call of one is an instruction that is not supported.
fn launches_kernels(name: &str) -> bool {
    let of_runtime = name.starts_with("cuda") || name.starts_with("__cuda");
    of_runtime && !RUNTIME_FUNCTIONS.contains(&name)
}

/// Calls of undefined functions cannot be linked.
fn check_externs(ast: &ast::Module) -> Result<(), CompileError> {
    for function in &ast.functions {
        let mut missing = None;
        variable_layout::each_symbol(function, &mut |symbol| {
            if let SymbolRef::Function(id) = symbol {
                let callee = ast.function(ast.resolve_alias(id));
                let name = ast.name(callee.name);
                let known = RUNTIME_FUNCTIONS.contains(&name) || launches_kernels(name);
                if callee.body.is_none() && !known {
                    missing.get_or_insert(callee);
                }
            }
        });
        if let Some(callee) = missing {
            let message = format!("Unresolved extern function '{}'", ast.name(callee.name));
            return Err(CompileError::at(ast, callee.span, message));
        }
    }
    Ok(())
}

/// A kernel of a module: made runnable for each geometry that it is launched with.
struct LoadedKernel {
    kernel: Lowered,
    tier: Arc<dyn Tier>,
    /// By geometry.
    forms: [OnceLock<Arc<dyn Kernel>>; LaunchShape::ALL.len()],
}

impl Kernel for LoadedKernel {
    fn info(&self) -> &KernelInfo {
        &self.kernel.info
    }

    fn prepare(&self, launch: &Launch) {
        self.form(launch);
    }

    fn start(self: Arc<Self>, launch: Arc<Launch>, index: Dim3) -> Box<dyn BlockRun> {
        self.form(&launch).clone().start(launch, index)
    }
}

impl LoadedKernel {
    /// The form that a launch runs.
    fn form(&self, launch: &Launch) -> &Arc<dyn Kernel> {
        let launch_shape = LaunchShape::of(launch.grid, launch.block);
        let compile = || self.tier.compile(self.kernel.vectorized(launch_shape));
        self.forms[launch_shape.index()].get_or_init(compile)
    }
}
