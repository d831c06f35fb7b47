/* warm INPUT OUTPUT: reads some pages of the input often, copies it in the background, and hands over. Prints the
 * result; the caller looks at the page cache. */
#include <coldstream.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  static char buffer[1 << 16];
  coldstream *engine;
  coldstream_file *input, *output;
  coldstream_writer *writer;
  if (argc != 3 || coldstream_create("reads=direct;writes=direct", &engine, NULL, 0) != 0) return 2;
  if (coldstream_file_open(engine, argv[1], COLDSTREAM_FORMAT_OPAQUE, &input) != 0) return 3;
  /* Pages 100 to 109 and 700 are hot. */
  for (int round = 0; round < 50; round++)
    for (uint64_t page = 100; page < 111; page++) {
      uint64_t offset = (page == 110 ? 700 : page) * 4096;
      coldstream_note_read_done(input, coldstream_note_read(input, offset, 4096));
    }
  if (coldstream_writer_open(engine, argv[2], COLDSTREAM_FORMAT_OPAQUE, COLDSTREAM_COMPACTION, 0, 0600, &writer)) return 4;
  uint64_t size = 0;
  int64_t read;
  /* Whether windows are read ahead: with direct I/O they are. */
  int ahead = coldstream_file_reads_ahead(input, COLDSTREAM_COMPACTION);
  while ((read = coldstream_file_read(input, COLDSTREAM_COMPACTION, size, buffer, sizeof buffer)) > 0) {
    if (coldstream_writer_append(writer, buffer, (size_t)read) != read) return 5;
    size += (uint64_t)read;
  }
  if (coldstream_writer_sync(writer, 1) != 0 || coldstream_writer_close(writer) != 0) return 6;
  if (coldstream_file_open(engine, argv[2], COLDSTREAM_FORMAT_OPAQUE, &output) != 0) return 7;
  coldstream_mapping same[] = {{0, 0, 0, size / 2, 0, size / 2}, {0, 0, size / 2, size - size / 2, size / 2, size - size / 2}};
  coldstream_mapping wrong[] = {same[1], same[0]};
  coldstream_handover_result result = {0};
  if (coldstream_handover_mapped(engine, &input, 1, output, wrong, 2, NULL, NULL) >= 0) return 8;
  if (coldstream_handover(engine, &input, 1, output, NULL, NULL) >= 0) return 9;
  coldstream_mapping outside[] = {
    {0, 1, 0, size, 0, size}, {0, 0, 1, size, 0, size}, {0, 0, 0, size, 1, size}, {0, 0, 0, 1, size, 1}, {0, 0, size, 1, 0, 1},
  };
  for (size_t range = 0; range < sizeof outside / sizeof *outside; range++)
    if (coldstream_handover_mapped(engine, &input, 1, output, &outside[range], 1, NULL, NULL) != -EINVAL) return 10;
  coldstream_handover_limits limits = {3 * 4096, 0};
  int64_t limited = coldstream_handover_mapped(engine, &input, 1, output, same, 2, &limits, NULL);
  int64_t warmed = coldstream_handover_mapped(engine, &input, 1, output, same, 2, NULL, &result);
  printf("ahead=%d limited=%lld warmed=%lld hot=%llu\n", ahead, (long long)limited, (long long)warmed,
         (unsigned long long)result.hot_pages);
  coldstream_file_close(input);
  coldstream_file_close(output);
  coldstream_destroy(engine);
  return 0;
}
