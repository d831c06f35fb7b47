/* Opens an SSTable while it is being written: early WAY DIRECTORY
 *
 *   opened     like a compaction of Cassandra 5.0: opens the data for reading
 *   mapped     like a compaction of Cassandra 4.1: maps the index
 *   untracked  the library has no memory to track the descriptor by which the SSTable is read
 *
 * Prints what it sees. Sizes are those of the kernel: they come by a system call that no library sees.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two staging buffers are not full yet. */
enum { STAGED_BYTES = 100000, NUMBERS = 2048, FULL_NUMBERS = 1024 };

static char bytes[STAGED_BYTES];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_new(const char *name) {
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        fail(name);
    }
    return file;
}

static int open_again(const char *name) {
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail(name);
    }
    return file;
}

static void append(int file) {
    if (write(file, bytes, sizeof bytes) != sizeof bytes) {
        fail("write");
    }
}

static void say_kernel_size(const char *when, int file) {
    /* Not lseek of this descriptor: its position is the application's. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int other = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    printf("%s: %ld bytes\n", when, (long)syscall(SYS_lseek, other, 0, SEEK_END));
    syscall(SYS_close, other);
}

static void cassandra(int is_mapped) {
    prctl(PR_SET_NAME, "CompactionExecu");
    int data = open_new("nb-2-big-Data.db");
    append(data);
    say_kernel_size("written", data);
    if (is_mapped) {
        int index = open_new("nb-2-big-Index.db");
        if (write(index, bytes, 4096) != 4096) {
            fail("index");
        }
        if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, index, 0) == MAP_FAILED) {
            fail("mmap");
        }
    } else {
        open_again("nb-2-big-Data.db");
    }
    say_kernel_size("opened early", data);
    append(data);
    if (close(data) != 0) {
        fail("close");
    }
}

static void limit(int what, rlim_t value) {
    struct rlimit limits;
    if (getrlimit(what, &limits) != 0) {
        fail("getrlimit");
    }
    limits.rlim_cur = value;
    if (setrlimit(what, &limits) != 0) {
        fail("setrlimit");
    }
}

/* The map of descriptors needs memory for each 512 numbers of which one is tracked. */
static void untracked(void) {
    prctl(PR_SET_NAME, "rocksdb:low0");
    limit(RLIMIT_NOFILE, NUMBERS);
    int file = open_new("000001.sst");
    append(file);
    for (int number = 0; number < FULL_NUMBERS;) {
        number = open("/dev/null", O_RDONLY);
        if (number < 0) {
            fail("/dev/null");
        }
    }
    limit(RLIMIT_AS, 1);
    int reader = open_again("000001.sst");
    static char found[3 * STAGED_BYTES];
    printf("read %ld\n", (long)pread(reader, found, sizeof found, 0));
    append(file);
    printf("read %ld\n", (long)pread(reader, found, sizeof found, 0));
    printf("%s\n", memcmp(found, bytes, sizeof bytes) == 0 ? "the same" : "different");
    limit(RLIMIT_AS, RLIM_INFINITY);
    if (close(file) != 0) {
        fail("close");
    }
}

int main(int count, char **arguments) {
    if (count != 3 || chdir(arguments[2]) != 0) {
        return 2;
    }
    for (size_t at = 0; at < sizeof bytes; at++) {
        bytes[at] = (char)(at * 2654435761u >> 13);
    }
    if (strcmp(arguments[1], "untracked") == 0) {
        untracked();
    } else {
        cassandra(strcmp(arguments[1], "mapped") == 0);
    }
    return 0;
}
