/* Calls what glibc gained after 2.17, as a program does that asks for it: younger DIRECTORY
 *
 * Prints results, errors and what the calls filled. `000001.sst` is being written by a background thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A staging buffer is not full yet. */
enum { WRITTEN_BYTES = 100000 };

static char bytes[WRITTEN_BYTES];

static void *find(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

/* Declares a pointer to the function of this name. */
#define FIND(function) __typeof__(&function) next_##function = (__typeof__(&function))find(#function)

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result == -1 ? strerror(errno) : "");
}

static void say_status(const char *what, int result, const struct stat *status) {
    say(what, result);
    if (result == 0) {
        printf("  mode %o, %ld bytes\n", status->st_mode, (long)status->st_size);
    }
}

static void look(int table) {
    struct stat status;
    FIND(stat);
    FIND(lstat);
    FIND(fstat);
    FIND(fstatat);
    FIND(stat64);
    FIND(lstat64);
    FIND(fstat64);
    FIND(fstatat64);
    FIND(statx);
    say_status("stat", next_stat("link", &status), &status);
    say_status("stat", next_stat("missing", &status), &status);
    say_status("lstat", next_lstat("link", &status), &status);
    say_status("fstat", next_fstat(table, &status), &status);
    say_status("fstat", next_fstat(999, &status), &status);
    say_status("fstatat", next_fstatat(AT_FDCWD, "link", &status, AT_SYMLINK_NOFOLLOW), &status);
    say_status("fstatat", next_fstatat(table, "", &status, AT_EMPTY_PATH), &status);
    say_status("stat64", next_stat64("000001.sst", (void *)&status), &status);
    say_status("lstat64", next_lstat64("000001.sst", (void *)&status), &status);
    say_status("fstat64", next_fstat64(table, (void *)&status), &status);
    say_status("fstatat64", next_fstatat64(AT_FDCWD, "000001.sst", (void *)&status, 0), &status);
    struct statx extended;
    say("statx", next_statx(AT_FDCWD, "000001.sst", 0, STATX_SIZE, &extended));
    printf("  %llu bytes\n", (unsigned long long)extended.stx_size);
    say("statx", next_statx(AT_FDCWD, "missing", 0, STATX_SIZE, &extended));
}

static void move(int table) {
    FIND(preadv2);
    FIND(preadv64v2);
    FIND(pwritev2);
    FIND(pwritev64v2);
    FIND(copy_file_range);
    FIND(renameat2);
    char room[8] = "";
    struct iovec vector = {room, 5};
    say("preadv2", next_preadv2(table, &vector, 1, 26, 0));
    printf("  %s\n", room);
    say("preadv2", next_preadv2(table, &vector, 1, -2, 0));
    say("preadv64v2", next_preadv64v2(table, &vector, 1, WRITTEN_BYTES - 3, 0));
    int other = open("other", O_RDWR | O_CREAT | O_EXCL, 0644);
    say("pwritev2", next_pwritev2(other, &vector, 1, 3, 0));
    say("pwritev2", next_pwritev2(other, &vector, 1, -1, 0));
    say("pwritev64v2", next_pwritev64v2(other, &vector, 1, 0, 1 << 30));
    off64_t from = 1000;
    say("copy_file_range", next_copy_file_range(table, &from, other, NULL, 5000, 0));
    printf("  position %ld, size %ld\n", (long)from, (long)lseek(other, 0, SEEK_END));
    say("renameat2", next_renameat2(AT_FDCWD, "other", AT_FDCWD, "000001.sst", RENAME_NOREPLACE));
    say("renameat2", next_renameat2(AT_FDCWD, "other", AT_FDCWD, "moved", RENAME_NOREPLACE));
    close(other);
}

static void count(int table) {
    FIND(fcntl64);
    FIND(close_range);
    int duplicate = next_fcntl64(table, F_DUPFD_CLOEXEC, 700);
    say("fcntl64", duplicate);
    say("fcntl64", next_fcntl64(duplicate, F_GETFD));
    say("close_range", next_close_range(700, 800, 0));
    say("close_range", next_close_range(800, 700, 0));
    say("fcntl64", next_fcntl64(duplicate, F_GETFD));
    FIND(fts64_open);
    FIND(fts64_read);
    char *roots[] = {"000001.sst", NULL};
    FTS64 *tree = next_fts64_open(roots, FTS_PHYSICAL, NULL);
    printf("fts64: %s\n", next_fts64_read(tree)->fts_name);
}

static void make_children(void) {
    FIND(_Fork);
    FIND(execveat);
    fflush(stdout);
    int status = 0;
    pid_t child = next__Fork();
    if (child == 0) {
        char *words[] = {"echo", "from a child", NULL};
        next_execveat(AT_FDCWD, "/bin/echo", words, environ, 0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    say("execveat", next_execveat(AT_FDCWD, "missing", (char *[]){"missing", NULL}, environ, 0));
    printf("status %d\n", status);
}

int main(int count_of_words, char **words) {
    if (count_of_words != 2 || chdir(words[1]) != 0) {
        return 1;
    }
    prctl(PR_SET_NAME, "rocksdb:low");
    for (int place = 0; place < WRITTEN_BYTES; place++) {
        bytes[place] = 'a' + place % 26;
    }
    int table = open("000001.sst", O_RDWR | O_CREAT | O_EXCL | O_APPEND, 0644);
    say("write", write(table, bytes, WRITTEN_BYTES));
    say("symlink", symlink("000001.sst", "link"));
    look(table);
    move(table);
    count(table);
    make_children();
    return 0;
}
