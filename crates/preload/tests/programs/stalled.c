/* Opens and closes SSTables while the device is stalled for another SSTable's reads: stalled DIRECTORY SIGNALS
 *
 * Makes the file `ready` in the directory SIGNALS, and waits there for `go`: the device is stalled from then on.
 * After each step it makes a file with the step's name. The device must answer again when `done` is there.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNK = 16384, MIB = 1 << 20 };

static const char *signals;
static atomic_int reader_thread;

struct scan {
    int file;
    off_t from;
    off_t to;
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_table(const char *name) {
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail(name);
    }
    return file;
}

static void say(const char *step) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", signals, step);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0 || close(file) < 0) {
        fail(path);
    }
}

static void *scan(void *argument) {
    struct scan *scan = argument;
    char bytes[CHUNK];
    prctl(PR_SET_NAME, "rocksdb:low0");
    atomic_store(&reader_thread, syscall(SYS_gettid));
    for (off_t at = scan->from; at < scan->to; at += CHUNK) {
        if (pread(scan->file, bytes, CHUNK, at) != CHUNK) {
            fail("pread");
        }
    }
    return NULL;
}

static void scan_now(int file, off_t from, off_t to) {
    struct scan range = {file, from, to};
    pthread_t thread;
    pthread_create(&thread, NULL, scan, &range);
    pthread_join(thread, NULL);
}

/* Waits until the reader waits for the device. */
static void wait_for_reader(void) {
    for (;;) {
        char path[64], text[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", atomic_load(&reader_thread));
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            char *line = fgets(text, sizeof text, file);
            fclose(file);
            int call = line != NULL ? atoi(text) : 0;
            if (strncmp(text, "running", 7) != 0 && (call == SYS_io_getevents || call == SYS_pread64)) {
                return;
            }
        }
        usleep(1000);
    }
}

int main(int count, char **arguments) {
    if (count != 3 || chdir(arguments[1]) < 0) {
        return 2;
    }
    signals = arguments[2];
    /* Everything that an open needs is in memory afterwards. */
    int ahead = open_table("000001.sst"), reading = open_table("000002.sst");
    int other = open_table("000003.sst");
    scan_now(other, 0, 3 * MIB / 2);
    close(open_table("000004.sst"));
    close(open_table("000005.sst"));
    scan_now(ahead, 0, 2 * MIB + MIB / 8);
    say("ready");
    char path[4096];
    snprintf(path, sizeof path, "%s/go", signals);
    while (access(path, F_OK) < 0) {
        usleep(1000);
    }
    /* The next window of this one is read ahead, and does not come. */
    scan_now(ahead, 2 * MIB + MIB / 8, 3 * MIB + MIB / 8);
    struct scan cold = {reading, 0, MIB};
    pthread_t reader;
    atomic_store(&reader_thread, 0);
    pthread_create(&reader, NULL, scan, &cold);
    wait_for_reader();
    say("stalled");
    int opened = open_table("000004.sst");
    say("opened");
    close(opened);
    say("closed");
    close(other);
    say("closed-what-was-read");
    close(ahead);
    say("closed-what-is-read-ahead");
    ahead = open_table("000001.sst");
    say("opened-again");
    opened = open_table("000005.sst");
    if (dup2(opened, ahead) != ahead) {
        fail("dup2");
    }
    say("replaced");
    close(ahead);
    close(opened);
    unlink("000003.sst");
    say("done");
    pthread_join(reader, NULL);
    close(reading);
    return 0;
}
