//! A node: its directory, its process, and how it ends.

use crate::configuration::{Settings, logback};
use crate::distribution::{Distribution, tail};
use crate::error::{NodeError, file};
use crate::nodetool::Nodetool;
use crate::pauses::{self, Pause};
use coldstream_host::start::command_in_cgroups;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// One node starts in 4 to 10 s. Several nodes on a busy machine take longer.
const START_TIME_MAX: Duration = Duration::from_secs(300);

/// Time to drain a full memtable of a large heap.
const STOP_TIME_MAX: Duration = Duration::from_secs(120);

const CQL_PORT: u16 = 9042;

/// A file in the node's directory, which is its working directory.
const SAFEPOINT_LOG: &str = "safepoints.log";

/// How to start a node's process.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The words before `java` on its command line: `coldstream run … --`, `env LD_PRELOAD=…`.
    pub prefix: Vec<OsString>,
    /// The `cgroup.procs` files of the cgroups that it enters first. Paths without spaces.
    pub cgroup_processes: Vec<PathBuf>,
    /// More arguments of the virtual machine. They override those that this crate passes.
    pub java_arguments: Vec<String>,
}

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub struct Node {
    child: Child,
    address: String,
    directory: PathBuf,
    nodetool: Nodetool,
}

impl Node {
    /// Configures and starts a node, and waits until it serves requests.
    ///
    /// `address` is a loopback address of its own. `directory` takes its data, and may hold the data of an earlier
    /// process. The first node of a cluster is its own `seed`.
    ///
    /// # Errors
    /// Another process listens there. Or the process ended or did not serve in time: the error holds the end of its log.
    pub fn start(
        distribution: &Distribution,
        settings: &Settings,
        directory: &Path,
        address: &str,
        seed: &str,
        launch: &Launch,
    ) -> Result<Self, NodeError> {
        require_free(address)?;
        fs::create_dir_all(directory).map_err(file(directory))?;
        let directory = fs::canonicalize(directory).map_err(file(directory))?;
        let (yaml, logging) = (
            directory.join("cassandra.yaml"),
            directory.join("logback.xml"),
        );
        let log = directory.join("system.log");
        let text = settings.yaml(distribution.version(), &directory, address, seed);
        fs::write(&yaml, text).map_err(file(&yaml))?;
        fs::write(&logging, logback(&log)).map_err(file(&logging))?;
        let jmx_port = free_port().map_err(file(&directory))?;

        let output_path = directory.join("console.log");
        let output = fs::File::create(&output_path).map_err(file(&output_path))?;
        let errors = output.try_clone().map_err(file(&output_path))?;
        let mut child = command_in_cgroups(&launch.cgroup_processes)
            .args(&launch.prefix)
            .arg(distribution.java_command())
            .args(distribution.java_arguments())
            .arg(format!("-Xms{}m", settings.heap_mib))
            .arg(format!("-Xmx{}m", settings.heap_mib))
            .args(JVM_FLAGS)
            .arg(format!("-Dlogback.configurationFile={}", logging.display()))
            .arg(format!("-Dcassandra.config=file://{}", yaml.display()))
            .arg(format!("-Dcassandra.storagedir={}", directory.display()))
            .arg(format!("-Dcassandra.logdir={}", directory.display()))
            .arg(format!("-Dcassandra.jmx.local.port={jmx_port}"))
            .args(NODE_FLAGS)
            .arg(pauses::java_argument(SAFEPOINT_LOG))
            .args(&launch.java_arguments)
            .arg("org.apache.cassandra.service.CassandraDaemon")
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(file(&directory))?;
        // The two virtual machines start at the same time.
        let nodetool = match Nodetool::start(distribution, &directory, jmx_port) {
            Ok(nodetool) => nodetool,
            Err(error) => {
                // Nothing else would end the node.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(error);
            }
        };
        let mut node = Self {
            child,
            address: address.into(),
            directory,
            nodetool,
        };
        node.wait_until_it_serves()?;
        Ok(node)
    }

    fn wait_until_it_serves(&mut self) -> Result<(), NodeError> {
        let since = Instant::now();
        let address: SocketAddr = format!("{}:{CQL_PORT}", self.address)
            .parse()
            .map_err(|_| self.error("has an invalid address"))?;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.error(&format!("ended with {status} before it served requests")));
            }
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            if since.elapsed() > START_TIME_MAX {
                return Err(self.error(&format!(
                    "did not serve requests within {} s",
                    START_TIME_MAX.as_secs()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn error(&self, event: &str) -> NodeError {
        let mut log = self.log();
        let mut text = fs::read_to_string(&log).unwrap_or_default();
        // Errors before there is a log are on the console.
        if text.is_empty() {
            log = self.directory.join("console.log");
            text = fs::read_to_string(&log).unwrap_or_default();
        }
        NodeError::Node {
            address: self.address.clone(),
            event: event.into(),
            log,
            tail: tail(&text, 6),
        }
    }

    /// The address of its CQL server, with the port.
    pub fn cql(&self) -> String {
        format!("{}:{CQL_PORT}", self.address)
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// `system.log` of this process and of earlier ones in the same directory.
    pub fn log(&self) -> PathBuf {
        self.directory.join("system.log")
    }

    /// Its directory. SSTables are in `data/KEYSPACE/TABLE-ID`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The pauses of its virtual machine since its start.
    ///
    /// # Errors
    /// Their log cannot be read.
    pub fn pauses(&self) -> Result<Vec<Pause>, NodeError> {
        let log = self.directory.join(SAFEPOINT_LOG);
        let text = fs::read_to_string(&log).map_err(file(&log))?;
        Ok(pauses::of_log(&text))
    }

    /// Its nodetool.
    pub fn nodetool(&mut self) -> &mut Nodetool {
        &mut self.nodetool
    }

    /// Stops it with SIGTERM: it drains and shuts down.
    ///
    /// # Errors
    /// It did not end in time and was killed, or ended with another status.
    pub fn stop(mut self) -> Result<(), NodeError> {
        self.signal(Signal::TERM);
        let since = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if ended_by_term(status) => return Ok(()),
                Ok(Some(status)) => return Err(self.error(&format!("ended with {status}"))),
                _ if since.elapsed() > STOP_TIME_MAX => {
                    return Err(self.error("did not stop and was killed"));
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Kills it with SIGKILL, like a crash.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            let _ = kill_process(process, signal);
        }
    }
}

/// Checks that nothing listens there. Requests for the node would reach the other process.
fn require_free(address: &str) -> Result<(), NodeError> {
    let bound = TcpListener::bind((address, CQL_PORT)).map(drop);
    let address = format!("{address}:{CQL_PORT}");
    bound.map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => NodeError::AddressInUse { address },
        _ => NodeError::Address { address, source },
    })
}

/// A virtual machine that was asked to end exits with 128 + 15.
fn ended_by_term(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    matches!(status.code(), Some(0 | 143)) || status.signal() == Some(15)
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The flags of Cassandra's `conf/jvm-server.options` and `conf/jvm17-server.options` that affect speed. With G1's
/// defaults pauses are twice as long.
const JVM_FLAGS: [&str; 11] = [
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1RSetUpdatingPauseTimePercent=5",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseThreadPriorities",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
];

/// Nodes on one machine need not wait for remote gossip.
const NODE_FLAGS: [&str; 4] = [
    "-Dcassandra-foreground=yes",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
];

/// A port that was free a moment ago.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
