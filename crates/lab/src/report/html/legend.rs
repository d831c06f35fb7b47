//! What colours mean: the legend of modes, and the class of a figure.

use crate::report::picture::Slot;
use crate::summary::{Certainty, Change};
use maud::{Markup, html};

/// The modes with their colours.
pub fn legend(modes: &[String], slots: &[Slot]) -> Markup {
    html! {
        ul.legend {
            @for (mode, slot) in modes.iter().zip(slots) {
                li { (swatch(*slot)) (mode) }
            }
        }
    }
}

/// A mode's colour.
pub fn swatch(slot: Slot) -> Markup {
    html! { span.swatch style={ "background:" (slot.in_page()) } {} }
}

/// The class of a figure: coloured only beyond the noise.
pub fn class(change: Change) -> &'static str {
    match change {
        Change::Better(Certainty::BeyondNoise) => "better",
        Change::Worse(Certainty::BeyondNoise) => "worse",
        Change::Better(_) | Change::Worse(_) | Change::Even => "even",
    }
}
