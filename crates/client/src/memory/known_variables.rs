//! Known variables: those that are the provider's, as the program knows them and as the present server has
//! them.

use super::Memory;
use ptx::bytes::u64_at;

/// All of a client, at one time.
pub(crate) struct KnownVariables(Vec<KnownVariable>);

struct KnownVariable {
    /// The address that the program got first.
    known_at: u64,
    bytes: u64,
    present: u64,
    /// A kernel gets it.
    found: bool,
}

impl KnownVariables {
    /// Those that there are now.
    #[cold]
    pub(crate) fn of(memory: &Memory) -> Self {
        let variable =
            |(known_at, bytes, present)| KnownVariable { known_at, bytes, present, found: false };
        Self(memory.foreign_variables().map(variable).collect())
    }

    /// Puts present addresses in the place of those that the program knows, in a kernel's parameters.
    pub(crate) fn find_in(&mut self, parameters: &mut [u8]) {
        for word in parameters.chunks_exact_mut(8) {
            let address = u64_at(word, 0).unwrap_or(0);
            let holds = |of: &&mut KnownVariable| address.wrapping_sub(of.known_at) < of.bytes;
            if let Some(variable) = self.0.iter_mut().find(holds) {
                let present =
                    variable.present.wrapping_add(address.wrapping_sub(variable.known_at));
                word.copy_from_slice(&present.to_le_bytes());
                variable.found = true;
            }
        }
    }

    /// Those that were found: the address that the program got, and the length in bytes.
    pub(crate) fn found(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().filter(|variable| variable.found).map(|of| (of.known_at, of.bytes))
    }

    /// Those that are elsewhere now, as seen from the server at which they were.
    pub(crate) fn moves(&self, now: &Self) -> Vec<Moved> {
        let to = |was: &KnownVariable| {
            let is = now.0.iter().find(|is| is.known_at == was.known_at)?;
            (is.present != was.present).then_some(Moved {
                from: was.present,
                to: is.present,
                bytes: was.bytes.min(is.bytes),
            })
        };
        self.0.iter().filter_map(to).collect()
    }
}

/// A variable that is elsewhere at another server.
pub(crate) struct Moved {
    from: u64,
    to: u64,
    bytes: u64,
}

impl Moved {
    /// Changes the addresses of some among the words of a record.
    pub(crate) fn apply(all: &[Self], words: &mut [u64]) {
        for word in words {
            if let Some(of) = all.iter().find(|of| word.wrapping_sub(of.from) < of.bytes) {
                *word = word.wrapping_sub(of.from).wrapping_add(of.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_variables_in_records_are_those_of_the_present_server() {
        let moved = |from: u64, to: u64| Moved { from, to, bytes: 8 };
        // The second one is where the first one was.
        let all = [moved(0x1000, 0x2000), moved(0x3000, 0x1000)];
        let mut words = [0x1000, 0x1007, 0x1008, 0x3004, 0xfff];
        Moved::apply(&all, &mut words);
        assert_eq!(words, [0x2000, 0x2007, 0x1008, 0x1004, 0xfff]);
    }
}
