/* writer OPTIONS: writes SSTables in its directory until it is killed, and records what it promises of each on the page
 * ../progress (crates/testkit/src/crash). */
#include <coldstream.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 3
#define TABLES 6
#define TABLE_BYTES_MAX (4u << 20)

struct promise { uint64_t number, intended, durable, shortest; };

static struct promise (*promises)[TABLES];
static coldstream *engine;

static void set(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

static void checked(const char *what, int64_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
  exit(1);
}

/* SplitMix64, as in crates/testkit/src/random.rs. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static uint64_t below(uint64_t *state, uint64_t limit) { return mix(*state += 0x9E3779B97F4A7C15u) % limit; }

/* Content that names its own offset, as in crates/testkit/src/files.rs. */
static void fill(uint64_t identity, uint64_t offset, unsigned char *bytes, size_t count) {
  for (size_t done = 0; done < count; done++, offset++) {
    uint64_t word = mix((identity * 0xA0761D6478BD642Fu) ^ (offset & ~7ull));
    bytes[done] = (unsigned char)(word >> (8 * (offset & 7)));
  }
}

struct table {
  coldstream_writer *writer;
  struct promise *promise;
  uint64_t identity, end;
};

static void append(struct table *table, unsigned char *bytes, size_t count) {
  fill(table->identity, table->end, bytes, count);
  set(&table->promise->intended, table->end + count > table->promise->intended ? table->end + count : table->promise->intended);
  int64_t taken = coldstream_writer_append(table->writer, bytes, count);
  checked("append", taken == (int64_t)count ? 0 : taken < 0 ? taken : -5);
  table->end += count;
}

static void make_durable(struct table *table) {
  checked("sync", coldstream_writer_sync(table->writer, 1));
  set(&table->promise->durable, table->end);
}

static void cut(struct table *table, uint64_t size) {
  if (size < table->promise->durable) set(&table->promise->durable, size);
  if (size < table->promise->shortest) set(&table->promise->shortest, size);
  checked("truncate", coldstream_writer_truncate(table->writer, size));
  table->end = size;
}

/* Small appends, and a sync now and then. */
static void as_cassandra(struct table *table, unsigned char *bytes, uint64_t *random) {
  uint64_t wanted = below(random, TABLE_BYTES_MAX);
  while (table->end < wanted) {
    append(table, bytes, 4118);
    append(table, bytes, 4);
    if (below(random, 150) == 0) checked("flush", coldstream_writer_flush(table->writer));
    if (below(random, 60) == 0) make_durable(table);
    if (below(random, 4000) == 0) cut(table, below(random, table->end));
  }
}

/* Preallocated, in large appends, cut to its length. */
static void as_rocksdb(struct table *table, unsigned char *bytes, uint64_t *random) {
  uint64_t wanted = below(random, TABLE_BYTES_MAX);
  coldstream_writer_allocate(table->writer, 0, TABLE_BYTES_MAX);
  while (table->end < wanted) {
    uint64_t rest = wanted - table->end, count = (1 << 20) - below(random, 4096);
    append(table, bytes, count < rest ? count : rest);
  }
  checked("truncate", coldstream_writer_truncate(table->writer, table->end));
  checked("range sync", coldstream_writer_range_sync(table->writer, 0, table->end, 0));
}

static void *write_tables(void *argument) {
  static const char *names[THREADS] = {"nb-%llu-big-Data.db", "da-%llu-bti-Data.db", "%06llu.sst"};
  int thread = (int)(intptr_t)argument;
  uint64_t random = (uint64_t)getpid() * THREADS + (uint64_t)thread;
  unsigned char *bytes = malloc(1 << 20);
  char path[64];
  for (unsigned long long number = 1;; number++) {
    struct promise *promise = &promises[thread][number % TABLES];
    set(&promise->number, 0);
    if (number > TABLES) {
      snprintf(path, sizeof path, names[thread], number - TABLES);
      unlink(path);
    }
    set(&promise->intended, 0);
    set(&promise->durable, 0);
    set(&promise->shortest, UINT64_MAX);
    set(&promise->number, number);
    struct table table = {NULL, promise, (uint64_t)thread << 32 | number, 0};
    snprintf(path, sizeof path, names[thread], number);
    uint32_t format = thread < 2 ? COLDSTREAM_FORMAT_CASSANDRA : COLDSTREAM_FORMAT_ROCKSDB;
    checked(path, coldstream_writer_open(engine, path, format, COLDSTREAM_COMPACTION, 0, 0644, &table.writer));
    if (thread < 2)
      as_cassandra(&table, bytes, &random);
    else
      as_rocksdb(&table, bytes, &random);
    make_durable(&table);
    checked("close", coldstream_writer_close(table.writer));
  }
  return NULL;
}

int main(int argc, char **argv) {
  char why[256];
  int page = open("../progress", O_RDWR);
  promises = mmap(NULL, sizeof(struct promise) * THREADS * TABLES, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  if (argc != 2 || promises == MAP_FAILED) return 2;
  if (coldstream_create(argv[1], &engine, why, sizeof why) != 0) {
    fprintf(stderr, "%s\n", why);
    return 2;
  }
  pthread_t threads[THREADS];
  for (int thread = 0; thread < THREADS; thread++)
    pthread_create(&threads[thread], NULL, write_tables, (void *)(intptr_t)thread);
  for (int thread = 0; thread < THREADS; thread++) pthread_join(threads[thread], NULL);
  return 0;
}
