//! The two files that are made of the list of settings: `docs/configuration.md` and
//! `examples/coldstream.toml`. A test fails when one is stale, and says how to renew it.

use super::setting::{Section, Setting};
use super::settings::SETTINGS;
use super::values::Allowed;
use std::fmt::Write;
use strum::VariantArray;

const INTRODUCTION: &str = "\
# Configuration

<!-- Made of crates/policy/src/config/settings.rs. Renew it with
     cargo run -p coldstream-policy --profile checked --example settings markdown docs/configuration.md -->

Coldstream needs no setting. Each one can be given in these ways:

- an option of `coldstream run`,
- an environment variable, for `coldstream run`, for a bare `LD_PRELOAD` and for linked programs,
- an option of a linked program (`coldstream_create`, the RocksDB plugin): the option of `coldstream run` without `--`,
- a key of a TOML file, which `--config FILE` or `COLDSTREAM_CONFIG=FILE` names.

Options win over variables, and variables win over the file.
[examples/coldstream.toml](../examples/coldstream.toml) has every key with its default.

Settings are read when the process starts. `coldstream ctl` switches mechanisms off and on later, and changes
priorities: see [switches](design/switches.md).

## How values are read

- Sizes are bytes, or a number with `KiB`, `MiB`, `GiB` or `TiB`: `65536` and `64KiB` are the same.
- Switches are `on` or `off`; `1` and `0` work too. In TOML they are `true` or `false`.
- An empty variable counts as not set. An option without a value is an error.
- `coldstream run` refuses a wrong value, an unknown option or an unknown key. It warns of an unknown variable.
- Under a bare `LD_PRELOAD` a wrong value leaves Coldstream off in that process, with one line on standard error.
  An unknown variable is ignored. `coldstream doctor PID` reports both.
- In a linked program a wrong value is an error of the call that starts the engine.
- The file is a regular file, UTF-8, and smaller than 64 KiB. Errors name it and its lines, and quote nothing of it.
- A program with privileges that its user lacks (set-uid, set-gid, file capabilities) reads no setting. Coldstream is off in it.
- `--library` and `COLDSTREAM_LIBRARY` name the library, where it is not beside the command.
";

/// The text of `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = INTRODUCTION.to_owned();
    for section in Section::VARIANTS {
        let _ = write!(text, "\n## {}\n", section.title());
        if let Some(page) = section.page() {
            let _ = write!(text, "\nHow it works: [{page}]({page}).\n");
        }
        for setting in of_section(*section) {
            describe(&mut text, setting);
        }
    }
    text.push_str(&former_names());
    text
}

fn of_section(section: Section) -> impl Iterator<Item = &'static Setting> {
    let settings = SETTINGS.iter();
    settings.filter(move |setting| setting.section == section)
}

fn describe(text: &mut String, setting: &Setting) {
    let heading = match setting.option() {
        Some(option) => format!("--{option} {}", setting.value_name()),
        None => setting.variable.to_owned(),
    };
    let key = match setting.key.split_once('.') {
        Some((section, key)) => format!("`[{section}]` `{key}`"),
        None => format!("`{}`", setting.key),
    };
    let allowed = setting.allowed().to_string();
    let _ = write!(text, "\n### `{heading}`\n");
    let mut paragraphs = setting.paragraphs();
    let summary = paragraphs.next().unwrap_or_default();
    let _ = write!(
        text,
        "\n{summary}\n\n\
         | variable | TOML | values | default |\n\
         |---|---|---|---|\n\
         | `{}` | {key} | {} | `{}` |\n",
        setting.variable,
        allowed.replace('|', "\\|"),
        setting.default_text(),
    );
    for paragraph in paragraphs {
        let _ = write!(text, "\n{paragraph}\n");
    }
}

/// The names that are accepted for one more version.
fn former_names() -> String {
    let mut rows = String::new();
    for setting in &SETTINGS {
        if let Some(former) = setting.former_key {
            let _ = writeln!(rows, "| TOML key `{former}` | `{}` |", setting.key);
        }
        if let (Allowed::Names { former, .. }, Some(option)) = (setting.allowed(), setting.option())
        {
            for (former, name) in former {
                let _ = writeln!(rows, "| `--{option} {former}` | `--{option} {name}` |");
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n## Former names\n\nThese are accepted for one version.\n\n\
         | former | present |\n|---|---|\n{rows}"
    )
}

/// The text of `examples/coldstream.toml`: every key with its default, as a comment.
#[must_use]
pub fn example_toml() -> String {
    let mut text = "\
# The configuration file of Coldstream: coldstream run --config FILE, or COLDSTREAM_CONFIG=FILE.
# Every key is here with its default. Remove the # of a key to change it.
# docs/configuration.md explains each one.
#
# Made of crates/policy/src/config/settings.rs. Renew it with
# cargo run -p coldstream-policy --profile checked --example settings toml examples/coldstream.toml
"
    .to_owned();
    let top = SETTINGS.iter().filter(|it| !it.key.contains('.'));
    for setting in top {
        example(&mut text, setting, setting.key);
    }
    for section in Section::VARIANTS {
        let mut heading = true;
        for setting in of_section(*section) {
            let Some((name, key)) = setting.key.split_once('.') else {
                continue;
            };
            if heading {
                let _ = write!(text, "\n[{name}]\n");
                heading = false;
            }
            example(&mut text, setting, key);
        }
    }
    text
}

fn example(text: &mut String, setting: &Setting, key: &str) {
    let summary = setting.paragraphs().next().unwrap_or_default();
    let (allowed, value) = (setting.allowed(), setting.default_text());
    let values = match allowed {
        Allowed::Switch => "true or false".to_owned(),
        allowed => allowed.to_string(),
    };
    let value = match allowed {
        Allowed::Switch => (value == "on").to_string(),
        Allowed::Number { .. } => value,
        _ => format!("\"{value}\""),
    };
    let _ = write!(
        text,
        "\n# {summary}\n# Values: {values}.\n#{key} = {value}\n"
    );
}
