/*
 * supervisor.c - all executions of one state directory: opening it and finding what is
 * there, what a request leads to, the loop, and the end.
 *
 * The order of steps is the order of what can be lost: first the id is reserved on disk,
 * its lock taken; then the keeper is started, which inherits the lock; then it is known
 * here. Killed in between, sbxd leaves either a reservation that nobody holds (nothing
 * has run), or a keeper that the next one finds.
 */
#include "supervisor/supervisor_private.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/find.h"
#include "supervisor/keeper.h"
#include "supervisor/request.h"

#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHUTDOWN_BOUND_US (60 * SBX_US_PER_S)

struct sbx_supervisor *sbx_supervisor_new(void)
{
    struct sbx_supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (supervisor == NULL) {
        return NULL;
    }
    supervisor->plan = (struct sbx_supervisor_plan){
        .max_executions_count = 256,
        .max_output_bytes = UINT64_C(64) << 20,
        .max_events_count = 65536,
        .max_retention_us = UINT64_C(7) * 24 * 3600 * SBX_US_PER_S,
        .retention_us = UINT64_C(15) * 60 * SBX_US_PER_S};
    supervisor->signals = -1;
    supervisor->shown_directory = -1;
    supervisor->retention_us = SBX_FOREVER_US;
    TAILQ_INIT(&supervisor->all);
    TAILQ_INIT(&supervisor->settled);
    TAILQ_INIT(&supervisor->due);
    return supervisor;
}

static void free_sources(struct sbx_supervisor *supervisor)
{
    sbx_source_free(supervisor->on_due);
    sbx_source_free(supervisor->on_seek);
    sbx_source_free(supervisor->on_retention);
    sbx_source_free(supervisor->on_signals);
    sbx_source_free(supervisor->on_bound);
}

static void forget_executions(struct sbx_supervisor *supervisor)
{
    struct sbx_execution *execution;
    while ((execution = TAILQ_FIRST(&supervisor->all)) != NULL) {
        sbx_execution_free(execution, ECANCELED);
    }
}

void sbx_supervisor_free(struct sbx_supervisor *supervisor)
{
    if (supervisor == NULL) {
        return;
    }
    forget_executions(supervisor);
    /* Whoever waits is with the service, which is gone by now. */
    struct sbx_waiter *waiter;
    while ((waiter = TAILQ_FIRST(&supervisor->due)) != NULL) {
        sbx_waiter_free(waiter);
    }
    free_sources(supervisor);
    sbx_loop_free(supervisor->loop);
    sbx_state_close(supervisor->state);
    sbx_fd_drop(&supervisor->signals);
    free(supervisor->plan.socket_path);
    free(supervisor->plan.state_path);
    free(supervisor->plan.allowed);
    free(supervisor);
}

const struct sbx_supervisor_plan *
sbx_supervisor_plan(const struct sbx_supervisor *supervisor)
{
    return &supervisor->plan;
}

struct sbx_loop *sbx_supervisor_loop(struct sbx_supervisor *supervisor)
{
    return supervisor->loop;
}

bool sbx_peer_is_trusted(const struct sbx_peer *peer)
{
    return peer->uid == 0 || peer->uid == geteuid();
}

void sbx_supervisor_stats_get(const struct sbx_supervisor *supervisor,
                              struct sbx_supervisor_stats *ret_stats)
{
    *ret_stats = supervisor->stats;
    ret_stats->active_count = supervisor->count - supervisor->settled_count;
    ret_stats->retained_count = supervisor->settled_count;
}

/* --- opening --- */

/* $XDG_STATE_HOME/sbx, ~/.local/state/sbx, for root /var/lib/sbx. */
static int name_state(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    struct sbx_supervisor_plan *plan = &supervisor->plan;
    const char *given = secure_getenv("STATE_DIRECTORY"); /* of a systemd unit */
    const char *base = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    int length = 0;
    if (plan->state_path != NULL) {
        return 0;
    }
    if (given != NULL && given[0] == '/' && strchr(given, ':') == NULL) {
        length = asprintf(&plan->state_path, "%s", given);
    } else if (geteuid() == 0) {
        length = asprintf(&plan->state_path, "/var/lib/sbx");
    } else if (base != NULL && base[0] == '/') {
        length = asprintf(&plan->state_path, "%s/sbx", base);
    } else if (home != NULL && home[0] == '/') {
        length = asprintf(&plan->state_path, "%s/.local/state/sbx", home);
    } else {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "no state directory: neither XDG_STATE_HOME nor HOME is an "
                             "absolute path (option --state names one)");
    }
    if (length < 0) {
        plan->state_path = NULL;
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory");
    }
    return 0;
}

static int find_programs(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    struct stat status;
    if (!sbx_find_ours("sbx-keeper", "SBX_KEEPER", SBX_KEEPER_INSTALLED,
                       supervisor->keeper_program, &status)) {
        return sbx_error_set(err, ENOENT, SBX_STAGE_CHECK,
                             "%s: no such program (it belongs to sbx; the environment "
                             "variable SBX_KEEPER can say where it is)",
                             supervisor->keeper_program);
    }
    /* Where it is missing only those that ask for a sandbox fail. */
    if (!sbx_find_ours("sbx-run", "SBX_RUN", SBX_RUN_INSTALLED, supervisor->run_program,
                       &status)) {
        (void)snprintf(supervisor->run_program, sizeof supervisor->run_program, "%s",
                       SBX_RUN_INSTALLED);
    }
    return 0;
}

/* Two descriptors for each execution, one for each client. */
static void raise_limit(struct sbx_supervisor *supervisor)
{
    struct rlimit limit;
    if (supervisor->descriptors_soft == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        supervisor->descriptors_soft = (uint64_t)limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void on_seek(void *context)
{
    struct sbx_supervisor *supervisor = context;
    uint64_t now = sbx_clock_us();
    struct sbx_execution *execution = TAILQ_FIRST(&supervisor->all);
    while (execution != NULL) {
        struct sbx_execution *next = TAILQ_NEXT(execution, link);
        if (execution->seek_us <= now) {
            sbx_execution_seek(execution);
        }
        execution = next;
    }
    sbx_execution_plan_seek(supervisor);
}

static void on_bound(void *context)
{
    struct sbx_supervisor *supervisor = context;
    sbx_loop_stop(supervisor->loop);
}

static int open_loop(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    struct sbx_loop *loop = NULL;
    int r = sbx_loop_new(&loop, err);
    if (r < 0) {
        return r;
    }
    supervisor->loop = loop;
    r = sbx_loop_add_timer(loop, sbx_waiters_on_due, supervisor, &supervisor->on_due);
    r = r < 0 ? r : sbx_loop_add_timer(loop, on_seek, supervisor, &supervisor->on_seek);
    r = r < 0 ? r
              : sbx_loop_add_timer(loop, sbx_retain_on_time, supervisor,
                                   &supervisor->on_retention);
    r = r < 0 ? r : sbx_loop_add_timer(loop, on_bound, supervisor, &supervisor->on_bound);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_CHECK, "the event loop: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}

struct found {
    struct sbx_supervisor *supervisor;
    int code; /* what keeps one from being found that may be whole; 0: nothing */
};

/* A place that is damaged stays as it is: its id cannot be had, and an operator may look
 * at it. */
static bool adopt(const char *id, void *context)
{
    struct found *found = context;
    struct sbx_supervisor *supervisor = found->supervisor;
    struct sbx_place place = {-1, -1};
    struct sbx_facts facts;
    int r = sbx_state_find(supervisor->state, id, &place, &facts, NULL);
    if (r < 0) {
        sbx_place_close(&place);
        found->code = r == -EBADMSG || r == -ENOENT ? 0 : -r;
        return found->code == 0;
    }
    struct sbx_execution *execution = sbx_execution_new(supervisor, &facts);
    if (execution == NULL) {
        sbx_place_close(&place);
        found->code = ENOMEM;
        return false;
    }
    execution->directory = place.directory;
    execution->adopted = true;
    sbx_execution_seek(execution);
    return true;
}

static int by_creation(const void *left, const void *right)
{
    const struct sbx_execution *a = *(struct sbx_execution *const *)left;
    const struct sbx_execution *b = *(struct sbx_execution *const *)right;
    return a->facts.created_real_us < b->facts.created_real_us   ? -1
           : a->facts.created_real_us > b->facts.created_real_us ? 1
                                                                 : 0;
}

static int by_end(const void *left, const void *right)
{
    const struct sbx_execution *a = *(struct sbx_execution *const *)left;
    const struct sbx_execution *b = *(struct sbx_execution *const *)right;
    return a->finished_real_us < b->finished_real_us   ? -1
           : a->finished_real_us > b->finished_real_us ? 1
                                                       : 0;
}

static void order_all(struct sbx_supervisor *supervisor, struct sbx_execution **list)
{
    size_t count = 0;
    struct sbx_execution *execution;
    while ((execution = TAILQ_FIRST(&supervisor->all)) != NULL) {
        TAILQ_REMOVE(&supervisor->all, execution, link);
        list[count++] = execution;
    }
    qsort(list, count, sizeof(struct sbx_execution *), by_creation);
    for (size_t i = 0; i < count; i++) {
        TAILQ_INSERT_TAIL(&supervisor->all, list[i], link);
    }
}

static void order_settled(struct sbx_supervisor *supervisor, struct sbx_execution **list)
{
    size_t count = 0;
    struct sbx_execution *execution;
    while ((execution = TAILQ_FIRST(&supervisor->settled)) != NULL) {
        TAILQ_REMOVE(&supervisor->settled, execution, settled_link);
        list[count++] = execution;
    }
    qsort(list, count, sizeof(struct sbx_execution *), by_end);
    for (size_t i = 0; i < count; i++) {
        TAILQ_INSERT_TAIL(&supervisor->settled, list[i], settled_link);
    }
}

/* A directory lists them in no order. */
static int put_in_order(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    SBX_AUTO_FREE struct sbx_execution **list =
        calloc(supervisor->count + 1, sizeof(struct sbx_execution *));
    if (list == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "no memory");
    }
    order_all(supervisor, list);
    order_settled(supervisor, list);
    return 0;
}

/* What is there is connected to, or known to be over. */
static int find_executions(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    struct found found = {.supervisor = supervisor};
    int r = sbx_state_list(supervisor->state, adopt, &found);
    if (r < 0 || found.code != 0) {
        int code = r < 0 ? -r : found.code;
        return sbx_error_set(err, code, SBX_STAGE_CHECK,
                             "the executions of %s cannot be read: %s",
                             supervisor->plan.state_path, sbx_errno_text(code).text);
    }
    return put_in_order(supervisor, err);
}

int sbx_supervisor_open(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    if (supervisor->state != NULL) {
        return 0;
    }
    raise_limit(supervisor);
    int r = find_programs(supervisor, err);
    r = r < 0 ? r : name_state(supervisor, err);
    if (r == 0 && supervisor->loop == NULL) {
        r = open_loop(supervisor, err);
    }
    r = r < 0 ? r : sbx_state_open(supervisor->plan.state_path, &supervisor->state, err);
    if (r < 0) {
        return r;
    }
    r = find_executions(supervisor, err);
    if (r < 0) { /* it may be tried again */
        forget_executions(supervisor);
        sbx_state_close(supervisor->state);
        supervisor->state = NULL;
    }
    return r;
}

/* --- a request --- */

static int fail_start(struct sbx_supervisor *supervisor, const char *id,
                      struct sbx_place *place, int code)
{
    sbx_place_close(place);
    (void)sbx_state_remove(supervisor->state, id, NULL);
    return code;
}

/* Reserve, then spawn, then record. */
static int launch(struct sbx_supervisor *supervisor, struct sbx_request *request,
                  struct sbx_execution **ret_execution, struct sbx_error *err)
{
    struct sbx_place place = {-1, -1};
    int control = -1;
    const struct sbx_keeper_means means = {.program = supervisor->keeper_program,
                                           .descriptors_soft =
                                               supervisor->descriptors_soft};
    request->facts.created_real_us = sbx_clock_real_us();
    int r = sbx_state_reserve(supervisor->state, &request->facts, &place, err);
    if (r < 0) {
        return r;
    }
    struct sbx_execution *execution = sbx_execution_new(supervisor, &request->facts);
    if (execution == NULL) {
        (void)sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory");
        return fail_start(supervisor, request->facts.id, &place, -ENOMEM);
    }
    if (request->stdin_kind == SBX_REQUEST_STDIN_OPEN) {
        /* So that nobody who looks before the keeper is there takes it for closed. */
        const struct sbx_page page = {.stdin_open = 1};
        (void)sbx_page_write(place.directory, &page);
    }
    r = sbx_keeper_spawn(request, &place, &means, &control, err);
    if (r < 0) {
        sbx_execution_free(execution, ECANCELED);
        return fail_start(supervisor, request->facts.id, &place, r);
    }
    execution->directory = sbx_fd_steal(&place.directory);
    sbx_place_close(&place);
    supervisor->stats.started_total++;
    if (sbx_execution_connect(execution, control) < 0) {
        sbx_execution_seek(execution); /* by its other door */
    }
    *ret_execution = execution;
    return 1;
}

static int check_digest(struct sbx_supervisor *supervisor,
                        const struct sbx_execution *known,
                        const struct sbx_request *request, struct sbx_error *err)
{
    if (memcmp(known->facts.digest, request->facts.digest, SBX_DIGEST_SIZE) == 0 &&
        !known->removed) {
        return 0;
    }
    supervisor->stats.conflicts_total++;
    return sbx_error_set(err, EEXIST, SBX_STAGE_CHECK, "id '%s': another request has it",
                         known->facts.id);
}

static int name_and_launch(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                           struct sbx_request *request,
                           struct sbx_execution **ret_execution, struct sbx_error *err)
{
    struct sbx_facts *facts = &request->facts;
    if (facts->id[0] != '\0') {
        const struct sbx_peer own = {.uid = geteuid()};
        struct sbx_execution *known = sbx_supervisor_find(supervisor, facts->id, &own);
        if (known != NULL) {
            int r = check_digest(supervisor, known, request, err);
            if (r == 0) {
                *ret_execution = known;
            }
            return r;
        }
    } else if (sbx_id_make(facts->id) < 0) {
        return sbx_error_set(err, EIO, SBX_STAGE_CHECK, "no random bits for an id");
    }
    if (supervisor->shuts_down) {
        return sbx_error_set(err, ESHUTDOWN, SBX_STAGE_CHECK, "the service is ending");
    }
    if (!sbx_retain_make_room(supervisor, peer)) {
        supervisor->stats.refused_total++;
        return sbx_error_set(err, EDQUOT, SBX_STAGE_CHECK,
                             "too many executions are active: %llu are allowed, also of "
                             "all users together (sbxd --max-executions)",
                             (unsigned long long)supervisor->plan.max_executions_count);
    }
    int r = launch(supervisor, request, ret_execution, err);
    /* What is missing or forbidden there is ours, and none of the client's concern. */
    return r == -ENOENT || r == -EPERM || r == -ESRCH || r == -EPIPE ? -EIO : r;
}

/* NOLINTNEXTLINE(readability-function-size): a text is two of them */
int sbx_supervisor_submit(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                          const char *json, size_t length,
                          struct sbx_execution **ret_execution, struct sbx_error *err)
{
    const struct sbx_supervisor_plan *plan = &supervisor->plan;
    const struct sbx_request_policy policy = {.key = sbx_state_key(supervisor->state),
                                              .max_memory_bytes = plan->max_memory_bytes,
                                              .max_output_bytes = plan->max_output_bytes,
                                              .max_events_count = plan->max_events_count,
                                              .max_retention_us = plan->max_retention_us,
                                              .default_retention_us = plan->retention_us,
                                              .force_sandbox = plan->force_sandbox,
                                              .sandbox_program = supervisor->run_program,
                                              .trusted = sbx_peer_is_trusted(peer),
                                              .uid = peer->uid,
                                              .gid = peer->gid};
    struct sbx_request *request = NULL;
    int r = sbx_request_parse(json, length, &policy, &request, err);
    if (r < 0) {
        return r;
    }
    r = name_and_launch(supervisor, peer, request, ret_execution, err);
    sbx_request_free(request);
    return r;
}

/* --- the loop --- */

static bool cancel_one(struct sbx_execution *execution, void *context)
{
    (void)context;
    sbx_execution_cancel(execution);
    return true;
}

void sbx_supervisor_shut_down(struct sbx_supervisor *supervisor, bool cancel)
{
    const struct sbx_peer own = {.uid = geteuid()};
    supervisor->shuts_down = true;
    if (!cancel || supervisor->settled_count == supervisor->count) {
        /* Not at once: whoever asked for it is to be answered. */
        (void)sbx_source_arm(supervisor->on_bound, sbx_clock_us() + SBX_US_PER_S / 10);
        return;
    }
    sbx_supervisor_each(supervisor, &own, cancel_one, NULL);
    supervisor->ends_empty = true;
    (void)sbx_source_arm(supervisor->on_bound, sbx_clock_us() + SHUTDOWN_BOUND_US);
}

static void on_signals(void *context)
{
    struct sbx_supervisor *supervisor = context;
    struct signalfd_siginfo info;
    if (read(supervisor->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        sbx_loop_stop(supervisor->loop);
    }
}

int sbx_supervisor_open_signals(struct sbx_supervisor *supervisor, struct sbx_error *err)
{
    sigset_t set;
    if (supervisor->on_signals != NULL) {
        return 0;
    }
    sbx_fd_drop(&supervisor->signals);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    /* Neither is a reason to end, nor read: the call that fails says it. */
    (void)sigaddset(&set, SIGPIPE);
    (void)sigaddset(&set, SIGXFSZ);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_CHECK, "sigprocmask");
    }
    (void)sigdelset(&set, SIGPIPE);
    (void)sigdelset(&set, SIGXFSZ);
    supervisor->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    int r = supervisor->signals < 0
                ? -errno
                : sbx_loop_add_fd(supervisor->loop, supervisor->signals, on_signals,
                                  supervisor, &supervisor->on_signals);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_CHECK, "signalfd: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}

int sbx_supervisor_step(struct sbx_supervisor *supervisor, uint64_t timeout_us,
                        struct sbx_error *err)
{
    int r = sbx_supervisor_open(supervisor, err);
    if (r < 0) {
        return r;
    }
    /* Wakes it up without doing anything. */
    struct sbx_source *timer = NULL;
    r = sbx_loop_add_timer(supervisor->loop, on_bound, supervisor, &timer);
    if (r == 0) {
        r = sbx_source_arm(timer, sbx_clock_add(sbx_clock_us(), timeout_us));
        r = r < 0 ? r : sbx_loop_step(supervisor->loop, timeout_us > 0);
    }
    sbx_source_free(timer);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_MONITOR, "the event loop: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}
