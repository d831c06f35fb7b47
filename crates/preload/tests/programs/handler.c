/* A signal handler forks while its thread writes SSTables, and another thread writes several at once. It also writes to
 * an SSTable of a third thread, and then closes it, or gives its number to another file:
 * handler DIRECTORY SIGNALS
 *
 * Ends after SIGNALS signals. The children end at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 4118, WRITES = 3, TABLES = 8 };

/* glibc 2.34: a `fork` that handlers may call. */
pid_t _Fork(void);

static const char *directory;
static atomic_long handled;
static atomic_int done;

static void fail(const char *what) {
    perror(what);
    abort();
}

static int open_table(int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%06d.sst", directory, number);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        fail("open");
    }
    return file;
}

/* The SSTable that the handler closes. It is on no other thread's hands meanwhile. */
static char spare_path[4096];
static int spare;
static int elsewhere;

/* Length of the spare SSTable, as the kernel has it. */
static long spare_length(void) {
    struct stat status;
    return syscall(SYS_newfstatat, AT_FDCWD, spare_path, &status, 0) == 0 ? status.st_size : -1;
}

static void use_spare(void) {
    static char bytes[LENGTH];
    if (write(spare, bytes, LENGTH) != LENGTH) {
        fail("write in the handler");
    }
    if (handled % 2 == 1) {
        if (dup2(elsewhere, spare) != spare || write(spare, bytes, LENGTH) != LENGTH) {
            fail("dup2 in the handler");
        }
    }
    if (close(spare) != 0 || spare_length() != (WRITES + 1) * LENGTH) {
        fail("close in the handler");
    }
}

static void handle(int number) {
    (void)number;
    use_spare();
    pid_t child = _Fork();
    if (child == 0) {
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        abort();
    }
    atomic_fetch_add(&handled, 1);
}

static void write_some(int file) {
    static char bytes[LENGTH];
    for (int number = 0; number < WRITES; number++) {
        if (write(file, bytes, LENGTH) != LENGTH) {
            fail("write");
        }
    }
}

/* SSTables in sequence. */
static void *be_interrupted(void *nothing) {
    prctl(PR_SET_NAME, "rocksdb:low");
    while (!done) {
        int file = open_table(0);
        write_some(file);
        close(file);
    }
    return nothing;
}

/* Several SSTables at once. */
static void *write_tables(void *nothing) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_NAME, "rocksdb:low");
    int files[TABLES] = {0};
    for (int number = 0; !done; number = (number + 1) % TABLES) {
        if (files[number] > 0) {
            if (lseek(files[number], 0, SEEK_END) != WRITES * LENGTH) {
                fail("lseek");
            }
            close(files[number]);
        }
        files[number] = open_table(number + 1);
        write_some(files[number]);
    }
    return nothing;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    directory = words[1];
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t interrupted, writer;
    if (pthread_create(&interrupted, NULL, be_interrupted, NULL) != 0 ||
        pthread_create(&writer, NULL, write_tables, NULL) != 0) {
        fail("begin");
    }
    prctl(PR_SET_NAME, "rocksdb:low");
    elsewhere = open("/dev/null", O_WRONLY);
    snprintf(spare_path, sizeof spare_path, "%s/%06d.sst", directory, TABLES + 1);
    for (long wanted = strtol(words[2], NULL, 10), asked = 1; asked <= wanted; asked++) {
        unlink(spare_path);
        spare = open_table(TABLES + 1);
        write_some(spare);
        pthread_kill(interrupted, SIGUSR1);
        while (handled < asked) {
            usleep(20);
        }
    }
    done = 1;
    pthread_join(interrupted, NULL);
    pthread_join(writer, NULL);
    printf("%ld handled\n", (long)handled);
    return 0;
}
