/*
 * launch_files.c - the descriptors that a sandbox is made from: its sources, the program
 * inside, its orders, the filter, and the pipes on which it is heard of.
 *
 * A source is opened by the path that was planned, which has no links: had somebody put
 * one in its way since, it would not be opened. bubblewrap gets the open file; but it
 * asks the kernel for its name, and looks that up once more, so sbx-inner compares what
 * has come of it.
 */
#include "sandbox/launch.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/option_rules.h"
#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failed(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* Takes the descriptor, also when it fails. */
static int hand_over(struct sbx_flight *flight, int fd, const char *what,
                     struct sbx_error *err)
{
    if (fd < 0) {
        return failed(err, errno, what);
    }
    if (flight->fd_count == SBX_LAUNCH_FDS_MAX) {
        (void)close(fd);
        return failed(err, EMFILE, what);
    }
    flight->fds[flight->fd_count++] = fd;
    return fd;
}

/* --- sources --- */

static int open_without_links(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return (int)fd;
}

static int open_source(struct sbx_flight *flight, const struct sbx_mount *mount,
                       struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    struct stat status;
    int fd = open_without_links(mount->source);
    if (fd < 0 && errno == ELOOP) {
        return sbx_error_set(err, ELOOP, SBX_STAGE_LAUNCH,
                             "'%s' has become a link since the plan was made (ELOOP)",
                             sbx_option_quote(quoted, mount->source));
    }
    if (fd < 0) {
        return failed(err, errno, sbx_option_quote(quoted, mount->source));
    }
    fd = hand_over(flight, fd, mount->source, err);
    if (fd >= 0 &&
        (fstat(fd, &status) < 0 || S_ISDIR(status.st_mode) != mount->directory)) {
        return sbx_error_set(err, ESTALE, SBX_STAGE_LAUNCH,
                             "'%s' is not what it was when the plan was made",
                             sbx_option_quote(quoted, mount->source));
    }
    return fd;
}

static int open_sources(struct sbx_flight *flight, struct sbx_error *err)
{
    const struct sbx_plan *plan = flight->plan;
    for (size_t i = 0; i < plan->argument_count; i++) {
        const struct sbx_argument *argument = &plan->arguments[i];
        if (argument->kind == SBX_ARGUMENT_SOURCE) {
            int fd = open_source(flight, argument->mount, err);
            if (fd < 0) {
                return fd;
            }
            flight->sources[argument->mount - plan->mounts] = fd;
        }
    }
    return 0;
}

/* --- what sbx-inner has to look at --- */

static int add_place(struct sbx_flight *flight, const struct sbx_mount *mount, int fd)
{
    /* In a directory of somebody else's, whom such an identity has to ask. */
    bool may_be_closed = flight->plan->as_user || flight->plan->uid == 0;
    SBX_AUTO_FREE char *text = NULL;
    char number[16] = "-";
    if (fd >= 0) {
        (void)snprintf(number, sizeof number, "%d", fd);
    }
    int length =
        asprintf(&text, "%s%c%s", number, may_be_closed ? '?' : ':', mount->destination);
    if (length < 0) {
        text = NULL;
        return -ENOMEM;
    }
    return sbx_strings_add(&flight->places, text, (size_t)length);
}

static int list_places(struct sbx_flight *flight, struct sbx_error *err)
{
    const struct sbx_plan *plan = flight->plan;
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->mount_count; i++) {
        const struct sbx_mount *mount = &plan->mounts[i];
        if (flight->sources[i] >= 0 || mount->kind == SBX_MOUNT_MASK ||
            mount->kind == SBX_MOUNT_MASK_FILE) {
            r = add_place(flight, mount, flight->sources[i]);
        }
    }
    return r == 0 ? 0 : failed(err, ENOMEM, "orders");
}

/* --- what is written down --- */

/* A sealed file in memory, at its beginning. */
static int make_file(const char *name, const void *data, size_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    int r = sbx_fd_write_all(fd, data, size);
    if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 ||
                   fcntl(fd, F_ADD_SEALS,
                         F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

static int make_filter(struct sbx_flight *flight, struct sbx_error *err)
{
    SBX_AUTO_FREE struct sock_filter *program = NULL;
    const struct sbx_plan *plan = flight->plan;
    size_t count = 0;
    if (plan->filter == SBX_FILTER_NONE) {
        return -1;
    }
    int r = plan->filter == SBX_FILTER_OWN
                ? sbx_seccomp_read(plan->filter_fd, &program, &count, err)
                : sbx_seccomp_default(&program, &count, err);
    if (r < 0) {
        sbx_error_prefix(err, "option --seccomp");
        return r;
    }
    int fd = make_file("sbx-seccomp", program, count * sizeof *program);
    errno = -fd;
    return hand_over(flight, fd < 0 ? -1 : fd, "file in memory", err);
}

static uint64_t ignored_signals(void)
{
    static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    uint64_t ignored = 0;
    for (size_t i = 0; i < SBX_LENGTH(passed_on); i++) {
        struct sigaction action;
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            ignored |= UINT64_C(1) << (passed_on[i] - 1);
        }
    }
    return ignored;
}

static void order_ceilings(const struct sbx_plan *plan, struct sbx_orders *orders)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (plan->ceilings[i].asked) {
            orders->ceilings[orders->ceiling_count++] = (struct sbx_orders_ceiling){
                .resource = sbx_ceiling_kinds[i].resource,
                .soft = plan->ceilings[i].soft,
                .hard = plan->ceilings[i].hard,
            };
        }
    }
}

static size_t measure_arguments(const struct sbx_plan *plan)
{
    size_t size = 0;
    for (size_t i = 0; i < plan->argv_count; i++) {
        size += strlen(plan->argv[i]) + 1;
    }
    return size;
}

static int write_orders(struct sbx_flight *flight, struct sbx_orders *orders,
                        struct sbx_error *err)
{
    const struct sbx_plan *plan = flight->plan;
    size_t directory = strlen(plan->directory) + 1;
    size_t executable = strlen(plan->executable) + 1;
    size_t size = sizeof *orders + directory + executable + measure_arguments(plan) +
                  plan->secrets_size;
    for (size_t i = 0; i < flight->places.count; i++) {
        size += strlen(flight->places.items[i]) + 1;
    }
    if (size > SBX_ORDERS_SIZE_MAX || plan->argv_count > SBX_ORDERS_SIZE_MAX) {
        return failed(err, E2BIG, "arguments and environment");
    }
    SBX_AUTO_FREE char *text = malloc(size);
    if (text == NULL) {
        return failed(err, ENOMEM, "orders");
    }
    orders->size = (uint32_t)size;
    char *at = mempcpy(text, orders, sizeof *orders);
    at = mempcpy(at, plan->directory, directory);
    at = mempcpy(at, plan->executable, executable);
    for (size_t i = 0; i < plan->argv_count; i++) {
        at = stpcpy(at, plan->argv[i]) + 1;
    }
    at = mempcpy(at, plan->secrets, plan->secrets_size);
    for (size_t i = 0; i < flight->places.count; i++) {
        at = stpcpy(at, flight->places.items[i]) + 1;
    }
    int fd = make_file("sbx-orders", text, size);
    explicit_bzero(text, size);
    errno = -fd;
    return hand_over(flight, fd < 0 ? -1 : fd, "file in memory", err);
}

/* The descriptors named in it are open already. */
static int make_orders(struct sbx_flight *flight, int status_fd, struct sbx_error *err)
{
    const struct sbx_plan *plan = flight->plan;
    struct sbx_orders orders;
    memset(&orders, 0, sizeof orders); /* padding too: it is written as it stands */
    orders.magic = SBX_ORDERS_MAGIC;
    orders.status_fd = status_fd;
    orders.removes = 1;
    orders.ignored = ignored_signals();
    orders.argument_count = (uint32_t)plan->argv_count;
    orders.place_count = (uint32_t)flight->places.count;
    while (plan->environment[orders.environment_count] != NULL) {
        orders.environment_count++;
    }
    order_ceilings(plan, &orders);
    orders.stderr_fd = hand_over(flight, fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3),
                                 "standard error", err);
    if (orders.stderr_fd < 0) {
        return orders.stderr_fd;
    }
    orders.seccomp_fd = make_filter(flight, err);
    if (orders.seccomp_fd < 0 && plan->filter != SBX_FILTER_NONE) {
        return orders.seccomp_fd;
    }
    return write_orders(flight, &orders, err);
}

/* --- bubblewrap's arguments --- */

static char *keep_number(struct sbx_flight *flight, const char *before, int number)
{
    char made[40];
    int length = snprintf(made, sizeof made, "%s%d", before, number);
    if (length < 0 || sbx_strings_add(&flight->texts, made, (size_t)length) < 0) {
        return NULL;
    }
    return flight->texts.items[flight->texts.count - 1];
}

struct numbers {
    int inner;
    int status;
    int orders;
};

static int write_argument(struct sbx_flight *flight, size_t index,
                          const struct numbers *numbers, struct sbx_error *err)
{
    const struct sbx_argument *argument = &flight->plan->arguments[index];
    switch (argument->kind) {
    case SBX_ARGUMENT_TEXT:
        flight->argv[index] = (char *)(uintptr_t)argument->text;
        return 0;
    case SBX_ARGUMENT_SOURCE:
        flight->argv[index] =
            keep_number(flight, "/proc/self/fd/",
                        flight->sources[argument->mount - flight->plan->mounts]);
        break;
    case SBX_ARGUMENT_INNER:
        flight->argv[index] = keep_number(flight, "", numbers->inner);
        break;
    case SBX_ARGUMENT_STATUS:
        flight->argv[index] = keep_number(flight, "", numbers->status);
        break;
    case SBX_ARGUMENT_ORDERS:
        flight->argv[index] = keep_number(flight, "", numbers->orders);
        break;
    default:
        break;
    }
    return flight->argv[index] != NULL ? 0 : failed(err, ENOMEM, "arguments");
}

static int write_arguments(struct sbx_flight *flight, const struct numbers *numbers,
                           struct sbx_error *err)
{
    size_t count = flight->plan->argument_count;
    int r = 0;
    flight->argv = calloc(count + 1, sizeof *flight->argv);
    if (flight->argv == NULL) {
        return failed(err, ENOMEM, "arguments");
    }
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = write_argument(flight, i, numbers, err);
    }
    return r;
}

/* --- all together --- */

static int open_pipes(struct sbx_flight *flight, int *ret_socket, int *ret_status,
                      struct sbx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return failed(err, errno, "socket");
    }
    flight->socket = ends[0];
    *ret_socket = hand_over(flight, ends[1], "socket", err);
    if (*ret_socket < 0) {
        return *ret_socket;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return failed(err, errno, "pipe");
    }
    flight->status = ends[0];
    *ret_status = hand_over(flight, ends[1], "pipe", err);
    if (*ret_status < 0) {
        return *ret_status;
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        return failed(err, errno, "pipe");
    }
    flight->said = ends[0];
    flight->said_write = ends[1];
    return 0;
}

int sbx_flight_init(struct sbx_flight *flight, const struct sbx_plan *plan,
                    struct sbx_error *err)
{
    struct numbers numbers = {-1, -1, -1};
    int socket_fd = -1;
    *flight = (struct sbx_flight){
        .plan = plan, .said_write = -1, .socket = -1, .said = -1, .status = -1};
    flight->exec_failed = -1;
    memset(flight->sources, 0xff, sizeof flight->sources); /* -1 each */
    int r = sbx_fd_open_standard();
    if (r < 0) {
        return failed(err, -r, "/dev/null");
    }
    r = open_pipes(flight, &socket_fd, &numbers.status, err);
    if (r < 0) {
        return r;
    }
    numbers.inner =
        hand_over(flight, open(plan->inner, O_RDONLY | O_CLOEXEC), plan->inner, err);
    if (numbers.inner < 0) {
        return numbers.inner;
    }
    r = open_sources(flight, err);
    r = r == 0 ? list_places(flight, err) : r;
    if (r < 0) {
        return r;
    }
    numbers.orders = make_orders(flight, socket_fd, err);
    return numbers.orders < 0 ? numbers.orders : write_arguments(flight, &numbers, err);
}

void sbx_flight_done(struct sbx_flight *flight)
{
    for (size_t i = 0; i < flight->fd_count; i++) {
        (void)close(flight->fds[i]);
    }
    flight->fd_count = 0;
    sbx_fd_drop(&flight->said_write);
    sbx_fd_drop(&flight->socket);
    sbx_fd_drop(&flight->said);
    sbx_fd_drop(&flight->status);
    sbx_fd_drop(&flight->exec_failed);
    free(flight->argv);
    flight->argv = NULL;
    sbx_strings_done(&flight->texts);
    sbx_strings_done(&flight->places);
}
