/*
 * Makes a sync fail on request. The file that FAIL_SYNCS names contains the end of a path: the next sync of a file with
 * such a path fails with EIO, and the file of FAIL_SYNCS is removed. This library is preloaded into Node, where it
 * replaces functions of the C library for SQLite and libuv.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int ends_as(const char *path, const char *end) {
  size_t length = strlen(path), end_length = strlen(end);
  return end_length > 0 && end_length <= length && strcmp(path + length - end_length, end) == 0;
}

/* Returns whether this sync has to fail. */
static int fails(int fd) {
  const char *order = getenv("FAIL_SYNCS");
  if (order == NULL || access(order, R_OK) != 0) return 0;
  char link[64], path[4096], end[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  pthread_mutex_lock(&lock);
  int file = open(order, O_RDONLY | O_CLOEXEC);
  length = file < 0 ? -1 : read(file, end, sizeof end - 1);
  if (file >= 0) close(file);
  int is_it = 0;
  if (length > 0) {
    end[length] = 0;
    is_it = ends_as(path, end) && unlink(order) == 0;
  }
  pthread_mutex_unlock(&lock);
  return is_it;
}

typedef int (*sync_type)(int);

static int synced(const char *name, int fd) {
  if (fails(fd)) {
    errno = EIO;
    return -1;
  }
  return ((sync_type)dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return synced("fsync", fd); }

int fdatasync(int fd) { return synced("fdatasync", fd); }
