/* RocksDB with known hot keys, through its C API.
 *
 *   hot_keys load DIRECTORY KEYS RUNS VALUE_BYTES OVERWRITE OPTIONS [ORDER]
 *     writes RUNS sorted runs: key i in run i % RUNS, or every key in every run.
 *   hot_keys age ...
 *     the same, with AGE_SECONDS after each run
 *   hot_keys ingest ...
 *     the same by SSTables that are written outside of the database, and ingested
 *   hot_keys compact DIRECTORY KEYS STRIDE RUN_LENGTH TIMES OPTIONS [ORDER [PASSES]]
 *     reads the hot keys (RUN_LENGTH of every STRIDE) TIMES times, compacts everything, ends.
 *     It compacts PASSES times, once by default. Each pass rewrites what the one before has written.
 *   hot_keys stay ...
 *     the same, and then waits for its end with the database open
 *   hot_keys scan ...
 *     the same, after a scan of all keys
 *   hot_keys cached ...
 *     reads the hot keys as background work does, so that they are in the block cache only. Then as `compact`.
 *   hot_keys rounds ...
 *     PASSES times: reads a hot key TIMES times, and compacts everything. All hot keys have their turn before one is
 *     read again, also in the next pass.
 *
 * DIRECTORY may be several, with a colon between: then each of them has a thread of this process.
 *
 * ORDER is "engine", or that of a comparator of this program, called "test.ORDER":
 *   bytewise, reverse, backwards   from the last byte to the first
 *   timestamps                     bytewise; run i writes timestamp i + 1
 */
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGE_SECONDS = 8, DATABASES_MAX = 4 };
/* `BottommostLevelCompaction::kForce` of options.h: the last level is rewritten, too. */
enum { FORCE = 2 };

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static size_t key_of(long number, char *key) {
    return (size_t)sprintf(key, "key%013ld", number);
}

static int bytewise(const char *one, size_t length, const char *other, size_t other_length) {
    int compared = memcmp(one, other, length < other_length ? length : other_length);
    return compared != 0 ? compared : (length > other_length) - (length < other_length);
}

static int compare(void *order, const char *one, size_t length, const char *other, size_t other_length) {
    if (strcmp(order, "backwards") == 0) {
        while (length > 0 && other_length > 0) {
            unsigned char last = (unsigned char)one[--length];
            unsigned char other_last = (unsigned char)other[--other_length];
            if (last != other_last) {
                return last < other_last ? -1 : 1;
            }
        }
        return (length > 0) - (other_length > 0);
    }
    int compared = bytewise(one, length, other, other_length);
    return strcmp(order, "reverse") == 0 ? -compared : compared;
}

/* Timestamps have 8 bytes, the lowest first. */
static int compare_times(void *order, const char *one, size_t length, const char *other, size_t other_length) {
    (void)order, (void)other_length;
    while (length > 0) {
        length--;
        if (one[length] != other[length]) {
            return (unsigned char)one[length] < (unsigned char)other[length] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_keys(void *order, const char *one, size_t length, unsigned char timed, const char *other,
                        size_t other_length, unsigned char other_timed) {
    (void)order;
    return bytewise(one, length - (timed ? 8 : 0), other, other_length - (other_timed ? 8 : 0));
}

static int compare_timed(void *order, const char *one, size_t length, const char *other, size_t other_length) {
    int compared = compare_keys(order, one, length, 1, other, other_length, 1);
    return compared != 0 ? compared
                         : -compare_times(order, one + length - 8, 8, other + other_length - 8, 8);
}

static const char *name(void *order) {
    static char text[32];
    snprintf(text, sizeof text, "test.%s", (char *)order);
    return text;
}

static void keep(void *order) {
    (void)order;
}

static rocksdb_options_t *options_of(const char *text, char *order) {
    char *error = NULL;
    rocksdb_options_t *defaults = rocksdb_options_create();
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_get_options_from_string(defaults, text, options, &error);
    check(error);
    if (strcmp(order, "timestamps") == 0) {
        rocksdb_options_set_comparator(options,
                                       rocksdb_comparator_with_ts_create(order, keep, compare_timed, compare_times,
                                                                         compare_keys, name, 8));
    } else if (strcmp(order, "engine") != 0) {
        rocksdb_options_set_comparator(options, rocksdb_comparator_create(order, keep, compare, name));
    }
    return options;
}

/* What to do with one database. */
struct task {
    char *directory;
    char **arguments;
    char *order;
    long passes;
};

static int is(const struct task *task, const char *verb) {
    return strcmp(task->arguments[1], verb) == 0;
}

static rocksdb_t *open_database(const struct task *task, rocksdb_options_t *options) {
    char *error = NULL;
    rocksdb_t *database = rocksdb_open(options, task->directory, &error);
    check(error);
    return database;
}

static void load(const struct task *task) {
    char *error = NULL;
    char key[32];
    rocksdb_options_t *options = options_of(task->arguments[7], task->order);
    rocksdb_t *database = open_database(task, options);
    int timed = strcmp(task->order, "timestamps") == 0;
    long keys = atol(task->arguments[3]), runs = atol(task->arguments[4]);
    size_t value_bytes = (size_t)atol(task->arguments[5]);
    int overwrite = atoi(task->arguments[6]);
    char *value = malloc(value_bytes);
    rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(write, 1);
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    unsigned long random = 1;
    for (long run = 0; run < runs; run++) {
        rocksdb_sstfilewriter_t *writer = NULL;
        char file[4096];
        if (is(task, "ingest")) {
            writer = rocksdb_sstfilewriter_create(rocksdb_envoptions_create(), options);
            snprintf(file, sizeof file, "%s/external-%ld", task->directory, run);
            rocksdb_sstfilewriter_open(writer, file, &error);
            check(error);
        }
        for (long number = 0; number < keys; number++) {
            if (!overwrite && number % runs != run) {
                continue;
            }
            for (size_t at = 0; at < value_bytes; at++) {
                random = random * 6364136223846793005UL + 1442695040888963407UL;
                value[at] = (char)(random >> 56);
            }
            size_t length = key_of(number, key);
            if (writer != NULL) {
                rocksdb_sstfilewriter_put(writer, key, length, value, value_bytes, &error);
            } else if (timed) {
                char time[8] = {(char)(run + 1)};
                rocksdb_put_with_ts(database, write, key, length, time, sizeof time, value, value_bytes, &error);
            } else {
                rocksdb_put(database, write, key, length, value, value_bytes, &error);
            }
            check(error);
        }
        if (writer != NULL) {
            const char *files[] = {file};
            rocksdb_sstfilewriter_finish(writer, &error);
            check(error);
            rocksdb_ingest_external_file(database, files, 1, rocksdb_ingestexternalfileoptions_create(), &error);
            check(error);
            unlink(file);
        } else {
            rocksdb_flush(database, flush, &error);
            check(error);
        }
        if (is(task, "age")) {
            /* RocksDB records once a second what was written. */
            sleep(AGE_SECONDS);
        }
    }
    rocksdb_close(database);
}

static void scan(const struct task *task, rocksdb_t *database, rocksdb_readoptions_t *read) {
    char *error = NULL;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(database, read);
    long found = 0, keys = atol(task->arguments[3]);
    for (rocksdb_iter_seek_to_first(iterator); rocksdb_iter_valid(iterator); found++) {
        rocksdb_iter_next(iterator);
    }
    rocksdb_iter_get_error(iterator, &error);
    check(error);
    rocksdb_iter_destroy(iterator);
    if (found != keys) {
        fprintf(stderr, "%ld keys, not %ld\n", found, keys);
        exit(1);
    }
}

static void get(rocksdb_t *database, rocksdb_readoptions_t *read, long number) {
    char *error = NULL;
    char key[32];
    size_t length;
    char *value = rocksdb_get(database, read, key, key_of(number, key), &length, &error);
    check(error);
    if (value == NULL) {
        fprintf(stderr, "key %ld is missing\n", number);
        exit(1);
    }
    free(value);
}

struct warming {
    const struct task *task;
    rocksdb_t *database;
    rocksdb_readoptions_t *read;
};

/* Fills the block cache. The library takes this thread for one of RocksDB's own, and counts no read of it. */
static void *warm_block_cache(void *argument) {
    const struct warming *warming = argument;
    const struct task *task = warming->task;
    pthread_setname_np(pthread_self(), "rocksdb:low9");
    long stride = atol(task->arguments[4]), run_length = atol(task->arguments[5]);
    // From the last one to the first: otherwise it would look as if a compaction skipped what lies between.
    for (long number = atol(task->arguments[3]) - 1; number >= 0; number--) {
        if (number % stride < run_length) {
            get(warming->database, warming->read, number);
        }
    }
    return NULL;
}

static void *use(void *argument) {
    const struct task *task = argument;
    rocksdb_t *database = open_database(task, options_of(task->arguments[7], task->order));
    long keys = atol(task->arguments[3]);
    long stride = atol(task->arguments[4]), run_length = atol(task->arguments[5]);
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    char now[8] = {127};
    if (strcmp(task->order, "timestamps") == 0) {
        rocksdb_readoptions_set_timestamp(read, now, sizeof now);
    }
    if (is(task, "scan")) {
        scan(task, database, read);
    }
    if (is(task, "cached")) {
        struct warming warming = {task, database, read};
        pthread_t thread;
        if (pthread_create(&thread, NULL, warm_block_cache, &warming) != 0) {
            exit(3);
        }
        pthread_join(thread, NULL);
    }
    long times = atol(task->arguments[6]);
    for (long time = 0; time < times && !is(task, "rounds"); time++) {
        for (long turn = 0; turn < keys; turn++) {
            // Not in key order, which would be a scan.
            long number = turn * 7919 % keys;
            if (number % stride < run_length) {
                get(database, read, number);
            }
        }
    }
    rocksdb_compactoptions_t *compaction = rocksdb_compactoptions_create();
    rocksdb_compactoptions_set_bottommost_level_compaction(compaction, FORCE);
    long hot_keys = keys / stride * run_length, turn = 0;
    for (long pass = 0; pass < task->passes; pass++) {
        for (long time = 0; time < times && is(task, "rounds"); time++) {
            long number = turn++ * 7919 % hot_keys;
            get(database, read, number / run_length * stride + number % run_length);
        }
        rocksdb_compact_range_opt(database, compaction, NULL, 0, NULL, 0);
    }
    while (is(task, "stay")) {
        pause();
    }
    rocksdb_close(database);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 8 || count > 10) {
        return 2;
    }
    struct task tasks[DATABASES_MAX];
    pthread_t threads[DATABASES_MAX];
    int databases = 0;
    for (char *directory = strtok(arguments[2], ":"); directory != NULL; directory = strtok(NULL, ":")) {
        if (databases == DATABASES_MAX) {
            return 2;
        }
        tasks[databases++] = (struct task){
            .directory = directory,
            .arguments = arguments,
            .order = count > 8 ? arguments[8] : "engine",
            .passes = count > 9 ? atol(arguments[9]) : 1,
        };
    }
    int loads = is(tasks, "load") || is(tasks, "age") || is(tasks, "ingest");
    for (int number = 0; number < databases; number++) {
        if (loads) {
            load(&tasks[number]);
        } else if (pthread_create(&threads[number], NULL, use, &tasks[number]) != 0) {
            return 3;
        }
    }
    for (int number = 0; number < databases && !loads; number++) {
        pthread_join(threads[number], NULL);
    }
    return 0;
}
