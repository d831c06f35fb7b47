/* RocksDB reads keys by chance, in turns. The SSTables are in the page cache, and the engine's own cache is off: so
 * each read is a `pread` of one block.
 *
 *   turns DIRECTORY KEYS
 *
 * For each line with a number of reads it prints the time that these took, and p50 and p99 of one, in ns.
 * The keys are those that `hot_keys load` writes. It stays on the last processor.
 */
#include <rocksdb/c.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { READS_MAX = 100000 };

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int ascending(const void *one, const void *other) {
    long first = *(const long *)one, second = *(const long *)other;
    return (first > second) - (first < second);
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    cpu_set_t last;
    CPU_ZERO(&last);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
    sched_setaffinity(0, sizeof last, &last);

    char *error = NULL, key[32];
    rocksdb_options_t *defaults = rocksdb_options_create(), *options = rocksdb_options_create();
    rocksdb_get_options_from_string(defaults, "block_based_table_factory={no_block_cache=true;block_size=4096}", options,
                                    &error);
    check(error);
    rocksdb_t *database = rocksdb_open_for_read_only(options, arguments[1], 0, &error);
    check(error);
    unsigned long keys = strtoul(arguments[2], NULL, 10), random = 1;
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    long reads;
    static long taken_ns[READS_MAX];
    while (scanf("%ld", &reads) == 1 && reads > 0 && reads <= READS_MAX) {
        long start = now_ns(), before = start;
        for (long number = 0; number < reads; number++) {
            random = random * 6364136223846793005UL + 1442695040888963407UL;
            size_t length, key_length = (size_t)sprintf(key, "key%013lu", (random >> 33) % keys);
            char *value = rocksdb_get(database, read, key, key_length, &length, &error);
            check(error);
            free(value);
            long after = now_ns();
            taken_ns[number] = after - before;
            before = after;
        }
        long all_ns = before - start;
        qsort(taken_ns, (size_t)reads, sizeof *taken_ns, ascending);
        printf("%ld %ld %ld\n", all_ns, taken_ns[reads / 2], taken_ns[reads * 99 / 100]);
        fflush(stdout);
    }
    return 0;
}
