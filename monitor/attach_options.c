/*
 * attach_options.c - what goes together with --pid or --cgroup. Options are known by
 * their names and headings in the table; one of a heading about limits or about the start
 * that is not named here does not go with --pid, so that a new one is refused before it
 * is silently without effect.
 */
#include "monitor/attach.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>

enum place {
    PLACE_ANY = 0, /* goes with --pid */
    PLACE_ENFORCE, /* with --enforce only */
    PLACE_NEVER,
};

static const struct {
    const char *heading;
    const char *name; /* NULL: all others of that heading */
    enum place place;
} places[] = {
    {"Limits of the tree", "wall", PLACE_ENFORCE},
    {"Limits of the tree", "cpu", PLACE_ENFORCE},
    {"Limits of the tree", "memory", PLACE_ENFORCE},
    {"Limits of the tree", "processes", PLACE_ENFORCE},
    {"Limits of the tree", "threads", PLACE_ENFORCE},
    {"Limits of the tree", "warn", PLACE_ENFORCE},
    {"Limits of the tree", NULL, PLACE_NEVER},
    {"Ceilings of each process", NULL, PLACE_ENFORCE},
    {"Ending", "signal", PLACE_ENFORCE},
    {"Ending", "grace", PLACE_ENFORCE},
    {"Ending", NULL, PLACE_NEVER}, /* no leader whose end would be the run's */
    {"Containment and sampling", "cgroup-root", PLACE_NEVER}, /* stays where it is */
    {"Containment and sampling", "pid-namespace", PLACE_NEVER},
    {"How the command starts", "die-with-parent", PLACE_ANY},
    {"How the command starts", NULL, PLACE_NEVER},
    {"Exit status", "breach-status", PLACE_ENFORCE},
    {"Exit status", NULL, PLACE_NEVER}, /* who is not our child has no status for us */
};

static enum place place_of(const struct sbx_option *option)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(places[i].heading, option->group) == 0 &&
            (places[i].name == NULL || strcmp(places[i].name, option->name) == 0)) {
            return places[i].place;
        }
    }
    return PLACE_ANY;
}

void sbx_attach_note(struct sbx_spec *spec, const struct sbx_option *option)
{
    enum place place = place_of(option);
    if (place == PLACE_NEVER && spec->attach.never == NULL) {
        spec->attach.never = option->name;
    } else if (place == PLACE_ENFORCE && spec->attach.enforced == NULL) {
        spec->attach.enforced = option->name;
    }
}

/* The tree stays in the groups where it is. */
static int check_containment(const struct sbx_spec *spec, struct sbx_error *err)
{
    static const char *const words[] = {[SBX_REQUIRE_CGROUP2] = "cgroup2",
                                        [SBX_REQUIRE_PID_NAMESPACE] = "pid-namespace",
                                        [SBX_REQUIRE_KERNEL_LIMITS] = "kernel-limits"};
    if (spec->attach.cgroup != NULL && spec->require != 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --require: does not go with --cgroup, which "
                             "contains nobody");
    }
    if ((spec->require & 1U << SBX_REQUIRE_COMPLETE) != 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                             "option --require: 'complete' cannot be had with --pid: "
                             "members are known by having been seen");
    }
    for (unsigned i = SBX_REQUIRE_CGROUP2; i <= SBX_REQUIRE_KERNEL_LIMITS; i++) {
        if ((spec->require & 1U << i) != 0) {
            return sbx_error_set(err, EINVAL, SBX_STAGE_CHECK,
                                 "option --require: '%s' cannot be had with --pid: the "
                                 "tree stays in the groups and namespaces where it is",
                                 words[i]);
        }
    }
    if (spec->backend == SBX_BACKEND_CGROUP2) {
        return sbx_error_set(
            err, EINVAL, SBX_STAGE_CHECK,
            "option --backend: 'cgroup2' cannot be had with --%s: who is "
            "watched stays in the groups where it is",
            spec->attach.cgroup != NULL ? "cgroup" : "pid");
    }
    return 0;
}

static int refuse(const struct sbx_attach_asked *asked, struct sbx_error *err)
{
    const char *way = asked->cgroup != NULL ? "cgroup" : "pid";
    if (asked->never != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: does not go with --%s, which starts nothing "
                             "and waits for nobody's exit status",
                             asked->never, way);
    }
    if (asked->cgroup != NULL && (asked->enforce || asked->enforced != NULL)) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: does not go with --cgroup, which only "
                             "observes",
                             asked->enforce ? "enforce" : asked->enforced);
    }
    if (!asked->enforce && asked->enforced != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: with --pid it needs --enforce; else the tree "
                             "is only observed",
                             asked->enforced);
    }
    return 0;
}

int sbx_attach_check(const struct sbx_spec *spec, struct sbx_error *err)
{
    const struct sbx_attach_asked *asked = &spec->attach;
    if (!sbx_spec_attaches(spec)) {
        return asked->enforce ? sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                                              "option --enforce: needs --pid; a command "
                                              "is always held to its limits")
                              : 0;
    }
    if (asked->cgroup != NULL && asked->pid != 0) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --cgroup: does not go with --pid: one run observes "
                             "one of them");
    }
    if (spec->argv != NULL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: takes no command, it attaches to %s that "
                             "runs already",
                             asked->cgroup != NULL ? "cgroup" : "pid",
                             asked->cgroup != NULL ? "a group" : "a tree");
    }
    int r = refuse(asked, err);
    return r < 0 ? r : check_containment(spec, err);
}
