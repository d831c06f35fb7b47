/* Writes a table as a background thread of RocksDB does, and something odd in between: odd_writers WHAT FILE
 *
 *   room       the process runs out of descriptors while no byte can be written
 *   target     dup2 and dup3 that fail would have closed the table, while no byte can be written
 *   stream     the table is emptied by fopen, and by freopen
 *   fortified  dprintf, as _FORTIFY_SOURCE has it
 *   cancelled  the thread is cancelled before a write
 *   full       calls that would see or change what cannot be written yet
 *   daemon     the process goes on as a daemon
 *   refused    close_range is refused
 *   times      a time is set before all is written
 *   unseen     the table's descriptor is closed and its number is another file's, both unseen
 *   bad-buffer buffers that cannot be read, and one of which the end cannot
 *   late-sync  no byte can be written before fsync; one of another preload library (late_sync.c) ends that
 *
 * Prints what each call came to, and length and checksum of the table in the end.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *path;
static unsigned long written;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void limit(int what, rlim_t value) {
    struct rlimit limits;
    if (getrlimit(what, &limits) != 0) {
        fail("getrlimit");
    }
    limits.rlim_cur = value < limits.rlim_max ? value : limits.rlim_max;
    if (setrlimit(what, &limits) != 0) {
        fail("setrlimit");
    }
}

/* Nothing can be written from here on, nor what is to be written later. */
static void no_more_bytes(void) { limit(RLIMIT_FSIZE, 4096); }

static void bytes_again(void) { limit(RLIMIT_FSIZE, RLIM_INFINITY); }

static int begin(void) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (file < 0) {
        fail("open");
    }
    return file;
}

static void append(int file, unsigned long bytes) {
    unsigned char buffer[4096];
    for (unsigned long end = written + bytes; written < end;) {
        unsigned long length = end - written < sizeof buffer ? end - written : sizeof buffer;
        for (unsigned long at = 0; at < length; at++) {
            buffer[at] = (unsigned char)((written + at) * 2654435761u >> 13);
        }
        if (write(file, buffer, length) != (ssize_t)length) {
            fail("write");
        }
        written += length;
    }
}

static void say(const char *what, int result) {
    printf("%s %d %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void end(int file) {
    say("fsync", fsync(file));
    say("close", close(file));
    unsigned char buffer[4096];
    unsigned long sum = 0, total = 0;
    FILE *table = fopen(path, "r");
    for (size_t length; (length = fread(buffer, 1, sizeof buffer, table)) > 0; total += length) {
        for (size_t at = 0; at < length; at++) {
            sum = sum * 31 + buffer[at];
        }
    }
    fclose(table);
    printf("%lu bytes, checksum %lx\n", total, sum);
}

static void room(void) {
    limit(RLIMIT_NOFILE, 300);
    int file = begin(), last, descriptors[300], count = 0;
    append(file, 1040000);
    no_more_bytes();
    while ((last = open("/dev/null", O_RDONLY)) >= 0) {
        descriptors[count++] = last;
    }
    say("open", last);
    while (count > 0) {
        close(descriptors[--count]);
    }
    bytes_again();
    append(file, 100000);
    end(file);
}

static void target(void) {
    int file = begin();
    append(file, 40000);
    no_more_bytes();
    say("dup2", dup2(250, file));
    say("dup3", dup3(0, file, O_APPEND));
    bytes_again();
    append(file, 100000);
    end(file);
}

static void stream(void) {
    int file = begin();
    append(file, 40000);
    FILE *other = fopen(path, "w");
    fputs("new\n", other);
    fflush(other);
    end(file);
    if (unlink(path) != 0) {
        fail("unlink");
    }
    file = begin();
    append(file, 40000);
    other = freopen(path, "w+", other);
    fputs("newer\n", other);
    fflush(other);
    end(file);
}

static void fortified(void) {
    int file = begin();
    append(file, 40000);
    say("dprintf", dprintf(file, "%s %d\n", path + strlen(path) - 4, 7));
    append(file, 40000);
    end(file);
}

static void *write_and_be_cancelled(void *unused) {
    int file = begin();
    append(file, 300000);
    pthread_cancel(pthread_self());
    append(file, 4096);
    pthread_testcancel();
    return unused;
}

static void cancelled(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, write_and_be_cancelled, NULL);
    pthread_join(thread, &result);
    printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
}

/* A prefix is there, as after a short write; what else is done must not be done to it. */
static void full(void) {
    int file = begin();
    append(file, 40000);
    no_more_bytes();
    int null = open("/dev/null", O_RDWR);
    say("dprintf", dprintf(file, "X"));
    say("fdopen", fdopen(file, "r+") == NULL ? -1 : 0);
    char byte;
    say("read", (int)read(file, &byte, 1));
    struct stat status;
    say("fstat", fstat(file, &status));
    say("fstatat", fstatat(file, "", &status, AT_EMPTY_PATH));
    say("mmap", mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED ? -1 : 0);
    say("syncfs", syncfs(file));
    say("dup2", dup2(null, file));
    struct aiocb block = {.aio_fildes = file};
    say("aio_fsync", aio_fsync(O_SYNC, &block));
    say("truncate", truncate(path, 0));
    bytes_again();
    append(file, 100000);
    end(file);
}

/* The child has the table's descriptor, and the parent is gone. This process waits for both. */
static void as_daemon(void) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) {
        fail("pipe");
    }
    if (fork() != 0) {
        close(ends[1]);
        say("read", (int)read(ends[0], &byte, 1));
        return;
    }
    int file = begin();
    append(file, 40000);
    if (daemon(1, 1) != 0) {
        fail("daemon");
    }
    end(file);
}

static void refused(void) {
    int file = begin();
    append(file, 4096);
    int reader = open(path, O_RDONLY);
    say("close_range", close_range(reader, reader, 1 << 20));
    say("close_range", close_range(reader + 1, reader, 0));
    append(file, 40000);
    char bytes[100];
    say("pread", (int)pread(reader, bytes, sizeof bytes, 4096));
    no_more_bytes();
    say("close_range", close_range(file, file, 1 << 20));
    bytes_again();
    append(file, 40000);
    end(file);
}

static void times(void) {
    int file = begin();
    append(file, 40000);
    struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};
    say("futimens", futimens(file, then));
    end(file);
    struct stat status;
    say("stat", stat(path, &status));
    printf("%ld\n", (long)status.st_mtime);
}

/* What becomes of the table's own bytes nobody has promised; the other file is none of the library's business. */
static void unseen(void) {
    char other_path[4096];
    snprintf(other_path, sizeof other_path, "%s.other", path);
    int file = begin();
    append(file, 40000);
    if (syscall(SYS_close, file) != 0) {
        fail("close");
    }
    int other = (int)syscall(SYS_openat, AT_FDCWD, other_path, O_RDWR | O_CREAT | O_EXCL, 0600);
    printf("%s\n", other == file ? "the same number" : "another number");
    sync();
    printf("at %ld of", (long)syscall(SYS_lseek, other, 0, SEEK_CUR));
    printf(" %ld\n", (long)syscall(SYS_lseek, other, 0, SEEK_END));
}

static void bad_buffer(void) {
    int file = begin();
    append(file, 40000);
    void *volatile nowhere = (void *)8;
    say("write", (int)write(file, nowhere, 4096));
    append(file, 300000);
    say("write", (int)write(file, nowhere, 4096));
    unsigned char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 7, 4096);
    if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, PROT_NONE) != 0) {
        fail("pages");
    }
    say("write", (int)write(file, pages + 4096, 100));
    say("write", (int)write(file, pages + 4096 - 100, 4096));
    say("lseek", (int)lseek(file, 0, SEEK_CUR));
    append(file, 300000);
    end(file);
}

static void late_sync(void) {
    int file = begin();
    append(file, 40000);
    no_more_bytes();
    say("fsync", fsync(file));
    end(file);
}

static const struct {
    const char *name;
    void (*doing)(void);
} deeds[] = {
    {"room", room},           {"target", target},       {"stream", stream},
    {"fortified", fortified}, {"cancelled", cancelled}, {"full", full},
    {"daemon", as_daemon},    {"refused", refused},     {"times", times},
    {"unseen", unseen},       {"bad-buffer", bad_buffer}, {"late-sync", late_sync},
};

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    const char *what = words[1];
    path = words[2];
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_NAME, "rocksdb:low0");
    for (size_t number = 0; number < sizeof deeds / sizeof *deeds; number++) {
        if (strcmp(what, deeds[number].name) == 0) {
            deeds[number].doing();
            return 0;
        }
    }
    return 2;
}
