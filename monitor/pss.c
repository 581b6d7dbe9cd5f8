/*
 * pss.c - see pss.h. A request is a number through the socket, its answer the same
 * number. A number that is not the current one belongs to a reader that was given up. An
 * entry's figures are complete before its state says so.
 */
#include "monitor/pss.h"

#include "base/clock.h"
#include "base/fd.h"
#include "reaper/boost.h"
#include "reaper/pidref.h"
#include "reaper/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a new reader says first: the number of no request. */
#define HELLO 0U
/* How long a reader that gets no processor is waited for. */
#define STARVED_BOUND_US (1 * SBX_US_PER_S)

struct sbx_pss {
    int proc_fd;
    struct sbx_pss_area *area;
    const struct sbx_pair_link *link; /* NULL: no reader */
    bool there;                       /* a reader has said so and has not been given up */
    bool overdue; /* the next one was waited for in vain: it is only looked for */
};

/* --- reading --- */

static uint64_t known_or_none(uint64_t bytes)
{
    return bytes == SBX_UNKNOWN ? 0 : bytes;
}

static void read_entry(int proc_fd, struct sbx_pss_entry *entry)
{
    struct sbx_proc_smaps smaps;
    enum sbx_pss_state state = SBX_PSS_DONE;
    if (entry->compare_pid != 0) {
        long differs =
            syscall(SYS_kcmp, entry->compare_pid, entry->pid, KCMP_VM, 0UL, 0UL);
        if (differs == 0) {
            __atomic_store_n(&entry->state, SBX_PSS_SHARED, __ATOMIC_RELEASE);
            return;
        }
        entry->differs = differs > 0; /* an error tells nothing, and it counts */
    }
    int r = sbx_proc_smaps_at(proc_fd, entry->pid, &smaps);
    if (r == 0) {
        bool split = smaps.anon_bytes != SBX_UNKNOWN;
        entry->pss_bytes = smaps.pss_bytes;
        entry->swap_bytes = smaps.swap_pss_bytes;
        entry->private_bytes = known_or_none(smaps.private_clean_bytes) +
                               known_or_none(smaps.private_dirty_bytes);
        entry->anon_bytes = split ? smaps.anon_bytes : smaps.pss_bytes;
        if (split && smaps.shmem_bytes != SBX_UNKNOWN) {
            entry->anon_bytes += smaps.shmem_bytes;
        }
    } else {
        bool gone = r == -ESRCH || (r == -ENOENT && !sbx_pid_exists(entry->pid));
        state = gone ? SBX_PSS_GONE : SBX_PSS_REFUSED;
    }
    __atomic_store_n(&entry->state, (int32_t)state, __ATOMIC_RELEASE);
}

static void read_request(struct sbx_pss_area *area, int proc_fd)
{
    uint64_t before = sbx_clock_cpu_us();
    for (size_t i = 0; i < area->count; i++) {
        read_entry(proc_fd, &area->entries[i]);
    }
    area->cost_us += sbx_clock_cpu_us() - before;
}

/* --- the reader --- */

void sbx_pss_serve(struct sbx_pss_area *area, int socket)
{
    uint32_t number = HELLO;
    (void)prctl(PR_SET_NAME, "sbx-reader", 0, 0, 0);
    __atomic_store_n(&area->reader_pid, getpid(), __ATOMIC_RELEASE);
    sbx_boost();
    /* Out of reach of the terminal. A session, and with it a scheduling group of its own,
     * only where its priority could be raised: see step_aside in watch.c. */
    if (getpriority(PRIO_PROCESS, 0) >= 0 || setsid() < 0) {
        (void)setpgid(0, 0);
    }
    if (socket > 3) {
        (void)close_range(3, (unsigned)socket - 1, 0);
    }
    (void)close_range((unsigned)socket + 1, ~0U, 0);
    SBX_AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sbx_boost_session(proc_fd);
    while (send(socket, &number, sizeof number, MSG_NOSIGNAL) == (ssize_t)sizeof number) {
        do { /* what was meant for the one before is passed over */
            if (read(socket, &number, sizeof number) != (ssize_t)sizeof number) {
                return;
            }
        } while (number != __atomic_load_n(&area->request, __ATOMIC_ACQUIRE));
        read_request(area, proc_fd);
    }
}

/* --- the monitor's side --- */

int sbx_pss_new(int proc_fd, struct sbx_pss_area *area, const struct sbx_pair_link *link,
                struct sbx_pss **ret_pss)
{
    struct sbx_pss *pss = calloc(1, sizeof *pss);
    if (pss == NULL) {
        return -ENOMEM;
    }
    *pss = (struct sbx_pss){.proc_fd = proc_fd, .area = area, .link = link};
    *ret_pss = pss;
    return 0;
}

void sbx_pss_free(struct sbx_pss *pss)
{
    free(pss);
}

void sbx_pss_restart(struct sbx_pss *pss)
{
    pss->area->count = 0;
}

struct sbx_pss_entry *sbx_pss_add(struct sbx_pss *pss, pid_t pid, pid_t compare_pid)
{
    struct sbx_pss_area *area = pss->area;
    if (area->count == SBX_PSS_MAX) {
        return NULL;
    }
    struct sbx_pss_entry *entry = &area->entries[area->count++];
    *entry = (struct sbx_pss_entry){.pid = pid, .compare_pid = compare_pid};
    return entry;
}

/* The next number that a reader sends, within wait_us. False when none came. */
static bool receive(const struct sbx_pss *pss, uint64_t wait_us, uint32_t *ret_number)
{
    int socket = pss->link->reader_socket;
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    return poll(&ready, 1, (int)((wait_us + 999) / 1000)) > 0 &&
           recv(socket, ret_number, sizeof *ret_number, MSG_DONTWAIT) ==
               (ssize_t)sizeof *ret_number;
}

static bool await(struct sbx_pss *pss, uint32_t wanted, uint64_t wait_us)
{
    uint64_t until = sbx_clock_add(sbx_clock_us(), wait_us);
    uint32_t number = 0;
    for (;;) {
        uint64_t now = sbx_clock_us();
        if (!receive(pss, now < until ? until - now : 0, &number)) {
            return false;
        }
        if (number == wanted) {
            return true;
        }
    }
}

static bool is_runnable(const struct sbx_pss *pss, pid_t pid)
{
    struct sbx_proc_stat stat;
    return sbx_proc_stat_at(pss->proc_fd, pid, &stat) == 0 && stat.state == 'R';
}

/* Who is being read. */
static pid_t first_pending(const struct sbx_pss_area *area)
{
    for (size_t i = 0; i < area->count; i++) {
        const struct sbx_pss_entry *entry = &area->entries[i];
        if (__atomic_load_n(&entry->state, __ATOMIC_ACQUIRE) == SBX_PSS_PENDING) {
            return entry->pid;
        }
    }
    return 0;
}

/* A reader that would run if it got a processor does not hang at anybody, nor does one
 * that waits for a member which would: that one forks, and was preempted with its lock in
 * hand. On a busy machine, without a right to priority, neither is a rarity. */
static bool is_starved(const struct sbx_pss *pss)
{
    pid_t reader = __atomic_load_n(&pss->area->reader_pid, __ATOMIC_ACQUIRE);
    pid_t member = first_pending(pss->area);
    return reader == 0 || is_runnable(pss, reader) ||
           (member != 0 && is_runnable(pss, member));
}

static bool await_patiently(struct sbx_pss *pss, uint32_t wanted, uint64_t wait_us)
{
    uint64_t until = sbx_clock_add(sbx_clock_us(), STARVED_BOUND_US);
    do {
        if (await(pss, wanted, wait_us)) {
            return true;
        }
    } while (is_starved(pss) && sbx_clock_us() < until);
    return await(pss, wanted, 0); /* just after the last look */
}

static uint32_t renumber(struct sbx_pss_area *area)
{
    uint32_t number = area->request + 1 == HELLO ? HELLO + 1 : area->request + 1;
    __atomic_store_n(&area->request, number, __ATOMIC_RELEASE);
    return number;
}

int sbx_pss_read(struct sbx_pss *pss, uint64_t wait_us)
{
    struct sbx_pss_area *area = pss->area;
    if (pss->link == NULL) {
        read_request(area, pss->proc_fd);
        return 0;
    }
    pss->there = pss->there || await(pss, HELLO, 0) ||
                 (!pss->overdue && await_patiently(pss, HELLO, wait_us));
    pss->overdue = !pss->there;
    if (!pss->there) {
        return -EAGAIN;
    }
    uint32_t number = renumber(area);
    if (send(pss->link->reader_socket, &number, sizeof number,
             MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof number &&
        await_patiently(pss, number, wait_us)) {
        return 0;
    }
    pss->there = false;
    __atomic_store_n(&area->reader_pid, 0, __ATOMIC_RELEASE);
    (void)renumber(area); /* what is left in the socket is nobody's request */
    sbx_pair_send(pss->link->socket, SBX_MESSAGE_READER_HUNG, 0);
    return -ETIME;
}

size_t sbx_pss_count(const struct sbx_pss *pss)
{
    return pss->area->count;
}

const struct sbx_pss_entry *sbx_pss_entry_at(const struct sbx_pss *pss, size_t index)
{
    return &pss->area->entries[index];
}

uint64_t sbx_pss_cost_us(const struct sbx_pss *pss)
{
    return pss->area->cost_us;
}
