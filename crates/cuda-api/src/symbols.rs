//! What a driver library exports and what cuGetProcAddress knows: every name and version.
//! The rows are generated (`generated.rs`).

mod generated;

pub use generated::{PROC_TABLE, SYMBOLS};

/// What cuGetProcAddress gives for a name, from a version on, for one kind of default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcEntry {
    /// The name asked for: no version suffix.
    pub base: &'static str,
    /// First CUDA version (major * 1000 + minor * 10) at which the name means this symbol.
    pub version: u32,
    /// True for the per-thread default stream.
    pub per_thread: bool,
    /// Index of the symbol in [`SYMBOLS`].
    pub symbol: u16,
}

/// Why cuGetProcAddress finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcError {
    /// No function of that name.
    NotFound,
    /// The function came with a later version.
    VersionNotSufficient,
}

/// Index in [`SYMBOLS`] of an exported symbol.
pub fn index_of(symbol: &str) -> Option<u16> {
    SYMBOLS.binary_search(&symbol).ok().map(|i| i as u16)
}

/// What cuGetProcAddress answers: the symbol of the newest version up to `version`, the
/// per-thread one if asked for and there is one.
pub fn proc_address(base: &str, version: u32, per_thread: bool) -> Result<u16, ProcError> {
    let first = PROC_TABLE.partition_point(|e| e.base < base);
    let rows = &PROC_TABLE[first..];
    let rows = &rows[..rows.partition_point(|e| e.base == base)];
    if rows.is_empty() {
        return Err(ProcError::NotFound);
    }
    let newest = |per_thread: bool| {
        rows.iter()
            .filter(|e| e.per_thread == per_thread && e.version <= version)
            .max_by_key(|e| e.version)
            .map(|e| e.symbol)
    };
    per_thread
        .then(|| newest(true))
        .flatten()
        .or_else(|| newest(false))
        .ok_or(ProcError::VersionNotSufficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &str, version: u32, per_thread: bool) -> Result<&'static str, ProcError> {
        proc_address(base, version, per_thread).map(|i| SYMBOLS[usize::from(i)])
    }

    #[test]
    fn names_and_versions_resolve_as_in_the_driver() {
        assert_eq!(found("cuMemAlloc", 2000, false), Ok("cuMemAlloc"));
        assert_eq!(found("cuMemAlloc", 3020, false), Ok("cuMemAlloc_v2"));
        assert_eq!(found("cuMemAlloc", 13000, false), Ok("cuMemAlloc_v2"));
        assert_eq!(found("cuCtxCreate", 11040, false), Ok("cuCtxCreate_v3"));
        assert_eq!(found("cuMemcpyHtoD", 7000, true), Ok("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(found("cuInit", 12000, true), Ok("cuInit"));
        assert_eq!(found("cuCtxSynchronize", 12090, false), Ok("cuCtxSynchronize"));
    }

    #[test]
    fn what_is_not_there_says_why() {
        assert_eq!(found("cuMemAlloc_v2", 13000, false), Err(ProcError::NotFound));
        assert_eq!(found("", 0, false), Err(ProcError::NotFound));
        assert_eq!(found("cuLaunchKernelEx", 4000, false), Err(ProcError::VersionNotSufficient));
    }

    #[test]
    fn tables_are_sorted() {
        assert!(SYMBOLS.windows(2).all(|w| w[0] < w[1]));
        assert!(PROC_TABLE.windows(2).all(|w| w[0].base <= w[1].base));
    }
}
