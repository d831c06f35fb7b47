//! The engines that the laboratory can measure. A new one is a folder with its `mod` line in `lib.rs`,
//! and one line here.

use crate::cassandra::Cassandra;
use crate::engine::{Engine, EngineArguments};
use crate::error::LabError;
use crate::experiment::execute;
use crate::leveldb::LevelDb;
use crate::pebble::Pebble;
use crate::rocksdb::RocksDb;

macro_rules! engines {
    ($($(#[$about:meta])* $engine:ident as $name:literal;)+) => {
        /// An engine and its options, as a subcommand of `coldstream lab`.
        #[derive(Debug, clap::Subcommand)]
        pub enum EngineCommand {
            $($(#[$about])* #[command(name = $name)] $engine(Box<<$engine as Engine>::Arguments>),)+
        }

        impl EngineCommand {
            /// The engine's options.
            pub fn arguments_mut(&mut self) -> &mut dyn EngineArguments {
                match self {
                    $(Self::$engine(arguments) => arguments.as_mut(),)+
                }
            }

            /// Measures the engine, prints the report and writes it.
            ///
            /// # Errors
            /// See [`LabError`].
            pub fn measure(self) -> Result<(), LabError> {
                match self {
                    $(Self::$engine(arguments) => execute::<$engine>(*arguments),)+
                }
            }
        }
    };
}

engines! {
    /// RocksDB under an open-loop load while it compacts
    RocksDb as "rocksdb";
    /// LevelDB, which maps its SSTables, under an open-loop load while it compacts
    LevelDb as "leveldb";
    /// Pebble, a Go program that no library reaches, under an open-loop load while it compacts
    Pebble as "pebble";
    /// Apache Cassandra: real nodes under an open-loop load through a major compaction
    Cassandra as "cassandra";
}
