/* Ends while a thread makes SSTables in sequence: ends HOW DIRECTORY TABLES
 *
 *   exit, _exit, quick_exit
 *
 * DIRECTORY/told holds two 32-bit numbers: the number of the last SSTable, and the bytes for which `write`
 * has returned. So many bytes must be in its file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Writes like Cassandra. */
enum { LENGTH = 4118, WRITES = 3 };

static const char *directory;
static _Atomic uint64_t *told;

static void fail(const char *what) {
    perror(what);
    abort();
}

static void *write_tables(void *nothing) {
    static char bytes[LENGTH];
    prctl(PR_SET_NAME, "rocksdb:low");
    for (uint32_t number = 1;; ++number) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%06u.sst", directory, number);
        int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
        if (file < 0) {
            fail("open");
        }
        for (uint32_t end = LENGTH; end <= WRITES * LENGTH; end += LENGTH) {
            if (write(file, bytes, LENGTH) != LENGTH) {
                fail("write");
            }
            *told = (uint64_t)number << 32 | end;
        }
        if (close(file) != 0) {
            fail("close");
        }
    }
    return nothing;
}

int main(int count, char **words) {
    if (count != 4) {
        return 2;
    }
    directory = words[2];
    char path[4096];
    snprintf(path, sizeof path, "%s/told", directory);
    int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 4096) != 0) {
        fail("told");
    }
    told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t thread;
    if (told == MAP_FAILED || pthread_create(&thread, NULL, write_tables, NULL) != 0) {
        fail("begin");
    }
    while (*told >> 32 < strtoul(words[3], NULL, 10)) {
    }
    if (strcmp(words[1], "exit") == 0) {
        exit(0);
    }
    if (strcmp(words[1], "quick_exit") == 0) {
        quick_exit(0);
    }
    _exit(0);
}
