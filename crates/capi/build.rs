//! The shared library has threads of its own in the process, so it must never be unloaded. Its name in the programs that
//! are linked with it ends with the version of the interface.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcoldstream_io.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
