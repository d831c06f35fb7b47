/* switched PATH: reads the file in the background for each line of its input, and says so. */
#include <coldstream.h>
#include <stdio.h>

int main(int argc, char **argv) {
  static char buffer[100000];
  char line[16];
  coldstream *engine;
  coldstream_file *file;
  if (argc != 2 || coldstream_create(NULL, &engine, NULL, 0) != 0) return 2;
  if (coldstream_file_open(engine, argv[1], COLDSTREAM_FORMAT_OPAQUE, &file) != 0) return 2;
  while (fgets(line, sizeof line, stdin)) {
    uint64_t at = 0;
    int64_t read;
    while ((read = coldstream_file_read(file, COLDSTREAM_COMPACTION, at, buffer, sizeof buffer)) > 0) at += (uint64_t)read;
    printf("%llu\n", (unsigned long long)at);
    fflush(stdout);
  }
  coldstream_file_close(file);
  coldstream_destroy(engine);
  return 0;
}
