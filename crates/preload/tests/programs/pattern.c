/* Reads a table as the foreground does: pattern FILE points|scan|scans|mapped COUNT [ADVICE]
 *
 * points: COUNT reads of 4 KiB at places that are 40 KiB apart, in a shuffled order, each twice;
 * scan: COUNT reads of 4 KiB one after the other; scans: two of these by turns, by two descriptors;
 * mapped: as points, by a mapping.
 * Prints a checksum of what it read. ADVICE is given for the whole file after the opening.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long sum;

static void read_block(int file, off_t offset) {
    char block[4096];
    ssize_t length = pread(file, block, sizeof block, offset);
    if (length < 0) {
        perror("pread");
        exit(1);
    }
    for (ssize_t at = 0; at < length; at++) {
        sum = sum * 31 + (unsigned char)block[at];
    }
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
        posix_fadvise(file, 0, 0, atoi(arguments[4]));
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
    } else {
        int other = open(arguments[1], O_RDONLY | O_CLOEXEC);
        for (long number = 0; number < reads; number++) {
            read_block(file, number * 4096);
            read_block(other, (number + 3000) * 4096);
        }
    }
    printf("%lu\n", sum);
    return 0;
}
