/*
 * test_run_start.c - how a confined command starts: streams and descriptors, environment,
 * identity, ceilings and system call filter, and who can see a value meanwhile.
 *
 * Tables of scenes (run_kit.h), each played as root, as an ordinary user, and with a
 * setuid bubblewrap.
 */
#include "tests/run_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 120.0
#define INSIDE_H "--ro-bind $H"
#define CONFINED "%H/confined "

/* --- streams, environment, identity ------------------------------------------------- */

static const struct sbx_scene starts[] = {
    {.name = "descriptors",
     .before = "echo s3cret >f",
     .setting = "exec 3<f 5<f 7>>f 9<.;",
     .options = INSIDE_H,
     .inside = CONFINED "fds; (cat <&9) 2>/dev/null; true",
     .out = "0\n1\n2\n"},
    {.name = "descriptors with great numbers",
     .needs = "command -v bash && ulimit -n 1000",
     .before = "echo s3cret >f",
     .launcher = "bash -c 'exec 199<f 999<f; exec \"$@\"' bash",
     .options = INSIDE_H,
     .inside = CONFINED "fds",
     .out = "0\n1\n2\n"},
    {.name = "streams that are closed",
     .setting = "exec <&-;",
     .inside = "echo ran",
     .out = "ran\n"},
    {.name = "all streams closed",
     .setting = "exec <&- >&- 2>&-;",
     .options = "--bind $W",
     .inside = "echo ran >%W/f; true",
     .leaves = "f"},
    {.name = "a pipe as input", .setting = "echo hi |", .inside = "cat", .out = "hi\n"},
    {.name = "a directory as input",
     .setting = "exec <.;",
     .status = 125,
     .err = "standard input|directory"},
    {.name = "a directory as output",
     .setting = "exec 1<.;",
     .status = 125,
     .err = "directory"},
    {.name = "a directory as error output",
     .setting = "exec 2<.;",
     .status = 125,
     .err = "*"},
    {.name = "a file as input that can be written",
     .before = "echo hi >f",
     .setting = "exec 0<>f;",
     .inside = "cat",
     .out = "hi\n",
     .err = "sbx-run: |standard input"},
    {.name = "it is refused by wish",
     .before = "echo hi >f",
     .setting = "exec 0<>f;",
     .options = "--strict-stdin",
     .status = 125,
     .err = "standard input"},
    {.name = "a file as input that was opened for reading, and is ours",
     .before = "echo hi >f",
     .setting = "exec 0<f;",
     .options = "--strict-stdin",
     .status = 125,
     .err = "standard input"},
    {.name = "a file as input that we cannot write",
     .who = SBX_USER | SBX_SETUID,
     .needs = "[ -f /etc/passwd ] && [ ! -w /etc/passwd ]",
     .setting = "exec 0</etc/passwd;",
     .options = "--strict-stdin",
     .inside = "head -c 4",
     .out = "root"},
    {.name = "no file, strictly", .options = "--strict-stdin", .out = "ran\n"},
    {.name = "environment",
     .setting = "export SECRET=s3cret HOME=/root;",
     .inside =
         "env | grep -v -x -e 'PATH=..*' -e 'PWD=.*' -e 'OLDPWD=.*' -e '_=.*'; true",
     .never = "s3cret"},
    {.name = "variables",
     .before = "printf 'FILED=in a file=1\\n' >vars",
     .setting = "export TAKEN='of the caller' OTHER=s3cret;",
     .options = "--env TAKEN --env GIVEN=a=b --env EMPTY= --env-from $W/vars",
     .inside = "echo \"$TAKEN, $GIVEN, $EMPTY, $FILED, $OTHER.\"",
     .out = "of the caller, a=b, , in a file=1, .\n"},
    {.name = "variables as in /proc",
     .before = "printf 'A=1\\n2\\0B=3\\0' >vars",
     .options = "--env-from $W/vars",
     .inside = "echo \"$A, $B\"",
     .out = "1\n2, 3\n"},
    {.name = "nothing to be seen of what was not asked for",
     .setting = "export SECRET=s3cret TAKEN=1;",
     .options = "--proc --env TAKEN",
     .inside =
         "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | "
         "grep -e 's3c[r]et' -e 'SEC[R]ET'; true",
     .never = "s3cret"},
    {.name = "a name with a digit",
     .options = "--env 1A=x",
     .status = 125,
     .err = "--env|1A"},
    {.name = "a name with a dash",
     .options = "--env A-B=x",
     .status = 125,
     .err = "--env|A-B"},
    {.name = "no name", .options = "--env =x", .status = 125, .err = "--env"},
    {.name = "nothing as name", .options = "--env ''", .status = 125, .err = "--env"},
    {.name = "a bad name in a file",
     .before = "echo 'A-B=s3cret' >vars",
     .options = "--env-from $W/vars",
     .status = 125,
     .err = "--env-from",
     .never = "s3cret"},
    {.name = "no file of variables",
     .options = "--env-from $W/none",
     .status = 125,
     .err = "--env-from|%W/none"},
    {.name = "what the loader is told for the command is for the command alone",
     .options = "--bind $W --env LD_DEBUG=libs --env LD_DEBUG_OUTPUT=$W/trace",
     .inside = "echo ran",
     .out = "ran\n",
     .leaves = "*",
     .after = "set -- trace.*; [ $# -eq 1 ]; [ ${1#trace.} -lt 5 ]"},
    {.name = "what the caller tells the loader is for the caller alone",
     .setting = "export LD_DEBUG=libs LD_DEBUG_OUTPUT=$W/trace;",
     .options = "--bind $W",
     .out = "ran\n",
     .leaves = "*",
     .after = "set -- trace.*; [ $# -le 1 ]"},
    {.name = "identity, capabilities, group and terminal",
     .options = INSIDE_H,
     .inside = "exec " CONFINED "who",
     .out = "uid %U %U %U\ngid %U %U %U\nno_new_privs 1\n"
            "capabilities 0 0 0 bounding 0\ngroup own\nterminal no\n"},
    {.name = "no other groups",
     .who = SBX_USER | SBX_SETUID,
     .needs = "[ \"$(id -G)\" = $ME ]",
     .inside = "id -G",
     .out = "%U\n"},
    {.name = "another identity, for root",
     .who = SBX_ROOT,
     .before = "mkdir d; chown 65534:65534 d",
     .options = INSIDE_H " --as-user 65534:65534 --bind $W/d",
     .inside = CONFINED "who | grep -e id -e cap; touch %W/d/f",
     .out = "uid 65534 65534 65534\ngid 65534 65534 65534\n"
            "capabilities 0 0 0 bounding 0\n",
     .leaves = "d/f"},
    {.name = "another identity has no other groups",
     .who = SBX_ROOT,
     .options = "--as-user 65534:65534",
     .inside = "id -G",
     .out = "65534\n"},
    {.name = "another identity cannot read what is root's",
     .who = SBX_ROOT,
     .before = "echo s3cret >f; chmod 600 f",
     .options = "--as-user 65534:65534 --bind $W",
     .inside =
         "cat %W/f 2>/dev/null || echo refused; touch %W/new 2>/dev/null || echo refused",
     .out = "refused\nrefused\n"},
    {.name = "another identity, for others",
     .who = SBX_USER | SBX_SETUID,
     .options = "--as-user 1:1",
     .status = 125,
     .err = "--as-user"},
    {.name = "as a user who cannot reach what is bound",
     .who = SBX_ROOT,
     .before = "mkdir -p p/q; chmod 700 p",
     .options = "--as-user 65534:65534 --bind $W/p/q",
     .status = 125,
     .err = "'%W/p/q' cannot be shown|uid 65534"},
    {.name = "an identity that is none",
     .options = "--as-user x",
     .status = 125,
     .err = "--as-user"},
};

/* --- bounds and hardening ----------------------------------------------------------- */

#define CALLS                                                                            \
    "keyctl add_key request_key bpf userfaultfd perf_event_open kexec_load mount "       \
    "remount umount2 pivot_root open_tree move_mount fsopen fsmount unshare-user "       \
    "unshare-mount clone-user chroot mknod TIOCSTI"
#define REFUSED                                                                          \
    "keyctl EPERM\nadd_key EPERM\nrequest_key EPERM\nbpf EPERM\nuserfaultfd EPERM\n"     \
    "perf_event_open EPERM\nkexec_load EPERM\nmount EPERM\nremount EPERM\n"              \
    "umount2 EPERM\npivot_root EPERM\nopen_tree EPERM\nmove_mount EPERM\n"               \
    "fsopen EPERM\nfsmount EPERM\nunshare-user EPERM\nunshare-mount EPERM\n"             \
    "clone-user EPERM\nchroot EPERM\nmknod EPERM\nTIOCSTI EPERM\n"

static const struct sbx_scene bounds[] = {
    {.name = "a ceiling",
     .options = INSIDE_H " --rlimit nofile=64 --rlimit core=0 --rlimit fsize=1M",
     .inside = CONFINED "limits nofile core fsize; " CONFINED "raise nofile",
     .out = "nofile 64 64\ncore 0 0\nfsize 1048576 1048576\n"
            "soft EINVAL\nhard EPERM\nparent EPERM\n"},
    {.name = "a ceiling that bites",
     .options = "--rlimit fsize=4K",
     .inside =
         "(trap '' XFSZ; head -c 9000 /dev/zero >/tmp/f) 2>/dev/null; wc -c </tmp/f",
     .out = "4096\n"},
    {.name = "a ceiling that ends it",
     .options = "--rlimit fsize=4K",
     .inside = "exec head -c 9000 /dev/zero >/tmp/f",
     .signal = SIGXFSZ},
    {.name = "a ceiling of time, which is told before it kills",
     .who = SBX_USER,
     .options = "--rlimit cpu=1",
     .inside = "while :; do :; done",
     .signal = SIGXCPU},
    {.name = "a ceiling above the caller's",
     .setting = "ulimit -n 100;",
     .options = "--rlimit nofile=200",
     .status = 125,
     .err = "nofile|200"},
    {.name = "soft and hard",
     .options = "--rlimit nofile=64:128",
     .status = 125,
     .err = "--rlimit"},
    {.name = "no such ceiling",
     .options = "--rlimit files=64",
     .status = 125,
     .err = "--rlimit"},
    {.name = "a negative one",
     .options = "--rlimit nofile=-1",
     .status = 125,
     .err = "--rlimit"},
    {.name = "processes of root",
     .who = SBX_ROOT,
     .options = "--rlimit nproc=64",
     .status = 125,
     .err = "nproc|--processes"},
    {.name = "processes of another user",
     .who = SBX_ROOT,
     .options = INSIDE_H " --rlimit nproc=64 --as-user 65534:65534",
     .inside = CONFINED "limits nproc",
     .out = "nproc 64 64\n"},
    {.name = "processes of a user",
     .who = SBX_USER | SBX_SETUID,
     .options = INSIDE_H " --rlimit nproc=512",
     .inside = CONFINED "limits nproc",
     .out = "nproc 512 512\n"},
    {.name = "the filter",
     .options = INSIDE_H,
     .inside = CONFINED "calls " CALLS,
     .out = REFUSED},
    {.name = "clone3 is told to be absent",
     .options = INSIDE_H,
     .inside = CONFINED "calls clone3",
     .out = "clone3 ENOSYS\n"},
    {.name = "the filter, by name",
     .options = INSIDE_H " --seccomp default",
     .inside = CONFINED "calls keyctl mount",
     .out = "keyctl EPERM\nmount EPERM\n"},
    {.name = "no filter: keys are there, and the other walls stand",
     .options = INSIDE_H " --seccomp none",
     .inside = CONFINED "calls keyctl mount remount umount2 pivot_root chroot mknod "
                        "unshare-mount setgroups | "
                        "sed 's/^keyctl ENOSYS/keyctl ok/'",
     .out = "keyctl ok\nmount EPERM\nremount EPERM\numount2 EPERM\npivot_root EPERM\n"
            "chroot EPERM\nmknod EPERM\nunshare-mount EPERM\nsetgroups EPERM\n"},
    {.name = "no filter: no further user namespace",
     .who = SBX_PLAIN,
     .options = INSIDE_H " --seccomp none",
     .inside = CONFINED "calls unshare-user clone-user",
     .out = "unshare-user ENOSPC\nclone-user ENOSPC\n"},
    {.name = "a filter of the caller's",
     .before = "$H/confined program filter",
     .setting = "exec 7<filter;",
     .options = INSIDE_H " --seccomp 7",
     .inside = CONFINED "calls sysinfo mount; " CONFINED "fds",
     .out = "sysinfo EXDEV\nmount EPERM\n0\n1\n2\n"},
    {.name = "a filter that is cut",
     .before = "$H/confined program whole; head -c 30 whole >filter",
     .setting = "exec 7<filter;",
     .options = "--seccomp 7",
     .status = 125,
     .err = "seccomp"},
    {.name = "a filter that is empty",
     .setting = "exec 7</dev/null;",
     .options = "--seccomp 7",
     .status = 125,
     .err = "seccomp"},
    {.name = "a filter that the kernel refuses",
     .before = "head -c 64 /dev/zero | tr '\\0' '\\377' >filter",
     .setting = "exec 7<filter;",
     .options = "--seccomp 7",
     .status = 125,
     .err = "seccomp"},
    {.name = "no descriptor",
     .options = "--seccomp 8",
     .status = 125,
     .err = "--seccomp|8"},
    {.name = "no filter of that name",
     .options = "--seccomp off",
     .status = 125,
     .err = "--seccomp"},
};

#define PLAY(name)                                                                       \
    START_TEST(test_##name)                                                              \
    {                                                                                    \
        enum sbx_identity identity = (enum sbx_identity)_i;                              \
        if (sbx_kit_identity(identity)) {                                                \
            sbx_scenes_play(name, sizeof(name) / sizeof((name)[0]), identity);           \
        }                                                                                \
    }                                                                                    \
    END_TEST

PLAY(starts)
PLAY(bounds)

/* --- who sees a value --------------------------------------------------------------- */

#define SECRET "s3cret-in-no-argument"
#define FILED "s3cret-in-a-file"
#define UNASKED "s3cret-of-the-caller"

/* What a look around has found; shared with the child that looks. */
struct findings {
    bool stop;
    unsigned looks;
    pid_t with_argument;    /* one that has a value in its arguments */
    pid_t with_environment; /* one that has what was not asked for in its environment */
};

static bool file_has(const char *pid, const char *name, const char *const *texts)
{
    static char text[256 * 1024];
    char path[300];
    (void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text)) : 0;
    bool found = false;
    for (; *texts != NULL && length > 0; texts++) {
        found = found || memmem(text, (size_t)length, *texts, strlen(*texts)) != NULL;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

/* The test's own processes, the shell and sbx-run have the caller's environment. */
static bool is_inside(const char *pid)
{
    static const char *const ours[] = {"sbx-run", "test_run_start", "sh\n", NULL};
    return !file_has(pid, "comm", ours);
}

static void look_around(volatile struct findings *findings)
{
    static const char *const values[] = {SECRET, FILED, UNASKED, NULL};
    static const char *const unasked[] = {UNASKED, NULL};
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        const char *pid = entry->d_name;
        if (pid[0] < '1' || pid[0] > '9') {
            continue;
        }
        if (file_has(pid, "cmdline", values)) {
            findings->with_argument = (pid_t)strtol(pid, NULL, 10);
        }
        if (is_inside(pid) && file_has(pid, "environ", unasked)) {
            findings->with_environment = (pid_t)strtol(pid, NULL, 10);
        }
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    findings->looks++;
}

START_TEST(test_values)
{
    static const struct sbx_scene scene = {
        .name = "values",
        .before = "printf 'FILED=s3cret-in-a-''file\\n' >vars",
        .options = "--env TAKEN --env-from $W/vars",
        .inside = "[ \"$TAKEN\" = s3cret-in-no-\"argument\" ] && "
                  "[ \"$FILED\" = s3cret-in-a-\"file\" ]",
    };
    enum sbx_identity identity = (enum sbx_identity)_i;
    if (!sbx_kit_identity(identity)) {
        return;
    }
    volatile struct findings *findings =
        mmap(NULL, sizeof(*findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
             -1, 0);
    ck_assert(findings != MAP_FAILED);
    pid_t looker = fork();
    ck_assert_int_ge(looker, 0);
    while (looker == 0) {
        look_around(findings);
        if (findings->stop) {
            _exit(0);
        }
    }
    (void)setenv("TAKEN", SECRET, 1);
    (void)setenv("UNASKED", UNASKED, 1);
    for (int i = 0; i < 4 || findings->looks < 10; i++) {
        struct sbx_play play = {.scene = &scene, .identity = identity};
        ck_assert(sbx_play_start(&play));
        sbx_play_finish(&play);
        sbx_play_done(&play);
    }
    findings->stop = true;
    ck_assert_int_eq(waitpid(looker, NULL, 0), looker);
    ck_assert_msg(findings->with_argument == 0, "process %d had a value in an argument",
                  (int)findings->with_argument);
    ck_assert_msg(findings->with_environment == 0,
                  "process %d had a variable that was not asked for",
                  (int)findings->with_environment);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_start");
    TCase *tcase = sbx_fixture_case(suite, "start", SECONDS);
    tcase_add_loop_test(tcase, test_starts, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_bounds, 0, SBX_IDENTITY_COUNT);
    tcase_add_loop_test(tcase, test_values, 0, SBX_IDENTITY_COUNT);
    return sbx_fixture_run(suite);
}
