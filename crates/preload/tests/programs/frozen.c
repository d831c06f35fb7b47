/* Writes an SSTable like a background thread of RocksDB. In the middle of it the filesystem is frozen: frozen FILE
 *
 * While the writer waits for the frozen device, the main thread makes calls that need nothing of the device. Only
 * then it thaws the filesystem. A watchdog thaws it after WATCHDOG_SECONDS, so that nothing hangs.
 *
 * Prints the result of each call, and whether the filesystem was still frozen after the last one.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

/* RWF_DONTCACHE of Linux 6.14. */
enum { DONTCACHE = 0x80 };
enum { WATCHDOG_SECONDS = 20, CHUNK = 4096, BEFORE = 2 << 20, MORE = 300000, ALL = 6 << 20 };

extern char **environ;
static const char *path;
static int table, directory;
static unsigned long written;
static int writer_id;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static unsigned char byte_at(unsigned long at) { return (unsigned char)(at * 2654435761u >> 13); }

static void append_to(unsigned long end) {
    unsigned char buffer[CHUNK];
    while (written < end) {
        unsigned long length = end - written < CHUNK ? end - written : CHUNK;
        for (unsigned long at = 0; at < length; at++) {
            buffer[at] = byte_at(written + at);
        }
        if (write(table, buffer, length) != (ssize_t)length) {
            fail("write");
        }
        __atomic_store_n(&written, written + length, __ATOMIC_RELEASE);
    }
}

static pthread_barrier_t barrier;

static void *write_table(void *unused) {
    prctl(PR_SET_NAME, "rocksdb:low");
    writer_id = (int)syscall(SYS_gettid);
    table = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (table < 0) {
        fail("open");
    }
    append_to(BEFORE);
    pthread_barrier_wait(&barrier); /* the reader opens it */
    pthread_barrier_wait(&barrier);
    append_to(BEFORE + MORE);
    pthread_barrier_wait(&barrier); /* it is frozen */
    pthread_barrier_wait(&barrier);
    append_to(ALL);
    printf("fsync %d\n", fsync(table));
    printf("close %d\n", close(table));
    return unused;
}

/* Waits until the writer sleeps and makes no progress. */
static void wait_for_the_writer_to_wait(void) {
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", writer_id);
    for (int rounds = 0; rounds < 20; rounds++) {
        unsigned long before = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
        usleep(10000);
        int file = open(name, O_RDONLY);
        ssize_t length = read(file, line, sizeof line - 1);
        close(file);
        line[length < 0 ? 0 : length] = 0;
        const char *state = strrchr(line, ')');
        int waits = state != NULL && (state[2] == 'S' || state[2] == 'D');
        if (!waits || before != __atomic_load_n(&written, __ATOMIC_ACQUIRE)) {
            rounds = -1;
        }
    }
}

static void check(const char *what, int good) { printf("%s %s\n", what, good ? "well" : strerror(errno)); }

static void check_size(const char *what, int result, unsigned long size, unsigned long at_least, long blocks) {
    /* The writer is in the middle of a write. */
    unsigned long now = __atomic_load_n(&written, __ATOMIC_ACQUIRE) + CHUNK;
    if (result != 0 || size < at_least || size > now || blocks < 0) {
        printf("%s %d: size %lu of %lu to %lu\n", what, result, size, at_least, now);
    } else {
        printf("%s well\n", what);
    }
}

static void read_at(const char *what, int file, unsigned long at) {
    unsigned char buffer[CHUNK];
    ssize_t length = pread(file, buffer, CHUNK, (off_t)at);
    int good = length == CHUNK;
    for (unsigned long place = 0; good && place < CHUNK; place++) {
        good = buffer[place] == byte_at(at + place);
    }
    check(what, good);
}

static void calls(int reader) {
    read_at("pread", reader, 0);
    read_at("pread", reader, BEFORE - CHUNK);
    struct stat status;
    struct statx extended;
    unsigned long size = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
    int result = fstat(reader, &status);
    check_size("fstat", result, (unsigned long)status.st_size, size, status.st_blocks);
    result = fstat(table, &status);
    check_size("fstat of the writer", result, (unsigned long)status.st_size, size, status.st_blocks);
    result = stat(path, &status);
    check_size("stat", result, (unsigned long)status.st_size, size, status.st_blocks);
    result = fstatat(AT_FDCWD, path, &status, 0);
    check_size("fstatat", result, (unsigned long)status.st_size, size, status.st_blocks);
    result = fstatat(reader, "", &status, AT_EMPTY_PATH);
    check_size("fstatat of a descriptor", result, (unsigned long)status.st_size, size, status.st_blocks);
    result = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended);
    check_size("statx", result, extended.stx_size, size, (long)extended.stx_blocks);
    unsigned char head[100], rest[CHUNK];
    struct iovec parts[] = {{head, sizeof head}, {rest, sizeof rest}};
    ssize_t length = preadv(reader, parts, 2, CHUNK);
    check("preadv", length == sizeof head + sizeof rest && head[0] == byte_at(CHUNK) && rest[0] == byte_at(CHUNK + 100));
    /* Whoever must not wait is told to try again. */
    struct iovec last = {rest, CHUNK};
    length = preadv2(reader, &last, 1, (off_t)(size - CHUNK), RWF_NOWAIT);
    check("preadv2 of what is not on the device", length > 0 || (length == -1 && errno == EAGAIN));
    length = preadv2(reader, &last, 1, CHUNK, RWF_NOWAIT);
    check("preadv2 of what is", length > 0 || (length == -1 && errno == EAGAIN));
    length = preadv2(reader, &last, 1, CHUNK, RWF_NOWAIT | DONTCACHE);
    check("preadv2 of what is, not to be cached", length > 0 || (length == -1 && (errno == EAGAIN || errno == EOPNOTSUPP)));
    int pipe_ends[2];
    off_t place = CHUNK;
    int sent = pipe(pipe_ends) == 0 && sendfile(pipe_ends[1], reader, &place, CHUNK) == CHUNK;
    check("sendfile", sent && read(pipe_ends[0], rest, CHUNK) == CHUNK && rest[5] == byte_at(CHUNK + 5));
    sent = splice(reader, &place, pipe_ends[1], NULL, CHUNK, 0) == CHUNK;
    check("splice", sent && read(pipe_ends[0], rest, CHUNK) == CHUNK && rest[5] == byte_at(2 * CHUNK + 5));
    int other_reader = open(path, O_RDONLY | O_CLOEXEC);
    check("open", other_reader >= 0);
    read_at("pread of the new descriptor", other_reader, CHUNK);
    result = fstat(other_reader, &status);
    check_size("fstat of the new descriptor", result, (unsigned long)status.st_size, size, status.st_blocks);
    off_t end = lseek(other_reader, 0, SEEK_END);
    check_size("lseek to the end", end < 0, (unsigned long)end, size, 0);
    check("lseek at the end", lseek(other_reader, 0, SEEK_CUR) == end);
    check("lseek before the start", lseek(other_reader, -(off_t)ALL - 1, SEEK_END) == -1 && errno == EINVAL);
    check("lseek before the end", lseek(other_reader, -5, SEEK_END) == end - 5);
    check("close", close(other_reader) == 0);
    other_reader = open(path, O_RDONLY | O_CLOEXEC);
    check("close_range", close_range((unsigned)other_reader, (unsigned)other_reader, 0) == 0);
    other_reader = open(path, O_RDONLY | O_CLOEXEC);
    check("dup2", dup2(directory, other_reader) == other_reader && close(other_reader) == 0);
    check("lseek", lseek(reader, 0, SEEK_CUR) == 0);
    check("lseek", lseek(reader, 4096, SEEK_SET) == 4096);
    unsigned char *mapped = mmap(NULL, BEFORE, PROT_READ, MAP_SHARED, reader, 0);
    check("mmap", mapped != MAP_FAILED && mapped[5] == byte_at(5));
    /* Of another file: on a frozen filesystem a rename of the table itself would wait without the library, too. */
    char from[] = "/tmp/coldstream-frozen-XXXXXX", to[64];
    int other = mkstemp(from);
    snprintf(to, sizeof to, "%s-to", from);
    check("rename", other >= 0 && rename(from, to) == 0);
    check("utimensat", utimensat(AT_FDCWD, to, NULL, 0) == 0);
    check("utimes", utimes(to, NULL) == 0);
    check("futimesat", futimesat(AT_FDCWD, to, NULL) == 0);
    check("utime", utime(to, NULL) == 0);
    unlink(to);
    close(other);
    pid_t child;
    char *words[] = {"true", NULL};
    check("posix_spawnp", posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0);
    check("waitpid", waitpid(child, NULL, 0) == child);
    child = fork();
    if (child == 0) {
        _exit(0);
    }
    check("fork", child > 0 && waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        return 100;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    path = argv[1];
    char *copy = strdup(path);
    directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t watchdog = fork();
    if (watchdog == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        sleep(WATCHDOG_SECONDS);
        ioctl(directory, FITHAW, 0);
        sleep(WATCHDOG_SECONDS);
        _exit(0);
    }
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t writer;
    pthread_create(&writer, NULL, write_table, NULL);
    pthread_barrier_wait(&barrier);
    int reader = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char byte;
    for (unsigned long at = 0; at < BEFORE; at += CHUNK) {
        if (pread(reader, &byte, 1, (off_t)at) != 1 || byte != byte_at(at)) {
            fail("pread");
        }
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    if (ioctl(directory, FIFREEZE, 0) != 0) {
        printf("not frozen: %s\n", strerror(errno));
        kill(watchdog, SIGKILL);
        return 77;
    }
    pthread_barrier_wait(&barrier);
    wait_for_the_writer_to_wait();
    calls(reader);
    printf("%s\n", ioctl(directory, FITHAW, 0) == 0 ? "still frozen" : "thawed by the watchdog");
    pthread_join(writer, NULL);
    for (unsigned long at = 0; at < ALL; at += CHUNK) {
        if (pread(reader, &byte, 1, (off_t)at) != 1 || byte != byte_at(at)) {
            fail("pread at the end");
        }
    }
    kill(watchdog, SIGKILL);
    return 0;
}
