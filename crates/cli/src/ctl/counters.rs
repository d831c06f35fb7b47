//! Every counter by its name, grouped by mechanism: the end of `ctl status --all`.

use coldstream_control::{Counter, CounterGroup, Snapshot};

use super::values::with_unit;
use crate::output;

/// The counters with their values. A line each, name first, for `grep`.
pub fn render(snapshot: &Snapshot) -> String {
    let names = Counter::ALL.iter().map(|counter| counter.name().len());
    let width = names.max().unwrap_or_default();
    let mut text = String::new();
    for group in CounterGroup::ALL {
        text += &format!("\n{}\n", output::bold(group.title()));
        let counters = snapshot.counters();
        for (counter, value) in counters.filter(|(counter, _)| counter.group() == *group) {
            let value = with_unit(counter, value);
            text += &format!("  {:<width$}  {value}\n", counter.name());
        }
    }
    text
}
