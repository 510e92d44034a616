/*
 * Records the writes of a process below a folder, and the syncs that it waits for, in their order. This library is
 * preloaded into Node, where it replaces functions of the C library for SQLite and libuv. Each record is
 * kind u8, length of the path u16, path, offset u64, length of the data u32, data.
 *
 * If the file that FAIL_SYNC names exists, the next sync of a write-ahead file fails, and the file of FAIL_SYNC is
 * removed. As on Linux, the system then considers the earlier writes as written, although the disk does not have them.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int journal(void) {
  static int file = -1;
  if (file < 0) file = open(getenv("RECORD_TO"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  return file;
}

static int is_ours(const char *path) {
  const char *below = getenv("RECORD_BELOW");
  return below != NULL && strncmp(path, below, strlen(below)) == 0;
}

static int path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, 4095);
  if (length < 0) return 0;
  path[length] = 0;
  return is_ours(path);
}

static void record(char kind, const char *path, uint64_t at, const void *data, uint32_t length) {
  uint16_t path_length = strlen(path);
  struct iovec parts[] = {{&kind, 1},    {&path_length, 2}, {(void *)path, path_length},
                          {&at, 8},      {&length, 4},      {(void *)data, length}};
  if (syscall(SYS_writev, journal(), parts, 6) < 0) abort();
}

#define REAL(name, type) \
  static type real;      \
  if (real == NULL) real = (type)dlsym(RTLD_NEXT, name)

typedef ssize_t (*pwrite_type)(int, const void *, size_t, off_t);
typedef ssize_t (*write_type)(int, const void *, size_t);
typedef int (*sync_type)(int);
typedef int (*truncate_type)(int, off_t);
typedef int (*two_paths_type)(const char *, const char *);
typedef int (*one_path_type)(const char *);

static ssize_t recorded_pwrite(pwrite_type real, int fd, const void *data, size_t n, off_t at) {
  char path[4096];
  if (!path_of(fd, path)) return real(fd, data, n, at);
  pthread_mutex_lock(&lock);
  ssize_t written = real(fd, data, n, at);
  if (written > 0) record('w', path, at, data, written);
  pthread_mutex_unlock(&lock);
  return written;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
  REAL("pwrite", pwrite_type);
  return recorded_pwrite(real, fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {
  REAL("pwrite64", pwrite_type);
  return recorded_pwrite(real, fd, data, n, at);
}

ssize_t write(int fd, const void *data, size_t n) {
  REAL("write", write_type);
  char path[4096];
  if (!path_of(fd, path)) return real(fd, data, n);
  pthread_mutex_lock(&lock);
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t written = real(fd, data, n);
  if (written > 0) record('w', path, at, data, written);
  pthread_mutex_unlock(&lock);
  return written;
}

static int is_to_fail(const char *path) {
  const char *order = getenv("FAIL_SYNC");
  size_t length = strlen(path);
  if (order == NULL || length < 4 || strcmp(path + length - 4, "-wal") != 0) return 0;
  return syscall(SYS_unlinkat, AT_FDCWD, order, 0) == 0;
}

static int recorded_sync(sync_type real, int fd) {
  char path[4096];
  if (!path_of(fd, path)) return real(fd);
  pthread_mutex_lock(&lock);
  if (is_to_fail(path)) {
    record('e', path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = EIO;
    return -1;
  }
  int result = real(fd);
  if (result == 0) record('s', path, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

int fsync(int fd) {
  REAL("fsync", sync_type);
  return recorded_sync(real, fd);
}

int fdatasync(int fd) {
  REAL("fdatasync", sync_type);
  return recorded_sync(real, fd);
}

static int recorded_truncate(truncate_type real, int fd, off_t length) {
  char path[4096];
  if (!path_of(fd, path)) return real(fd, length);
  pthread_mutex_lock(&lock);
  int result = real(fd, length);
  if (result == 0) record('t', path, length, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}

int ftruncate(int fd, off_t length) {
  REAL("ftruncate", truncate_type);
  return recorded_truncate(real, fd, length);
}

int ftruncate64(int fd, off_t length) {
  REAL("ftruncate64", truncate_type);
  return recorded_truncate(real, fd, length);
}

int rename(const char *from, const char *to) {
  REAL("rename", two_paths_type);
  pthread_mutex_lock(&lock);
  int result = real(from, to);
  if (result == 0 && is_ours(from)) record('r', from, 0, to, strlen(to));
  pthread_mutex_unlock(&lock);
  return result;
}

int unlink(const char *path) {
  REAL("unlink", one_path_type);
  pthread_mutex_lock(&lock);
  int result = real(path);
  if (result == 0 && is_ours(path)) record('u', path, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
