/*
 * run.c - a run in a few lines: what it may take, what to run, how it ended.
 *
 *     run COMMAND [ARG]...
 */
#include <sbx/sbx.h>

#include <stdio.h>

int main(int argc, char *argv[])
{
    struct sbx_error error = {0};
    struct sbx_run *run = NULL;
    struct sbx_spec *spec = sbx_spec_new();
    int status = SBX_STATUS_FAILED;
    (void)argc;

    if (spec == NULL || sbx_spec_set(spec, "wall", "2s", &error) < 0 ||
        sbx_spec_set(spec, "memory", "256M", &error) < 0 ||
        sbx_spec_set_command(spec, (const char *const *)argv + 1, &error) < 0 ||
        sbx_run(spec, &run, &error) < 0) {
        fprintf(stderr, "run: %s\n", error.message);
    } else {
        const struct sbx_result *result = sbx_run_result(run);
        status = result->status;
        printf("%s, status %d\n%s", result->outcome, status, result->report);
    }
    sbx_run_free(run);
    sbx_spec_free(spec);
    return status;
}
