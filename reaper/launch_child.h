/*
 * launch_child.h - what the two sides of the fork in launch.c say to each other. Private
 * to launch*.c.
 */
#ifndef SBX_REAPER_LAUNCH_CHILD_H
#define SBX_REAPER_LAUNCH_CHILD_H

#include "reaper/launch.h"

#include <sbx/sbx.h>

/* What the child needs, made before the fork: the child allocates nothing of its own. */
struct sbx_launch_child {
    const struct sbx_launch *launch;
    pid_t caller_pid;         /* who launches */
    int error_fd;             /* write end of the error pipe, close-on-exec */
    const char **shell_argv;  /* "/bin/sh", a free place, argv[1]..., NULL */
    const char *file;         /* what is looked up and executed; NULL: argv[0] */
    bool forks;               /* it is not to be born in its group */
    bool moves;               /* it was not born in its group: it has to go there */
    const char *default_path; /* where commands are looked up when PATH is unset */
};

/* What goes up the error pipe, in one write: less than PIPE_BUF, so it is never torn. */
struct sbx_launch_record {
    struct sbx_error error;
    int status; /* 125, 126 or 127 */
};

/* The only place that makes a process. 0 or a negative errno; never returns in the child.
 * launch_birth.c, as the first step is. */
int sbx_launch_birth(struct sbx_launch_child *child, pid_t *ret_pid,
                     struct sbx_error *err);
int sbx_launch_enter_group(const struct sbx_launch_child *child, struct sbx_error *err);

/* Runs the steps and executes the command. After a failure: sends the record, _exit. */
_Noreturn void sbx_launch_child(const struct sbx_launch_child *child);

/* Steps that are without effect unless they were asked for (start.h): launch_start.c. 0
 * or a negative errno, stage launch. */
int sbx_launch_set_cpus(const struct sbx_launch_child *child, struct sbx_error *err);
int sbx_launch_set_umask(const struct sbx_launch_child *child, struct sbx_error *err);
int sbx_launch_set_user(const struct sbx_launch_child *child, struct sbx_error *err);
int sbx_launch_set_directory(const struct sbx_launch_child *child, struct sbx_error *err);
int sbx_launch_bar_privileges(const struct sbx_launch_child *child,
                              struct sbx_error *err);

/* The step that puts front and init between the caller and the command, where a namespace
 * was asked for: it goes on in the command's process alone. launch_namespace.c. */
int sbx_launch_enter_namespace(const struct sbx_launch_child *child,
                               struct sbx_error *err);

/* A pipe, close-on-exec, whose write end is above 2. 0 or a negative errno. launch.c. */
int sbx_launch_open_pipe(int ends[static 2]);

/* Whether an un-reaped child is as it was forked. launch.c. */
bool sbx_launch_is_without_exec(pid_t pid);

/* Looks the command up and executes it. Returns only when that failed, with -errno; the
 * status is 127 when there is no such command, else 126. Needs no memory; a descriptor
 * only to look into a file that the kernel does not know how to execute. */
int sbx_launch_exec(const struct sbx_launch_child *child, int *ret_status,
                    struct sbx_error *err);

/* Whether a child that was ended by it before exec has stumbled over something of ours.
 */
bool sbx_launch_is_fault(int signal_number);

/* "WHAT: permission denied (EACCES)", stage launch. Returns -code. */
int sbx_launch_failed(struct sbx_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
