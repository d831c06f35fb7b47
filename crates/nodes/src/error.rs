//! Errors of nodes, and what to do about each.

use std::io;
use std::path::{Path, PathBuf};

/// Why a node does not run or answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// There is no JDK that runs Cassandra.
    #[error(
        "no JDK 17 was found ({found}): Cassandra 4.1 to 6.0 needs one. Install it (Debian: \
         `apt-get install openjdk-17-jdk-headless`) or set JAVA_HOME"
    )]
    NoJava {
        /// The directories that were searched, and what was there.
        found: String,
    },
    /// Maven is missing.
    #[error(
        "mvn was not found: it fetches Cassandra {version} from Maven Central. Install it \
         (Debian: `apt-get install maven`)"
    )]
    NoMaven {
        /// The wanted release.
        version: String,
    },
    /// Maven could not fetch the release.
    #[error("mvn could not fetch Cassandra {version}: {output}")]
    Fetch {
        /// The release.
        version: String,
        /// The end of Maven's output.
        output: String,
    },
    /// A file or directory cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A node ended, or did not answer in time.
    #[error("node {address} {event}; the end of {log}: {tail}", log = log.display())]
    Node {
        /// Address of the node.
        address: String,
        /// What happened to it.
        event: String,
        /// Its log.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// Another process listens on the node's address.
    #[error(
        "{address} is in use: another Cassandra, or the node of an earlier run, listens there or on \
         every address. `ss -ltnp` shows the process"
    )]
    AddressInUse {
        /// Address and port.
        address: String,
    },
    /// A node cannot listen on its address.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// Address and port.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// A nodetool command failed.
    #[error("nodetool {command} ended with {code}: {output}")]
    Nodetool {
        /// The command and its arguments.
        command: String,
        /// Exit code.
        code: i32,
        /// Its output on both streams.
        output: String,
    },
}

/// Names the file in an error.
pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> NodeError + '_ {
    move |source| NodeError::File {
        path: path.to_path_buf(),
        source,
    }
}
