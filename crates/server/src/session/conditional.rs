//! Conditional nodes of a client's graphs, and their bodies: graphs that are put together like
//! others, under handles of their own, and become a part of the graph that has the node.

use super::Session;
use super::graphs::{Graph, Uses};
use channel::request::{GraphCanChoose, GraphConditional};
use cuda_api::{CUresult, CudaError};

/// Bytes of a condition.
const WORD_BYTES: u64 = 4;

impl Session {
    /// NVIDIA's driver gives conditions numbers of its own, which belong to a graph that it has,
    /// and kernels know no other: only a provider whose conditions are words of memory can take
    /// those of a client.
    pub(super) fn can_choose(&mut self, _: GraphCanChoose) -> Result<(), CudaError> {
        match self.share.device().has_tenants() {
            true => Ok(()),
            false => Err(CudaError::NOT_SUPPORTED),
        }
    }

    pub(super) fn add_conditional(&mut self, request: GraphConditional<'_>) -> CUresult {
        self.can_choose(GraphCanChoose {})?;
        let (address, count) = (request.word.0, request.bodies.len() as u32);
        self.build(request.graph, |session, builder, uses| {
            if !address.is_multiple_of(WORD_BYTES) {
                return Err(CudaError::INVALID_VALUE);
            }
            let word = session.memory.device_range(address, WORD_BYTES)?;
            uses.touch_device(address, WORD_BYTES);
            let bodies = builder.add_conditional(request.rule, word, count)?;
            for (builder, word) in bodies.into_iter().zip(request.bodies) {
                let handle = session.graphs.table.vacant(*word)?;
                let uses = Uses::of(&session.memory);
                session.graphs.table.put(handle, Graph::Building { builder, uses, failed: Ok(()) });
            }
            uses.bodies.extend(request.bodies);
            Ok(())
        })
    }

    /// Takes the bodies of a graph that is made ready, and of their own nodes: what they use is
    /// what it uses. An error is the first thing that was wrong with one of them.
    pub(super) fn gather_bodies(&mut self, uses: &mut Uses) -> CUresult {
        while let Some(word) = uses.bodies.pop() {
            let Graph::Building { uses: body, failed, .. } = self.graphs.table.take(word)? else {
                return Err(CudaError::INVALID_HANDLE);
            };
            failed?;
            uses.join(body);
        }
        Ok(())
    }
}
