//! The Java that nodes run with.

use crate::error::NodeError;
use std::fs;
use std::path::{Path, PathBuf};

/// Cassandra 4.1 (from 4.1.10 on) to 6.0 all run with this one.
const FEATURE_RELEASE: &str = "17";

/// A JDK.
#[derive(Clone, Debug)]
pub struct Java {
    home: PathBuf,
}

/// The feature release out of a JDK's `release` file: `JAVA_VERSION="17.0.15"`.
fn feature_release(release: &str) -> Option<&str> {
    let version = release
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?
        .trim_matches('"');
    version.split(['.', '-', '+']).next()
}

impl Java {
    /// `JAVA_HOME`, else what is installed under `/usr/lib/jvm`, else the `java` of the `PATH`.
    ///
    /// # Errors
    /// [`NodeError::NoJava`], with what was found instead.
    pub fn find() -> Result<Self, NodeError> {
        let mut homes: Vec<PathBuf> = std::env::var_os("JAVA_HOME")
            .map(PathBuf::from)
            .into_iter()
            .collect();
        if let Ok(installed) = fs::read_dir("/usr/lib/jvm") {
            let mut installed: Vec<PathBuf> =
                installed.flatten().map(|entry| entry.path()).collect();
            installed.sort();
            homes.extend(installed);
        }
        homes.extend(home_of_path());
        let mut looked = Vec::new();
        for home in homes {
            let Ok(release) = fs::read_to_string(home.join("release")) else {
                continue;
            };
            match feature_release(&release) {
                Some(FEATURE_RELEASE) if home.join("bin/javac").exists() => {
                    return Ok(Self { home });
                }
                Some(FEATURE_RELEASE) => looked.push(format!("{} has no javac", home.display())),
                Some(other) => looked.push(format!("{} is Java {other}", home.display())),
                None => {}
            }
        }
        Err(NodeError::NoJava {
            looked: if looked.is_empty() {
                "not in JAVA_HOME, /usr/lib/jvm or PATH".into()
            } else {
                looked.join(", ")
            },
        })
    }

    /// The `java` command.
    pub fn command(&self) -> PathBuf {
        self.home.join("bin/java")
    }

    /// For `JAVA_HOME`.
    pub fn home(&self) -> &Path {
        &self.home
    }
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
