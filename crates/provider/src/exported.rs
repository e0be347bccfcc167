//! What a loaded library exports, from its own tables: the ELF format's dynamic section.
//!
//! Not by `dlsym`: libraries put before a program (LD_PRELOAD) have a `dlsym` of their own that answers with their
//! own `cu...` functions for any library, and these call the library that asked.

use crate::dynamic_library::DynamicLibrary;
use std::ffi::{CStr, c_char, c_void};

/// `struct link_map` of link.h, as far as it is public.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Entry,
}

/// `Elf64_Dyn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    tag: i64,
    value: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    bytes: u64,
}

const END: i64 = 0;
const STRING_TABLE: i64 = 5;
const SYMBOL_TABLE: i64 = 6;
const GNU_HASH: i64 = 0x6fff_fef5;
const VERSIONS: i64 = 0x6fff_fff0;
/// In a symbol's version: another one is the default.
const HIDDEN: u16 = 1 << 15;
const UNDEFINED: u16 = 0;
const DATA: u8 = 1;
const FUNCTION: u8 = 2;
const LOCAL: u8 = 0;
/// Words of the hash table before its filter, and bits of a filter's word.
const HASH_HEADER_WORDS: usize = 4;
const FILTER_BITS: u32 = 64;

/// The exported symbols of a library that stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct Exported {
    base: usize,
    symbols: *const Symbol,
    names: *const c_char,
    hash: *const u32,
    /// By symbol; null if there are none.
    versions: *const u16,
}

impl Exported {
    /// Those of a library; `None` if it has no table of the usual kind.
    pub(crate) fn of(library: DynamicLibrary) -> Option<Self> {
        let mut map: *const LinkMap = std::ptr::null();
        // SAFETY: the handle is one of dlopen's; the answer is a pointer, which is written to a local, to a
        // structure that the loader keeps for as long as the library is loaded.
        let LinkMap { base, dynamic, .. } = unsafe {
            let place = (&raw mut map).cast();
            let found = libc::dlinfo(library.handle(), libc::RTLD_DI_LINKMAP, place);
            if found != 0 || map.is_null() {
                return None;
            }
            map.read()
        };
        let mut table = [0; 4];
        for index in 0.. {
            // SAFETY: the section ends with an entry that says so.
            let Entry { tag, value } = unsafe { dynamic.add(index).read() };
            let place = match tag {
                END => break,
                STRING_TABLE => 0,
                SYMBOL_TABLE => 1,
                GNU_HASH => 2,
                VERSIONS => 3,
                _ => continue,
            };
            // Where the section is read only, addresses are as in the file.
            table[place] = if value < base { base + value } else { value };
        }
        let [names, symbols, hash, versions] = table;
        (names != 0 && symbols != 0 && hash != 0).then_some(Self {
            base,
            symbols: symbols as *const Symbol,
            names: names as *const c_char,
            hash: hash as *const u32,
            versions: versions as *const u16,
        })
    }

    /// The address of an exported function or variable.
    pub(crate) fn find(&self, name: &CStr) -> Option<*const c_void> {
        // SAFETY: the tables are the loader's own, which it has checked by using them, and are never
        // unmapped; every index below is one that they give for a symbol.
        unsafe {
            let word = |index: usize| self.hash.add(index).read();
            let [buckets, first, filters] = [word(0), word(1), word(2)];
            let hash = gnu_hash(name);
            let filter = self.hash.add(HASH_HEADER_WORDS).cast::<u64>();
            let filter_word = filter.add((hash / FILTER_BITS % filters) as usize).read_unaligned();
            let bits = 1 << (hash % FILTER_BITS) | 1 << ((hash >> word(3)) % FILTER_BITS);
            if filter_word & bits != bits {
                return None;
            }
            let heads = HASH_HEADER_WORDS + 2 * filters as usize;
            let mut index = word(heads + (hash % buckets) as usize);
            if index < first {
                return None;
            }
            let chains = heads + buckets as usize;
            loop {
                let chained = word(chains + (index - first) as usize);
                let symbol = self.symbols.add(index as usize).read();
                let is_hidden = !self.versions.is_null()
                    && self.versions.add(index as usize).read() & HIDDEN != 0;
                if (chained ^ hash) >> 1 == 0
                    && !is_hidden
                    && symbol.section != UNDEFINED
                    && symbol.info >> 4 != LOCAL
                    && matches!(symbol.info & 15, DATA | FUNCTION)
                    && CStr::from_ptr(self.names.add(symbol.name as usize)) == name
                {
                    return Some((self.base + symbol.value) as *const c_void);
                }
                if chained & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }
}

fn gnu_hash(name: &CStr) -> u32 {
    let add = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.to_bytes().iter().fold(5381, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_library_exports_is_found_as_the_loader_finds_it() {
        for library in [c"libc.so.6", c"libm.so.6"] {
            let library = DynamicLibrary::open(library).unwrap();
            let exported = Exported::of(library).expect("its tables");
            let mut seen = 0;
            for name in [c"getpid", c"malloc", c"lgamma", c"qsort", c"exp2f", c"cuInit", c"nothing"]
            {
                let found = exported.find(name);
                // The loader looks at what a library needs too, and calls what chooses a function.
                if found.is_some() {
                    assert_eq!(found, library.symbol(name), "{name:?}");
                    seen += 1;
                }
            }
            assert!(seen >= 1);
        }
    }
}
