//! Writes `docs/configuration.md` (`markdown`) or `examples/coldstream.toml` (`toml`) to the file that is named.

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, file] = arguments.as_slice() else {
        return Err("usage: settings markdown|toml FILE".to_owned());
    };
    let text = match kind.as_str() {
        "markdown" => coldstream_policy::markdown(),
        "toml" => coldstream_policy::example_toml(),
        _ => return Err(format!("\"{kind}\": use markdown or toml")),
    };
    std::fs::write(file, text).map_err(|error| format!("{file}: {error}"))
}
