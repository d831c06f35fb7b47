//! Finds a program as a shell would, and checks that the dynamic loader will load a preload library
//! into it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::elf;
use crate::exit::{Exit, failure};

/// The kernel follows at most five interpreters of interpreters (`fs/exec.c`).
const INTERPRETERS_MAX: usize = 5;
/// The kernel looks for `#!` in this many bytes (`BINPRM_BUF_SIZE`).
const FIRST_BYTES: u64 = 256;
/// The directories that a shell searches if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The path of the program `name`: the name itself if it has a slash, else the first executable file of that name in
/// `PATH`.
pub fn find(name: &OsStr) -> anyhow::Result<PathBuf> {
    let shown = name.to_string_lossy();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        check_executable(&path)?;
        return Ok(path);
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut refused = None;
    for directory in std::env::split_paths(&search) {
        let path = directory.join(name);
        if !path.is_file() {
            continue;
        }
        match check_executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let message =
            format!("{shown}: command not found: give its path, or add its directory to PATH");
        failure(Exit::NoSuchCommand, message)
    }))
}

fn check_executable(path: &Path) -> anyhow::Result<()> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("{}: no such file", path.display());
            return Err(failure(Exit::NoSuchCommand, message));
        }
        Err(error) => {
            let message = format!("{}: {error}", path.display());
            return Err(failure(Exit::NotExecutable, message));
        }
    };
    if !metadata.is_file() {
        let message = format!("{}: not a regular file, cannot be executed", path.display());
        return Err(failure(Exit::NotExecutable, message));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(|_| {
        let message = format!(
            "{}: no permission to execute it: allow it with `chmod +x`",
            path.display()
        );
        failure(Exit::NotExecutable, message)
    })
}

/// Checks that the program, or the interpreter at the end of its `#!` lines, can take a preload
/// library. Returns the interpreters, the script's own first.
pub fn check_can_preload(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut interpreters = Vec::new();
    let mut path = program.to_owned();
    loop {
        let start = first_bytes(&path)?;
        let Some(line) = start.strip_prefix(b"#!") else {
            break;
        };
        if interpreters.len() == INTERPRETERS_MAX {
            let message = format!("{}: too many interpreters in a row", program.display());
            return Err(failure(Exit::NotExecutable, message));
        }
        let script = path;
        path = interpreter(line, &script)?;
        interpreters.push(path.clone());
    }
    let subject = path.display().to_string();
    check_privileges(&path)
        .and_then(|()| elf::check_program(&path))
        .map_err(|reason| {
            failure(
                Exit::CannotPreload,
                format!("{subject} cannot take a preload library: {reason}"),
            )
        })?;
    Ok(interpreters)
}

fn first_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FIRST_BYTES).read_to_end(&mut bytes))
        .map_err(|error| {
            // A file that may be executed but not read cannot be checked. It may be setuid.
            let message = format!("cannot check {}: {error}", path.display());
            failure(Exit::NotExecutable, message)
        })?;
    Ok(bytes)
}

/// The program that a `#!` line starts. For `env` that is the program that `env` starts.
fn interpreter(line: &[u8], script: &Path) -> anyhow::Result<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or(line);
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let context = |error: anyhow::Error| {
        let code = crate::exit::of(&error);
        failure(
            code,
            format!("interpreter of {}: {error}", script.display()),
        )
    };
    let Some(name) = words.next() else {
        let message = format!("{}: its #! line names no program", script.display());
        return Err(failure(Exit::CannotPreload, message));
    };
    if Path::new(name).file_name() == Some(OsStr::new("env"))
        && let Some(program) = program_of_env(words).map_err(context)?
    {
        return find(program).map_err(context);
    }
    find(&with_directory(name)).map_err(context)
}

/// The program that `env` starts with these words; none if it only prints.
fn program_of_env<'a>(
    mut words: impl Iterator<Item = &'a OsStr>,
) -> anyhow::Result<Option<&'a OsStr>> {
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"-" | b"-i" | b"--ignore-environment" => {
                let message = "env -i starts the program without the preload library";
                return Err(failure(Exit::CannotPreload, message));
            }
            b"-u" | b"--unset" | b"-C" | b"--chdir" => {
                words.next();
            }
            word if word.starts_with(b"-") || word.contains(&b'=') => {}
            _ => return Ok(Some(word)),
        }
    }
    Ok(None)
}

/// The name as the kernel reads it: without a slash, it is a file of the current directory.
fn with_directory(name: &OsStr) -> OsString {
    if name.as_bytes().contains(&b'/') {
        return name.to_owned();
    }
    Path::new(".").join(name).into_os_string()
}

/// The loader ignores `LD_PRELOAD` with a path in programs that gain privileges.
fn check_privileges(path: &Path) -> Result<(), String> {
    let mode = path.metadata().as_ref().map_or(0, Metadata::mode);
    for (bit, name, remedy) in [(0o4000, "setuid", "u-s"), (0o2000, "setgid", "g-s")] {
        if mode & bit != 0 {
            return Err(format!(
                "it is {name}, and the loader ignores preload libraries there; use a copy without \
                 that bit (chmod {remedy})"
            ));
        }
    }
    let mut room = [0_u8; 64];
    if rustix::fs::getxattr(path, "security.capability", &mut room).is_ok() {
        return Err(
            "it has file capabilities, and the loader ignores preload libraries there; use a copy \
             without them (setcap -r), and give the capabilities to the service instead"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found_through_env() {
        let script = Path::new("/x/script");
        for (line, expected) in [
            (&b"/bin/sh\nrest"[..], "sh"),
            (b" /bin/sh -e\n", "sh"),
            (b"/usr/bin/env sh\n", "sh"),
            (b"/usr/bin/env -S A=1 sh -e\n", "sh"),
            (b"/usr/bin/env -S -u NAME --chdir /tmp -v sh\n", "sh"),
            (b"/usr/bin/env\n", "env"),
        ] {
            let path = interpreter(line, script).unwrap();
            assert_eq!(path.file_name(), Some(OsStr::new(expected)));
        }
        let error = interpreter(b"/no/such/program\n", script).unwrap_err();
        assert_eq!(crate::exit::of(&error), Exit::NoSuchCommand);
        assert!(error.to_string().starts_with("interpreter of /x/script: "));
        assert!(interpreter(b"  \n", script).is_err());
        let error = interpreter(b"/usr/bin/env -S -i sh\n", script).unwrap_err();
        assert_eq!(crate::exit::of(&error), Exit::CannotPreload);
    }

    #[test]
    fn a_missing_command_is_not_a_refused_one() {
        let missing = find(OsStr::new("no-such-command-at-all")).unwrap_err();
        assert_eq!(crate::exit::of(&missing), Exit::NoSuchCommand);
        let directory = find(OsStr::new("/")).unwrap_err();
        assert_eq!(crate::exit::of(&directory), Exit::NotExecutable);
    }
}
