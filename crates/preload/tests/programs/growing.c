/* SSTables grow while other threads look at them: growing DIRECTORY FILES BYTES
 *
 * A background thread of RocksDB appends. Before each write it announces the end, and after it the bytes that are
 * done. Readers open the table, ask for its size in every way, and read it. Each must see at least what was done
 * before its call, at most what was announced after it, the right bytes, and no time before the last write. Prints
 * the first faults, and "well" if there are none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { READERS = 3, FAULTS_MAX = 10, READ_MAX = 40000 };

static char path[4000];
static unsigned long announced, done, all;
/* When the last write that is done began, by the clock of file times, in nanoseconds. */
static unsigned long done_since;
static int is_over, faults, number;
static unsigned long looks;

static unsigned char byte_at(unsigned long at) { return (unsigned char)((at + (unsigned)number) * 2654435761u >> 13); }

static unsigned long load(unsigned long *from) { return __atomic_load_n(from, __ATOMIC_SEQ_CST); }

static unsigned long random_below(unsigned long *state, unsigned long bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % bound;
}

static unsigned long nanoseconds(struct timespec time) {
    return (unsigned long)time.tv_sec * 1000000000u + (unsigned long)time.tv_nsec;
}

static void fault(const char *what, long seen, unsigned long from, unsigned long to) {
    if (__atomic_add_fetch(&faults, 1, __ATOMIC_SEQ_CST) <= FAULTS_MAX) {
        printf("%s: %ld, expected %lu to %lu (%s)\n", what, seen, from, to, strerror(errno));
    }
}

static void *write_table(void *unused) {
    unsigned long random = 7 + (unsigned)number;
    prctl(PR_SET_NAME, "rocksdb:low");
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    static unsigned char buffer[300000];
    for (unsigned long end = 0; end < all;) {
        unsigned long length = 1 + random_below(&random, random_below(&random, 20) == 0 ? sizeof buffer : 6000);
        for (unsigned long at = 0; at < length; at++) {
            buffer[at] = byte_at(end + at);
        }
        __atomic_store_n(&announced, end + length, __ATOMIC_SEQ_CST);
        struct timespec since;
        clock_gettime(CLOCK_REALTIME_COARSE, &since);
        if (write(file, buffer, length) != (ssize_t)length) {
            fault("write", -1, length, length);
            break;
        }
        end += length;
        __atomic_store_n(&done, end, __ATOMIC_SEQ_CST);
        __atomic_store_n(&done_since, nanoseconds(since), __ATOMIC_SEQ_CST);
        if (random_below(&random, 300) == 0 && fdatasync(file) != 0) {
            fault("fdatasync", -1, 0, 0);
        }
        if (random_below(&random, 50) == 0) {
            off_t position = lseek(file, 0, random_below(&random, 2) == 0 ? SEEK_END : SEEK_CUR);
            if ((unsigned long)position != end) {
                fault("lseek of the writer", position, end, end);
            }
        }
    }
    if (close(file) != 0) {
        fault("close", -1, 0, 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void check_time(const char *what, const struct stat *status, unsigned long since) {
    unsigned long changed = nanoseconds(status->st_mtim);
    if (changed < since) {
        fault(what, (long)changed, since, since);
    }
}

static void check_size(const char *what, long size, unsigned long before) {
    unsigned long after = load(&announced);
    if (size < (long)before || size > (long)after) {
        fault(what, size, before, after);
    }
}

/* `length` bytes of the file from `at` on were asked for, and `taken` came. */
static void check_bytes(const char *what, const unsigned char *bytes, unsigned long at, unsigned long length, long taken,
                        unsigned long before) {
    unsigned long after = load(&announced);
    unsigned long least = before <= at ? 0 : before - at < length ? before - at : length;
    unsigned long most = after <= at ? 0 : after - at < length ? after - at : length;
    if (taken < (long)least || taken > (long)most) {
        fault(what, taken, least, most);
        return;
    }
    for (long place = 0; place < taken; place++) {
        if (bytes[place] != byte_at(at + (unsigned long)place)) {
            fault("wrong byte", (long)at + place, 0, 0);
            return;
        }
    }
}

static void *look(void *first) {
    unsigned long random = (unsigned long)first;
    unsigned char *bytes = malloc(READ_MAX);
    int file = -1, copy = fileno(tmpfile());
    unsigned long position = 0;
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        if (load(&done) == 0) {
            /* A file that is opened at once is not staged. */
            sched_yield();
            continue;
        }
        if (file < 0 || random_below(&random, 40) == 0) {
            close(file);
            file = open(path, O_RDONLY | O_CLOEXEC);
            if (file < 0) {
                fault("open", file, 0, 0);
                break;
            }
            position = 0;
        }
        struct stat status;
        struct statx extended;
        unsigned long before = load(&done), since = load(&done_since);
        unsigned long way = random_below(&random, 12);
        unsigned long near = before > READ_MAX && random_below(&random, 2) == 0 ? before - READ_MAX : 0;
        unsigned long at = near + random_below(&random, before - near + 5000);
        unsigned long length = 1 + random_below(&random, READ_MAX);
        struct iovec parts[] = {{bytes, length / 2}, {bytes + length / 2, length - length / 2}};
        unsigned char *mapped;
        switch (way) {
        case 0:
            check_size("fstat", fstat(file, &status) == 0 ? status.st_size : -1, before);
            check_time("time of fstat", &status, since);
            break;
        case 1:
            check_size("stat", stat(path, &status) == 0 ? status.st_size : -1, before);
            check_time("time of stat", &status, since);
            break;
        case 2:
            check_size("statx", statx(AT_FDCWD, path, 0, STATX_SIZE, &extended) == 0 ? (long)extended.stx_size : -1, before);
            break;
        case 3:
            position = (unsigned long)lseek(file, 0, SEEK_END);
            check_size("lseek", (long)position, before);
            break;
        case 4:
            position = random_below(&random, before + 1);
            if (lseek(file, (off_t)position, SEEK_SET) != (off_t)position) {
                fault("lseek", -1, position, position);
            }
            break;
        case 5:
        case 6: {
            ssize_t taken = way == 5 ? read(file, bytes, length) : readv(file, parts, 2);
            check_bytes("read", bytes, position, length, taken, before);
            position += taken > 0 ? (unsigned long)taken : 0;
            break;
        }
        case 7:
            check_bytes("pread", bytes, at, length, pread(file, bytes, length, (off_t)at), before);
            break;
        case 8:
            check_bytes("preadv", bytes, at, length, preadv(file, parts, 2, (off_t)at), before);
            break;
        case 9:
        case 10: {
            off_t from = (off_t)at, to = 0;
            ssize_t taken = way == 9 ? sendfile(copy, file, &from, length) : copy_file_range(file, &from, copy, &to, length, 0);
            if (taken > 0 && pread(copy, bytes, (size_t)taken, 0) != taken) {
                fault("pread of the copy", -1, 0, 0);
            }
            lseek(copy, 0, SEEK_SET);
            check_bytes(way == 9 ? "sendfile" : "copy_file_range", bytes, at, length, taken, before);
            break;
        }
        default:
            /* Whole pages only: a later mapping ends the staging. */
            length = before / 2 & ~4095UL;
            mapped = length == 0 ? MAP_FAILED : mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);
            if (mapped != MAP_FAILED) {
                at = random_below(&random, length);
                check_bytes("mmap", mapped + at, at, 1, 1, before);
                munmap(mapped, length);
            }
        }
        __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
    }
    close(file);
    close(copy);
    free(bytes);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        return 100;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    all = strtoul(argv[3], NULL, 10);
    for (number = 1; number <= atoi(argv[2]); number++) {
        snprintf(path, sizeof path, "%s/%06d.sst", argv[1], number);
        announced = done = done_since = 0;
        is_over = 0;
        pthread_t writer, readers[READERS];
        pthread_create(&writer, NULL, write_table, NULL);
        for (unsigned long reader = 0; reader < READERS; reader++) {
            pthread_create(&readers[reader], NULL, look, (void *)(reader + 10 * (unsigned long)number));
        }
        pthread_join(writer, NULL);
        for (int reader = 0; reader < READERS; reader++) {
            pthread_join(readers[reader], NULL);
        }
        unlink(path);
    }
    printf("%s\n", faults == 0 && looks > 0 ? "well" : "faults");
    return 0;
}
