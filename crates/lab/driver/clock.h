// Time in nanoseconds.

#pragma once

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace driver {

// 0 for the clock of a thread that has ended.
inline uint64_t ClockNs(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

inline uint64_t NowNs() { return ClockNs(CLOCK_MONOTONIC); }

inline void SleepUntil(uint64_t when_ns) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(when_ns / 1000000000u);
  time.tv_nsec = static_cast<long>(when_ns % 1000000000u);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

}  // namespace driver
