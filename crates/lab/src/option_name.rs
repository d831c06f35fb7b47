//! What a value of an option is called: on the command line, by the drivers and in reports.

use clap::ValueEnum;

/// As it is written on the command line.
pub fn option_name(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |possible| possible.get_name().to_owned())
}
