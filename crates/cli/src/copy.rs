//! `coldstream copy`: puts the library and the command into a directory. A container of the image, which has no shell
//! and no `cp`, fills a volume with it that the database's container shares.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::exit::{self, failure};
use crate::run::elf;
use crate::{library, output};

const EXAMPLES: &str = "\
Examples:
  coldstream copy /opt/coldstream

The directory gets libcoldstream.so and coldstream. Files that are there are replaced whole: a database \
that has loaded the library keeps the older one until it is restarted.";

/// Copy the library and this command into a directory, such as a volume that containers share
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CopyArguments {
    /// The directory; it is made
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The preload library [default: COLDSTREAM_LIBRARY, beside this program, ../lib/coldstream]
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
}

/// Copies both files.
pub fn run(arguments: &CopyArguments) -> anyhow::Result<()> {
    let library = library::find(arguments.library.as_deref(), "--library")?;
    elf::check_library(&library)?;
    let program = std::env::current_exe()?;
    for (source, name, mode) in [
        (&library, library::FILE_NAME, 0o644),
        (&program, "coldstream", 0o755),
    ] {
        let target = arguments.directory.join(name);
        copy(source, &target, mode).map_err(|error| {
            let message = format!(
                "cannot copy {} to {}: {error}",
                source.display(),
                target.display()
            );
            failure(exit::of_io(&error), message)
        })?;
        output::print(&format!("{}\n", target.display()))?;
    }
    Ok(())
}

/// Whole or not at all: a reader of the old file keeps it.
fn copy(source: &Path, target: &Path, mode: u32) -> io::Result<()> {
    let directory = target.parent().unwrap_or(Path::new("."));
    if !directory.exists() {
        fs::create_dir_all(directory)?;
        // Whatever the umask of root: the database's user runs the command there.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    let mut file = tempfile::Builder::new()
        .prefix(".coldstream")
        .tempfile_in(directory)?;
    io::copy(&mut fs::File::open(source)?, file.as_file_mut())?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))?;
    file.persist(target).map_err(|error| error.error)?;
    Ok(())
}
