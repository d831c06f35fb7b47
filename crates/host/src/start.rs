//! The start of a database's process: alike, whatever the environment of the caller is.

use std::path::PathBuf;
use std::process::Command;

use coldstream_policy::VARIABLES;

/// Variables that load a library into a database. Cassandra's start script makes the first one of the second.
const PRELOAD: [&str; 2] = ["LD_PRELOAD", "CASSANDRA_LIBJEMALLOC"];

/// Takes the caller's preload library and its settings of Coldstream out of a command's environment.
pub fn without_preload(command: &mut Command) -> &mut Command {
    PRELOAD
        .iter()
        .chain(&VARIABLES)
        .fold(command, Command::env_remove)
}

/// A shell that enters the cgroups and then becomes the command in its further arguments. So everything that the
/// command does is charged to the cgroups. Their paths have no spaces. It has no preload library.
#[must_use]
pub fn command_in_cgroups(processes_files: &[PathBuf]) -> Command {
    let files = processes_files
        .iter()
        .map(|file| file.display().to_string());
    let files: Vec<String> = files.collect();
    let mut command = Command::new("/bin/sh");
    without_preload(&mut command)
        .arg("-c")
        .arg("for file in $0; do echo $$ > \"$file\" || exit 3; done; exec \"$@\"")
        .arg(files.join(" "));
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;

    #[test]
    fn nothing_of_the_callers_environment_changes_the_database() {
        let command = command_in_cgroups(&[]);
        let variables = [
            "LD_PRELOAD",
            "CASSANDRA_LIBJEMALLOC",
            "COLDSTREAM",
            "COLDSTREAM_CONFIG",
        ];
        for variable in variables.iter().chain(&VARIABLES) {
            let mut environment = command.get_envs();
            let removed = (OsStr::new(variable), None);
            assert!(environment.any(|it| it == removed), "{variable}");
        }
    }

    #[test]
    fn the_command_is_the_process_that_enters_the_cgroups() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["one", "other"].map(|name| directory.path().join(name));
        let mut command = command_in_cgroups(&files);
        let output = command.args(["/bin/sh", "-c", "echo $$"]).output().unwrap();
        for file in files {
            assert_eq!(fs::read(file).unwrap(), output.stdout);
        }
        let nowhere = command_in_cgroups(&[directory.path().join("none/file")])
            .arg("true")
            .output();
        assert_eq!(nowhere.unwrap().status.code(), Some(3));
    }
}
