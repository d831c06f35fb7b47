/* page_nodes FILE: the NUMA node of each page of the file that is in the page cache, one in a line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

int main(int count, char **words) {
    struct stat status;
    int file = count == 2 ? open(words[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &status) != 0) {
        return 2;
    }
    size_t length = (size_t)status.st_size, pages = (length + PAGE - 1) / PAGE;
    char *mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);
    unsigned char *is_there = malloc(pages);
    if (mapping == MAP_FAILED || is_there == NULL || mincore(mapping, length, is_there) != 0) {
        return 1;
    }
    /* A page that is not there is not read. */
    madvise(mapping, length, MADV_RANDOM);
    for (size_t page = 0; page < pages; page++) {
        if (is_there[page] & 1) {
            void *address = mapping + page * PAGE;
            int node = *(volatile char *)address;
            if (syscall(SYS_move_pages, 0, 1UL, &address, NULL, &node, 0) != 0) {
                return 1;
            }
            printf("%d\n", node);
        }
    }
    return 0;
}
