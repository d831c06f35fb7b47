/* note PATH: what coldstream_note_read costs beside a read of a cached page, in nanoseconds. */
#include <coldstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int smaller(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

int main(int argc, char **argv) {
  enum { ROUNDS = 2001, READS = 1024 };
  static double each[ROUNDS];
  coldstream *engine;
  coldstream_file *file;
  if (argc != 2 || coldstream_create("log=none", &engine, NULL, 0) != 0) return 2;
  if (coldstream_file_open(engine, argv[1], COLDSTREAM_FORMAT_ROCKSDB, &file) != 0) return 2;
  uint64_t place = 88172645463325252ull;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now_ns();
    for (int read = 0; read < READS; read++) {
      place ^= place << 13, place ^= place >> 7, place ^= place << 17;
      uint64_t token = coldstream_note_read(file, place % 255 * 4096, 4096);
      if (token) coldstream_note_read_done(file, token);
    }
    each[round] = (now_ns() - start) / READS;
  }
  qsort(each, ROUNDS, sizeof *each, smaller);
  printf("note of a cached foreground read: median %.1f ns, quartiles %.1f to %.1f\n", each[ROUNDS / 2], each[ROUNDS / 4],
         each[ROUNDS * 3 / 4]);
  return 0;
}
