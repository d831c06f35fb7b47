/* A cancellation takes effect in a call: cancelled_calls DIRECTORY CALL
 *
 * A thread is cancelled before it makes the call, on a file that no library treats in any special way. The call is a
 * cancellation point. Prints whether the thread was cancelled, and whether its clean-up was run.
 * Without CALL: prints the names of all calls.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BYTES = 4096 };

static int file, other, cleaned;
static char bytes[BYTES];
static struct iovec vector = {bytes, 100};

/* The calls have other types; each is made with those that it has. */
#define CALL(name, type, ...) \
    static void call_##name(void) { \
        type(*function)() = (type(*)())dlsym(RTLD_DEFAULT, #name); \
        if (function != NULL) { \
            function(__VA_ARGS__); \
        } \
    }
#define BOTH(name, type, ...) CALL(name, type, __VA_ARGS__) CALL(name##64, type, __VA_ARGS__)

BOTH(open, int, "other", O_RDONLY)
BOTH(openat, int, AT_FDCWD, "other", O_RDONLY)
BOTH(creat, int, "other", 0600)
BOTH(pread, ssize_t, file, bytes, (size_t)100, (off_t)0)
BOTH(pwrite, ssize_t, file, bytes, (size_t)100, (off_t)0)
BOTH(preadv, ssize_t, file, &vector, 1, (off_t)0)
BOTH(pwritev, ssize_t, file, &vector, 1, (off_t)0)
CALL(read, ssize_t, file, bytes, (size_t)100)
CALL(write, ssize_t, file, bytes, (size_t)100)
CALL(readv, ssize_t, file, &vector, 1)
CALL(writev, ssize_t, file, &vector, 1)
BOTH(fallocate, int, file, 0, (off_t)0, (off_t)100)
BOTH(posix_fallocate, int, file, (off_t)0, (off_t)100)
BOTH(lockf, int, file, F_LOCK, (off_t)0)
CALL(fsync, int, file)
CALL(fdatasync, int, file)
CALL(close, int, file)
CALL(sync_file_range, int, file, (off_t)0, (off_t)0, 0u)
CALL(copy_file_range, ssize_t, file, NULL, other, NULL, (size_t)100, 0u)
CALL(system, int, "true")

static const struct {
    const char *name;
    void (*make)(void);
} CALLS[] = {
#define ONE(name) {#name, call_##name},
#define TWO(name) ONE(name) {#name "64", call_##name##64},
    TWO(open) TWO(openat) TWO(creat) TWO(pread) TWO(pwrite) TWO(preadv) TWO(pwritev)
    ONE(read) ONE(write) ONE(readv) ONE(writev)
    TWO(fallocate) TWO(posix_fallocate) TWO(lockf)
    ONE(fsync) ONE(fdatasync) ONE(close) ONE(sync_file_range) ONE(copy_file_range) ONE(system)
};

static void clean_up(void *unused) {
    (void)unused;
    cleaned = 1;
}

static void *make(void *call) {
    pthread_cleanup_push(clean_up, NULL);
    pthread_cancel(pthread_self());
    ((void (*)(void))call)();
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 3) {
        for (size_t number = 0; number < sizeof CALLS / sizeof *CALLS; number++) {
            puts(CALLS[number].name);
        }
        return 0;
    }
    if (chdir(arguments[1]) != 0 || (file = open("file", O_RDWR | O_CREAT, 0600)) < 0 ||
        (other = open("other", O_RDWR | O_CREAT, 0600)) < 0 || write(file, bytes, BYTES) != BYTES) {
        perror(arguments[1]);
        return 1;
    }
    for (size_t number = 0; number < sizeof CALLS / sizeof *CALLS; number++) {
        if (strcmp(CALLS[number].name, arguments[2]) != 0) {
            continue;
        }
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, make, (void *)CALLS[number].make) != 0 ||
            pthread_join(thread, &result) != 0) {
            return 3;
        }
        printf("%s: %s, %s\n", arguments[2], result == PTHREAD_CANCELED ? "cancelled" : "not cancelled",
               cleaned ? "cleaned up" : "not cleaned up");
        return 0;
    }
    return 2;
}
