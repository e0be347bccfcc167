//! Conditional nodes of a client's graphs, and their bodies: graphs that are put together like
//! others, under handles of their own, and become a part of the graph that has the node.
//!
//! What they look at is a word of the client's memory where the provider takes words. NVIDIA's driver
//! has conditions of its own instead, and gives them numbers in each graph, 1, 2, ...: a client
//! counts likewise, long before its graph is put together here, and what it counted is checked then.

use crate::device::{Condition, GraphBuilder};
use crate::session::graph::table::{Graph, Graphs, Uses};
use crate::session::memory::Memory;
use channel::request::{GraphCanChoose, GraphCondition, GraphConditional, GraphConditions};
use cuda_api::constants::graph_conditional::ASSIGN_DEFAULT;
use cuda_api::{CUresult, CudaError};

/// Bytes of a word.
const WORD_BYTES: u64 = 4;

impl Graphs {
    pub(in crate::session) fn can_choose(
        &self,
        _: GraphCanChoose,
    ) -> Result<GraphConditions, CudaError> {
        let numbered = self.share.numbers_conditions()?.into();
        Ok(GraphConditions { numbered })
    }

    pub(in crate::session) fn add_condition(
        &mut self,
        request: GraphCondition,
        memory: &Memory,
    ) -> CUresult {
        let numbered = !self.share.device().has_tenants();
        self.build(request.graph, memory, |_, builder, uses| {
            uses.recording = None;
            if !numbered || request.flags & !ASSIGN_DEFAULT != 0 {
                return Err(CudaError::INVALID_VALUE);
            }
            match builder.add_condition(request.default, request.flags)? == request.condition {
                true => builder.add_empty(),
                false => Err(CudaError::NOT_SUPPORTED),
            }
        })
    }

    pub(in crate::session) fn add_conditional(
        &mut self,
        request: GraphConditional<'_>,
        memory: &Memory,
    ) -> CUresult {
        let count = request.bodies.len() as u32;
        self.build(request.graph, memory, |graphs, builder, uses| {
            uses.recording = None;
            let condition = graphs.condition(request.condition, memory, uses)?;
            let bodies = builder.add_conditional(request.rule, condition, count)?;
            for (builder, word) in bodies.into_iter().zip(request.bodies) {
                let handle = graphs.table.vacant(*word)?;
                let uses = Uses::of(memory);
                graphs.table.put(handle, Graph::Building { builder, uses, failed: Ok(()) });
            }
            uses.bodies.extend(request.bodies);
            Ok(())
        })
    }

    /// The condition that a client means.
    fn condition(
        &self,
        said: u64,
        memory: &Memory,
        uses: &mut Uses,
    ) -> Result<Condition, CudaError> {
        if !self.share.device().has_tenants() {
            return Ok(Condition::Numbered(said));
        }
        if !said.is_multiple_of(WORD_BYTES) {
            return Err(CudaError::INVALID_VALUE);
        }
        let word = memory.device_range(said, WORD_BYTES)?;
        uses.touch_device(said, WORD_BYTES);
        Ok(Condition::Word(word))
    }

    /// Takes the bodies of a graph that is made ready, and of their own nodes: what they use is
    /// what it uses. An error is the first thing that was wrong with one of them.
    pub(in crate::session) fn gather_bodies(
        &mut self,
        whole: &mut GraphBuilder,
        uses: &mut Uses,
    ) -> CUresult {
        while let Some(word) = uses.bodies.pop() {
            let graph = self.table.take(word)?;
            let Graph::Building { builder, uses: body, failed } = graph else {
                return Err(CudaError::INVALID_HANDLE);
            };
            failed?;
            whole.take_body(builder);
            uses.join(body);
        }
        Ok(())
    }
}
