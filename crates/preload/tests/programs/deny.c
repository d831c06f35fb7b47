/* Runs a program whose system calls NUMBER fail: deny NUMBER ERRNO [MASK] -- PROGRAM...
 * With "kill" as ERRNO, such a call kills the process.
 * With MASK, only calls fail whose third argument has all of its bits set (the flags of openat).
 * Unlike a tracer it works for calls that the tracer does not know, and at full speed. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 5) return 100;
    unsigned number = strtoul(argv[1], NULL, 0);
    unsigned error = strtoul(argv[2], NULL, 0);
    unsigned verdict = strcmp(argv[2], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
                                                    : SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA);
    unsigned mask = 0;
    int place = 3;
    if (strcmp(argv[place], "--") != 0) mask = strtoul(argv[place++], NULL, 0);
    place++;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("deny");
        return 101;
    }
    execvp(argv[place], argv + place);
    perror(argv[place]);
    return 102;
}
