//! Containers of one pod, by a runtime of container engines (`crun`): what a kubelet starts, without a cluster. The
//! network is this machine's (`hostNetwork`): tests reach the node at its address.

use super::filter;
use coldstream_testkit::{skip, tools};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The user of all containers, as in `contrib/kubernetes/example`.
pub const USER: u32 = 999;

/// Where the image of Coldstream has its files, if the test makes it of what cargo has built.
const BUILT: &str = "/opt/image";

/// The runtime does not take the hybrid mode of cgroups. No container here has a cgroup of its own.
const START: &str = r#"
if [ -d /sys/fs/cgroup/unified ]; then mount -t cgroup2 none /sys/fs/cgroup || exit 1; fi
exec "$@""#;

/// A pod with a container that holds its namespaces. Dropping it ends all containers.
pub struct Pod {
    directory: PathBuf,
    image: Image,
    names: Vec<String>,
    pause: u32,
    holder: Option<Child>,
}

/// The image of Coldstream: from scratch, or what cargo has built with this machine's libraries.
struct Image {
    root: PathBuf,
    entry: String,
    has_libraries: bool,
}

/// One container.
pub struct Container {
    name: String,
    words: Vec<String>,
    has_machine: bool,
    variables: Vec<String>,
    volumes: Vec<Value>,
    shares_processes: bool,
    profile: &'static str,
}

/// How a container ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Container {
    /// A container of Coldstream's image, with these arguments.
    pub fn of_image(name: &str, words: &[&str]) -> Self {
        Self {
            name: name.into(),
            words: words.iter().map(|word| (*word).into()).collect(),
            has_machine: false,
            variables: Vec::new(),
            volumes: Vec::new(),
            shares_processes: true,
            profile: filter::CONTAINERD,
        }
    }

    /// A container with this machine's programs.
    pub fn of_machine(name: &str, words: &[&str]) -> Self {
        Self {
            has_machine: true,
            ..Self::of_image(name, words)
        }
    }

    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    /// A directory of this machine at another path.
    pub fn volume(mut self, source: &Path, destination: &str, mode: &str) -> Self {
        self.volumes
            .push(bind(source, Path::new(destination), mode));
        self
    }

    pub fn own_processes(mut self) -> Self {
        self.shares_processes = false;
        self
    }

    pub fn profile(mut self, profile: &'static str) -> Self {
        self.profile = profile;
        self
    }
}

fn bind(source: &Path, destination: &Path, mode: &str) -> Value {
    json!({"destination": destination, "source": source, "type": "bind", "options": ["rbind", mode]})
}

/// A directory that the containers' user may use.
pub fn directory_of_user(path: &Path) -> PathBuf {
    fs::create_dir_all(path).expect("directory");
    chown(path, Some(USER), Some(USER)).expect("chown");
    path.to_owned()
}

impl Pod {
    /// Makes the pod. Skips the test and returns `None` where no container can be started.
    pub fn start(directory: &Path, command: &Path, library: &Path) -> Option<Self> {
        if !tools::is_root() {
            skip("containers need root");
            return None;
        }
        tools::find("crun")?;
        let directory = directory.to_owned();
        let image = Image::make(&directory.join("image"), command, library);
        let mut pod = Self {
            directory,
            image,
            names: Vec::new(),
            pause: 0,
            holder: None,
        };
        let probe = pod.run(&Container::of_machine("probe", &["true"]).own_processes());
        if probe.code != Some(0) {
            skip(format!("no containers here: {}", probe.stderr.trim()));
            return None;
        }
        let pause = Container::of_machine("pause", &["sleep", "infinity"]).own_processes();
        pod.holder = Some(pod.spawn(&pause).spawn().expect("crun"));
        pod.pause = pod.process("pause");
        Some(pod)
    }

    /// The process of a container, once it runs.
    pub fn process(&self, name: &str) -> u32 {
        let mut pid = 0;
        crate::scene::wait_until("a container starts", || {
            let state = self.crun(&["state", name]).output().expect("crun");
            let state: Value = serde_json::from_slice(&state.stdout).unwrap_or_default();
            pid = state["pid"].as_u64().unwrap_or(0) as u32;
            match (state["status"].as_str(), pid) {
                (Some("running"), 1..) => Ok(()),
                _ => Err(state.to_string()),
            }
        });
        pid
    }

    fn crun(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", START, "crun", "crun"])
            .args(["--cgroup-manager=disabled", "--root"])
            .arg(self.directory.join("state"))
            .args(words);
        command
    }

    /// Writes the container's bundle. Returns the command that runs it.
    pub fn spawn(&mut self, container: &Container) -> Command {
        let bundle = self.directory.join(&container.name);
        fs::create_dir_all(&bundle).expect("bundle");
        let configuration = self.configuration(container, &bundle).to_string();
        fs::write(bundle.join("config.json"), configuration).expect("config.json");
        self.names.push(container.name.clone());
        let mut command = self.crun(&["run", "--bundle"]);
        command.arg(&bundle).arg(&container.name);
        command
    }

    /// Runs a container to its end.
    pub fn run(&mut self, container: &Container) -> Ended {
        let mut command = self.spawn(container);
        ended(command.stdin(Stdio::null()))
    }

    /// Runs a program in a running container: `kubectl exec`.
    pub fn execute(&self, name: &str, words: &[&str]) -> Ended {
        let user = format!("{USER}:{USER}");
        let words = [&["exec", "--user", &user, name], words].concat();
        ended(self.crun(&words).stdin(Stdio::null()))
    }

    /// The words that start a container with a program that follows them. The program is started by the text `before`
    /// of a shell, as a start script does.
    pub fn launcher(&mut self, container: &Container, before: &str) -> Vec<OsString> {
        let start = self.start_script(&container.name);
        let command = self.spawn(container);
        let text = format!(
            "{{ echo '{before}'; printf 'exec'; printf ' %q' \"$@\"; }} > {}; exec {}",
            start.display(),
            quoted(&command)
        );
        ["bash", "-c", &text, "start"].map(OsString::from).to_vec()
    }

    /// The shell script that [`Pod::launcher`] makes for the container with this name.
    pub fn start_script(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.sh"))
    }

    fn configuration(&self, container: &Container, bundle: &Path) -> Value {
        let (root, mut mounts) = self.root(container, bundle);
        mounts.extend(container.volumes.iter().cloned());
        let entry = (!container.has_machine).then_some(&self.image.entry);
        let words: Vec<&String> = entry.into_iter().chain(&container.words).collect();
        let mut variables = vec!["PATH=/usr/bin:/bin".to_owned()];
        variables.extend(container.variables.iter().cloned());
        let processes = match container.shares_processes {
            true => json!({"type": "pid", "path": format!("/proc/{}/ns/pid", self.pause)}),
            false => json!({"type": "pid"}),
        };
        json!({
            "ociVersion": "1.0.0",
            "root": {"path": root, "readonly": true},
            "mounts": mounts,
            "process": {
                "cwd": "/",
                "user": {"uid": USER, "gid": USER},
                "args": words,
                "env": variables,
                "capabilities": {},
                "noNewPrivileges": true,
            },
            "linux": {
                "namespaces": [{"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, processes],
                "seccomp": filter::of(container.profile),
            },
        })
    }

    /// The root directory, and what is mounted in it.
    fn root(&self, container: &Container, bundle: &Path) -> (PathBuf, Vec<Value>) {
        let private = ["nosuid", "nodev", "noexec", "mode=1777", "size=65536k"];
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]}),
            json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": private}),
        ];
        let root = match container.has_machine {
            true => bundle.join("root"),
            false => self.image.root.clone(),
        };
        fs::create_dir_all(&root).expect("root directory");
        if container.has_machine || self.image.has_libraries {
            for name in ["bin", "sbin", "lib", "lib64"] {
                // It may be there: containers of an image share their root.
                let _ = symlink(Path::new("usr").join(name), root.join(name));
            }
            for path in ["/usr", "/etc"].map(Path::new) {
                mounts.push(bind(path, path, "ro"));
            }
            mounts.push(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}));
        }
        (root, mounts)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for name in &self.names {
            // Those that have ended are gone.
            let _ = self.crun(&["delete", "--force", name]).output();
        }
        if let Some(mut holder) = self.holder.take() {
            let _ = holder.wait();
        }
    }
}

impl Image {
    /// Unpacks the image that `COLDSTREAM_IMAGE` names (`make image`). Without it the image is what cargo has built.
    fn make(root: &Path, command: &Path, library: &Path) -> Self {
        fs::create_dir_all(root).expect("image");
        if let Some(archive) = std::env::var_os("COLDSTREAM_IMAGE") {
            unpack(Path::new(&archive), root);
            return Self {
                root: root.into(),
                entry: "/usr/bin/coldstream".into(),
                has_libraries: false,
            };
        }
        let files = root.join(&BUILT[1..]);
        fs::create_dir_all(&files).expect("image");
        for (from, name) in [(command, "coldstream"), (library, "libcoldstream.so")] {
            fs::copy(from, files.join(name)).expect("image");
        }
        Self {
            root: root.into(),
            entry: format!("{BUILT}/coldstream"),
            has_libraries: true,
        }
    }
}

/// Unpacks the one layer of an OCI archive.
fn unpack(archive: &Path, root: &Path) {
    let layout = root.with_file_name("layout");
    fs::create_dir_all(&layout).expect("layout");
    extract(archive, &layout);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().expect("digest");
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let index = read(&layout.join("index.json"));
    let manifest = read(&blob(&index["manifests"][0]));
    extract(&blob(&manifest["layers"][0]), root);
}

fn read(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

fn extract(archive: &Path, directory: &Path) {
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(directory);
    assert!(
        tar.status().expect("tar").success(),
        "{}",
        archive.display()
    );
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().expect("a container");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// The command as words of a shell. None of its words has a quote.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| format!("'{}'", word.to_string_lossy()));
    words.collect::<Vec<_>>().join(" ")
}
