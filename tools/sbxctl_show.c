/*
 * sbxctl_show.c - the commands that show what the service answers, as it came or for
 * people.
 */
#include "tools/sbxctl.h"

#include <stddef.h>

static int show(struct sbx_ctl *ctl, const char *path, void (*print)(const json_t *))
{
    json_t *answer = NULL;
    if (ctl->json) {
        return sbx_ctl_copy(ctl, path);
    }
    int status = sbx_ctl_get(ctl, path, SBX_CTL_SAFE, 30 * SBX_CTL_US_PER_S, &answer);
    if (status == 0) {
        print(answer);
        json_decref(answer);
    }
    return status;
}

int sbx_ctl_list(struct sbx_ctl *ctl)
{
    return show(ctl, "/v1/executions", sbx_ctl_print_list);
}

int sbx_ctl_show(struct sbx_ctl *ctl)
{
    char path[SBX_CTL_PATH_SIZE];
    int status = sbx_ctl_path(path, ctl->operands[0], "%s", "");
    return status == 0 ? show(ctl, path, sbx_ctl_print_snapshot) : status;
}

int sbx_ctl_stats(struct sbx_ctl *ctl)
{
    return show(ctl, "/v1/stats", sbx_ctl_print_stats);
}

int sbx_ctl_metrics(struct sbx_ctl *ctl)
{
    return sbx_ctl_copy(ctl, "/metrics");
}

int sbx_ctl_verify(struct sbx_ctl *ctl)
{
    json_t *answer = NULL;
    int status =
        sbx_ctl_get(ctl, "/v1/verify", SBX_CTL_SAFE, 120 * SBX_CTL_US_PER_S, &answer);
    if (status != 0) {
        return status;
    }
    if (ctl->json) {
        sbx_ctl_print_json(answer);
    } else {
        sbx_ctl_print_verify(answer);
    }
    status = json_is_true(json_object_get(answer, "holds")) ? 0 : SBX_CTL_NO;
    json_decref(answer);
    return status;
}
