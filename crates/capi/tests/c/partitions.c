/* partitions FIRST SECOND OUTPUT [OFFSET LENGTH]...: hands over between SSTables of Cassandra by their indexes. The ranges
 * are hot in the first. Prints the results; the caller looks at the page cache. */
#include <coldstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void checked(const char *what, int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
  exit(1);
}

int main(int argc, char **argv) {
  static char buffer[1 << 16];
  coldstream *engine;
  coldstream_file *files[3];
  if (argc < 4 || coldstream_create("reads=direct", &engine, NULL, 0) != 0) return 2;
  for (int i = 0; i < 3; i++)
    checked(argv[i + 1], coldstream_file_open(engine, argv[i + 1], COLDSTREAM_FORMAT_CASSANDRA, &files[i]));
  for (int round = 0; round < 50; round++)
    for (int i = 4; i + 1 < argc; i += 2)
      coldstream_note_read_done(files[0], coldstream_note_read(files[0], strtoull(argv[i], NULL, 10), strtoull(argv[i + 1], NULL, 10)));
  for (int i = 0; i < 2; i++)
    for (uint64_t at = 0, read = 1; read > 0; at += read) {
      int64_t result = coldstream_file_read(files[i], COLDSTREAM_COMPACTION, at, buffer, sizeof buffer);
      checked("read", result);
      read = (uint64_t)result;
    }
  /* First from the inputs that this thread has read, then from those that are given. */
  coldstream_handover_result result = {0, 0, 0};
  coldstream_handover_limits limits = {3 * 4096, 0};
  int64_t limited = coldstream_handover(engine, NULL, 0, files[2], &limits, NULL);
  checked("hand over", limited);
  int64_t warmed = coldstream_handover(engine, files, 2, files[2], NULL, &result);
  checked("hand over", warmed);
  printf("limited=%lld both=%lld hot=%llu\n", (long long)limited, (long long)(limited + warmed),
         (unsigned long long)result.hot_pages);
  for (int i = 0; i < 3; i++) coldstream_file_close(files[i]);
  coldstream_destroy(engine);
  return 0;
}
