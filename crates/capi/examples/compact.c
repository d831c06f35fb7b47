/* Compacts two sorted files of fixed records into one, around the page cache:
 * compact FIRST SECOND OUTPUT. A record is a key of 16 bytes and a value of 48. */
#include <coldstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD 64

static int64_t checked(const char *what, int64_t result) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
    exit(1);
  }
  return result;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s FIRST SECOND OUTPUT\n", argc > 0 ? argv[0] : "compact");
    return 2;
  }
  coldstream *engine;
  char why[256];
  if (coldstream_create("log=none", &engine, why, sizeof why) < 0) {
    fprintf(stderr, "coldstream: %s\n", why);
    return 1;
  }
  coldstream_file *in[2], *out;
  coldstream_writer *writer;
  char record[2][RECORD];
  uint64_t at[2] = {0, 0}, written = 0;
  coldstream_mapping *ranges = NULL;
  size_t range_count = 0;
  int there[2];
  for (int i = 0; i < 2; i++) {
    checked(argv[1 + i], coldstream_file_open(engine, argv[1 + i], COLDSTREAM_FORMAT_OPAQUE, &in[i]));
    there[i] = checked("read", coldstream_file_read(in[i], COLDSTREAM_COMPACTION, 0, record[i], RECORD)) == RECORD;
  }
  checked(argv[3], coldstream_writer_open(engine, argv[3], COLDSTREAM_FORMAT_OPAQUE, COLDSTREAM_COMPACTION,
                                          COLDSTREAM_WRITER_TRUNCATE, 0644, &writer));
  while (there[0] || there[1]) {
    int i = !there[0] || (there[1] && memcmp(record[1], record[0], 16) < 0);
    checked("append", coldstream_writer_append(writer, record[i], RECORD));
    at[i] += RECORD;
    written += RECORD;
    there[i] = checked("read", coldstream_file_read(in[i], COLDSTREAM_COMPACTION, at[i], record[i], RECORD)) == RECORD;
  }
  checked("sync", coldstream_writer_sync(writer, 1));
  checked("close", coldstream_writer_close(writer));
  /* What was hot in the inputs is warm in the output before its readers come. This mapping is coarse. */
  ranges = calloc(2, sizeof *ranges);
  for (uint32_t i = 0; ranges && i < 2; i++)
    if (at[i] > 0)
      ranges[range_count++] = (coldstream_mapping){i, 0, 0, at[i], 0, written};
  checked(argv[3], coldstream_file_open(engine, argv[3], COLDSTREAM_FORMAT_OPAQUE, &out));
  int64_t warmed = checked("handover", coldstream_handover_mapped(engine, in, 2, out,
                                                                  ranges, range_count, NULL, NULL));
  uint64_t cached = 0, direct = 0, written_direct = 0;
  coldstream_counter(engine, "bytes_from_cache", &cached);
  coldstream_counter(engine, "bytes_direct", &direct);
  coldstream_counter(engine, "write_bytes_direct", &written_direct);
  /* Inputs that are in the page cache are read out of it: drop them first to see direct reads. */
  printf("written=%llu direct_read=%llu cached_read=%llu direct_written=%llu warmed=%lld\n", (unsigned long long)written,
         (unsigned long long)direct, (unsigned long long)cached, (unsigned long long)written_direct, (long long)warmed);
  for (int i = 0; i < 2; i++) coldstream_file_close(in[i]);
  coldstream_file_close(out);
  free(ranges);
  coldstream_destroy(engine);
  return 0;
}
