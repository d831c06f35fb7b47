//! How many system calls a run makes.

use std::process::{Command, Stdio};

/// Who counts system calls.
#[derive(Clone, Copy)]
pub enum Counter {
    Perf,
    Strace,
}

impl Counter {
    /// The first that works here.
    pub fn find() -> Option<Self> {
        [Counter::Perf, Counter::Strace]
            .into_iter()
            .find(|counter| {
                let prefix = counter.prefix("/dev/null");
                Command::new(prefix[0])
                    .args(&prefix[1..])
                    .arg("true")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            })
    }

    pub fn name(self) -> &'static str {
        match self {
            Counter::Perf => "perf",
            Counter::Strace => "strace",
        }
    }

    pub fn prefix(self, output: &str) -> Vec<&str> {
        match self {
            Counter::Perf => vec![
                "perf",
                "stat",
                "-x",
                ",",
                "-e",
                "raw_syscalls:sys_enter",
                "-o",
                output,
            ],
            Counter::Strace => vec!["strace", "-c", "-f", "-o", output],
        }
    }

    pub fn parse(self, text: &str) -> Option<u64> {
        match self {
            // `count,unit,event,…`
            Counter::Perf => {
                let line = text.lines().find(|line| line.contains("sys_enter"))?;
                line.split(',').next()?.parse().ok()
            }
            // `100.00 seconds usecs/call calls errors total`, the errors only if there were any.
            Counter::Strace => {
                let line = text.lines().find(|line| line.ends_with(" total"))?;
                line.split_whitespace().nth(3)?.parse().ok()
            }
        }
    }
}
