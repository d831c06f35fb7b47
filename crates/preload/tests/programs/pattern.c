/* Reads an SSTable like the foreground: pattern FILE points|scan|scans|mapped|read|stream COUNT [ADVICE [LENGTH]]
 *
 * points: COUNT reads of 4 KiB at offsets 40 KiB apart, in a shuffled order, each twice;
 * scan: COUNT reads of 4 KiB one after the other; scans: twelve of these by turns, 500 blocks apart, each by
 * a descriptor of its own; mapped: as points, by a mapping; read, stream: as scan, by the file's position and
 * by a stream.
 * Prints a checksum of what it read. ADVICE is given for the first LENGTH bytes of the file, or all of it, after the
 * opening.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SCANS = 12, SCAN_BLOCKS = 500 };

static unsigned long sum;

static void take(const unsigned char *bytes, ssize_t length) {
    for (ssize_t at = 0; at < length; at++) {
        sum = sum * 31 + bytes[at];
    }
}

static void read_block(int file, off_t offset) {
    unsigned char block[4096];
    ssize_t length = pread(file, block, sizeof block, offset);
    if (length < 0) {
        perror("pread");
        exit(1);
    }
    take(block, length);
}

int main(int count, char **arguments) {
    if (count < 4) {
        return 2;
    }
    int file = open(arguments[1], O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        perror(arguments[1]);
        return 1;
    }
    if (count > 4) {
        posix_fadvise(file, 0, count > 5 ? atol(arguments[5]) : 0, atoi(arguments[4]));
    }
    long reads = atol(arguments[3]);
    if (strcmp(arguments[2], "points") == 0) {
        for (long number = 0; number < 2 * reads; number++) {
            read_block(file, number * 7919 % reads * 40960);
        }
    } else if (strcmp(arguments[2], "mapped") == 0) {
        size_t length = lseek(file, 0, SEEK_END);
        unsigned char *bytes = mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);
        if (bytes == MAP_FAILED) {
            perror("mmap");
            return 1;
        }
        for (long number = 0; number < 2 * reads; number++) {
            sum = sum * 31 + bytes[number * 7919 % reads * 40960];
        }
    } else if (strcmp(arguments[2], "scan") == 0) {
        for (long number = 0; number < reads; number++) {
            read_block(file, number * 4096);
        }
    } else if (strcmp(arguments[2], "read") == 0) {
        unsigned char block[4096];
        for (long number = 0; number < reads; number++) {
            take(block, read(file, block, sizeof block));
        }
    } else if (strcmp(arguments[2], "stream") == 0) {
        unsigned char block[4096];
        FILE *stream = fdopen(file, "r");
        for (long number = 0; number < reads; number++) {
            take(block, fread(block, 1, sizeof block, stream));
        }
    } else {
        int files[SCANS];
        for (int scan = 0; scan < SCANS; scan++) {
            files[scan] = open(arguments[1], O_RDONLY | O_CLOEXEC);
        }
        for (long number = 0; number < reads; number++) {
            for (int scan = 0; scan < SCANS; scan++) {
                read_block(files[scan], (number + scan * SCAN_BLOCKS) * 4096);
            }
        }
    }
    printf("%lu\n", sum);
    return 0;
}
