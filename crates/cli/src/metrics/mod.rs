//! `coldstream metrics`: the counters of all processes for Prometheus.
//!
//! - [`families`]: which metrics there are (pure).
//! - [`exposition`]: their text (pure).
//! - [`server`]: answers scrapes.
//!
//! It reads status pages only: nothing happens in the databases.

mod exposition;
mod families;
mod server;

use std::fs::Permissions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use self::exposition::Exposition;
use crate::exit::{Exit, failure};
use crate::{output, processes};

const EXAMPLES: &str = "\
Examples:
  coldstream metrics                          # once, to standard output
  coldstream metrics --listen                 # for Prometheus, at 127.0.0.1:9977
  coldstream metrics --listen 0.0.0.0:9977    # for other machines: nothing protects it
  coldstream metrics --textfile /var/lib/prometheus/node-exporter/coldstream.prom

It shows the processes of the calling user, to root those of all users; those in containers, too.
Exit codes: 1 address in use, 5 no permission, 6 disk full, 7 no such directory.";

/// Print or serve the counters of all processes as metrics for Prometheus
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MetricsArguments {
    /// Answer HTTP requests for /metrics here until ended, instead of printing once
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:9977",
        value_parser = address_parser,
        conflicts_with_all = ["textfile", "format"]
    )]
    listen: Option<SocketAddr>,
    /// Write them once into this file of node_exporter's textfile directory, in one step
    #[arg(long, value_name = "FILE", value_parser = textfile_parser, conflicts_with = "format")]
    textfile: Option<PathBuf>,
    /// Text format on standard output
    #[arg(long, value_enum, default_value_t = Exposition::Openmetrics)]
    format: Exposition,
}

fn address_parser(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "use an IP address and a port, such as 127.0.0.1:9977 or [::1]:9977".to_owned()
    })
}

fn textfile_parser(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|it| it == "prom") {
        Ok(path)
    } else {
        Err("node_exporter reads only files with the ending .prom".to_owned())
    }
}

/// Prints, writes or serves metrics.
///
/// # Errors
/// The status pages cannot be listed, or the output cannot be written.
pub fn run(arguments: &MetricsArguments) -> anyhow::Result<()> {
    if let Some(address) = arguments.listen {
        return server::serve(address);
    }
    let survey = processes::survey()?;
    let families = families::of(&survey);
    for line in processes::missing(&survey) {
        output::say(&line);
    }
    match &arguments.textfile {
        Some(path) => replace(path, &Exposition::Prometheus.render(&families)),
        None => output::print(&arguments.format.render(&families)),
    }
}

/// Replaces a file in one step: node_exporter never reads half of it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let what = || format!("cannot write {}", path.display());
    // node_exporter passes over files with another ending.
    let mut file = tempfile::Builder::new()
        .prefix(".coldstream-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .with_context(|| match directory.is_dir() {
            true => what(),
            false => format!(
                "{}: make the directory {} first",
                what(),
                directory.display()
            ),
        })?;
    file.write_all(text.as_bytes()).with_context(what)?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(failure(
            Exit::Failure,
            format!("{}: {}", what(), error.error),
        )),
    }
}
