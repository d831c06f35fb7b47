/* An SSTable is read by a compaction, loses its descriptors in some way, and is deleted: deleted WAY DIRECTORY
 *
 * Prints how many descriptors of deleted files are left. Prints to standard error how many descriptors of the SSTable
 * there were while it was read. Ends with 3 where the kernel lacks a call.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc 2.34. */
void closefrom(int first);
int close_range(unsigned first, unsigned last, int flags);

static int table = -1;

static void fail(const char *what) {
    perror(what);
    exit(errno == ENOSYS ? 3 : 1);
}

static void *read_as_compaction(void *unused) {
    (void)unused;
    char bytes[16384];
    prctl(PR_SET_NAME, "rocksdb:low0");
    for (int number = 0; number < 20; number++) {
        if (pread(table, bytes, sizeof bytes, number * sizeof bytes) != sizeof bytes) {
            fail("pread");
        }
    }
    return NULL;
}

/* Descriptors of a process whose target ends in `end`. */
static int descriptors(pid_t process, const char *end) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        fail(path);
    }
    int found = 0;
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char target[4096];
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        size_t wanted = strlen(end);
        if (length >= (ssize_t)wanted && memcmp(target + length - wanted, end, wanted) == 0) {
            found++;
        }
    }
    closedir(directory);
    return found;
}

static void make(const char *name) {
    int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || close(file) < 0) {
        fail(name);
    }
}

static void raw_close(int descriptor) {
    syscall(SYS_close, descriptor);
}

int main(int count, char **arguments) {
    if (count != 3 || chdir(arguments[2]) < 0) {
        return 2;
    }
    const char *way = arguments[1], *name = "000001.sst";
    /* Private descriptors begin at 224 then. */
    struct rlimit limit = {256, 256};
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        fail("setrlimit");
    }
    make("other");
    table = open(name, O_RDONLY | O_CLOEXEC);
    if (table < 0) {
        fail(name);
    }
    FILE *stream = strstr(way, "stream") != NULL ? fdopen(table, "r") : NULL;
    if (strcmp(way, "overwritten") == 0) {
        int second = fcntl(table, F_DUPFD_CLOEXEC, 224);
        if (second < 0) {
            fail("F_DUPFD");
        }
        raw_close(second);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, read_as_compaction, NULL);
    pthread_join(thread, NULL);
    fprintf(stderr, "%d\n", descriptors(getpid(), name));
    pid_t child = 0;
    int ready[2], go[2];
    char byte = 0;
    if (strcmp(way, "child") == 0) {
        if (pipe(ready) < 0 || pipe(go) < 0 || (child = fork()) < 0) {
            fail("fork");
        }
        if (child == 0) {
            close(table);
            close(go[1]);
            if (write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 0) {
                _exit(0);
            }
            _exit(1);
        }
        if (read(ready[0], &byte, 1) != 1) {
            fail("read");
        }
    }
    int is_deleted_first = strstr(way, "deleted-first") != NULL;
    if (is_deleted_first && unlink(name) < 0) {
        fail("unlink");
    }
    if (stream != NULL && strstr(way, "reopened") != NULL) {
        stream = freopen("other", "r", stream);
    } else if (stream != NULL) {
        fclose(stream);
    } else if (strstr(way, "raw") != NULL) {
        raw_close(table);
    } else if (strcmp(way, "range") == 0) {
        if (close_range(table, table, 0) < 0) {
            fail("close_range");
        }
    } else if (strcmp(way, "from") == 0) {
        closefrom(table);
    } else if (strcmp(way, "replaced") == 0) {
        dup2(STDERR_FILENO, table);
    } else {
        close(table);
    }
    if (!is_deleted_first && (strstr(way, "removed") != NULL ? remove(name) : unlink(name)) < 0) {
        fail("unlink");
    }
    if (strcmp(way, "raw-deleted-first") == 0) {
        /* All descriptors are looked at once a second at most. */
        usleep(1100000);
        if (unlinkat(AT_FDCWD, "other", 0) < 0) {
            fail("unlinkat");
        }
    }
    printf("%d\n", descriptors(getpid(), "000001.sst (deleted)"));
    if (child > 0) {
        printf("%d\n", descriptors(child, "000001.sst (deleted)"));
        close(go[1]);
        int status;
        waitpid(child, &status, 0);
    }
    return 0;
}
