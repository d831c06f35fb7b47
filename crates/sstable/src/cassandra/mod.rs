//! Cassandra's BIG and BTI formats.
