/*
 * provision.c - see provision.h. The only file that calls libcgroup, and it does so
 * through pointers that dlsym gave: nothing links against the library.
 *
 * Seen in libcgroup 2.0.2, and why everything is checked before and read back after:
 * calls for a group to which no controller was added return 0 and do nothing; a
 * controller that v1 holds makes it act on that hierarchy; making a group switches the
 * controller on in every group above; it reports a refused write as "value does not
 * exist"; and unless a logger is installed before cgroup_init it logs to stdout.
 *
 * Never used are cgroup_delete_cgroup and its relatives: they move whoever lives in the
 * group to its parent, which is how a run would get away from its bounds; told not to
 * (CGFLAG_DELETE_EMPTY_ONLY), they return 0 and leave the group; and with two controllers
 * they remove the group and then report that it is not there. Never used either is the
 * library for cgroup.kill, cgroup.freeze and other files of the core.
 */
#include "cgroup/provision.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "cgroup/lines.h"
#include "cgroup/provision_private.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libcgroup.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The soname of the header that this was compiled with, and its predecessor, whose
 * functions used here are the same. */
static const char *const sonames[] = {"libcgroup.so.2", "libcgroup.so.1"};

#define STAGE SBX_STAGE_ARM
#define REMOVE_BOUND_US 500000U

struct library {
    void *handle;
    __typeof__(cgroup_set_logger) *set_logger;
    __typeof__(cgroup_init) *init;
    __typeof__(cgroup_get_controller_begin) *mounts_begin;
    __typeof__(cgroup_get_controller_next) *mounts_next;
    __typeof__(cgroup_get_controller_end) *mounts_end;
    __typeof__(cgroup_new_cgroup) *new_group;
    __typeof__(cgroup_free) *free_group;
    __typeof__(cgroup_add_controller) *add_controller;
    __typeof__(cgroup_add_value_string) *add_value;
    __typeof__(cgroup_create_cgroup) *create;
    __typeof__(cgroup_modify_cgroup) *modify;
    __typeof__(cgroup_attach_task_pid) *attach;
    __typeof__(cgroup_strerror) *strerror;
    __typeof__(cgroup_get_last_errno) *last_errno;
};

/* Loaded once, for good: the library's own tables are static and are never freed. */
static struct library *loaded;

/* ---- the library ---- */

static void log_nothing(void *context, int level, const char *format, va_list values)
{
    (void)context;
    (void)level;
    (void)format;
    (void)values;
}

static const char *load_error(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "no reason given";
}

/* One function; *found is false when it is missing. */
static void *find(const struct library *library, const char *name, bool *found)
{
    void *symbol = dlsym(library->handle, name);
    *found = *found && symbol != NULL;
    return symbol;
}

/* Finds every function; false when one is missing. */
static bool find_all(struct library *it)
{
    bool found = true;
    it->set_logger = (__typeof__(it->set_logger))find(it, "cgroup_set_logger", &found);
    it->init = (__typeof__(it->init))find(it, "cgroup_init", &found);
    it->mounts_begin =
        (__typeof__(it->mounts_begin))find(it, "cgroup_get_controller_begin", &found);
    it->mounts_next =
        (__typeof__(it->mounts_next))find(it, "cgroup_get_controller_next", &found);
    it->mounts_end =
        (__typeof__(it->mounts_end))find(it, "cgroup_get_controller_end", &found);
    it->new_group = (__typeof__(it->new_group))find(it, "cgroup_new_cgroup", &found);
    it->free_group = (__typeof__(it->free_group))find(it, "cgroup_free", &found);
    it->add_controller =
        (__typeof__(it->add_controller))find(it, "cgroup_add_controller", &found);
    it->add_value =
        (__typeof__(it->add_value))find(it, "cgroup_add_value_string", &found);
    it->create = (__typeof__(it->create))find(it, "cgroup_create_cgroup", &found);
    it->modify = (__typeof__(it->modify))find(it, "cgroup_modify_cgroup", &found);
    it->attach = (__typeof__(it->attach))find(it, "cgroup_attach_task_pid", &found);
    it->strerror = (__typeof__(it->strerror))find(it, "cgroup_strerror", &found);
    it->last_errno =
        (__typeof__(it->last_errno))find(it, "cgroup_get_last_errno", &found);
    return found;
}

/* What the library returned, as a positive errno. */
static int code_of(const struct library *library, int result)
{
    int code = EIO;
    if (result == ECGOTHER) {
        code = library->last_errno();
    } else if (result == ECGROUPNOTALLOWED || result == ECGROUPNOTOWNER) {
        code = EPERM;
    } else if (result == ECGROUPNOTEXIST) {
        code = ENOENT;
    }
    return code > 0 ? code : EIO;
}

static int load(struct library *library, struct sbx_error *err)
{
    for (size_t i = 0; i < sizeof(sonames) / sizeof(sonames[0]); i++) {
        library->handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library->handle != NULL) {
            break;
        }
    }
    if (library->handle == NULL) {
        (void)sbx_error_set(err, ELIBACC, STAGE,
                            "cannot load libcgroup (%s): install %s or %s", load_error(),
                            sonames[0], sonames[1]);
        return -ELIBACC;
    }
    if (!find_all(library)) {
        (void)sbx_error_set(err, ELIBACC, STAGE,
                            "libcgroup is not the library that it should be (%s)",
                            load_error());
        (void)dlclose(library->handle);
        return -ELIBACC;
    }
    library->set_logger(log_nothing, CGROUP_LOG_ERROR, NULL); /* else: to stdout */
    int result = library->init();
    if (result != 0) {
        int rc = sbx_error_set(err, code_of(library, result), STAGE,
                               "libcgroup cannot be initialised: %s",
                               library->strerror(result));
        (void)dlclose(library->handle);
        return rc;
    }
    return 0;
}

int sbx_provision_available(struct sbx_error *err)
{
    if (loaded != NULL) {
        return 0;
    }
    struct library *library = calloc(1, sizeof(*library));
    if (library == NULL) {
        return sbx_error_set(err, ENOMEM, STAGE, "no memory for libcgroup");
    }
    int rc = load(library, err);
    if (rc < 0) {
        free(library);
        return rc;
    }
    loaded = library;
    return 0;
}

/* ---- what it sees ---- */

static void note_mount(const struct cgroup_mount_point *seen,
                       struct sbx_provision_view *view)
{
    unsigned bit = sbx_controllers_parse(seen->name);
    SBX_AUTO_CLOSE int fd = open(seen->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (!sbx_provision_is_cgroup2(fd)) {
        view->held_by_v1 |= bit;
    } else if (view->mount[0] == '\0' || strcmp(view->mount, seen->path) == 0) {
        (void)snprintf(view->mount, sizeof(view->mount), "%.*s",
                       (int)sizeof(view->mount) - 1, seen->path);
        view->controllers |= bit;
    }
}

int sbx_provision_find(struct sbx_provision_view *ret_view, struct sbx_error *err)
{
    struct sbx_provision_view view = {.kind = SBX_HIERARCHY_NONE};
    struct cgroup_mount_point seen;
    bool v1 = false;
    void *handle = NULL;
    int result = sbx_provision_available(err);
    const struct library *library = loaded;
    if (result < 0 || library == NULL) {
        return result;
    }
    result = library->mounts_begin(&handle, &seen);
    while (result == 0) {
        unsigned before = view.held_by_v1;
        note_mount(&seen, &view);
        v1 = v1 || view.held_by_v1 != before;
        result = library->mounts_next(&handle, &seen);
    }
    (void)library->mounts_end(&handle);
    if (result != ECGEOF) {
        return sbx_error_set(err, code_of(library, result), STAGE,
                             "libcgroup cannot list the hierarchies: %s",
                             library->strerror(result));
    }
    if (view.mount[0] != '\0') {
        view.kind = v1 ? SBX_HIERARCHY_HYBRID : SBX_HIERARCHY_PURE;
    }
    *ret_view = view;
    return 0;
}

/* The library, if it can be had and acts on this mount for these controllers; else NULL:
 * then it is done without. */
static const struct library *library_for(const char *mount, unsigned controllers)
{
    struct sbx_provision_view view = {.kind = SBX_HIERARCHY_NONE};
    struct stat ours;
    struct stat theirs;
    if (controllers == 0 || sbx_provision_find(&view, NULL) < 0 ||
        (controllers & ~view.controllers) != 0 || stat(mount, &ours) < 0 ||
        stat(view.mount, &theirs) < 0 || ours.st_dev != theirs.st_dev ||
        ours.st_ino != theirs.st_ino) {
        return NULL;
    }
    return loaded;
}

/* A group of the library's with these controllers added, or NULL. */
static struct cgroup *describe(const struct library *library, const char *group,
                               unsigned controllers)
{
    struct cgroup *described = library->new_group(group + 1);
    for (unsigned i = 0; described != NULL && i < SBX_CONTROLLER_COUNT; i++) {
        if ((controllers & SBX_CONTROLLER_BIT(i)) != 0 &&
            library->add_controller(
                described, sbx_controller_name((enum sbx_controller)i)) == NULL) {
            library->free_group(&described);
        }
    }
    return described;
}

/* ---- making ---- */

/* As the library makes one, which can fail halfway. */
static int make_with(const struct library *library, const char *group,
                     unsigned controllers, struct sbx_error *err)
{
    struct cgroup *described = describe(library, group, controllers);
    if (described == NULL) {
        return sbx_error_set(err, ENOMEM, STAGE, "libcgroup cannot describe a group");
    }
    int result = library->create(described, 1);
    library->free_group(&described);
    return result == 0 ? 0
                       : sbx_error_set(err, code_of(library, result), STAGE,
                                       "libcgroup cannot make the group %s: %s (%d)",
                                       sbx_provision_where("", group, "").text,
                                       library->strerror(result), result);
}

int sbx_provision_create(const char *mount, const char *group, unsigned controllers,
                         struct sbx_error *err)
{
    struct sbx_provision_above above = {.count = 0};
    const char *name = "";
    SBX_AUTO_CLOSE int parent = sbx_provision_open_parent(mount, group, &name, err);
    if (parent < 0) {
        return parent;
    }
    if (controllers != 0 && geteuid() != 0) {
        return sbx_error_set(err, EPERM, STAGE,
                             "%s: only root may set up a group with controllers",
                             sbx_provision_where(mount, group, "").text);
    }
    if (faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return sbx_error_set(err, EEXIST, STAGE, "%s: %s",
                             sbx_provision_where(mount, group, "").text,
                             sbx_errno_text(EEXIST).text);
    }
    int rc = controllers == 0 ? 0 : sbx_provision_read_above(mount, group, &above, err);
    rc = rc < 0 ? rc : sbx_provision_check_above(mount, group, controllers, &above, err);
    if (rc < 0) {
        return rc;
    }
    /* First the directory, by us: so one that somebody else makes at the same moment is
     * never taken for ours, and never removed. The library finds it there. */
    if (mkdirat(parent, name, 0755) < 0) {
        return sbx_error_set(err, errno, STAGE, "%s cannot be made: %s",
                             sbx_provision_where(mount, group, "").text,
                             sbx_errno_text(errno).text);
    }
    const struct library *library = library_for(mount, controllers);
    rc = library == NULL ? 0 : make_with(library, group, controllers, err);
    rc = rc < 0 ? rc : sbx_provision_verify(mount, group, controllers, &above, err);
    if (rc < 0) {
        (void)unlinkat(parent, name, AT_REMOVEDIR);
    }
    return rc;
}

static void pause_a_little(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    (void)nanosleep(&moment, NULL);
}

/* ---- changing a limit ---- */

/* The controller before the dot of a file's name; 0: none that we know. */
static unsigned controller_of(const char *file)
{
    char name[32];
    size_t length = strcspn(file, ".");
    if (length >= sizeof(name) || file[length] != '.' || strchr(file, '/') != NULL) {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, file);
    return sbx_controllers_parse(name);
}

/* Whether the kernel made of the value what it says it did. */
static bool is_same_limit(unsigned controller, const char *asked, const char *got)
{
    uint64_t wanted;
    uint64_t found;
    if (strcmp(asked, got) == 0) {
        return true;
    }
    return controller == SBX_CONTROLLER_BIT(SBX_CONTROLLER_MEMORY) &&
           sbx_text_count(asked, &wanted) == 0 && sbx_text_count(got, &found) == 0 &&
           found <= wanted && wanted - found < (uint64_t)sysconf(_SC_PAGESIZE);
}

static ssize_t read_value(int fd, const char *file,
                          char text[static SBX_PROVISION_TEXT_SIZE])
{
    ssize_t length = sbx_fd_read_text_at(fd, file, text, SBX_PROVISION_TEXT_SIZE);
    if (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    return length;
}

/* By the library where that is possible: 0 or a negative errno. */
static int set_limit(const struct library *library, int fd, const char *group,
                     const char *file, const char *value)
{
    if (library == NULL) {
        return sbx_provision_write(fd, file, value);
    }
    int result = ECGFAIL;
    unsigned bit = controller_of(file);
    struct cgroup *described = library->new_group(group + 1);
    struct cgroup_controller *controller =
        described == NULL
            ? NULL
            : library->add_controller(
                  described,
                  sbx_controller_name((enum sbx_controller)__builtin_ctz(bit)));
    if (controller != NULL) {
        result = library->add_value(controller, file, value);
        result = result != 0 ? result : library->modify(described);
    }
    int code = result == 0 ? 0 : -code_of(library, result);
    if (described != NULL) {
        library->free_group(&described);
    }
    return code;
}

int sbx_provision_limit(const char *mount, const char *group, const char *file,
                        const char *value, struct sbx_error *err)
{
    char before[SBX_PROVISION_TEXT_SIZE];
    char after[SBX_PROVISION_TEXT_SIZE];
    unsigned controller = controller_of(file);
    if (controller == 0) {
        return sbx_error_set(err, EINVAL, STAGE, "%.64s is not a limit of a group", file);
    }
    SBX_AUTO_CLOSE int fd = sbx_provision_open_group(mount, group, err);
    if (fd < 0) {
        return fd;
    }
    ssize_t length = read_value(fd, file, before);
    if (length < 0) {
        return sbx_error_set(err, (int)-length, STAGE, "%s cannot be read: %s",
                             sbx_provision_where(mount, group, file).text,
                             sbx_errno_text((int)-length).text);
    }
    int rc = set_limit(library_for(mount, controller), fd, group, file, value);
    length = read_value(fd, file, after);
    if (rc == 0 && length >= 0 && is_same_limit(controller, value, after)) {
        return 0;
    }
    if (length < 0 || strcmp(before, after) != 0) {
        (void)sbx_provision_write(fd, file, before);
    }
    return rc < 0 ? sbx_error_set(err, -rc, STAGE, "%s cannot be set to %.64s: %s",
                                  sbx_provision_where(mount, group, file).text, value,
                                  sbx_errno_text(-rc).text)
                  : sbx_error_set(err, EIO, STAGE, "%s was set to %.64s and says %.64s",
                                  sbx_provision_where(mount, group, file).text, value,
                                  length < 0 ? "nothing" : after);
}

/* ---- moving a process ---- */

/* 1: it is there, 0: it is not, or a negative errno. */
static int is_in(int fd, pid_t pid)
{
    struct sbx_lines lines;
    char *line;
    int rc = sbx_lines_open(fd, "cgroup.procs", &lines);
    if (rc < 0) {
        return rc;
    }
    while ((rc = sbx_lines_next(&lines, &line)) > 0) {
        if (strtol(line, NULL, 10) == pid) {
            break;
        }
    }
    sbx_lines_close(&lines);
    return rc;
}

static void attach_with(const struct library *library, const char *group,
                        unsigned controllers, pid_t pid)
{
    struct cgroup *described = describe(library, group, controllers);
    if (described != NULL) {
        (void)library->attach(described, pid);
        library->free_group(&described);
    }
}

int sbx_provision_attach(const char *mount, const char *group, pid_t pid,
                         struct sbx_error *err)
{
    if (pid <= 0) {
        return sbx_error_set(err, EINVAL, STAGE, "%d is not a process", (int)pid);
    }
    SBX_AUTO_CLOSE int fd = sbx_provision_open_group(mount, group, err);
    if (fd < 0) {
        return fd;
    }
    unsigned controllers = sbx_provision_controllers(fd, "cgroup.controllers");
    const struct library *library = library_for(mount, controllers);
    int rc = 0;
    if (library != NULL) {
        attach_with(library, group, controllers, pid);
    }
    if (is_in(fd, pid) != 1) { /* no library, or it said so and did nothing */
        char text[32];
        (void)snprintf(text, sizeof(text), "%d", (int)pid);
        rc = sbx_provision_write(fd, "cgroup.procs", text);
    }
    if (rc == 0) {
        int there = is_in(fd, pid);
        rc = there == 0 ? -ESRCH : (there < 0 ? there : 0);
    }
    return rc == 0
               ? 0
               : sbx_error_set(err, -rc, STAGE, "process %d cannot be moved to %s: %s",
                               (int)pid, sbx_provision_where(mount, group, "").text,
                               sbx_errno_text(-rc).text);
}

/* ---- taking away ---- */

static bool is_populated(int fd)
{
    char text[SBX_PROVISION_TEXT_SIZE];
    return sbx_fd_read_text_at(fd, "cgroup.events", text, sizeof(text)) < 0 ||
           strstr(text, "populated 0") == NULL;
}

int sbx_provision_remove(const char *mount, const char *group, struct sbx_error *err)
{
    const char *name = "";
    SBX_AUTO_CLOSE int parent = sbx_provision_open_parent(mount, group, &name, err);
    if (parent < 0) {
        return parent;
    }
    SBX_AUTO_CLOSE int fd = sbx_provision_open_group(mount, group, err);
    if (fd < 0) {
        return fd;
    }
    uint64_t until = sbx_clock_add(sbx_clock_us(), REMOVE_BOUND_US);
    int rc = unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    while (rc == -EBUSY && !is_populated(fd) && sbx_clock_us() < until) {
        pause_a_little(); /* one of the dead is still listed, or there is a group below */
        rc = unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    }
    if (rc == 0 && faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        rc = -EEXIST;
    }
    return rc == 0 ? 0
                   : sbx_error_set(err, -rc, STAGE, "%s cannot be removed: %s",
                                   sbx_provision_where(mount, group, "").text,
                                   sbx_errno_text(-rc).text);
}
