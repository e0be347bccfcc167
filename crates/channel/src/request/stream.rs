//! Requests about streams and events.

use super::payloads;
use cuda_api::{CUevent, CUstream};

/// [`RecordEvent::value`] of a record behind which no word is written: a server that takes that says so
/// ([`WELCOME_TAKES_UNMARKED`](crate::message::WELCOME_TAKES_UNMARKED)).
pub const RECORD_UNMARKED: u32 = 0;

payloads! {
    /// The device writes `value` into the stream's completion word when all that was posted to the
    /// stream before is done.
    Fence {
        /// The stream.
        stream: CUstream,
        /// What is written.
        value: u32,
    }

    /// When all that was posted to the stream before is done, the server wakes the threads that
    /// sleep on the stream's completion word. For waits that outlast spinning.
    Notify {
        /// The stream.
        stream: CUstream,
        /// The value that is awaited.
        value: u32,
    }

    /// cuLaunchHostFunc: when the stream gets there, the server writes `ticket` into the slot and
    /// bumps and wakes the host-call signal; the stream goes on when the slot holds
    /// `ticket | HOST_CALL_DONE`.
    HostFunc {
        /// The stream.
        stream: CUstream,
        /// Index of the host-call slot.
        slot: u32,
        /// Which of the slot's uses this is: 1 to 2^31 - 1.
        ticket: u32,
    }

    /// Says what becomes of work that was in flight at another server, when all that the client has is
    /// declared: for the log.
    Repeats {
        /// Operations that are posted again behind this.
        operations: u32,
        /// Of them, kernels and graphs.
        kernels: u32,
        /// 1 if there was work that cannot be repeated: the program gets an error.
        lost: u32,
    }

    /// Makes a stream under a handle that the client chose; the handle's index is its slot.
    CreateStream {
        /// The handle.
        stream: CUstream,
        /// CUstream_flags.
        flags: u32,
        /// Its priority.
        priority: i32,
    }

    /// As [`CreateStream`], whose blocks stay on some neighbouring SMs.
    CreateGreenStream {
        /// The handle.
        stream: CUstream,
        /// CUstream_flags.
        flags: u32,
        /// Its priority.
        priority: i32,
        /// Number of the first SM.
        sm_first: u32,
        /// How many.
        sms: u32,
        /// The default stream of the stream's context, with which it takes turns if it is a blocking
        /// one: the stream itself if it is that, NULL for the legacy default stream.
        default: CUstream,
    }

    /// Destroys a stream when its work is done.
    DestroyStream {
        /// The stream.
        stream: CUstream,
    }

    /// Makes an event under a handle that the client chose.
    CreateEvent {
        /// The handle.
        event: CUevent,
        /// CUevent_flags.
        flags: u32,
    }

    /// Destroys an event.
    DestroyEvent {
        /// The event.
        event: CUevent,
    }

    /// Records an event in a stream, followed by a [`Fence`] unless the value is [`RECORD_UNMARKED`].
    RecordEvent {
        /// The event.
        event: CUevent,
        /// The stream.
        stream: CUstream,
        /// What is written into the stream's completion word.
        value: u32,
    }

    /// Makes a stream wait for an event.
    WaitEvent {
        /// The stream.
        stream: CUstream,
        /// The event.
        event: CUevent,
    }

    /// Time between two recorded events.
    ElapsedTime {
        /// The earlier event.
        start: CUevent,
        /// The later event.
        end: CUevent,
    }

    /// Reply to [`ElapsedTime`].
    ElapsedTimeReply {
        /// The time, ms.
        milliseconds: f32,
    }
}
