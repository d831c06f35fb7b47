/* What a process shows to its host: host WHAT TABLE
 *
 * Reads the SSTable like a compaction. Then
 *   read                        returns from main
 *   secure                      prints whether the loader took the process for a privileged one
 *   exit, _exit, _Exit, quick_exit, thread, killed
 *                               ends in this way
 *   pause                       makes children of both kinds, which end, prints a line and sleeps
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

static void make_children(void) {
    pid_t forked = fork();
    if (forked == 0) {
        exit(0);
    }
    waitpid(forked, NULL, 0);
    forked = fork();
    if (forked == 0) {
        _exit(0);
    }
    waitpid(forked, NULL, 0);
    forked = vfork();
    if (forked == 0) {
        _exit(0);
    }
    waitpid(forked, NULL, 0);
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    int file = read_table(words[2]);
    if (strcmp(words[1], "secure") == 0) {
        printf("secure %lu\n", getauxval(AT_SECURE));
    }
    const char *way = words[1];
    if (strcmp(way, "exit") == 0) {
        exit(0);
    }
    if (strcmp(way, "_exit") == 0) {
        _exit(0);
    }
    if (strcmp(way, "_Exit") == 0) {
        _Exit(0);
    }
    if (strcmp(way, "quick_exit") == 0) {
        quick_exit(0);
    }
    if (strcmp(way, "thread") == 0) {
        pthread_exit(NULL);
    }
    if (strcmp(way, "killed") == 0) {
        raise(SIGKILL);
    }
    if (strcmp(way, "pause") == 0) {
        make_children();
        puts("pause");
        fflush(stdout);
        for (;;) {
            pause();
        }
    }
    close(file);
    return 0;
}
