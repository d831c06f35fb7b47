//! `coldstream metrics`, against promtool and a real Prometheus where they are installed.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coldstream_testkit::skip;
use common::database::{Database, wait_until};
use common::process::Process;
use common::{Scene, assert_error, outcome};

/// A program that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `coldstream metrics --listen` on a free port.
fn exporter(scene: &Scene) -> (Killed, SocketAddr) {
    let mut child = scene
        .coldstream()
        .args(["metrics", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stderr = child.stderr.take().unwrap();
    BufReader::new(stderr).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).expect(&line);
    let address = address.split('/').next().unwrap().parse().unwrap();
    (Killed(child), address)
}

fn get(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// As [`get`]; empty if the connection is closed instead.
fn get_if_open(address: SocketAddr, request: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let _ = write!(stream, "{request}\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// The metrics in Prometheus' own format.
fn in_the_older_format(scene: &Scene) -> String {
    let mut command = scene.coldstream();
    let (code, metrics, _) = outcome(command.args(["metrics", "--format", "prometheus"]));
    assert_eq!(code, 0);
    metrics
}

/// Whether a program can be started.
fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
}

#[test]
fn metrics_once() {
    let scene = Scene::new();
    let process = Process::new(0);
    let pid = process.pid();
    let (code, stdout, _) = outcome(scene.coldstream().arg("metrics"));
    assert_eq!(code, 0);
    for line in [
        format!(
            "coldstream_background_read_bytes_total{{pid=\"{pid}\",program=\"sleep\",mode=\"direct\"}} 3145728"
        ),
        "# TYPE coldstream_background_read_bytes counter".to_owned(),
        "# TYPE coldstream_handover_delay_seconds histogram".to_owned(),
        format!(
            "coldstream_foreground_device_read_seconds_bucket{{pid=\"{pid}\",program=\"sleep\",le=\"0.000064\"}} 0"
        ),
        "# EOF".to_owned(),
    ] {
        assert!(
            stdout.lines().any(|found| found == line),
            "{line} is not in {stdout}"
        );
    }
    assert!(
        in_the_older_format(&scene)
            .contains("# TYPE coldstream_background_read_bytes_total counter\n")
    );
}

#[test]
fn a_page_of_another_version_is_said_and_counted() {
    let scene = Scene::new();
    let process = Process::new(0);
    fs::write(&process.page, [7; 4096]).unwrap();
    let (code, stdout, stderr) = outcome(scene.coldstream().arg("metrics"));
    assert_eq!(code, 0);
    assert!(stderr.contains("not a status page"), "{stderr}");
    assert!(
        !stdout.contains("coldstream_status_pages_unreadable 0\n"),
        "{stdout}"
    );
}

#[test]
fn a_text_file_is_replaced_in_one_step() {
    let scene = Scene::new();
    let process = Process::new(0);
    let path = scene.file("coldstream.prom", "old", 0o600);
    let text = path.to_str().unwrap();
    let (code, stdout, _) = outcome(scene.coldstream().args(["metrics", "--textfile", text]));
    assert_eq!((code, stdout.as_str()), (0, ""));
    let written = fs::read_to_string(&path).unwrap();
    assert!(
        written.contains(&process.pid()) && !written.contains("# EOF"),
        "{written}"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    let names = fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    let left = names.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(".coldstream")
    });
    assert_eq!(left.count(), 0);
    let absent = scene.path("absent/coldstream.prom");
    let mut command = scene.coldstream();
    let arguments = ["metrics", "--textfile", absent.to_str().unwrap()];
    assert_error(command.args(arguments), 7, &["cannot write", "absent"]);
    let (code, _, stderr) = outcome(scene.coldstream().args(["metrics", "--textfile", "a.txt"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("ending .prom"), "{stderr}");
}

#[test]
fn scrapes_are_answered() {
    let scene = Scene::new();
    let process = Process::new(0);
    let (_exporter, address) = exporter(&scene);
    let plain = get(address, "GET /metrics HTTP/1.1\r\nHost: x");
    assert!(plain.starts_with("HTTP/1.1 200"), "{plain}");
    assert!(plain.contains("text/plain; version=0.0.4"), "{plain}");
    assert!(plain.contains(&process.pid()), "{plain}");
    let accept =
        "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0";
    let open = get(address, accept);
    assert!(open.contains("application/openmetrics-text"), "{open}");
    assert!(open.contains("\n# EOF\n"), "{open}");
    assert!(get(address, "GET /x HTTP/1.1\r\nHost: x").starts_with("HTTP/1.1 404"));
    assert!(get(address, "DELETE /metrics HTTP/1.1\r\nHost: x").starts_with("HTTP/1.1 405"));
    // A process that ends is gone from the next scrape.
    let pid = process.pid();
    drop(process);
    let after = get(address, "GET /metrics HTTP/1.1\r\nHost: x");
    assert!(!after.contains(&format!("pid=\"{pid}\"")), "{after}");
}

#[test]
fn clients_that_send_nothing_hold_up_nobody() {
    let scene = Scene::new();
    let (_exporter, address) = exporter(&scene);
    let connect = || TcpStream::connect(address).unwrap();
    let mut posted = connect();
    write!(
        posted,
        "POST /metrics HTTP/1.1\r\nContent-Length: 5000\r\n\r\n"
    )
    .unwrap();
    let _silent = [connect(), connect(), connect()];
    let answer = get(address, "GET /metrics HTTP/1.1\r\nHost: x");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // One without an end is given up.
    let mut endless = connect();
    let line = [b'x'; 1024];
    let closed = (0..10_000).find(|_| endless.write_all(&line).is_err());
    assert!(closed.is_some());
    // More than are served at once are closed, and the next scrape has its answer.
    let many: Vec<_> = (0..40).map(|_| connect()).collect();
    drop(many);
    let answered = || get_if_open(address, "GET /metrics HTTP/1.1\r\nHost: x");
    wait_until("an answer", || answered().starts_with("HTTP/1.1 200"));
}

#[test]
fn an_address_in_use_is_an_error() {
    let scene = Scene::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = scene.coldstream();
    let words = ["cannot listen", &address, "in use", "--listen"];
    assert_error(command.args(["metrics", "--listen", &address]), 1, &words);
}

#[test]
fn promtool_finds_nothing_wrong() {
    if !is_installed("promtool") {
        return skip("promtool is not installed (Debian: prometheus)");
    }
    let scene = Scene::new();
    let _process = Process::new(0);
    let metrics = in_the_older_format(&scene);
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let found = promtool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success(), "{text}");
    assert_eq!(text, "");
}

/// A Prometheus that scrapes an exporter each second.
struct Prometheus {
    server: Killed,
    address: SocketAddr,
}

impl Prometheus {
    /// `None`, with a message, where it is not installed.
    fn start(scene: &Scene, exporter: SocketAddr) -> Option<Self> {
        if !is_installed("prometheus") {
            skip("prometheus is not installed (Debian: prometheus)");
            return None;
        }
        let configuration = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs:\n- job_name: coldstream\n  static_configs:\n  - targets: ['{exporter}']\n"
        );
        let configuration = scene.file("prometheus.yml", &configuration, 0o644);
        // A port that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let tsdb = scene.path("tsdb");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", tsdb.display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self {
            server: Killed(child),
            address,
        })
    }

    /// The value of an expression with one result; `None` without a result, or while the server starts.
    fn value(&mut self, expression: &str) -> Option<f64> {
        let ended = self.server.0.try_wait().unwrap();
        assert!(ended.is_none(), "prometheus ended");
        TcpStream::connect(self.address).ok()?;
        let encoded: String = expression.bytes().map(|it| format!("%{it:02X}")).collect();
        // Without chunks.
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: x");
        let answer = get(self.address, &request);
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: serde_json::Value = serde_json::from_str(body).ok()?;
        body["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Waits until the expression has a value of at least `min`.
    fn wait_for(&mut self, expression: &str, min: f64) {
        let patience = Instant::now() + Duration::from_secs(180);
        loop {
            let value = self.value(expression);
            if value.is_some_and(|value| value >= min) {
                return;
            }
            assert!(Instant::now() < patience, "{expression}: {value:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_real_prometheus_scrapes_a_real_database() {
    let Some(database) = Database::start() else {
        return;
    };
    let (_exporter, address) = exporter(&database.scene);
    let Some(mut prometheus) = Prometheus::start(&database.scene, address) else {
        return;
    };
    let pid = format!("pid=\"{}\"", database.pid());
    let scrapes = if coldstream_testkit::long() { 60 } else { 15 };
    let scraped = format!("count_over_time(coldstream_process_info{{{pid}}}[5m])");
    prometheus.wait_for(&scraped, f64::from(scrapes));
    // Every scrape is answered, and the figures move.
    let up = prometheus.value("min_over_time(up{job=\"coldstream\"}[10s])");
    assert_eq!(up, Some(1.0));
    for expression in [
        "sum(rate(coldstream_background_read_bytes_total{PID}[10s]))",
        "histogram_quantile(0.99, sum by (le) (rate(coldstream_foreground_device_read_seconds_bucket{PID}[10s])))",
        "histogram_quantile(0.99, sum by (le) \
         (rate(coldstream_foreground_phase_device_read_seconds_bucket{PID,phase=\"compaction\"}[10s])))",
        "sum(rate(coldstream_foreground_phase_missed_reads_total{PID}[10s]))",
    ] {
        let value = prometheus.value(&expression.replace("PID", &pid));
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{expression}: {value:?}"
        );
    }
}

/// The processor time of a process, in nanoseconds.
fn processor_ns(pid: u32) -> u64 {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap();
    // utime and stime, in units of USER_HZ: 100 on x86-64 and aarch64.
    let ticks: u64 = [14, 15]
        .map(|field| coldstream_control::stat_field(&stat, field).unwrap())
        .iter()
        .sum();
    ticks * 10_000_000
}

/// Prints what the exporter costs: `docs/watch.md` has the command and the figures. What each process adds is asserted
/// only beside what a scrape costs anyway.
#[test]
fn the_exporter_is_cheap() {
    const SCRAPES: u32 = 200;
    const SCRAPE_INTERVAL_NS: f64 = 15e9;
    let scene = Scene::new();
    let (exporter, address) = exporter(&scene);
    let mut processes = Vec::new();
    let took_ns = [1, 50].map(|number| {
        processes.resize_with(number, || Process::new(0));
        let before = processor_ns(exporter.0.id());
        for _ in 0..SCRAPES {
            get(address, "GET /metrics HTTP/1.1\r\nHost: x");
        }
        let took_ns = processor_ns(exporter.0.id()) - before;
        let percent = 100.0 * took_ns as f64 / f64::from(SCRAPES) / SCRAPE_INTERVAL_NS;
        let ms = took_ns as f64 / f64::from(SCRAPES) / 1e6;
        println!(
            "{number} processes: {ms:.2} ms a scrape, {percent:.4} % of a core at one each 15 s"
        );
        took_ns
    });
    assert!(took_ns[1] < 50 * took_ns[0], "{took_ns:?}");
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    words
        .filter(|word| word.starts_with("coldstream_"))
        .collect()
}

#[test]
fn boards_and_alerts_name_metrics_that_exist() {
    let scene = Scene::new();
    let _process = Process::new(0);
    let metrics = in_the_older_format(&scene);
    let known = names(&metrics);
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    for file in [
        "prometheus/alerts.yml",
        "prometheus/alerts_test.yml",
        "grafana/coldstream.json",
    ] {
        let text = fs::read_to_string(contrib.join(file)).unwrap();
        let used = names(&text);
        assert!(!used.is_empty(), "{file}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let board = fs::read_to_string(contrib.join("grafana/coldstream.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    assert!(
        board["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() > 10)
    );
}

#[test]
fn the_alerts_fire_when_they_should() {
    if !is_installed("promtool") {
        return skip("promtool is not installed (Debian: prometheus)");
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus");
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let found = Command::new("promtool")
            .args(arguments)
            .current_dir(&directory)
            .output()
            .unwrap();
        let text = [found.stdout, found.stderr].concat();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&text));
    }
}
