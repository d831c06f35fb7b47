//! Where models come from: this machine, or a recorded file.

use std::collections::VecDeque;

use super::look::Look;
use super::model::Model;
use super::record::Record;
use super::tax_window::TaxWindow;
use crate::exit::{Exit, failure};

/// Models, one after another.
pub trait Models {
    /// The model of the interval that ends now; none if there is no other.
    ///
    /// # Errors
    /// It cannot be made or recorded.
    fn next(&mut self) -> anyhow::Result<Option<Model>>;

    /// The last model that there is: of a record, its end.
    ///
    /// # Errors
    /// As [`Models::next`].
    fn last(&mut self) -> anyhow::Result<Option<Model>> {
        self.next()
    }
}

/// This machine.
pub struct Machine {
    only: Option<u32>,
    earlier: Look,
    window: TaxWindow,
    record: Option<Record>,
}

impl Machine {
    /// Looks for the first time, at one process or at all.
    ///
    /// # Errors
    /// The status pages cannot be listed.
    pub fn new(only: Option<u32>, record: Option<Record>) -> anyhow::Result<Self> {
        let earlier = Look::now(only)?;
        Ok(Self {
            only,
            window: TaxWindow::since(&earlier),
            earlier,
            record,
        })
    }

    /// Whether any process was seen.
    pub fn sees_nothing(&self) -> bool {
        self.earlier.survey.processes.is_empty()
    }
}

impl Models for Machine {
    fn next(&mut self) -> anyhow::Result<Option<Model>> {
        let later = Look::now(self.only)?;
        let mut model = Model::between(&self.earlier, &later);
        self.window.follow(&later, &mut model);
        self.earlier = later;
        if let Some(record) = &mut self.record {
            record.append(&model)?;
        }
        match self.only {
            Some(pid) if model.processes.is_empty() => {
                Err(failure(Exit::NotFound, format!("process {pid} has ended")))
            }
            _ => Ok(Some(model)),
        }
    }
}

/// A record.
pub struct Replay(pub VecDeque<Model>);

impl Models for Replay {
    fn next(&mut self) -> anyhow::Result<Option<Model>> {
        Ok(self.0.pop_front())
    }

    fn last(&mut self) -> anyhow::Result<Option<Model>> {
        Ok(self.0.pop_back())
    }
}
