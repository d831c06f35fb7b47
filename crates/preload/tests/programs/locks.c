/* Locks its memory before or after its first SSTable: locks FILE before|after|unseen FLAGS [LIMIT]
 *
 * FLAGS is a number for mlockall. With `unseen` the call comes before, and is not libc's. With LIMIT, a number of KiB,
 * the program may not lock more than that.
 *
 * Prints, in KiB: all its mappings before the call; its result, and errno after a failure; VmLck and VmRSS at the end;
 * mappings that are Coldstream's, since core dumps and forked children do not get them, and how much of them is
 * locked; what it can map at the end, under a limit.
 * Ends with 3 where mlockall is refused without a limit, or the limit cannot be set.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *path;
static long limit_kib;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *read_as_compaction(void *unused) {
    (void)unused;
    static char bytes[65536];
    prctl(PR_SET_NAME, "rocksdb:low0");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail(path);
    }
    off_t at = 0;
    ssize_t length;
    while ((length = pread(file, bytes, sizeof bytes, at)) > 0) {
        at += length;
    }
    if (length < 0 || at == 0 || close(file) < 0) {
        fail("pread");
    }
    return NULL;
}

static void read_table(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    /* A small stack fits below a limit. */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    if (pthread_create(&thread, &attributes, read_as_compaction, NULL) != 0) {
        fail("pthread_create");
    }
    pthread_join(thread, NULL);
}

/* Root may lock everything. */
static void drop_right(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0) {
        fail("capget");
    }
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data) < 0) {
        fail("capset");
    }
    struct rlimit limit = {limit_kib << 10, limit_kib << 10};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0) {
        perror("setrlimit");
        exit(3);
    }
}

static void lock(int flags, int is_unseen) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) {
        fail("statm");
    }
    fclose(file);
    if (limit_kib > 0) {
        drop_right();
    }
    errno = 0;
    int result = is_unseen ? syscall(SYS_mlockall, flags) : mlockall(flags);
    if (result < 0 && limit_kib == 0) {
        perror("mlockall");
        exit(3);
    }
    printf("%ld %d %d ", pages * 4, result, errno);
}

/* A number of the process's status in KiB. */
static void print_status(const char *format) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, format, &kib) != 1) {
    }
    fclose(file);
    printf("%ld ", kib);
}

static void print_reservations(void) {
    char line[8192];
    long kib = 0, all = 0, locked = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "Size: %ld", &kib);
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd") != NULL && strstr(line, " io") == NULL &&
            (strstr(line, " wf") != NULL || strstr(line, " dc") != NULL) && kib >= 64) {
            all += kib;
            locked += strstr(line, " lo") != NULL ? kib : 0;
        }
    }
    fclose(file);
    printf("%ld %ld ", all, locked);
}

static void print_room(void) {
    long kib = limit_kib;
    void *memory;
    do {
        kib -= 64;
        memory = mmap(NULL, kib << 10, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } while (memory == MAP_FAILED && kib > 0);
    printf("%ld", kib);
}

int main(int count, char **arguments) {
    if (count < 4) {
        return 2;
    }
    /* The heap of a second thread would take 64 MiB of addresses, whether the application or the library allocates. */
    mallopt(M_ARENA_MAX, 1);
    path = arguments[1];
    int is_after = strcmp(arguments[2], "after") == 0;
    int is_unseen = strcmp(arguments[2], "unseen") == 0;
    int flags = atoi(arguments[3]);
    limit_kib = count > 4 ? atol(arguments[4]) : 0;
    if (is_after) {
        read_table();
    }
    lock(flags, is_unseen);
    if (!is_after) {
        read_table();
    }
    print_status("VmLck: %ld");
    print_status("VmRSS: %ld");
    print_reservations();
    if (limit_kib > 0) {
        print_room();
    }
    printf("\n");
    return 0;
}
