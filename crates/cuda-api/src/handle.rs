//! Handles that a client makes: (kind, index, generation) in one word, never a pointer.
//!
//! The client numbers its own objects, so making one needs no round trip. A word that was never
//! given out, or whose object is gone, decodes to another generation or not at all, and is
//! CUDA_ERROR_INVALID_HANDLE.

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum HandleKind {
    /// CUcontext.
    Context = 1,
    /// CUmodule.
    Module = 2,
    /// CUfunction.
    Function = 3,
    /// CUlibrary.
    Library = 4,
    /// CUkernel.
    Kernel = 5,
    /// CUstream.
    Stream = 6,
    /// CUevent.
    Event = 7,
    /// CUmemoryPool.
    MemoryPool = 8,
    /// CUlinkState.
    LinkState = 9,
    /// CUgraph.
    Graph = 10,
    /// CUgraphNode.
    GraphNode = 11,
    /// CUgraphExec.
    GraphExec = 12,
    /// CUuserObject.
    UserObject = 13,
    /// CUmemGenericAllocationHandle.
    Memory = 14,
    /// CUarray.
    Array = 15,
    /// CUmipmappedArray.
    MipmappedArray = 16,
    /// CUdevResourceDesc.
    ResourceDescription = 17,
    /// CUgreenCtx, and the context of one.
    GreenContext = 18,
}

impl HandleKind {
    const ALL: [Self; 18] = [
        Self::Context,
        Self::Module,
        Self::Function,
        Self::Library,
        Self::Kernel,
        Self::Stream,
        Self::Event,
        Self::MemoryPool,
        Self::LinkState,
        Self::Graph,
        Self::GraphNode,
        Self::GraphExec,
        Self::UserObject,
        Self::Memory,
        Self::Array,
        Self::MipmappedArray,
        Self::ResourceDescription,
        Self::GreenContext,
    ];
}

/// A handle taken apart. In its word: 0x48 in bits 56..64, so that neither a small integer nor an
/// address of a process can be one, kind in 48..56, generation in 24..48, index in 0..24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// What it stands for.
    pub kind: HandleKind,
    /// Place in the table of its kind; below [`Handle::INDEX_MAX`].
    pub index: u32,
    /// How often that place was reused; wraps at [`Handle::GENERATION_MAX`].
    pub generation: u32,
}

const MARK: u64 = 0x48;

impl Handle {
    /// Largest index: 24 bits.
    pub const INDEX_MAX: u32 = (1 << 24) - 1;
    /// Largest generation: 24 bits.
    pub const GENERATION_MAX: u32 = (1 << 24) - 1;

    /// The word that a program holds.
    pub const fn to_word(self) -> u64 {
        MARK << 56
            | (self.kind as u64) << 48
            | ((self.generation & Self::GENERATION_MAX) as u64) << 24
            | (self.index & Self::INDEX_MAX) as u64
    }

    /// Takes a word apart; `None` if no handle looks like that.
    pub fn from_word(word: u64) -> Option<Self> {
        let kind = (word >> 48) as u8;
        let kind = *HandleKind::ALL.get(usize::from(kind).checked_sub(1)?)?;
        (word >> 56 == MARK).then_some(Self {
            kind,
            index: word as u32 & Self::INDEX_MAX,
            generation: (word >> 24) as u32 & Self::GENERATION_MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_apart_as_they_were_put_together() {
        for kind in HandleKind::ALL {
            for (index, generation) in [(0, 0), (7, 1), (Handle::INDEX_MAX, Handle::GENERATION_MAX)]
            {
                let handle = Handle { kind, index, generation };
                assert_eq!(Handle::from_word(handle.to_word()), Some(handle));
            }
        }
    }

    #[test]
    fn literals_and_addresses_are_no_handles() {
        for word in [0, 1, 2, 0x1000_0000_0000, 0x7fff_ffff_f000, u64::MAX, 0x48 << 56] {
            assert_eq!(Handle::from_word(word), None, "{word:#x}");
        }
    }
}
