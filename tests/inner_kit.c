/*
 * inner_kit.c - see inner_kit.h.
 */
#include "tests/inner_kit.h"

#include "base/fd.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PATIENCE_MS 30000
#define INSIDE_ID 65534

static void append(int fd, const void *data, size_t size)
{
    ck_assert_int_eq(sbx_fd_write_all(fd, data, size), 0);
}

int sbx_kit_inner_orders(const struct sbx_kit_inner_job *job, struct sbx_orders *head)
{
    static const char *const usual[] = {"PATH=/usr/bin:/bin", NULL};
    const char *const *environment = job->environment != NULL ? job->environment : usual;
    const char *directory = job->directory != NULL ? job->directory : sbx_fixture_dir();
    const char *file = job->file != NULL ? job->file : job->argv[0];
    int fd = memfd_create("orders", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    append(fd, head, sizeof *head);
    append(fd, directory, strlen(directory) + 1);
    append(fd, file, strlen(file) + 1);
    head->argument_count = 0;
    for (; job->argv[head->argument_count] != NULL; head->argument_count++) {
        const char *argument = job->argv[head->argument_count];
        append(fd, argument, strlen(argument) + 1);
    }
    head->environment_count = 0;
    for (; environment[head->environment_count] != NULL; head->environment_count++) {
        const char *variable = environment[head->environment_count];
        append(fd, variable, strlen(variable) + 1);
    }
    head->magic = job->broken ? 1 : SBX_ORDERS_MAGIC;
    head->size = (uint32_t)lseek(fd, 0, SEEK_CUR);
    head->removes = job->removes ? 1 : 0;
    head->ignored = job->ignored;
    head->ceiling_count = job->ceiling_count;
    memcpy(head->ceilings, job->ceilings, sizeof head->ceilings);
    ck_assert_int_eq((int)pwrite(fd, head, sizeof *head, 0), (int)sizeof *head);
    return fd;
}

static int open_output(const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd =
        open(sbx_fixture_path(path, name), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static int make_filter(const struct sbx_kit_inner_job *job)
{
    if (job->program == NULL) {
        return -1;
    }
    int fd = memfd_create("filter", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    append(fd, job->program, job->program_count * sizeof *job->program);
    ck_assert_int_eq((int)lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

/* Messages of this size until there is no room for one more. */
static size_t cram(int fd)
{
    char junk[16] = "junk";
    size_t count = 0;
    while (send(fd, junk, sizeof junk, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof junk) {
        count++;
    }
    ck_assert_int_eq(errno, EAGAIN);
    return count;
}

/* --- the child --- */

static void need(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "inner_kit: %s: %s\n", what, strerror(errno));
        _exit(99);
    }
}

static void copy_program(const char *to)
{
    struct stat status;
    int from_fd = open(SBX_TEST_INNER, O_RDONLY | O_CLOEXEC);
    int to_fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    need(from_fd >= 0 && to_fd >= 0 && fstat(from_fd, &status) == 0, "copy");
    need(sendfile(to_fd, from_fd, NULL, (size_t)status.st_size) == status.st_size,
         "copy");
    need(fchmod(to_fd, 0555) == 0 && close(to_fd) == 0, "copy");
}

/* A procfs of one's own is not to be had everywhere. */
static const char *arrange_mounts(const struct sbx_kit_inner_job *job)
{
    need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
    (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (!job->removes) {
        return SBX_TEST_INNER;
    }
    need(mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, NULL) == 0, "/run");
    copy_program(SBX_INNER_PATH);
    return SBX_INNER_PATH;
}

struct descriptors {
    int orders;
    int socket;
    int out;
    int err;
    int early;
    int filter;
    int go;
};

static _Noreturn void be_inner(const struct sbx_kit_inner_job *job,
                               const struct descriptors *fds)
{
    char number[16];
    char byte = 0;
    const char *argv[] = {SBX_INNER_NAME, number, NULL};
    char *const environment[] = {(char[]){"SBX_TEST_SECRET=of-the-outside"}, NULL};
    (void)snprintf(number, sizeof number, "%d", fds->orders);
    need(setsid() >= 0, "session"); /* as bubblewrap makes one */
    need(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "death signal");
    need(read(fds->go, &byte, 1) == 1, "go");
    const char *path = job->unwatched ? SBX_TEST_INNER : arrange_mounts(job);
    const int inherited[] = {fds->orders, fds->socket, fds->err, fds->filter};
    for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++) {
        need(inherited[i] < 0 || fcntl(inherited[i], F_SETFD, 0) == 0, "descriptors");
    }
    need(flock(fds->out, LOCK_EX | LOCK_NB) == 0, "lock");
    need(dup2(fds->out, STDOUT_FILENO) >= 0 && dup2(fds->early, STDERR_FILENO) >= 0,
         "streams");
    (void)execve(path, (char *const *)(uintptr_t)argv, environment);
    need(false, path);
    _exit(99);
}

/* --- and its parent --- */

static void write_map(pid_t pid, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
                  strerror(errno));
}

static void map_ids(pid_t pid)
{
    char text[64];
    write_map(pid, "setgroups", "deny");
    (void)snprintf(text, sizeof text, "%d %u 1", INSIDE_ID, geteuid());
    write_map(pid, "uid_map", text);
    (void)snprintf(text, sizeof text, "%d %u 1", INSIDE_ID, getegid());
    write_map(pid, "gid_map", text);
}

static pid_t be_born(const struct sbx_kit_inner_job *job, const struct descriptors *fds,
                     int go)
{
    const long namespaces =
        job->unwatched ? 0 : CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC;
    pid_t pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        be_inner(job, fds);
    }
    ck_assert_msg(pid > 0, "clone into namespaces: %s", strerror(errno));
    if (!job->unwatched) {
        map_ids(pid);
    }
    ck_assert_int_eq((int)write(go, "g", 1), 1);
    return pid;
}

struct sbx_kit_inner sbx_kit_inner_start(const struct sbx_kit_inner_job *job)
{
    int pair[2];
    int go[2];
    struct sbx_kit_inner inner = {.fd = -1};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
    if (job->crammed) {
        inner.crammed = cram(pair[1]);
    }
    struct descriptors fds = {.socket = pair[1],
                              .out = open_output("out"),
                              .err = open_output("err"),
                              .early = open_output("early"),
                              .filter = make_filter(job),
                              .go = go[0]};
    struct sbx_orders head = {
        .status_fd = fds.socket, .stderr_fd = fds.err, .seccomp_fd = fds.filter};
    fds.orders = sbx_kit_inner_orders(job, &head);
    inner.fd = pair[0];
    inner.pid = be_born(job, &fds, go[1]);
    const int ours[] = {fds.orders, fds.socket, fds.out, fds.err,
                        fds.early,  fds.filter, fds.go,  go[1]};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        ck_assert(ours[i] < 0 || close(ours[i]) == 0);
    }
    return inner;
}

bool sbx_kit_inner_hear(struct sbx_kit_inner *inner, struct sbx_inner_record *ret)
{
    for (;;) {
        struct pollfd ready = {.fd = inner->fd, .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, PATIENCE_MS), 1);
        ssize_t length = recv(inner->fd, ret, sizeof *ret, 0);
        ck_assert_msg(length >= 0, "recv: %s", strerror(errno));
        if (length == 0) {
            return false;
        }
        if (inner->crammed > 0) {
            ck_assert_int_eq((int)length, 16);
            inner->crammed--;
            continue;
        }
        ck_assert_int_eq((int)length, (int)sizeof *ret);
        return true;
    }
}

struct sbx_inner_record sbx_kit_inner_expect(struct sbx_kit_inner *inner,
                                             const enum sbx_inner_kind *kinds)
{
    struct sbx_inner_record record = {.kind = 0};
    for (; *kinds != 0; kinds++) {
        ck_assert_msg(sbx_kit_inner_hear(inner, &record), "no record; early: %s",
                      sbx_kit_inner_text("early"));
        /* Who else is alive is another question. */
        bool alone = *kinds == SBX_INNER_ENDED && record.kind == SBX_INNER_ENDED_ALONE;
        ck_assert_msg(alone || record.kind == (int)*kinds, "record %d, not %d: %s",
                      record.kind, (int)*kinds, record.error.message);
    }
    return record;
}

void sbx_kit_inner_send(struct sbx_kit_inner *inner, enum sbx_inner_order order,
                        int number)
{
    const struct sbx_inner_word word = {.order = (int32_t)order, .number = number};
    ck_assert_int_eq((int)send(inner->fd, &word, sizeof word, MSG_NOSIGNAL),
                     (int)sizeof word);
}

void sbx_kit_inner_hang_up(struct sbx_kit_inner *inner)
{
    ck_assert_int_eq(close(inner->fd), 0);
    inner->fd = -1;
}

int sbx_kit_inner_end(struct sbx_kit_inner *inner)
{
    int status = 0;
    ck_assert_int_eq(waitpid(inner->pid, &status, 0), inner->pid);
    if (inner->fd >= 0) {
        sbx_kit_inner_hang_up(inner);
    }
    return status;
}

const char *sbx_kit_inner_text(const char *name)
{
    static char text[8192];
    char path[SBX_FIXTURE_PATH_SIZE];
    ssize_t length =
        sbx_fd_read_text_at(AT_FDCWD, sbx_fixture_path(path, name), text, sizeof text);
    return length < 0 ? "" : text;
}
