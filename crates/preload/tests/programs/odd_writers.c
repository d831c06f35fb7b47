/* Writes an SSTable like a background thread of RocksDB, with an unusual event in between: odd_writers WHAT FILE
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
 *   calls      calls that show the table to others, or set its times, one after the other
 *   unseen     the table's descriptor is closed and its number is another file's, both unseen
 *   bad-buffer buffers that cannot be read, and one of which the end cannot
 *   shrunk     the table is made shorter while it is mapped, and grows again
 *   cut        the table is made shorter while another thread (late_truncate.c) writes to it
 *   killed     the process is killed before it has synced anything
 *   limited    the limit of a file's size lies within a block
 *   children   programs look at a table whose descriptor they do not get
 *   heirs      children get the table's descriptor, and write to it
 *   shared     a child that shares the memory, but not the descriptors, writes to one of its own
 *   signalled  a signal handler syncs the table in the middle of other reads
 *   emptied    a thread empties the table while another one reads what waits in memory
 *   two        another descriptor has the table from the beginning
 *   locked     the writer has a record lock on it
 *   renamed    another process looks at the table by each new name
 *   late-sync  no byte can be written before fsync; one of another preload library (late_sync.c) ends that
 *
 * Prints the result of each call, and length and checksum of the SSTable at the end.
 */
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
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

/* From here on every write fails, delayed ones too. */
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

static const char *name_beside(const char *name) {
    static char beside[4096];
    char copy[4096];
    strcpy(copy, path);
    snprintf(beside, sizeof beside, "%.*s%s", (int)(strrchr(copy, '/') + 1 - copy), copy, name);
    return beside;
}

/* The next table. */
static int begin_beside(const char *name) {
    path = name_beside(name);
    written = 0;
    return begin();
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

/* A prefix is in the file, as after a short write. The calls below must fail instead of acting on it. */
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
    int told = fstat(file, &status);
    printf("fstat %d %ld\n", told, (long)status.st_size);
    told = fstatat(file, "", &status, AT_EMPTY_PATH);
    printf("fstatat %d %ld\n", told, (long)status.st_size);
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

/* The child has the descriptor of the SSTable, and the parent has ended. This process waits for both. */
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

/* Nothing is promised about the SSTable's own bytes. The library must not touch the other file. */
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

/* The length of the SSTable for a process that the library does not see. */
static void say_length(void) {
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    printf("%ld bytes\n", (long)syscall(SYS_lseek, file, 0, SEEK_END));
    syscall(SYS_close, file);
}

static char *cksum[] = {"cksum", NULL, NULL};

static void say_status(const char *what, pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    say(what, status);
}

static void by_sync(int file) {
    (void)file;
    sync();
    say_length();
}

static void by_system(int file) {
    (void)file;
    char line[4200];
    snprintf(line, sizeof line, "cksum '%s' | cut -d ' ' -f 1,2", path);
    fflush(stdout);
    say("system", system(line));
}

static void by_popen(int file) {
    (void)file;
    char line[4200];
    snprintf(line, sizeof line, "cksum '%s'", path);
    FILE *said = popen(line, "r");
    unsigned long sum = 0, bytes = 0;
    say("popen", fscanf(said, "%lu %lu", &sum, &bytes));
    printf("%lu %lu\n", sum, bytes);
    say("pclose", pclose(said));
}

/* posix_spawnp, and calls like it. */
typedef int spawner(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);

/* The standard input of the child is the SSTable. */
static int spawn_cksum(spawner *spawn, int *child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, path, O_RDONLY, 0);
    char *only_name[] = {"cksum", NULL};
    fflush(stdout);
    int result = spawn(child, "cksum", &actions, NULL, only_name, environ);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

static void by_posix_spawnp(int file) {
    pid_t child = -1;
    say("posix_spawnp", spawn_cksum(posix_spawnp, &child));
    say_status("spawned", child);
    say("lseek", (int)lseek(file, 0, SEEK_CUR));
}

/* The same, where libc has the call (glibc 2.39). */
static void by_pidfd_spawnp(int file) {
    spawner *spawn = (spawner *)dlsym(RTLD_DEFAULT, "pidfd_spawnp");
    int child = -1;
    int result = spawn == NULL ? ENOSYS : spawn_cksum(spawn, &child);
    say("pidfd_spawnp", result);
    if (result == 0) {
        siginfo_t ended;
        say("spawned", waitid(P_PIDFD, (id_t)child, &ended, WEXITED));
        close(child);
    }
    say("lseek", (int)lseek(file, 0, SEEK_CUR));
}

/* The child inherits the SSTable, continues to write, and executes another program. */
#define BY_EXEC(name, call)                        \
    static void by_##name(int file) {              \
        fflush(stdout);                            \
        pid_t child = fork();                      \
        if (child == 0) {                          \
            append(file, 1000);                    \
            dup2(open(path, O_RDONLY), 0);         \
            call;                                  \
            _exit(127);                            \
        }                                          \
        say_status(#name, child);                  \
        written += 1000;                           \
    }

BY_EXEC(execv, execv("/usr/bin/cksum", cksum))
BY_EXEC(execve, execve("/usr/bin/cksum", cksum, environ))
BY_EXEC(execvp, execvp("cksum", cksum))
BY_EXEC(execvpe, execvpe("cksum", cksum, environ))
BY_EXEC(execl, execl("/usr/bin/cksum", "cksum", (char *)NULL))
BY_EXEC(execle, execle("/usr/bin/cksum", "cksum", (char *)NULL, environ))
BY_EXEC(execlp, execlp("cksum", "cksum", (char *)NULL))
BY_EXEC(fexecve, fexecve(open("/usr/bin/cksum", O_RDONLY), cksum, environ))

static void by__Fork(int file) {
    fflush(stdout);
    pid_t child = _Fork();
    if (child == 0) {
        _exit((int)(syscall(SYS_lseek, file, 0, SEEK_END) % 251));
    }
    say_status("_Fork", child);
}

static int print_list(int file, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int result = vdprintf(file, format, list);
    va_end(list);
    return result;
}

static void by_vdprintf(int file) { say("vdprintf", print_list(file, "%d %s", 7, "bytes")); }

static void say_stream(FILE *stream) {
    char bytes[5000];
    size_t total = 0;
    for (size_t length; (length = fread(bytes, 1, sizeof bytes, stream)) > 0;) {
        total += length;
    }
    printf("%zu bytes in the stream\n", total);
    fclose(stream);
}

static void by_fopen64(int file) {
    (void)file;
    say_stream(fopen64(path, "r"));
}

static void by_freopen64(int file) {
    (void)file;
    say_stream(freopen64(path, "r", fopen("/dev/null", "r")));
}

/* Delayed writes must not change a time that was set before. */
static void say_whether_old(void) {
    struct stat status;
    say("stat", stat(path, &status));
    printf("%s\n", status.st_mtime == 1000000000 ? "old" : "new");
}

static const struct timeval long_ago[2] = {{1000000000, 0}, {1000000000, 0}};

static void by_utimes(int file) {
    (void)file;
    say("utimes", utimes(path, long_ago));
}

static void by_lutimes(int file) {
    (void)file;
    say("lutimes", lutimes(path, long_ago));
}

static void by_futimesat(int file) {
    (void)file;
    say("futimesat", futimesat(AT_FDCWD, path, long_ago));
}

static void by_futimes(int file) { say("futimes", futimes(file, long_ago)); }

static void say_read(const char *what, struct aiocb *block) {
    const struct aiocb *const list[] = {block};
    while (aio_error(block) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    const unsigned char *bytes = (const unsigned char *)block->aio_buf;
    say(what, (int)aio_return(block));
    printf("%d %d\n", bytes[0], bytes[99]);
}

static void by_aio_read(int file) {
    unsigned char bytes[100] = {0};
    struct aiocb block = {.aio_fildes = file, .aio_buf = bytes, .aio_nbytes = 100, .aio_offset = 39900};
    say("aio_read", aio_read(&block));
    say_read("read", &block);
}

static void by_lio_listio(int file) {
    unsigned char bytes[100] = {0};
    struct aiocb block = {.aio_fildes = file, .aio_buf = bytes, .aio_nbytes = 100, .aio_offset = 39900,
                          .aio_lio_opcode = LIO_READ};
    struct aiocb *const list[] = {&block};
    say("lio_listio", lio_listio(LIO_WAIT, list, 1, NULL));
    say_read("read", &block);
}

static int print_size(const char *name, const struct stat *status, int type, struct FTW *place) {
    (void)place;
    if (type == FTW_F && strcmp(name, path) == 0) {
        printf("%ld bytes\n", (long)status->st_size);
    }
    return 0;
}

static void by_nftw(int file) {
    (void)file;
    char directory[4096];
    snprintf(directory, sizeof directory, "%s", path);
    *strrchr(directory, '/') = 0;
    say("nftw", nftw(directory, print_size, 4, FTW_PHYS));
}

static void by_fts_read(int file) {
    (void)file;
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    char *const names[] = {name, NULL};
    FTS *walk = fts_open(names, FTS_PHYSICAL, NULL);
    FTSENT *entry = fts_read(walk);
    printf("%ld bytes\n", entry == NULL ? -1 : (long)entry->fts_statp->st_size);
    fts_close(walk);
}

/* Only root may. Others get the same error with and without the library. */
static void by_open_by_handle_at(int file) {
    (void)file;
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + 128];
    } named = {.handle = {.handle_bytes = 128}};
    int mount;
    say("name_to_handle_at", name_to_handle_at(AT_FDCWD, path, &named.handle, &mount, 0));
    int reader = open_by_handle_at(AT_FDCWD, &named.handle, O_RDONLY);
    say("open_by_handle_at", reader < 0 ? -1 : 0);
    char bytes[100];
    say("pread", (int)pread(reader, bytes, sizeof bytes, 39950));
    append(file, 1000);
    say("pread", (int)pread(reader, bytes, sizeof bytes, 40950));
    close(reader);
}

/* A write that names its place, the position afterwards, and one more write there. */
static void write_at(int file, off_t offset, int flags) {
    struct iovec parts[] = {{"one ", 4}, {"two", 3}};
    say("pwritev2", (int)pwritev2(file, parts, 2, offset, flags));
    say("lseek", (int)lseek(file, 0, SEEK_CUR));
    append(file, 100);
}

static void by_pwritev2_to_the_end(int file) { write_at(file, 0, RWF_APPEND); }

static void by_pwritev2_at_the_position(int file) { write_at(file, -1, 0); }

static void by_pwritev2_elsewhere(int file) { write_at(file, 50000, RWF_DSYNC); }

static void (*const calls_of_a_table[])(int) = {
    by_sync,   by_system, by_popen,  by_posix_spawnp, by_pidfd_spawnp, by_execv,    by_execve,    by_execvp,
    by_execvpe, by_execl, by_execle, by_execlp,       by_fexecve,  by__Fork,     by_vdprintf,
    by_fopen64, by_freopen64, by_utimes, by_futimes,  by_lutimes,  by_futimesat,
    by_aio_read, by_lio_listio, by_nftw, by_fts_read, by_open_by_handle_at,
    by_pwritev2_to_the_end, by_pwritev2_at_the_position, by_pwritev2_elsewhere,
};

static void calls(void) {
    for (size_t number = 0; number < sizeof calls_of_a_table / sizeof *calls_of_a_table; number++) {
        written = 0;
        int file = begin();
        append(file, 40000);
        calls_of_a_table[number](file);
        end(file);
        say_whether_old();
        if (unlink(path) != 0) {
            fail("unlink");
        }
    }
}

static void shrunk(void) {
    int file = begin();
    append(file, 8192);
    int reader = open(path, O_RDONLY);
    const volatile unsigned char *bytes = mmap(NULL, 8192, PROT_READ, MAP_SHARED, reader, 0);
    if (bytes == MAP_FAILED) {
        fail("mmap");
    }
    say("ftruncate", ftruncate(file, 5000));
    say("lseek", (int)lseek(file, 0, SEEK_END));
    written = 5000;
    append(file, 100);
    printf("%d %d\n", bytes[5000], bytes[5099]);
    end(file);
}

static void killed(void) {
    append(begin(), 40000);
    kill(getpid(), SIGKILL);
}

static void limited(void) {
    int file = begin();
    append(file, 4096);
    limit(RLIMIT_FSIZE, 300001);
    static char bytes[700000];
    long taken = 0, length;
    while ((length = write(file, bytes, sizeof bytes)) > 0) {
        taken += length;
    }
    say("write", (int)length);
    bytes_again();
    /* Delayed bytes, whose error was told. */
    say("fsync", fsync(file));
    say("close", close(file));
    printf("%ld bytes\n", taken);
    file = begin_beside("000002.sst");
    append(file, 1000000);
    end(file);
}

static void children(void) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    append(file, 300000);
    by_system(file);
    append(file, 300000);
    by_popen(file);
    append(file, 300000);
    char line[4200];
    snprintf(line, sizeof line, "cksum <'%s'", path);
    char *words[] = {"sh", "-c", line, NULL};
    pid_t child = -1;
    fflush(stdout);
    say("posix_spawnp", posix_spawnp(&child, "sh", NULL, NULL, words, environ));
    say_status("spawned", child);
    append(file, 300000);
    end(file);
}

/* Each of them writes where the one before has ended. */
static void heirs(void) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    append(file, 300000);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, 1);
    char *words[] = {"echo", "spawned", NULL};
    pid_t child = -1;
    fflush(stdout);
    int result = posix_spawnp(&child, "echo", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    say("posix_spawnp", result);
    say_status("spawned", child);
    append(file, 300000);
    end(file);
    file = begin_beside("000002.sst");
    append(file, 300000);
    char line[100];
    snprintf(line, sizeof line, "echo by a shell >&%d", file);
    fflush(stdout);
    say("system", system(line));
    append(file, 300000);
    end(file);
    file = begin_beside("000003.sst");
    append(file, 300000);
    child = fork();
    if (child == 0) {
        _exit(write(file, "forked", 6) == 6 ? 0 : 1);
    }
    say_status("forked", child);
    append(file, 300000);
    child = vfork();
    if (child == 0) {
        /* Nothing of the library's, as another thread's child would. */
        _exit(syscall(SYS_write, file, "vforked", 7) == 7 ? 0 : 1);
    }
    say_status("vforked", child);
    append(file, 300000);
    say("lseek", (int)lseek(file, 0, SEEK_CUR));
    char bytes[100];
    say("pread", (int)pread(file, bytes, sizeof bytes, 299950));
    end(file);
}

static void cut(void) {
    int file = begin();
    append(file, 100000);
    int reader = open(path, O_RDONLY);
    say("ftruncate", ftruncate(file, 4096));
    char bytes[100];
    struct stat status;
    say("fstat", fstat(reader, &status));
    printf("%ld bytes\n", (long)status.st_size);
    say("pread", (int)pread(reader, bytes, sizeof bytes, 8192));
    printf("at %ld\n", (long)lseek(file, 0, SEEK_CUR));
    append(file, 5000);
    end(file);
}

static volatile int child_is_there, table_is_there, has_its_number;

static void *begin_meanwhile(void *table) {
    prctl(PR_SET_NAME, "rocksdb:low1");
    while (!child_is_there) {
        sched_yield();
    }
    int file = *(int *)table = begin();
    append(file, 40000);
    table_is_there = 1;
    return NULL;
}

/* The number is free in the child, which has a copy of the parent's descriptors. */
static void shared(void) {
    pthread_t thread;
    static int table;
    pthread_create(&thread, NULL, begin_meanwhile, &table);
    pid_t child = vfork();
    if (child == 0) {
        child_is_there = 1;
        while (!table_is_there) {
            sched_yield();
        }
        int own = open("/dev/null", O_WRONLY);
        has_its_number = own == table;
        _exit(write(own, "XXXX", 4) == 4 && fsync(own) != 0 ? 0 : 1);
    }
    say_status("vfork", child);
    pthread_join(thread, NULL);
    printf("%s number\n", has_its_number ? "the table's" : "another");
    append(table, 300000);
    end(table);
}

/* Behind a table that has one descriptor. */
static void two(void) {
    int file = begin();
    append(file, 4096);
    end(file);
    say("unlink", unlink(path));
    written = 0;
    int other = open(path, O_RDONLY | O_CREAT, 0644);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    append(file, 40000);
    end(file);
    say("close", close(other));
}

/* It reads one table, and writes the next one, as a compaction does. */
static void locked(void) {
    int file = begin();
    append(file, 40000);
    end(file);
    static char output[4096], bytes[40000];
    int input = open(path, O_RDONLY);
    say("pread", (int)pread(input, bytes, sizeof bytes, 0));
    snprintf(output, sizeof output, "%.*s2.sst", (int)strlen(path) - 5, path);
    path = output;
    written = 0;
    file = begin();
    append(file, 40000);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    say("fcntl", fcntl(file, F_SETLK, &lock));
    end(file);
}

static int signalled_table;
static volatile sig_atomic_t signals, missing;

/* By a call that the library does not see. */
static void sync_in_handler(int number) {
    (void)number;
    int error = errno;
    signals++;
    if (fsync(signalled_table) == 0) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        missing += syscall(SYS_lseek, file, 0, SEEK_END) < (long)written;
        syscall(SYS_close, file);
    }
    errno = error;
}

static void signalled(void) {
    char other_path[4096];
    static char block[4096];
    snprintf(other_path, sizeof other_path, "%.*s000002.sst", (int)(strrchr(path, '/') + 1 - path), path);
    int other = open(other_path, O_RDWR | O_CREAT | O_EXCL, 0644);
    for (int number = 0; number < 1024; number++) {
        if (write(other, block, sizeof block) != sizeof block) {
            fail("write");
        }
    }
    close(other);
    other = open(other_path, O_RDONLY);
    struct sigaction action = {.sa_handler = sync_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval once = {{0, 0}, {0, 0}};
    for (int round = 0; round < 200; round++) {
        /* A staged file that the handler has found falls back to plain writes: use another SSTable each time. */
        written = 0;
        signalled_table = begin();
        append(signalled_table, 40000);
        int before = signals;
        once.it_value.tv_usec = 200 + round;
        setitimer(ITIMER_REAL, &once, NULL);
        for (long number = round * 1000; signals == before; number++) {
            if (pread(other, block, sizeof block, number % 1024 * 4096) != sizeof block) {
                fail("pread");
            }
        }
        if (close(signalled_table) != 0 || unlink(path) != 0) {
            fail("close");
        }
    }
    printf("%s\n", missing == 0 ? "what was synced is there" : "not all that was synced is there");
    unlink(other_path);
}

static void late_sync(void) {
    int file = begin();
    append(file, 40000);
    no_more_bytes();
    say("fsync", fsync(file));
    end(file);
}

static char new_name[4096], other_name[4096];

static int other_file_like(const char *end) {
    snprintf(other_name, sizeof other_name, "%s%s", path, end);
    int file = open(other_name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (file < 0) {
        fail("open");
    }
    return file;
}

static const char *name_with(const char *end) {
    snprintf(new_name, sizeof new_name, "%s%s", path, end);
    return new_name;
}

/* Another process tells how long the file is that has this name. */
static void ask_other(int questions, int answers) {
    char answer[100];
    if (write(questions, new_name, sizeof new_name) != sizeof new_name) {
        fail("ask");
    }
    ssize_t length = read(answers, answer, sizeof answer);
    printf("%.*s", length < 0 ? 0 : (int)length, answer);
}

static void answer_for_ever(int questions, int answers) {
    struct stat status;
    while (read(questions, new_name, sizeof new_name) == sizeof new_name) {
        int result = stat(new_name, &status);
        dprintf(answers, "another process: %d, %ld bytes\n", result, (long)status.st_size);
    }
    _exit(0);
}

/* Each time with bytes that wait in memory. The process that looks is older than the table. */
static void renamed(void) {
    int questions[2], answers[2];
    if (pipe(questions) != 0 || pipe(answers) != 0) {
        fail("pipe");
    }
    if (fork() == 0) {
        close(questions[1]);
        answer_for_ever(questions[0], answers[1]);
    }
    close(other_file_like("-other"));
    int file = begin();
    append(file, 10000);
    say("link", link(path, name_with("-linked")));
    ask_other(questions[1], answers[0]);
    append(file, 10000);
    say("linkat", linkat(AT_FDCWD, path, AT_FDCWD, name_with("-linked-at"), 0));
    ask_other(questions[1], answers[0]);
    append(file, 10000);
    say("rename", rename(path, name_with("-renamed")));
    ask_other(questions[1], answers[0]);
    append(file, 10000);
    say("renameat2", renameat2(AT_FDCWD, name_with("-other"), AT_FDCWD, strcat(strcpy(other_name, path), "-renamed"), RENAME_EXCHANGE));
    ask_other(questions[1], answers[0]);
    append(file, 10000);
    say("renameat", renameat(AT_FDCWD, name_with("-other"), AT_FDCWD, path));
    strcpy(new_name, path);
    ask_other(questions[1], answers[0]);
    close(questions[1]);
    end(file);
}

static atomic_int reader_goes;
static int read_table;

static void *read_the_end(void *nothing) {
    char byte;
    reader_goes = 1;
    /* Nothing, if the table was emptied first. */
    if (pread(read_table, &byte, 1, 299999) < 0) {
        fail("pread");
    }
    return nothing;
}

static void emptied(void) {
    long longest = 0;
    for (int round = 0; round < 300; round++) {
        written = 0;
        int file = begin();
        append(file, 300000);
        read_table = open(path, O_RDONLY);
        reader_goes = 0;
        pthread_t reader;
        if (pthread_create(&reader, NULL, read_the_end, NULL) != 0) {
            fail("pthread_create");
        }
        while (!reader_goes) {
        }
        int again = open(path, O_WRONLY | O_TRUNC);
        pthread_join(reader, NULL);
        struct stat status;
        if (again < 0 || fsync(again) != 0 || fstat(again, &status) != 0) {
            fail("open again");
        }
        longest = status.st_size > longest ? status.st_size : longest;
        if (close(again) != 0 || close(read_table) != 0 || close(file) != 0 || unlink(path) != 0) {
            fail("close");
        }
    }
    printf("%ld bytes\n", longest);
}

static const struct {
    const char *name;
    void (*doing)(void);
} deeds[] = {
    {"room", room},           {"target", target},       {"stream", stream},
    {"fortified", fortified}, {"cancelled", cancelled}, {"full", full},
    {"daemon", as_daemon},    {"refused", refused},     {"times", times},
    {"calls", calls},         {"unseen", unseen},       {"bad-buffer", bad_buffer}, {"late-sync", late_sync},
    {"shrunk", shrunk},       {"shared", shared},       {"signalled", signalled}, {"cut", cut},
    {"killed", killed},       {"limited", limited},     {"children", children},   {"heirs", heirs},
    {"renamed", renamed},     {"emptied", emptied},   {"two", two},               {"locked", locked},
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
