use super::*;
use crate::eviction::Margin;
use crate::{FlushOutput, IoMode, IoModeSetting, Profile, Readahead, Visibility};
use proptest::prelude::*;
use proptest::sample::select;
use std::path::Path;
use strum::VariantArray;

fn none(_: &str) -> Option<String> {
    None
}

#[test]
fn the_environment_wins_over_the_file_over_the_defaults() {
    let text = "profile = \"rocksdb\"\nlog = \"none\"\n[reads]\ntreatment = \"window\"\nwindow_bytes = \"2MiB\"\nmemory_bytes = 8388608\n";
    let config = Config::from_sources(Some(text), |name| {
        (name == "COLDSTREAM_READS").then(|| "direct".into())
    })
    .unwrap();
    assert_eq!(config.profile, Profile::RocksDb);
    assert_eq!(config.log, LogTarget::None);
    assert_eq!(config.reads, IoModeSetting::Fixed(IoMode::Direct));
    assert_eq!(config.window_bytes, 2 << 20);
    assert_eq!(config.memory_bytes, 8 << 20);
    assert_eq!(config.windows_in_flight, 1);
}

#[test]
fn the_former_name_of_the_io_mode_is_accepted() {
    for key in ["treatment", "io_mode"] {
        let text = format!("[reads]\n{key} = \"direct\"\n[writes]\n{key} = \"dontcache\"\n");
        let config = Config::from_sources(Some(&text), none).unwrap();
        assert_eq!(config.reads, IoModeSetting::Fixed(IoMode::Direct));
        assert_eq!(config.writes, IoModeSetting::Fixed(IoMode::DontCache));
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_known_ones() {
    let error = Config::from_sources(Some("profil = \"auto\""), none).unwrap_err();
    assert!(error.to_string().contains("profile"), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert!(Config::from_sources(Some("[reads]\nspeed = 1"), none).is_err());
    assert!(Config::from_sources(Some("= nonsense"), none).is_err());
}

#[test]
fn a_bad_value_says_what_is_allowed() {
    for (key, value) in [
        ("COLDSTREAM", "maybe"),
        ("COLDSTREAM_PROFILE", "RocksDB"),
        ("COLDSTREAM_READS", "fast"),
        ("COLDSTREAM_WINDOW_BYTES", "100KiB"),
        ("COLDSTREAM_WINDOW_BYTES", "4MiB"),
        ("COLDSTREAM_WINDOWS_IN_FLIGHT", "0"),
        ("COLDSTREAM_MEMORY_BYTES", "1"),
        ("COLDSTREAM_WRITES", "fast"),
        ("COLDSTREAM_VISIBLE", "nowhere"),
        ("COLDSTREAM_FLUSH", "on"),
        ("COLDSTREAM_STAGING_BYTES", "2MiB"),
        ("COLDSTREAM_READAHEAD", "off"),
        ("COLDSTREAM_PACING", "maybe"),
        ("COLDSTREAM_PACING_FLOOR", "0"),
        ("COLDSTREAM_PACING_FLOOR", "16MiB"),
        ("COLDSTREAM_EVICTION", "maybe"),
        ("COLDSTREAM_EVICTION_MARGIN", "30%"),
        ("COLDSTREAM_HANDOVER", "maybe"),
        ("COLDSTREAM_HANDOVER_BYTES", "2TiB"),
        ("COLDSTREAM_HANDOVER_IN_FLIGHT", "0"),
        ("COLDSTREAM_HANDOVER_MILLISECONDS", "0"),
        ("COLDSTREAM_HEAT_BYTES", "1"),
        ("COLDSTREAM_PRIORITY", "high"),
        ("COLDSTREAM_NICE", "20"),
        ("COLDSTREAM_IO_PRIORITY", "compaction:8"),
        ("COLDSTREAM_LOG", "relative/path"),
    ] {
        let error = Config::from_sources(None, |name| (name == key).then(|| value.into()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(key) && error.contains(value) && error.contains("use "),
            "{error}"
        );
    }
}

#[test]
fn a_former_value_is_accepted() {
    let former = |name: &str| (name == "COLDSTREAM_READS").then(|| "window".into());
    let config = Config::from_sources(Some("[writes]\nio_mode = \"window\""), former).unwrap();
    assert_eq!(config.reads, IoModeSetting::Fixed(IoMode::DropBehind));
    assert_eq!(config.writes, config.reads);
}

#[test]
fn both_names_of_a_setting_are_too_many() {
    let text = "[reads]\ntreatment = \"auto\"\nio_mode = \"auto\"\n";
    let error = Config::from_sources(Some(text), none)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("reads.treatment") && error.contains("reads.io_mode"),
        "{error}"
    );
}

#[test]
fn errors_of_the_file_name_line_and_key_and_quote_nothing() {
    for (text, words) in [
        (
            "# secret\n[reads]\nsecret = \"secret\"",
            &["line 3", "unknown key of [reads]", "window_bytes"][..],
        ),
        ("secret = 1", &["line 1", "unknown key", "profile"]),
        (
            "[reads]\n\nio_mode = \"secret\"",
            &["line 3", "reads.io_mode", "use auto, direct"],
        ),
        ("reads = 3", &["line 1", "reads is a section"]),
        ("[secrets]\na = 1", &["line 1", "unknown section", "pacing"]),
        (
            "pacing.enabled = \"on\"",
            &["pacing.enabled", "true or false"],
        ),
        ("enabled = 1", &["enabled", "true or false"]),
        ("profile = true", &["profile", "use auto, rocksdb"]),
        (
            "[reads]\nmemory_bytes = [1]",
            &["line 2", "memory_bytes", "1MiB"],
        ),
        ("secret", &["line 1"]),
    ] {
        let error = Config::from_sources(Some(text), none)
            .unwrap_err()
            .to_string();
        for word in words {
            assert!(error.contains(word), "{error}");
        }
        assert!(
            !error.contains("secret") && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn an_error_of_the_file_names_it_if_a_variable_does() {
    for text in ["[reads]\nsecret = 1", "[reads]\nmemory_bytes = \"1\""] {
        let named = |name: &str| (name == "COLDSTREAM_CONFIG").then(|| "/etc/c.toml".to_owned());
        let error = Config::from_sources(Some(text), named).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("COLDSTREAM_CONFIG = /etc/c.toml: line 2: "),
            "{error}"
        );
        let error = Config::from_sources(Some(text), none).unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }
}

#[test]
fn an_error_about_a_size_quotes_it_and_names_the_units() {
    let variable = |name: &str| (name == "COLDSTREAM_MEMORY_BYTES").then(|| "64MB".to_owned());
    let of_variable = Config::from_sources(None, variable)
        .unwrap_err()
        .to_string();
    assert!(of_variable.contains("\"64MB\""), "{of_variable}");
    let of_file = Config::from_sources(Some("[reads]\nmemory_bytes = \"64MB\""), none).unwrap_err();
    for error in [of_variable, of_file.to_string()] {
        assert!(
            error.ends_with("1MiB to 1GiB, with KiB, MiB, GiB or TiB, as in 1GiB"),
            "{error}"
        );
    }
}

#[test]
fn names_of_settings_are_distinct_and_regular() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        for other in SETTINGS.iter().take(index) {
            assert_ne!(setting.variable, other.variable);
            assert_ne!(setting.key, other.key);
            assert!(setting.option().is_none() || setting.option() != other.option());
        }
        assert!(setting.variable.starts_with("COLDSTREAM"));
        assert!(setting.variable == "COLDSTREAM" || setting.option().is_some());
        let summary = setting.paragraphs().next().unwrap();
        assert!(
            summary.ends_with('.') || summary.ends_with(")."),
            "{summary}"
        );
    }
}

/// Texts that a setting must accept, and texts that it must refuse.
fn samples(setting: &Setting) -> (Vec<String>, Vec<String>) {
    let texts = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>();
    let mut accepted = vec![setting.default_text()];
    let mut refused = vec!["?".to_owned()];
    match setting.allowed() {
        Allowed::Switch => accepted.extend(["on", "off", "1", "0"].map(str::to_owned)),
        Allowed::Names { names, former } => {
            let former = former.iter().map(|(former, _)| former);
            accepted.extend(names.iter().chain(former).map(|name| (*name).to_owned()));
            refused.push(names.concat());
        }
        Allowed::Size {
            min_bytes: min,
            max_bytes: max,
            power_of_two,
        } => {
            accepted.extend(texts(&[min, max]));
            refused.extend(texts(&[max + 1, max * 2]));
            refused.extend(min.checked_sub(1).map(|less| less.to_string()));
            refused.extend(power_of_two.then(|| (min + 1).to_string()));
        }
        Allowed::Number { min, max, .. } => {
            accepted.extend(texts(&[min, max]));
            refused.extend(min.checked_sub(1).map(|less| less.to_string()));
            refused.extend(max.checked_add(1).map(|more| more.to_string()));
        }
        Allowed::Calls | Allowed::Described(_) => {}
    }
    (accepted, refused)
}

/// The defaults, but for this setting.
fn with(setting: &Setting, text: &str) -> Result<Config, ConfigError> {
    let variable = |name: &str| (name == setting.variable).then(|| text.to_owned());
    Config::from_sources(None, variable)
}

/// What a program gets that is started with these settings in its environment.
fn read_in(environment: &[(&'static str, String)]) -> Result<Config, ConfigError> {
    Config::from_sources(None, |name| {
        let mut variables = environment.iter();
        let found = variables.find(|(variable, _)| *variable == name);
        found.map(|(_, value)| value.clone())
    })
}

#[test]
fn every_setting_accepts_and_refuses_what_it_says() {
    for setting in &SETTINGS {
        let read = |text: &str| with(setting, text);
        let (accepted, refused) = samples(setting);
        for text in accepted {
            let config = read(&text).unwrap();
            assert_eq!(read(&config.write(setting.key)), Ok(config), "{text}");
        }
        for text in refused {
            let error = read(&text).unwrap_err().to_string();
            let allowed = setting.allowed().to_string();
            assert!(
                error.contains(setting.variable) && error.contains(&allowed),
                "{error}"
            );
        }
    }
}

#[test]
fn the_documents_are_current() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let documents = [
        ("markdown", "docs/configuration.md", markdown()),
        ("toml", "examples/coldstream.toml", example_toml()),
    ];
    let is_stale = |path: &str, text: &str| {
        std::fs::read_to_string(repository.join(path))
            .ok()
            .as_deref()
            != Some(text)
    };
    let renewals = documents
        .iter()
        .filter(|(_, path, text)| is_stale(path, text));
    let renewals = renewals.map(|(format, path, _)| {
        format!(
            "cargo run -p coldstream-policy --profile checked --example settings {format} {path}\n"
        )
    });
    let commands: String = renewals.collect();
    assert!(commands.is_empty(), "out of date; renew with\n{commands}");
}

#[test]
fn the_example_is_the_default_with_and_without_its_comment_signs() {
    let text = example_toml();
    let default = Ok(Config::default());
    assert_eq!(Config::from_sources(Some(&text), none), default);
    let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
    let keys = text.lines().filter(|line| is_key(line)).count();
    assert_eq!(keys, SETTINGS.len());
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if is_key(line) => key,
        _ => line,
    });
    let all = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(Config::from_sources(Some(&all), none), default);
}

proptest! {
    // A setting that is added needs no edit here: the test below carries another value of each.
    #[allow(clippy::needless_update)]
    #[test]
    fn the_environment_carries_a_whole_configuration(
        enabled in any::<bool>(), profile in select(Profile::VARIANTS),
        io_mode in proptest::option::of(select(IoMode::VARIANTS)),
        window in 16_u32..=21, in_flight in 1_usize..=4, memory in 1_usize << 20..=1 << 30,
        log in 0_u8..3, writes in proptest::option::of(select(IoMode::VARIANTS)),
        visible in select(Visibility::VARIANTS), flush in select(FlushOutput::VARIANTS),
        staging in 18_u32..=20, readahead in select(Readahead::VARIANTS), handover in any::<bool>(), handover_bytes in 0_u64..=1 << 40,
        handover_in_flight in 1_usize..=64, handover_milliseconds in 1_u32..=60_000, heat_bytes in 1_usize << 16..=1 << 30,
        eviction in any::<bool>(), margin in proptest::option::of(1_u8..=25), margin_bytes in 1_u64 << 20..=1 << 36,
        mode in select(PriorityMode::VARIANTS), nice in 0_u8..=19, level in 0_u8..=7,
        pacing in any::<bool>(), pacing_floor in 1_u32..=65_536,
    ) {
        let config = Config {
            enabled,
            profile,
            log: match log {
                0 => LogTarget::None,
                1 => LogTarget::Stderr,
                _ => LogTarget::File("/var/log/coldstream.log".into()),
            },
            reads: io_mode.map_or(IoModeSetting::Auto, IoModeSetting::Fixed),
            window_bytes: 1 << window,
            windows_in_flight: in_flight,
            memory_bytes: memory,
            writes: writes.map_or(IoModeSetting::Auto, IoModeSetting::Fixed),
            visible,
            flush,
            staging_bytes: 1 << staging,
            readahead,
            pacing,
            pacing_floor,
            eviction,
            eviction_margin: margin.map_or(Margin::Bytes(margin_bytes), Margin::Percent),
            handover,
            handover_bytes,
            handover_in_flight,
            handover_milliseconds,
            heat_bytes,
            priority: mode,
            nice: Priorities::default().with_nice(&format!("flush:{nice}")).unwrap().nice,
            io_priority: Priorities::default()
                .with_io(&format!("{level},validation:idle"))
                .unwrap()
                .io,
            ..Config::default()
        };
        let environment = config.to_environment();
        prop_assert_eq!(environment.len() + 1, VARIABLES.len());
        prop_assert_eq!(read_in(&environment), Ok(config));
    }
}

#[test]
fn the_environment_carries_another_value_of_each_setting() {
    let common = [
        "off",
        "on",
        "1",
        "2",
        "10%",
        "256KiB",
        "compaction:5",
        "/somewhere",
        "io_submit",
    ];
    for setting in &SETTINGS {
        let (accepted, _) = samples(setting);
        let values = (accepted.into_iter()).chain(common.map(str::to_owned));
        let mut others = values.filter_map(|value| {
            let config = with(setting, &value).ok()?;
            (config != Config::default()).then_some(config)
        });
        let config = (others.next())
            .unwrap_or_else(|| panic!("{}: add a value to the list above", setting.variable));
        let read = read_in(&config.to_environment());
        assert_eq!(read, Ok(config), "{}", setting.variable);
    }
}

/// `--handover-size` sets `COLDSTREAM_HANDOVER_BYTES`.
#[test]
fn an_option_is_the_beginning_of_its_variable() {
    for setting in &SETTINGS {
        let Some(option) = setting.option() else {
            continue;
        };
        let named = option.trim_end_matches("-size").to_uppercase();
        let begins = format!("COLDSTREAM_{}", named.replace('-', "_"));
        assert!(
            setting.variable.starts_with(&begins),
            "--{option} must be the beginning of {}, in lower case, or end in \"-size\"",
            setting.variable
        );
    }
}

#[test]
fn integers_of_toml_may_have_another_radix_or_a_sign() {
    let text = "[reads]\nwindow_bytes = 0x100000\nwindows_in_flight = +2";
    let config = Config::from_sources(Some(text), |_| None).unwrap();
    assert_eq!(config.window_bytes, 1 << 20);
    assert_eq!(config.windows_in_flight, 2);
}
