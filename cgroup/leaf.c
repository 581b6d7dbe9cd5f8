/*
 * leaf.c - see leaf.h: the making of a leaf, its limits, its state, its end. How groups
 * below it are walked and taken away is in leaf_tree.c, what becomes of leaves whose runs
 * are gone in leaf_stale.c.
 */
#include "cgroup/leaf.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/leaf_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define UNKNOWN UINT64_MAX
#define NAME_TRIES 1000
#define CPU_PERIOD_US UINT64_C(100000)
#define LOOK_NS 200000L
#define SCOPE_DIGITS 16
/* The kernel refuses more for pids.max, and has no more pids (PID_MAX_LIMIT). */
#define PIDS_MAX UINT64_C(4194304)

/* --- names --- */

/* FNV-1a: not against anybody who tries, only against chance. */
static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* What a link of /proc/self/ns says: "pid:[4026531836]". */
static uint64_t mix_link(uint64_t hash, const char *path)
{
    char text[64];
    ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return mix(hash, text);
}

int sbx_leaf_scope(uint64_t *ret_scope)
{
    char boot[64];
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id",
                                         boot, sizeof boot);
    if (length < 0) {
        return (int)length;
    }
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), boot);
    hash = mix_link(hash, "/proc/self/ns/pid");
    *ret_scope = mix_link(hash, "/proc/self/ns/time");
    return 0;
}

/* "-" and a number in its one spelling: no sign, no leading zero. */
static bool parse_number(const char **text, uint64_t *ret_number)
{
    char *end = NULL;
    const char *digits = *text + 1;
    if (**text != '-' || *digits < '0' || *digits > '9' ||
        (*digits == '0' && digits[1] >= '0' && digits[1] <= '9')) {
        return false;
    }
    errno = 0;
    *ret_number = strtoull(digits, &end, 10);
    *text = end;
    return errno == 0;
}

static bool parse_scope(const char **text, uint64_t *ret_scope)
{
    if (strspn(*text, "0123456789abcdef") != SCOPE_DIGITS) {
        return false;
    }
    *ret_scope = strtoull(*text, NULL, 16);
    *text += SCOPE_DIGITS;
    return true;
}

bool sbx_leaf_parse_name(const char *name, struct sbx_leaf_name *ret_name)
{
    uint64_t pid = 0;
    uint64_t number = 0;
    struct sbx_leaf_name parsed = {0};
    if (strncmp(name, "sbx-", 4) != 0) {
        return false;
    }
    name += 4;
    if (!parse_scope(&name, &parsed.scope) || !parse_number(&name, &pid) ||
        !parse_number(&name, &parsed.start_ticks) || !parse_number(&name, &number) ||
        *name != '\0' || pid == 0 || pid > INT32_MAX) {
        return false;
    }
    parsed.pid = (pid_t)pid;
    *ret_name = parsed;
    return true;
}

bool sbx_leaf_is_name(const char *name)
{
    struct sbx_leaf_name ignored;
    return sbx_leaf_parse_name(name, &ignored);
}

/* --- making --- */

static int failed(struct sbx_error *err, int code, const char *what, const char *name)
{
    return sbx_error_set(err, code, SBX_STAGE_ARM, "%s the group %s: %s", what, name,
                         sbx_errno_text(code).text);
}

/* One that is not in the way of the standard streams. */
static int open_directory(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fd > STDERR_FILENO) {
        return fd < 0 ? -errno : fd;
    }
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    (void)close(fd);
    return above < 0 ? -code : above;
}

int sbx_leaf_make(const struct sbx_place *place, const struct sbx_owner *owner,
                  struct sbx_leaf *ret_leaf, struct sbx_error *err)
{
    static unsigned counter;
    struct sbx_leaf leaf = {.fd = -1};
    uint64_t scope = 0;
    int r = sbx_leaf_scope(&scope);
    if (r < 0) {
        return failed(err, -r, "name", "of the run");
    }
    for (int i = 0; i < NAME_TRIES; i++) {
        (void)snprintf(leaf.name, sizeof leaf.name,
                       "sbx-%016" PRIx64 "-%d-%" PRIu64 "-%u", scope, (int)owner->pid,
                       owner->start_ticks, ++counter);
        if (mkdirat(place->fd, leaf.name, 0755) == 0) {
            break;
        }
        if (errno != EEXIST || i == NAME_TRIES - 1) {
            return failed(err, errno, "make", leaf.name);
        }
    }
    leaf.fd = open_directory(place->fd, leaf.name);
    if (leaf.fd < 0) {
        int code = -leaf.fd;
        (void)unlinkat(place->fd, leaf.name, AT_REMOVEDIR);
        return failed(err, code, "open", leaf.name);
    }
    /* A second witness beside the owner's life: if somebody else holds the lock, that one
     * has to do. */
    (void)flock(leaf.fd, LOCK_SH | LOCK_NB);
    char controllers[1024];
    ssize_t length = sbx_fd_read_text_at(leaf.fd, "cgroup.controllers", controllers,
                                         sizeof controllers);
    leaf.controllers = length > 0 ? sbx_controllers_parse(controllers) : 0;
    *ret_leaf = leaf;
    return 0;
}

/* --- limits --- */

static int write_file(int leaf_fd, const char *file, const char *text)
{
    SBX_AUTO_CLOSE int fd = openat(leaf_fd, file, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sbx_fd_write_all(fd, text, strlen(text));
}

#define BACK_SIZE 64

/* Writes it and reads it back. 0 or a negative errno, stage arm. */
static int set_text(const struct sbx_leaf *leaf, const char *file, const char *text,
                    char back[static BACK_SIZE], struct sbx_error *err)
{
    int r = write_file(leaf->fd, file, text);
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_ARM, "write %s to %s of the group %s: %s",
                             text, file, leaf->name, sbx_errno_text(-r).text);
    }
    ssize_t length = sbx_fd_read_text_at(leaf->fd, file, back, BACK_SIZE);
    if (length < 0) {
        return sbx_error_set(err, (int)-length, SBX_STAGE_ARM,
                             "read %s of the group %s back: %s", file, leaf->name,
                             sbx_errno_text((int)-length).text);
    }
    back[strcspn(back, "\n")] = '\0';
    return 0;
}

static int unlike(const struct sbx_leaf *leaf, const char *file, const char *text,
                  const char *back, struct sbx_error *err)
{
    char shown[64];
    (void)sbx_text_escape(shown, sizeof shown, back, strlen(back));
    return sbx_error_set(err, EIO, SBX_STAGE_ARM,
                         "%s of the group %s: wrote %s, but %s was read back", file,
                         leaf->name, text, shown);
}

struct number_file {
    const char *name;
    uint64_t unit; /* the kernel may round down to a multiple of it */
};

/* What is too large to be counted reads back as max, which is just as far away. */
static int set_number(const struct sbx_leaf *leaf, struct number_file file,
                      uint64_t number, uint64_t *ret_back, struct sbx_error *err)
{
    char text[32];
    char back[BACK_SIZE];
    uint64_t value = 0;
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    int r = set_text(leaf, file.name, text, back, err);
    if (r < 0) {
        return r;
    }
    if (strcmp(back, "max") == 0 && number >= (uint64_t)INT64_MAX - file.unit) {
        *ret_back = number;
        return 0;
    }
    if (sbx_text_count(back, &value) < 0 || value > number ||
        number - value >= file.unit) {
        return unlike(leaf, file.name, text, back, err);
    }
    *ret_back = value;
    return 0;
}

static bool has_file(const struct sbx_leaf *leaf, const char *file)
{
    return faccessat(leaf->fd, file, F_OK, 0) == 0;
}

static bool host_has_swap(void)
{
    struct sysinfo host;
    return sysinfo(&host) < 0 || host.totalswap > 0;
}

/* Without its swap bounded too, a group that is over its limit goes there. */
static int arm_memory(const struct sbx_leaf *leaf, const struct sbx_leaf_limits *asked,
                      struct sbx_leaf_limits *armed, struct sbx_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char back[BACK_SIZE];
    uint64_t swap = asked->swap_bytes == UNKNOWN ? 0 : asked->swap_bytes;
    int r = 0;
    if (has_file(leaf, "memory.swap.max")) {
        const struct number_file file = {"memory.swap.max", page};
        r = set_number(leaf, file, swap, &armed->swap_bytes, err);
    } else if (host_has_swap()) {
        return sbx_error_set(err, ENOENT, SBX_STAGE_ARM,
                             "no memory.swap.max in the group %s: swap is not accounted",
                             leaf->name);
    } else if (swap == 0) {
        armed->swap_bytes = 0;
    }
    if (r == 0) {
        const struct number_file file = {"memory.max", page};
        r = set_number(leaf, file, asked->memory_bytes, &armed->memory_bytes, err);
    }
    if (r == 0 && asked->group_kill && has_file(leaf, "memory.oom.group")) {
        r = set_text(leaf, "memory.oom.group", "1", back, err);
        if (r == 0 && strcmp(back, "1") != 0) {
            r = unlike(leaf, "memory.oom.group", "1", back, err);
        }
        armed->group_kill = r == 0;
    }
    return r;
}

static int arm_threads(const struct sbx_leaf *leaf, uint64_t count, uint64_t *ret_count,
                       struct sbx_error *err)
{
    char back[BACK_SIZE];
    if (count <= PIDS_MAX) {
        const struct number_file file = {"pids.max", 1};
        return set_number(leaf, file, count, ret_count, err);
    }
    int r = set_text(leaf, "pids.max", "max", back, err);
    if (r == 0 && strcmp(back, "max") != 0) {
        r = unlike(leaf, "pids.max", "max", back, err);
    }
    if (r == 0) {
        *ret_count = count;
    }
    return r;
}

static int arm_cpu(const struct sbx_leaf *leaf, uint64_t percent, uint64_t *ret_percent,
                   struct sbx_error *err)
{
    char text[64];
    char back[BACK_SIZE];
    if (percent > UINT32_MAX) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_ARM,
                             "cpu.max of the group %s: %" PRIu64 " percent is too much",
                             leaf->name, percent);
    }
    (void)snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64,
                   percent * (CPU_PERIOD_US / 100), CPU_PERIOD_US);
    int r = set_text(leaf, "cpu.max", text, back, err);
    if (r == 0 && strcmp(text, back) != 0) {
        r = unlike(leaf, "cpu.max", text, back, err);
    }
    if (r == 0) {
        *ret_percent = percent;
    }
    return r;
}

int sbx_leaf_arm(const struct sbx_leaf *leaf, const struct sbx_leaf_limits *asked,
                 struct sbx_leaf_limits *ret_armed, struct sbx_error *err)
{
    struct sbx_leaf_limits armed = {UNKNOWN, UNKNOWN, false, UNKNOWN, UNKNOWN};
    int r = 0;
    if (asked->memory_bytes != UNKNOWN) {
        r = arm_memory(leaf, asked, &armed, err);
    }
    if (r == 0 && asked->threads_count != UNKNOWN) {
        r = arm_threads(leaf, asked->threads_count, &armed.threads_count, err);
    }
    if (r == 0 && asked->cpu_percent != UNKNOWN) {
        r = arm_cpu(leaf, asked->cpu_percent, &armed.cpu_percent, err);
    }
    if (r == 0) {
        *ret_armed = armed;
    }
    return r;
}

/* --- state and end --- */

/* The number behind "KEY " at the start of a line of cgroup.events. */
static int read_event(int leaf_fd, const char *key)
{
    char text[256];
    ssize_t length = sbx_fd_read_text_at(leaf_fd, "cgroup.events", text, sizeof text);
    size_t size = strlen(key);
    if (length < 0) {
        return (int)length;
    }
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, size) == 0 && line[size] == ' ') {
            return line[size + 1] == '1';
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return -EBADMSG;
}

int sbx_leaf_populated(int leaf_fd)
{
    int r = read_event(leaf_fd, "populated");
    return r == -ENOENT || r == -ENODEV ? 0 : r; /* gone: that takes nobody in it */
}

int sbx_leaf_kill(int leaf_fd)
{
    int r = write_file(leaf_fd, "cgroup.kill", "1");
    return r == -ENOENT ? -EOPNOTSUPP : r;
}

int sbx_leaf_freeze(int leaf_fd, bool frozen, uint64_t bound_us)
{
    const struct timespec moment = {.tv_nsec = LOOK_NS};
    uint64_t until = sbx_clock_add(sbx_clock_us(), bound_us);
    int r = write_file(leaf_fd, "cgroup.freeze", frozen ? "1" : "0");
    while (r == 0) {
        int now = read_event(leaf_fd, "frozen");
        if (now < 0 || (now == 1) == frozen) {
            return now < 0 ? now : 0;
        }
        if (sbx_clock_us() >= until) {
            return -ETIMEDOUT;
        }
        (void)nanosleep(&moment, NULL);
    }
    return r;
}
