//! Macro for calls of the driver API, of a table that has resolved them.

/// Calls a function of the table or of the extension.
macro_rules! cu {
    ($table:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: arguments are values, handles made by the same table, and places on the stack
        // that live across the call.
        unsafe { ($table.$name)($($argument),*) }
            .with_context(|| concat!(stringify!($name), " failed"))
    };
}
