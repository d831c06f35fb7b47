/* What a process shows to its host: host WHAT TABLE
 *
 * Reads the SSTable like a compaction. Then
 *   read                        returns from main
 *   secure                      prints whether the loader took the process for a privileged one
 *   exit, _exit, _Exit, quick_exit, thread, killed
 *                               ends in this way
 *   write                       writes an SSTable
 *   root                        writes an SSTable, prints a line and sleeps
 *   dropped                     as root, but first becomes the user 65534 and makes itself dumpable again
 *   dropped-at-last             as dropped, after it was that user for a moment many times
 *   regained                    as root, after it was that user for a moment
 *   lowered                     waits for a lower priority, then does as dropped without writing
 *   contexts                    reads many SSTables one after the other, then many at once, each by a thread, and
 *                               closes them
 *   pause                       makes children of both kinds, which end, prints a line and sleeps
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    abort();
}

static int read_table(const char *path) {
    static char bytes[64 << 10];
    prctl(PR_SET_NAME, "rocksdb:low");
    int file = open(path, O_RDONLY);
    if (file < 0) {
        fail("open");
    }
    long offset = 0;
    for (ssize_t count; (count = pread(file, bytes, sizeof bytes, offset)) > 0;) {
        offset += count;
    }
    printf("%ld bytes\n", offset);
    return file;
}

/* Stays open. Large enough for a writer thread. */
static void write_table(const char *beside) {
    static char bytes[64 << 10];
    char path[4096];
    snprintf(path, sizeof path, "%.*s/%d.sst", (int)(strrchr(beside, '/') - beside), beside, getpid());
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (file < 0) {
        fail(path);
    }
    for (int part = 0; part < 64; ++part) {
        if (write(file, bytes, sizeof bytes) != sizeof bytes) {
            fail("write");
        }
    }
}

static void drop_privileges(void) {
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) {
        fail("setuid");
    }
    if (prctl(PR_SET_DUMPABLE, 1) != 0) {
        fail("dumpable");
    }
}

static void become_another_for_a_moment(void) {
    if (seteuid(65534) != 0 || seteuid(0) != 0) {
        fail("seteuid");
    }
}

static void wait_for_a_lower_priority(const char *path) {
    while (getpriority(PRIO_PROCESS, 0) == 0) {
        close(read_table(path));
        usleep(1000);
    }
}

static void sleep_for_ever(void) {
    printf("pause\n");
    fflush(stdout);
    for (;;) {
        pause();
    }
}

static void make_children(void) {
    pid_t forked = fork();
    if (forked == 0) {
        exit(0);
    }
    waitpid(forked, NULL, 0);
    forked = fork();
    if (forked == 0) {
        _exit(0);
    }
    waitpid(forked, NULL, 0);
    forked = vfork();
    if (forked == 0) {
        _exit(0);
    }
    waitpid(forked, NULL, 0);
}

enum { TABLES = 40, WINDOW = 64 << 10 };

/* What a thread reads: the descriptor and the number of windows. */
struct scan {
    int file;
    int windows;
};

static void *read_windows(void *argument) {
    const struct scan *scan = argument;
    char bytes[WINDOW / 4];
    prctl(PR_SET_NAME, "rocksdb:low");
    for (long offset = 0; offset < (long)scan->windows * WINDOW; offset += sizeof bytes) {
        if (pread(scan->file, bytes, sizeof bytes, offset) < 0) {
            fail("pread");
        }
    }
    return NULL;
}

/* Opens all SSTables beside the first, and reads so many windows of each by a thread, which ends. */
static void read_tables(const char *beside, int *files, int windows) {
    for (int number = 0; number < TABLES; ++number) {
        char path[4096];
        snprintf(path, sizeof path, "%.*s/%d.sst", (int)(strrchr(beside, '/') - beside), beside, 100 + number);
        files[number] = open(path, O_RDONLY);
        if (files[number] < 0) {
            fail(path);
        }
        struct scan scan = {files[number], windows};
        pthread_t thread;
        if (pthread_create(&thread, NULL, read_windows, &scan) != 0 || pthread_join(thread, NULL) != 0) {
            fail("thread");
        }
    }
}

static void close_tables(int *files) {
    for (int number = 0; number < TABLES; ++number) {
        close(files[number]);
    }
}

/* Prints a line, and waits until a file of that name appears beside the SSTable. */
static void say(const char *beside, const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(beside, '/') - beside), beside, what);
    puts(what);
    fflush(stdout);
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

static void use_contexts(const char *beside) {
    int files[TABLES];
    read_tables(beside, files, 1000);
    say(beside, "whole");
    close_tables(files);
    read_tables(beside, files, 3);
    say(beside, "partly");
    close_tables(files);
    sleep_for_ever();
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    int file = read_table(words[2]);
    if (strcmp(words[1], "secure") == 0) {
        printf("secure %lu\n", getauxval(AT_SECURE));
    }
    const char *way = words[1];
    if (strcmp(way, "exit") == 0) {
        exit(0);
    }
    if (strcmp(way, "_exit") == 0) {
        _exit(0);
    }
    if (strcmp(way, "_Exit") == 0) {
        _Exit(0);
    }
    if (strcmp(way, "quick_exit") == 0) {
        quick_exit(0);
    }
    if (strcmp(way, "thread") == 0) {
        pthread_exit(NULL);
    }
    if (strcmp(way, "killed") == 0) {
        raise(SIGKILL);
    }
    if (strcmp(way, "pause") == 0) {
        make_children();
        sleep_for_ever();
    }
    if (strcmp(way, "contexts") == 0) {
        use_contexts(words[2]);
    }
    if (strcmp(way, "write") == 0) {
        write_table(words[2]);
    }
    if (strcmp(way, "root") == 0) {
        write_table(words[2]);
        sleep_for_ever();
    }
    if (strcmp(way, "dropped") == 0) {
        write_table(words[2]);
        drop_privileges();
        sleep_for_ever();
    }
    if (strcmp(way, "dropped-at-last") == 0) {
        write_table(words[2]);
        for (int moment = 0; moment < 2000; ++moment) {
            become_another_for_a_moment();
        }
        drop_privileges();
        sleep_for_ever();
    }
    if (strcmp(way, "regained") == 0) {
        write_table(words[2]);
        become_another_for_a_moment();
        sleep_for_ever();
    }
    if (strcmp(way, "lowered") == 0) {
        wait_for_a_lower_priority(words[2]);
        drop_privileges();
        sleep_for_ever();
    }
    close(file);
    return 0;
}
