/*
 * poll_loop.c - several runs at once in a poll loop of the program's own: each command
 * line argument is run by a shell.
 *
 *     poll_loop 'exit 3' 'sleep 60' ...
 */
#include <sbx/sbx.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX 16

struct job {
    const char *script;
    struct sbx_run *run; /* NULL: over, or never started */
};

static int start(struct job *job)
{
    const char *const command[] = {"sh", "-c", job->script, NULL};
    struct sbx_error error = {0};
    struct sbx_spec *spec = sbx_spec_new();
    int failed = spec == NULL || sbx_spec_set(spec, "wall", "1s", &error) < 0 ||
                 sbx_spec_set(spec, "processes", "16", &error) < 0 ||
                 sbx_spec_set_progress(spec, 100000, &error) < 0 ||
                 sbx_spec_set_command(spec, command, &error) < 0 ||
                 sbx_run_start(spec, &job->run, &error) < 0;
    if (failed) {
        fprintf(stderr, "%s: %s\n", job->script, error.message);
    }
    sbx_spec_free(spec); /* the run has what it needs */
    return failed ? -1 : 0;
}

static void finish(struct job *job)
{
    const struct sbx_result *result = sbx_run_result(job->run);
    uint64_t peak = 0;
    printf("%s: %s", job->script, result->outcome);
    if (result->reason != NULL) {
        printf(" (%s)", result->reason);
    }
    printf(", status %d", result->status);
    if (sbx_run_report_number(job->run, "usage.processes_peak", &peak) == 0) {
        printf(", at most %" PRIu64 " at once", peak);
    }
    printf("\n");
    sbx_run_free(job->run);
    job->run = NULL;
}

/* Takes all that is there. Returns 1 when the run is over. */
static int look_at(struct job *job)
{
    struct sbx_progress progress;
    enum sbx_run_event event;
    while ((event = sbx_run_next(job->run, &progress)) == SBX_RUN_PROGRESS) {
        fprintf(stderr, "%s: %" PRIu64 " processes, %" PRIu64 " bytes\n", job->script,
                progress.processes, progress.memory_bytes);
    }
    if (event == SBX_RUN_FINISHED) {
        finish(job);
        return 1;
    }
    return 0;
}

int main(int argc, char *argv[])
{
    struct job jobs[RUNS_MAX] = {{NULL, NULL}};
    struct pollfd fds[RUNS_MAX];
    int count = argc - 1 < RUNS_MAX ? argc - 1 : RUNS_MAX;
    int left = 0;

    for (int i = 0; i < count; i++) {
        jobs[i].script = argv[1 + i];
        left += start(&jobs[i]) == 0;
    }
    while (left > 0) {
        for (int i = 0; i < count; i++) {
            fds[i].fd = jobs[i].run != NULL ? sbx_run_fd(jobs[i].run) : -1;
            fds[i].events = POLLIN;
        }
        if (poll(fds, (nfds_t)count, -1) < 0) {
            continue; /* a signal of the program's own */
        }
        for (int i = 0; i < count; i++) {
            if (jobs[i].run != NULL && fds[i].revents != 0) {
                left -= look_at(&jobs[i]);
            }
        }
    }
    return EXIT_SUCCESS;
}
