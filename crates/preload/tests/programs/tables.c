// A program that reads SSTables in awkward ways, in a background thread, and prints what it saw.
// The output must be the same with and without the library.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void become_background(void) { prctl(PR_SET_NAME, "rocksdb:low", 0, 0, 0); }

static int open_table(const char* path) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    perror(path);
    exit(1);
  }
  return descriptor;
}

// Reads from `offset` on in steps of `chunk`, up to `limit` bytes; adds to a hash.
static uint64_t scan(int descriptor, off_t offset, size_t chunk, size_t limit, uint64_t hash) {
  static __thread unsigned char buffer[1 << 17];
  size_t done = 0;
  while (done < limit) {
    ssize_t got = pread(descriptor, buffer, chunk, offset);
    if (got < 0) {
      printf("pread at %lld: %s\n", (long long)offset, strerror(errno));
      exit(1);
    }
    if (got == 0) break;
    for (ssize_t byte = 0; byte < got; ++byte) hash = (hash ^ buffer[byte]) * 1099511628211u;
    offset += got;
    done += (size_t)got;
  }
  return hash;
}

static uint64_t scan_all(const char* path, size_t chunk) {
  int descriptor = open_table(path);
  uint64_t hash = scan(descriptor, 0, chunk, SIZE_MAX, 14695981039346656037u);
  close(descriptor);
  return hash;
}

// Small and large steps, a jump back, a jump ahead, and reads that must fail.
static int do_scan(const char* path) {
  become_background();
  int descriptor = open_table(path);
  uint64_t hash = 14695981039346656037u;
  static const size_t chunks[] = {4096, 4122, 65536, 1, 100000};
  for (unsigned step = 0; step < sizeof chunks / sizeof *chunks; ++step) {
    hash = scan(descriptor, 0, chunks[step], chunks[step] == 1 ? 2000 : SIZE_MAX, hash);
    hash = scan(descriptor, 1000003, chunks[step], 300000, hash);
  }
  printf("hash %016llx\n", (unsigned long long)hash);
  char byte;
  ssize_t negative = pread(descriptor, &byte, 1, -1);
  printf("negative offset: %zd %d\n", negative, errno);
  void* volatile nowhere = (void*)8;
  ssize_t bad = pread(descriptor, nowhere, 4096, 0);
  printf("bad buffer: %zd %d\n", bad, errno);
  printf("behind the end: %zd\n", pread(descriptor, &byte, 1, (off_t)1 << 40));
  printf("nothing: %zd\n", pread(descriptor, &byte, 0, 0));
  printf("next descriptor: %d\n", open("/dev/null", O_RDONLY));
  return 0;
}

// Closes every descriptor but that of the SSTable, in three ways, and continues to read.
static int do_close_all(const char* path) {
  become_background();
  int descriptor = open_table(path);
  uint64_t hash = scan(descriptor, 0, 4096, 500000, 1);
  int closed = 0;
  for (int number = descriptor + 1; number < 20000; ++number) closed += close(number) == 0;
  printf("closed one by one: %d\n", closed);
  hash = scan(descriptor, 500000, 4096, 500000, hash);
  printf("close_range: %d\n", close_range((unsigned)descriptor + 1, ~0u, 0));
  hash = scan(descriptor, 1000000, 4096, 500000, hash);
  closefrom(descriptor + 1);
  hash = scan(descriptor, 1500000, 4096, 500000, hash);
  // Numbers taken by force.
  for (int number = 500; number < 20000; number += 1) {
    if (dup2(0, number) != number) break;
  }
  hash = scan(descriptor, 2000000, 4096, SIZE_MAX, hash);
  printf("hash %016llx\n", (unsigned long long)hash);
  return 0;
}

// A stream closes a descriptor of open: the library sees the open, not the close.
static int do_unseen_close(const char* path, const char* other) {
  become_background();
  uint64_t hash = 1;
  for (int round = 0; round < 50; ++round) {
    int descriptor = open_table(path);
    hash = scan(descriptor, 0, 4096, 300000, hash);
    fclose(fdopen(descriptor, "r"));
    FILE* stream = fopen(other, "r");
    hash = scan(fileno(stream), 4096, 4096, 300000, hash);
    fclose(stream);
  }
  printf("hash %016llx\n", (unsigned long long)hash);
  return 0;
}

// The parent ends, the child is the database.
static int do_daemon(const char* path) {
  become_background();
  printf("parent %016llx\n", (unsigned long long)scan_all(path, 4096));
  fflush(stdout);
  int ends[2];
  if (pipe(ends) != 0) return 1;
  pid_t child = fork();
  if (child == 0) {
    setsid();
    char line[64];
    int length = snprintf(line, sizeof line, "child %016llx\n",
                          (unsigned long long)scan_all(path, 4096));
    if (write(ends[1], line, (size_t)length) != length) _exit(1);
    exit(0);
  }
  close(ends[1]);
  char line[64];
  ssize_t got = read(ends[0], line, sizeof line);
  if (got > 0) fwrite(line, 1, (size_t)got, stdout);
  int status;
  waitpid(child, &status, 0);
  printf("child ended with %d\n", status);
  return 0;
}

// Standard error is closed, and a file of the database gets its number.
static int do_stderr(const char* path, const char* log) {
  become_background();
  close(2);
  int descriptor = open(log, O_RDWR | O_CREAT, 0644);
  if (write(descriptor, "journal\n", 8) != 8) return 1;
  printf("descriptor %d, hash %016llx\n", descriptor, (unsigned long long)scan_all(path, 4096));
  return 0;
}

static int open_descriptors(void) {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

struct storm {
  const char* path;
  const char* other;
  uint64_t expected;
  int wrong;
};

static volatile int storm_over;

static void* storm_reader(void* argument) {
  struct storm* storm = argument;
  become_background();
  while (!storm_over) {
    if (scan_all(storm->path, 4096) != storm->expected) storm->wrong = 1;
  }
  return NULL;
}

static void* storm_starter(void* argument) {
  struct storm* storm = argument;
  become_background();
  for (int round = 0; round < 150; ++round) {
    // The child closes the SSTable, like programs that close all inherited descriptors.
    int descriptor = open_table(storm->other);
    uint64_t before = scan(descriptor, 0, 4096, 100000, 1);
    pid_t child = vfork();
    if (child == 0) {
      close(descriptor);
      execl("/bin/true", "true", (char*)NULL);
      _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    if (status != 0) storm->wrong = 1;
    // The descriptor is still open in the parent, and the library's state of it is the parent's.
    if (scan(descriptor, 0, 4096, 100000, 1) != before) storm->wrong = 1;
    close(descriptor);
    child = fork();
    if (child == 0) {
      become_background();
      _exit(scan_all(storm->path, 65536) == storm->expected ? 0 : 1);
    }
    waitpid(child, &status, 0);
    if (status != 0) storm->wrong = 1;
  }
  return NULL;
}

static int do_storm(const char* path, const char* other) {
  struct storm storm = {path, other, 0, 0};
  become_background();
  storm.expected = scan_all(path, 4096);
  pthread_t readers[2], starters[2];
  for (int number = 0; number < 2; ++number) {
    pthread_create(&readers[number], NULL, storm_reader, &storm);
    pthread_create(&starters[number], NULL, storm_starter, &storm);
  }
  for (int number = 0; number < 2; ++number) pthread_join(starters[number], NULL);
  storm_over = 1;
  for (int number = 0; number < 2; ++number) pthread_join(readers[number], NULL);
  printf("storm: %s\n", storm.wrong ? "wrong" : "right");
  // All SSTables are closed: private descriptors for them must be closed too.
  printf("%d descriptors are open\n", open_descriptors());
  return storm.wrong;
}

// A signal handler reads the SSTable while its thread reads it.
static int handler_descriptor;
static volatile uint64_t handler_reads, handler_wrong;

static void on_alarm(int number) {
  (void)number;
  char first[512];
  if (pread(handler_descriptor, first, sizeof first, 4096) != sizeof first) handler_wrong++;
  handler_reads++;
}

static int do_signals(const char* path) {
  become_background();
  handler_descriptor = open_table(path);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  ualarm(500, 500);
  uint64_t hash = 1;
  for (int round = 0; round < 20; ++round) hash = scan(handler_descriptor, 0, 4096, SIZE_MAX, hash);
  ualarm(0, 0);
  printf("hash %016llx, handler %s, wrong %llu\n", (unsigned long long)hash,
         handler_reads > 0 ? "ran" : "never ran", (unsigned long long)handler_wrong);
  return 0;
}

// Before any constructor, of this program or of a library.
static uint64_t early_sum;

static void early(int count, char** words, char** environment) {
  (void)environment;
  if (count < 3 || strcmp(words[1], "early") != 0) return;
  become_background();
  int descriptor = open(words[2], O_RDONLY);
  char bytes[4096];
  if (read(descriptor, bytes, sizeof bytes) == sizeof bytes) early_sum += (unsigned char)bytes[17];
  if (pread(descriptor, bytes, sizeof bytes, 8192) == sizeof bytes) {
    early_sum = early_sum * 256 + (unsigned char)bytes[19];
  }
  close(descriptor);
}

__attribute__((section(".preinit_array"), used)) static void (*const early_entry)(int, char**,
                                                                                 char**) = early;

static int do_early(const char* path) {
  printf("early %llu, then %016llx\n", (unsigned long long)early_sum,
         (unsigned long long)scan_all(path, 4096));
  return 0;
}

int main(int count, char** words) {
  if (count < 4) return 2;
  const char* what = words[1];
  if (strcmp(what, "scan") == 0) return do_scan(words[2]);
  if (strcmp(what, "close-all") == 0) return do_close_all(words[2]);
  if (strcmp(what, "unseen-close") == 0) return do_unseen_close(words[2], words[3]);
  if (strcmp(what, "daemon") == 0) return do_daemon(words[2]);
  if (strcmp(what, "stderr") == 0) return do_stderr(words[2], words[3]);
  if (strcmp(what, "storm") == 0) return do_storm(words[2], words[3]);
  if (strcmp(what, "signals") == 0) return do_signals(words[2]);
  if (strcmp(what, "early") == 0) return do_early(words[2]);
  return 2;
}
