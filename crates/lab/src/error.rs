//! Why a measurement ended early.

use crate::interrupt;

/// Why a measurement ended early.
#[derive(Debug)]
pub enum LabError {
    /// The measurement could not start or go on. The error says what failed and what to do.
    Failed(anyhow::Error),
    /// The database returned a value that was never written: data is lost or misread.
    WrongValue(String),
    /// The user interrupted, and the laboratory has cleaned up. Ctrl-C also ends the programs that
    /// the laboratory runs; their error, if any, is inside.
    Interrupted(Option<anyhow::Error>),
}

impl std::fmt::Display for LabError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabError::Failed(error) => write!(formatter, "{error:#}"),
            LabError::WrongValue(which) => write!(
                formatter,
                "the database gave a wrong value: {which}. This is a bug that loses data: stop \
                 using this mode and report it"
            ),
            LabError::Interrupted(error) => {
                formatter.write_str("interrupted; everything was cleaned up")?;
                match error {
                    Some(error) => write!(formatter, " ({error:#})"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for LabError {}

impl From<anyhow::Error> for LabError {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<WrongValue>() {
            Ok(wrong) => LabError::WrongValue(wrong.0),
            Err(error) if error.is::<Interrupted>() => LabError::Interrupted(None),
            Err(error) if interrupt::is_requested() => LabError::Interrupted(Some(error)),
            Err(error) => LabError::Failed(error),
        }
    }
}

/// The database returned a value that was never written. The text says which.
#[derive(Debug)]
pub struct WrongValue(pub String);

impl std::fmt::Display for WrongValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongValue {}

/// The user interrupted the laboratory.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
