/* A foreground thread with a new SSTable open for writing, as in RocksDB's CompactFiles.
 *
 *   inside NEW OLD sequence|points
 *     makes the SSTable NEW, and reads OLD meanwhile, in sequence or at scattered places. Prints a sum of the bytes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

int main(int count, char **arguments) {
    if (count != 4) {
        return 2;
    }
    int new = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int old = open(arguments[2], O_RDONLY | O_CLOEXEC);
    if (new < 0 || old < 0) {
        return 3;
    }
    long blocks = lseek(old, 0, SEEK_END) / BLOCK_BYTES;
    int in_sequence = strcmp(arguments[3], "sequence") == 0;
    unsigned long sum = 0;
    for (long turn = 0; turn < blocks; turn++) {
        long block = in_sequence ? turn : turn * 7919 % blocks;
        char bytes[BLOCK_BYTES];
        if (pread(old, bytes, sizeof bytes, block * BLOCK_BYTES) != sizeof bytes) {
            return 4;
        }
        for (size_t at = 0; at < sizeof bytes; at++) {
            sum = sum * 31 + (unsigned char)bytes[at];
        }
        if (turn % 256 == 255) {
            static char output[256 * BLOCK_BYTES];
            memset(output, (int)sum, sizeof output);
            if (write(new, output, sizeof output) != sizeof output) {
                return 5;
            }
        }
    }
    printf("%lu\n", sum);
    return close(new) | close(old);
}
