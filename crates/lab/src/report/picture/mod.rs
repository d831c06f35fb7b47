//! The pictures of the report, as SVG.
//!
//! They are written by hand with `maud` and not with `plotters`, which writes fixed colours. These
//! pictures take their colours from the page's style sheet: one picture serves light and dark pages.

mod alone;
mod axis;
mod colours;
mod percentiles;
mod timeline;

pub use alone::percentiles_alone;
pub use colours::{Slot, slots};
pub use percentiles::percentiles;
pub use timeline::{TIMELINES, p99_by_mode, timeline};
