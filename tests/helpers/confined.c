/*
 * confined VERB [ARG]... - looks at a sandbox from inside, and tries to get out of it. It
 * says in words what came of it: "ok", or the name of an errno.
 *
 *   fds                  numbers of the open descriptors
 *   calls NAME...        for each call its name and what it returned (the table below)
 *   limits NAME...       for each ceiling its name, soft and hard
 *   raise NAME           tries to get a soft and a hard limit of one more
 *   who                  ids, no_new_privs, capabilities, session and group
 *   abstract NAME        connects to an abstract socket;   connect PORT   to 127.0.0.1
 *   interfaces           names of the network's
 *   signal PID, trace PID            SIGTERM to a process; attaches to one
 *   sysv KEY             shared memory, semaphores and a queue that somebody else has
 * made terminal             TIOCSTI and TIOCLINUX on descriptor 0, /dev/tty program FILE
 * writes a filter for seccomp: sysinfo fails with EXDEV writable DIR         what is in
 * there, a few levels deep, and can be written reopen FILE          for reading, then its
 * /proc/self/fd for writing thread COMMAND...    starts it from a thread that ends, says
 * "gone", and exits as it
 */
#include "helper.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static const char *word_for(long result)
{
    if (result >= 0) {
        return "ok";
    }
    const char *name = strerrorname_np(errno);
    return name != NULL ? name : "?";
}

/* --- calls -------------------------------------------------------------------------- */

static long call_clone_user(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L);
    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        (void)waitpid((pid_t)pid, NULL, 0);
    }
    return pid;
}

static long call_ioctl(unsigned long request)
{
    char byte = 'x';
    return ioctl(0, request, &byte);
}

static long call(const char *name)
{
    static const struct {
        const char *name;
        long number;
        long arguments[6];
    } calls[] = {
        {"keyctl", SYS_keyctl, {0, -3}},
        {"add_key", SYS_add_key, {(long)"user", (long)"sbx", (long)"x", 1, -2}},
        {"request_key", SYS_request_key, {(long)"user", (long)"sbx"}},
        {"bpf", SYS_bpf, {0, 0, 0}},
        {"userfaultfd", SYS_userfaultfd, {0}},
        {"perf_event_open", SYS_perf_event_open, {0, 0, -1, -1, 0}},
        {"kexec_load", SYS_kexec_load, {0, 0, 0, -1}},
        {"mount", SYS_mount, {(long)"none", (long)"/tmp", (long)"tmpfs"}},
        {"remount", SYS_mount, {0, (long)"/usr", 0, MS_REMOUNT | MS_BIND}},
        {"umount2", SYS_umount2, {(long)"/tmp", MNT_DETACH}},
        {"pivot_root", SYS_pivot_root, {(long)"/", (long)"/"}},
        {"open_tree", SYS_open_tree, {AT_FDCWD, (long)"/", 1}},
        {"move_mount", SYS_move_mount, {-1, (long)"", -1, (long)"", 4}},
        {"fsopen", SYS_fsopen, {(long)"tmpfs", 0}},
        {"fsmount", SYS_fsmount, {-1}},
        {"unshare-user", SYS_unshare, {CLONE_NEWUSER}},
        {"unshare-mount", SYS_unshare, {CLONE_NEWNS}},
        {"unshare-net", SYS_unshare, {CLONE_NEWNET}},
        {"clone3", SYS_clone3, {0, 0}},
        {"chroot", SYS_chroot, {(long)"/"}},
        {"mknod", SYS_mknodat, {AT_FDCWD, (long)"/tmp/zero", S_IFCHR | 0600, 0x105}},
        {"sethostname", SYS_sethostname, {(long)"x", 1}},
        {"sysinfo", SYS_sysinfo, {-1}},
        {"setuid", SYS_setresuid, {1, 1, 1}},
        {"setgroups", SYS_setgroups, {0, 0}},
    };
    if (strcmp(name, "clone-user") == 0) {
        return call_clone_user();
    }
    if (strcmp(name, "TIOCSTI") == 0 || strcmp(name, "TIOCLINUX") == 0) {
        return call_ioctl(name[4] == 'S' ? TIOCSTI : TIOCLINUX);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const long *a = calls[i].arguments;
        if (strcmp(name, calls[i].name) == 0) {
            return syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]);
        }
    }
    errno = EDOM;
    return -1;
}

static void calls(char **names)
{
    for (; *names != NULL; names++) {
        long result = call(*names);
        helper_say("%s %s\n", *names, word_for(result));
    }
}

/* --- what we are -------------------------------------------------------------------- */

static void fds(void)
{
    for (int fd = 0; fd < 65536; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            helper_say("%d\n", fd);
        }
    }
}

static int resource_of(const char *name)
{
    static const struct {
        const char *name;
        int resource;
    } resources[] = {
        {"as", RLIMIT_AS},       {"core", RLIMIT_CORE},   {"cpu", RLIMIT_CPU},
        {"data", RLIMIT_DATA},   {"fsize", RLIMIT_FSIZE}, {"nofile", RLIMIT_NOFILE},
        {"nproc", RLIMIT_NPROC}, {"stack", RLIMIT_STACK}, {"memlock", RLIMIT_MEMLOCK}};
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++) {
        if (strcmp(name, resources[i].name) == 0) {
            return resources[i].resource;
        }
    }
    _exit(93);
}

static void limits(char **names)
{
    for (; *names != NULL; names++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)resource_of(*names), &limit) < 0) {
            helper_fail("getrlimit");
        }
        helper_say("%s %llu %llu\n", *names, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
    }
}

static void raise_limit(const char *name)
{
    __rlimit_resource_t resource = (__rlimit_resource_t)resource_of(name);
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0) {
        helper_fail("getrlimit");
    }
    struct rlimit soft = {limit.rlim_cur + 1, limit.rlim_max};
    struct rlimit both = {limit.rlim_cur + 1, limit.rlim_max + 1};
    int first = setrlimit(resource, &soft);
    helper_say("soft %s\n", word_for(first));
    int second = setrlimit(resource, &both);
    helper_say("hard %s\n", word_for(second));
    int third = prlimit(getppid(), resource, &both, NULL);
    helper_say("parent %s\n", word_for(third));
}

static void capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    unsigned bounding = 0;
    if (syscall(SYS_capget, &header, data) < 0) {
        helper_fail("capget");
    }
    for (unsigned long capability = 0; capability < 64; capability++) {
        bounding += prctl(PR_CAPBSET_READ, capability, 0UL, 0UL, 0UL) == 1 ? 1 : 0;
    }
    helper_say("capabilities %x %x %x bounding %u\n",
               data[0].effective | data[1].effective,
               data[0].permitted | data[1].permitted,
               data[0].inheritable | data[1].inheritable, bounding);
}

static void who(void)
{
    uid_t u[3];
    gid_t g[3];
    if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0) {
        helper_fail("ids");
    }
    helper_say("uid %u %u %u\ngid %u %u %u\n", u[0], u[1], u[2], g[0], g[1], g[2]);
    helper_say("no_new_privs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0UL, 0UL, 0UL, 0UL));
    capabilities();
    helper_say("group %s\nterminal %s\n", getpgrp() == getpid() ? "own" : "other",
               open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC) >= 0 ? "yes" : "no");
}

/* --- the others --------------------------------------------------------------------- */

static long connect_abstract(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || length >= sizeof(address.sun_path) - 1) {
        return -1;
    }
    (void)memcpy(address.sun_path + 1, name, length);
    return connect(fd, (const struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
}

static long connect_port(unsigned long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -1 : connect(fd, (const struct sockaddr *)&address, sizeof(address));
}

static void interfaces(void)
{
    struct if_nameindex *all = if_nameindex();
    if (all == NULL) {
        helper_fail("if_nameindex");
    }
    for (const struct if_nameindex *one = all; one->if_index != 0; one++) {
        helper_say("%s\n", one->if_name);
    }
    if_freenameindex(all);
}

static void sysv(int key)
{
    long shared = shmget(key, 0, 0);
    helper_say("shared %s\n", word_for(shared));
    long semaphores = semget(key, 0, 0);
    helper_say("semaphores %s\n", word_for(semaphores));
    long queue = msgget(key, 0);
    helper_say("queue %s\n", word_for(queue));
}

static void terminal(void)
{
    helper_say("descriptor 0 %s\n", isatty(0) ? "is one" : "is none");
    long pushed = call_ioctl(TIOCSTI);
    helper_say("TIOCSTI %s\n", pushed >= 0 ? "ok" : "refused");
    long pasted = call_ioctl(TIOCLINUX);
    helper_say("TIOCLINUX %s\n", pasted >= 0 ? "ok" : "refused");
    helper_say("/dev/tty %s\n",
               open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0 ? "ok" : "refused");
}

/* --- files -------------------------------------------------------------------------- */

static void write_program(const char *path)
{
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sysinfo, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, program, sizeof(program)) != (ssize_t)sizeof(program)) {
        helper_fail(path);
    }
}

/* Processes are left out: their files are their own. */
static void writable(const char *path, int levels)
{
    char below[4096];
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name;
        if (name[0] == '.' || (name[0] >= '0' && name[0] <= '9') ||
            entry->d_type == DT_LNK ||
            snprintf(below, sizeof(below), "%s/%s", path, name) >= (int)sizeof(below)) {
            continue;
        }
        if (faccessat(AT_FDCWD, below, W_OK, AT_EACCESS) == 0) {
            helper_say("%.400s\n", below);
        }
        if (entry->d_type == DT_DIR && levels > 0) {
            writable(below, levels - 1);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
}

static long reopen(const char *path)
{
    char link[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return open(link, O_WRONLY | O_CLOEXEC);
}

/* --- the caller's side -------------------------------------------------------------- */

static pid_t command_pid;

static void *start(void *context)
{
    char **argv = context;
    command_pid = fork();
    if (command_pid == 0) {
        (void)alarm(0);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    return NULL;
}

static _Noreturn void run_from_thread(char **argv)
{
    pthread_t thread;
    int status = 0;
    if (pthread_create(&thread, NULL, start, argv) != 0 ||
        pthread_join(thread, NULL) != 0 || command_pid < 0) {
        _exit(95);
    }
    helper_say("gone\n");
    if (waitpid(command_pid, &status, 0) != command_pid) {
        helper_fail("waitpid");
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 96);
}

static void with_argument(const char *verb, char **argv)
{
    unsigned long number = strtoul(argv[2], NULL, 10);
    long result = 0;
    if (strcmp(verb, "calls") == 0) {
        calls(argv + 2);
        return;
    }
    if (strcmp(verb, "limits") == 0) {
        limits(argv + 2);
        return;
    }
    if (strcmp(verb, "raise") == 0) {
        raise_limit(argv[2]);
        return;
    }
    if (strcmp(verb, "sysv") == 0) {
        sysv((int)number);
        return;
    }
    if (strcmp(verb, "writable") == 0) {
        writable(argv[2], 4);
        return;
    }
    if (strcmp(verb, "program") == 0) {
        write_program(argv[2]);
        return;
    }
    if (strcmp(verb, "thread") == 0) {
        run_from_thread(argv + 2);
    }
    if (strcmp(verb, "abstract") == 0) {
        result = connect_abstract(argv[2]);
    } else if (strcmp(verb, "connect") == 0) {
        result = connect_port(number);
    } else if (strcmp(verb, "signal") == 0) {
        result = number > 1 ? kill((pid_t)number, SIGTERM) : 0;
    } else if (strcmp(verb, "trace") == 0) {
        result = ptrace(PTRACE_ATTACH, (pid_t)number, NULL, NULL);
    } else if (strcmp(verb, "reopen") == 0) {
        result = reopen(argv[2]);
    } else {
        _exit(94);
    }
    helper_say("%s\n", word_for(result));
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    const char *verb = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        with_argument(verb, argv);
    } else if (strcmp(verb, "fds") == 0) {
        fds();
    } else if (strcmp(verb, "who") == 0) {
        who();
    } else if (strcmp(verb, "interfaces") == 0) {
        interfaces();
    } else if (strcmp(verb, "terminal") == 0) {
        terminal();
    } else {
        _exit(94);
    }
    return 0;
}
