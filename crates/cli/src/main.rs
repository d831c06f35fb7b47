//! coldstream
fn main() {}
