//! What can go wrong with a node, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no node, or no answer of one.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No Java that Cassandra runs with.
    #[error(
        "no JDK 17 was found ({looked}): Cassandra 4.1 to 6.0 needs one. Install it (Debian: \
         `apt-get install openjdk-17-jdk-headless`) or set JAVA_HOME"
    )]
    NoJava {
        /// Where was looked, and what was there.
        looked: String,
    },
    /// Maven is missing.
    #[error(
        "mvn was not found: it fetches Cassandra {version} from Maven Central. Install it \
         (Debian: `apt-get install maven`)"
    )]
    NoMaven {
        /// The release that was wanted.
        version: String,
    },
    /// Maven could not fetch the release.
    #[error("mvn could not fetch Cassandra {version}: {said}")]
    Fetch {
        /// The release.
        version: String,
        /// The end of what Maven said.
        said: String,
    },
    /// A file or directory.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A node ended, or did not answer in time.
    #[error("node {address} {what}; the end of {log}: {tail}", log = log.display())]
    Node {
        /// Address of the node.
        address: String,
        /// What it did.
        what: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// Somebody else listens where the node would.
    #[error(
        "{address} is taken: another Cassandra, or the node of an earlier run, listens there or on \
         every address; `ss -ltnp` says whose it is"
    )]
    AddressInUse {
        /// Address and port.
        address: String,
    },
    /// A node cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// Address and port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A nodetool command failed.
    #[error("nodetool {command} ended with {code}: {said}")]
    Nodetool {
        /// The command and its arguments.
        command: String,
        /// Exit code.
        code: i32,
        /// What it said on either stream.
        said: String,
    },
}

/// Names the file in an error.
pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> NodeError + '_ {
    move |source| NodeError::File {
        path: path.to_path_buf(),
        source,
    }
}
