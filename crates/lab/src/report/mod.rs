//! The report: its data, and the forms that people read.

mod data;
mod figures;
mod html;
mod output;
pub mod saved;
mod terminal;

pub use data::{CaseDescription, CaseReport, Report};
pub use output::{OutputArgs, publish};
