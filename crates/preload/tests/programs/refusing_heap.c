// A preload library that refuses memory to libcoldstream.so, and to nobody else.
//
// The requests of libcoldstream.so are counted, in all processes together, in the file that REFUSE_COUNT names.
// Those from REFUSE_FROM to REFUSE_TO get no memory. The first request is number 1.

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// glibc's own allocator, by its second names.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

enum { UNKNOWN, BUSY, KNOWN };

static atomic_int state;
static uintptr_t start, end;
static uint64_t from, to;
static _Atomic uint64_t own_count, *count = &own_count;

// Where libcoldstream.so is mapped. Neither allocates nor makes an interposed call.
static void find_library(void) {
  static char text[1 << 16];
  size_t length = 0;
  long got, maps = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY, 0);
  while (length < sizeof text - 1 &&
         (got = syscall(SYS_read, maps, text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)got;
  syscall(SYS_close, maps);
  for (char *line = text; line != NULL && *line != 0;) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = 0;
    if (strstr(line, "/libcoldstream.so") != NULL) {
      char *behind;
      uintptr_t low = strtoull(line, &behind, 16), high = strtoull(behind + 1, NULL, 16);
      if (start == 0) start = low;
      end = high;
    }
    line = next;
  }
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *value = getenv(name);
  return value != NULL ? strtoull(value, NULL, 10) : otherwise;
}

static void prepare(void) {
  find_library();
  from = number("REFUSE_FROM", UINT64_MAX);
  to = number("REFUSE_TO", UINT64_MAX);
  const char *path = getenv("REFUSE_COUNT");
  if (path == NULL) return;
  long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR, 0);
  void *page = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  syscall(SYS_close, file);
  if (page != MAP_FAILED) count = page;
}

static int is_refused(void *caller) {
  int unknown = UNKNOWN;
  if (atomic_compare_exchange_strong(&state, &unknown, BUSY)) {
    int before = errno;
    prepare();
    errno = before;
    atomic_store(&state, KNOWN);
  }
  uintptr_t address = (uintptr_t)caller;
  if (atomic_load(&state) != KNOWN || address < start || address >= end) return 0;
  uint64_t request = atomic_fetch_add(count, 1) + 1;
  if (request < from || request > to) return 0;
  errno = ENOMEM;
  return 1;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

void *malloc(size_t bytes) { return is_refused(CALLER) ? NULL : __libc_malloc(bytes); }

void *calloc(size_t items, size_t bytes) {
  return is_refused(CALLER) ? NULL : __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes) {
  return is_refused(CALLER) ? NULL : __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
  return is_refused(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  return is_refused(CALLER) ? NULL : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  if (is_refused(CALLER)) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory != NULL ? 0 : ENOMEM;
}

void free(void *memory) { __libc_free(memory); }
