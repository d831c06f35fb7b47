//! Colours of the modes: the same mode has the same colour in every picture of a report.

/// The place of a mode in the palette. The page's style sheet has a light and a dark colour for
/// each: `--mode-0` to `--mode-7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

/// Colours of a picture that stands alone: visible on white and on black alike.
const ALONE: [&str; SLOTS] = [
    "#e8590c", "#228be6", "#2f9e44", "#845ef7", "#e64980", "#1098ad", "#b08800", "#868e96",
];
const SLOTS: usize = 8;

impl Slot {
    /// In a page, which has the style sheet.
    pub fn in_page(self) -> String {
        format!("var(--mode-{})", self.0)
    }

    /// In a picture that stands alone.
    pub fn alone(self) -> &'static str {
        ALONE[self.0]
    }
}

/// The slots of all modes. The first mode has slot 0 and the one in focus slot 1; a report of more
/// than eight modes repeats the others.
pub fn slots(modes: usize, focus: Option<usize>) -> Vec<Slot> {
    let mut others = (2..SLOTS).cycle();
    (0..modes)
        .map(|mode| match mode {
            0 => Slot(0),
            mode if focus == Some(mode) => Slot(1),
            _ => Slot(others.next().unwrap_or(0)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_focus_has_the_second_colour() {
        let slots = slots(3, Some(2));
        assert_eq!(slots, [Slot(0), Slot(2), Slot(1)]);
        assert_eq!(super::slots(12, None).len(), 12);
    }
}
