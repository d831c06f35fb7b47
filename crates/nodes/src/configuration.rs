//! The configuration of a node: `cassandra.yaml` and `logback.xml`.

use crate::version::Version;
use std::fmt::Write;
use std::path::Path;

/// The format of SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SstableFormat {
    /// BIG: `Index.db`. Every version has it.
    Big,
    /// BTI: tries. From 5.0 on.
    Bti,
}

/// `commitlog_sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLogSync {
    /// Every 10 s, Cassandra's default. A crash may lose what was acknowledged since.
    Periodic,
    /// Before each acknowledgement.
    Batch,
}

/// The settings of a node that vary here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Heap in MiB.
    pub heap_mib: u64,
    /// `compaction_throughput` in MiB/s; 0 means no limit.
    pub compaction_mib_per_second: u64,
    /// Format of new SSTables.
    pub format: SstableFormat,
    /// `compaction_read_disk_access_mode: direct`, a mode of 6.0.
    pub own_direct_reads: bool,
    /// `background_write_disk_access_mode: direct`, a mode of 6.0.
    pub own_direct_writes: bool,
    /// `commitlog_sync`.
    pub commit_log_sync: CommitLogSync,
    /// More lines of `cassandra.yaml`, `key: value` each. They replace lines that other fields set.
    pub more: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heap_mib: 1024,
            compaction_mib_per_second: 64,
            format: SstableFormat::Big,
            own_direct_reads: false,
            own_direct_writes: false,
            commit_log_sync: CommitLogSync::Periodic,
            more: Vec::new(),
        }
    }
}

impl Settings {
    /// The text of `cassandra.yaml`.
    pub(crate) fn yaml(
        &self,
        version: Version,
        directory: &Path,
        address: &str,
        seed: &str,
    ) -> String {
        let directory = directory.display();
        let mut yaml = format!(
            "cluster_name: coldstream\n\
             num_tokens: 4\n\
             partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             endpoint_snitch: SimpleSnitch\n\
             seed_provider:\n\
             \x20 - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n\
             \x20   parameters:\n\
             \x20     - seeds: \"{seed}\"\n\
             listen_address: {address}\n\
             rpc_address: {address}\n\
             start_native_transport: true\n\
             data_file_directories:\n\
             \x20 - {directory}/data\n\
             commitlog_directory: {directory}/commitlog\n\
             saved_caches_directory: {directory}/saved_caches\n\
             hints_directory: {directory}/hints\n\
             cdc_raw_directory: {directory}/cdc_raw\n\
             auto_snapshot: false\n\
             compaction_throughput: {throughput}MiB/s\n\
             concurrent_compactors: 1\n\
             disk_access_mode: mmap_index_only\n",
            throughput = self.compaction_mib_per_second,
        );
        yaml.push_str(match self.commit_log_sync {
            CommitLogSync::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n",
            CommitLogSync::Batch => "commitlog_sync: batch\n",
        });
        if self.format == SstableFormat::Bti && version >= Version::V5_0 {
            yaml.push_str("storage_compatibility_mode: NONE\nsstable:\n  selected_format: bti\n");
        }
        if self.own_direct_reads {
            yaml.push_str("compaction_read_disk_access_mode: direct\n");
        }
        if self.own_direct_writes {
            let _ = write!(
                yaml,
                "background_write_disk_access_mode: direct\ndirect_write_buffer_size: 1MiB\n"
            );
        }
        for line in &self.more {
            // Cassandra refuses duplicate keys.
            if let Some((key, _)) = line.split_once(':') {
                let is_other = |kept: &&str| !kept.starts_with(&format!("{key}:"));
                yaml = yaml.split_inclusive('\n').filter(is_other).collect();
            }
            yaml.push_str(line);
            yaml.push('\n');
        }
        yaml
    }
}

/// The text of `logback.xml`: everything from INFO on goes into one file.
pub(crate) fn logback(log: &Path) -> String {
    format!(
        r#"<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>{}</file>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"#,
        log.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_settings_are_written() {
        let yaml = |settings: &Settings, version| {
            settings.yaml(version, Path::new("/d"), "127.0.0.2", "127.0.0.1")
        };
        let plain = yaml(&Settings::default(), Version::V6_0);
        assert!(plain.contains("listen_address: 127.0.0.2\n"));
        assert!(plain.contains("seeds: \"127.0.0.1\"\n"));
        assert!(plain.contains("  - /d/data\n"));
        assert!(!plain.contains(": direct\n") && !plain.contains("bti"));
        assert!(plain.contains("commitlog_sync: periodic\ncommitlog_sync_period: "));
        let own = Settings {
            own_direct_reads: true,
            own_direct_writes: true,
            format: SstableFormat::Bti,
            commit_log_sync: CommitLogSync::Batch,
            more: vec!["stream_entire_sstables: false".into()],
            ..Settings::default()
        };
        let yaml = yaml(&own, Version::V6_0);
        for line in [
            "compaction_read_disk_access_mode: direct\n",
            "background_write_disk_access_mode: direct\n",
            "  selected_format: bti\n",
            "commitlog_sync: batch\n",
            "stream_entire_sstables: false\n",
        ] {
            assert!(yaml.contains(line), "{line}");
        }
        assert!(!yaml.contains("commitlog_sync_period"));
    }

    #[test]
    fn another_line_replaces_an_earlier_one() {
        let settings = Settings {
            more: vec!["disk_access_mode: mmap".into()],
            ..Settings::default()
        };
        let yaml = settings.yaml(Version::V4_1, Path::new("/d"), "127.0.0.2", "127.0.0.1");
        assert!(yaml.ends_with("disk_access_mode: mmap\n"));
        assert_eq!(yaml.matches("disk_access_mode:").count(), 1);
    }
}
