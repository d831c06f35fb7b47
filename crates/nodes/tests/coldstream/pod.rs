//! A node in a pod, with the steps of `contrib/kubernetes`: an init container copies library and command into a
//! volume, the database's container gets two variables, a sidecar serves metrics.
//!
//! All containers have a root that cannot be written, a user other than root, no capability, and the default filter of
//! container engines. `COLDSTREAM_IMAGE` names the archive of `make image`; without it the image is what cargo built.

mod filter;
mod runtime;

use self::runtime::{Container, Pod, directory_of_user};
use crate::client::Client;
use crate::files::{self, KEYSPACE};
use crate::operations::LZ4_4;
use crate::program::{self, Counters};
use crate::rows::Shape;
use crate::scene::{self, Scene, nodetool};
use coldstream_nodes::{Distribution, Launch, Node};
use scylla::statement::Consistency;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

const COLDSTREAM: &str = "/opt/coldstream/coldstream";
const TABLE: &str = "t";
const SHAPE: Shape = Shape { partitions: 300 };
/// What Cassandra's start script does with `CASSANDRA_LIBJEMALLOC`.
const START: &str = "export LD_PRELOAD=$CASSANDRA_LIBJEMALLOC";

/// Exit code of `coldstream ctl` for a process without a page.
const NOT_FOUND: i32 = 7;

#[test]
fn a_node_writes_compacts_and_is_watched_in_a_pod() {
    for version in scene::versions() {
        let Some(scene) = Scene::of(version) else {
            return;
        };
        let Some(mut subject) = Subject::new(scene) else {
            return;
        };
        subject.with_shared_memory();
        subject.with_memory_of_its_own();
        subject.removed();
    }
}

struct Subject {
    pod: Pod,
    scene: Scene,
    /// The volume at `/opt/coldstream`.
    files: PathBuf,
    /// The volume at `/dev/shm`: `emptyDir` in memory.
    memory: tempfile::TempDir,
    rounds: i32,
}

impl Subject {
    /// The init container has filled the volume.
    fn new(scene: Scene) -> Option<Self> {
        let command = program::command();
        let library = command.with_file_name("libcoldstream.so");
        let mut pod = Pod::start(&scene.path("pod"), command, &library)?;
        let files = directory_of_user(&scene.path("files"));
        directory_of_user(&scene.path("1"));
        let init = Container::of_image("init", &["copy", "/opt/coldstream"]);
        let ended = pod.run(&init.own_processes().volume(&files, "/opt/coldstream", "rw"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for name in ["coldstream", "libcoldstream.so"] {
            assert!(files.join(name).is_file(), "{ended:?}");
        }
        let memory = tempfile::tempdir_in("/dev/shm").expect("memory");
        directory_of_user(memory.path());
        Some(Self {
            pod,
            scene,
            files,
            memory,
            rounds: 0,
        })
    }

    /// The database's container without Coldstream.
    fn database(&self, name: &str) -> Container {
        let node = self.scene.path("1");
        let jars = Distribution::default_cache();
        let start = self.pod.start_script(name);
        Container::of_machine(name, &["bash", "/start"])
            .volume(&start, "/start", "ro")
            .volume(&node, &node.display().to_string(), "rw")
            .volume(&jars, &jars.display().to_string(), "ro")
    }

    /// What the component adds to it.
    fn attached(&self, container: Container) -> Container {
        container
            .variable("CASSANDRA_LIBJEMALLOC", "/opt/coldstream/libcoldstream.so")
            .variable("COLDSTREAM_PROFILE", "cassandra")
            .volume(&self.files, "/opt/coldstream", "ro")
    }

    fn start(&mut self, container: &Container, before: &str) -> (Node, Client) {
        // Java writes a log into the node's working directory.
        let before = format!("cd {}; {before}", self.scene.path("1").display());
        let launch = Launch {
            prefix: self.pod.launcher(container, &before),
            ..Launch::default()
        };
        let node = self.scene.start(1, &scene::settings(), &launch);
        let client = Client::connect(&node.cql(), Consistency::One);
        (node, client)
    }

    /// Writes, flushes, compacts, and reads everything from the device.
    fn work(&mut self, node: &mut Node, client: &Client, rounds: i32) {
        nodetool(node, &["disableautocompaction", KEYSPACE]);
        for _ in 0..rounds {
            client.write_round(TABLE, SHAPE, self.rounds);
            self.rounds += 1;
            nodetool(node, &["flush", KEYSPACE]);
        }
        files::make_cold(&files::data(node, None));
        nodetool(node, &["compact", KEYSPACE]);
        // Cassandra removes the inputs a little later.
        scene::wait_until("one SSTable is left", || {
            match files::data(node, None).as_slice() {
                [_] => Ok(()),
                more => Err(format!("{more:?}")),
            }
        });
        self.check(node, client);
    }

    fn check(&self, node: &Node, client: &Client) {
        let data = files::data(node, None);
        files::assert_digests(&data);
        let found = client.check(TABLE, SHAPE, self.rounds);
        eprintln!(
            "{} rounds: {found:?} in {} SSTables",
            self.rounds,
            data.len()
        );
        scene::assert_log_clean(&node.log());
    }

    /// Runs the command in a container of the image that shares what is told.
    fn look(&mut self, sharing: Sharing, words: &[&str]) -> runtime::Ended {
        let mut container = Container::of_image("look", words);
        if !sharing.processes {
            container = container.own_processes();
        }
        if sharing.memory {
            container = container.volume(self.memory.path(), "/dev/shm", "rw");
        }
        self.pod.run(&container)
    }

    /// The id of the node's process as the pod sees it, out of the metrics. There is no other process.
    fn seen(&mut self, sharing: Sharing) -> Result<String, String> {
        let metrics = self.look(sharing, &["metrics"]);
        assert_eq!(metrics.code, Some(0), "{metrics:?}");
        process_in(&metrics.stdout).ok_or(metrics.stderr)
    }

    fn with_shared_memory(&mut self) {
        let database = self.attached(self.database("database"));
        let database = database.volume(self.memory.path(), "/dev/shm", "rw");
        let (mut node, client) = self.start(&database, START);
        client.create_keyspace(1);
        client.create_table(TABLE, &format!("compression = {LZ4_4}"));
        self.work(&mut node, &client, 3);

        let pid = self.serve_metrics();
        assert_eq!(self.seen(Sharing::ALL), Ok(pid.clone()));
        let status = self.look(Sharing::ALL, &["ctl", &pid, "status", "--json"]);
        assert_eq!(status.code, Some(0), "{status:?}");
        Counters::of_status(status.stdout.as_bytes()).assert_at_work("a node in a pod");
        let top = self.look(Sharing::ALL, &["top", &pid, "--once", "--interval", "0.1"]);
        assert!(
            top.stdout.contains(&format!("process {pid} java")),
            "{top:?}"
        );
        for way in ["off", "on"] {
            let switched = self.look(Sharing::ALL, &["ctl", way, &pid]);
            assert_eq!(switched.code, Some(0), "{switched:?}");
        }
        // Process ids are enough to watch.
        assert_eq!(self.seen(Sharing::PROCESSES), Ok(pid));
        let said = self.seen(Sharing::MEMORY).expect_err("nothing is seen");
        assert!(
            said.contains("not in this container's namespace of process ids"),
            "{said}"
        );
        let said = self.seen(Sharing::NOTHING).expect_err("nothing is seen");
        assert!(
            said.contains("no process under Coldstream is seen"),
            "{said}"
        );

        drop(client);
        node.stop().unwrap_or_else(|error| panic!("{error}"));
        let pages = self
            .memory
            .path()
            .join(format!("coldstream-{}", runtime::USER));
        let left = fs::read_dir(&pages).map_or(0, Iterator::count);
        assert_eq!(left, 0, "pages are left in {}", pages.display());
    }

    /// The sidecar of the component. Returns the process whose metrics it serves.
    fn serve_metrics(&mut self) -> String {
        let sidecar = Container::of_image("metrics", &["metrics", "--listen", "127.0.0.1:0"])
            .volume(self.memory.path(), "/dev/shm", "rw");
        let mut command = self.pod.spawn(&sidecar);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the sidecar");
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().expect("its messages"));
        said.read_line(&mut line).expect("a line");
        let address = line
            .trim()
            .rsplit('/')
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let metrics = get(&address).unwrap_or_else(|error| panic!("{line}: {error}"));
        let _ = child.kill();
        let _ = child.wait();
        process_in(&metrics).unwrap_or_else(|| panic!("no process in {metrics}"))
    }

    fn with_memory_of_its_own(&mut self) {
        let database = self.attached(self.database("alone"));
        let (mut node, client) = self.start(&database.profile(filter::PODMAN), START);
        self.check(&node, &client);
        self.work(&mut node, &client, 1);
        let pid = self.seen(Sharing::PROCESSES).expect("it is seen");
        let status = self.look(Sharing::PROCESSES, &["ctl", &pid, "status"]);
        assert_eq!(status.code, Some(NOT_FOUND), "{status:?}");
        assert!(
            status.stderr.contains("a /dev/shm of its own"),
            "{status:?}"
        );
        let inside = (self.pod).execute("alone", &[COLDSTREAM, "ctl", &pid, "status", "--json"]);
        assert_eq!(inside.code, Some(0), "{inside:?}");
        Counters::of_status(inside.stdout.as_bytes()).assert_at_work("under podman's filter");
        drop(client);
        node.stop().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Without variables and volumes the same data are served as before.
    fn removed(&mut self) {
        let database = self.database("plain");
        let (node, client) = self.start(&database, "");
        self.check(&node, &client);
        assert!(self.seen(Sharing::PROCESSES).is_err());
        let maps = format!("/proc/{}/maps", self.pod.process("plain"));
        let maps = fs::read_to_string(maps).expect("maps");
        assert!(maps.contains("libjvm.so") && !maps.contains("libcoldstream.so"));
        drop(client);
        node.stop().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What a container shares with the database's.
#[derive(Clone, Copy)]
struct Sharing {
    processes: bool,
    memory: bool,
}

impl Sharing {
    const ALL: Self = Self::of(true, true);
    const PROCESSES: Self = Self::of(true, false);
    const MEMORY: Self = Self::of(false, true);
    const NOTHING: Self = Self::of(false, false);

    const fn of(processes: bool, memory: bool) -> Self {
        Self { processes, memory }
    }
}

/// The id of the one process in metrics.
fn process_in(metrics: &str) -> Option<String> {
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with("coldstream_process_info{"))?;
    assert!(line.contains("program=\"java\""), "{line}");
    Some(line.split('"').nth(1)?.to_owned())
}

/// The answer to a scrape.
fn get(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
