//! Names the shared library as programs look for it, and pins it: a program that closes
//! libcuda.so.1 still has threads and exit handlers that lead into it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
