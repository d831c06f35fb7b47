//! The report: its data, and the forms that people read.

mod data;
mod figures;
#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod output;
mod picture;
mod published;
pub mod saved;
mod smallest_limit;
mod terminal;
mod trade;
mod verdict;

pub use data::{CaseDescription, CaseReport, Report};
pub use output::{OutputArgs, publish};
pub use published::{Published, PublishedRow};
pub use smallest_limit::{SmallestLimit, Tried};
