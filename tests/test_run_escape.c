/*
 * test_run_escape.c - ways out of a sandbox, each refused; and that nothing of one lives
 * on when somebody around it is killed.
 *
 * As root, as an ordinary user, and with a setuid bubblewrap. Where a wall is the network
 * or the like, the same attempt succeeds without the wall, so that it is known to be one.
 */
#include "base/fd.h"
#include "tests/run_kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SECONDS 120.0
#define GONE_SECONDS 20.0
#define INSIDE_H "--ro-bind $H "
#define CONFINED "%H/confined "
#define PROBE "%%H/confined " /* the same for printf */

/* --- files, processes inside, privileges -------------------------------------------- */

/* A bubblewrap that mounts something else than it was told, as the true one does when
 * names are swapped while it works: where NAME is, OTHER. */
#define SWAPPING(name, other)                                                            \
    "mkdir a b m n; echo s3cret >b/f; echo a >a/f; echo s3cret >m/f; echo s3cret >g; "   \
    ">h; printf '#!/bin/sh\\nn=$#; while [ $n -gt 0 ]; do a=$1; shift; case $a in "      \
    "'" name "') a='\"" other "\"';; esac; set -- \"$@\" \"$a\"; n=$((n-1)); done; "     \
    "exec '\"$BW\"' \"$@\"\\n' >../bw; chmod 755 ../bw; "
#define SWAPPED "--bwrap $D/bw --bind $W/a:/x --bind $W --mask $W/m --mask $W/g "

static const struct sbx_scene walls[] = {
    {.name = "nothing is swapped while it is made",
     .who = SBX_PLAIN,
     .before = SWAPPING("nothing", "$W/b"),
     .options = SWAPPED,
     .inside = "cat /x/f; cat %W/m/f %W/g 2>/dev/null; true",
     .out = "a\n"},
    {.name = "a source is swapped while it is made",
     .who = SBX_PLAIN,
     .before = SWAPPING("/proc/self/fd/*", "$W/b"),
     .options = SWAPPED,
     .status = 125,
     .err = "/x|took its place",
     .leaves = "*"}, /* what was to be mounted on in the wrong one */
    {.name = "a masked directory is swapped while it is made",
     .who = SBX_PLAIN,
     .before = SWAPPING("*/m", "$W/n"),
     .options = SWAPPED,
     .status = 125,
     .err = "/m|took its place"},
    {.name = "a masked file is swapped while it is made",
     .who = SBX_PLAIN,
     .before = SWAPPING("*/g", "$W/h"),
     .options = SWAPPED,
     .status = 125,
     .err = "/g|took its place"},
    {.name = "a place becomes a link while it is made",
     .who = SBX_PLAIN,
     .before = SWAPPING("--ro-bind", "--ro-bind") "sed -i '2i rmdir '\"$W\"'/n; ln -s m '"
                                                  "\"$W\"'/n' ../bw",
     .options = SWAPPED "--mask $W/n",
     .status = 125,
     .err = "/n|",
     .leaves = "n"},
    {.name = "what lies beside the workspace",
     .before = "mkdir ../private; echo s3cret >../private/f; echo s3cret >../g",
     .options = "--bind $W --chdir $W",
     .inside = "ls -A .. ../..; cat ../private/f ../g %D/g 2>/dev/null; "
               "find / -xdev -name private 2>/dev/null; true",
     .out = "*",
     .never = "s3cret"},
    {.name = "up from the workspace are the names that lead to it, and nothing else",
     .before = "mkdir ../private",
     .options = "--bind $W",
     .inside = "ls -A %D; touch %D/new; rmdir %D/private",
     .out = "work\n",
     .status = 1,
     .err = "*"},
    {.name = "links made in the workspace lead nowhere",
     .before = "echo s3cret >../g; mkdir rw",
     .options = "--bind $W/rw --chdir $W/rw",
     .inside =
         "ln -s ../../g a; ln -s %D/g b; ln -s / c; "
         "for f in a b c/../g c%D/g; do cat $f; (echo evil >$f); done 2>/dev/null; true",
     .out = "*",
     .never = "s3cret",
     .leaves = "rw/a rw/b rw/c",
     .after = "[ \"$(cat ../g)\" = s3cret ]"},
    {.name = "a hard link from what is read-only",
     .before = "mkdir ro rw; echo 1 >ro/f",
     .options = "--ro-bind $W/ro --bind $W/rw",
     .inside = "ln %W/ro/f %W/rw/f 2>/dev/null && echo linked; "
               "mv %W/ro/f %W/rw/f 2>/dev/null && echo moved; true",
     .leaves = "*",
     .after = "[ -f ro/f ] && [ ! -e rw/g ]"},
    {.name = "a hard link from what is masked",
     .before = "mkdir d; echo s3cret >d/f; echo s3cret >f",
     .options = "--bind $W --mask $W/d --mask $W/f",
     .inside =
         "ln d/f l; ln f m; mv f n; mv d e; rm -rf d f; umount d; cat l m n e/f; true",
     .err = "*",
     .never = "s3cret"},
    {.name = "a read-only file by the descriptor that reads it",
     .before = "echo 1 >f",
     .options = INSIDE_H "--proc --ro-bind $W/f",
     .inside = CONFINED "reopen %W/f",
     .out = "EROFS\n"},
    {.name = "it can be where it is writable",
     .before = "echo 1 >f",
     .options = INSIDE_H "--proc --bind $W/f",
     .inside = CONFINED "reopen %W/f",
     .out = "ok\n"},
    {.name = "a device in a bind",
     .who = SBX_ROOT,
     .needs = "mknod dev c 1 3 && rm dev",
     .before = "mknod dev c 1 3",
     .options = "--bind $W",
     .inside = "(echo x >%W/dev) 2>/dev/null || echo refused",
     .out = "refused\n"},
    {.name = "files of the kernel",
     .options = INSIDE_H "--proc",
     .inside = CONFINED "writable /proc"},
    {.name = "files of the kernel, with the root",
     .options = INSIDE_H "--proc --ro-bind /",
     .inside = CONFINED "writable /proc; " CONFINED "writable /sys"},
    {.name = "control groups",
     .options = "--proc",
     .inside = "ls -A /sys /sys/fs/cgroup 2>/dev/null; "
               "grep -v -e '^[0-9]*:[^:]*:/$' /proc/self/cgroup; true"},
    {.name = "the init",
     .options = "--proc",
     .inside = "cat /proc/1/environ /proc/1/maps /proc/1/mem /proc/1/fd/*; "
               "ls -d /proc/1/root/* /proc/1/cwd/* | grep -v '[*]'; "
               "readlink /proc/1/exe /proc/1/root /proc/1/fd/*; true",
     .err = "*"},
    {.name = "the init cannot be traced",
     .options = INSIDE_H,
     .inside = CONFINED "trace 1",
     .out = "EPERM\n"},
    {.name = "the init cannot be ended",
     .inside =
         "for s in HUP INT QUIT USR1 STOP TERM KILL; do kill -$s 1 2>/dev/null; done; "
         "sleep 0.1; echo alive",
     .out = "alive\n"},
    {.name = "all others can be, and that is their end",
     .inside = "sleep 60 & kill -KILL -1; wait; echo alive",
     .out = "alive\n",
     .err = "*"},
    {.name = "what is left behind inside ends with it",
     .inside =
         "setsid sh -c 'trap \"\" HUP TERM INT; sleep 60; :' \"$0\" >/dev/null 2>&1 & "
         "sh -c '(trap \"\" TERM; sleep 60; :) &' \"$0\" >/dev/null 2>&1; exit 3",
     .status = 3},
    {.name = "a program that is setuid root",
     .who = SBX_USER | SBX_SETUID,
     .needs = "[ -u $H/setuid ]",
     .options = INSIDE_H,
     .inside = "%H/setuid who | grep -e uid -e cap -e new",
     .out = "uid %U %U %U\nno_new_privs 1\ncapabilities 0 0 0 bounding 0\n"},
    {.name = "a program that is setuid root, without a filter",
     .who = SBX_USER | SBX_SETUID,
     .needs = "[ -u $H/setuid ]",
     .options = INSIDE_H "--seccomp none",
     .inside = "%H/setuid who | grep -e uid",
     .out = "uid %U %U %U\n"},
    {.name = "only a loopback device",
     .options = INSIDE_H "--network none",
     .inside = CONFINED "interfaces",
     .out = "lo\n"},
    {.name = "the name of the host",
     .options = INSIDE_H "--seccomp none",
     .inside = CONFINED "calls sethostname",
     .out = "sethostname EPERM\n"},
};

START_TEST(test_walls)
{
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (sbx_kit_identity(identity)) {
        sbx_scenes_play(walls, sizeof(walls) / sizeof(walls[0]), identity);
    }
}
END_TEST

/* --- the host's processes, sockets and memory --------------------------------------- */

/* What there is to be reached. */
struct targets {
    pid_t victim; /* of the same user */
    int abstract;
    int tcp;
    unsigned port;
    char name[64]; /* of the abstract socket */
    key_t key;
    int shared;
    int semaphores;
    int queue;
};

static int listen_abstract(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    ck_assert_msg(fd >= 0 && bind(fd, (const struct sockaddr *)&address, length) == 0 &&
                      listen(fd, 8) == 0,
                  "abstract socket: %s", strerror(errno));
    return fd;
}

static int listen_tcp(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_msg(fd >= 0 &&
                      bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
                      listen(fd, 8) == 0 &&
                      getsockname(fd, (struct sockaddr *)&address, &length) == 0,
                  "port: %s", strerror(errno));
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void make_targets(enum sbx_identity identity, struct targets *targets)
{
    targets->victim = sbx_kit_fork_as(identity);
    if (targets->victim == 0) {
        (void)alarm(120);
        for (;;) {
            (void)pause();
        }
    }
    (void)snprintf(targets->name, sizeof(targets->name), "sbx-test-%d", (int)getpid());
    targets->abstract = listen_abstract(targets->name);
    targets->tcp = listen_tcp(&targets->port);
    targets->key = (key_t)(0x5b580000 + getpid());
    targets->shared = shmget(targets->key, 4096, IPC_CREAT | IPC_EXCL | 0666);
    targets->semaphores = semget(targets->key, 1, IPC_CREAT | IPC_EXCL | 0666);
    targets->queue = msgget(targets->key, IPC_CREAT | IPC_EXCL | 0666);
}

static void remove_targets(const struct targets *targets)
{
    (void)shmctl(targets->shared, IPC_RMID, NULL);
    (void)semctl(targets->semaphores, 0, IPC_RMID);
    (void)msgctl(targets->queue, IPC_RMID, NULL);
    (void)close(targets->abstract);
    (void)close(targets->tcp);
    int status;
    pid_t ended = waitpid(targets->victim, &status, WNOHANG);
    (void)kill(targets->victim, SIGKILL);
    (void)waitpid(targets->victim, NULL, 0);
    ck_assert_msg(ended == 0, "the victim was ended");
}

#define TARGET_SCENES 4
struct target_scripts {
    char network[256];
    char processes[512];
    char memory[128];
};

START_TEST(test_targets)
{
    enum sbx_identity identity = (enum sbx_identity)_i;
    struct targets targets;
    struct target_scripts scripts;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    make_targets(identity, &targets);
    (void)snprintf(scripts.network, sizeof(scripts.network),
                   PROBE "abstract %s; " PROBE "connect %u", targets.name, targets.port);
    (void)snprintf(scripts.processes, sizeof(scripts.processes),
                   PROBE "signal %d; " PROBE "trace %d; kill -KILL -%d 2>/dev/null; "
                         "cat /proc/%d/environ /proc/%d/cmdline 2>/dev/null; "
                         "ls /proc | grep -x %d; true",
                   (int)targets.victim, (int)targets.victim, (int)getpgrp(),
                   (int)targets.victim, (int)targets.victim, (int)targets.victim);
    (void)snprintf(scripts.memory, sizeof(scripts.memory), PROBE "sysv %d",
                   (int)targets.key);
    const struct sbx_scene scenes[TARGET_SCENES] = {
        {.name = "sockets without a network",
         .options = INSIDE_H "--network none",
         .inside = scripts.network,
         .out = "ECONNREFUSED\nECONNREFUSED\n"},
        {.name = "sockets with the host's network",
         .options = INSIDE_H,
         .inside = scripts.network,
         .out = "ok\nok\n"},
        {.name = "processes of the host",
         .options = INSIDE_H "--proc",
         .inside = scripts.processes,
         .out = "ESRCH\nESRCH\n"},
        {.name = "memory, semaphores and queues of the host",
         .options = INSIDE_H,
         .inside = scripts.memory,
         .out = "shared ENOENT\nsemaphores ENOENT\nqueue ENOENT\n"},
    };
    for (size_t i = 0; i < TARGET_SCENES; i++) {
        struct sbx_play play = {.scene = &scenes[i], .identity = identity};
        ck_assert(sbx_play_start(&play));
        sbx_play_finish(&play);
        sbx_play_done(&play);
    }
    remove_targets(&targets);
}
END_TEST

/* --- the terminal ------------------------------------------------------------------- */

static void open_terminal(int *ret_master, int *ret_slave)
{
    char name[64];
    struct termios modes;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 &&
              ptsname_r(master, name, sizeof(name)) == 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert(slave >= 0 && tcgetattr(slave, &modes) == 0);
    cfmakeraw(&modes);
    ck_assert_int_eq(tcsetattr(slave, TCSANOW, &modes), 0);
    *ret_master = master;
    *ret_slave = slave;
}

START_TEST(test_terminal)
{
    static const struct sbx_scene scenes[] = {
        {.name = "a terminal",
         .options = INSIDE_H,
         .inside = CONFINED "terminal",
         .out = "descriptor 0 is one\nTIOCSTI refused\nTIOCLINUX refused\n/dev/tty "
                "refused\n"},
        {.name = "a terminal without a filter",
         .options = INSIDE_H "--seccomp none",
         .inside = CONFINED "terminal",
         .out = "descriptor 0 is one\nTIOCSTI refused\nTIOCLINUX refused\n/dev/tty "
                "refused\n"},
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        int master;
        int slave;
        int typed = -1;
        open_terminal(&master, &slave);
        struct sbx_play play = {.scene = &scenes[i],
                                .identity = identity,
                                .stdio = {slave, 0, 0},
                                .on_terminal = true};
        ck_assert(sbx_play_start(&play));
        sbx_play_finish(&play);
        sbx_play_done(&play);
        ck_assert_int_eq(ioctl(slave, FIONREAD, &typed), 0);
        ck_assert_msg(typed == 0, "%d bytes were typed by what was confined", typed);
        (void)close(slave);
        (void)close(master);
    }
}
END_TEST

/* --- who dies with whom ------------------------------------------------------------- */

/* Stubborn, and with children that are. */
#define STAYS                                                                            \
    "trap '' TERM HUP INT; setsid sh -c 'echo daemon; sleep 60; :' \"$0\" & "            \
    "while [ ! -e /tmp/x ]; do sleep 0.02; touch /tmp/x; done; echo up; sleep 60; :"

static void expect_gone(struct sbx_play *play)
{
    sbx_kit_wait_unmarked(play->mark, GONE_SECONDS);
    sbx_play_finish(play);
    sbx_play_done(play);
    sbx_kit_reap(GONE_SECONDS);
}

static void start_stubborn(struct sbx_play *play)
{
    ck_assert(sbx_play_start(play));
    sbx_play_wait_output(play, "daemon\n", GONE_SECONDS);
    sbx_play_wait_output(play, "up\n", GONE_SECONDS);
}

/* The child of `parent` that is called so (NULL: however it is called), or 0. */
static pid_t child_named(pid_t parent, const char *name)
{
    char path[64];
    char children[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    if (sbx_fd_read_text_at(AT_FDCWD, path, children, sizeof(children)) < 0) {
        return 0;
    }
    char *rest = NULL;
    for (const char *word = strtok_r(children, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char comm[64] = "";
        (void)snprintf(path, sizeof(path), "/proc/%s/comm", word);
        (void)sbx_fd_read_text_at(AT_FDCWD, path, comm, sizeof(comm));
        comm[strcspn(comm, "\n")] = '\0';
        if (name == NULL || strcmp(comm, name) == 0) {
            return (pid_t)strtol(word, NULL, 10);
        }
    }
    return 0;
}

START_TEST(test_killed)
{
    static const struct sbx_scene scenes[] = {
        {.name = "sbx-run is killed", .inside = STAYS, .signal = SIGKILL, .out = "*"},
        {.name = "sbx-run's parent is killed",
         .launcher = "sh -c '\"$@\"; exit 7' sh",
         .inside = STAYS,
         .signal = SIGKILL,
         .out = "*"},
        {.name = "the guard is killed",
         .launcher = "$WATCH --report $R --",
         .inside = STAYS,
         .signal = SIGKILL,
         .out = "*",
         .err = "*"},
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct sbx_play play = {.scene = &scenes[i], .identity = identity};
        start_stubborn(&play);
        ck_assert_int_eq(kill(play.pid, SIGKILL), 0);
        expect_gone(&play);
    }
}
END_TEST

/* Stopped from outside, it hears of nothing. */
START_TEST(test_stopped_and_killed)
{
    static const struct sbx_scene scene = {
        .name = "sbx-inner is stopped, and sbx-run is killed",
        .inside = STAYS,
        .signal = SIGKILL,
        .out = "*",
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    struct sbx_play play = {.scene = &scene, .identity = identity};
    start_stubborn(&play);
    pid_t inner = child_named(child_named(play.pid, NULL), "sbx-inner");
    ck_assert_int_gt(inner, 0);
    /* Below a child of ours that is not reaped, whose parents live. */
    ck_assert_int_eq(kill(inner, SIGSTOP), 0);
    ck_assert_int_eq(kill(play.pid, SIGKILL), 0);
    expect_gone(&play);
}
END_TEST

/* Its parts, from outside. */
START_TEST(test_part_killed)
{
    static const struct sbx_scene scenes[] = {
        {.name = "bubblewrap is killed", .inside = STAYS, .signal = SIGKILL, .out = "*"},
        {.name = "the init is killed", .inside = STAYS, .signal = SIGKILL, .out = "*"},
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        struct sbx_play play = {.scene = &scenes[i], .identity = identity};
        start_stubborn(&play);
        const char *bwrap = identity == SBX_AS_SETUID ? "bwrap-setuid" : "bwrap";
        pid_t part = child_named(play.pid, bwrap);
        part = i == 1 ? child_named(part, "sbx-inner") : part;
        ck_assert_int_gt(part, 0);
        /* Not reaped by who waits for it, as long as that lives. */
        ck_assert_int_eq(kill(part, SIGKILL), 0);
        expect_gone(&play);
    }
}
END_TEST

/* So early that bubblewrap has not asked yet to die with it. */
START_TEST(test_killed_early)
{
    static const struct sbx_scene scene = {
        .name = "sbx-run is killed before bubblewrap begins",
        /* Until its parent has been put away: by then it must have died itself. */
        .before = "printf '#!/bin/sh\\nkill -KILL $PPID\\n"
                  "while kill -0 $PPID 2>/dev/null; do :; done\\n"
                  "exec %s \"$@\"\\n' \"$BW\" >../fake; chmod 755 ../fake",
        .options = "--bwrap $D/fake --bind $W",
        .inside = "echo ran >%W/f",
        .signal = SIGKILL,
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    struct sbx_play play = {.scene = &scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_finish(&play);
    sbx_play_done(&play);
    sbx_kit_reap(GONE_SECONDS);
}
END_TEST

START_TEST(test_monitor_killed)
{
    static const struct sbx_scene scene = {
        .name = "the monitor is killed",
        .launcher = "$WATCH --report $R --",
        .inside = STAYS,
        .status = 125,
        .out = "*",
        .err = "*",
        .report = "outcome=lost",
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    struct sbx_play play = {.scene = &scene, .identity = identity};
    start_stubborn(&play);
    pid_t monitor = child_named(play.pid, "sbx-monitor");
    ck_assert_int_gt(monitor, 0);
    /* A grandchild of ours that its parent has not reaped: the number is its own. */
    ck_assert_int_eq(kill(monitor, SIGKILL), 0);
    sbx_play_finish(&play);
    sbx_play_done(&play);
}
END_TEST

START_TEST(test_thread)
{
    static const struct sbx_scene scene = {
        .name = "the thread that has started it ends",
        .launcher = "$H/confined thread",
        .options = "--bind $W",
        .inside = "echo up; while [ ! -e %W/go ]; do sleep 0.02; done; echo done",
        .out = "*",
        .leaves = "go",
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_play play = {.scene = &scene, .identity = identity};
    ck_assert(sbx_play_start(&play));
    sbx_play_wait_output(&play, "gone\n", GONE_SECONDS);
    sbx_play_wait_output(&play, "up\n", GONE_SECONDS);
    SBX_AUTO_CLOSE int go =
        open(sbx_play_path(&play, path, "work/go"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(go, 0);
    sbx_fd_drop(&go);
    sbx_play_wait_output(&play, "done\n", GONE_SECONDS);
    sbx_play_finish(&play);
    sbx_play_done(&play);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_escape");
    TCase *tcase = sbx_fixture_case(suite, "escape", SECONDS);
    tcase_add_loop_test(tcase, test_walls, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_targets, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_terminal, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_killed, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_part_killed, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_stopped_and_killed, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_killed_early, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_monitor_killed, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_thread, 0, SBX_IDENTITY_COUNT);
    return sbx_fixture_run(suite);
}
