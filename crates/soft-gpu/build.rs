//! Linker arguments of the provider library.

fn main() {
    // Worker threads and thread-local destructors run its code until the process ends: dlclose
    // must not take it away.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libopenmps-soft.so");
    println!("cargo::rerun-if-changed=build.rs");
}
