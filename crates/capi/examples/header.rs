//! Writes `include/coldstream.h`, or prints it with `--print`: C's view of this crate.

use std::path::Path;

fn main() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let configuration = cbindgen::Config::from_root_or_default(directory);
    let bindings = cbindgen::generate_with_config(directory, configuration).expect("bindings");
    if std::env::args().any(|argument| argument == "--print") {
        bindings.write(std::io::stdout());
    } else {
        bindings.write_to_file(directory.join("include/coldstream.h"));
    }
}
