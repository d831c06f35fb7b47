//! The settings file, which an operator writes.

#![no_main]

use coldstream_policy::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(config) = Config::from_sources(Some(text), |_| None) {
        // What was accepted is accepted again as it is printed.
        let environment = config.to_environment();
        let of = |name: &str| {
            let value = environment.iter().find(|(variable, _)| *variable == name);
            value.map(|(_, value)| value.clone())
        };
        assert_eq!(Config::from_sources(None, of), Ok(config));
    }
});
