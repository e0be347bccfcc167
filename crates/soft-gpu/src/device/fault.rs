//! Faults in words and as CUresults.

use crate::error::Error;
use simt::kernel::{Dim3, Fault, FaultKind};
use simt::runtime::heap::NotABlock;

/// The CUresult that a fault becomes, and one line that says what happened and where.
pub fn describe(fault: &Fault) -> (Error, String) {
    let (error, what) = match &fault.kind {
        FaultKind::IllegalAddress { address, bytes, write } => (
            Error::ILLEGAL_ADDRESS,
            format!(
                "illegal address: {} of {bytes} bytes at {address:#x}",
                if *write { "write" } else { "read" },
            ),
        ),
        FaultKind::OutsideSpace { space, offset, bytes, size, write } => (
            Error::ILLEGAL_ADDRESS,
            format!(
                "illegal address: {} of {bytes} bytes at offset {offset:#x} of {space} memory, \
                 which has {size} bytes{}",
                if *write { "write" } else { "read" },
                // What `alloca` gives without room is here.
                if *space == "local" { " (CU_LIMIT_STACK_SIZE decides)" } else { "" },
            ),
        ),
        FaultKind::MisalignedAddress { address, bytes } => (
            Error::MISALIGNED_ADDRESS,
            format!("misaligned address: access of {bytes} bytes at {address:#x}"),
        ),
        FaultKind::UnsupportedInstruction { text } => (
            Error::ILLEGAL_INSTRUCTION,
            format!("the software GPU does not have this instruction: {text}"),
        ),
        FaultKind::OutsideCluster => (
            Error::ILLEGAL_INSTRUCTION,
            "st.async or red.async of a grid that was launched without clusters".to_owned(),
        ),
        FaultKind::TensorMap { address, why } => {
            (Error::ILLEGAL_INSTRUCTION, format!("copy with the tensor map at {address:#x}: {why}"))
        }
        FaultKind::InvalidPc { target } => {
            (Error::INVALID_PC, format!("call or branch to {target:#x}, where no code is"))
        }
        FaultKind::DynamicParallelism => (
            Error::NOT_SUPPORTED,
            "a function of CUDA's device runtime that the software GPU does not have".to_owned(),
        ),
        FaultKind::Trap => (Error::LAUNCH_FAILED, "trap".to_owned()),
        FaultKind::Assert { message } => (Error::ASSERT, message.clone()),
        FaultKind::InvalidFree { address, what } => (
            Error::LAUNCH_FAILED,
            format!(
                "free of {address:#x}, {}",
                match what {
                    NotABlock::Free => "where nothing is allocated: it was freed before",
                    NotABlock::Inside => "which is inside of what malloc returned",
                    NotABlock::Elsewhere => "which malloc did not return",
                }
            ),
        ),
        FaultKind::StackOverflow => {
            (Error::LAUNCH_FAILED, "call depth exceeds the stack".to_owned())
        }
        FaultKind::BarrierDeadlock => (
            Error::LAUNCH_TIMEOUT,
            "threads wait at barriers that can never be complete".to_owned(),
        ),
    };
    let Dim3 { x: bx, y: by, z: bz } = fault.block;
    let Dim3 { x: tx, y: ty, z: tz } = fault.thread;
    let line = if fault.line == 0 { String::new() } else { format!(", PTX line {}", fault.line) };
    let text = format!(
        "kernel {}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}){line}: {what}",
        fault.kernel
    );
    (error, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_local_memory_names_the_limit_that_decides_about_it() {
        let text = |space| {
            let (offset, bytes, size, write) = (0x4010, 4, 0x4010, false);
            let kind = FaultKind::OutsideSpace { space, offset, bytes, size, write };
            let fault = Fault {
                kind,
                kernel: "tree".into(),
                block: Dim3::default(),
                thread: Dim3::default(),
                line: 0,
            };
            describe(&fault).1
        };
        let local = text("local");
        assert!(
            local.ends_with("memory, which has 16400 bytes (CU_LIMIT_STACK_SIZE decides)"),
            "{local}"
        );
        assert!(text("shared").ends_with("memory, which has 16400 bytes"));
    }

    #[test]
    fn a_fault_says_who_where_and_why() {
        let (error, text) = describe(&Fault {
            kind: FaultKind::IllegalAddress { address: 0x10, bytes: 4, write: true },
            kernel: "saxpy".into(),
            block: Dim3 { x: 3, y: 0, z: 0 },
            thread: Dim3 { x: 7, y: 1, z: 0 },
            line: 42,
        });
        assert_eq!(error, Error::ILLEGAL_ADDRESS);
        assert_eq!(
            text,
            "kernel saxpy, block (3,0,0), thread (7,1,0), PTX line 42: illegal address: write of \
             4 bytes at 0x10"
        );
    }
}
