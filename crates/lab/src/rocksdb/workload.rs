//! What is measured: the options that were given, and a preset's values for the rest.

use super::arguments::RocksDbArgs;
use super::mode::Mode;
use super::recipe::Recipe;
use crate::driven::case::{Case, HotLayout, Sizes, Start};
use crate::driven::parameters::Loop;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The recipe, if one was named.
    pub recipe: Option<Recipe>,
    /// Modes to compare.
    pub modes: Vec<Mode>,
    /// Sizes of the hot set.
    pub cases: Vec<Case>,
    /// Sizes of everything else.
    pub sizes: Sizes,
    /// Where hot keys lie.
    pub hot_layout: HotLayout,
    /// How a reader comes to its next read.
    pub reader_loop: Loop,
    /// Reads a second of all readers together, in an open loop.
    pub reads_per_second: u64,
    /// Rate limit of the compaction's writes in MiB/s; 0 is none.
    pub compaction_mib_per_second: u64,
    /// Rate of updates in MiB/s; 0 is one manual compaction instead.
    pub update_mib_per_second: u64,
    /// RocksDB options of every mode.
    pub engine_options: String,
    /// Size of a value.
    pub value_bytes: u64,
    hot_keys: Option<u64>,
    start: Option<Start>,
}

impl RocksDbArgs {
    /// The options that were given, and presets for the rest.
    pub fn workload(&self) -> Workload {
        let preset = self.preset();
        let memory_mib = self.memory_mib.unwrap_or(preset.memory_mib);
        let update_mib_per_second =
            (self.update_mib_per_second).unwrap_or(preset.update_mib_per_second);
        let is_closed = self.closed_loop
            || preset.reader_loop == Loop::Closed
                && self.reads_per_second.is_none()
                && self.load_steps.is_empty();
        Workload {
            recipe: self.recipe,
            modes: self.modes(),
            cases: match self.cases.as_slice() {
                [] => preset.cases.to_vec(),
                given => given.to_vec(),
            },
            sizes: Sizes {
                keys: self.keys.unwrap_or(preset.keys.within(memory_mib)),
                memory_bytes: memory_mib << 20,
                warm_up_seconds: self.warm_up_seconds.unwrap_or(preset.warm_up_seconds),
                idle_seconds: self.idle_seconds.unwrap_or(preset.idle_seconds),
                compaction_seconds: (self.compaction_seconds).unwrap_or(preset.compaction_seconds),
                after_seconds: self.after_seconds.unwrap_or(preset.after_seconds),
            },
            hot_layout: self.hot_layout.unwrap_or(preset.hot_layout),
            reader_loop: if is_closed { Loop::Closed } else { Loop::Open },
            reads_per_second: self.reads_per_second.unwrap_or(READS_PER_SECOND),
            compaction_mib_per_second: (self.compaction_mib_per_second)
                .unwrap_or(preset.compaction_mib_per_second),
            update_mib_per_second,
            engine_options: preset
                .tuning
                .engine_options(update_mib_per_second > 0, &self.engine_options),
            value_bytes: self.value_bytes.unwrap_or(preset.value_bytes),
            hot_keys: self.hot_keys,
            start: self.start,
        }
    }
}

impl Workload {
    /// The page cache at the start of a case's runs.
    pub fn start_of(&self, case: Case) -> Start {
        self.start.unwrap_or_else(|| case.start())
    }

    /// Memory limit in bytes and number of hot keys of a case.
    pub fn limit_and_hot_keys(&self, case: Case) -> (u64, u64) {
        let (limit, hot_keys) =
            case.limit_and_hot_keys(&self.sizes, self.value_bytes, self.hot_layout);
        let hot_keys = self.hot_keys.unwrap_or(hot_keys);
        (limit, hot_keys.clamp(1, self.sizes.keys))
    }
}

/// Reads a second of an open loop.
const READS_PER_SECOND: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::super::preset::DEFAULT;
    use super::*;
    use crate::option_name::option_name;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        /// Where the report goes
        #[command(flatten)]
        arguments: RocksDbArgs,
    }

    fn workload(words: &[&str]) -> Workload {
        Command::try_parse_from(std::iter::once(&"lab").chain(words))
            .map(|command| command.arguments.workload())
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn names(workload: &Workload) -> Vec<String> {
        workload.modes.iter().map(Mode::to_string).collect()
    }

    #[test]
    fn the_start_that_was_asked_for_wins() {
        for start in [Start::Cold, Start::Warm] {
            let workload = workload(&["--start", &option_name(start)]);
            assert_eq!(workload.start_of(Case::InMemory), start);
            assert_eq!(workload.start_of(Case::Small), start);
        }
    }

    #[test]
    fn an_explicit_figure_wins_over_a_preset() {
        let quick = workload(&["--quick", "--keys", "7", "--hot-keys", "3"]);
        assert_eq!(quick.sizes.keys, 7);
        assert_eq!(quick.limit_and_hot_keys(Case::Large).1, 3);
        assert_eq!(quick.reader_loop, Loop::Open);
        assert_eq!(names(&quick), DEFAULT.modes);
    }

    #[test]
    fn a_recipe_is_scaled_by_the_memory_limit() {
        for (memory_mib, keys, large) in [("512", 1_750_000, 48_828), ("1024", 3_500_000, 97_656)] {
            let recipe = workload(&["--recipe", "pr14743", "--memory-mib", memory_mib]);
            assert_eq!(recipe.sizes.keys, keys);
            assert_eq!(recipe.limit_and_hot_keys(Case::RecipeLarge).1, large);
            assert_eq!(recipe.reader_loop, Loop::Closed);
        }
        let half = workload(&["--recipe", "pr14743"]);
        assert_eq!(half.sizes.memory_bytes, 512 << 20);
        assert_eq!(half.cases, [Case::RecipeSmall, Case::RecipeLarge]);
        assert!(half.engine_options.contains("write_buffer_size=67108864"));
        let updates = workload(&["--update-mib-per-second", "191"]);
        assert!(
            updates
                .engine_options
                .contains("write_buffer_size=16777216")
        );
    }

    #[test]
    fn an_explicit_option_wins_over_a_recipe() {
        let recipe = |words: &[&str]| workload(&[&["--recipe", "pr14743"], words].concat());
        let rate = recipe(&["--reads-per-second", "5000"]);
        assert_eq!(
            (rate.reader_loop, rate.reads_per_second),
            (Loop::Open, 5000)
        );
        assert_eq!(rate.update_mib_per_second, 191);
        assert_eq!(
            names(&recipe(&["--modes", "direct-writes"])),
            ["direct-writes"]
        );
        assert_eq!(recipe(&["--cases", "most"]).cases, [Case::Most]);
        assert_eq!(recipe(&["--keys", "9"]).sizes.keys, 9);
        assert_eq!(
            recipe(&["--update-mib-per-second", "0"]).update_mib_per_second,
            0
        );
        let further = recipe(&["--engine-options", "max_background_jobs=8"]);
        assert!(further.engine_options.ends_with(";max_background_jobs=8"));
    }
}
