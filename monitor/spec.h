/*
 * spec.h - what was asked for. Filled in by option name (options.c), constant from the
 * moment it runs.
 */
#ifndef SBX_MONITOR_SPEC_H
#define SBX_MONITOR_SPEC_H

#include "monitor/environment.h"
#include "monitor/log.h"
#include "monitor/record.h"
#include "monitor/render.h"
#include "monitor/setting.h"
#include "reaper/ceiling.h"
#include "reaper/launch.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdint.h>

enum sbx_strays { SBX_STRAYS_KILL = 0, SBX_STRAYS_WAIT, SBX_STRAYS_KEEP };
enum sbx_require {
    SBX_REQUIRE_COMPLETE = 0,
    SBX_REQUIRE_CGROUP2, /* a leaf, with or without controllers */
    SBX_REQUIRE_PID_NAMESPACE,
    SBX_REQUIRE_KERNEL_LIMITS, /* memory and threads held by the kernel */
};
enum sbx_backend { SBX_BACKEND_AUTO = 0, SBX_BACKEND_PROC, SBX_BACKEND_CGROUP2 };

/* Where one of the command's standard streams leads. */
struct sbx_stream {
    char *path;       /* owned; NULL: where ours leads */
    int directory_fd; /* where a relative path starts; -1: none held */
};

/* --pid, --cgroup. */
struct sbx_attach_asked {
    const char *never;       /* first option given that does not go with it; static */
    const char *enforced;    /* first that needs --enforce */
    int pid;                 /* 0: not asked for */
    bool enforce;            /* hold limits, end the tree */
    char *cgroup;            /* path of a group to observe; owned; NULL: not asked for */
    int cgroup_directory_fd; /* where a relative one starts; -1: none held */
};

struct sbx_spec {
    char **argv; /* NULL-terminated, owned; NULL: no command yet */
    struct sbx_attach_asked attach;

    struct sbx_limits limits;
    uint64_t warn_percent; /* default 90; 1 to 100 */
    struct sbx_ceiling ceilings[SBX_CEILING_COUNT];

    int signal;         /* polite signal, default SIGTERM */
    uint64_t grace_us;  /* default 2 s */
    bool grace_asked;   /* --grace was given: also memory, processes and threads get it */
    uint64_t linger_us; /* default 0 */
    enum sbx_strays strays;

    enum sbx_backend backend;
    unsigned require;             /* bits (1 << enum sbx_require) */
    bool pid_namespace;           /* the command gets one */
    uint64_t interval_us;         /* default 250 ms, at least 1 ms */
    char *cgroup_root;            /* owned; NULL: not asked for */
    int cgroup_root_directory_fd; /* where a relative one starts; -1: none held */

    char *report_path;       /* owned; NULL: no report; "-": stderr */
    int report_directory_fd; /* where relative report paths start; -1: none held */
    bool report_replaces;    /* whatever lies there, but a directory: the place is ours */
    bool quiet;
    enum sbx_format format; /* of the report, wherever it goes */
    int report_fd;          /* inherited; not owned; 0: none */
    struct sbx_log_plan log;

    int keep_fds[SBX_KEEP_FD_MAX];
    size_t keep_fd_count;
    bool die_with_parent;
    bool detach;
    struct sbx_environment environment; /* of the command */
    struct sbx_start start;
    struct sbx_stream streams[3];
    uint64_t output_keep_bytes; /* pass on so many, and drop the rest; 0: all */

    bool preserve_status;
    int breach_status; /* default 124; 1 to 255 */

    uint64_t progress_us;         /* 0: no progress samples */
    char *monitor_path;           /* owned; NULL: as installed */
    struct sbx_settings settings; /* what was set by name, in order */
};

/* The descriptors above 2 that it holds, or names for the run to use. How many. */
#define SBX_SPEC_FDS_MAX (SBX_KEEP_FD_MAX + 9)
size_t sbx_spec_fds(const struct sbx_spec *spec, int fds[static SBX_SPEC_FDS_MAX]);

/* Whether it is a run over what somebody else has started. */
static inline bool sbx_spec_attaches(const struct sbx_spec *spec)
{
    return spec->attach.pid != 0 || spec->attach.cgroup != NULL;
}

#endif
