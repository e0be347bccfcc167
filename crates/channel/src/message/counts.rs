//! What a server has counted of its clients: in all, by kernel and by stream.

use super::Body;
use crate::codec::{CodecError, Decoder, Encoder, cut};
use std::borrow::Cow;

/// Longest name of a kernel that travels, bytes; of longer ones what is in the middle does not. C++'s templates
/// make names of more than a thousand.
pub const KERNEL_NAME_BYTES_MAX: usize = 2048;
/// Rows of kernels in one message: with the longest names they still fit.
pub const KERNEL_ROWS_MAX: usize = 24;
/// Rows of streams in one message.
pub const STREAM_ROWS_MAX: usize = 256;

/// Structures of numbers, written in their order. Behind the arrow stand the fields that a structure has got
/// since version 3 of the protocol.
macro_rules! numbers {
    ($($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $ty:ident,)*
        $(=> $($(#[$new_doc:meta])* pub $new:ident: $new_ty:ident,)*)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
            $($($(#[$new_doc])* pub $new: $new_ty,)*)?
        }

        impl Body for $name {
            fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
                $(to.$ty(self.$field);)*
                $($(to.grown(|to| {
                    to.$new_ty(self.$new);
                    Ok(())
                })?;)*)?
                Ok(())
            }
            fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
                Ok(Self {
                    $($field: from.$ty()?,)*
                    $($($new: from.grown(|from| from.$new_ty())?,)*)?
                })
            }
        }
    )*};
}
pub(super) use numbers;

numbers! {
    /// What a client, or one of its streams, has submitted.
    pub struct SubmittedCounts {
        /// Kernels, those of graphs included.
        pub kernels: u64,
        /// Copies and fills.
        pub copies: u64,
        /// Bytes copied from host memory to the device.
        pub bytes_in: u64,
        /// Bytes copied from the device to host memory.
        pub bytes_out: u64,
        /// Bytes copied or filled on the device.
        pub bytes_within: u64,
    }

    /// What became of a client's requests so far.
    pub struct ClientCounts {
        /// Points that the program waits for, or may.
        pub waits: u64,
        /// Kernels that are submitted and not known to be done, now.
        pub in_flight: u64,
        /// Time for which its work was held back, ns.
        pub throttled_ns: u64,
        /// How often it met a limit.
        pub limits_hit: u64,
        /// Calls of the driver that submitted its work; 0 where these are not timed.
        pub submissions: u64,
        /// Time in them, ns, by a sample of them.
        pub submitting_ns: u64,
        /// Its streams, now.
        pub streams: u64,
        /// 1 if there was a time in which nothing was counted: then there was more than is said.
        pub uncounted: u32,
        =>
        /// How often the program slept because its ring was full.
        pub ring_stalls: u64,
    }

    /// Launches of one kernel with one shape.
    pub struct ShapeCounts {
        /// Blocks, by x.
        pub grid_x: u32,
        /// Blocks, by y.
        pub grid_y: u32,
        /// Blocks, by z.
        pub grid_z: u32,
        /// Threads of a block, by x.
        pub block_x: u32,
        /// Threads of a block, by y.
        pub block_y: u32,
        /// Threads of a block, by z.
        pub block_z: u32,
        /// Dynamic shared memory of a block, bytes.
        pub dynamic_shared_bytes: u32,
        /// Blocks that an SM has room for; 0 if that is not known.
        pub blocks_per_sm: u32,
        /// Registers of a thread.
        pub registers: u32,
        /// Static shared memory of a block, bytes.
        pub shared_bytes: u32,
        /// Local memory of a thread, bytes.
        pub local_bytes: u32,
        /// Launches by themselves.
        pub launches: u64,
        /// Launches by graphs.
        pub launches_in_graphs: u64,
        /// Blocks of all launches.
        pub blocks: u64,
        /// Threads of all launches.
        pub threads: u64,
        /// Launches that were timed.
        pub samples: u64,
        /// Mean time of those on the device, ns.
        pub mean_ns: u64,
        /// 1 if the times are CUPTI's, 0 if they are by events.
        pub by_cupti: u32,
        /// Time on the device of launches whose time counts here, ns: of those by graphs only where all
        /// kernels of graphs are timed each, else the graphs count as a whole.
        pub device_ns: u64,
        /// SM * ns in which those had a block there.
        pub sm_active_ns: u64,
        /// Warp * ns in which their warps were resident.
        pub warp_ns: u64,
    }

    /// What a provider that counts exactly has counted of the kernels of one name, over all launches
    /// that ended.
    pub struct ExactCounts {
        /// Launches.
        pub launches: u64,
        /// Blocks.
        pub blocks: u64,
        /// From start to end, ns; launches that overlap count each.
        pub device_ns: u64,
        /// Time that threads spent in its blocks, ns.
        pub worker_ns: u64,
        /// SM * ns in which a launch had a block there.
        pub sm_active_ns: u64,
        /// Warp * ns in which warps were resident.
        pub warp_ns: u64,
        /// Instructions, once a warp.
        pub warp_instructions: u64,
        /// Instructions, once a thread that took part.
        pub thread_instructions: u64,
        /// Bytes read from and written to global memory.
        pub global_bytes: u64,
    }

    /// What was submitted to one stream.
    pub struct StreamCounts {
        /// Its slot: 0 is the legacy default stream; [`PAST_STREAMS`](StreamCounts::PAST_STREAMS)
        /// stands for all that are gone.
        pub slot: u32,
        /// What was.
        pub kernels: u64,
        /// Copies and fills.
        pub copies: u64,
        /// Bytes copied from host memory to the device.
        pub bytes_in: u64,
        /// Bytes copied from the device to host memory.
        pub bytes_out: u64,
        /// Bytes copied or filled on the device.
        pub bytes_within: u64,
        /// Blocks of kernels.
        pub blocks: u64,
        /// Threads of kernels.
        pub threads: u64,
        /// Device time of kernels, ns: what launches of their shapes took before.
        pub device_ns: u64,
        /// Points that the program waits for, or may.
        pub waits: u64,
    }
}

impl StreamCounts {
    /// The slot that stands for all streams that are gone.
    pub const PAST_STREAMS: u32 = u32::MAX;
}

/// A part of what is counted of clients by kernel and stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsPart {
    /// True if another part follows.
    pub more: bool,
    /// The client's number at the server.
    pub client: u32,
    /// Launches by name and shape.
    pub shapes: Vec<(String, ShapeCounts)>,
    /// What the provider has counted exactly, by name; empty where it does not.
    pub exact: Vec<(String, ExactCounts)>,
    /// By stream.
    pub streams: Vec<StreamCounts>,
}

/// A kernel's name as it travels: of a long one its begin and its end, with a number between them by which it differs
/// from others that have the same.
pub(super) fn travelling(name: &str) -> Cow<'_, str> {
    if name.len() <= KERNEL_NAME_BYTES_MAX {
        return Cow::Borrowed(name);
    }
    // FNV-1a: the same in every process.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let middle = format!("...{hash:016x}...");
    let half = (KERNEL_NAME_BYTES_MAX - middle.len()) / 2;
    let end = (name.len() - half..).find(|from| name.is_char_boundary(*from));
    let end = end.and_then(|from| name.get(from..)).unwrap_or_default();
    Cow::Owned(format!("{}{middle}{end}", cut(name, half)))
}

fn write_rows<T: Body>(to: &mut Encoder, rows: &[(String, T)]) -> Result<(), CodecError> {
    to.list(rows, KERNEL_ROWS_MAX, |to, (name, row)| {
        to.text(&travelling(name), KERNEL_NAME_BYTES_MAX);
        row.write_within(to)
    })
}

fn read_rows<T: Body>(from: &mut Decoder<'_>) -> Result<Vec<(String, T)>, CodecError> {
    from.list(KERNEL_ROWS_MAX, |from| {
        Ok((from.text(KERNEL_NAME_BYTES_MAX)?, T::read_within(from)?))
    })
}

impl CountsPart {
    /// A client's counts as parts, each of which fits into a message; `more` is true of all.
    pub fn split(
        client: u32,
        shapes: Vec<(String, ShapeCounts)>,
        exact: Vec<(String, ExactCounts)>,
        streams: Vec<StreamCounts>,
    ) -> Vec<Self> {
        let part = || Self { more: true, client, ..Self::default() };
        let shapes =
            shapes.chunks(KERNEL_ROWS_MAX).map(|rows| Self { shapes: rows.to_vec(), ..part() });
        let exact =
            exact.chunks(KERNEL_ROWS_MAX).map(|rows| Self { exact: rows.to_vec(), ..part() });
        let streams =
            streams.chunks(STREAM_ROWS_MAX).map(|rows| Self { streams: rows.to_vec(), ..part() });
        shapes.chain(exact).chain(streams).collect()
    }
}

impl Body for CountsPart {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.bool(self.more);
        to.u32(self.client);
        write_rows(to, &self.shapes)?;
        write_rows(to, &self.exact)?;
        to.list(&self.streams, STREAM_ROWS_MAX, |to, stream| stream.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            more: from.bool()?,
            client: from.u32()?,
            shapes: read_rows(from)?,
            exact: read_rows(from)?,
            streams: from.list(STREAM_ROWS_MAX, StreamCounts::read_within)?,
        })
    }
}
