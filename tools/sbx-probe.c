/*
 * sbx-probe.c - what `sbx-watch --verify` runs to see whether a ceiling, a limit or a
 * sandbox holds: one small greedy deed, named by its first argument.
 *
 * Static and without anything of ours, since it runs below every ceiling, and inside of
 * sandboxes. Prints one line about what it met. Exit status 0: it was held; 1: it was
 * not; 2: that cannot be tried here. What is held by a signal ends it. Bounded by itself:
 * it takes little, writes no file, dumps no core (but as "core"), and an alarm ends each
 * of its processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD 0
#define NOT_HELD 1
#define NOT_TRIED 2

/* Longer than anybody waits for it. */
#define LIFETIME_S 60U
#define MIB ((size_t)1 << 20)
#define PAGE 4096U
#define BEYOND (4 * MIB)
#define GROWTH_MIB 96
#define COMPANY 8
#define SPIN_S 5U
#define REALTIME_SPIN_MS 600

/* All that is said goes out in one write: a limit may be on the number of descriptors,
 * or on memory. */
__attribute__((format(printf, 2, 3))) static int say(int status, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0) {
        (void)!write(STDOUT_FILENO, text, strnlen(text, sizeof text));
    }
    return status;
}

static rlim_t limit_of(int resource)
{
    struct rlimit limit = {0};
    return getrlimit((unsigned)resource, &limit) == 0 ? limit.rlim_cur : 0;
}

static _Noreturn void idle(void)
{
    for (;;) {
        (void)pause();
    }
}

/* --- ceilings --- */

/* More private, writable memory than either limit allows; none of it is touched. */
static int map_beyond(int resource)
{
    size_t size = (size_t)limit_of(resource) + BEYOND;
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return say(errno == ENOMEM ? HELD : NOT_HELD, "mmap of %zu MiB: %s", size / MIB,
                   strerrorname_np(errno));
    }
    (void)munmap(memory, size);
    return say(NOT_HELD, "mmap of %zu MiB succeeded", size / MIB);
}

static int probe_as(void)
{
    return map_beyond(RLIMIT_AS);
}

static int probe_data(void)
{
    return map_beyond(RLIMIT_DATA);
}

static int probe_core(void)
{
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)raise(SIGABRT);
    return say(NOT_TRIED, "SIGABRT did not end it");
}

static uint64_t now_ms(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void spin(uint64_t cpu_ms)
{
    uint64_t until = now_ms(CLOCK_PROCESS_CPUTIME_ID) + cpu_ms;
    while (now_ms(CLOCK_PROCESS_CPUTIME_ID) < until) {
        for (volatile unsigned i = 0; i < 100000; i++) {
        }
    }
}

static int probe_cpu(void)
{
    spin(SPIN_S * UINT64_C(1000));
    return say(NOT_HELD, "used %u s of CPU", SPIN_S);
}

/* In memory: no file is left whatever happens. */
static int probe_fsize(void)
{
    off_t limit = (off_t)limit_of(RLIMIT_FSIZE);
    int fd = memfd_create("sbx-probe", MFD_CLOEXEC);
    if (fd < 0) {
        return say(NOT_TRIED, "memfd_create: %s", strerrorname_np(errno));
    }
    if (pwrite(fd, "", 1, limit) == 1) {
        return say(NOT_HELD, "wrote a byte beyond %lld", (long long)limit);
    }
    return say(NOT_HELD, "pwrite: %s", strerrorname_np(errno));
}

static int probe_locks(void)
{
    for (unsigned i = 0; i < limit_of(RLIMIT_LOCKS) + 4; i++) {
        int fd = memfd_create("sbx-probe", MFD_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX) < 0) {
            return say(HELD, "lock %u: %s", i + 1, strerrorname_np(errno));
        }
    }
    return say(NOT_HELD, "took more locks than that");
}

static int probe_memlock(void)
{
    size_t size = (size_t)limit_of(RLIMIT_MEMLOCK) + (size_t)4 * PAGE;
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return say(NOT_TRIED, "mmap: %s", strerrorname_np(errno));
    }
    if (mlock(memory, size) < 0) {
        return say(HELD, "mlock: %s", strerrorname_np(errno));
    }
    return say(NOT_HELD, "mlock of more than that succeeded");
}

static int probe_msgqueue(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 64};
    (void)snprintf(name, sizeof name, "/sbx-probe-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
    int code = errno;
    if (queue != (mqd_t)-1) {
        (void)mq_unlink(name);
        return say(NOT_HELD, "made a message queue");
    }
    return say(code == EMFILE ? HELD : NOT_TRIED, "mq_open: %s", strerrorname_np(code));
}

static int probe_nice(void)
{
    int nice_value = getpriority(PRIO_PROCESS, 0);
    if (setpriority(PRIO_PROCESS, 0, nice_value - 1) < 0) {
        return say(HELD, "setpriority(%d): %s", nice_value - 1, strerrorname_np(errno));
    }
    return say(NOT_HELD, "setpriority(%d) succeeded", nice_value - 1);
}

static int probe_nofile(void)
{
    unsigned limit = (unsigned)limit_of(RLIMIT_NOFILE);
    for (unsigned i = 0; i < limit + 4; i++) {
        if (dup(STDIN_FILENO) < 0) { /* NOLINT(android-cloexec-dup) */
            return say(errno == EMFILE ? HELD : NOT_HELD, "dup: %s",
                       strerrorname_np(errno));
        }
    }
    return say(NOT_HELD, "has more than %u descriptors", limit);
}

static int fork_company(pid_t pids[static COMPANY])
{
    for (int i = 0; i < COMPANY; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            return i;
        }
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            (void)alarm(LIFETIME_S);
            idle();
        }
    }
    return COMPANY;
}

static int probe_nproc(void)
{
    pid_t pids[COMPANY];
    int count = fork_company(pids);
    int code = errno;
    for (int i = 0; i < count; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    return count < COMPANY ? say(HELD, "fork: %s", strerrorname_np(code))
                           : say(NOT_HELD, "made %d processes", COMPANY);
}

static int probe_rss(void)
{
    size_t size = (size_t)limit_of(RLIMIT_RSS) + BEYOND;
    char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return say(HELD, "mmap: %s", strerrorname_np(errno));
    }
    memset(memory, 1, size);
    return say(NOT_HELD, "uses %zu MiB", size / MIB);
}

static int become_realtime(void)
{
    const struct sched_param parameters = {.sched_priority = 1};
    return sched_setscheduler(0, SCHED_RR, &parameters);
}

static int probe_rtprio(void)
{
    if (become_realtime() < 0) {
        return say(HELD, "sched_setscheduler: %s", strerrorname_np(errno));
    }
    return say(NOT_HELD, "got real-time scheduling");
}

/* Whoever started it may have made it a real-time process already. */
static int probe_rttime(void)
{
    if (sched_getscheduler(0) != SCHED_RR && become_realtime() < 0) {
        return say(NOT_TRIED, "no right to real-time scheduling (%s)",
                   strerrorname_np(errno));
    }
    spin(REALTIME_SPIN_MS);
    return say(NOT_HELD, "was busy for %d ms", REALTIME_SPIN_MS);
}

static int probe_sigpending(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGRTMIN);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (unsigned i = 0; i < limit_of(RLIMIT_SIGPENDING) + 4; i++) {
        if (sigqueue(getpid(), SIGRTMIN, (union sigval){0}) < 0) {
            return say(HELD, "sigqueue: %s", strerrorname_np(errno));
        }
    }
    return say(NOT_HELD, "queued more signals than that");
}

/* A page a call, so that the guard below the stack is not jumped over. By a pointer that
 * the compiler must not look through, and with an index that it does not know: else it
 * makes a loop of it, or a byte of the page. */
static unsigned descend(size_t left);
static unsigned (*volatile deeper)(size_t left) = descend;

static unsigned descend(size_t left)
{
    volatile char page[PAGE];
    size_t index = left % (PAGE - 1);
    page[index] = 1;
    return left > PAGE ? deeper(left - PAGE) + (unsigned)page[index] : 0;
}

static int probe_stack(void)
{
    unsigned sum = descend((size_t)limit_of(RLIMIT_STACK) + BEYOND);
    return say(NOT_HELD, "used more of the stack than that (%u)", sum & 1U);
}

/* --- limits of a whole tree --- */

static int hungry_time(void)
{
    idle();
}

static int hungry_memory(void)
{
    for (int i = 0; i < GROWTH_MIB; i++) {
        char *memory =
            mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            memset(memory, 1, MIB);
        }
    }
    idle();
}

static int hungry_processes(void)
{
    pid_t pids[COMPANY];
    (void)fork_company(pids);
    idle();
}

static void *wait_in_thread(void *context)
{
    (void)context;
    idle();
}

static int hungry_threads(void)
{
    for (int i = 0; i < COMPANY; i++) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, wait_in_thread, NULL);
    }
    idle();
}

static int hungry_output(void)
{
    static char block[PAGE];
    memset(block, '.', sizeof block);
    for (int i = 0; i < 16; i++) {
        (void)!write(STDOUT_FILENO, block, sizeof block);
    }
    idle();
}

/* --- sandboxes --- */

static bool has_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (syscall(SYS_capget, &header, data) < 0) {
        return true;
    }
    return (data[0].effective | data[1].effective | data[0].permitted |
            data[1].permitted) != 0;
}

static int probe_sandbox(void)
{
    if (getppid() != 1) {
        return say(NOT_HELD, "is in no PID namespace of its own");
    }
    if (has_capabilities()) {
        return say(NOT_HELD, "has capabilities");
    }
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return say(NOT_HELD, "may gain privileges");
    }
    if (mkdir("/sbx-probe", 0700) == 0) {
        return say(NOT_HELD, "the root directory can be written to");
    }
    return say(HELD, "no capabilities, no new privileges, the root is read-only");
}

static int probe_network(void)
{
    if (probe_sandbox() != HELD) {
        return NOT_HELD;
    }
    struct if_nameindex *interfaces = if_nameindex();
    if (interfaces == NULL) {
        return say(NOT_TRIED, "; the interfaces cannot be listed (%s)",
                   strerrorname_np(errno));
    }
    for (const struct if_nameindex *one = interfaces; one->if_index != 0; one++) {
        if (strcmp(one->if_name, "lo") != 0) {
            return say(NOT_HELD, "; there is an interface %s", one->if_name);
        }
    }
    const struct sockaddr_in elsewhere = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0xc0000201)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&elsewhere, sizeof elsewhere) == 0) {
        return say(NOT_HELD, "; there is a route to 192.0.2.1");
    }
    return say(HELD, "; only loopback, no route");
}

/* Prints which user namespace it is in. */
static int tell_user_namespace(void)
{
    char name[64];
    ssize_t length = readlink("/proc/self/ns/user", name, sizeof name - 1);
    return length < 0 ? say(NOT_TRIED, "%s", strerrorname_np(errno))
                      : say(HELD, "%.*s", (int)length, name);
}

static const struct {
    const char *name;
    int (*probe)(void);
} probes[] = {
    {"as", probe_as},
    {"core", probe_core},
    {"cpu", probe_cpu},
    {"data", probe_data},
    {"fsize", probe_fsize},
    {"locks", probe_locks},
    {"memlock", probe_memlock},
    {"msgqueue", probe_msgqueue},
    {"nice", probe_nice},
    {"nofile", probe_nofile},
    {"nproc", probe_nproc},
    {"rss", probe_rss},
    {"rtprio", probe_rtprio},
    {"rttime", probe_rttime},
    {"sigpending", probe_sigpending},
    {"stack", probe_stack},
    {"hungry-wall", hungry_time},
    {"hungry-cpu", probe_cpu},
    {"hungry-memory", hungry_memory},
    {"hungry-processes", hungry_processes},
    {"hungry-threads", hungry_threads},
    {"hungry-output", hungry_output},
    {"hungry-idle", hungry_time},
    {"sandbox", probe_sandbox},
    {"network", probe_network},
    {"user-namespace", tell_user_namespace},
};

int main(int argc, char *argv[])
{
    /* Those that a monitor is to measure stay as any command is. */
    if (argc == 2 && strncmp(argv[1], "hungry-", 7) != 0) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    (void)alarm(LIFETIME_S);
    for (size_t i = 0; argc == 2 && i < sizeof probes / sizeof probes[0]; i++) {
        if (strcmp(argv[1], probes[i].name) == 0) {
            return probes[i].probe();
        }
    }
    return say(NOT_TRIED, "sbx-probe: is started by sbx-watch --verify\n");
}
