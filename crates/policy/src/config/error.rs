//! What is wrong with a configuration.

/// A configuration that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value of a variable or option is not allowed for its setting.
    #[error("{key} = \"{value}\": {allowed}")]
    Value {
        /// The environment variable.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What may be given, as a request: "use …".
        allowed: String,
    },
    /// The text is not TOML, has a key that does not exist, or a value that is not allowed. Quotes nothing of
    /// the text.
    #[error("{}{what}", named(.file.as_deref()))]
    Toml {
        /// The file, if `COLDSTREAM_CONFIG` names it.
        file: Option<String>,
        /// The line, and what is wrong in it.
        what: String,
    },
}

/// The variable and the file in front of an error.
fn named(file: Option<&str>) -> String {
    file.map_or(String::new(), |file| {
        format!("COLDSTREAM_CONFIG = {file}: ")
    })
}
