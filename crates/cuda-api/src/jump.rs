//! Jump table: the code of an exported function that leads to an entry of a table, with all arguments as they are.

/// The body of a naked function that jumps to entry `$index` of the static array `$entries` of code addresses.
///
/// The index is left in the scratch register r11, on AArch64 w16, for code that serves many functions.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! jump_to_entry {
    ($entries:path, $index:expr) => {
        ::core::arch::naked_asm!(
            "mov r11d, {index}",
            "jmp qword ptr [rip + {entries} + {offset}]",
            index = const $index,
            entries = sym $entries,
            offset = const $index * 8,
        )
    };
}

/// The body of a naked function that jumps to entry `$index` of the static array `$entries` of code addresses.
///
/// The index is left in the scratch register w16, on x86-64 r11, for code that serves many functions.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! jump_to_entry {
    ($entries:path, $index:expr) => {
        ::core::arch::naked_asm!(
            "mov w16, {index}",
            "adrp x17, {entries} + {offset}",
            "ldr x17, [x17, :lo12:{entries} + {offset}]",
            "br x17",
            index = const $index,
            entries = sym $entries,
            offset = const $index * 8,
        )
    };
}
