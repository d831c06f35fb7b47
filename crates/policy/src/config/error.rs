//! What is wrong with a configuration.

/// A configuration that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value is not allowed for its setting.
    #[error("{key} = \"{value}\": {allowed}")]
    Value {
        /// The environment variable or TOML key.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What may be given, as a request: "use …".
        allowed: String,
    },
    /// The text is not TOML, or has a key that does not exist.
    #[error("{0}")]
    Toml(String),
}
