/* What a process shows to its host: host WHAT TABLE
 *
 * Reads the SSTable like a compaction, and prints whether the loader took the process for a privileged one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    abort();
}

static int read_table(const char *path) {
    static char bytes[64 << 10];
    prctl(PR_SET_NAME, "rocksdb:low");
    int file = open(path, O_RDONLY);
    if (file < 0) {
        fail("open");
    }
    long offset = 0;
    for (ssize_t count; (count = pread(file, bytes, sizeof bytes, offset)) > 0;) {
        offset += count;
    }
    printf("%ld bytes\n", offset);
    return file;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    int file = read_table(words[2]);
    if (strcmp(words[1], "secure") == 0) {
        printf("secure %lu\n", getauxval(AT_SECURE));
    }
    close(file);
    return 0;
}
