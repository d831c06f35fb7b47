//! An engine that has a load driver, and no presets and no recipes of its own.

use super::arguments::{Condition, LoadArgs};
use super::dataset::{Dataset, WantedDataset};
use super::driver::Driver;
use super::parameters::{LoadParameters, OptionsParameters};
use crate::engine::{self, Description, Engine, EngineArguments, Plan, Run};
use crate::linked::LinkedCopy;
use crate::measurement::Measurement;
use crate::run_report::HIT_NS_MAX;
use crate::testbed::{Testbed, WorkDirArgs};
use anyhow::{Context, Result};
use coldstream_policy::Profile;
use std::path::Path;

/// What distinguishes such engines.
pub trait Kind: Sized {
    /// The options on the command line.
    type Arguments: DrivenArguments<Mode = Self::Mode>;
    /// One way to run the engine.
    type Mode: DrivenMode;

    /// Its name in the names of files.
    const NAME: &'static str;
    /// File name of the load driver.
    const DRIVER: &'static str;
    /// Extension of its SSTables.
    const EXTENSION: &'static str;
    /// Coldstream's profile for it.
    const PROFILE: Profile;
    /// As [`Engine::READER_THREADS`].
    const READER_THREADS: &'static [&'static str];
    /// What the laboratory cannot measure of it.
    const LIMITATION: Option<&'static str>;

    /// Options of every mode in the engine's own form, with `further` ones.
    fn options(further: &str) -> String;

    /// The engine with its version, for people. `told` is what the driver tells of it, if anything.
    fn title(told: &str) -> String;
}

/// The options of such an engine.
pub trait DrivenArguments: EngineArguments {
    /// Its modes.
    type Mode;

    /// What all such engines have among their options.
    fn parts(&self) -> Parts<'_, Self::Mode>;
}

/// What all such engines have among their options.
#[derive(Clone, Copy)]
pub struct Parts<'a, M> {
    /// The modes to compare.
    pub modes: &'a [M],
    /// Data and load.
    pub load: &'a LoadArgs,
    /// Work directory, device and report.
    pub work_dir: &'a WorkDirArgs,
    /// The engine's shared library; `None` if it is linked into the driver.
    pub library: Option<&'a str>,
}

/// One way to run such an engine.
pub trait DrivenMode: engine::Mode {
    /// Options of this mode, to be appended to those of every mode.
    fn options(&self) -> String;
}

/// An engine, driven by its load driver.
#[derive(Debug)]
pub struct Driven<K: Kind> {
    arguments: K::Arguments,
    /// Options of every mode.
    options: String,
    driver: Driver,
    title: String,
}

impl<K: Kind> Engine for Driven<K> {
    type Arguments = K::Arguments;
    type Mode = K::Mode;
    type Condition = Condition;
    type Dataset = Dataset;

    const PROFILE: Profile = K::PROFILE;
    const READER_THREADS: &'static [&'static str] = K::READER_THREADS;

    fn find(arguments: K::Arguments) -> Result<Self> {
        let Parts {
            modes,
            load,
            library,
            ..
        } = arguments.parts();
        let driver = Driver::find(load.driver.as_ref(), K::DRIVER)?;
        let options = K::options(&load.engine_options);
        let mut title = String::new();
        for mode in modes {
            let parameters = OptionsParameters {
                library,
                options: options.clone() + &mode.options(),
            };
            let told = driver.check_options(&parameters);
            title = K::title(&told.with_context(|| format!("mode {mode}"))?);
        }
        Ok(Self {
            options,
            driver,
            title,
            arguments,
        })
    }

    fn plan(&self) -> Plan<'_, Self> {
        let parts = self.arguments.parts();
        Plan {
            modes: parts.modes,
            turns: parts.load.runs,
            cases: parts.load.cases(),
            work_dir: parts.work_dir,
        }
    }

    fn prepare(&self, testbed: &mut Testbed) -> Result<Dataset> {
        if let Some(limitation) = K::LIMITATION {
            testbed.add_limitation(limitation.to_owned());
        }
        let Parts {
            load,
            work_dir,
            library,
            ..
        } = self.arguments.parts();
        let shape = load.shape();
        let wanted = WantedDataset {
            name: format!("dataset-{}-{}x{}", K::NAME, load.keys, load.value_bytes),
            values_bytes: load.keys * load.value_bytes,
            extension: K::EXTENSION,
            made_with: format!("{shape:?} {} {}", library.unwrap_or(""), self.options),
            how: shape.how(),
        };
        Dataset::prepare(wanted, work_dir.keep, testbed, |directory| {
            self.driver.load(&LoadParameters {
                database: load.database(library, directory, self.options.clone()),
                shape,
            })
        })
    }

    fn copy_dataset(&self, dataset: &Dataset, _: &K::Mode, directory: &Path) -> Result<LinkedCopy> {
        dataset.copy(directory)
    }

    fn run(
        &self,
        testbed: &mut Testbed,
        dataset: &Dataset,
        run: &mut Run<'_, Self>,
    ) -> Result<Measurement> {
        let directory = run.copy.path().to_path_buf();
        let Parts { load, library, .. } = self.arguments.parts();
        let options = self.options.clone() + &run.mode.options();
        let database = load.database(library, &directory, options);
        let parameters = load.run_parameters(database, run.condition, run.turn);
        let mut measurement = Measurement::new(HIT_NS_MAX);
        (self.driver).measure(testbed, run, dataset, &parameters, &mut measurement)?;
        Ok(measurement)
    }

    fn describe(&self) -> Description {
        self.arguments.parts().load.describe(self.title.clone())
    }
}
