/* differential SEED OPTIONS DIRECTORY: random operations on one file through Coldstream, and on another by plain calls.
 * Results, errors and content must agree. */
#include <coldstream.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST (3 << 20)
static uint64_t state;
static unsigned char data[MOST], one[MOST], other[MOST];

static uint64_t below(uint64_t bound) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % bound;
}

static void require(int holds, const char *what, int64_t got, int64_t expected) {
  if (holds) return;
  fprintf(stderr, "%s: got %lld, expected %lld\n", what, (long long)got, (long long)expected);
  exit(1);
}

static void agree(const char *what, int64_t got, int64_t expected) { require(got == expected, what, got, expected); }

/* The result of a libc call in the interface's manner. */
static int64_t plain(int64_t result) { return result < 0 ? -errno : result; }

static uint64_t length(void) {
  static const uint64_t bounds[] = {100, 5000, 70000, MOST};
  return 1 + below(bounds[below(4)] - 1);
}

static void same_content(const char *what, const char *path, int descriptor, uint64_t size) {
  int ours = open(path, O_RDONLY);
  struct stat found;
  fstat(ours, &found);
  agree("size that others see", found.st_size, (int64_t)size);
  for (uint64_t at = 0; at < size; at += MOST) {
    ssize_t read = pread(ours, one, MOST, (off_t)at);
    agree("length", read, pread(descriptor, other, MOST, (off_t)at));
    require(memcmp(one, other, (size_t)read) == 0, what, (int64_t)at, -1);
  }
  close(ours);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  state = strtoull(argv[1], NULL, 10) * 2654435761u + 88172645463325252ull;
  char path[4096], plainly[4096], why[256];
  snprintf(path, sizeof path, "%s/ours-%s", argv[3], argv[1]);
  snprintf(plainly, sizeof plainly, "%s/plain-%s", argv[3], argv[1]);
  coldstream *engine;
  require(coldstream_create(argv[2], &engine, why, sizeof why) == 0, why, 1, 0);
  for (size_t at = 0; at < sizeof data; at++) data[at] = (unsigned char)below(256);

  coldstream_writer *writer;
  agree("open", coldstream_writer_open(engine, path, COLDSTREAM_FORMAT_OPAQUE, COLDSTREAM_COMPACTION, 0, 0600, &writer), 0);
  coldstream_writer *second;
  agree("second open", coldstream_writer_open(engine, path, COLDSTREAM_FORMAT_OPAQUE, COLDSTREAM_COMPACTION, 0, 0600, &second), -EEXIST);
  int descriptor = open(plainly, O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int step = 0; step < 60; step++) {
    int64_t size = coldstream_writer_size(writer);
    agree("size", size, lseek(descriptor, 0, SEEK_END));
    uint64_t bytes = length(), from = below(MOST - bytes + 1);
    switch (below(10)) {
      case 0:
        agree("flush", coldstream_writer_flush(writer), 0);
        same_content("content after a flush", path, descriptor, (uint64_t)size);
        break;
      case 1:
        agree("sync", coldstream_writer_sync(writer, (int)below(2)), 0);
        same_content("content after a sync", path, descriptor, (uint64_t)size);
        break;
      case 2:
        if (below(4) == 0) {
          uint64_t cut = below((uint64_t)size + 10000);
          agree("truncate", coldstream_writer_truncate(writer, cut), plain(ftruncate(descriptor, (off_t)cut)));
        }
        break;
      case 3:
        agree("range", coldstream_writer_range_sync(writer, 0, (uint64_t)size, (int)below(2)), 0);
        break;
      default:
        agree("append", coldstream_writer_append(writer, data + from, bytes), plain(write(descriptor, data + from, bytes)));
    }
  }
  /* A full device, or as much as a limit on the size: the errors agree, and no accepted byte is lost. */
  uint64_t size = (uint64_t)coldstream_writer_size(writer);
  agree("flush before the limit", coldstream_writer_flush(writer), 0);
  struct rlimit limit = {size + 10000, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  int64_t taken = coldstream_writer_append(writer, data, 200000);
  int64_t flushed = coldstream_writer_flush(writer);
  require(taken == -EFBIG || flushed == -EFBIG || taken < 200000, "no error at the limit", taken, flushed);
  limit.rlim_cur = RLIM_INFINITY;
  setrlimit(RLIMIT_FSIZE, &limit);
  if (taken > 0) agree("append of as much", write(descriptor, data, (size_t)taken), taken);
  agree("sync afterwards", coldstream_writer_sync(writer, 0), 0);
  agree("size afterwards", coldstream_writer_size(writer), lseek(descriptor, 0, SEEK_END));
  size = (uint64_t)coldstream_writer_size(writer);
  agree("close", coldstream_writer_close(writer), 0);
  same_content("content of the closed file", path, descriptor, size);

  coldstream_file *file;
  agree("open to read", coldstream_file_open(engine, path, COLDSTREAM_FORMAT_OPAQUE, &file), 0);
  if (below(2)) {
    int ours = open(path, O_RDONLY);
    fsync(ours);
    posix_fadvise(ours, 0, 0, POSIX_FADV_DONTNEED);
    close(ours);
    usleep(30000); /* A file that has just changed is read plainly. */
  }
  uint64_t at = 0;
  for (int step = 0; step < 200; step++) {
    uint64_t bytes = length();
    if (below(8) == 0) at = below(size + 5000);
    uint32_t activity = below(6) ? COLDSTREAM_COMPACTION : (uint32_t)below(5);
    int64_t read = coldstream_file_read(file, activity, at, one, bytes);
    agree("read", read, pread(descriptor, other, bytes, (off_t)at));
    require(memcmp(one, other, (size_t)read) == 0, "read content", (int64_t)at, -1);
    uint64_t token = coldstream_note_read(file, at, bytes);
    coldstream_note_read_done(file, token);
    at += (uint64_t)read;
  }
  require(coldstream_file_reads_ahead(file, COLDSTREAM_FOREGROUND) == 0, "readahead of the foreground", 1, 0);
  require(coldstream_file_reads_ahead(NULL, COLDSTREAM_COMPACTION) == -EINVAL, "readahead of nothing", 0, 0);
  coldstream_absent *absent;
  if (coldstream_absent_take(file, 0, size, &absent) == 0) {
    agree("plain read", pread(descriptor, other, 4096, 0), pread(open(path, O_RDONLY), one, 4096, 0));
    agree("drop", coldstream_absent_drop(absent), 0);
  }
  coldstream_file_forget(file);
  coldstream_file_close(file);
  uint64_t value = 1;
  agree("no such counter", coldstream_counter(engine, "nothing", &value), -EINVAL);
  agree("a counter", coldstream_counter(engine, "fallback_panic", &value), 0);
  agree("panics", (int64_t)value, 0);
  const char *shown[] = {"bytes_direct", "write_bytes_direct", "bytes_buffered", "write_bytes_drop_behind"};
  for (int i = 0; i < 4; i++) {
    agree(shown[i], coldstream_counter(engine, shown[i], &value), 0);
    printf("%s=%llu ", shown[i], (unsigned long long)value);
  }
  agree("NULL", coldstream_writer_flush(NULL), -EINVAL);
  file = (coldstream_file *)path;
  agree("no such file", coldstream_file_open(engine, "/no/such", COLDSTREAM_FORMAT_OPAQUE, &file), -ENOENT);
  require(file == NULL, "a handle after an error", 0, 0);
  writer = (coldstream_writer *)path;
  agree("no such directory", coldstream_writer_open(engine, "/no/such", 0, 0, 0, 0600, &writer), -ENOENT);
  require(writer == NULL, "a writer after an error", 0, 0);
  agree("unknown activity", coldstream_file_read(NULL, 99, 0, one, 1), -EINVAL);
  coldstream_destroy(engine);
  unlink(path), unlink(plainly);
  return 0;
}
