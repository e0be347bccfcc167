//! Conditional nodes of graphs on the software GPU.
//!
//! A body runs in the stream of its node, one step after the other: it is laid out in an order in
//! which it can run, and nothing promises that its steps overlap.

use std::sync::Arc;

use graph::{ConditionalNode, NodeKind, Rule, Step};

use super::Driver;
use super::prepare::{Prepared, place_of_kernel, prepared};
use crate::device::stream::Op;
use crate::device::stream::branch::{Branch, Chosen};
use crate::device::stream::transfer::{Copy, Fill, Transfer};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};

/// What a step of a body does, checked.
enum Work {
    Kernel(Prepared),
    Copy(Copy),
    Fill(Fill),
    Conditional(Arc<Conditional>),
}

/// A conditional node made ready.
pub(super) struct Conditional {
    rule: Rule,
    /// The word's address.
    word: u64,
    bodies: Vec<Vec<Work>>,
}

/// What operations need to know of the launch that they belong to.
struct Launcher {
    driver: &'static Driver,
    tenant: Arc<Tenant>,
}

impl Conditional {
    /// Checks the node of `step` with its bodies.
    pub(super) fn new(
        driver: &'static Driver,
        tenant: &Tenant,
        node: &ConditionalNode,
        step: &Step,
    ) -> Result<Self> {
        driver.check_word(tenant, node.condition, false)?;
        let body = |steps: &[Step]| {
            let works = steps.iter().filter_map(|step| work_of(driver, tenant, step).transpose());
            works.collect::<Result<Vec<Work>>>()
        };
        let bodies = step.bodies().map(body).collect::<Result<_>>()?;
        Ok(Self { rule: node.rule, word: node.condition, bodies })
    }

    /// The node as an operation of a stream of that tenant.
    pub(super) fn into_op(self: Arc<Self>, driver: &'static Driver, tenant: Arc<Tenant>) -> Op {
        self.op(&Arc::new(Launcher { driver, tenant }))
    }

    fn op(self: Arc<Self>, launcher: &Arc<Launcher>) -> Op {
        let (address, launcher) = (self.word, launcher.clone());
        Op::Branch(Branch::new(address, move |word| self.choose(word, &launcher)))
    }

    fn choose(&self, word: u32, launcher: &Arc<Launcher>) -> Chosen {
        let body = self.rule.body(word).and_then(|body| self.bodies.get(body));
        let ops = body.into_iter().flatten().map(|work| work.op(launcher)).collect();
        Chosen { ops, again: self.rule == Rule::While && body.is_some() }
    }
}

impl Work {
    fn op(&self, launcher: &Arc<Launcher>) -> Op {
        match self {
            Self::Kernel(prepared) => {
                let Launcher { driver, tenant } = &**launcher;
                prepared.clone().into_op(&driver.device, tenant, 0)
            }
            Self::Copy(copy) => Op::Transfer(Box::new(Transfer::copy(copy.clone()))),
            Self::Fill(fill) => Op::Transfer(Box::new(Transfer::fill(fill.clone()))),
            Self::Conditional(inner) => inner.clone().op(launcher),
        }
    }
}

/// `None` for a step that does nothing. INVALID_VALUE for a kernel of another device, NOT_SUPPORTED for a cooperative launch: each needs memory
/// of its own, which cannot be had while the device chooses.
fn work_of(driver: &'static Driver, tenant: &Tenant, step: &Step) -> Result<Option<Work>> {
    Ok(match step.work() {
        NodeKind::Kernel(node) => {
            // All kernels of a condition are on its device.
            if place_of_kernel(driver, node)?.is_some_and(|place| place.device != tenant.device) {
                return Err(Error::INVALID_VALUE);
            }
            let prepared = prepared(driver, node)?;
            if prepared.is_cooperative() {
                return Err(Error::NOT_SUPPORTED);
            }
            Some(Work::Kernel(prepared))
        }
        NodeKind::Copy(node) => driver.copy_of(tenant, node)?.map(Work::Copy),
        NodeKind::Fill(node) => driver.fill_of(tenant, node)?.map(Work::Fill),
        NodeKind::Conditional(node) => {
            let inner = Conditional::new(driver, tenant, node, step)?;
            Some(Work::Conditional(Arc::new(inner)))
        }
        // Other work is not found in a body.
        _ => None,
    })
}
