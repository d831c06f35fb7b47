/* killed PATH: appends, makes half of it durable, and is killed. */
#include <coldstream.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  static char bytes[100000];
  coldstream *engine;
  coldstream_writer *writer;
  memset(bytes, 7, sizeof bytes);
  if (argc != 2 || coldstream_create("writes=direct", &engine, NULL, 0) != 0) return 2;
  if (coldstream_writer_open(engine, argv[1], COLDSTREAM_FORMAT_ROCKSDB, COLDSTREAM_COMPACTION, 0, 0600, &writer)) return 2;
  if (coldstream_writer_append(writer, bytes, sizeof bytes) != sizeof bytes) return 2;
  if (coldstream_writer_sync(writer, 1) != 0) return 2;
  if (coldstream_writer_append(writer, bytes, sizeof bytes) != sizeof bytes) return 2;
  raise(SIGKILL);
  return 2;
}
