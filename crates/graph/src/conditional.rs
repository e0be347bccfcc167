//! Conditional nodes: graphs within a graph that run, or do not, as a *condition* says when the
//! device gets there.
//!
//! Kernels set a condition by `cudaGraphSetConditional`, to which a program passes its handle. What
//! that is depends on the device ([`Conditions`]): a word of memory, or a number of the driver's. It
//! belongs to a graph; nodes and graphs made of them keep its memory. A server passes the words of
//! its clients, which are memory of theirs that this process has no table of: the backend says
//! whether there is one.

use crate::id::{GraphId, graph_word};
use crate::memory::Allocation;
use core::ffi::c_uint;
use cuda_api::constants::graph_conditional as kind;
use cuda_api::{CUdevice, CUgraph, CudaError};
use std::sync::Arc;

/// Most bodies of one node: a switch of more cases is a program's mistake.
pub(crate) const BODIES_MAX: c_uint = 4096;

/// Bytes of a condition's word.
pub(crate) const WORD_BYTES: u64 = 4;

/// When which body runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first body if the word is not 0, else the second one if there is one.
    If,
    /// The only body, again and again while the word is not 0.
    While,
    /// The body of the word's number, if there is one.
    Switch,
}

impl Rule {
    /// Of CUgraphConditionalNodeType; CUDA_ERROR_INVALID_VALUE if there is no such type, or it
    /// has no node of so many bodies.
    pub fn new(number: c_uint, bodies: c_uint) -> Result<Self, CudaError> {
        match (number, bodies) {
            (kind::IF, 1 | 2) => Ok(Self::If),
            (kind::WHILE, 1) => Ok(Self::While),
            (kind::SWITCH, 1..=BODIES_MAX) => Ok(Self::Switch),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// CUgraphConditionalNodeType.
    pub fn number(self) -> c_uint {
        match self {
            Self::If => kind::IF,
            Self::While => kind::WHILE,
            Self::Switch => kind::SWITCH,
        }
    }

    /// Which body runs when the word has that value; it may be one beyond the last, which is none.
    pub fn body(self, value: u32) -> Option<usize> {
        match self {
            Self::If => Some(usize::from(value == 0)),
            Self::While => (value != 0).then_some(0),
            Self::Switch => Some(value as usize),
        }
    }
}

/// What the conditions of a device are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// Words of its memory; the handle is the address.
    Words,
    /// Numbers that its driver gives away: 1, 2, ... in a graph with all of its bodies, in the order
    /// in which they are made.
    Numbers,
}

/// A condition that the device's driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedCondition {
    /// Its number, which is its handle.
    pub number: u64,
    /// What it is set to when its graph begins.
    pub default: Option<u32>,
    /// Whose driver has it: each device's counts for itself.
    pub device: CUdevice,
}

/// What decides what runs.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    /// A word, and what it is set to when its graph begins.
    Word { memory: Arc<Allocation>, default: Option<u32>, device: CUdevice },
    /// The device's. It is kept with the graph that is no body.
    Numbered(NumberedCondition),
}

impl Condition {
    /// The memory of a word.
    pub(crate) fn memory(&self) -> Option<&Arc<Allocation>> {
        match self {
            Self::Word { memory, .. } => Some(memory),
            Self::Numbered(_) => None,
        }
    }

    /// The device on which what it chooses runs.
    pub(crate) fn device(&self) -> CUdevice {
        match self {
            Self::Word { device, .. } | Self::Numbered(NumberedCondition { device, .. }) => *device,
        }
    }
}

/// A node that chooses between graphs of its own.
#[derive(Clone, Debug)]
pub struct ConditionalNode {
    /// When which body runs.
    pub rule: Rule,
    /// The condition's handle: a word's address, or a number.
    pub condition: u64,
    /// The condition's device. The kernels of all bodies are on it.
    pub device: CUdevice,
    pub(crate) bodies: Vec<GraphId>,
    /// The bodies' handles, where the program finds them as long as there is the node.
    pub(crate) shown: Arc<[CUgraph]>,
    /// The word's memory if this process made it.
    _memory: Option<Arc<Allocation>>,
}

impl ConditionalNode {
    pub(crate) fn new(
        rule: Rule,
        (condition, device): (u64, CUdevice),
        bodies: Vec<GraphId>,
        memory: Option<Arc<Allocation>>,
    ) -> Self {
        let shown = bodies.iter().map(|id| graph_word(*id)).collect();
        Self { rule, condition, device, bodies, shown, _memory: memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_numbers_of_bodies() {
        assert_eq!(Rule::new(kind::IF, 2), Ok(Rule::If));
        assert_eq!(Rule::new(kind::SWITCH, 7), Ok(Rule::Switch));
        let wrong = [(kind::IF, 0), (kind::IF, 3), (kind::WHILE, 2), (kind::SWITCH, 0), (3, 1)];
        for (number, bodies) in wrong {
            assert_eq!(Rule::new(number, bodies), Err(CudaError::INVALID_VALUE));
        }
        for rule in [Rule::If, Rule::While, Rule::Switch] {
            assert_eq!(Rule::new(rule.number(), 1), Ok(rule));
        }
    }

    #[test]
    fn the_word_chooses() {
        assert_eq!([5, 0].map(|word| Rule::If.body(word)), [Some(0), Some(1)]);
        assert_eq!([5, 0].map(|word| Rule::While.body(word)), [Some(0), None]);
        assert_eq!([5, 0].map(|word| Rule::Switch.body(word)), [Some(5), Some(0)]);
    }
}
