//! Managed variables: those of a cubin, placed by its loader.
//!
//! A cubin marks the variables that host and device share (`__managed__`), and a driver places them,
//! and those of the device alone (`__device__`), where it likes. [`Managed::find`] and
//! [`Managed::find_unmanaged`] read which there are; [`Managed::place`] writes addresses of the
//! caller's choice into the code, as a linker would, and takes the marks away. What is left under
//! their names are ordinary variables that nothing uses. Nothing else of the cubin changes.
//! `__constant__` variables are in a bank of the driver's, which no relocation names.
//!
//! This is no linker: it knows the few kinds of relocations that compilers emit for addresses of
//! variables, and refuses others.

use crate::bytes::{bytes_at, string_at, u16_at, u32_at, u64_at};
use crate::cubin::{self, CubinError, SECTION_NO_BITS};
use crate::limits::VARIABLE_BYTES_MAX;
use crate::module_state::is_constant;
use std::collections::{BTreeMap, BTreeSet};

/// Variables are aligned as their place in their section is, at most to this: as allocations are.
const ALIGN_BYTES_MAX: u64 = 256;

const SYMBOL_BYTES: usize = 24;
const SYMBOL_OBJECT: u8 = 1;
const SYMBOL_SECTION: u8 = 3;
/// Of a symbol's `st_other`: the variable is managed.
const OTHER_MANAGED: u8 = 4;

const SECTION_SYMBOLS: u32 = 2;
const SECTION_RELOCATIONS_WITH_ADDENDS: u32 = 4;
const SECTION_RELOCATIONS: u32 = 9;

/// Kinds of relocations. One of none may name any symbol.
const RELOCATION_NONE: u32 = 0;
const RELOCATION_64: u32 = 2;
const RELOCATION_LOW_32: u32 = 0x38;
const RELOCATION_HIGH_32: u32 = 0x39;
/// Where the 32 bits of an instruction of 16 bytes are that hold half of an address.
const IMMEDIATE_OFFSET: usize = 4;

/// Why managed variables cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// The file is damaged.
    #[error(transparent)]
    Cubin(#[from] CubinError),
    /// A use of a variable that nothing is known of.
    #[error("a managed variable's address is wanted in a way that is not known: relocation {0:#x}")]
    Relocation(u32),
    /// A managed variable that holds an address to begin with.
    #[error("a managed variable's first value is an address")]
    Initialiser,
    /// Larger than any variable.
    #[error("managed variables of more than {VARIABLE_BYTES_MAX} bytes")]
    TooLarge,
    /// Something is in one place twice, so that the file would cost more than its length.
    #[error("ELF file is damaged: {0} overlap")]
    Overlap(&'static str),
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its place behind the first one's beginning.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// Its first value; empty for zeros.
    pub value: Vec<u8>,
}

/// What is written into a cubin, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    /// A byte.
    Byte(u8),
    /// A word of 32 bits.
    Word(u32),
    /// The address that lies so far behind the beginning.
    Address(u64),
    /// Its lower half.
    Low(u64),
    /// Its upper half.
    High(u64),
}

/// Which variables are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Which {
    /// Those that host and device share.
    #[default]
    Managed,
    /// Those in the device's memory, but for compilers' own constants: drivers read the texts of
    /// `printf` where they have put them.
    Unmanaged,
}

/// The variables of one cubin that are placed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    which: Which,
    variables: BTreeMap<String, Variable>,
    bytes: u64,
    edits: Vec<(usize, Edit)>,
    /// First values that are addresses of variables: both offsets.
    pointers: Vec<(u64, u64)>,
}

/// A section's header.
#[derive(Clone, Copy)]
struct Header {
    name: usize,
    kind: u32,
    offset: usize,
    bytes: usize,
    link: usize,
    target: usize,
}

impl Header {
    fn has_bits(self) -> bool {
        self.kind != SECTION_NO_BITS
    }

    /// Where a part of the section is in the file.
    fn at(self, offset: u64, bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let fits = offset.checked_add(bytes)? <= self.bytes && self.has_bits();
        fits.then_some(self.offset.checked_add(offset)?)
    }
}

/// Names or contents of variables overlap.
const OVERLAP: ManagedError = ManagedError::Overlap("managed variables");

/// The symbols of managed variables.
#[derive(Default)]
struct Symbols {
    /// Symbols of whole sections of variables, by their numbers: of which variable an address is that
    /// is made of one is not known.
    sections: BTreeSet<u64>,
    /// Where each variable lies behind the first one's beginning, by the symbol's number.
    offsets: BTreeMap<u64, u64>,
    /// Where they are defined, section and place in it, with their bytes; none overlap.
    places: BTreeMap<(usize, u64), u64>,
    /// Where those lie behind the first one's beginning.
    by_place: BTreeMap<(usize, u64), u64>,
}

impl Symbols {
    /// The place and the end of the last variable that begins at an offset or before it.
    fn before(&self, section: usize, offset: u64) -> Option<(u64, u64)> {
        let (&(of, place), &bytes) = self.places.range(..=(section, offset)).next_back()?;
        (of == section).then_some((place, place.saturating_add(bytes)))
    }

    /// The place of the variable that an offset is in.
    fn around(&self, section: usize, offset: u64) -> Option<u64> {
        let (place, end) = self.before(section, offset)?;
        (offset < end).then_some(place)
    }

    /// Where the variable at a place lies behind the first one's beginning.
    fn offset_of(&self, section: usize, place: u64) -> Option<u64> {
        self.by_place.get(&(section, place)).copied()
    }

    fn insert(
        &mut self,
        number: u64,
        offset: u64,
        (section, place, bytes): (usize, u64, u64),
    ) -> Result<(), ManagedError> {
        if let Some(behind_first) = bytes.checked_sub(1) {
            let last = place.checked_add(behind_first).ok_or(ManagedError::TooLarge)?;
            // A variable that begins in it, or reaches into it, is the last to begin before its
            // end.
            if self.before(section, last).is_some_and(|(_, end)| end > place) {
                return Err(OVERLAP);
            }
            self.places.insert((section, place), bytes);
            self.by_place.insert((section, place), offset);
        }
        self.offsets.insert(number, offset);
        Ok(())
    }
}

impl Managed {
    /// Finds the managed variables of a cubin: none in most.
    ///
    /// # Errors
    /// A damaged file, or one whose variables cannot be placed.
    pub fn find(cubin: &[u8]) -> Result<Self, ManagedError> {
        Self::find_all(cubin, Which::Managed)
    }

    /// Finds the variables of a cubin that lie in the device's memory, but for managed ones and for
    /// compilers' constants.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_unmanaged(cubin: &[u8]) -> Result<Self, ManagedError> {
        Self::find_all(cubin, Which::Unmanaged)
    }

    fn find_all(cubin: &[u8], which: Which) -> Result<Self, ManagedError> {
        let headers = headers(cubin)?;
        let mut found = Self { which, ..Self::default() };
        let symbols = found.read_symbols(cubin, &headers)?;
        if symbols.offsets.is_empty() {
            return Ok(found);
        }
        let mut left = cubin.len();
        for header in &headers {
            let each = match header.kind {
                SECTION_RELOCATIONS => 16,
                SECTION_RELOCATIONS_WITH_ADDENDS => 24,
                _ => continue,
            };
            let all = bytes_at(cubin, header.offset, header.bytes)
                .ok_or(CubinError::Truncated("a table of relocations"))?;
            left = left
                .checked_sub(all.len())
                .ok_or(ManagedError::Overlap("tables of relocations"))?;
            let target = headers.get(header.target);
            let target = target.ok_or(CubinError::Truncated("a relocated section"))?;
            for (index, relocation) in all.chunks_exact(each).enumerate() {
                let at = header.offset + index * each;
                found.relocate(cubin, &symbols, (header.target, *target), at, relocation)?;
            }
        }
        Ok(found)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Bytes from the beginning of the first one to the end of the last.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The variables with their names.
    pub fn variables(&self) -> &BTreeMap<String, Variable> {
        &self.variables
    }

    /// What lies in their memory before any code runs, if it begins at an address.
    pub fn first_values(&self, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        for variable in self.variables.values() {
            write(&mut bytes, variable.offset as usize, &variable.value);
        }
        for (at, lies) in &self.pointers {
            write(&mut bytes, *at as usize, &address.wrapping_add(*lies).to_le_bytes());
        }
        bytes
    }

    /// Makes the code of the cubin that this was found in use variables that lie at an address. It
    /// is aligned to 256.
    pub fn place(&self, cubin: &mut [u8], address: u64) {
        for (at, edit) in &self.edits {
            let lies = |offset: u64| address.wrapping_add(offset);
            match *edit {
                Edit::Byte(byte) => write(cubin, *at, &[byte]),
                Edit::Word(word) => write(cubin, *at, &word.to_le_bytes()),
                Edit::Address(offset) => write(cubin, *at, &lies(offset).to_le_bytes()),
                Edit::Low(offset) => write(cubin, *at, &(lies(offset) as u32).to_le_bytes()),
                Edit::High(offset) => {
                    write(cubin, *at, &((lies(offset) >> 32) as u32).to_le_bytes());
                }
            }
        }
    }

    /// Gives each managed symbol its place; by their numbers.
    fn read_symbols(&mut self, cubin: &[u8], headers: &[Header]) -> Result<Symbols, ManagedError> {
        let mut symbols = Symbols::default();
        let mut left = cubin.len();
        let outside = CubinError::Truncated("the table of symbols");
        let Some(table) = headers.iter().find(|header| header.kind == SECTION_SYMBOLS) else {
            return Ok(symbols);
        };
        let all = bytes_at(cubin, table.offset, table.bytes).ok_or(outside)?;
        let names = headers.get(table.link).ok_or(outside)?;
        let names = bytes_at(cubin, names.offset, names.bytes).ok_or(outside)?;
        for (number, symbol) in all.chunks_exact(SYMBOL_BYTES).enumerate() {
            let (info, other) = (symbol[4], symbol[5]);
            if !self.may_be(cubin, headers, symbol, (number, &mut symbols)) {
                continue;
            }
            debug_assert_eq!(info & 15, SYMBOL_OBJECT);
            let read = || {
                let name = string_at(names, u32_at(symbol, 0)? as usize)?;
                let section = usize::from(u16_at(symbol, 6)?);
                Some((name, section, u64_at(symbol, 8)?, u64_at(symbol, 16)?))
            };
            let (name, section, value, bytes) = read().ok_or(outside)?;
            let header = headers.get(section).ok_or(outside)?;
            if self.which == Which::Unmanaged && is_constant(name, bytes) {
                continue;
            }
            // What is declared here and defined elsewhere is a linker's business.
            if section == 0 {
                continue;
            }
            let align = 1 << value.trailing_zeros().min(ALIGN_BYTES_MAX.trailing_zeros());
            let offset = self.bytes.next_multiple_of(align);
            let end = offset.checked_add(bytes).filter(|end| *end <= VARIABLE_BYTES_MAX);
            self.bytes = end.ok_or(ManagedError::TooLarge)?;
            symbols.insert(number as u64, offset, (section, value, bytes))?;
            let content = match header.has_bits() {
                true => {
                    let bytes = usize::try_from(bytes).map_err(|_| ManagedError::TooLarge)?;
                    let at = header.at(value, bytes).ok_or(CubinError::Truncated("a variable"))?;
                    bytes_at(cubin, at, bytes).ok_or(CubinError::Truncated("a variable"))?
                }
                false => &[],
            };
            // Sections may overlap too.
            left = left.checked_sub(name.len() + content.len()).ok_or(OVERLAP)?;
            let variable = Variable { offset, bytes, value: content.to_vec() };
            if self.variables.insert(name.to_owned(), variable).is_some() {
                // Variables of several files with one name, which is none to find them by.
                return Err(OVERLAP);
            }
            if self.which == Which::Managed {
                let mark = table.offset + number * SYMBOL_BYTES + 5;
                self.edits.push((mark, Edit::Byte(other & !OTHER_MANAGED)));
            }
        }
        Ok(symbols)
    }

    /// True if a symbol is of a variable that is looked for, by its kind and section. Those of whole
    /// sections of such variables are noted.
    fn may_be(
        &self,
        cubin: &[u8],
        headers: &[Header],
        symbol: &[u8],
        (number, symbols): (usize, &mut Symbols),
    ) -> bool {
        let (kind, managed) = (symbol[4] & 15, symbol[5] & OTHER_MANAGED != 0);
        if self.which == Which::Managed {
            return kind == SYMBOL_OBJECT && managed;
        }
        let section = u16_at(symbol, 6).and_then(|section| headers.get(usize::from(section)));
        let on_device = section.is_some_and(|section| {
            let names = u16_at(cubin, 62).and_then(|names| headers.get(usize::from(names)));
            let names = names.and_then(|names| bytes_at(cubin, names.offset, names.bytes));
            let name = names.and_then(|names| string_at(names, section.name));
            name.is_some_and(|name| name.starts_with(".nv.global"))
        });
        if on_device && kind == SYMBOL_SECTION {
            symbols.sections.insert(number as u64);
        }
        on_device && kind == SYMBOL_OBJECT && !managed
    }

    /// Notes what a relocation at `at` would do to the section `target`, if it is about one of the
    /// symbols.
    fn relocate(
        &mut self,
        cubin: &[u8],
        symbols: &Symbols,
        (section, target): (usize, Header),
        at: usize,
        relocation: &[u8],
    ) -> Result<(), ManagedError> {
        let outside = CubinError::Truncated("a relocation");
        let (offset, info) = u64_at(relocation, 0).zip(u64_at(relocation, 8)).ok_or(outside)?;
        let kind = info as u32;
        if symbols.sections.contains(&(info >> 32)) && kind != RELOCATION_NONE {
            return Err(ManagedError::Relocation(kind));
        }
        if let Some(place) = symbols.around(section, offset) {
            return self.point(cubin, symbols, (section, target, place), relocation);
        }
        let Some(variable) = symbols.offsets.get(&(info >> 32)) else {
            return Ok(());
        };
        let (bytes, within) = match kind {
            RELOCATION_NONE => return Ok(()),
            RELOCATION_64 => (8, 0),
            RELOCATION_LOW_32 | RELOCATION_HIGH_32 => (4, IMMEDIATE_OFFSET),
            _ => return Err(ManagedError::Relocation(kind)),
        };
        let place = offset.checked_add(within as u64).and_then(|at| target.at(at, bytes));
        let place = place.ok_or(outside)?;
        // Without one of its own, what stands there is the addend.
        let addend = match (u64_at(relocation, 16), kind) {
            (Some(addend), _) => addend,
            (None, RELOCATION_64) => u64_at(cubin, place).ok_or(outside)?,
            (None, _) => match u32_at(cubin, place).ok_or(outside)? {
                0 => 0,
                // Of which half it would be is not said anywhere.
                _ => return Err(ManagedError::Relocation(kind)),
            },
        };
        let lies = variable.wrapping_add(addend);
        let edit = match kind {
            RELOCATION_64 => Edit::Address(lies),
            RELOCATION_LOW_32 => Edit::Low(lies),
            _ => Edit::High(lies),
        };
        self.edits.extend([(place, edit), (at + 8, Edit::Word(RELOCATION_NONE))]);
        Ok(())
    }

    /// Notes a first value that is an address: of another variable that is placed, which is known then.
    fn point(
        &mut self,
        cubin: &[u8],
        symbols: &Symbols,
        (section, target, place): (usize, Header, u64),
        relocation: &[u8],
    ) -> Result<(), ManagedError> {
        let outside = CubinError::Truncated("a relocation");
        let (offset, info) = u64_at(relocation, 0).zip(u64_at(relocation, 8)).ok_or(outside)?;
        let of = symbols.offsets.get(&(info >> 32)).filter(|_| info as u32 == RELOCATION_64);
        let (Some(of), Which::Unmanaged) = (of, self.which) else {
            return Err(ManagedError::Initialiser);
        };
        let addend = u64_at(relocation, 16).or_else(|| u64_at(cubin, target.at(offset, 8)?));
        let within = symbols.offset_of(section, place).ok_or(outside)? + (offset - place);
        self.pointers.push((within, of.wrapping_add(addend.ok_or(outside)?)));
        Ok(())
    }
}

/// The headers of all sections.
fn headers(cubin: &[u8]) -> Result<Vec<Header>, CubinError> {
    cubin::check_header(cubin)?;
    let outside = CubinError::Truncated("the table of sections");
    let table = cubin::section_table(cubin).ok_or(outside)?;
    let header = |index: usize| {
        let at = table.offset.checked_add(index.checked_mul(table.each)?)?;
        let header = bytes_at(cubin, at, cubin::SECTION_HEADER_BYTES)?;
        Some(Header {
            name: u32_at(header, 0)? as usize,
            kind: u32_at(header, 4)?,
            offset: usize::try_from(u64_at(header, 24)?).ok()?,
            bytes: usize::try_from(u64_at(header, 32)?).ok()?,
            link: u32_at(header, 40)? as usize,
            // The number is in the lower half; the upper one of some holds something else.
            target: usize::from(u16_at(header, 44)?),
        })
    };
    (0..table.count).map(|index| header(index).ok_or(outside)).collect()
}

/// Writes where it fits; a cubin other than the one that was read may be shorter.
fn write(cubin: &mut [u8], at: usize, bytes: &[u8]) {
    let place = at.checked_add(bytes.len()).and_then(|end| cubin.get_mut(at..end));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `tests/data/managed.cu`, compiled for sm_90 (with addends) and sm_80, and unoptimised.
    const CUBINS: [&[u8]; 3] = [
        include_bytes!("../tests/data/managed_sm_90.cubin"),
        include_bytes!("../tests/data/managed_sm_80.cubin"),
        include_bytes!("../tests/data/managed_sm_90_debug.cubin"),
    ];
    const ADDRESS: u64 = 0x1234_5678_9a00;

    #[test]
    fn variables_have_their_places_sizes_and_values() {
        for cubin in CUBINS {
            let managed = Managed::find(cubin).unwrap();
            let names: Vec<&str> = managed.variables().keys().map(String::as_str).collect();
            assert_eq!(names, ["pair", "table", "total"]);
            let [pair, table, total] = ["pair", "table", "total"].map(|n| &managed.variables()[n]);
            assert_eq!((pair.bytes, table.bytes, total.bytes), (8, 2400, 4));
            assert_eq!(pair.value, [1, 0, 0, 0, 0, 0, 0, 64]);
            assert_eq!((total.value.as_slice(), table.value.len()), (&[3, 0, 0, 0][..], 0));
            assert_eq!((table.offset % 8, pair.offset % 4), (0, 0));
            let mut ends: Vec<_> = [pair, table, total].map(|v| (v.offset, v.bytes)).into();
            ends.sort_unstable();
            assert!(ends.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert!(ends.iter().all(|(offset, bytes)| offset + bytes <= managed.bytes()));
        }
    }

    #[test]
    fn code_gets_the_addresses_and_nothing_is_managed_any_more() {
        for (index, cubin) in CUBINS.into_iter().enumerate() {
            let managed = Managed::find(cubin).unwrap();
            let mut placed = cubin.to_vec();
            managed.place(&mut placed, ADDRESS);
            assert_eq!(Managed::find(&placed), Ok(Managed::default()));
            assert_eq!(placed.len(), cubin.len());
            for variable in managed.variables().values() {
                let address = ADDRESS + variable.offset;
                let holds = |bytes: &[u8]| {
                    let count =
                        |all: &[u8]| all.windows(bytes.len()).filter(|w| *w == bytes).count();
                    count(&placed) > count(cubin)
                };
                match index {
                    // Compilers that optimise load an address from a table of constants.
                    0 | 1 => assert!(holds(&address.to_le_bytes()), "{index}: {address:#x}"),
                    _ => assert!(holds(&(address as u32).to_le_bytes()), "{index}: {address:#x}"),
                }
            }
            // Relocations of other variables are as they were.
            let differ = cubin.iter().zip(&placed).filter(|(old, new)| old != new).count();
            assert!(differ > 0 && differ < 300, "{differ}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let cubin = CUBINS[0];
        let managed = Managed::find(cubin).unwrap();
        let (at, _) =
            *managed.edits.iter().find(|(_, edit)| matches!(edit, Edit::Word(0))).unwrap();
        let mut strange = cubin.to_vec();
        strange[at] = 0x77;
        assert_eq!(Managed::find(&strange), Err(ManagedError::Relocation(0x77)));
        assert!(matches!(Managed::find(b"\x7fELF"), Err(ManagedError::Cubin(_))));
        assert!(matches!(Managed::find(&cubin[..cubin.len() / 2]), Err(ManagedError::Cubin(_))));
    }

    #[test]
    fn variables_in_one_place_are_refused() {
        let mut symbols = Symbols::default();
        let mut insert = |number, place, bytes| symbols.insert(number, 0, (3, place, bytes));
        assert_eq!(insert(0, 16, 16), Ok(()));
        assert_eq!(insert(1, 32, 8), Ok(()));
        assert_eq!(insert(2, 8, 8), Ok(()));
        for (place, bytes) in [(16, 16), (16, 1), (24, 4), (31, 9), (0, 9), (0, 64), (36, 8)] {
            assert_eq!(insert(3, place, bytes), Err(OVERLAP), "{place} {bytes}");
        }
        assert_eq!(insert(3, u64::MAX, 2), Err(ManagedError::TooLarge));
        assert_eq!(insert(4, 16, 0), Ok(()));
        assert_eq!(insert(5, 16, 1), Err(OVERLAP), "an empty range is in no other's way");
        assert_eq!(symbols.insert(6, 0, (2, 16, 16)), Ok(()), "another section");
        assert_eq!([7, 39, 40].map(|at| symbols.around(3, at)), [None, Some(32), None]);
    }

    /// What a relocation of a variable at 0x100 does to a section that is the whole file.
    fn relocated(
        cubin: [u8; 32],
        (kind, offset): (u32, u64),
        addend: Option<u64>,
    ) -> Result<Vec<(usize, Edit)>, ManagedError> {
        let (number, mut found, mut symbols) = (5, Managed::default(), Symbols::default());
        symbols.insert(number, 0x100, (2, 0, 16)).unwrap();
        let mut relocation =
            [offset, number << 32 | u64::from(kind)].map(u64::to_le_bytes).concat();
        relocation.extend(addend.into_iter().flat_map(u64::to_le_bytes));
        let header = Header { name: 0, kind: 1, offset: 0, bytes: cubin.len(), link: 0, target: 0 };
        found.relocate(&cubin, &symbols, (3, header), 64, &relocation)?;
        Ok(found.edits)
    }

    #[test]
    fn addends_count_wherever_they_stand() {
        let done = |place, edit| Ok(vec![(place, edit), (72, Edit::Word(RELOCATION_NONE))]);
        let (mut cubin, whole, low) = ([0; 32], (RELOCATION_64, 8), (RELOCATION_LOW_32, 8));
        let high = (RELOCATION_HIGH_32, 8);
        assert_eq!(relocated(cubin, whole, Some(8)), done(8, Edit::Address(0x108)));
        assert_eq!(relocated(cubin, low, Some(4)), done(12, Edit::Low(0x104)));
        assert_eq!(relocated(cubin, high, None), done(12, Edit::High(0x100)));
        cubin[8] = 16;
        assert_eq!(relocated(cubin, whole, None), done(8, Edit::Address(0x110)));
        // Half of an addend: of which is not said.
        cubin[12] = 1;
        assert_eq!(relocated(cubin, low, None), Err(ManagedError::Relocation(RELOCATION_LOW_32)));
        assert_eq!(relocated(cubin, low, Some(0)), done(12, Edit::Low(0x100)));
        let beyond = Err(ManagedError::Cubin(CubinError::Truncated("a relocation")));
        assert_eq!(relocated(cubin, (RELOCATION_64, 25), None), beyond);
    }

    #[test]
    fn variables_of_the_device_alone_are_placed_too() {
        for cubin in CUBINS {
            let managed = Managed::find(cubin).unwrap();
            let found = Managed::find_unmanaged(cubin).unwrap();
            assert!(found.variables.keys().all(|name| !managed.variables.contains_key(name)));
        }
    }

    #[test]
    fn first_values_may_be_addresses_of_variables_that_are_placed_with_them() {
        let mut found = Managed { which: Which::Unmanaged, bytes: 32, ..Managed::default() };
        let mut symbols = Symbols::default();
        symbols.insert(5, 0, (3, 16, 8)).unwrap();
        symbols.insert(6, 16, (3, 32, 8)).unwrap();
        symbols.sections.insert(7);
        let header = Header { name: 0, kind: 1, offset: 0, bytes: 64, link: 0, target: 0 };
        let mut at = |offset: u64, symbol: u64| {
            let info = symbol << 32 | u64::from(RELOCATION_64);
            let relocation = [offset, info, 4].map(u64::to_le_bytes).concat();
            found.relocate(&[0; 64], &symbols, (3, header), 64, &relocation)
        };
        assert_eq!(at(16, 6), Ok(()));
        assert_eq!(at(16, 9), Err(ManagedError::Initialiser), "of a function, say");
        assert_eq!(at(40, 7), Err(ManagedError::Relocation(RELOCATION_64)), "a section's own");
        let values = found.first_values(0x1000);
        assert_eq!((u64_at(&values, 0), u64_at(&values, 8)), (Some(0x1014), Some(0)));
    }

    #[test]
    fn first_values_are_no_addresses() {
        let (mut found, mut symbols) = (Managed::default(), Symbols::default());
        symbols.insert(5, 0, (3, 16, 8)).unwrap();
        let header = Header { name: 0, kind: 1, offset: 0, bytes: 64, link: 0, target: 0 };
        let mut at = |offset: u64| {
            let relocation = [offset, 9 << 32 | u64::from(RELOCATION_64)].map(u64::to_le_bytes);
            found.relocate(&[0; 64], &symbols, (3, header), 64, &relocation.concat())
        };
        assert_eq!((at(8), at(24)), (Ok(()), Ok(())), "beside it");
        assert_eq!(at(16), Err(ManagedError::Initialiser));
    }

    /// A cubin with another number in the symbol of `table`, which is zeros.
    fn with_symbol(write: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut cubin = CUBINS[0].to_vec();
        let table = *headers(&cubin).unwrap().iter().find(|h| h.kind == SECTION_SYMBOLS).unwrap();
        let symbols = cubin[table.offset..][..table.bytes].chunks_exact_mut(SYMBOL_BYTES);
        let of_table = |s: &&mut [u8]| s[5] & OTHER_MANAGED != 0 && u64_at(s, 16) == Some(2400);
        write(symbols.into_iter().find(of_table).unwrap());
        cubin
    }

    #[test]
    fn variables_are_found_where_they_are_defined_and_have_sizes_that_exist() {
        let elsewhere = with_symbol(|symbol| symbol[6..8].fill(0));
        let found = Managed::find(&elsewhere).unwrap();
        assert_eq!(found.variables().keys().collect::<Vec<_>>(), ["pair", "total"]);
        let sized = |bytes: u64| {
            Managed::find(&with_symbol(|s| s[16..24].copy_from_slice(&bytes.to_le_bytes())))
        };
        assert_eq!(sized(VARIABLE_BYTES_MAX + 1), Err(ManagedError::TooLarge));
        assert_eq!(sized(u64::MAX), Err(ManagedError::TooLarge));
    }

    #[test]
    fn a_table_that_many_sections_have_is_refused() {
        let mut cubin = CUBINS[0].to_vec();
        let table = cubin::section_table(&cubin).unwrap();
        let mut all = bytes_at(&cubin, table.offset, table.each * table.count).unwrap().to_vec();
        let found = headers(&cubin).unwrap();
        let relocations = |header: &Header| header.kind == SECTION_RELOCATIONS_WITH_ADDENDS;
        let largest = (0..table.count).filter(|n| relocations(&found[*n]));
        let largest = largest.max_by_key(|n| found[*n].bytes).unwrap();
        let copy = all[largest * table.each..][..table.each].to_vec();
        let copies = (cubin.len() + all.len()) / (found[largest].bytes - copy.len()) + 1;
        all.extend(copy.repeat(copies));
        let (offset, count) = (cubin.len() as u64, (table.count + copies) as u16);
        cubin.extend(all);
        cubin[40..48].copy_from_slice(&offset.to_le_bytes());
        cubin[60..62].copy_from_slice(&count.to_le_bytes());
        let refused = Managed::find(&cubin).expect_err("it is damaged");
        assert_eq!(refused, ManagedError::Overlap("tables of relocations"));
    }

    proptest! {
        #[test]
        fn no_change_makes_it_panic(which in 0usize..3, at: prop::sample::Index, byte: u8) {
            let mut cubin = CUBINS[which].to_vec();
            let at = at.index(cubin.len());
            cubin[at] = byte;
            if let Ok(managed) = Managed::find(&cubin) {
                managed.place(&mut cubin, ADDRESS);
            }
        }
    }
}
