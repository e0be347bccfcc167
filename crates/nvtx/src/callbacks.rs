//! The functions of NVTX that are taken over, by their numbers in NVTX's tables.

use crate::write;
use locks::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// A function's address.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: the address of a function, which is read from any thread and never changes.
unsafe impl Sync for Address {}

/// Functions of one module of NVTX.
pub(crate) struct Callbacks {
    pub(crate) module: c_uint,
    pub(crate) rows: &'static [(c_uint, Address)],
}

/// NVTX's event attributes, as far as names are in them.
#[repr(C)]
pub(crate) struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    colour_type: i32,
    colour: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: Text,
}

const MESSAGE_ASCII: i32 = 1;
const MESSAGE_REGISTERED: i32 = 3;

thread_local! {
    /// The ranges that this thread is in, by domain: since when, and their names.
    static STACKS: RefCell<BTreeMap<usize, Vec<(u64, String)>>> =
        const { RefCell::new(BTreeMap::new()) };
}

/// Ranges that end anywhere, by their numbers: the thread that began them, since when, and their names.
type Ranges = HashMap<u64, (i32, u64, String)>;

/// Names of domains, which are numbered from 1 on: a handle is the number. 0 is NVTX's default domain.
static DOMAINS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The word that a line has for a domain.
fn domain_word(domain: usize) -> String {
    let domains = DOMAINS.lock();
    let name = domain.checked_sub(1).and_then(|at| domains.get(at));
    name.map_or_else(|| "default".to_owned(), String::clone)
}

/// The last number that was given out, and the ranges that have not ended.
static STARTED: Mutex<Option<(u64, Ranges)>> = Mutex::new(None);

/// A text that the program passes: NULL or NUL-terminated, as NVTX's documentation asks.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Text(*const c_char);

impl Text {
    /// A copy of it; empty for NULL.
    fn get(self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: only programs make texts, which are as their documentation says.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

/// Attributes that the program passes: NULL or NVTX's.
#[repr(transparent)]
struct Passed(*const Attributes);

impl Passed {
    /// The name among them.
    fn name(self) -> String {
        // SAFETY: only programs make these, which are as NVTX's documentation says.
        match unsafe { self.0.as_ref() } {
            // Of both kinds it is a text: the program's own, or one that `register` has kept.
            Some(Attributes {
                message_type: MESSAGE_ASCII | MESSAGE_REGISTERED, message, ..
            }) => message.get(),
            _ => String::new(),
        }
    }
}

fn push_range(domain: usize, name: String) -> c_int {
    let pushed = STACKS.try_with(|stacks| {
        let mut stacks = stacks.try_borrow_mut().ok()?;
        let stack = stacks.entry(domain).or_default();
        stack.push((write::now_ns(), name));
        c_int::try_from(stack.len() - 1).ok()
    });
    pushed.ok().flatten().unwrap_or(-1)
}

fn pop_range(domain: usize) -> c_int {
    let popped = STACKS.try_with(|stacks| {
        let mut stacks = stacks.try_borrow_mut().ok()?;
        let stack = stacks.get_mut(&domain)?;
        let (since, name) = stack.pop()?;
        write::range(write::thread(), &domain_word(domain), since, &name);
        c_int::try_from(stack.len()).ok()
    });
    popped.ok().flatten().unwrap_or(-1)
}

fn start_range(name: String) -> u64 {
    let mut started = STARTED.lock();
    let (last, ranges) = started.get_or_insert_with(|| (0, HashMap::new()));
    *last += 1;
    ranges.insert(*last, (write::thread(), write::now_ns(), name));
    *last
}

fn end_range(number: u64) {
    let mut started = STARTED.lock();
    if let Some((thread, since, name)) = started.as_mut().and_then(|(_, all)| all.remove(&number)) {
        write::range(thread, "-", since, &name);
    }
}

// NVTX calls all of these with what the program gave.

extern "C" fn range_push(name: Text) -> c_int {
    push_range(0, name.get())
}

extern "C" fn range_push_ex(attributes: Passed) -> c_int {
    push_range(0, attributes.name())
}

extern "C" fn range_pop() -> c_int {
    pop_range(0)
}

extern "C" fn range_start(name: Text) -> u64 {
    start_range(name.get())
}

extern "C" fn range_start_ex(attributes: Passed) -> u64 {
    start_range(attributes.name())
}

extern "C" fn range_end(number: u64) {
    end_range(number);
}

extern "C" fn domain_push(domain: *const c_void, attributes: Passed) -> c_int {
    push_range(domain.addr(), attributes.name())
}

extern "C" fn domain_pop(domain: *const c_void) -> c_int {
    pop_range(domain.addr())
}

extern "C" fn domain_start(_: *const c_void, attributes: Passed) -> u64 {
    start_range(attributes.name())
}

extern "C" fn domain_end(_: *const c_void, number: u64) {
    end_range(number);
}

/// Registered texts stay for the process's life: their handle is their address.
extern "C" fn register(_: *const c_void, name: Text) -> *const c_void {
    let name = CString::new(name.get()).unwrap_or_default();
    name.into_raw().cast_const().cast()
}

/// The handle is a number, which no program reads through.
extern "C" fn domain_create(name: Text) -> *const c_void {
    let name = name.get();
    let word: String = name.split_whitespace().collect::<Vec<_>>().join("_");
    let mut domains = DOMAINS.lock();
    domains.push(if word.is_empty() { "unnamed".to_owned() } else { word });
    std::ptr::without_provenance(domains.len())
}

/// The tables: numbers are those of nvtxTypes.h, NvtxCallbackIdCore and NvtxCallbackIdCore2.
pub(crate) const ALL: &[Callbacks] = &[
    Callbacks {
        module: 1,
        rows: &[
            (4, Address(range_start_ex as *const c_void)),
            (5, Address(range_start as *const c_void)),
            (7, Address(range_end as *const c_void)),
            (8, Address(range_push_ex as *const c_void)),
            (9, Address(range_push as *const c_void)),
            (11, Address(range_pop as *const c_void)),
        ],
    },
    Callbacks {
        module: 5,
        rows: &[
            (2, Address(domain_start as *const c_void)),
            (3, Address(domain_end as *const c_void)),
            (4, Address(domain_push as *const c_void)),
            (5, Address(domain_pop as *const c_void)),
            (10, Address(register as *const c_void)),
            (12, Address(domain_create as *const c_void)),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_thread_are_within_each_other() {
        assert_eq!(pop_range(0), -1, "there is none");
        assert_eq!([push_range(0, "outer".into()), push_range(0, "inner".into())], [0, 1]);
        assert_eq!([pop_range(0), pop_range(0), pop_range(0)], [1, 0, -1]);
    }

    #[test]
    fn each_domain_has_its_own() {
        let made = || domain_create(Text(c"a b".as_ptr())).addr();
        let domain = made();
        assert_eq!((domain_word(domain), domain_word(0)), ("a_b".to_owned(), "default".to_owned()));
        assert_ne!(domain, made());
        assert_eq!([push_range(0, "outer".into()), push_range(domain, "b".into())], [0, 0]);
        assert_eq!([pop_range(0), pop_range(0), pop_range(domain)], [0, -1, 0]);
    }

    #[test]
    fn attributes_are_where_nvtx_has_them() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(Attributes, payload), 24);
        assert_eq!(offset_of!(Attributes, message_type), 32);
        assert_eq!(offset_of!(Attributes, message), 40);
        assert_eq!(size_of::<Attributes>(), 48);
    }
}
