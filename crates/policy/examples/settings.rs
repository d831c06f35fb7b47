//! Prints `docs/configuration.md` (`markdown`) or `examples/coldstream.toml` (`toml`).

fn main() -> Result<(), String> {
    let text = match std::env::args().nth(1).as_deref() {
        Some("markdown") => coldstream_policy::markdown(),
        Some("toml") => coldstream_policy::example_toml(),
        _ => return Err("usage: settings markdown|toml".to_owned()),
    };
    print!("{text}");
    Ok(())
}
