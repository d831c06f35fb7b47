/* Writes a database of LevelDB: leveldb <directory> <compression> <block size> <filter bits> <keys>
 * <versions>. Its user keys go to standard output in hexadecimal, in the engine's order. */

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

int main(int count, char **arguments) {
    if (count != 7) {
        return 2;
    }
    int keys = atoi(arguments[5]), versions = atoi(arguments[6]);
    char *error = NULL;
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_compression(options, atoi(arguments[2]));
    leveldb_options_set_block_size(options, atoi(arguments[3]));
    if (atoi(arguments[4]) > 0) {
        leveldb_options_set_filter_policy(
            options, leveldb_filterpolicy_create_bloom(atoi(arguments[4])));
    }
    leveldb_t *db = leveldb_open(options, arguments[1], &error);
    must(error);
    leveldb_writeoptions_t *write = leveldb_writeoptions_create();
    srand(1);
    for (int i = 0; i < keys; i++) {
        char key[32], value[64];
        int length = snprintf(key, sizeof key, "%s%08d", i % 3 ? "a-common-prefix-" : "", rand() % 100000);
        if (i % 5 == 0) {
            for (int at = 0; at < length; at++) {
                key[at] = i % 10 == 0 ? (char)0xff : (char)rand();
            }
            length = 1 + rand() % length;
        }
        for (int version = 0; version < (i % 50 == 0 ? versions : 1); version++) {
            for (size_t at = 0; at < sizeof value; at++) {
                value[at] = (char)rand();
            }
            leveldb_put(db, write, key, length, value, rand() % sizeof value, &error);
            must(error);
            if (versions > 1 && i % 50 == 0) {
                /* Never released: every version must be kept. */
                leveldb_create_snapshot(db);
            }
        }
    }
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    leveldb_readoptions_t *read = leveldb_readoptions_create();
    leveldb_iterator_t *iterator = leveldb_create_iterator(db, read);
    for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator);
         leveldb_iter_next(iterator)) {
        size_t length;
        const char *key = leveldb_iter_key(iterator, &length);
        for (size_t at = 0; at < length; at++) {
            printf("%02x", (unsigned char)key[at]);
        }
        printf("\n");
    }
    leveldb_iter_destroy(iterator);
    /* Snapshots are held: closing would find fault with them. */
    fflush(stdout);
    _Exit(0);
}
