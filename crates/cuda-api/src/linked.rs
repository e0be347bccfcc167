//! Functions that are linked into a program, found by their names: for tests and benches that link
//! a provider and do without a dynamic loader.

/// Defines `fn symbol(&CStr) -> Option<*const c_void>`, which knows the functions named: what
/// [`DriverTable::resolve`](crate::DriverTable::resolve) and
/// [`Extension::resolve`](crate::extension::Extension::resolve) want to be given; and `linked_table` and
/// `linked_extension`, which have given it to them. The program must link a provider that exports all of them.
#[macro_export]
macro_rules! linked_symbols {
    ($($name:ident)*) => {
        mod linked {
            // Only their addresses are used; the tables know their types.
            unsafe extern "C" { $(pub fn $name();)* }
        }
        fn symbol(name: &::core::ffi::CStr) -> Option<*const ::core::ffi::c_void> {
            match name.to_str().ok()? {
                $(stringify!($name) => Some(linked::$name as *const ::core::ffi::c_void),)*
                _ => None,
            }
        }
        #[allow(dead_code, reason = "not every program wants both")]
        fn linked_table() -> $crate::DriverTable {
            // SAFETY: the functions are a provider's, linked into this program.
            unsafe { $crate::DriverTable::resolve(symbol) }
        }
        #[allow(dead_code, reason = "not every program wants both")]
        fn linked_extension() -> Option<$crate::extension::Extension> {
            // SAFETY: as above.
            unsafe { $crate::extension::Extension::resolve(symbol) }
        }
    };
}
