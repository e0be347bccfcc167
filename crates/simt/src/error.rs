//! Compile errors: why a module cannot be loaded.

use ptx::ast;
use std::fmt;

/// Why a module cannot be loaded; its text is the JIT error log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// What happened, for the CUresult.
    pub kind: CompileErrorKind,
    /// The JIT error log: a line for each finding, with line and column of the PTX.
    pub log: String,
}

/// Kinds of compile error, each with the CUresult it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileErrorKind {
    /// Not PTX that can be compiled: CUDA_ERROR_INVALID_PTX.
    InvalidPtx,
    /// No device memory for the module's variables: CUDA_ERROR_OUT_OF_MEMORY.
    OutOfMemory,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log)
    }
}

impl std::error::Error for CompileError {}

impl CompileError {
    pub(crate) fn plain(log: String) -> Self {
        Self { kind: CompileErrorKind::InvalidPtx, log }
    }

    pub(crate) fn at(module: &ast::Module, span: ast::Span, message: String) -> Self {
        let diagnostic = ptx::Diagnostic {
            position: module.position(span),
            severity: ptx::Severity::Error,
            message,
        };
        let end = "ptxas fatal   : Ptx assembly aborted due to errors";
        Self::plain(format!("{diagnostic}\n{end}"))
    }

    pub(crate) fn out_of_memory(bytes: u64) -> Self {
        let log = format!("no device memory for {bytes} bytes of module variables");
        Self { kind: CompileErrorKind::OutOfMemory, log }
    }

    pub(crate) fn no_heap() -> Self {
        let log = "no device memory for the heap of malloc and free".to_owned();
        Self { kind: CompileErrorKind::OutOfMemory, log }
    }
}
