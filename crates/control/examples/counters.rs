//! Renews the tables of `docs/counters.md`, whose path is the argument.

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let document = std::fs::read_to_string(&path)?;
    std::fs::write(path, coldstream_control::with_counter_tables(&document))
}
