/*
 * helper.h - what the misbehaving programs have in common.
 *
 * Each of their processes has a lifetime after which the kernel ends it, and their number
 * is bounded: whatever a test forgets, nothing stays. Each says "up PID" on its standard
 * output, in one write, when it has become what the test wants, so that tests wait for
 * that and never for a time.
 */
#ifndef SBX_TESTS_HELPER_H
#define SBX_TESTS_HELPER_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELPER_LIFETIME_SECONDS 60

/* Each process calls this first: a fork inherits no alarm. */
static inline void helper_bound(unsigned seconds)
{
    sigset_t only;
    (void)sigemptyset(&only);
    (void)sigaddset(&only, SIGALRM);
    (void)signal(SIGALRM, SIG_DFL);
    (void)sigprocmask(SIG_UNBLOCK, &only, NULL);
    (void)alarm(seconds);
}

__attribute__((format(printf, 1, 2))) static inline void helper_say(const char *format,
                                                                    ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < sizeof(line) &&
        write(STDOUT_FILENO, line, (size_t)length) != length) {
        _exit(90);
    }
}

static inline void helper_up(void)
{
    helper_say("up %d\n", (int)getpid());
}

static inline _Noreturn void helper_fail(const char *what)
{
    (void)fprintf(stderr, "helper: %s: %s\n", what, strerror(errno));
    _exit(91);
}

/* fork, with a lifetime for the child. */
static inline pid_t helper_fork(void)
{
    pid_t pid = fork();
    if (pid < 0) {
        helper_fail("fork");
    }
    if (pid == 0) {
        helper_bound(HELPER_LIFETIME_SECONDS);
    }
    return pid;
}

static inline void helper_new_session(void)
{
    if (setsid() < 0) {
        helper_fail("setsid");
    }
}

static inline _Noreturn void helper_idle(void)
{
    for (;;) {
        (void)pause();
    }
}

static inline uint64_t helper_now_us(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) < 0) {
        helper_fail("clock_gettime");
    }
    return (uint64_t)time.tv_sec * 1000000U + (uint64_t)time.tv_nsec / 1000U;
}

static inline void helper_nap_us(uint64_t us)
{
    struct timespec rest = {(time_t)(us / 1000000U), (long)(us % 1000000U) * 1000L};
    while (nanosleep(&rest, &rest) < 0 && errno == EINTR) {
    }
}

/* Argument `index` as a number up to `limit`, or what stands for an absent one. */
static inline unsigned long helper_number(int argc, char **argv, int index,
                                          unsigned long absent, unsigned long limit)
{
    if (index >= argc) {
        return absent;
    }
    char *end = NULL;
    errno = 0;
    unsigned long number = strtoul(argv[index], &end, 10);
    if (errno != 0 || end == argv[index] || *end != '\0' || number > limit) {
        (void)fprintf(stderr, "helper: bad number %s (at most %lu)\n", argv[index],
                      limit);
        _exit(92);
    }
    return number;
}

/* Memory that all processes of a helper share. */
static inline void *helper_shared(size_t size)
{
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        helper_fail("mmap");
    }
    return memory;
}

/*
 * A bound on processes that come and go: each holds a slot, and a fork needs one whose
 * holder is gone. A dead process that nobody has reaped yet still has its pid, and its
 * slot: else a supervisor that is slow to reap would fill the machine with zombies.
 */
#define HELPER_SLOTS_MAX 1500
#define HELPER_CLAIMED 1 /* pid 1 is never ours */

struct helper_slots {
    int count;
    atomic_int holders[HELPER_SLOTS_MAX];
};

/* A slot that was free or whose holder is gone, claimed; or -1. A recycled pid makes a
 * slot look taken, which errs on the right side. */
static inline int helper_claim(struct helper_slots *slots, unsigned *seed)
{
    for (int tries = 0; tries < 16; tries++) {
        int slot = rand_r(seed) % slots->count;
        int holder = atomic_load(&slots->holders[slot]);
        if (holder == HELPER_CLAIMED || (holder != 0 && kill(holder, 0) == 0)) {
            continue;
        }
        if (atomic_compare_exchange_strong(&slots->holders[slot], &holder,
                                           HELPER_CLAIMED)) {
            return slot;
        }
    }
    return -1;
}

/* Uses up that much CPU time. */
static inline void helper_spin_us(uint64_t us)
{
    uint64_t end = helper_now_us(CLOCK_PROCESS_CPUTIME_ID) + us;
    while (helper_now_us(CLOCK_PROCESS_CPUTIME_ID) < end) {
    }
}

/* Writes to each page, so that the memory is really there. */
static inline void helper_touch(volatile char *memory, size_t size)
{
    for (size_t i = 0; i < size; i += 4096) {
        memory[i] = (char)(i >> 12 | 1);
    }
}

#define HELPER_MIB (1024UL * 1024UL)

#endif
