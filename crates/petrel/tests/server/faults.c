/* A disk that fails, for a process that has this loaded before its C library: drawn in faults.rs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECES_MAX 1024
#define FILES_MAX 256
#define BLOCK 4096

/* What is known of a file: how far it was written, and how far of that is on the disk. */
struct file {
    dev_t device;
    ino_t inode;
    off_t written, synced;
};

static struct file files[FILES_MAX];
static int files_len;
static int torn_calls;
static const char *control;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    char path[PATH_MAX];
    const char *told = getenv("PETREL_FAULTS");
    /* The environment's memory is overwritten by the title of the process. */
    control = told == NULL ? NULL : strdup(told);
    if (control == NULL) return;
    snprintf(path, sizeof path, "%s.loaded", control);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0) close(fd);
}

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

static struct file *file_of(int fd) {
    struct stat stat;
    if (control == NULL || fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) return NULL;
    for (int i = 0; i < files_len; i++)
        if (files[i].device == stat.st_dev && files[i].inode == stat.st_ino) return &files[i];
    if (files_len == FILES_MAX) return NULL;
    files[files_len] = (struct file){stat.st_dev, stat.st_ino, 0, 0};
    return &files[files_len++];
}

static int is_directory(int fd) {
    struct stat stat;
    return control != NULL && fstat(fd, &stat) == 0 && S_ISDIR(stat.st_mode);
}

/* Whether this is what is to fail of such a file now, or of one with this path: the call that has been made so often since it was to
   fail, and all behind it. */
static int fails_at(int fd, const char *given, const char *what) {
    static int calls;
    char wanted[32], part[128], link[64], path[PATH_MAX];
    int spared = 0;
    FILE *in = fopen(control, "re");
    if (in == NULL) return calls = 0;
    int read = fscanf(in, "%31s %127s %d", wanted, part, &spared);
    fclose(in);
    if (read < 2 || strcmp(wanted, what) != 0) return 0;
    if (given == NULL) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, path, sizeof path - 1);
        if (len < 0) return 0;
        path[len] = 0;
        given = path;
    }
    return strstr(given, part) != NULL && calls++ >= spared;
}

static int fails(int fd, const char *what) {
    return fails_at(fd, NULL, what);
}

/* Writes at a position, or, if that is negative, at the file's own. */
static ssize_t real_write(int fd, const struct iovec *pieces, int count, off_t at) {
    if (at < 0) {
        ssize_t (*call)(int, const struct iovec *, int) = next("writev");
        return call(fd, pieces, count);
    }
    ssize_t (*call)(int, const struct iovec *, int, off_t) = next("pwritev");
    return call(fd, pieces, count, at);
}

/* The first half, of which a file that is written directly takes whole blocks. */
static ssize_t write_half(int fd, const struct iovec *pieces, int count, off_t at) {
    struct iovec some[PIECES_MAX];
    size_t all = 0;
    for (int i = 0; i < count; i++) all += pieces[i].iov_len;
    size_t left = all > 1 ? all / 2 : all;
    if (fcntl(fd, F_GETFL) & O_DIRECT) left = left < BLOCK ? all : left - left % BLOCK;
    int used = 0;
    for (; used < count && used < PIECES_MAX && left > 0; used++) {
        some[used] = pieces[used];
        if (some[used].iov_len > left) some[used].iov_len = left;
        left -= some[used].iov_len;
    }
    return real_write(fd, some, used, at);
}

static ssize_t put(int fd, const struct iovec *pieces, int count, off_t at) {
    pthread_mutex_lock(&guard);
    struct file *file = file_of(fd);
    ssize_t len;
    if (file == NULL) {
        pthread_mutex_unlock(&guard);
        return real_write(fd, pieces, count, at);
    }
    if (fails(fd, "write")) {
        errno = EIO;
        len = -1;
    } else if (fails(fd, "full") || (fails(fd, "torn") && torn_calls++ % 2 == 1)) {
        errno = ENOSPC;
        len = -1;
    } else if (fails(fd, "short") || fails(fd, "torn")) {
        len = write_half(fd, pieces, count, at);
    } else {
        len = real_write(fd, pieces, count, at);
    }
    int error = errno;
    if (len > 0) {
        off_t end = at < 0 ? lseek(fd, 0, SEEK_CUR) : at + len;
        file->written = end;
        if (file->synced > end - len) file->synced = end - len;
    }
    pthread_mutex_unlock(&guard);
    errno = error;
    return len;
}

/* What was not synced is lost, as it is when a disk refuses pages that the system has noted as written. */
static void lose(int fd, struct file *file) {
    static const char zeros[BLOCK];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int other = open(link, O_WRONLY | O_CLOEXEC);
    if (other < 0) return;
    for (off_t at = file->synced; at < file->written; at += BLOCK) {
        off_t left = file->written - at;
        struct iovec piece = {(void *)zeros, left < BLOCK ? left : BLOCK};
        if (real_write(other, &piece, 1, at) < 0) break;
    }
    close(other);
}

static int sync_by(int fd, const char *name) {
    int (*call)(int) = next(name);
    pthread_mutex_lock(&guard);
    struct file *file = file_of(fd);
    if (is_directory(fd) && fails(fd, "names")) {
        pthread_mutex_unlock(&guard);
        errno = EIO;
        return -1;
    }
    if (file != NULL && fails(fd, "sync")) {
        lose(fd, file);
        pthread_mutex_unlock(&guard);
        errno = EIO;
        return -1;
    }
    off_t written = file ? file->written : 0;
    int is_slow = file != NULL && fails(fd, "slow");
    pthread_mutex_unlock(&guard);
    for (int tenths = 0; is_slow && tenths < 600; tenths++) {
        usleep(100000);
        pthread_mutex_lock(&guard);
        is_slow = fails(fd, "slow");
        pthread_mutex_unlock(&guard);
    }
    int result = call(fd);
    pthread_mutex_lock(&guard);
    if (file != NULL && result == 0) file->synced = file->written < written ? file->written : written;
    pthread_mutex_unlock(&guard);
    return result;
}

static int cut_by(int fd, off_t len, const char *name) {
    int (*call)(int, off_t) = next(name);
    pthread_mutex_lock(&guard);
    struct file *file = file_of(fd);
    if (file != NULL && file->written > len) file->written = len;
    if (file != NULL && file->synced > len) file->synced = len;
    pthread_mutex_unlock(&guard);
    return call(fd, len);
}

int mkdir(const char *path, mode_t mode) {
    int (*call)(const char *, mode_t) = next("mkdir");
    struct stat stat;
    pthread_mutex_lock(&guard);
    /* One that is there needs no room. */
    int is_full = control != NULL && lstat(path, &stat) != 0 && fails_at(-1, path, "full");
    pthread_mutex_unlock(&guard);
    if (!is_full) return call(path, mode);
    errno = ENOSPC;
    return -1;
}

int fsync(int fd) { return sync_by(fd, "fsync"); }
int fdatasync(int fd) { return sync_by(fd, "fdatasync"); }
int ftruncate(int fd, off_t len) { return cut_by(fd, len, "ftruncate"); }
int ftruncate64(int fd, off_t len) { return cut_by(fd, len, "ftruncate64"); }

ssize_t write(int fd, const void *bytes, size_t len) {
    struct iovec piece = {(void *)bytes, len};
    return put(fd, &piece, 1, -1);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) { return put(fd, pieces, count, -1); }

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    struct iovec piece = {(void *)bytes, len};
    return put(fd, &piece, 1, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at) { return pwrite(fd, bytes, len, at); }
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) { return put(fd, pieces, count, at); }
ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off_t at) { return put(fd, pieces, count, at); }

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    (void)flags;
    return put(fd, pieces, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    (void)flags;
    return put(fd, pieces, count, at);
}
