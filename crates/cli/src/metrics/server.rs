//! `coldstream metrics --listen`: answers scrapes by HTTP until it is ended.
//!
//! Any local user can connect. So each connection has one request, a time limit and no body, and there are few at once.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::exposition::Exposition;
use super::families;
use crate::exit::{self, failure};
use crate::{output, processes};

const PATH: &str = "/metrics";
const INDEX: &str = "Coldstream's metrics are at /metrics.\n";
/// Connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 16;
/// For a request, and for its answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// A request line and its headers. Prometheus needs a tenth of that.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// After a connection that could not be taken: there may be no descriptors for a moment.
const REST: Duration = Duration::from_millis(100);

/// Answers requests at `address` for ever.
///
/// # Errors
/// The address cannot be used.
pub fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let listener = listen(address)?;
    let address = listener.local_addr()?;
    output::say(&format!("metrics are at http://{address}{PATH}"));
    let (log, open) = (Mutex::new(Log::default()), AtomicUsize::new(0));
    let (log, open) = (&log, &open);
    thread::scope(|scope| {
        loop {
            let Ok((connection, _)) = listener.accept() else {
                thread::sleep(REST);
                continue;
            };
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let answer = move || {
                // A client that goes away before its answer is no error of ours.
                let _ = answer(connection, log);
                open.fetch_sub(1, Ordering::Relaxed);
            };
            if thread::Builder::new().spawn_scoped(scope, answer).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
                thread::sleep(REST);
            }
        }
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let text =
            format!("cannot listen on {address}: {error}; name another one with --listen ADDRESS");
        failure(exit::of_io(&error), text)
    })
}

/// Says once why processes are missing, and again if that ended meanwhile.
#[derive(Default)]
struct Log {
    said: Vec<String>,
}

impl Log {
    fn note(&mut self, missing: Vec<String>) {
        let new = missing.iter().filter(|line| !self.said.contains(line));
        new.for_each(|line| output::say(line));
        self.said = missing;
    }
}

fn answer(mut connection: TcpStream, log: &Mutex<Log>) -> io::Result<()> {
    let head = head(&mut connection)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let accept = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then(|| value.trim())
    });
    let answer = match (method, target.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", PATH) => metrics(accept, log),
        ("GET" | "HEAD", "/") => Answer::text("200 OK", INDEX),
        ("GET" | "HEAD", _) => Answer::text("404 Not Found", INDEX),
        _ => Answer::text("405 Method Not Allowed", "only GET and HEAD\n"),
    };
    connection.set_write_timeout(Some(TIME_MAX))?;
    write!(
        connection,
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.content_type,
        answer.body.len()
    )?;
    if method != "HEAD" {
        connection.write_all(answer.body.as_bytes())?;
    }
    Ok(())
}

/// The request line and the headers. What follows them is not read.
fn head(connection: &mut TcpStream) -> io::Result<String> {
    let end = Instant::now() + TIME_MAX;
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&part[..count]),
        }
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn text(status: &'static str, body: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }
}

fn metrics(accept: Option<&str>, log: &Mutex<Log>) -> Answer {
    let exposition = Exposition::accepted(accept);
    match processes::survey() {
        Ok(survey) => {
            let body = exposition.render(&families::of(&survey));
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.note(processes::missing(&survey));
            Answer {
                status: "200 OK",
                content_type: exposition.content_type(),
                body,
            }
        }
        Err(error) => Answer::text("500 Internal Server Error", &format!("{error:#}\n")),
    }
}
