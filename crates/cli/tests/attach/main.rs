//! `coldstream attach` to a program that reads as an engine does: this test program, started once more.

mod drops;
mod life;
mod priorities;
mod refusals;
mod subject;

/// The program that is followed.
#[test]
fn engine() {
    subject::work();
}
