//! A matrix of programs and conditions. In none of them may a program end otherwise under the library than plain:
//! not with another exit status, another output or other files.
//!
//! Each row is a test. Most rows run the same small database (`programs/matrix.c`), those of JVMs its twin
//! (`programs/Matrix.java`).

/// Modules of this suite, in the folder of its name.
mod matrix {
    pub mod condition;
    mod containers;
    mod java;
    mod limits;
    mod namespaces;
    mod programs;
}
