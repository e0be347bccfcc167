//! How messages' fields become bytes: little-endian integers, texts and lists behind their length.
//!
//! From [`GROWS`] on a structure may get further fields at its end: one within another stands behind its
//! length, a reader skips what it does not know, and a field that is not there has its default. What is
//! written for a version before has neither lengths nor such fields, and must be read to its end.
//!
//! A text that is longer than its maximum is cut when it is written, because texts are for people;
//! a list that is longer is an error. A reader takes no memory before it has checked a length
//! against its maximum and against what is there.

use crate::PROTOCOL_VERSION;
use core::fmt;

/// The first version in which structures may grow.
pub const GROWS: u16 = 3;

/// Bytes that are no value of the type that was read. The text says what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// There are fewer bytes than the value needs.
    TooShort,
    /// There are bytes after the value.
    TooLong,
    /// A length is above its maximum.
    Length {
        /// The length.
        found: usize,
        /// The maximum.
        max: usize,
    },
    /// A text is not UTF-8.
    Text,
    /// A number that stands for none of the type's values.
    Value {
        /// What it should have been.
        what: &'static str,
        /// The number.
        found: u64,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("it ends too early"),
            Self::TooLong => f.write_str("it goes on after its end"),
            Self::Length { found, max } => write!(f, "a length is {found}, the maximum is {max}"),
            Self::Text => f.write_str("a text is not UTF-8"),
            Self::Value { what, found } => write!(f, "{found} is no {what}"),
        }
    }
}

impl core::error::Error for CodecError {}

/// The longest beginning of a text that has at most `max` bytes and whole characters.
pub fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Writes values one after the other.
#[derive(Clone, Debug)]
pub struct Encoder {
    bytes: Vec<u8>,
    version: u16,
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    version: u16,
}

macro_rules! integers {
    ($($int:ident),*) => {
        impl Encoder {
            $(
                #[doc = concat!("Writes a ", stringify!($int), ".")]
                pub fn $int(&mut self, value: $int) {
                    self.bytes.extend_from_slice(&value.to_le_bytes());
                }
            )*
        }
        impl Decoder<'_> {
            $(
                #[doc = concat!("Reads a ", stringify!($int), ".")]
                pub fn $int(&mut self) -> Result<$int, CodecError> {
                    self.array().map($int::from_le_bytes)
                }
            )*
        }
    };
}

integers!(u8, u16, u32, u64, i32);

impl Encoder {
    /// An empty encoder for readers of a version.
    pub const fn new(version: u16) -> Self {
        Self { bytes: Vec::new(), version }
    }

    /// Writes a structure that stands within another one.
    pub fn within(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        if self.version < GROWS {
            return write(self);
        }
        let at = self.bytes.len();
        self.u16(0);
        write(self)?;
        let found = self.bytes.len() - at - 2;
        let max = usize::from(u16::MAX);
        let length = u16::try_from(found).map_err(|_| CodecError::Length { found, max })?;
        self.bytes[at..at + 2].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Writes fields that older readers do not know: the last ones of their structure.
    pub fn grown(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        if self.version < GROWS { Ok(()) } else { write(self) }
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a truth value.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a text, cut to `max` bytes at the end of a character.
    pub fn text(&mut self, text: &str, max: usize) {
        let text = cut(text, max);
        self.u32(text.len() as u32);
        self.raw(text.as_bytes());
    }

    /// Writes a list with at most `max` items.
    pub fn list<T>(
        &mut self,
        items: &[T],
        max: usize,
        mut write: impl FnMut(&mut Self, &T) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        if items.len() > max {
            return Err(CodecError::Length { found: items.len(), max });
        }
        self.u32(items.len() as u32);
        items.iter().try_for_each(|item| write(self, item))
    }
}

impl<'a> Decoder<'a> {
    /// A decoder of those bytes, of a writer of this version.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, version: PROTOCOL_VERSION }
    }

    /// The writer's version, which stands before what depends on it.
    pub const fn set_version(&mut self, version: u16) {
        self.version = version;
    }

    /// Everything must have been read, as far as it is known.
    pub const fn end(&self) -> Result<(), CodecError> {
        if self.rest.is_empty() || self.version >= GROWS {
            Ok(())
        } else {
            Err(CodecError::TooLong)
        }
    }

    /// Reads a structure that stands within another one.
    pub fn within<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        if self.version < GROWS {
            return read(self);
        }
        let bytes = self.u16()?.into();
        read(&mut Self { rest: self.take(bytes)?, version: self.version })
    }

    /// Reads fields that older writers do not know: the last ones of their structure.
    pub fn grown<T: Default>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<T, CodecError> {
        if self.version < GROWS || self.rest.is_empty() { Ok(T::default()) } else { read(self) }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(CodecError::TooShort)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads as many bytes as the array has.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads a truth value.
    pub fn bool(&mut self) -> Result<bool, CodecError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(CodecError::Value { what: "truth value", found: found.into() }),
        }
    }

    fn length(&mut self, max: usize) -> Result<usize, CodecError> {
        match self.u32()? as usize {
            found if found > max => Err(CodecError::Length { found, max }),
            found => Ok(found),
        }
    }

    /// Reads a text of at most `max` bytes.
    pub fn text(&mut self, max: usize) -> Result<String, CodecError> {
        let bytes = self.length(max)?;
        let text = core::str::from_utf8(self.take(bytes)?).map_err(|_| CodecError::Text)?;
        Ok(text.to_owned())
    }

    /// Reads a list of at most `max` items.
    pub fn list<T>(
        &mut self,
        max: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        let length = self.length(max)?;
        // Memory for items is taken as they arrive: the length is only a claim.
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }
}
