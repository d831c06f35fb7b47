/* An engine's own direct I/O: own_direct DIRECTORY STOP
 *
 * A compaction thread writes an SSTable with O_DIRECT, and reads it so. Ends when the file STOP is there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10, PIECES = 16 };

int main(int count, char **arguments) {
    static _Alignas(4096) char bytes[PIECE_BYTES];
    if (count != 3 || chdir(arguments[1]) != 0) {
        return 2;
    }
    prctl(PR_SET_NAME, "rocksdb:low0");
    int file = open("000007.sst", O_WRONLY | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0644);
    for (int piece = 0; piece < PIECES; piece++) {
        if (write(file, bytes, PIECE_BYTES) != PIECE_BYTES) {
            perror("write");
            return 1;
        }
    }
    close(file);
    file = open("000007.sst", O_RDONLY | O_DIRECT | O_CLOEXEC);
    for (int piece = 0; piece < PIECES; piece++) {
        if (pread(file, bytes, PIECE_BYTES, (off_t)piece * PIECE_BYTES) != PIECE_BYTES) {
            perror("pread");
            return 1;
        }
    }
    puts("done");
    fflush(stdout);
    while (access(arguments[2], F_OK) != 0) {
        usleep(10000);
    }
    return 0;
}
