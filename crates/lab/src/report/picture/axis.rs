//! Axes: figures to positions, and the figures that get a label.

/// One direction of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    is_logarithmic: bool,
    low: f64,
    high: f64,
    /// Positions of `low` and `high`.
    positions: (f64, f64),
}

/// Labels of an axis: few, since a panel is small.
const TICKS_MAX: f64 = 5.0;

/// A logarithmic axis over more than this has a label at each power of ten alone.
const DENSE_RATIO_MAX: f64 = 60.0;

impl Axis {
    /// From 0 to at least `high`.
    pub fn linear(high: f64, positions: (f64, f64)) -> Self {
        Self::between(0.0, high, positions)
    }

    /// From `low` to `high`.
    pub fn between(low: f64, high: f64, positions: (f64, f64)) -> Self {
        Self {
            is_logarithmic: false,
            low,
            high: high.max(low + f64::MIN_POSITIVE),
            positions,
        }
    }

    /// Over all positive values, out to the next figure with a label.
    pub fn logarithmic(values: impl Iterator<Item = f64>, positions: (f64, f64)) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high == 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let steps = |value: f64| {
            let decade = 10_f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0].map(|step| step * decade)
        };
        let below = |value: f64| steps(value).into_iter().rfind(|step| *step <= value);
        let above = |value: f64| steps(value).into_iter().find(|step| *step > value);
        Self {
            is_logarithmic: true,
            low: below(low).unwrap_or(low),
            high: above(high).unwrap_or(high * 2.0),
            positions,
        }
    }

    /// The position of a figure; a figure outside is at the edge.
    pub fn position(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.positions.0 + share * (self.positions.1 - self.positions.0)
    }

    /// The figures that get a label.
    pub fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let steps: &[f64] = if self.high / self.low > DENSE_RATIO_MAX {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let ticks =
                decades.flat_map(|decade| steps.iter().map(move |it| it * 10_f64.powi(decade)));
            let is_inside = |tick: &f64| (self.low * 0.999..=self.high * 1.001).contains(tick);
            return ticks.filter(is_inside).collect();
        }
        let rough = (self.high - self.low) / TICKS_MAX;
        let decade = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
        let step = steps
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let count = ((self.high - self.low) / step).floor() as u32;
        (0..=count)
            .map(|tick| self.low + step * f64::from(tick))
            .collect()
    }
}

/// `50 µs`, `2 ms`, `1 s`.
pub fn time_label(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} µs"),
    }
}

/// `0`, `250`, `1.5k`.
pub fn count_label(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{}k", value / 1000.0)
    } else {
        // Sums of a step such as 0.1 are not exact.
        format!("{}", (value * 1000.0).round() / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_ends_at_figures_with_a_label() {
        let axis = Axis::logarithmic([67.0, 0.0, 856.0].into_iter(), (200.0, 0.0));
        assert_eq!(axis.ticks(), [50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(axis.position(50.0), 200.0);
        assert!(axis.position(1000.0).abs() < 1e-9);
        assert_eq!(axis.position(1.0), 200.0, "at the edge");
        let wide = Axis::logarithmic([12.0, 27_000.0].into_iter(), (0.0, 1.0));
        assert_eq!(wide.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let none = Axis::logarithmic(std::iter::empty(), (0.0, 1.0));
        assert_eq!(none.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn a_linear_axis_has_round_steps() {
        assert_eq!(
            Axis::linear(23.0, (0.0, 1.0)).ticks(),
            [0.0, 5.0, 10.0, 15.0, 20.0]
        );
        assert_eq!(Axis::linear(0.0, (0.0, 1.0)).ticks()[0], 0.0);
        assert_eq!(Axis::linear(10.0, (0.0, 100.0)).position(5.0), 50.0);
    }

    #[test]
    fn labels_have_the_unit_that_fits() {
        assert_eq!(
            [50.0, 2000.0, 1e6].map(time_label),
            ["50 µs", "2 ms", "1 s"]
        );
        assert_eq!(
            [0.0, 0.1 * 3.0, 250.0, 15_000.0].map(count_label),
            ["0", "0.3", "250", "15k"]
        );
    }
}
