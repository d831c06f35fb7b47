// The driver's parameters.
//
// `coldstream lab` writes them as one JSON document, from the structs of the same names in
// `lab/src/driven/parameters.rs`. Each field has the same name there.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driver {

// Engine and data set; part of both documents.
struct DatabaseParameters {
  // The engine's shared library: a path, or a name that the dynamic loader finds.
  std::string library;
  std::string directory;
  // Options in the engine's own form.
  std::string options;
  uint64_t keys;
  uint64_t value_bytes;
};

// Parameters of `options`.
struct OptionsParameters {
  // The engine's shared library: a path, or a name that the dynamic loader finds.
  std::string library;
  // Options in the engine's own form.
  std::string options;

  static OptionsParameters Parse(const std::string& document);
};

// Parameters of `load`.
struct LoadParameters {
  DatabaseParameters database;
  // Times that every key is written, each time as a sorted run of its own.
  uint64_t sorted_runs;
  // Uniformly chosen keys that are written again afterwards.
  uint64_t updates;

  static LoadParameters Parse(const std::string& document);
};

enum class Loop {
  // Reads are due at a rate, however slow the answers are.
  kOpen,
  // Each reader reads again as soon as it has its answer.
  kClosed,
};

enum class HotLayout {
  // Evenly over the key space.
  kScattered,
  // Side by side.
  kContiguous,
};

// What of the database is in the page cache when the run begins.
enum class Start { kCold, kWarm };

// Parameters of `run`.
struct RunParameters {
  DatabaseParameters database;
  Start start;
  // Keys that are read.
  uint64_t hot_keys;
  HotLayout hot_layout;
  // Threads that read.
  uint64_t readers;
  Loop loop;
  // Reads a second of all readers together, in an open loop.
  uint64_t reads_per_second;
  // The same in equal parts of the compaction phase, if updates keep compaction going.
  std::vector<uint64_t> load_steps;
  uint64_t seed;
  // The first pass over the hot keys ends after this time, however slow the device is. A key that was not read by
  // then is read when its turn comes.
  double first_pass_seconds;
  double warm_up_seconds;
  double idle_seconds;
  // Only if updates keep compaction going.
  double compaction_seconds;
  double after_seconds;
  // 0 is no limit.
  uint64_t compaction_bytes_per_second;
  // 0: no updates, and one manual compaction of everything.
  uint64_t update_bytes_per_second;
  // Compare the whole database with what was written, at the end.
  bool verify;

  static RunParameters Parse(const std::string& document);
};

}  // namespace driver
