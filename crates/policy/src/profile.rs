//! The engine whose threads and files are recognised.

/// The engine whose thread names and file names are recognised.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::FromRepr,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Profile {
    /// All engines at once.
    #[default]
    Auto = 0,
    /// RocksDB and the servers that embed it.
    RocksDb = 1,
    /// LevelDB.
    LevelDb = 2,
    /// Apache Cassandra.
    Cassandra = 3,
}

impl Profile {
    /// The profile with this number; anything unknown is `Auto`.
    #[inline]
    pub fn from_u8(number: u8) -> Self {
        Self::from_repr(number).unwrap_or_default()
    }

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether `other` is this profile, or one of all.
    pub(crate) fn includes(self, other: Profile) -> bool {
        self == other || self == Profile::Auto
    }
}
