/* handover DIRECTORY: writes two tables and their merge by RocksDB, makes some pages of the first hot, and hands over by
 * the tables' own indexes. Prints the results; the caller looks at the page cache. */
#include <coldstream.h>
#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 40000
#define VALUE 200

static void checked(const char *what, int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
  exit(1);
}

/* A table with every key whose number is `first` modulo `step`, and nothing of it in the page cache. */
static void write_table(const char *path, int first, int step) {
  char *error = NULL, key[16], value[VALUE];
  rocksdb_options_t *options = rocksdb_options_create();
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_envoptions_t *environment = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(environment, options);
  rocksdb_sstfilewriter_open(writer, path, &error);
  for (int number = first; number < KEYS && !error; number += step) {
    snprintf(key, sizeof key, "key%08d", number);
    memset(value, 'a' + number % 26, sizeof value);
    rocksdb_sstfilewriter_put(writer, key, strlen(key), value, sizeof value, &error);
  }
  if (!error) rocksdb_sstfilewriter_finish(writer, &error);
  if (error) {
    fprintf(stderr, "%s: %s\n", path, error);
    exit(1);
  }
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(environment);
  rocksdb_options_destroy(options);
  int descriptor = open(path, O_RDONLY);
  fsync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

int main(int argc, char **argv) {
  static char buffer[1 << 16];
  coldstream *engine;
  coldstream_file *inputs[2], *output;
  if (argc != 2 || chdir(argv[1]) != 0 || coldstream_create("reads=direct", &engine, NULL, 0) != 0) return 2;
  write_table("000001.sst", 0, 2);
  write_table("000002.sst", 1, 2);
  write_table("000003.sst", 0, 1);
  usleep(30000); /* A file that has just changed is read plainly. */
  for (int i = 0; i < 2; i++)
    checked("open", coldstream_file_open(engine, i ? "000002.sst" : "000001.sst", COLDSTREAM_FORMAT_ROCKSDB, &inputs[i]));
  /* Pages 500 to 509 of the first are hot. */
  for (int round = 0; round < 50; round++)
    for (uint64_t page = 500; page < 510; page++)
      coldstream_note_read_done(inputs[0], coldstream_note_read(inputs[0], page * 4096, 4096));
  for (int i = 0; i < 2; i++)
    for (uint64_t at = 0, read = 1; read > 0; at += read) {
      int64_t result = coldstream_file_read(inputs[i], COLDSTREAM_COMPACTION, at, buffer, sizeof buffer);
      checked("read", result);
      read = (uint64_t)result;
    }
  checked("open the output", coldstream_file_open(engine, "000003.sst", COLDSTREAM_FORMAT_ROCKSDB, &output));
  coldstream_file *opaque, *wrong[1];
  checked("open it otherwise", coldstream_file_open(engine, "000001.sst", COLDSTREAM_FORMAT_OPAQUE, &opaque));
  wrong[0] = opaque;
  if (coldstream_handover(engine, wrong, 1, output, NULL, NULL) >= 0) return 3;
  coldstream_file_close(opaque);
  coldstream_handover_result result = {0, 0, 0};
  coldstream_handover_limits limits = {3 * 4096, 0};
  /* First from the inputs that this thread has read, then from those that are given. */
  int64_t limited = coldstream_handover(engine, NULL, 0, output, &limits, NULL);
  int64_t warmed = coldstream_handover(engine, inputs, 2, output, NULL, &result);
  printf("limited=%lld both=%lld hot=%llu\n", (long long)limited, (long long)(limited + warmed),
         (unsigned long long)result.hot_pages);
  coldstream_file_close(inputs[0]);
  coldstream_file_close(inputs[1]);
  coldstream_file_close(output);
  coldstream_destroy(engine);
  return 0;
}
