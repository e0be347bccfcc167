//! Call graph: the functions that a kernel may reach, and what its signature says of launches.

use crate::kernel::{Dim3, KernelInfo, ParamLayout};
use crate::launch_shape::THREADS_PER_BLOCK_MAX;
use crate::variable_layout::each_symbol;
use ptx::ast::{self, FunctionId, SymbolRef};
use std::collections::HashSet;

/// The kernel and every function it names, directly or through others. Functions whose address
/// a variable holds count as named by all.
pub(crate) fn reachable(ast: &ast::Module, kernel: FunctionId) -> Vec<FunctionId> {
    let mut found = Found::default();
    found.add(kernel);
    let mut next = 0;
    let mut indirect = false;
    while next < found.order.len() {
        let function = ast.function(found.order[next]);
        indirect |= function
            .instructions()
            .any(|i| matches!(i.call(), Some(ast::Call { callee: ast::Callee::Indirect(_), .. })));
        each_symbol(function, &mut |symbol| {
            if let SymbolRef::Function(id) = symbol {
                found.add_named(ast, id);
            }
        });
        next += 1;
        if next == found.order.len() && std::mem::take(&mut indirect) {
            for variable in &ast.variables {
                if let Some(init) = &variable.init {
                    initial_functions(ast, init, &mut found);
                }
            }
        }
    }
    found.order
}

/// Functions in the order in which they were found.
#[derive(Default)]
struct Found {
    order: Vec<FunctionId>,
    known: HashSet<usize>,
}

impl Found {
    fn add(&mut self, id: FunctionId) {
        if self.known.insert(id.index()) {
            self.order.push(id);
        }
    }

    /// The function that a name stands for, if it has a body.
    fn add_named(&mut self, ast: &ast::Module, id: FunctionId) {
        let id = ast.resolve_alias(id);
        if ast.function(id).body.is_some() {
            self.add(id);
        }
    }
}

/// Numbers of the functions with a body whose address a variable holds at first.
pub(crate) fn held_by_variables(ast: &ast::Module) -> HashSet<u32> {
    let mut found = Found::default();
    let initial = ast.variables.iter().filter_map(|variable| variable.init.as_ref());
    initial.for_each(|init| initial_functions(ast, init, &mut found));
    found.order.iter().map(|id| id.index() as u32).collect()
}

fn initial_functions(ast: &ast::Module, init: &ast::Initializer, found: &mut Found) {
    match init {
        ast::Initializer::List(list) => {
            list.iter().for_each(|item| initial_functions(ast, item, found));
        }
        ast::Initializer::Address(address) => {
            if let SymbolRef::Function(id) = address.symbol {
                found.add_named(ast, id);
            }
        }
        ast::Initializer::Value(_) | ast::Initializer::Properties(_) => {}
    }
}

/// What can be said of a kernel before it is compiled; `None` if its parameters overflow.
pub(crate) fn info(ast: &ast::Module, id: FunctionId) -> Option<KernelInfo> {
    let function = ast.function(id);
    let layout = function.parameter_layout()?;
    let params = layout
        .params
        .iter()
        .map(|slot| {
            Some(ParamLayout {
                offset: u32::try_from(slot.offset_bytes).ok()?,
                size: u32::try_from(slot.size_bytes).ok()?,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let dim = |d: [u32; 3]| Dim3 { x: d[0], y: d[1], z: d[2] };
    let directives = &function.directives;
    let required_block = directives.reqntid.map(dim);
    let most = directives.maxntid.map(dim).map(Dim3::count);
    Some(KernelInfo {
        name: ast.name(function.name).to_owned(),
        params,
        param_bytes: u32::try_from(layout.size_bytes).ok()?,
        max_threads_per_block: most
            .and_then(|m| u32::try_from(m).ok())
            .map_or(THREADS_PER_BLOCK_MAX, |m| m.clamp(1, THREADS_PER_BLOCK_MAX)),
        required_block,
        required_cluster: directives.reqnctapercluster.map(dim),
        cluster_must_be_set: directives.explicitcluster && directives.reqnctapercluster.is_none(),
        cluster_blocks_max: directives.maxclusterrank,
        target: ptx::link::target_of(ast, function),
        ..KernelInfo::default()
    })
}
