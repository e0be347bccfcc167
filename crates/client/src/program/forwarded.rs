//! Generic rows: functions of policy `post` and `call`, whose bodies follow from their rows.
//!
//! A parameter's type says how it travels ([`Travels`]): a value as its word, a handle as the
//! word of what it stands for after a look at the tables, a device pointer after a look at what
//! is allocated; `*mut T` is a result, which a `call` fills from the reply.

use crate::boundary::Out;
use crate::handles::device_of_word;
use crate::program::Client;
use crate::program::launch::posting::Posting;
use crate::program::launch::submission::wire_function;
use crate::program::mode;
use crate::stream::DefaultStream;
use channel::payload::Reader;
use core::ffi::{c_int, c_uint};
use cuda_api::handle::Handle;
use cuda_api::{CUdeviceptr, CUfunction, CUkernel, CUresult, CUstream, CudaError, Word};

/// Most parameters of a row.
const WORDS_MAX: usize = 16;

/// The words of a request as they are put together.
pub(crate) struct Words {
    words: [u64; WORDS_MAX],
    length: usize,
    /// The stream that the request is an operation of.
    stream: Option<Handle>,
}

impl Words {
    pub(crate) const fn new() -> Self {
        Self { words: [0; WORDS_MAX], length: 0, stream: None }
    }

    fn push(&mut self, word: u64) -> CUresult {
        *self.words.get_mut(self.length).ok_or(CudaError::UNKNOWN)? = word;
        self.length += 1;
        Ok(())
    }

    /// Posts the request.
    pub(crate) fn post(&self, state: &mut Posting<'_>, opcode: u16) -> CUresult {
        let words = &self.words[..self.length];
        match self.stream {
            Some(stream) => state.push_words_in(stream, opcode, words).map(|_| ()),
            None => state.push_words(opcode, words),
        }
    }
}

/// How an argument of a generic row travels.
pub(crate) trait Travels: Copy {
    /// Checks it and appends its word, if it has one.
    fn encode(self, client: &Client, default: DefaultStream, words: &mut Words) -> CUresult;

    /// The word that says which device's client the call is for, if it does.
    fn handle(self) -> Option<usize> {
        None
    }

    /// Takes its result out of the reply, if it is one.
    fn receive(self, _reply: &mut Reader<'_>) -> CUresult {
        Ok(())
    }
}

macro_rules! values {
    ($($ty:ty),*) => {$(
        impl Travels for $ty {
            #[inline(always)]
            fn encode(self, _: &Client, _: DefaultStream, words: &mut Words) -> CUresult {
                words.push(self.to_word())
            }
        }
    )*};
}

values!(u8, u16, c_int, c_uint, u64, usize);

impl Travels for CUstream {
    fn handle(self) -> Option<usize> {
        Some(self.0)
    }

    #[inline(always)]
    fn encode(self, client: &Client, default: DefaultStream, words: &mut Words) -> CUresult {
        let stream = client.stream(self, default)?;
        words.stream = Some(stream);
        words.push(stream.to_word())
    }
}

impl Travels for CUdeviceptr {
    fn encode(self, client: &Client, _: DefaultStream, words: &mut Words) -> CUresult {
        client.check_device_range(self.0, 0)?;
        words.push(self.0)
    }
}

impl Travels for CUfunction {
    fn handle(self) -> Option<usize> {
        Some(self.0)
    }

    fn encode(self, client: &Client, _: DefaultStream, words: &mut Words) -> CUresult {
        let handle = client.state().function(self.0)?.0;
        words.push(wire_function(handle).to_word())
    }
}

impl Travels for CUkernel {
    fn handle(self) -> Option<usize> {
        Some(self.0)
    }

    fn encode(self, client: &Client, default: DefaultStream, words: &mut Words) -> CUresult {
        CUfunction(self.0).encode(client, default, words)
    }
}

impl<T: Word> Travels for Out<T> {
    fn encode(self, _: &Client, _: DefaultStream, _: &mut Words) -> CUresult {
        self.required()
    }

    fn receive(self, reply: &mut Reader<'_>) -> CUresult {
        // A result that is none of its type's values is a server's fault, not the program's.
        self.set(reply.value().map_err(|_| CudaError::UNKNOWN)?)
    }
}

/// The client that a call is for: that of its first handle, else the current context's.
#[inline(always)]
pub(crate) fn client_for(handles: &[Option<usize>]) -> Result<&'static Client, CudaError> {
    let named = handles.iter().flatten().find(|word| device_of_word(**word as u64).is_some());
    mode::client_of(named.copied().unwrap_or(0))
}

/// The body of a generic row: `generic!(post name, default, arguments...)`.
macro_rules! generic {
    (post $name:ident, $default:expr $(, $param:expr)*) => {{
        let client = $crate::program::forwarded::client_for(&[$($crate::program::forwarded::Travels::handle($param)),*])?;
        let mut words = $crate::program::forwarded::Words::new();
        $($crate::program::forwarded::Travels::encode($param, client, $default, &mut words)?;)*
        words.post(&mut client.posting()?, cuda_api::number::$name)
    }};
    (call $name:ident, $default:expr $(, $param:expr)*) => {{
        let client = $crate::program::forwarded::client_for(&[$($crate::program::forwarded::Travels::handle($param)),*])?;
        let mut words = $crate::program::forwarded::Words::new();
        $($crate::program::forwarded::Travels::encode($param, client, $default, &mut words)?;)*
        client.call_row(
            cuda_api::number::$name,
            |state| words.post(state, cuda_api::number::$name),
            |_reply| {
                $($crate::program::forwarded::Travels::receive($param, _reply)?;)*
                Ok(())
            },
        )
    }};
}
pub(crate) use generic;
