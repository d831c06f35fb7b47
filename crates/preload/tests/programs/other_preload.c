// Another preload library: leads opens of one name to another file, and counts them.

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long opens;

static const char* led(const char* path) {
  const char* from = getenv("OTHER_FROM");
  if (from == NULL || strcmp(path, from) != 0) return path;
  opens++;
  return getenv("OTHER_TO");
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = va_arg(arguments, int);
  va_end(arguments);
  int (*next)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  return next(led(path), flags, mode);
}

__attribute__((destructor)) static void say(void) {
  if (getenv("OTHER_FROM") != NULL) printf("other library led %lu opens\n", opens);
}
