//! What a process is, in one short line of a screen. The command line of a Java server has 8,000 characters.

use coldstream_host::process;
use std::ffi::OsString;
use std::path::Path;

/// Longer titles are cut: some programs take whole configurations as arguments.
const CHARACTERS_MAX: usize = 120;

/// Options of `java` with a value of their own (`java --help-extra`, JDK 8 to 25). All others are one argument.
const JAVA_OPTIONS_WITH_VALUE: [&str; 14] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--add-reads",
    "--add-exports",
    "--add-opens",
    "--enable-native-access",
    "--limit-modules",
    "--patch-module",
    "--source",
];

/// The program with its arguments; of a Java program the class, module or archive that it runs. A process without
/// arguments has its short name in brackets. Without control characters: a terminal would obey them.
pub fn of(pid: u32) -> String {
    let arguments = process::arguments(pid).unwrap_or_default();
    let arguments: Vec<_> = arguments.iter().map(shown).collect();
    let line = match java_program(&arguments) {
        Some(program) => format!("java {program}"),
        None => arguments.join(" "),
    };
    match line.trim() {
        "" => format!("[{}]", process::short_name(pid)),
        line => cut(line, CHARACTERS_MAX),
    }
}

/// At most this many characters, the last of them an ellipsis where some are left out.
pub fn cut(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let kept = characters_max.saturating_sub(1);
    text.chars().take(kept).chain(['…']).collect()
}

fn shown(argument: &OsString) -> String {
    argument.to_string_lossy().replace(char::is_control, "?")
}

/// What `java` runs; `None` for other programs.
fn java_program(arguments: &[String]) -> Option<String> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name()? != "java" {
        return None;
    }
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-jar" | "-m" | "--module" => return Some(format!("{argument} {}", rest.next()?)),
            module if module.starts_with("--module=") => return Some(module.to_owned()),
            option if JAVA_OPTIONS_WITH_VALUE.contains(&option) => drop(rest.next()),
            // The file may name the class.
            file if file.starts_with('@') => return None,
            option if option.starts_with('-') => {}
            class => return Some(class.to_owned()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn java(line: &str) -> Option<String> {
        let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
        java_program(&arguments)
    }

    #[test]
    fn a_java_program_is_its_class() {
        for (line, program) in [
            (
                "/usr/bin/java -ea -Xms1G --add-exports a/b=ALL-UNNAMED -javaagent:a.jar -cp a:b \
                 org.apache.cassandra.service.CassandraDaemon",
                Some("org.apache.cassandra.service.CassandraDaemon"),
            ),
            (
                "java -Dx=y -jar /opt/a.jar --port 1",
                Some("-jar /opt/a.jar"),
            ),
            ("java -p mods -m a/b.C d", Some("-m a/b.C")),
            ("java --module=a/b.C d", Some("--module=a/b.C")),
            ("java @options d", None),
            ("java --add-exports=a/b=c Main argument", Some("Main")),
            ("java -version", None),
            ("java -jar", None),
            ("mysqld -jar x", None),
        ] {
            assert_eq!(java(line).as_deref(), program, "{line}");
        }
    }

    #[test]
    fn a_command_line_cannot_write_to_the_terminal() {
        assert_eq!(shown(&"a\x1b[2Jb\nc".into()), "a?[2Jb?c");
    }

    #[test]
    fn this_process_has_a_short_title() {
        let title = of(std::process::id());
        assert!(!title.is_empty() && title.chars().count() <= CHARACTERS_MAX);
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
    }
}
