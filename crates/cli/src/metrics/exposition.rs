//! Families as text: OpenMetrics 1.0, or the older text format of Prometheus.
//!
//! The two differ in the name of a counter's family, in `# EOF`, and in their content type.

use std::fmt::{self, Write};

use super::families::{Family, Kind, Sample, Value, seconds};

/// What every metric's name begins with.
const PREFIX: &str = "coldstream_";

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Exposition {
    /// OpenMetrics 1.0
    Openmetrics,
    /// Prometheus' text format 0.0.4
    Prometheus,
}

impl Exposition {
    /// The content type of an HTTP answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format that a client accepts, by its header `Accept`.
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(types) if types.contains("application/openmetrics-text") => Self::Openmetrics,
            _ => Self::Prometheus,
        }
    }

    /// The text of all families.
    pub fn render(self, families: &[Family]) -> String {
        let mut text = String::new();
        for family in families {
            // Writing to a string cannot fail.
            let _ = self.family(&mut text, family);
        }
        if self == Self::Openmetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn family(self, text: &mut String, family: &Family) -> fmt::Result {
        let (kind, total) = match family.kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
            Kind::Histogram => ("histogram", ""),
        };
        let name = &family.name;
        let of_family = match self {
            Self::Openmetrics => "",
            Self::Prometheus => total,
        };
        let help = family.help.replace('\\', "\\\\").replace('\n', " ");
        writeln!(text, "# HELP {PREFIX}{name}{of_family} {help}")?;
        writeln!(text, "# TYPE {PREFIX}{name}{of_family} {kind}")?;
        for sample in &family.samples {
            write!(text, "{PREFIX}{name}{total}{}", sample.suffix)?;
            labels(text, sample)?;
            match sample.value {
                Value::Whole(value) => writeln!(text, " {value}")?,
                Value::Nanoseconds(ns) => writeln!(text, " {}", seconds(ns))?,
                Value::Ratio(ratio) => writeln!(text, " {ratio:.3}")?,
            }
        }
        Ok(())
    }
}

fn labels(text: &mut String, sample: &Sample) -> fmt::Result {
    for (index, (name, value)) in sample.labels.iter().enumerate() {
        let before = if index == 0 { '{' } else { ',' };
        write!(text, "{before}{name}=\"")?;
        escape(text, value)?;
        text.write_char('"')?;
    }
    if sample.labels.is_empty() {
        return Ok(());
    }
    text.write_char('}')
}

/// Nearly no value has anything to escape, and there are thousands of values.
fn escape(text: &mut String, value: &str) -> fmt::Result {
    if !value.contains(['\\', '"', '\n']) {
        return text.write_str(value);
    }
    for character in value.chars() {
        match character {
            '\\' => text.write_str("\\\\")?,
            '"' => text.write_str("\\\"")?,
            '\n' => text.write_str("\\n")?,
            other => text.write_char(other)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(kind: Kind) -> Family {
        Family {
            name: "waits".to_owned(),
            kind,
            help: "Waits.".to_owned(),
            samples: vec![Sample {
                suffix: "",
                labels: vec![("program", "a\"b\\c".into()), ("pid", "7".into())],
                value: Value::Nanoseconds(1_500_000),
            }],
        }
    }

    #[test]
    fn counters_in_both_formats() {
        let families = [family(Kind::Counter)];
        assert_eq!(
            Exposition::Openmetrics.render(&families),
            "# HELP coldstream_waits Waits.\n\
             # TYPE coldstream_waits counter\n\
             coldstream_waits_total{program=\"a\\\"b\\\\c\",pid=\"7\"} 0.0015\n\
             # EOF\n"
        );
        assert_eq!(
            Exposition::Prometheus.render(&families),
            "# HELP coldstream_waits_total Waits.\n\
             # TYPE coldstream_waits_total counter\n\
             coldstream_waits_total{program=\"a\\\"b\\\\c\",pid=\"7\"} 0.0015\n"
        );
    }

    #[test]
    fn the_client_chooses_the_format() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(
            Exposition::accepted(Some(prometheus)),
            Exposition::Openmetrics
        );
        assert_eq!(Exposition::accepted(Some("*/*")), Exposition::Prometheus);
        assert_eq!(Exposition::accepted(None), Exposition::Prometheus);
    }
}
