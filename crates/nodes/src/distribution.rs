//! A release and its dependencies, from Maven Central.

use crate::cache;
use crate::error::{NodeError, file};
use crate::java::Java;
use crate::version::Version;
use coldstream_host::start::without_preload;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `cassandra-all` with all its dependencies: the content of Apache's packages, without the scripts. Nothing is
/// installed system-wide.
const PROJECT: &str = include_str!("../cassandra-pom.xml");

/// Exports and openings of the JDK's modules that Cassandra needs. The union of `conf/jvm11-server.options` of 4.1,
/// `conf/jvm17-server.options` of 5.0 and trunk, and of what jamm of 4.1 inspects.
const MODULES: [&str; 27] = [
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.sql/java.sql=ALL-UNNAMED",
    "--add-exports=java.base/java.lang.ref=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-exports=jdk.attach/sun.tools.attach=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.math=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
];

/// A release on this machine.
#[derive(Clone, Debug)]
pub struct Distribution {
    version: Version,
    java: Java,
    jars: PathBuf,
}

impl Distribution {
    /// The default cache of releases: `coldstream/cassandra` in the user's cache directory.
    pub fn default_cache() -> PathBuf {
        cache::directory().join("cassandra")
    }

    /// Takes a release from `cache`. A release that is missing there is fetched first, with a line for `progress`.
    ///
    /// # Errors
    /// Java or Maven is missing, or Maven could not fetch it.
    pub fn obtain(
        version: Version,
        cache: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, NodeError> {
        let java = Java::find()?;
        let jars = cache.join(version.name());
        if !jars.exists() {
            progress(&format!("fetching Cassandra {version} from Maven Central"));
            fetch(version, &java, &jars)?;
        }
        Ok(Self {
            version,
            java,
            jars,
        })
    }

    /// Its release.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A `java` command with the release's class path and the exports that it needs. The caller adds flags, a class or
    /// source file, and its arguments. It has no preload library.
    pub fn java(&self) -> Command {
        let mut command = Command::new(self.java.command());
        without_preload(&mut command).args(self.java_arguments());
        command
    }

    pub(crate) fn java_command(&self) -> PathBuf {
        self.java.command()
    }

    pub(crate) fn java_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = MODULES.map(str::to_owned).to_vec();
        arguments.push("-Djdk.attach.allowAttachSelf=true".into());
        arguments.push("-Dio.netty.tryReflectionSetAccessible=true".into());
        if let Some(agent) = self.agent() {
            arguments.push(format!("-javaagent:{}", agent.display()));
        }
        arguments.push("-cp".into());
        arguments.push(format!("{}/*", self.jars.display()));
        arguments
    }

    /// The agent that measures the size of objects in memory. 4.1 does not start without it.
    fn agent(&self) -> Option<PathBuf> {
        fs::read_dir(&self.jars)
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("jamm-"))
            })
    }
}

/// Fetches into a directory beside `jars`, then renames it: `jars` is complete or absent.
fn fetch(version: Version, java: &Java, jars: &Path) -> Result<(), NodeError> {
    let partial = jars.with_file_name(format!("{version}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(file(&partial))?;
    let project = partial.join("pom.xml");
    fs::write(&project, PROJECT).map_err(file(&project))?;
    let output = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(&project)
        .arg("dependency:copy-dependencies")
        .arg("-DincludeScope=runtime")
        .arg(format!("-Dcassandra.version={version}"))
        .arg(format!("-DoutputDirectory={}", partial.display()))
        .env("JAVA_HOME", java.home())
        .stdin(Stdio::null())
        .output();
    let failure = match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(tail(&String::from_utf8_lossy(&output.stdout), 4)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let _ = fs::remove_dir_all(&partial);
            return Err(NodeError::NoMaven {
                version: version.to_string(),
            });
        }
        Err(error) => Some(error.to_string()),
    };
    if let Some(output) = failure {
        let _ = fs::remove_dir_all(&partial);
        return Err(NodeError::Fetch {
            version: version.to_string(),
            output,
        });
    }
    match fs::rename(&partial, jars) {
        // Another process was faster. Its result is the same.
        Err(_) if jars.exists() => {
            let _ = fs::remove_dir_all(&partial);
            Ok(())
        }
        other => other.map_err(file(jars)),
    }
}

/// The last lines of a text, joined. Lines of a Java stack trace are left out.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("\tat "))
        .collect();
    all[all.len().saturating_sub(lines)..].join(" | ")
}
