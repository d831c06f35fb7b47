/* Sends an SSTable like a stream of Cassandra: sends FILE TO
 *
 * A thread with the name of a streaming thread sends all of FILE by sendfile. If TO is "-", it sends 1 MiB at a
 * time to a nonblocking socket that another thread reads. Else it sends to the file TO in a single call.
 * After 20 MiB to the socket the first thread reads seven pages at 18 MiB.
 * Prints a checksum of the received bytes, and the maximum of resident pages of FILE.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

static const char *path;
static const char *to;
static int sockets[2];
static sem_t reached, go_on;
static unsigned long sum, pages_max;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void add(const unsigned char *bytes, ssize_t length) {
    for (ssize_t at = 0; at < length; at++) {
        sum = sum * 31 + bytes[at];
    }
}

static void look_at_the_page_cache(int file) {
    unsigned long range[2] = {0, 0}, found[5] = {0};
    if (syscall(SYS_cachestat, file, range, found, 0) == 0 && found[0] > pages_max) {
        pages_max = found[0];
    }
}

static void *receive(void *unused) {
    static unsigned char bytes[1 << 16];
    ssize_t length;
    while ((length = read(sockets[1], bytes, sizeof bytes)) > 0) {
        add(bytes, length);
    }
    return unused;
}

static void send_to_socket(int file, off_t size) {
    int has_waited = 0;
    for (off_t position = 0; position < size;) {
        off_t left = size - position;
        ssize_t sent = sendfile(sockets[0], file, &position, left < 1 << 20 ? left : 1 << 20);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd one = {sockets[0], POLLOUT, 0};
            poll(&one, 1, -1);
        } else if (sent <= 0) {
            fail("sendfile");
        }
        look_at_the_page_cache(file);
        if (!has_waited && position >= 20 << 20) {
            has_waited = 1;
            sem_post(&reached);
            sem_wait(&go_on);
        }
    }
}

static void *stream(void *unused) {
    prctl(PR_SET_NAME, "Streaming-Event");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        fail(path);
    }
    if (strcmp(to, "-") == 0) {
        pthread_t receiver;
        pthread_create(&receiver, NULL, receive, NULL);
        send_to_socket(file, status.st_size);
        shutdown(sockets[0], SHUT_WR);
        pthread_join(receiver, NULL);
    } else {
        int copy = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        off_t position = 0;
        if (copy < 0 || sendfile(copy, file, &position, status.st_size) != status.st_size) {
            fail(to);
        }
        static unsigned char bytes[1 << 16];
        ssize_t length;
        for (off_t at = 0; (length = pread(copy, bytes, sizeof bytes, at)) > 0; at += length) {
            add(bytes, length);
        }
        look_at_the_page_cache(file);
        sem_post(&reached);
        sem_wait(&go_on);
    }
    close(file);
    return unused;
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    path = arguments[1];
    to = arguments[2];
    sem_init(&reached, 0, 0);
    sem_init(&go_on, 0, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0 ||
        fcntl(sockets[0], F_SETFL, O_NONBLOCK) != 0) {
        fail("socketpair");
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    pthread_t streamer;
    pthread_create(&streamer, NULL, stream, NULL);
    sem_wait(&reached);
    for (int page = 0; page < 7; page++) {
        unsigned char bytes[4096];
        if (pread(file, bytes, sizeof bytes, (18 << 20) + page * 4096) != sizeof bytes) {
            fail("pread");
        }
    }
    sem_post(&go_on);
    pthread_join(streamer, NULL);
    printf("%lu %lu\n", sum, pages_max);
    return 0;
}
