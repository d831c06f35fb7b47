#include "activity.h"

#include <pthread.h>

#include <cstring>

#include "rocksdb/version.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

namespace {

coldstream_activity ActivityOfThreadName() {
  char name[16] = "";
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0) {
    return COLDSTREAM_FOREGROUND;
  }
  // util/threadpool_imp.cc. The threads of subcompactions inherit the name.
  if (strncmp(name, "rocksdb:low", 11) == 0 || strncmp(name, "rocksdb:bot", 11) == 0) {
    return COLDSTREAM_COMPACTION;
  }
  return strncmp(name, "rocksdb:high", 12) == 0 ? COLDSTREAM_FLUSH : COLDSTREAM_FOREGROUND;
}

// RocksDB names its threads before they do anything else, so one look is enough.
coldstream_activity ActivityOfThread() {
  static thread_local const coldstream_activity activity = ActivityOfThreadName();
  return activity;
}

// What the engine says of a call; false if it says nothing.
bool SaidByEngine(const IOOptions& options, coldstream_activity* activity) {
#if ROCKSDB_MAJOR >= 9
  switch (options.io_activity) {
    case Env::IOActivity::kUnknown:
      return false;
    case Env::IOActivity::kCompaction:
      *activity = COLDSTREAM_COMPACTION;
      return true;
    case Env::IOActivity::kFlush:
      *activity = COLDSTREAM_FLUSH;
      return true;
    case Env::IOActivity::kVerifyDBChecksum:
    case Env::IOActivity::kVerifyFileChecksums:
      *activity = COLDSTREAM_VALIDATION;
      return true;
    default:
      *activity = COLDSTREAM_FOREGROUND;
      return true;
  }
#else
  (void)options;
  (void)activity;
  return false;
#endif
}

}  // namespace

coldstream_activity ActivityOfRead(const IOOptions& options) {
  coldstream_activity activity = COLDSTREAM_FOREGROUND;
  if (SaidByEngine(options, &activity)) {
    return activity;
  }
  activity = ActivityOfThread();
  // A compaction in a thread of the user (CompactFiles) says so by its priority, but for the time of a write stall.
  if (activity == COLDSTREAM_FOREGROUND && options.rate_limiter_priority == Env::IO_LOW) {
    return COLDSTREAM_COMPACTION;
  }
  return activity;
}

coldstream_activity ActivityOfWrite(const IOOptions& options, Env::IOPriority file_priority) {
  coldstream_activity activity = COLDSTREAM_FOREGROUND;
  if (SaidByEngine(options, &activity)) {
    return activity;
  }
  // The priority of the file before the thread: a flush may run in a thread of compactions.
  switch (file_priority) {
    case Env::IO_LOW:
      return COLDSTREAM_COMPACTION;
    case Env::IO_HIGH:
      return COLDSTREAM_FLUSH;
    default:
      return ActivityOfThread();
  }
}

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
