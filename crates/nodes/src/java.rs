//! The JDK that runs the nodes.

use crate::cache;
use crate::error::NodeError;
use std::fs;
use std::path::{Path, PathBuf};

/// The Java release that runs all of Cassandra 4.1.10 to 6.0.
const FEATURE_RELEASE: &str = "17";

/// A JDK.
#[derive(Clone, Debug)]
pub struct Java {
    home: PathBuf,
}

/// The feature release in the `release` file of a JDK: `JAVA_VERSION="17.0.15"`.
fn feature_release(release: &str) -> Option<&str> {
    let version = release
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?
        .trim_matches('"');
    version.split(['.', '-', '+']).next()
}

impl Java {
    /// The first fitting JDK: `JAVA_HOME`, then `/usr/lib/jvm`, then the `java` in `PATH`.
    ///
    /// # Errors
    /// [`NodeError::NoJava`], with the JDKs that were found instead.
    pub fn find() -> Result<Self, NodeError> {
        let mut found = Vec::new();
        for home in homes() {
            let Ok(release) = fs::read_to_string(home.join("release")) else {
                continue;
            };
            match feature_release(&release) {
                Some(FEATURE_RELEASE) if home.join("bin/javac").exists() => {
                    return Ok(Self { home });
                }
                Some(FEATURE_RELEASE) => found.push(format!("{} has no javac", home.display())),
                Some(other) => found.push(format!("{} is Java {other}", home.display())),
                None => {}
            }
        }
        Err(NodeError::NoJava {
            found: if found.is_empty() {
                "not in JAVA_HOME, /usr/lib/jvm or PATH".into()
            } else {
                found.join(", ")
            },
        })
    }

    /// The `java` command.
    pub fn command(&self) -> PathBuf {
        self.home.join("bin/java")
    }

    /// The value for `JAVA_HOME`.
    pub fn home(&self) -> &Path {
        &self.home
    }
}

/// The first JDK or JRE of another release, for instance `21`. Looks where `Java::find` looks, and then at what
/// `scripts/setup` has fetched.
#[must_use]
pub fn java_home(release: &str) -> Option<PathBuf> {
    let fetched = cache::directory().join(format!("java-{release}"));
    homes().into_iter().chain([fetched]).find(|home| {
        let said = fs::read_to_string(home.join("release")).unwrap_or_default();
        feature_release(&said) == Some(release) && home.join("bin/java").exists()
    })
}

fn homes() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = std::env::var_os("JAVA_HOME")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    if let Ok(installed) = fs::read_dir("/usr/lib/jvm") {
        let mut installed: Vec<PathBuf> = installed.flatten().map(|entry| entry.path()).collect();
        installed.sort();
        homes.extend(installed);
    }
    homes.extend(home_of_path());
    homes
}

fn home_of_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let java = std::env::split_paths(&path)
        .map(|directory| directory.join("java"))
        .find(|java| java.exists())?;
    Some(fs::canonicalize(java).ok()?.parent()?.parent()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feature_release_is_the_first_number() {
        for (release, feature) in [
            ("JAVA_VERSION=\"17.0.15\"\n", Some("17")),
            ("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25\"\n", Some("25")),
            ("JAVA_VERSION=\"17-ea\"", Some("17")),
            ("", None),
        ] {
            assert_eq!(feature_release(release), feature);
        }
    }
}
