/*
 * corpus_main.c - a fuzzer without libFuzzer: calls it once for each file named on the
 * command line and each file in a directory named there. Fails when there was no file.
 */
#include "fuzz/fuzz.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX ((size_t)1024 * 1024)

static int try_file(int directory, const char *name)
{
    SBX_AUTO_CLOSE int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    SBX_AUTO_FREE uint8_t *data = malloc(INPUT_MAX);
    if (fd < 0 || data == NULL) {
        return -errno;
    }
    ssize_t length = read(fd, data, INPUT_MAX);
    if (length < 0) {
        return -errno;
    }
    /* In memory of its own size, so that a sanitizer sees a read behind its end. */
    SBX_AUTO_FREE uint8_t *input = malloc((size_t)length + (length == 0));
    if (input == NULL) {
        return -ENOMEM;
    }
    memcpy(input, data, (size_t)length);
    (void)LLVMFuzzerTestOneInput(input, (size_t)length);
    return 0;
}

static int try_directory(const char *path, unsigned *count)
{
    SBX_AUTO_CLOSEDIR DIR *directory = opendir(path);
    if (directory == NULL) {
        return -errno;
    }
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        int result = try_file(dirfd(directory), entry->d_name);
        if (result < 0) {
            return result;
        }
        (*count)++;
    }
    return 0;
}

static int try_path(const char *path, unsigned *count)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return try_directory(path, count);
    }
    int result = try_file(AT_FDCWD, path);
    *count += result == 0 ? 1 : 0;
    return result;
}

int main(int argc, char *argv[])
{
    unsigned count = 0;
    for (int i = 1; i < argc; i++) {
        int result = try_path(argv[i], &count);
        if (result < 0) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], strerror(-result));
            return EXIT_FAILURE;
        }
    }
    (void)printf("%u inputs tried\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
