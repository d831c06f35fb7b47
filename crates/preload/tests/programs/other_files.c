/* Writes a file in a thread of this name, and reads it: other_files THREAD FILE
 *
 * An existing file is continued. Prints the checksum of what was read.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { RECORD = 4118, RECORDS = 300 };

static const char *name;
static const char *path;

static void fail(const char *what) {
    perror(what);
    abort();
}

static void *write_and_read(void *nothing) {
    static unsigned char bytes[RECORD];
    prctl(PR_SET_NAME, name);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        file = open(path, O_RDWR | O_CLOEXEC);
    }
    if (file < 0 || lseek(file, 0, SEEK_END) < 0) {
        fail("open");
    }
    for (int record = 0; record < RECORDS; record++) {
        memset(bytes, record, sizeof bytes);
        if (write(file, bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
            fail("write");
        }
    }
    if (fsync(file) != 0) {
        fail("fsync");
    }
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
    file = open(path, O_RDONLY | O_CLOEXEC);
    /* The library reads a file in windows if it has been unchanged for 20 ms. */
    usleep(30000);
    unsigned long sum = 0;
    off_t offset = 0;
    for (ssize_t count; (count = pread(file, bytes, sizeof bytes, offset)) > 0; offset += count) {
        for (ssize_t at = 0; at < count; at++) {
            sum = sum * 31 + bytes[at];
        }
    }
    printf("%ld bytes, checksum %lx\n", (long)offset, sum);
    if (close(file) != 0) {
        fail("close");
    }
    return nothing;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    name = words[1];
    path = words[2];
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_and_read, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        fail("thread");
    }
    return 0;
}
