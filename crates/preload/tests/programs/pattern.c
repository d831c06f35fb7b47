/* Reads an SSTable like the foreground: pattern FILE WAY COUNT [ADVICE [LENGTH]]
 *
 * points: COUNT reads of 4 KiB at offsets 40 KiB apart, in a shuffled order, each twice;
 * scan: COUNT reads of 4 KiB one after the other; scans: twelve of these by turns, 500 blocks apart, each by
 * a descriptor of its own; scan-and-points: as scan, then 170 reads of 4 KiB, 40 KiB apart, from
 * block 4400 on; mapped: as points, by a mapping; read, readv, stream: as scan, by the file's position
 * and by a stream; preadv, preadv2: as scan, into two buffers; position: as preadv2, by the file's position;
 * dontcache: as preadv2, with RWF_DONTCACHE; raw, uring: as scan, by system calls that no library sees.
 * Prints a checksum of what it read. ADVICE is given for the first LENGTH bytes of the file, or all of it, after the
 * opening.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 128
#endif

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

static void read_vector(int file, const char *way, off_t offset) {
    unsigned char block[4096];
    struct iovec vector[2] = {{block, 1000}, {block + 1000, sizeof block - 1000}};
    ssize_t length;
    if (strcmp(way, "readv") == 0) {
        length = readv(file, vector, 2);
    } else if (strcmp(way, "position") == 0) {
        length = preadv2(file, vector, 2, -1, 0);
    } else if (strcmp(way, "preadv2") == 0) {
        length = preadv2(file, vector, 2, offset, 0);
    } else if (strcmp(way, "dontcache") == 0) {
        length = preadv2(file, vector, 2, offset, RWF_DONTCACHE);
    } else {
        length = preadv(file, vector, 2, offset);
    }
    if (length < 0) {
        perror(way);
        exit(3);
    }
    take(block, length);
}

/* One read at a time, by a ring of one entry. */
static void read_by_ring(int file, long reads) {
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 1, &params);
    if (ring < 0) {
        perror("io_uring_setup");
        exit(3);
    }
    size_t bytes = 65536;
    int protection = PROT_READ | PROT_WRITE;
    char *submissions = mmap(NULL, bytes, protection, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *completions = mmap(NULL, bytes, protection, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, 4096, protection, MAP_SHARED, ring, IORING_OFF_SQES);
    if (submissions == MAP_FAILED || completions == MAP_FAILED || entry == MAP_FAILED) {
        perror("mmap of the ring");
        exit(3);
    }
    unsigned *tail = (unsigned *)(submissions + params.sq_off.tail);
    unsigned *head = (unsigned *)(completions + params.cq_off.head);
    struct io_uring_cqe *done = (struct io_uring_cqe *)(completions + params.cq_off.cqes);
    unsigned mask = *(unsigned *)(completions + params.cq_off.ring_mask);
    *(unsigned *)(submissions + params.sq_off.array) = 0;
    for (long number = 0; number < reads; number++) {
        unsigned char block[4096];
        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_READ;
        entry->fd = file;
        entry->off = number * 4096;
        entry->addr = (unsigned long)block;
        entry->len = sizeof block;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) {
            perror("io_uring_enter");
            exit(3);
        }
        int result = done[*head & mask].res;
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
        take(block, result);
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
    } else if (strcmp(arguments[2], "scan-and-points") == 0) {
        for (long number = 0; number < reads; number++) {
            read_block(file, number * 4096);
        }
        for (long number = 0; number < 170; number++) {
            read_block(file, (4400 + number * 7 % 170 * 10) * 4096);
        }
    } else if (strcmp(arguments[2], "read") == 0) {
        unsigned char block[4096];
        for (long number = 0; number < reads; number++) {
            take(block, read(file, block, sizeof block));
        }
    } else if (strcmp(arguments[2], "raw") == 0) {
        unsigned char block[4096];
        for (long number = 0; number < reads; number++) {
            take(block, syscall(SYS_pread64, file, block, sizeof block, number * 4096));
        }
    } else if (strcmp(arguments[2], "uring") == 0) {
        read_by_ring(file, reads);
    } else if (strcmp(arguments[2], "scans") != 0 && strcmp(arguments[2], "stream") != 0) {
        for (long number = 0; number < reads; number++) {
            read_vector(file, arguments[2], number * 4096);
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
