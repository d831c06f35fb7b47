// The threads that make the load: readers, and a thread that updates keys.

#pragma once

#include "content.h"
#include "database.h"
#include "parameters.h"
#include "records.h"

#include <atomic>
#include <cstdint>

namespace driver {

// The keys that are read.
class HotKeys {
 public:
  explicit HotKeys(const RunParameters& parameters)
      : keys_(parameters.database.keys),
        count_(parameters.hot_keys),
        layout_(parameters.hot_layout) {}

  uint64_t Count() const { return count_; }

  // The number of the key with this index among the hot keys.
  uint64_t Number(uint64_t hot) const {
    const uint64_t number = layout_ == HotLayout::kContiguous
                                ? keys_ / 3 + hot
                                : hot * keys_ / count_ + keys_ / count_ / 2;
    return number % keys_;
  }

 private:
  uint64_t keys_;
  uint64_t count_;
  HotLayout layout_;
};

// What all threads of a run share.
struct Shared {
  const RunParameters& parameters;
  Database& database;
  const Content& content;
  const HotKeys hot_keys;
  // Reads a second of all readers together, now. For an open loop.
  std::atomic<double> reads_per_second;
  Output output{};
  std::atomic<Phase> phase{kWarmUp};
  std::atomic<bool> stop{false};
  // Readers that have ended their first pass over the hot keys, and the keys that they have read in it.
  std::atomic<uint64_t> first_passes{0};
  std::atomic<uint64_t> first_pass_keys{0};
  std::atomic<uint64_t> updates{0};
  // The longest delay between the time at which an update was due and its start.
  std::atomic<uint64_t> update_late_ns{0};
};

// The body of reader number `reader`, until `stop`. First it reads its share of the hot keys once.
//
// - Open loop: reads are due at random times, which do not depend on earlier answers. A late read
//   starts at once, and its response time includes the delay. At the end it tells how many were due and not started.
// - Closed loop: it reads again as soon as it has its answer. The response time is the service time.
void Read(Shared& shared, uint64_t reader);

// The body of the updater: rewrites uniformly chosen keys at a fixed rate, so that compaction never
// ends. Until `stop`, or until the compaction phase is over. After a write stall it makes up for what
// it missed; in a closed loop only for a tenth of a second of it.
void Update(Shared& shared);

}  // namespace driver
