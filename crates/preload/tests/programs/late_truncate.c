// Another preload library, behind Coldstream: another thread writes to a table before the kernel truncates it, or
// after that if there is a variable WRITE_LATE.

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void* append(void* file) {
  static const char bytes[3000] = {1};
  if (write(*(int*)file, bytes, sizeof bytes) != sizeof bytes) {
    abort();
  }
  return NULL;
}

static void append_meanwhile(int file) {
  pthread_t thread;
  pthread_create(&thread, NULL, append, &file);
  pthread_join(thread, NULL);
}

int ftruncate(int file, off_t bytes) {
  int (*next)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate");
  int is_late = getenv("WRITE_LATE") != NULL;
  if (!is_late) {
    append_meanwhile(file);
  }
  int result = next(file, bytes);
  if (is_late) {
    append_meanwhile(file);
  }
  return result;
}
