/* Runs a program like a container engine does: container PROGRAM...
 *
 * With the engine's filter of system calls (profile.h, made from a list in tests/matrix/profiles/), and for root with
 * the capabilities of a container only.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers of older kernels lack it. */
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

#ifdef __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_X86_64
#endif

static struct sock_filter filter[4096];
static unsigned short length;
static unsigned otherwise;

static void add(struct sock_filter instruction) { filter[length++] = instruction; }

static void load(size_t offset) {
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void answer(unsigned what) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)); }

/* Skips `instructions` if the loaded value is another one. */
static void skip_unless(unsigned value, unsigned char instructions) {
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions));
}

#define DEFAULT(error) otherwise = SECCOMP_RET_ERRNO | (error);
#define ERROR(number, error)  \
    skip_unless((number), 1); \
    answer(SECCOMP_RET_ERRNO | (error));
#define ALLOW(number)         \
    skip_unless((number), 1); \
    answer(SECCOMP_RET_ALLOW);
#define UNLESS(number, bits)                                                                \
    skip_unless((number), 4);                                                               \
    load(offsetof(struct seccomp_data, args[0]));                                           \
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1));            \
    answer(otherwise);                                                                      \
    answer(SECCOMP_RET_ALLOW);

static void make_filter(void) {
    load(offsetof(struct seccomp_data, arch));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
    answer(SECCOMP_RET_ALLOW);
    load(offsetof(struct seccomp_data, nr));
#include "profile.h"
    answer(otherwise);
}

/* Docker's; containerd has the same. */
static const unsigned char capabilities[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FSETID,  CAP_FOWNER,  CAP_MKNOD,
    CAP_NET_RAW, CAP_SETGID,      CAP_SETUID,  CAP_SETFCAP, CAP_SETPCAP,
    CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL, CAP_AUDIT_WRITE,
};

static void drop_capabilities(void) {
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        int is_kept = 0;
        for (size_t place = 0; place < sizeof capabilities; place++) {
            is_kept |= capabilities[place] == capability;
        }
        if (!is_kept) {
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
    }
}

int main(int count, char **words) {
    if (count < 2) {
        return 100;
    }
    make_filter();
    drop_capabilities();
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("container");
        return 101;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 102;
}
