//! Why a measurement ended before its time.

use crate::interrupt;

/// Why a measurement ended before its time.
#[derive(Debug)]
pub enum LabError {
    /// Could not start, or go on: what, where, what to do.
    Failed(anyhow::Error),
    /// A value that was read was wrong: data is being lost or misread.
    WrongValue(String),
    /// Somebody interrupted; everything was cleaned up. Ctrl-C ends the programs that the laboratory
    /// runs, too: with what they leave unfinished as an error.
    Interrupted(Option<anyhow::Error>),
}

impl std::fmt::Display for LabError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabError::Failed(error) => write!(formatter, "{error:#}"),
            LabError::WrongValue(said) => write!(
                formatter,
                "the database gave a wrong value: {said}. This is a bug that loses data: stop \
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

/// A value that was read was not what had been written.
#[derive(Debug)]
pub struct WrongValue(pub String);

impl std::fmt::Display for WrongValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongValue {}

/// Somebody interrupted.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}
