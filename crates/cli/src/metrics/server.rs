//! `coldstream metrics --listen`: answers scrapes by HTTP until it is ended.

use std::net::SocketAddr;

use tiny_http::{Header, Method, Request, Response, Server};

use super::exposition::Exposition;
use super::families;
use crate::exit::{self, failure};
use crate::{output, processes};

const PATH: &str = "/metrics";
const INDEX: &str = "Coldstream's metrics are at /metrics.\n";

/// Answers requests at `address` for ever.
///
/// # Errors
/// The address cannot be used.
pub fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let server = listen(address)?;
    let address = server.server_addr();
    output::say(&format!("metrics are at http://{address}{PATH}"));
    let mut log = Log::default();
    for request in server.incoming_requests() {
        // A client that goes away before its answer is no error of ours.
        let _ = answer(request, &mut log);
    }
    Ok(())
}

fn listen(address: SocketAddr) -> anyhow::Result<Server> {
    Server::http(address).map_err(|error| {
        let code = error
            .downcast_ref::<std::io::Error>()
            .map_or(exit::Exit::Failure, exit::of_io);
        let text =
            format!("cannot listen on {address}: {error}; name another one with --listen ADDRESS");
        failure(code, text)
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

fn answer(request: Request, log: &mut Log) -> std::io::Result<()> {
    if !matches!(request.method(), Method::Get | Method::Head) {
        return request.respond(text("only GET and HEAD\n".to_owned(), 405));
    }
    match request.url().split('?').next().unwrap_or_default() {
        PATH => metrics(request, log),
        "/" => request.respond(text(INDEX.to_owned(), 200)),
        _ => request.respond(text(INDEX.to_owned(), 404)),
    }
}

fn metrics(request: Request, log: &mut Log) -> std::io::Result<()> {
    let accept = request
        .headers()
        .iter()
        .find(|header| header.field.equiv("Accept"))
        .map(|header| header.value.as_str());
    let exposition = Exposition::accepted(accept);
    match processes::survey() {
        Ok(survey) => {
            let body = exposition.render(&families::of(&survey));
            log.note(processes::missing(&survey));
            request.respond(of_type(body, 200, exposition.content_type()))
        }
        Err(error) => request.respond(text(format!("{error:#}\n"), 500)),
    }
}

type Text = Response<std::io::Cursor<Vec<u8>>>;

fn text(body: String, code: u16) -> Text {
    of_type(body, code, "text/plain; charset=utf-8")
}

fn of_type(body: String, code: u16, content_type: &str) -> Text {
    let response = Response::from_string(body).with_status_code(code);
    match Header::from_bytes("Content-Type", content_type) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}
