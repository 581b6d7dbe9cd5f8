/*
 * sbx.h - the public interface of sbx: run a command, hold its limits, empty its tree,
 * report the truth.
 *
 * A program makes a specification, sets options in it by the names that `sbx-watch
 * --help` lists, and runs it:
 *
 *     struct sbx_error error;
 *     struct sbx_spec *spec = sbx_spec_new();
 *     if (spec == NULL || sbx_spec_set(spec, "wall", "5s", &error) < 0 || ...)
 *
 * Conventions: functions return 0 or a negative errno value and describe the failure in
 * `err`, which may be NULL. Results (`ret_`) are untouched on failure. Arguments are
 * borrowed for the call. Nothing here logs, exits or aborts.
 */
#ifndef SBX_SBX_H
#define SBX_SBX_H

#include <stddef.h>

#if defined(__GNUC__)
#define SBX_PUBLIC __attribute__((visibility("default")))
#else
#define SBX_PUBLIC
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SBX_ERROR_MESSAGE_SIZE 480

/* Exit statuses of a supervisor that has something of its own to say (the command's own
 * may be equal: the report is the truth). */
#define SBX_STATUS_BREACH 124
#define SBX_STATUS_FAILED 125
#define SBX_STATUS_NOT_EXECUTABLE 126
#define SBX_STATUS_NOT_FOUND 127

/* The step in which something failed. */
enum sbx_stage {
    SBX_STAGE_NONE = 0,
    SBX_STAGE_OPTIONS, /* an option or its value */
    SBX_STAGE_CHECK,   /* options that contradict each other or this host */
    SBX_STAGE_ARM,     /* a limit or ceiling could not be set exactly as asked */
    SBX_STAGE_LAUNCH,  /* a step before the command was executed */
    SBX_STAGE_EXEC,    /* execve itself */
    SBX_STAGE_MONITOR, /* while the command ran */
    SBX_STAGE_REPORT   /* the report could not be written */
};

/* A failure of ours. A value: it may be copied, and goes through a pipe in one write. */
struct sbx_error {
    int code;                             /* a positive errno value; 0: no error */
    enum sbx_stage stage;                 /* where it happened */
    char message[SBX_ERROR_MESSAGE_SIZE]; /* one line, lower case, names the object, the
                                             value and the remedy */
};

/* One option. The table of all of them is the only place that knows their names: parser,
 * help and manual follow it. */
struct sbx_option {
    const char *name; /* long name without dashes */
    char letter;      /* short name, or 0 */
    const char
        *value; /* what its argument is called in the help, e.g. "DUR"; NULL for a flag */
    const char *group; /* heading in the help; options of one group are neighbours */
    const char *help;  /* one line */
};

/* What to run and how. */
struct sbx_spec;

/* The option table, static. *ret_count receives the number of entries. */
SBX_PUBLIC const struct sbx_option *sbx_options(size_t *ret_count);

/* A new, empty specification, owned by the caller; NULL when memory is short. */
SBX_PUBLIC struct sbx_spec *sbx_spec_new(void);
SBX_PUBLIC void sbx_spec_free(struct sbx_spec *spec);

/* Sets option `name` to `value` (NULL for a flag). Repeated options add up where the
 * table's help says so; else the last one wins. -EINVAL or -ERANGE when the name is
 * unknown or the value does not parse, or what its use found wrong (-EBADF for a
 * descriptor that is not open, -ENOMEM): the specification is unchanged then. */
SBX_PUBLIC int sbx_spec_set(struct sbx_spec *spec, const char *name, const char *value,
                            struct sbx_error *err);

/* Sets the command: a NULL-terminated array, copied. -EINVAL when it is empty, -ENOMEM.
 */
SBX_PUBLIC int sbx_spec_set_command(struct sbx_spec *spec, const char *const argv[],
                                    struct sbx_error *err);

/*
 * Runs the specification with the calling process as the guard of the run, and publishes
 * the report. For single-threaded programs that do nothing else and exit with
 * *ret_status soon after: the exit status that the contract of sbx-watch gives to this
 * end (also when nothing could be started: 125 to 127). All signals are blocked when it
 * returns, so that a late one does not change that status.
 * Returns 0 when a report was published or none was asked for; else a negative errno,
 * *ret_status is 125 then. With the option "detach" it returns twice, as fork does: in
 * the calling process when the command runs, and in the new one, the guard, at the end.
 */
SBX_PUBLIC int sbx_run_in_place(const struct sbx_spec *spec, int *ret_status,
                                struct sbx_error *err);

/* Publishes a launch-failed report for `failure` where the specification asks for one,
 * and tells the sinks that it names, but for standard error (an option was wrong, so that
 * nothing will run). Returns 0 or a negative errno. */
SBX_PUBLIC int sbx_report_failure(const struct sbx_spec *spec,
                                  const struct sbx_error *failure, struct sbx_error *err);

/* "0.1.0" */
SBX_PUBLIC const char *sbx_version(void);

#ifdef __cplusplus
}
#endif

#endif
