/*
 * ceiling.h - per-process ceilings (rlimits): one table, strict parsing, set and read
 * back.
 *
 * A ceiling is either in force exactly as asked, or an error: nothing is clamped, and
 * what would not bite is refused.
 */
#ifndef SBX_REAPER_CEILING_H
#define SBX_REAPER_CEILING_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum sbx_ceiling_unit { SBX_UNIT_COUNT, SBX_UNIT_BYTES, SBX_UNIT_SECONDS, SBX_UNIT_US };

struct sbx_ceiling_kind {
    const char *name; /* as in prlimit(1): "nofile" */
    int resource;     /* RLIMIT_NOFILE */
    enum sbx_ceiling_unit unit;
};

/* as core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime
 * sigpending stack */
#define SBX_CEILING_COUNT 16
extern const struct sbx_ceiling_kind sbx_ceiling_kinds[SBX_CEILING_COUNT];

/* What was asked for: entry I belongs to sbx_ceiling_kinds[I]. */
struct sbx_ceiling {
    bool asked;
    rlim_t soft;
    rlim_t hard;
};

/*
 * Parses "NAME=VALUE" or "NAME=SOFT:HARD" into ceilings[]. VALUE: a size for byte
 * ceilings, a whole number of seconds or a duration of whole seconds for cpu, a duration
 * for rttime, else a count; "unlimited" for RLIM_INFINITY. 0 is a value (core=0). soft <=
 * hard. For cpu a single VALUE N means soft N, hard N+1, which keeps the reason (SIGXCPU
 * before SIGKILL); more seconds than the kernel counts without wrapping are out of range.
 * 0, -EINVAL or -ERANGE with the accepted form in err; ceilings is
 * unchanged then.
 */
int sbx_ceiling_parse(const char *text,
                      struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                      struct sbx_error *err);

/* Refuses what would not bite: nproc when the command's final real uid is 0 (remedy:
 * --processes). 0 or -EINVAL, stage arm. */
int sbx_ceiling_check(const struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                      uid_t final_uid, struct sbx_error *err);

/* Sets those asked for on the calling process and reads each back; async-signal-safe but
 * for formatting the error. 0, or a negative errno, stage arm, naming ceiling, wanted
 * value and the hard limit in force. A read-back that differs is -EIO. */
int sbx_ceiling_arm(const struct sbx_ceiling ceilings[static SBX_CEILING_COUNT],
                    struct sbx_error *err);

#endif
