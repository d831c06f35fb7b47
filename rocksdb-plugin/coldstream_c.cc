#include "coldstream_c.h"

#include <cstdlib>
#include <cstring>

#include "coldstream_fs.h"

using ROCKSDB_NAMESPACE::Env;
using ROCKSDB_NAMESPACE::Status;

rocksdb_env_t* rocksdb_create_coldstream_env(const char* options, char** errptr) {
  Env* env = nullptr;
  Status status = ROCKSDB_NAMESPACE::NewColdstreamEnv(options == nullptr ? "" : options, &env);
  rocksdb_env_t* result = nullptr;
  if (status.ok()) {
    // The struct is RocksDB's own (db/c.cc): a pointer to the Env, and whether it is the default one, which
    // rocksdb_env_destroy leaves alive. Ours lives on, too.
    result = rocksdb_create_default_env();
    Env** place = reinterpret_cast<Env**>(result);
    if (*place == Env::Default()) {
      *place = env;
      return result;
    }
    rocksdb_env_destroy(result);
    status = Status::NotSupported("coldstream: unknown layout of rocksdb_env_t: use env=coldstream:// in an options string");
  }
  free(*errptr);
  *errptr = strdup(status.ToString().c_str());
  return nullptr;
}
