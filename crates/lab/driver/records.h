// The records that the driver writes to its standard output.

#pragma once

#include "clock.h"
#include "fail.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace driver {

// The phases of a run, as the laboratory numbers them (`Phase::from_number` in phase.rs).
enum Phase : uint32_t { kWarmUp = 0, kIdle = 1, kCompaction = 2, kAfter = 3, kEnded = 4 };

// A record of standard output, 32 bytes, in the machine's byte order (`decode` in driver.rs).
struct Record {
  // 3 was another kind in an older driver. The laboratory refuses it, instead of misreading it.
  enum Kind : uint32_t {
    kRead = 0,
    kPhase = 1,
    kCompacted = 2,
    kUpdated = 4,
    kWritten = 5,
    kBacklog = 6,
    kUnstarted = 7,
    kFirstPass = 8,
  };
  uint32_t kind;
  uint32_t phase;
  uint64_t first;
  uint64_t second;
  uint64_t third;

  // One read. The laboratory finds its phases by these times.
  static Record Read(uint64_t intended_ns, uint64_t start_ns, uint64_t end_ns) {
    return {kRead, kWarmUp, intended_ns, start_ns, end_ns};
  }

  // Reads that were due evenly between the first time and the second, and that nobody has started.
  static Record Unstarted(uint64_t due_after_ns, uint64_t reads, uint64_t now_ns) {
    return {kUnstarted, kWarmUp, due_after_ns, reads, now_ns};
  }

  // How many of the hot keys the first pass has read.
  static Record FirstPass(uint64_t read_keys, uint64_t hot_keys) {
    return {kFirstPass, kWarmUp, read_keys, hot_keys, 0};
  }

  // The start of a phase, with the CPU time until then of the process and of the load's threads.
  static Record PhaseBegin(Phase phase, uint64_t at_ns, uint64_t process_cpu_ns, uint64_t load_cpu_ns) {
    return {kPhase, phase, process_cpu_ns, at_ns, load_cpu_ns};
  }

  // Bytes that compaction has read and written.
  static Record CompactedBytes(uint64_t read_bytes, uint64_t written_bytes) {
    return {kCompacted, kCompaction, read_bytes, written_bytes, 0};
  }

  // Updates, the longest delay of one, and the bytes that compaction is behind.
  static Record Updates(uint64_t updates, uint64_t late_ns_max, uint64_t debt_bytes) {
    return {kUpdated, kCompaction, updates, late_ns_max, debt_bytes};
  }

  // Bytes that the user wrote, and the time for which the engine delayed these writes.
  static Record Written(uint64_t user_bytes, uint64_t stall_us) {
    return {kWritten, kCompaction, user_bytes, stall_us, 0};
  }

  // How far compaction is behind at this moment, and whether one runs or is about to.
  static Record Backlog(Phase phase, uint64_t level0_files, uint64_t debt_bytes, bool is_compacting) {
    return {kBacklog, phase, level0_files, debt_bytes, is_compacting};
  }
};
static_assert(sizeof(Record) == 32, "the laboratory reads 32 bytes");

// Collects the records of all threads. One thread writes them in large pieces.
class Output {
 public:
  void Add(const std::vector<Record>& records) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.insert(pending_.end(), records.begin(), records.end());
  }

  void Add(const Record& record) { Add(std::vector<Record>{record}); }

  // Adds the start of a phase. Its time is taken under the lock: every read that starts later comes behind it.
  void AddPhaseBegin(Phase phase, uint64_t process_cpu_ns, uint64_t load_cpu_ns) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.push_back(Record::PhaseBegin(phase, NowNs(), process_cpu_ns, load_cpu_ns));
  }

  void Flush() {
    std::vector<Record> records;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      records.swap(pending_);
    }
    const char* bytes = reinterpret_cast<const char*>(records.data());
    size_t left = records.size() * sizeof(Record);
    while (left > 0) {
      ssize_t written = ::write(STDOUT_FILENO, bytes, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) Fail(kExitEngine, "standard output: %s", std::strerror(errno));
      bytes += written;
      left -= static_cast<size_t>(written);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Record> pending_;
};

}  // namespace driver
