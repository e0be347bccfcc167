//! The functions that a compiler exports, as labels: those written here jump to what is written, all
//! others to the real library's, with any arguments.

use crate::caller::Text;
use crate::real;
use std::ffi::{c_int, c_void};

/// What a function answers that the real library does not have: an internal error to NVRTC (11), and
/// one of a kind that it does not know to nvJitLink.
const MISSING: c_int = 11;

extern "C" fn missing() -> c_int {
    MISSING
}

/// Where a label leads, asked for at its first call.
#[unsafe(no_mangle)]
extern "C" fn openmps_compiler_symbol(name: Text) -> *const c_void {
    name.get().and_then(real::symbol).unwrap_or(missing as *const c_void)
}

/// A label that leads to the real library's function of its name. Registers that may have arguments
/// are kept around the first call, in which the function is looked up.
macro_rules! forward {
    ($($name:literal)*) => {
        $(core::arch::global_asm!(
            concat!(".section .text.forward.", $name, ",\"ax\",@progbits"),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            concat!("movq .Lopenmps_slot_", $name, "(%rip), %r11"),
            "testq %r11, %r11",
            "jz 2f",
            "jmpq *%r11",
            "2:",
            "pushq %rdi", "pushq %rsi", "pushq %rdx", "pushq %rcx", "pushq %r8", "pushq %r9",
            // Seven words with the return address: one more for the stack's alignment.
            "subq $8, %rsp",
            concat!("leaq .Lopenmps_name_", $name, "(%rip), %rdi"),
            "callq openmps_compiler_symbol@PLT",
            "addq $8, %rsp",
            "popq %r9", "popq %r8", "popq %rcx", "popq %rdx", "popq %rsi", "popq %rdi",
            concat!("movq %rax, .Lopenmps_slot_", $name, "(%rip)"),
            "jmpq *%rax",
            concat!(".size ", $name, ", .-", $name),
            concat!(".section .rodata.forward.", $name, ",\"a\",@progbits"),
            concat!(".Lopenmps_name_", $name, ": .asciz \"", $name, "\""),
            concat!(".section .data.forward.", $name, ",\"aw\",@progbits"),
            ".balign 8",
            concat!(".Lopenmps_slot_", $name, ": .quad 0"),
            ".text",
            options(att_syntax)
        );)*
    };
}

/// Labels that lead to a function written here.
macro_rules! own {
    ($($name:literal => $function:literal)*) => {
        $(core::arch::global_asm!(
            concat!(".section .text.own.", $name, ",\"ax\",@progbits"),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            concat!("jmp ", $function, "@PLT"),
            concat!(".size ", $name, ", .-", $name),
            ".text",
            options(att_syntax)
        );)*
    };
}

/// nvJitLink's header calls functions with its version in their names.
macro_rules! own_of_versions {
    ($($name:literal => $function:literal)*) => {
        own! { $($name => $function)* }
        own_of_versions!(@versions ["12_0" "12_1" "12_2" "12_3" "12_4" "12_5" "12_6" "12_7" "12_8"
            "12_9" "13_0" "13_1" "13_2" "13_3" "13_4" "13_5" "13_6" "13_7" "13_8" "13_9"]
            $($name => $function)*);
    };
    (@versions $versions:tt $($name:literal => $function:literal)*) => {
        $(own_of_versions!(@names $versions $name => $function);)*
    };
    (@names [$($version:literal)*] $name:literal => $function:literal) => {
        $(core::arch::global_asm!(
            concat!(".section .text.own.", $name, $version, ",\"ax\",@progbits"),
            concat!(".globl __", $name, "_", $version),
            concat!(".type __", $name, "_", $version, ", @function"),
            concat!("__", $name, "_", $version, ":"),
            concat!("jmp ", $function, "@PLT"),
            concat!(".size __", $name, "_", $version, ", .-__", $name, "_", $version),
            ".text",
            options(att_syntax)
        );)*
    };
}

forward! {
    "__nvrtcCPEx" "nvrtcAddNameExpression" "nvrtcCreateProgram" "nvrtcGetErrorString"
    "nvrtcGetLTOIR" "nvrtcGetLTOIRSize" "nvrtcGetLoweredName" "nvrtcGetNVVM" "nvrtcGetNVVMSize"
    "nvrtcGetNumSupportedArchs" "nvrtcGetOptiXIR" "nvrtcGetOptiXIRSize" "nvrtcGetPCHCreateStatus"
    "nvrtcGetPCHHeapSize" "nvrtcGetPCHHeapSizeRequired" "nvrtcGetPTX" "nvrtcGetPTXSize"
    "nvrtcGetProgramLog" "nvrtcGetProgramLogSize" "nvrtcGetSupportedArchs" "nvrtcSetFlowCallback"
    "nvrtcSetPCHHeapSize" "nvrtcVersion" "nvrtcGetTileIR" "nvrtcGetTileIRSize"
    "nvrtcInstallBundledHeaders" "nvrtcRemoveBundledHeaders" "nvrtcGetBundledHeadersInfo"
    "nvJitLinkVersion" "__nvJitLinkAPI"
    "nvJitLinkGetLinkedLTOIR" "nvJitLinkGetLinkedLTOIRSize"
}

own! {
    "nvrtcCompileProgram" => "openmps_nvrtcCompileProgram"
    "nvrtcDestroyProgram" => "openmps_nvrtcDestroyProgram"
    "nvrtcGetCUBIN" => "openmps_nvrtcGetCUBIN"
    "nvrtcGetCUBINSize" => "openmps_nvrtcGetCUBINSize"
}

own_of_versions! {
    "nvJitLinkCreate" => "openmps_nvJitLinkCreate"
    "nvJitLinkDestroy" => "openmps_nvJitLinkDestroy"
    "nvJitLinkAddData" => "openmps_nvJitLinkAddData"
    "nvJitLinkAddFile" => "openmps_nvJitLinkAddFile"
    "nvJitLinkComplete" => "openmps_nvJitLinkComplete"
    "nvJitLinkGetLinkedCubinSize" => "openmps_nvJitLinkGetLinkedCubinSize"
    "nvJitLinkGetLinkedCubin" => "openmps_nvJitLinkGetLinkedCubin"
    "nvJitLinkGetLinkedPtxSize" => "openmps_nvJitLinkGetLinkedPtxSize"
    "nvJitLinkGetLinkedPtx" => "openmps_nvJitLinkGetLinkedPtx"
    "nvJitLinkGetErrorLogSize" => "openmps_nvJitLinkGetErrorLogSize"
    "nvJitLinkGetErrorLog" => "openmps_nvJitLinkGetErrorLog"
    "nvJitLinkGetInfoLogSize" => "openmps_nvJitLinkGetInfoLogSize"
    "nvJitLinkGetInfoLog" => "openmps_nvJitLinkGetInfoLog"
}
