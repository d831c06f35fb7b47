//! Cassandra's own writer and tools, without a node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::cargo_build::temporary_directory;
use crate::skip;

/// A version of Cassandra that runs here.
#[derive(Debug)]
pub struct Engine {
    version: &'static str,
    java: PathBuf,
    jars: PathBuf,
}

impl Engine {
    /// Fetches a version from the package registry, unless it is here already.
    ///
    /// `None` if it cannot be fetched or run. The reason goes to standard error.
    ///
    /// # Panics
    /// Another test did.
    #[must_use]
    pub fn get(version: &'static str) -> Option<Self> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().expect("no other test panicked here");
        let java = std::env::var_os("JAVA_HOME").map_or("java".into(), |home| {
            let home = PathBuf::from(home);
            home.join("bin/java")
        });
        let ran = Command::new(&java).arg("-version").output();
        let says = ran.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
        match says {
            Ok(says) if says.contains("version \"17.") => {}
            Ok(_) => return skipped("`java` is not of version 17"),
            Err(error) => return skipped(&format!("cannot start `java`: {error}")),
        }
        let jars = temporary_directory()
            .with_file_name("cassandra")
            .join(version);
        if !jars.exists()
            && let Err(why) = download(version, &jars)
        {
            return skipped(&format!("no Cassandra {version}: {why}"));
        }
        Some(Self {
            version,
            java,
            jars,
        })
    }

    /// Runs a class of Cassandra, or a program of `crates/sstable/tests/cassandra`, with this format of SSTables: `big`
    /// or `bti`. Returns its output.
    ///
    /// # Panics
    /// It fails.
    #[must_use]
    pub fn run(&self, scratch: &Path, format: &str, program: &str, arguments: &[&Path]) -> String {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests/cassandra");
        let mut yaml = fs::read_to_string(sources.join("cassandra.yaml")).expect("configuration");
        if !self.version.starts_with("4.") {
            yaml += "storage_compatibility_mode: NONE\n";
            yaml += &format!("sstable:\n  selected_format: {format}\n");
        }
        let configuration = scratch.join("cassandra.yaml");
        fs::write(&configuration, yaml).expect("write the configuration");
        let logback = scratch.join("logback.xml");
        fs::write(
            &logback,
            "<configuration><root level=\"OFF\"/></configuration>",
        )
        .expect("write");
        let agent = fs::read_dir(&self.jars).expect("jars").find_map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name()?.to_str()?;
            name.starts_with("jamm-").then_some(path)
        });
        let property = |name: &str, path: &Path| format!("-D{name}={}", path.display());
        let program = match program.strip_suffix(".java") {
            Some(_) => sources.join(program),
            None => program.into(),
        };
        let output = Command::new(&self.java)
            .arg(format!("@{}", sources.join("jvm.options").display()))
            .arg(format!("-javaagent:{}", agent.expect("jamm").display()))
            .arg(property("cassandra.storagedir", &scratch.join("storage")))
            .arg(property("logback.configurationFile", &logback))
            .arg(format!(
                "-Dcassandra.config=file://{}",
                configuration.display()
            ))
            .arg("-classpath")
            .arg(self.jars.join("*"))
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("start java");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "Cassandra {}: {errors}",
            self.version
        );
        String::from_utf8(output.stdout).expect("text")
    }
}

fn skipped<T>(why: &str) -> Option<T> {
    skip(why);
    None
}

/// Fetches a version and its dependencies.
fn download(version: &str, jars: &Path) -> Result<(), String> {
    let parent = jars.parent().expect("has one");
    fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    let scratch = tempfile::tempdir_in(parent).map_err(|error| error.to_string())?;
    let project = scratch.path().join("pom.xml");
    let pom = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">
           <modelVersion>4.0.0</modelVersion>
           <groupId>coldstream</groupId><artifactId>tests</artifactId><version>1</version>
           <packaging>pom</packaging>
           <dependencies><dependency>
             <groupId>org.apache.cassandra</groupId>
             <artifactId>cassandra-all</artifactId>
             <version>{version}</version>
           </dependency></dependencies>
         </project>"
    );
    fs::write(&project, pom).map_err(|error| error.to_string())?;
    let downloaded = scratch.path().join("jars");
    let output = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(&project)
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", downloaded.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `mvn`: {error}"))?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stdout);
        return Err(format!(
            "Maven failed: {}",
            says.lines().next().unwrap_or("")
        ));
    }
    // A rename at the end: an interrupted download must not look like a complete one.
    fs::rename(&downloaded, jars).map_err(|error| error.to_string())
}
