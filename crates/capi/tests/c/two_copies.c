/* two_copies SHARED_LIBRARY: starts the engine that is linked in, then the one of a library that is loaded. Says what
   the second one answers. */
#include <coldstream.h>
#include <dlfcn.h>
#include <stdio.h>

typedef int32_t (*create_function)(const char *, coldstream **, char *, size_t);

int main(int argc, char **argv) {
  coldstream *own, *other;
  char why[256];
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  create_function create = library ? (create_function)dlsym(library, "coldstream_create") : NULL;
  if (!create || coldstream_create(NULL, &own, why, sizeof why) != 0) return 2;
  printf("%d: ", create("", &other, why, sizeof why));
  printf("%s\n", why);
  printf("%d: ", coldstream_create("", &other, why, sizeof why));
  printf("%s\n", why);
  printf("%d: ", coldstream_create(NULL, NULL, why, sizeof why));
  printf("%s\n", why);
  return 0;
}
