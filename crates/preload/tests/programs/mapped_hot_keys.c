/* LevelDB with known hot keys, which it reads by mappings.
 *
 *   mapped_hot_keys DIRECTORY KEYS STRIDE SECONDS
 *     writes all keys, and the odd ones once more; reads each key whose number STRIDE divides once; rests, so that
 *     the pages are seen, and watches the numbers of descriptors meanwhile; compacts everything.
 */
#include <fcntl.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_BYTES = 1000, LEVELDB_IS_QUIET_AFTER_SECONDS = 2 };

static void check(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static size_t key_of(long number, char *key) {
    return (size_t)sprintf(key, "key%013ld", number);
}

static leveldb_t *open_database(const char *directory) {
    char *error = NULL;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_compression(options, leveldb_no_compression);
    leveldb_options_set_filter_policy(options, leveldb_filterpolicy_create_bloom(10));
    leveldb_t *database = leveldb_open(options, directory, &error);
    check(error);
    return database;
}

static void put(leveldb_t *database, long number) {
    static unsigned long random = 1;
    char key[32], value[VALUE_BYTES], *error = NULL;
    for (size_t at = 0; at < sizeof value; at++) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        value[at] = (char)(random >> 56);
    }
    leveldb_put(database, leveldb_writeoptions_create(), key, key_of(number, key), value, sizeof value, &error);
    check(error);
}

/* Nobody else opens anything. So each new descriptor has the same number. */
static void rest(long seconds) {
    sleep(LEVELDB_IS_QUIET_AFTER_SECONDS);
    time_t end = time(NULL) + seconds - LEVELDB_IS_QUIET_AFTER_SECONDS;
    int expected = -1;
    while (time(NULL) < end) {
        int number = open("/dev/null", O_RDONLY);
        if (expected < 0) {
            expected = number;
        }
        if (number != expected) {
            fprintf(stderr, "open gave %d, and then %d\n", expected, number);
            exit(4);
        }
        close(number);
    }
}

int main(int count, char **arguments) {
    if (count != 5) {
        return 2;
    }
    long keys = atol(arguments[2]), stride = atol(arguments[3]);
    leveldb_t *database = open_database(arguments[1]);
    for (long turn = 0; turn < keys; turn++) {
        put(database, turn * 7919 % keys);
    }
    leveldb_compact_range(database, NULL, 0, NULL, 0);
    for (long number = 1; number < keys; number += 2) {
        put(database, number);
    }
    leveldb_close(database);
    char command[4200];
    /* Nothing of the database is in the page cache. */
    snprintf(command, sizeof command, "sync; for f in '%s'/*.ldb; do dd if=\"$f\" iflag=nocache count=0 2>/dev/null; done",
             arguments[1]);
    if (system(command) != 0) {
        return 3;
    }
    database = open_database(arguments[1]);
    leveldb_readoptions_t *read = leveldb_readoptions_create();
    for (long turn = 0; turn < keys; turn++) {
        long number = turn * 7919 % keys;
        if (number % stride == 0) {
            char key[32], *error = NULL;
            size_t length;
            char *value = leveldb_get(database, read, key, key_of(number, key), &length, &error);
            check(error);
            if (value == NULL) {
                fprintf(stderr, "key %ld is missing\n", number);
                return 1;
            }
            free(value);
        }
    }
    rest(atol(arguments[4]));
    leveldb_compact_range(database, NULL, 0, NULL, 0);
    leveldb_close(database);
    return 0;
}
