//! The tables of `docs/counters.md`, made of the list of counters. A test fails when they are stale, and
//! says how to renew them.

use std::fmt::Write;

use crate::counter::{Counter, CounterGroup};

/// The lines of the document that enclose the tables.
const BEGIN: &str = "<!-- Made of crates/control/src/counter.rs, as its test says. -->\n";
const END: &str = "<!-- End of what is made. -->\n";

/// `document` with its tables renewed. The text outside of the two marks stays.
#[must_use]
pub fn with_counter_tables(document: &str) -> String {
    let (before, rest) = document.split_once(BEGIN).unwrap_or((document, ""));
    let (_, after) = rest.split_once(END).unwrap_or(("", ""));
    format!("{before}{BEGIN}{}\n{END}{after}", tables())
}

fn tables() -> String {
    let mut text = String::new();
    for group in CounterGroup::ALL {
        let title = group.title();
        let (first, rest) = title.split_at(1);
        let _ = write!(text, "\n## {}{rest}\n", first.to_uppercase());
        if *group == CounterGroup::Fallbacks {
            text.push_str(
                "\nEach is a plain call, or a less effective mode, for a reason. Where staging ended, the file was \
                 written by plain calls from then on.\nThat is correct, but worth a report unless it is \
                 normal.\n",
            );
        }
        text.push_str("\n| counter | what it counts |\n|---|---|\n");
        let counters = Counter::ALL.into_iter();
        for counter in counters.filter(|counter| counter.group() == *group) {
            row(&mut text, counter);
        }
    }
    text
}

/// The row of a counter. The classes of a histogram share the row of the first one.
fn row(text: &mut String, counter: Counter) {
    let histograms: [&[Counter]; 2] = [&Counter::HANDOVER_DELAYS, &Counter::DEVICE_READS];
    let name = counter.name();
    for classes in histograms {
        if let [first, second, .., last] = classes
            && classes.contains(&counter)
        {
            if counter == *first {
                let _ = writeln!(
                    text,
                    "| `{name}`, `{}` … `{}` | {} {} … |",
                    second.name(),
                    last.name(),
                    first.explanation(),
                    second.explanation().trim_end_matches('.'),
                );
            }
            return;
        }
    }
    let former = counter.former_name();
    let former = former.map_or(String::new(), |former| format!(" (old: `{former}`)"));
    let _ = writeln!(text, "| `{name}`{former} | {} |", counter.explanation());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        let document = std::fs::read_to_string(path).unwrap();
        assert!(document.contains(BEGIN) && document.contains(END));
        assert!(
            with_counter_tables(&document) == document,
            "{path} is stale: renew it with\n\
             cargo run -p coldstream-control --profile checked --example counters docs/counters.md"
        );
    }
}
