//! The name of an option's value, the same on the command line, for the load driver and in reports.

use clap::ValueEnum;

/// The name of a value as the command line has it.
pub fn option_name(value: impl ValueEnum) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |possible| possible.get_name().to_owned())
}
