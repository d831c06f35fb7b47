// Uses SSTables while there is no memory left, and prints what it saw.
// The output must be the same with and without the library.
//
// memory open SSTABLE                   the first open of the process finds the heap exhausted
// memory copy INPUT OUTPUT MIB          a compaction from INPUT to OUTPUT, with MIB more of address space
// memory close INPUT IMAGE OUTPUT       a compaction from INPUT to a copy of IMAGE, whose close finds little memory
// memory close INPUT IMAGE OUTPUT DONE  the same; then makes the file DONE and waits to be killed
// memory commit ...                     the same as each, but the machine has no more memory to promise

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned char buffer[1 << 20];

static int fail(const char* what) {
  dprintf(1, "%s: %s\n", what, strerror(errno));
  return 1;
}

static int by_commit;

static void* map(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Takes everything that the machine promises (`vm.overcommit_memory=2`), but `more` bytes.
static void take_all_but(size_t more) {
  void* spare = more > 0 ? map(more) : NULL;
  if (spare == MAP_FAILED) exit(fail("mmap"));
  for (size_t bytes = (size_t)1 << 40; bytes >= 4096;)
    if (map(bytes) == MAP_FAILED) bytes /= 2;
  if (spare != NULL) munmap(spare, more);
}

// Limits the memory to `more` bytes above what is used now. Does not allocate.
static void limit_memory(size_t more) {
  if (by_commit) {
    take_all_but(more);
    return;
  }
  char text[64] = {0};
  int statm = open("/proc/self/statm", O_RDONLY);
  if (statm < 0 || read(statm, text, sizeof text - 1) < 0) exit(fail("statm"));
  close(statm);
  struct rlimit limit = {0};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = strtoull(text, NULL, 10) * 4096 + more;
  if (setrlimit(RLIMIT_AS, &limit)) exit(fail("setrlimit"));
}

// Takes everything that the heap has.
static void exhaust_heap(void) {
  for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2)
    while (malloc(bytes) != NULL) {
    }
}

static uint64_t hash_of(size_t bytes) {
  uint64_t hash = 14695981039346656037u;
  for (size_t byte = 0; byte < bytes; ++byte) hash = (hash ^ buffer[byte]) * 1099511628211u;
  return hash;
}

static int do_open(const char* path) {
  limit_memory(1 << 20);
  exhaust_heap();
  int sstable = open(path, O_RDONLY | O_CLOEXEC);
  if (sstable < 0) return fail(path);
  for (off_t offset = 0; offset < 1 << 20; offset += 4096) {
    ssize_t got = pread(sstable, buffer, 4096, offset);
    if (got < 0) return fail("pread");
    dprintf(1, "%zd %llx\n", got, (unsigned long long)hash_of((size_t)got));
  }
  dprintf(1, "close %d\n", close(sstable));
  return 0;
}

static int do_copy(const char* from, const char* to, const char* mebibytes) {
  prctl(PR_SET_NAME, "rocksdb:low0", 0, 0, 0);
  limit_memory(strtoull(mebibytes, NULL, 10) << 20);
  int input = open(from, O_RDONLY | O_CLOEXEC);
  int output = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (input < 0 || output < 0) return fail("open");
  ssize_t got;
  for (off_t offset = 0; (got = pread(input, buffer, 65536, offset)) > 0; offset += got) {
    dprintf(1, "%zd %llx\n", got, (unsigned long long)hash_of((size_t)got));
    if (write(output, buffer, (size_t)got) != got) return fail("write");
  }
  dprintf(1, "pread %zd, fsync %d, ", got, fsync(output));
  dprintf(1, "close %d, close %d\n", close(output), close(input));
  return 0;
}

static char** arguments;

// The compaction: reads all of the input, writes the output, and closes it.
static void* compact(void* unused) {
  (void)unused;
  prctl(PR_SET_NAME, "rocksdb:low0", 0, 0, 0);
  ssize_t got;
  int input = open(arguments[0], O_RDONLY | O_CLOEXEC);
  for (off_t offset = 0; (got = pread(input, buffer, 65536, offset)) > 0; offset += got) {
  }
  int image = open(arguments[1], O_RDONLY | O_CLOEXEC);
  int output = open(arguments[2], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  while ((got = read(image, buffer, sizeof buffer)) > 0)
    if (write(output, buffer, (size_t)got) != got) exit(fail("write"));
  limit_memory(24 << 20);
  dprintf(1, "fsync %d, close %d\n", fsync(output), close(output));
  return NULL;
}

static int do_close(int count, char** names) {
  arguments = names;
  // The foreground makes the input hot.
  int input = open(names[0], O_RDONLY | O_CLOEXEC);
  if (input < 0) return fail(names[0]);
  for (int turn = 0; turn < 4; ++turn)
    for (off_t offset = 0; offset < 1 << 20; offset += 8192)
      if (pread(input, buffer, 4096, offset) < 0) return fail("pread");
  pthread_t thread;
  if (pthread_create(&thread, NULL, compact, NULL)) return fail("pthread_create");
  pthread_join(thread, NULL);
  dprintf(1, "close %d\n", close(input));
  if (count > 3) {
    int done = open(names[3], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (done < 0) return fail(names[3]);
    for (;;) pause();
  }
  return 0;
}

int main(int argc, char** argv) {
  by_commit = argc > 1 && strcmp(argv[1], "commit") == 0;
  argc -= by_commit;
  argv += by_commit;
  if (argc == 3 && strcmp(argv[1], "open") == 0) return do_open(argv[2]);
  if (argc == 5 && strcmp(argv[1], "copy") == 0) return do_copy(argv[2], argv[3], argv[4]);
  if (argc >= 5 && strcmp(argv[1], "close") == 0) return do_close(argc - 2, argv + 2);
  return 100;
}
