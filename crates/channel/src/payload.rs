//! Words and bytes of a request or a reply: how they are written and read.
//!
//! A payload is a sequence of 64-bit words. A byte string is its bytes padded to whole words; its
//! length stands in a word before it, so a reader never guesses. A payload may grow at its end: a reader
//! skips what it does not know there, and takes the default for what is not there ([`Reader::grown`]).

use core::fmt;
use cuda_api::Word;

/// A payload that cannot be what it claims to be. The text says what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed payload: {}", self.0)
    }
}

impl core::error::Error for Malformed {}

/// Whole words that `bytes` bytes take.
pub const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Where a payload is written: the ring, the reply area, or a vector.
pub trait Sink {
    /// Writes a word.
    fn word(&mut self, word: u64);

    /// Writes bytes, padded with zeros to whole words.
    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// Writes two halves of a word, the low one first.
    #[inline(always)]
    fn pair(&mut self, low: u32, high: u32) {
        self.word(u64::from(low) | u64::from(high) << 32);
    }
}

impl Sink for Vec<u64> {
    fn word(&mut self, word: u64) {
        self.push(word);
    }
}

/// Reads a private copy of a payload from front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u64],
}

impl<'a> Reader<'a> {
    /// A reader of those words.
    pub const fn new(words: &'a [u64]) -> Self {
        Self { rest: words }
    }

    /// The next word.
    #[inline(always)]
    pub fn word(&mut self) -> Result<u64, Malformed> {
        let (word, rest) = self.rest.split_first().ok_or(Malformed("ends too early"))?;
        self.rest = rest;
        Ok(*word)
    }

    /// The next word as a value of a row's parameter type.
    #[inline(always)]
    pub fn value<T: Word>(&mut self) -> Result<T, Malformed> {
        T::from_word(self.word()?).ok_or(Malformed("a value is out of its type's range"))
    }

    /// The next word, which older writers do not know: one of the last of a request or reply.
    #[inline]
    pub fn grown(&mut self, default: u64) -> u64 {
        self.word().unwrap_or(default)
    }

    /// The next word as two halves, the low one first.
    #[inline(always)]
    pub fn pair(&mut self) -> Result<(u32, u32), Malformed> {
        let word = self.word()?;
        Ok((word as u32, (word >> 32) as u32))
    }

    /// The next `bytes` bytes, with their padding left out.
    pub fn bytes(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let words = words_of(bytes);
        if words > self.rest.len() {
            return Err(Malformed("a byte string ends too early"));
        }
        let (words, rest) = self.rest.split_at(words);
        self.rest = rest;
        // SAFETY: the bytes of `words` are initialised, live for 'a, and a byte has no alignment;
        // `bytes` is at most 8 a word.
        Ok(unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), bytes) })
    }

    /// The next `count` words.
    pub fn words(&mut self, count: usize) -> Result<&'a [u64], Malformed> {
        if count > self.rest.len() {
            return Err(Malformed("a list ends too early"));
        }
        let (words, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(words)
    }

    /// The next word as a length that must not exceed `max`.
    pub fn length(&mut self, max: usize) -> Result<usize, Malformed> {
        match usize::try_from(self.word()?) {
            Ok(length) if length <= max => Ok(length),
            _ => Err(Malformed("a length is above its maximum")),
        }
    }

    /// What was not read yet.
    pub const fn rest(&self) -> &'a [u64] {
        self.rest
    }
}

/// What a request or a reply carries. `'a` is the life of the private copy it is read from.
pub trait Payload<'a>: Sized {
    /// Its length in words: what [`Payload::write`] writes, exactly.
    fn words(&self) -> usize;
    /// Writes it.
    fn write(&self, sink: &mut impl Sink);
    /// Reads it, leaving what follows it.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Writes it into a vector.
    fn to_words(&self) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.words());
        self.write(&mut words);
        words
    }

    /// Reads it from the words of a request or reply. What a newer writer has added is skipped.
    fn from_words(words: &'a [u64]) -> Result<Self, Malformed> {
        Self::read(&mut Reader::new(words))
    }
}

impl Payload<'_> for () {
    fn words(&self) -> usize {
        0
    }
    fn write(&self, _: &mut impl Sink) {}
    fn read(_: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

/// A payload of words only: what a generic `post` or `call` row sends.
impl<'a> Payload<'a> for &'a [u64] {
    fn words(&self) -> usize {
        self.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        for word in *self {
            sink.word(*word);
        }
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let words = reader.rest;
        reader.rest = &[];
        Ok(words)
    }
}

impl<const N: usize> Payload<'_> for [u64; N] {
    fn words(&self) -> usize {
        N
    }
    fn write(&self, sink: &mut impl Sink) {
        for word in *self {
            sink.word(word);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut words = [0; N];
        for word in &mut words {
            *word = reader.word()?;
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_padded_and_read_back() {
        for length in 0..20usize {
            let bytes: Vec<u8> = (1..=length as u8).collect();
            let mut words = Vec::new();
            words.bytes(&bytes);
            assert_eq!(words.len(), words_of(length));
            words.word(77);
            let mut reader = Reader::new(&words);
            assert_eq!(reader.bytes(length), Ok(&bytes[..]));
            assert_eq!(reader.word(), Ok(77));
            assert_eq!((reader.rest(), reader.grown(5)), (&[][..], 5));
            assert!(reader.bytes(1).is_err());
            assert!(reader.word().is_err());
        }
    }

    #[test]
    fn absurd_lengths_are_refused() {
        let words = [u64::MAX];
        assert!(Reader::new(&words).length(100).is_err());
        assert!(Reader::new(&words).bytes(usize::MAX).is_err());
        assert!(Reader::new(&words).value::<u32>().is_err());
    }
}
