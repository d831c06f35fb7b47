/* RocksDB with known hot keys, through its C API.
 *
 *   hot_keys load DIRECTORY KEYS RUNS VALUE_BYTES OVERWRITE OPTIONS
 *     writes RUNS sorted runs: key i in run i % RUNS, or every key in every run.
 *   hot_keys age ...
 *     the same, with AGE_SECONDS after each run
 *   hot_keys compact DIRECTORY KEYS STRIDE RUN_LENGTH TIMES OPTIONS
 *     reads the hot keys (RUN_LENGTH of every STRIDE) TIMES times, compacts everything, ends.
 *   hot_keys scan ...
 *     the same, after a scan of all keys
 */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGE_SECONDS = 8 };

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static size_t key_of(long number, char *key) {
    return (size_t)sprintf(key, "key%013ld", number);
}

static rocksdb_t *open_database(const char *directory, const char *text) {
    char *error = NULL;
    rocksdb_options_t *defaults = rocksdb_options_create();
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_get_options_from_string(defaults, text, options, &error);
    check(error);
    rocksdb_t *database = rocksdb_open(options, directory, &error);
    check(error);
    return database;
}

int main(int count, char **arguments) {
    if (count != 8) {
        return 2;
    }
    char *error = NULL;
    char key[32];
    long keys = atol(arguments[3]);
    rocksdb_t *database = open_database(arguments[2], arguments[7]);
    int ages = strcmp(arguments[1], "age") == 0;
    if (ages || strcmp(arguments[1], "load") == 0) {
        long runs = atol(arguments[4]);
        size_t value_bytes = (size_t)atol(arguments[5]);
        int overwrite = atoi(arguments[6]);
        char *value = malloc(value_bytes);
        rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
        rocksdb_writeoptions_disable_WAL(write, 1);
        rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
        unsigned long random = 1;
        for (long run = 0; run < runs; run++) {
            for (long number = 0; number < keys; number++) {
                if (!overwrite && number % runs != run) {
                    continue;
                }
                for (size_t at = 0; at < value_bytes; at++) {
                    random = random * 6364136223846793005UL + 1442695040888963407UL;
                    value[at] = (char)(random >> 56);
                }
                rocksdb_put(database, write, key, key_of(number, key), value, value_bytes, &error);
                check(error);
            }
            rocksdb_flush(database, flush, &error);
            check(error);
            if (ages) {
                /* RocksDB records once a second what was written. */
                sleep(AGE_SECONDS);
            }
        }
    } else {
        long stride = atol(arguments[4]), run_length = atol(arguments[5]);
        rocksdb_readoptions_t *read = rocksdb_readoptions_create();
        if (strcmp(arguments[1], "scan") == 0) {
            rocksdb_iterator_t *iterator = rocksdb_create_iterator(database, read);
            long found = 0;
            for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator); found++) {
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_get_error(iterator, &error);
            check(error);
            rocksdb_iter_destroy(iterator);
            if (found != keys) {
                fprintf(stderr, "%ld keys, not %ld\n", found, keys);
                return 1;
            }
        }
        for (long times = atol(arguments[6]); times > 0; times--) {
            for (long turn = 0; turn < keys; turn++) {
                // Not in key order, which would be a scan.
                long number = turn * 7919 % keys;
                if (number % stride < run_length) {
                    size_t length;
                    char *value = rocksdb_get(database, read, key, key_of(number, key), &length, &error);
                    check(error);
                    if (value == NULL) {
                        fprintf(stderr, "key %ld is missing\n", number);
                        return 1;
                    }
                    free(value);
                }
            }
        }
        rocksdb_compact_range(database, NULL, 0, NULL, 0);
    }
    rocksdb_close(database);
    return 0;
}
