/* A database in small: matrix DIRECTORY [WORD...]
 *
 * A flush, reads of all kinds, a compaction beside them, many ways to delete an SSTable, children, and an end
 * while an SSTable is open. Prints the result of each step. Words:
 *
 *   locked         first locks present and future memory
 *   lean           makes no step that needs new memory
 *   as=K, data=K   lean; RLIMIT_AS or RLIMIT_DATA leaves K KiB more than the process has
 *   full           lean; RLIMIT_AS leaves nothing, and the heap is used up
 *   child=PROGRAM  one child more, which gets DIRECTORY/child
 *
 * matrix continue DESCRIPTOR: the child that inherits an SSTable. It appends to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

extern char **environ;

enum {
    RECORD = 4118, /* Cassandra's writes have such lengths. */
    RECORDS = 300,
    SIZE = RECORD * RECORDS,
    CHUNK = 64 << 10,
    STACK = 256 << 10,
    DESCRIPTORS = 300,
};

static const char *directory;
static const char *program;
static const char *other_child;
static int is_lean;

static void fail(const char *what) {
    perror(what);
    abort();
}

static void say(const char *what, long result) {
    printf("%s %ld%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerror(errno) : "");
}

/* The path of an SSTable. */
static const char *table(unsigned number) {
    static __thread char paths[2][PATH_MAX];
    static __thread unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, PATH_MAX, "%s/%06u.sst", directory, number);
    return path;
}

/* Content that names its SSTable and its offset. */
static unsigned char byte_of(unsigned number, uint32_t offset) {
    return (unsigned char)((offset * 2654435761u + number * 40503u) >> 11);
}

static void fill(unsigned char *bytes, size_t length, unsigned number, uint32_t offset) {
    for (size_t at = 0; at < length; at++) {
        bytes[at] = byte_of(number, offset + (uint32_t)at);
    }
}

static long wrong_bytes(const unsigned char *bytes, size_t length, unsigned number, uint32_t offset) {
    long wrong = 0;
    for (size_t at = 0; at < length; at++) {
        wrong += bytes[at] != byte_of(number, offset + (uint32_t)at);
    }
    return wrong;
}

static int create(unsigned number) {
    int file = open(table(number), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        fail("create");
    }
    return file;
}

/* Appends records. Counts a size or a position that is not the one that was written. */
static long append(int file, unsigned number, uint32_t *end, int records, int by_vector) {
    unsigned char record[RECORD];
    long wrong = 0;
    for (int count = 1; count <= records; count++) {
        fill(record, sizeof record, number, *end);
        struct iovec parts[2] = {{record, 1000}, {record + 1000, sizeof record - 1000}};
        ssize_t written = by_vector ? writev(file, parts, 2) : write(file, record, sizeof record);
        if (written != (ssize_t)sizeof record) {
            fail("write");
        }
        *end += sizeof record;
        struct stat status;
        if (count % 64 == 0) {
            wrong += fstat(file, &status) != 0 || status.st_size != (off_t)*end;
            wrong += lseek(file, 0, SEEK_CUR) != (off_t)*end;
        }
    }
    return wrong;
}

/* A finished SSTable, which is not in the page cache. */
static void make(unsigned number, int records) {
    uint32_t end = 0;
    int file = create(number);
    say("made, wrong", append(file, number, &end, records, number % 2));
    say("fsync", fsync(file));
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    say("close", close(file));
}

/* The library reads a file in windows if it has been unchanged for 20 ms. */
static void rest(void) { usleep(30000); }

static void flush_memtable(void) {
    for (unsigned number = 1; number <= 3; number++) {
        make(number, RECORDS);
    }
    uint32_t end = 0;
    int file = create(4);
    append(file, 4, &end, RECORDS / 2, 0);
    say("fdatasync", fdatasync(file));
    append(file, 4, &end, RECORDS / 2, 1);
    say("close", close(file));
}

enum way { PREAD, PREADV, READ, READV, WAYS };

/* Reads an SSTable to its end. The result is the number of wrong bytes and missing bytes. */
static long read_all(int file, unsigned number, uint32_t size, enum way way) {
    static __thread unsigned char bytes[CHUNK];
    size_t chunk = way == READ ? RECORD : CHUNK;
    uint32_t offset = 0;
    long wrong = 0;
    for (;;) {
        struct iovec parts[2] = {{bytes, 100}, {bytes + 100, chunk - 100}};
        ssize_t count = way == PREAD    ? pread(file, bytes, chunk, offset)
                        : way == PREADV ? preadv(file, parts, 2, offset)
                        : way == READ   ? read(file, bytes, chunk)
                                        : readv(file, parts, 2);
        if (count < 0) {
            fail("read");
        }
        if (count == 0) {
            return wrong + labs((long)size - (long)offset);
        }
        wrong += wrong_bytes(bytes, (size_t)count, number, offset);
        offset += (uint32_t)count;
    }
}

static int open_table(unsigned number) {
    int file = open(table(number), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail("open");
    }
    return file;
}

static long scan(unsigned number, uint32_t size, enum way way) {
    int file = open_table(number);
    long wrong = read_all(file, number, size, way);
    return wrong + (close(file) != 0);
}

/* Scattered reads, like those that users wait for. */
static long points(unsigned number) {
    unsigned char bytes[RECORD];
    int file = open_table(number);
    long wrong = 0;
    for (uint32_t place = 0; place < 200; place++) {
        uint32_t offset = place * 7919u % RECORDS * RECORD;
        ssize_t count = pread(file, bytes, sizeof bytes, offset);
        wrong += count != (ssize_t)sizeof bytes || wrong_bytes(bytes, sizeof bytes, number, offset) != 0;
    }
    return wrong + (close(file) != 0);
}

static void read_in_the_foreground(void) {
    for (unsigned number = 1; number <= 4; number++) {
        say("points", points(number));
        say("scan", scan(number, SIZE, (enum way)(number - 1)));
    }
    if (is_lean) {
        return;
    }
    int file = open_table(1);
    unsigned char *bytes = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    say("mmap, wrong", bytes == MAP_FAILED ? -1 : wrong_bytes(bytes, SIZE, 1, 0));
    munmap(bytes, SIZE);
    close(file);
    unsigned char record[RECORD];
    FILE *stream = fopen(table(2), "r");
    say("fread", (long)fread(record, 1, sizeof record, stream));
    say("wrong", wrong_bytes(record, sizeof record, 2, 0));
    fclose(stream);
}

/* The output of the compaction while it grows. */
static sem_t output_has_grown, output_was_read;

/* What a forked child sees of the SSTable that its parent writes. */
static int look_as_child(int file, unsigned number, uint32_t end) {
    struct stat status;
    unsigned char bytes[100];
    if (fstat(file, &status) != 0 || status.st_size != (off_t)end) {
        return 1;
    }
    if (pread(file, bytes, sizeof bytes, end - sizeof bytes) != (ssize_t)sizeof bytes) {
        return 2;
    }
    if (wrong_bytes(bytes, sizeof bytes, number, end - sizeof bytes) != 0) {
        return 3;
    }
    return scan(1, SIZE, PREAD) == 0 ? 0 : 4;
}

static void say_status(const char *what, pid_t child) {
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        say(what, -1);
        return;
    }
    say(what, status);
}

static void compact(void) {
    enum { OUTPUT = 10, RENAMED = 11, LINKED = 12 };
    uint32_t end = 0;
    int file = create(OUTPUT);
    for (unsigned number = 1; number <= 4; number++) {
        say("input", scan(number, SIZE, (enum way)(number - 1)));
        say("output, wrong", append(file, OUTPUT, &end, 150, number % 2));
        if (number == 1) {
            sem_post(&output_has_grown);
            sem_wait(&output_was_read);
        }
        if (number == 2) {
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                _exit(look_as_child(file, OUTPUT, end));
            }
            say_status("fork", child);
        }
        if (number == 3) {
            char from[PATH_MAX];
            snprintf(from, sizeof from, "%s", table(OUTPUT));
            say("rename", rename(from, table(RENAMED)));
            snprintf(from, sizeof from, "%s", table(RENAMED));
            say("link", link(from, table(LINKED)));
        }
    }
    unsigned char bytes[1000];
    fill(bytes, sizeof bytes, OUTPUT, 5000);
    say("pwrite", (long)pwrite(file, bytes, sizeof bytes, 5000));
    say("ftruncate", ftruncate(file, end - 1000));
    say("lseek", (long)lseek(file, -500, SEEK_CUR));
    fill(bytes, sizeof bytes, OUTPUT, end - 1000);
    say("lseek", (long)lseek(file, 0, SEEK_END));
    say("write", (long)write(file, bytes, sizeof bytes));
    say("fsync", fsync(file));
    say("close", close(file));
    char from[PATH_MAX];
    snprintf(from, sizeof from, "%s", table(RENAMED));
    say("rename back", rename(from, table(OUTPUT)));
    say("unlink", unlink(table(LINKED)));
    rest();
    say("output, read", scan(OUTPUT, end, PREAD));
}

static void read_beside_the_compaction(void) {
    sem_wait(&output_has_grown);
    unsigned char bytes[RECORD];
    int file = open_table(10);
    struct stat status;
    say("early open, fstat", fstat(file, &status));
    say("size", (long)status.st_size);
    ssize_t count = pread(file, bytes, sizeof bytes, 149 * RECORD);
    say("pread", (long)count);
    say("wrong", wrong_bytes(bytes, sizeof bytes, 10, 149 * RECORD));
    close(file);
    sem_post(&output_was_read);
}

/* Files that have no name any more, but a descriptor. opendir would need memory. */
static long deleted_files(void) {
    struct entry {
        uint64_t inode, next;
        uint16_t length;
        unsigned char kind;
        char name[];
    };
    static _Alignas(8) char entries[4096];
    static const char suffix[] = ".sst (deleted)";
    const size_t tail = sizeof suffix - 1;
    char target[PATH_MAX + 16];
    long found = 0, length;
    int directory_of_all = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    while ((length = syscall(SYS_getdents64, directory_of_all, entries, sizeof entries)) > 0) {
        for (long place = 0; place < length;) {
            const struct entry *entry = (const void *)(entries + place);
            ssize_t end = readlinkat(directory_of_all, entry->name, target, sizeof target);
            found += end > (ssize_t)tail && memcmp(target + end - tail, suffix, tail) == 0;
            place += entry->length;
        }
    }
    close(directory_of_all);
    return found;
}

/* Each way in which an SSTable and its descriptor can go away. */
static void delete_tables(void) {
    enum { FIRST = 20, TABLES = 8, RECORDS_OF_EACH = 40 };
    uint32_t size = RECORDS_OF_EACH * RECORD;
    for (unsigned number = FIRST; number < FIRST + TABLES; number++) {
        make(number, RECORDS_OF_EACH);
    }
    rest();
    for (unsigned number = FIRST; number < FIRST + TABLES; number++) {
        int file = open_table(number);
        say("read", read_all(file, number, size, (enum way)(number % WAYS)));
        switch (number - FIRST) {
        case 0:
            say("close", close(file));
            say("unlink", unlink(table(number)));
            break;
        case 1:
            say("unlink", unlink(table(number)));
            say("read", read_all(file, number, size, PREAD));
            say("close", close(file));
            break;
        case 2: {
            char from[PATH_MAX];
            snprintf(from, sizeof from, "%s", table(number + 1));
            say("rename", rename(from, table(number)));
            say("read", read_all(file, number, size, PREAD));
            say("close", close(file));
            say("read", scan(number, 0, PREAD) != 0);
            int again = open(table(number + 1), O_RDWR | O_CREAT | O_EXCL, 0644);
            unsigned char record[RECORD];
            for (int count = 0; count < RECORDS_OF_EACH; count++) {
                fill(record, sizeof record, number + 1, (uint32_t)count * RECORD);
                say("write", (long)write(again, record, sizeof record));
            }
            say("close", close(again));
            say("remove", remove(table(number)));
            break;
        }
        case 3:
            if (is_lean) {
                say("close", close(file));
            } else {
                FILE *stream = fdopen(file, "r");
                rewind(stream);
                say("getc", getc(stream));
                say("fclose", fclose(stream));
            }
            say("remove", remove(table(number)));
            break;
        case 4: {
            int null = open("/dev/null", O_RDONLY);
            say("dup2", dup2(null, file));
            say("unlink", unlink(table(number)));
            close(null);
            close(file);
            break;
        }
        case 5: {
            int second = dup(file);
            say("close", close(file));
            say("read", read_all(second, number, size, PREAD));
            say("unlinkat", unlinkat(AT_FDCWD, table(number), 0));
            say("close", close(second));
            break;
        }
        case 6:
            say("truncate", truncate(table(number), 0));
            say("read", read_all(file, number, 0, PREAD));
            say("close", close(file));
            say("unlink", unlink(table(number)));
            break;
        default: {
            int writer = open(table(number), O_WRONLY | O_TRUNC);
            say("write", (long)write(writer, "new", 3));
            char bytes[8];
            say("read", (long)pread(file, bytes, sizeof bytes, 0));
            say("close", close(writer) + close(file));
            break;
        }
        }
        say("deleted and open", deleted_files());
    }
}

/* While no more descriptors are to be had, and while an SSTable waits for its end. */
static void use_up_descriptors(void) {
    int descriptors[DESCRIPTORS];
    uint32_t end = 0;
    int count = 0, file = create(40);
    append(file, 40, &end, 20, 0);
    while (count < DESCRIPTORS && (descriptors[count] = open("/dev/null", O_RDONLY)) >= 0) {
        count++;
    }
    say("descriptors", count);
    append(file, 40, &end, 20, 0);
    say("last", count == 0 ? -1 : descriptors[count - 1]);
    while (count > 0) {
        close(descriptors[--count]);
    }
    say("close", close(file));
    int lowest = dup(0);
    say("lowest", lowest);
    close(lowest);
}

/* Children that read what was not synced. */
static void start_children(void) {
    char line[PATH_MAX + 64];
    uint32_t end = 0;
    int file = create(50);
    append(file, 50, &end, 30, 0);
    fflush(stdout);
    if (!is_lean) {
        snprintf(line, sizeof line, "cksum < '%s'", table(50));
        say("system", system(line));
        append(file, 50, &end, 30, 0);
        FILE *stream = popen(line, "r");
        unsigned long sum = 0, bytes = 0;
        say("popen", fscanf(stream, "%lu %lu", &sum, &bytes));
        printf("%lu %lu\n", sum, bytes);
        say("pclose", pclose(stream));
        append(file, 50, &end, 30, 0);
        pid_t spawned = -1;
        char *const sum_words[] = {"cksum", (char *)table(50), NULL};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        fflush(stdout);
        say("posix_spawnp", posix_spawnp(&spawned, "cksum", &actions, NULL, sum_words, environ));
        say_status("spawned", spawned);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (other_child != NULL) {
        snprintf(line, sizeof line, "%s/child", directory);
        mkdir(line, 0755);
        char *const words[] = {(char *)other_child, line, NULL};
        pid_t other = -1;
        fflush(stdout);
        say("another program", posix_spawn(&other, other_child, NULL, NULL, words, environ));
        say_status("ended", other);
    }
    /* The child appends by the position that both share. */
    fcntl(file, F_SETFD, 0);
    char number[16];
    snprintf(number, sizeof number, "%d", file);
    append(file, 50, &end, 5, 0);
    fflush(stdout);
    pid_t child = is_lean ? fork() : vfork();
    if (child == 0) {
        execl(program, program, "continue", number, (char *)NULL);
        _exit(127);
    }
    say_status("exec", child);
    say("lseek", (long)lseek(file, 0, SEEK_CUR));
    end = (uint32_t)lseek(file, 0, SEEK_CUR);
    say("wrong", append(file, 50, &end, 64, 0));
    fflush(stdout);
    child = fork();
    if (child == 0) {
        uint32_t own_end = 0;
        int own = create(51);
        append(own, 51, &own_end, 50, 0);
        exit(look_as_child(own, 51, own_end));
    }
    say_status("exit", child);
    say("close", close(file));
}

static void leave_a_table_open(void) {
    uint32_t end = 0;
    append(create(60), 60, &end, 33, 0);
}

/* A thread of the database: it takes one task after the other. */
struct worker {
    const char *name;
    pthread_t thread;
    sem_t begin, done;
    void (*task)(void);
};

static struct worker flusher = {.name = "rocksdb:high0"}, compactor = {.name = "rocksdb:low0"};

static void *work(void *argument) {
    struct worker *worker = argument;
    prctl(PR_SET_NAME, worker->name);
    for (;;) {
        while (sem_wait(&worker->begin) != 0) {
        }
        worker->task();
        sem_post(&worker->done);
    }
    return NULL;
}

static void start(struct worker *worker) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    sem_init(&worker->begin, 0, 0);
    sem_init(&worker->done, 0, 0);
    errno = pthread_create(&worker->thread, &attributes, work, worker);
    if (errno != 0) {
        fail("pthread_create");
    }
}

static void begin(struct worker *worker, void (*task)(void)) {
    worker->task = task;
    sem_post(&worker->begin);
}

static void end(struct worker *worker) {
    while (sem_wait(&worker->done) != 0) {
    }
}

static void let(struct worker *worker, void (*task)(void)) {
    begin(worker, task);
    end(worker);
}

/* A figure of /proc/self/status, in KiB. */
static unsigned long figure(const char *name) {
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    const char *line = length > 0 ? strstr(text, name) : NULL;
    if (line == NULL) {
        fail(name);
    }
    return strtoul(line + strlen(name), NULL, 10);
}

static void leave(int resource, const char *name, unsigned long kib) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = (figure(name) + kib) << 10;
    if (setrlimit(resource, &limit) != 0) {
        fail("setrlimit");
    }
    is_lean = 1;
}

static void use_the_heap_up(void) {
    leave(RLIMIT_AS, "VmSize:", 0);
    long blocks = 0;
    for (size_t size = 1 << 20; size >= 16; size /= 2) {
        while (malloc(size) != NULL) {
            blocks++;
        }
    }
    say("the heap is used up", blocks > 0);
}

static void prepare(const char *word) {
    if (strcmp(word, "locked") == 0) {
        say("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
    } else if (strcmp(word, "lean") == 0) {
        is_lean = 1;
    } else if (strncmp(word, "as=", 3) == 0) {
        leave(RLIMIT_AS, "VmSize:", strtoul(word + 3, NULL, 10));
    } else if (strncmp(word, "data=", 5) == 0) {
        leave(RLIMIT_DATA, "VmData:", strtoul(word + 5, NULL, 10));
    } else if (strcmp(word, "full") == 0) {
        use_the_heap_up();
    } else if (strncmp(word, "child=", 6) == 0) {
        other_child = word + 6;
    } else {
        exit(2);
    }
}

int main(int count, char **words) {
    static char buffer[1 << 16];
    if (count < 2) {
        return 2;
    }
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    program = words[0];
    if (strcmp(words[1], "continue") == 0 && count == 3) {
        int file = atoi(words[2]);
        uint32_t position = (uint32_t)lseek(file, 0, SEEK_CUR);
        return append(file, 50, &position, 64, 0) == 0 && close(file) == 0 ? 0 : 3;
    }
    directory = words[1];
    sem_init(&output_has_grown, 0, 0);
    sem_init(&output_was_read, 0, 0);
    start(&flusher);
    start(&compactor);
    for (int word = 2; word < count; word++) {
        prepare(words[word]);
    }
    let(&flusher, flush_memtable);
    rest();
    read_in_the_foreground();
    begin(&compactor, compact);
    read_beside_the_compaction();
    end(&compactor);
    let(&compactor, delete_tables);
    let(&compactor, use_up_descriptors);
    let(&compactor, start_children);
    let(&compactor, leave_a_table_open);
    puts("end");
    return 0;
}
