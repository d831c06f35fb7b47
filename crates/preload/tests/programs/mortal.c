/* Writes an SSTable like a background thread of RocksDB, under a filter that kills a thread: mortal CALL FILE END
 *
 * The writing thread installs the filter before it opens the table if CALL begins with "early-", else after.
 * Threads that it starts inherit it: the library's helpers. The filter kills a thread that makes CALL:
 *   none          no call
 *   prctl, getpriority, setpriority, ioprio_get, ioprio_set, capget, capset
 *   idle          a futex that waits without a limit: a helper that waits for its next request
 *   thread        none: the kernel refuses to start threads
 *   drainer       pwrite64, made by a helper that the opening thread starts. Another thread writes and ends.
 *   stuck         none: a pwrite64 of any thread but the writer does not return before main lets it
 * Then it ends by END: close, fork, _exit, exit. Prints the result of each call.
 *
 * With "stuck" the main thread first waits until such a write is stuck or the table is written, and makes a child.
 * Then it ends the process by _exit, or lets the write return and waits for the writer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 4096, ALL = 5000000 };
#define EARLY "early-"

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void install(struct sock_filter *filter, unsigned long length) {
    struct sock_fprog program = {(unsigned short)length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        exit(77);
    }
}

static void kill_threads_that_call(int number) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter);
}

static void kill_threads_that_wait(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter);
}

/* Makes the kernel refuse threads. It still makes children. */
static void refuse_threads(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter);
}

static int listener = -1, is_stuck, is_written, is_released, writer_id;

/* Answers for the kernel: the writer's own writes are made. Others wait. */
static void *answer(void *unused) {
    static struct seccomp_notif asked;
    for (;;) {
        memset(&asked, 0, sizeof asked);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
            if (errno == EINTR || errno == ENOENT) {
                continue;
            }
            return unused;
        }
        if ((int)asked.pid != writer_id) {
            __atomic_store_n(&is_stuck, 1, __ATOMIC_RELEASE);
            while (!__atomic_load_n(&is_released, __ATOMIC_ACQUIRE)) {
                usleep(1000);
            }
        }
        struct seccomp_notif_resp go_on = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    }
}

static void ask_about_writes(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    pthread_t thread;
    writer_id = (int)syscall(SYS_gettid);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    }
    /* It makes no write of that kind: the filter does not stop it. */
    if (listener < 0 || pthread_create(&thread, NULL, answer, NULL) != 0) {
        perror("seccomp");
        exit(77);
    }
}

static const char *call, *end;

/* The opening thread has the filter, and with it the helper that drains the file for a child or the end. */
static int kills_the_drainer(void) { return strcmp(call, "drainer") == 0; }

static int has_stuck_writes(void) { return strcmp(call, "stuck") == 0; }

static void filter_calls(void) {
    static const struct {
        const char *name;
        int number;
    } calls[] = {
        {"prctl", SYS_prctl},           {"getpriority", SYS_getpriority}, {"setpriority", SYS_setpriority},
        {"ioprio_get", SYS_ioprio_get}, {"ioprio_set", SYS_ioprio_set},
        {"capget", SYS_capget},         {"capset", SYS_capset},
    };
    if (strcmp(call, "idle") == 0) {
        kill_threads_that_wait();
    } else if (strcmp(call, "thread") == 0) {
        refuse_threads();
    } else if (has_stuck_writes()) {
        ask_about_writes();
    } else if (kills_the_drainer()) {
        kill_threads_that_call(SYS_pwrite64);
    }
    for (unsigned long at = 0; at < sizeof calls / sizeof *calls; at++) {
        if (strcmp(call, calls[at].name) == 0) {
            kill_threads_that_call(calls[at].number);
        }
    }
}

static void make_child(void) {
    pid_t child = fork();
    if (child == 0) {
        _exit(3);
    }
    int status;
    printf("fork %d\n", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
}

static int file;
static unsigned long written;

static void write_until(unsigned long end_bytes) {
    unsigned char buffer[CHUNK];
    while (written < end_bytes) {
        unsigned long length = end_bytes - written < CHUNK ? end_bytes - written : CHUNK;
        for (unsigned long at = 0; at < length; at++) {
            buffer[at] = (unsigned char)((written + at) * 2654435761u >> 13);
        }
        if (write(file, buffer, length) != (ssize_t)length) {
            fail("write");
        }
        written += length;
    }
}

static void open_table(const char *path) {
    int is_early = strncmp(call, EARLY, strlen(EARLY)) == 0;
    if (is_early) {
        call += strlen(EARLY);
    }
    if (is_early || kills_the_drainer()) {
        filter_calls();
    }
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        fail("open");
    }
    if (!is_early && !kills_the_drainer()) {
        filter_calls();
    }
}

static void *open_and_begin(void *path) {
    prctl(PR_SET_NAME, "rocksdb:low");
    open_table(path);
    write_until(CHUNK);
    return NULL;
}

static void *write_table(void *path) {
    prctl(PR_SET_NAME, "rocksdb:low");
    if (kills_the_drainer()) {
        pthread_t opener;
        pthread_create(&opener, NULL, open_and_begin, path);
        pthread_join(opener, NULL);
    } else {
        open_table(path);
    }
    write_until(ALL);
    __atomic_store_n(&is_written, 1, __ATOMIC_RELEASE);
    while (has_stuck_writes() && !__atomic_load_n(&is_released, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    if (strcmp(end, "fork") == 0) {
        make_child();
    } else if (strcmp(end, "_exit") == 0) {
        _exit(0);
    } else if (strcmp(end, "exit") == 0) {
        exit(0);
    }
    printf("close %d\n", close(file));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        return 100;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    call = argv[1];
    end = argv[3];
    pthread_t writer;
    pthread_create(&writer, NULL, write_table, argv[2]);
    if (has_stuck_writes()) {
        while (!__atomic_load_n(&is_stuck, __ATOMIC_ACQUIRE) && !__atomic_load_n(&is_written, __ATOMIC_ACQUIRE)) {
            usleep(1000);
        }
        make_child();
        if (strcmp(end, "_exit") == 0) {
            _exit(0);
        }
        __atomic_store_n(&is_released, 1, __ATOMIC_RELEASE);
    }
    pthread_join(writer, NULL);
    return 0;
}
