/* Coldstream's filesystem for programs that use RocksDB's C interface. */

#ifndef COLDSTREAM_ROCKSDB_C_H
#define COLDSTREAM_ROCKSDB_C_H

#include "rocksdb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An environment whose files Coldstream serves, for rocksdb_options_set_env. Free it by rocksdb_env_destroy.
 * options: NULL, or "name=value;name=value" as behind coldstream://.
 * errptr: as in all functions of rocksdb/c.h. The result is NULL if it is set. */
rocksdb_env_t* rocksdb_create_coldstream_env(const char* options, char** errptr);

#ifdef __cplusplus
}
#endif
#endif
