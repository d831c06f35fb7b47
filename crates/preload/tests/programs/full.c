/* Uses as much of the library's memory as it can: full DIRECTORY STOP
 *
 * Each of THREADS compactions reads FILES SSTables by turns, and then writes as many at once, in files of its own.
 * Prints its largest address space in KiB, and ends when the file STOP is there.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { THREADS = 8, FILES = 16, INPUT_BYTES = 2 << 20, OUTPUT_BYTES = 128 << 10, PIECE_BYTES = 64 << 10 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_table(int thread, int number, int flags) {
    char name[64];
    snprintf(name, sizeof name, "%06d.sst", thread * 1000 + number);
    int file = open(name, flags | O_CLOEXEC, 0644);
    if (file < 0) {
        fail(name);
    }
    return file;
}

static void *compact(void *argument) {
    int thread = (int)(long)argument;
    char bytes[PIECE_BYTES];
    int inputs[FILES], outputs[FILES];
    char name[16];
    snprintf(name, sizeof name, "rocksdb:low%d", thread);
    prctl(PR_SET_NAME, name);
    for (int number = 0; number < FILES; number++) {
        inputs[number] = open_table(thread, number, O_RDONLY);
    }
    for (off_t at = 0; at < INPUT_BYTES; at += PIECE_BYTES) {
        for (int number = 0; number < FILES; number++) {
            if (pread(inputs[number], bytes, PIECE_BYTES, at) != PIECE_BYTES) {
                fail("pread");
            }
        }
    }
    for (int number = 0; number < FILES; number++) {
        outputs[number] = open_table(thread, 500 + number, O_RDWR | O_CREAT | O_EXCL);
    }
    for (off_t at = 0; at < OUTPUT_BYTES; at += PIECE_BYTES) {
        for (int number = 0; number < FILES; number++) {
            if (write(outputs[number], bytes, PIECE_BYTES) != PIECE_BYTES) {
                fail("write");
            }
        }
    }
    for (int number = 0; number < FILES; number++) {
        if (close(outputs[number]) != 0 || close(inputs[number]) != 0) {
            fail("close");
        }
    }
    return NULL;
}

static void print_address_space(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL && sscanf(line, "VmPeak: %ld", &kib) != 1) {
    }
    printf("%ld\n", kib);
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count != 3 || chdir(arguments[1]) != 0) {
        return 2;
    }
    for (int thread = 0; thread < THREADS; thread++) {
        for (int number = 0; number < FILES; number++) {
            int file = open_table(thread, number, O_WRONLY | O_CREAT | O_EXCL);
            if (ftruncate(file, INPUT_BYTES) != 0 || close(file) != 0) {
                fail("ftruncate");
            }
        }
    }
    /* What changed lately is not read in windows. */
    usleep(50000);
    pthread_t threads[THREADS];
    for (int thread = 0; thread < THREADS; thread++) {
        if (pthread_create(&threads[thread], NULL, compact, (void *)(long)thread) != 0) {
            fail("pthread_create");
        }
    }
    for (int thread = 0; thread < THREADS; thread++) {
        pthread_join(threads[thread], NULL);
    }
    print_address_space();
    while (access(arguments[2], F_OK) != 0) {
        usleep(1000);
    }
    return 0;
}
