//! What is said on the sockets: between client, daemon, server and the shell.
//!
//! A message is one datagram: {magic u32, protocol version u16, kind u16} and a body. File
//! descriptors travel beside it (see [`Message::fds`]).
//!
//! Each side speaks this version and the one before it. Who connects begins in its newest; what it
//! is answered in is the version to speak from then on, and a first message in a newer one is
//! refused and said again ([`in_their_version`](crate::socket::in_their_version)). Within a version
//! structures may grow at their end ([`codec`](crate::codec)); a kind of message is only sent in
//! versions that have it.
//!
//! | from | to | messages |
//! | --- | --- | --- |
//! | client | daemon | [`Hello`], [`Describe`](Message::Describe) |
//! | daemon | client | [`Devices`] |
//! | server or daemon | client | [`Welcome`], [`Refused`], [`ChunkFd`](Message::ChunkFd), [`ManagedFd`](Message::ManagedFd) |
//! | client | server | [`HostFd`](Message::HostFd), [`ImageFd`](Message::ImageFd) |
//! | shell | daemon | [`Command`] |
//! | daemon | shell | [`Reply`] |
//! | describing process | daemon | [`Devices`], [`Failed`](Message::Failed) |
//! | daemon | server | [`Settings`], [`Client`], [`Ask`], [`Shutdown`](Message::Shutdown), [`Move`](Message::Move), [`MoveOne`](Message::MoveOne), [`Leave`](Message::Leave) |
//! | server | daemon | [`Ready`](Message::Ready), [`Failed`](Message::Failed), [`Answer`], [`ClientGone`](Message::ClientGone), [`Exiting`](Message::Exiting), [`Fault`](Message::Fault), [`Candidate`](Message::Candidate), [`ClientFault`], [`Replace`](Message::Replace), [`WindowFree`](Message::WindowFree), [`MemoryWanted`](Message::MemoryWanted), [`Isolate`](Message::Isolate), [`Restored`](Message::Restored), [`Serving`] |

mod accounting;
mod counts;
mod devices;
mod fault;
mod handshake;
mod question;
mod serving;
mod settings;
mod shell;
mod status;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::samples;
mod trace;

pub use accounting::EndedClient;
pub use counts::{
    ClientCounts, CountsPart, ExactCounts, KERNEL_NAME_BYTES_MAX, KERNEL_ROWS_MAX, ShapeCounts,
    StreamCounts, SubmittedCounts,
};
pub use devices::{DEVICE_ATTRIBUTES, DEVICES_MAX, Device, Devices, PEER_ATTRIBUTES, Peer};
pub use fault::{ClientFault, Restored};
pub use handshake::{
    Client, Hello, Refused, Release, WELCOME_HAS_TENANTS, WELCOME_TAKES_UNMARKED,
    WELCOME_WANTS_NOTES, Welcome, Window, pid_of_process, process_number,
};
pub use question::{Answer, Answered, Ask, Question, Schedule};
pub use serving::Serving;
pub use settings::{
    Change, ClientLimits, GROUP_BYTES_MAX, JOB_BYTES_MAX, MemoryGroup, PARTITION_BYTES_MAX,
    RequestedLimits, SetBy, Settings,
};
pub use shell::{Command, Reply};
pub use status::{
    CONTEXT_CALLS_MAX, CallCounts, ClientScheduling, ClientStatus, ClientWork, ContextStatus,
    DeviceCounts, DeviceStatus, STATUS_CLIENTS_MAX, ServerStatus, WaitingCall, WarmStatus,
};
pub use trace::{
    TRACE_CLIENTS_MAX, TRACE_NAMES_MAX, TRACE_RECORDS_MAX, TraceClient, TraceEntry, TracePart,
    trace_kind,
};

use crate::codec::{CodecError, Decoder, Encoder};
use crate::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, build};
use core::fmt;

/// First word of each message: "OMPS".
pub const MESSAGE_MAGIC: u32 = u32::from_le_bytes(*b"OMPS");
/// Largest message, bytes: below every default of a socket's buffer (208 KiB), so that one always
/// fits, and enough for [`DEVICES_MAX`] devices with all their attributes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// File descriptors that a message can carry: none has more than two; room for two more.
pub const FDS_MAX: usize = 4;

/// Longest command line of a client that travels, bytes: enough to recognise it.
pub const COMMAND_LINE_BYTES_MAX: usize = 1024;
/// Longest text of settings of scheduling that travels, bytes.
pub const SCHEDULING_BYTES_MAX: usize = 512;
/// Longest command of a shell, bytes.
pub const COMMAND_BYTES_MAX: usize = 4096;
/// Longest piece of a reply to a shell, bytes; longer replies are several messages.
pub const REPLY_TEXT_BYTES_MAX: usize = 32 << 10;
/// Longest explanation of a refusal or failure, bytes.
pub const REASON_BYTES_MAX: usize = 1024;
/// Longest path of a log that travels, bytes: PATH_MAX; one that is longer is left out.
pub const PATH_BYTES_MAX: usize = 4096;
/// Longest name of a device or a version, bytes: cuDeviceGetName's callers give 256 at most.
pub const NAME_BYTES_MAX: usize = 256;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// They do not begin as a message does: the peer is something else.
    Magic,
    /// The peer speaks a version that this build does not.
    Version {
        /// The peer's version.
        theirs: u16,
    },
    /// There is no such kind.
    Kind {
        /// The number of the kind.
        kind: u16,
    },
    /// The body is not one of that kind.
    Body {
        /// The number of the kind.
        kind: u16,
        /// What is wrong.
        error: CodecError,
    },
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong {
        /// Its length, bytes.
        bytes: usize,
    },
    /// It came with another number of file descriptors than its kind has.
    Fds {
        /// The number of the kind.
        kind: u16,
        /// How many came.
        found: usize,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("the peer does not speak this protocol"),
            Self::Version { theirs } => write!(
                f,
                "the peer speaks protocol version {theirs}, this build ({}) versions \
                 {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}: have both of releases that follow \
                 each other, or of the same",
                build()
            ),
            Self::Kind { kind } => write!(f, "there is no message of kind {kind}"),
            Self::Body { kind, error } => write!(f, "a message of kind {kind} is wrong: {error}"),
            Self::TooLong { bytes } => {
                write!(f, "a message of {bytes} bytes is above the maximum {MESSAGE_BYTES_MAX}")
            }
            Self::Fds { kind, found } => {
                write!(f, "a message of kind {kind} came with {found} file descriptors")
            }
        }
    }
}

impl core::error::Error for MessageError {}

/// The body of a kind of message.
pub(crate) trait Body: Sized {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError>;
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError>;

    /// As a part of another structure.
    fn write_within(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.within(|to| self.write(to))
    }
    /// As a part of another structure.
    fn read_within(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        from.within(Self::read)
    }
}

impl Body for () {
    fn write(&self, _: &mut Encoder) -> Result<(), CodecError> {
        Ok(())
    }
    fn read(_: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(())
    }
}

macro_rules! integer_bodies {
    ($($int:ident),*) => {$(
        impl Body for $int {
            fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
                to.$int(*self);
                Ok(())
            }
            fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
                from.$int()
            }
        }
    )*};
}
integer_bodies!(u32, u64, bool);

/// A reason: a text of at most [`REASON_BYTES_MAX`].
impl Body for String {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.text(self, REASON_BYTES_MAX);
        Ok(())
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        from.text(REASON_BYTES_MAX)
    }
}

macro_rules! messages {
    ($($(#[$doc:meta])* $number:literal $kind:ident($body:ty), fds $fds:literal;)*) => {
        /// A message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Message {
            $($(#[$doc])* $kind($body),)*
        }

        impl Message {
            /// All kinds, by number and name.
            #[cfg(test)]
            pub(crate) const KINDS: &[(u16, &str)] = &[$(($number, stringify!($kind)),)*];

            /// The number of its kind.
            pub const fn kind(&self) -> u16 {
                match self { $(Self::$kind(_) => $number,)* }
            }

            /// The name of its kind.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => stringify!($kind),)* }
            }

            /// How many file descriptors travel with it.
            pub const fn fds(&self) -> usize {
                match self { $(Self::$kind(_) => $fds,)* }
            }

            fn write_body(&self, to: &mut Encoder) -> Result<(), CodecError> {
                match self { $(Self::$kind(body) => Body::write(body, to),)* }
            }

            fn read_body(kind: u16, from: &mut Decoder<'_>) -> Option<Result<Self, CodecError>> {
                match kind {
                    $($number => Some(<$body as Body>::read(from).map(Self::$kind)),)*
                    _ => None,
                }
            }
        }
    };
}

messages! {
    /// A client introduces itself. With it: its shared region's file.
    1 Hello(Hello), fds 1;
    /// The server takes the client.
    2 Welcome(Welcome), fds 0;
    /// Daemon or server does not take the client.
    3 Refused(Refused), fds 0;
    /// Pinned host memory for the next HostMap request. With it: the memory's file.
    4 HostFd(()), fds 1;
    /// The image for the next module to load. With it: the image's file, see
    /// [`sealed_image`](crate::memfd::sealed_image).
    5 ImageFd(()), fds 1;
    /// A chunk of device memory that was made for the client; the number is its offset in the
    /// window. With it: the provider's file of the chunk.
    6 ChunkFd(u64), fds 1;
    /// The memory of a loaded module's managed variables. With it: the memory's file.
    7 ManagedFd(()), fds 1;
    /// A client asks for the daemon's devices; the connection ends with the answer.
    8 Describe(()), fds 0;
    /// The daemon's devices.
    9 Devices(Devices), fds 0;

    /// A command of the shell.
    16 Command(Command), fds 0;
    /// An answer to a command.
    17 Reply(Reply), fds 0;

    /// The server is ready for clients; its process id.
    32 Ready(u32), fds 0;
    /// The server cannot start or go on; why.
    33 Failed(String), fds 0;
    /// A client for the server. With it: the client's socket, the client's region, in this order.
    34 Client(Client), fds 2;
    /// The daemon asks for something.
    35 Ask(Ask), fds 0;
    /// What the server says to that.
    36 Answer(Answer), fds 0;
    /// What clients of the server are given, unless they ask for less: for its log.
    37 Settings(Settings), fds 0;
    /// End; true: at once, with clients; false: when the last client is gone.
    39 Shutdown(bool), fds 0;
    /// A client that the server was handed is gone, or was refused: its process id.
    40 ClientGone(u32), fds 0;
    /// The server ends now.
    41 Exiting(()), fds 0;
    /// A fault has spoiled the server's context; which. It takes no more clients, and ends.
    42 Fault(String), fds 0;
    /// A process that may have caused the server's fault, where several may have: each of them goes
    /// on at a server of its own.
    43 Candidate(u32), fds 0;
    /// The server asks for another one in its place, to which its clients can go; why.
    45 Replace(String), fds 0;
    /// The windows of addresses with that number, which a client had, can be another one's: the server
    /// may need them longer than the client.
    46 WindowFree(u32), fds 0;
    /// A client whose group is within its soft limit finds no device memory: its process id. It tries
    /// again for some seconds.
    47 MemoryWanted(u32), fds 0;
    /// The clients shall go on at another server: finish what is in flight, then ask them to.
    44 Move(()), fds 0;
    /// A process shall be alone at a server, if the daemon has one for it: its kernels run for long, or it waits
    /// behind stalled work.
    50 Isolate(u32), fds 0;
    /// A process shall go on at another server, as by Move; the others stay.
    51 MoveOne(u32), fds 0;
    /// The first word of a server to a daemon that did not start it. The daemon takes it over and sends
    /// its settings, or refuses.
    52 Serving(Serving), fds 0;
    /// A client has declared what it had at another server, and what becomes of its work.
    53 Restored(Restored), fds 0;
    /// A server whose context is spoiled may end: its clients have gone on at the next one.
    54 Leave(()), fds 0;
    /// A client has ended; what it has used.
    49 Ended(EndedClient), fds 0;
    /// A client has caused a fault, or may have.
    55 ClientFault(ClientFault), fds 0;
}

impl Message {
    /// The datagram, for a peer of this version.
    ///
    /// # Errors
    /// If a list has more items than its maximum, or all together is too long.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        self.encode_for(PROTOCOL_VERSION)
    }

    /// The datagram, for a peer that speaks a version.
    ///
    /// # Errors
    /// As of [`Message::encode`]; and if this build does not speak that version.
    pub fn encode_for(&self, version: u16) -> Result<Vec<u8>, MessageError> {
        check_version(version)?;
        let mut to = Encoder::new(version);
        to.u32(MESSAGE_MAGIC);
        to.u16(version);
        to.u16(self.kind());
        self.write_body(&mut to)
            .map_err(|error| MessageError::Body { kind: self.kind(), error })?;
        let bytes = to.finish();
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        Ok(bytes)
    }

    /// Reads a datagram of any version that this build speaks.
    ///
    /// # Errors
    /// What is wrong with it, see [`MessageError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        Self::decode_with_version(bytes).map(|(message, _)| message)
    }

    /// Reads a datagram, and says in which version it is.
    ///
    /// # Errors
    /// As of [`Message::decode`].
    pub fn decode_with_version(bytes: &[u8]) -> Result<(Self, u16), MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong { bytes: bytes.len() });
        }
        let mut from = Decoder::new(bytes);
        if from.u32() != Ok(MESSAGE_MAGIC) {
            return Err(MessageError::Magic);
        }
        let version = from.u16().map_err(|_| MessageError::Magic)?;
        check_version(version)?;
        from.set_version(version);
        let kind = from.u16().map_err(|_| MessageError::Magic)?;
        let message = Self::read_body(kind, &mut from).ok_or(MessageError::Kind { kind })?;
        message
            .and_then(|message| from.end().map(|()| (message, version)))
            .map_err(|error| MessageError::Body { kind, error })
    }
}

fn check_version(theirs: u16) -> Result<(), MessageError> {
    match (PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(&theirs) {
        true => Ok(()),
        false => Err(MessageError::Version { theirs }),
    }
}
