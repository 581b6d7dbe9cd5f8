/*
 * event_loop.c - a run in a libevent loop of the program's own, which has a timer and
 * cancels the run when that has ticked three times.
 *
 *     event_loop COMMAND [ARG]...
 */
#include <sbx/sbx.h>

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

struct program {
    struct event_base *base;
    struct sbx_run *run;
    int ticks;
};

static void on_run(evutil_socket_t fd, short what, void *context)
{
    struct program *program = context;
    (void)fd;
    (void)what;
    while (sbx_run_next(program->run, NULL) != SBX_RUN_NOTHING) {
        const struct sbx_result *result = sbx_run_result(program->run);
        if (result != NULL) {
            printf("%s, status %d\n", result->outcome, result->status);
            (void)event_base_loopbreak(program->base);
            return;
        }
    }
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
    struct program *program = context;
    (void)fd;
    (void)what;
    printf("tick\n");
    if (++program->ticks == 3) {
        (void)sbx_run_cancel(program->run);
    }
}

static int watch(struct program *program)
{
    const struct timeval tenth = {0, 100000};
    struct event *run = event_new(program->base, sbx_run_fd(program->run),
                                  EV_READ | EV_PERSIST, on_run, program);
    struct event *tick = event_new(program->base, -1, EV_PERSIST, on_tick, program);
    int failed = run == NULL || tick == NULL || event_add(run, NULL) < 0 ||
                 event_add(tick, &tenth) < 0 || event_base_dispatch(program->base) < 0;
    if (run != NULL) {
        event_free(run);
    }
    if (tick != NULL) {
        event_free(tick);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
    struct sbx_error error = {0};
    struct program program = {event_base_new(), NULL, 0};
    struct sbx_spec *spec = sbx_spec_new();
    int status = EXIT_FAILURE;
    (void)argc;

    if (program.base == NULL || spec == NULL ||
        sbx_spec_set(spec, "grace", "500ms", &error) < 0 ||
        sbx_spec_set_command(spec, (const char *const *)argv + 1, &error) < 0 ||
        sbx_run_start(spec, &program.run, &error) < 0) {
        fprintf(stderr, "event_loop: %s\n", error.message);
    } else {
        status = watch(&program);
    }
    sbx_run_free(program.run);
    sbx_spec_free(spec);
    if (program.base != NULL) {
        event_base_free(program.base);
    }
    return status;
}
