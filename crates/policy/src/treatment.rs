//! How background I/O reaches the device.

/// A treatment of background reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Treatment {
    /// `O_DIRECT` into windows of our own.
    Direct = 1,
    /// `preadv2` with `RWF_DONTCACHE` (Linux 6.14).
    DontCache = 2,
    /// Buffered, then the pages that came in are dropped.
    Window = 3,
    /// As the application asked.
    Buffered = 4,
}

impl Treatment {
    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Direct => "direct",
            Treatment::DontCache => "dontcache",
            Treatment::Window => "window",
            Treatment::Buffered => "buffered",
        }
    }

    /// The treatment with this number.
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            1 => Some(Treatment::Direct),
            2 => Some(Treatment::DontCache),
            3 => Some(Treatment::Window),
            4 => Some(Treatment::Buffered),
            _ => None,
        }
    }
}

/// A treatment as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadTreatment {
    /// The best that the probe of each filesystem allows.
    #[default]
    Auto,
    /// This one wherever it works, else buffered.
    Fixed(Treatment),
}

impl ReadTreatment {
    /// As written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            ReadTreatment::Auto => "auto",
            ReadTreatment::Fixed(treatment) => treatment.name(),
        }
    }

    /// The treatment of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            ReadTreatment::Auto,
            ReadTreatment::Fixed(Treatment::Direct),
            ReadTreatment::Fixed(Treatment::DontCache),
            ReadTreatment::Fixed(Treatment::Window),
            ReadTreatment::Fixed(Treatment::Buffered),
        ]
        .into_iter()
        .find(|treatment| treatment.name() == name)
    }

    /// The treatment on a filesystem of which this is known: `direct` works and has an effect,
    /// `RWF_DONTCACHE` is accepted, windows can be proven current (`trusted`).
    pub fn choose(self, direct: bool, dont_cache: bool, trusted: bool) -> Treatment {
        let works = |treatment| match treatment {
            Treatment::Direct => trusted && direct,
            Treatment::DontCache => trusted && dont_cache,
            Treatment::Window => trusted,
            Treatment::Buffered => true,
        };
        match self {
            ReadTreatment::Auto => [Treatment::Direct, Treatment::DontCache, Treatment::Window]
                .into_iter()
                .find(|treatment| works(*treatment))
                .unwrap_or(Treatment::Buffered),
            ReadTreatment::Fixed(treatment) if works(treatment) => treatment,
            ReadTreatment::Fixed(_) => Treatment::Buffered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_works_is_chosen() {
        use Treatment::{Buffered, Direct, DontCache, Window};
        let auto = ReadTreatment::Auto;
        assert_eq!(auto.choose(true, true, true), Direct);
        assert_eq!(auto.choose(false, true, true), DontCache);
        assert_eq!(auto.choose(false, false, true), Window);
        assert_eq!(auto.choose(true, true, false), Buffered);
        let fixed = ReadTreatment::Fixed;
        assert_eq!(fixed(Window).choose(true, true, true), Window);
        assert_eq!(fixed(DontCache).choose(true, false, true), Buffered);
        assert_eq!(fixed(Buffered).choose(true, true, true), Buffered);
    }

    #[test]
    fn names_and_numbers_round_trip() {
        for number in 1..=4 {
            let treatment = Treatment::from_u8(number).unwrap();
            assert_eq!(treatment as u8, number);
            let configured = ReadTreatment::Fixed(treatment);
            assert_eq!(
                ReadTreatment::from_name(configured.name()),
                Some(configured)
            );
        }
        assert_eq!(Treatment::from_u8(0), None);
        assert_eq!(ReadTreatment::from_name("auto"), Some(ReadTreatment::Auto));
        assert_eq!(ReadTreatment::from_name("Direct"), None);
    }
}
