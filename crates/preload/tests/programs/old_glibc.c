/* A `dlsym` as of an old glibc: whoever asks for the next definition does not find what 2.18 and later brought. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char *const LACKING[] = {
    "_Fork",    "close_range", "copy_file_range", "execveat", "fcntl64",   "fstat",     "fstat64",
    "fstatat",  "fstatat64",   "fts64_children",  "fts64_open", "fts64_read", "lstat",  "lstat64",
    "preadv2",  "preadv64v2",  "pwritev2",        "pwritev64v2", "renameat2", "stat",   "stat64",
    "statx",
};

#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

void *dlsym(void *handle, const char *name) {
    void *(*real)(void *, const char *) =
        (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", OLDEST);
    if (handle != RTLD_NEXT) {
        return real(handle, name);
    }
    for (size_t number = 0; number < sizeof LACKING / sizeof *LACKING; number++) {
        if (strcmp(name, LACKING[number]) == 0) {
            return NULL;
        }
    }
    /* Behind the caller, not behind this library. */
    return real(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name);
}
