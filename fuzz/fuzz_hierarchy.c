/*
 * fuzz_hierarchy.c - mountinfo and cgroup files of any content.
 *
 * What stands before the first NUL of the input is /proc/self/cgroup, the rest is
 * /proc/self/mountinfo. Beside memory safety: there is always an answer; it is sound
 * (paths that begin with "/" and never lead up, nothing told of a mount that there is
 * not), it was really in the input, and a second look gives it again.
 */
#include "fuzz/fuzz.h"

#include "cgroup/hierarchy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fake_path[] = "/tmp/fuzz-hierarchy-XXXXXX";
static int fake_fd = -1;

static void remove_fake_proc(void)
{
    (void)unlinkat(fake_fd, "self/mountinfo", 0);
    (void)unlinkat(fake_fd, "self/cgroup", 0);
    (void)unlinkat(fake_fd, "self", AT_REMOVEDIR);
    (void)rmdir(fake_path);
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    int fd = openat(fake_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    SBX_MUST(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size));
    (void)close(fd);
}

/* A directory that stands for /proc, made at the first use. */
static void fill_fake_proc(const uint8_t *data, size_t size)
{
    if (fake_fd < 0) {
        SBX_MUST(mkdtemp(fake_path) != NULL);
        fake_fd = open(fake_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        SBX_MUST(fake_fd >= 0 && mkdirat(fake_fd, "self", 0700) == 0);
        SBX_MUST(atexit(remove_fake_proc) == 0);
    }
    const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t first = nul != NULL ? (size_t)(nul - data) : size;
    size_t skipped = nul != NULL ? first + 1 : size;
    write_file("self/cgroup", data, first);
    write_file("self/mountinfo", size > skipped ? data + skipped : data, size - skipped);
}

static bool leads_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")) != NULL; at++) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

static bool is_in(const uint8_t *data, size_t size, const char *text)
{
    return memmem(data, size, text, strlen(text)) != NULL;
}

static void check(const uint8_t *data, size_t size, const struct sbx_hierarchy *found)
{
    SBX_MUST(memchr(found->mount, '\0', sizeof(found->mount)) != NULL);
    SBX_MUST(memchr(found->own, '\0', sizeof(found->own)) != NULL);
    SBX_MUST(found->held_by_v1 < SBX_CONTROLLER_BIT(SBX_CONTROLLER_COUNT));
    if (found->kind == SBX_HIERARCHY_NONE) {
        SBX_MUST(found->mount[0] == '\0' && found->own[0] == '\0' && !found->read_only);
        return;
    }
    SBX_MUST(found->mount[0] == '/' && is_in(data, size, "cgroup2"));
    SBX_MUST(strpbrk(found->mount, " \n\t\\") != NULL ||
             is_in(data, size, found->mount) || is_in(data, size, "\\"));
    SBX_MUST(found->kind == SBX_HIERARCHY_PURE || found->kind == SBX_HIERARCHY_HYBRID);
    SBX_MUST(found->kind == SBX_HIERARCHY_HYBRID || found->held_by_v1 == 0);
    SBX_MUST(!found->read_only || is_in(data, size, "ro"));
    if (found->own[0] != '\0') {
        SBX_MUST(found->own[0] == '/' && !leads_up(found->own));
        SBX_MUST(strcmp(found->own, "/") == 0 || is_in(data, size, found->own));
        SBX_MUST(is_in(data, size, "0::/"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sbx_hierarchy first;
    static struct sbx_hierarchy second;
    fill_fake_proc(data, size);
    SBX_MUST(sbx_hierarchy_find(fake_fd, &first, NULL) == 0);
    SBX_MUST(sbx_hierarchy_find(fake_fd, &second, NULL) == 0);
    SBX_MUST(first.kind == second.kind && first.read_only == second.read_only &&
             first.held_by_v1 == second.held_by_v1 &&
             strcmp(first.mount, second.mount) == 0 &&
             strcmp(first.own, second.own) == 0);
    check(data, size, &first);
    return 0;
}
