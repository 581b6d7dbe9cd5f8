/*
 * sbx.h - the public interface of sbx: run a command, hold its limits, empty its tree,
 * report the truth.
 *
 * A program makes a specification, sets options in it by the names that `sbx-watch
 * --help` lists, and runs it:
 *
 *     struct sbx_error error;
 *     struct sbx_run *run = NULL;
 *     struct sbx_spec *spec = sbx_spec_new();
 *     if (spec == NULL || sbx_spec_set(spec, "wall", "5s", &error) < 0 ||
 *         sbx_spec_set_command(spec, argv, &error) < 0 ||
 *         sbx_run(spec, &run, &error) < 0) ...
 *     puts(sbx_run_result(run)->report);
 *
 * or starts it (sbx_run_start) and goes on with its own work. See sbx(3).
 *
 * Conventions: functions return 0 or a negative errno value and describe the failure in
 * `err`, which may be NULL. Results (`ret_`) are untouched on failure. Arguments are
 * borrowed for the call. Nothing here logs, exits or aborts.
 */
#ifndef SBX_SBX_H
#define SBX_SBX_H

#include <stddef.h>
#include <stdint.h>

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

/* For the runs of a program that goes on meanwhile (sbx_run_start): progress samples are
 * wanted that far apart, in microseconds, at least 1000; 0, the default: none. There is
 * no more than one for each time that the run was measured (option "interval"). -ERANGE.
 */
SBX_PUBLIC int sbx_spec_set_progress(struct sbx_spec *spec, uint64_t interval_us,
                                     struct sbx_error *err);

/* Where the program sbx-monitor is, an absolute path, copied; NULL: where it was
 * installed, or the environment variable SBX_MONITOR says (which a setuid program does
 * not look at). -EINVAL, -ENOMEM. */
SBX_PUBLIC int sbx_spec_set_monitor(struct sbx_spec *spec, const char *path,
                                    struct sbx_error *err);

/*
 * --- a run beside other work ---
 *
 * The run lives in processes of its own. Those are no children of the caller, and the
 * caller's signal handlers, mask, child subreaper flag and children stay as they are,
 * also when it has threads; the one exception is told at sbx_run_free. The run is bound
 * to the process that has started it: when that ends, however it does, the run is ended
 * too (reason caller-lost).
 *
 * One thread at a time may use a run, but for sbx_run_cancel, sbx_run_signal,
 * sbx_run_pause and sbx_run_resume, which may be called beside anything but sbx_run_free.
 */
struct sbx_run;

/* What sbx_run_next has found. */
enum sbx_run_event {
    SBX_RUN_NOTHING = 0, /* nothing now: poll sbx_run_fd */
    SBX_RUN_PROGRESS,    /* a progress sample */
    SBX_RUN_FINISHED     /* the result is there; from now on always this */
};

/* What the tree was like when it was last measured. UINT64_MAX: not known. */
struct sbx_progress {
    uint64_t elapsed_us;   /* since the launch */
    uint64_t cpu_us;       /* of the whole tree so far, ended members included */
    uint64_t memory_bytes; /* an upper bound, as long as that is far from the limit */
    uint64_t processes;
    uint64_t threads;
};

/* How a run has ended. Owned by the run; later versions may have more members. */
struct sbx_result {
    const char *outcome; /* as in the report: "exited", "breach", "launch-failed" ... */
    int status;          /* the exit status that sbx-watch would have */
    int exit_code;       /* of the command; -1: none or not known */
    int signal;          /* that ended the command; 0: none */
    const char *reason;  /* of the breach, as in the report: "wall" ...; NULL: none */
    const char *report;  /* JSON, one line with its line feed; NULL: there is none */
    size_t report_length;
    struct sbx_error error; /* what of ours has failed; code 0: nothing */
};

/*
 * Starts a run and returns without waiting for the command, which has the caller's
 * environment, working directory, umask, limits and standard streams as they are now;
 * of other descriptors it gets those of option "keep-fd" alone. It never gets the
 * terminal: in the background, it cannot read from it.
 *
 * What was asked for is borrowed for the call. An error here means that nothing ran, and
 * no report was written: the specification makes no sense (-EINVAL), sbx-monitor cannot
 * be executed (-ENOENT, -EACCES ...), descriptors, processes or memory are short. What
 * fails later, such as the command's own execution, is a result: outcome
 * "launch-failed", with `error`.
 */
SBX_PUBLIC int sbx_run_start(const struct sbx_spec *spec, struct sbx_run **ret_run,
                             struct sbx_error *err);

/* A descriptor to poll for input. It stays the run's and never changes; once the run has
 * finished it is readable for ever. */
SBX_PUBLIC int sbx_run_fd(const struct sbx_run *run);

/* Takes the next event; never waits. *ret_progress (may be NULL) receives a progress
 * sample. Call it until it finds nothing, and stop when it has finished. */
SBX_PUBLIC enum sbx_run_event sbx_run_next(struct sbx_run *run,
                                           struct sbx_progress *ret_progress);

/* Waits until it has finished, dropping progress samples. 0, or -ETIMEDOUT;
 * UINT64_MAX: as long as it takes. */
SBX_PUBLIC int sbx_run_wait(struct sbx_run *run, uint64_t timeout_us);

/* Asks for the end in order: polite signal, grace, SIGKILL; outcome "cancelled". A second
 * call skips the grace. Never waits. 0, -ESRCH when the run is over, -EAGAIN. */
SBX_PUBLIC int sbx_run_cancel(struct sbx_run *run);

/* Passes a signal to the command's process group. Never waits. 0, -EINVAL, -ESRCH,
 * -EAGAIN. */
SBX_PUBLIC int sbx_run_signal(struct sbx_run *run, int signal_number);

/* Holds all members where they are, and lets them go on. Time limits go on meanwhile, but
 * for `idle`; the end of a run that is paused continues what it has to. Who was stopped
 * before stays so. To a run that is being ended, and to an attached tree, it does
 * nothing. Never waits. As sbx_run_cancel. */
SBX_PUBLIC int sbx_run_pause(struct sbx_run *run);
SBX_PUBLIC int sbx_run_resume(struct sbx_run *run);

/* How it has ended; NULL before sbx_run_next or sbx_run_wait has said that it has. */
SBX_PUBLIC const struct sbx_result *sbx_run_result(const struct sbx_run *run);

/* A value of the report by its path, "usage.cpu_us", "termination.strays.0.name". The
 * string is the run's, without JSON's escapes. 0; -ENOENT: unknown, so that it is absent,
 * or there is no report; -EINVAL: it is there and no such thing; -ENOMEM. */
SBX_PUBLIC int sbx_run_report_number(const struct sbx_run *run, const char *path,
                                     uint64_t *ret_number);
SBX_PUBLIC int sbx_run_report_string(struct sbx_run *run, const char *path,
                                     const char **ret_string);

/*
 * Lets go of a run; NULL is allowed. One that is under way is ended as if the caller were
 * gone; this does not wait for that. In a process that the caller has forked it frees
 * that one's copy, and the run goes on.
 *
 * The exception: orphans of a caller that is a child subreaper (prctl(2)), or process 1
 * of its PID namespace, become its children. There the guard of a run does, and its end
 * sends SIGCHLD. A run that has finished has reaped it; one that is freed before leaves
 * that to the caller, as with all orphans.
 */
SBX_PUBLIC void sbx_run_free(struct sbx_run *run);

/* Starts a run and waits for its end. On success *ret_run has the result, and is the
 * caller's to free. */
SBX_PUBLIC int sbx_run(const struct sbx_spec *spec, struct sbx_run **ret_run,
                       struct sbx_error *err);

/* The whole of the program sbx-monitor, which sbx_run_start executes: of no use to
 * anybody else. Returns an exit status; SBX_STATUS_FAILED at once when it was not started
 * that way. */
SBX_PUBLIC int sbx_monitor_main(int argc, char *argv[]);

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

/*
 * --- confinement ---
 *
 * What `sbx-run` does: a description of a sandbox, a plan made from it for everybody to
 * look at, and the run of that plan. The options are those that `sbx-run --help` lists.
 */
struct sbx_sandbox;

/* The option table of sbx-run, static. */
SBX_PUBLIC const struct sbx_option *sbx_sandbox_options(size_t *ret_count);

/* A new description with nothing in it, owned by the caller; NULL when memory is short.
 */
SBX_PUBLIC struct sbx_sandbox *sbx_sandbox_new(void);
SBX_PUBLIC void sbx_sandbox_free(struct sbx_sandbox *sandbox);

/* As sbx_spec_set and sbx_spec_set_command. */
SBX_PUBLIC int sbx_sandbox_set(struct sbx_sandbox *sandbox, const char *name,
                               const char *value, struct sbx_error *err);
SBX_PUBLIC int sbx_sandbox_set_command(struct sbx_sandbox *sandbox,
                                       const char *const argv[], struct sbx_error *err);

/* What exactly will be done: a value that never changes, owned by the caller. Making it
 * looks at the paths that are named, and changes nothing. Errors are those of the
 * description: -EINVAL, -ENOENT, -ENOTDIR, -EACCES ..., stage options or check. */
struct sbx_plan;
SBX_PUBLIC int sbx_sandbox_plan(const struct sbx_sandbox *sandbox,
                                struct sbx_plan **ret_plan, struct sbx_error *err);
SBX_PUBLIC void sbx_plan_free(struct sbx_plan *plan);

/* The plan as JSON, one line with its line feed; names of variables, never their values.
 * The string is the plan's; NULL when memory is short. */
SBX_PUBLIC const char *sbx_plan_json(struct sbx_plan *plan);

/* A remark on the plan, one line ("stdin is a writable file ..."); NULL past the last. */
SBX_PUBLIC const char *sbx_plan_warning(const struct sbx_plan *plan, size_t index);

/* How a confined command has ended. */
struct sbx_ending {
    int exit_code; /* -1: it was ended by a signal */
    int signal;    /* 0: none */
    int core_dumped;
};

/*
 * Runs the plan and waits: for single-threaded programs with no other children, whose
 * standard streams, and nothing else, the command gets. Signals that come meanwhile are
 * passed on to it; when the calling process's parent ends, so does all of the sandbox. 0
 * when the command ran, however it ended. Else nothing has run, nobody is left (or the
 * message says that the kernel does not end bubblewrap), and *ret_status is the exit
 * status that goes with it (125; 126 and 127 as of a shell).
 */
SBX_PUBLIC int sbx_plan_run(const struct sbx_plan *plan, struct sbx_ending *ret_ending,
                            int *ret_status, struct sbx_error *err);

/*
 * --- verification ---
 *
 * What `sbx-watch --verify` does: tries what this host can hold for a user. The minimal
 * sandbox is run, with and without network; each limit, each ceiling is made to bite.
 */
struct sbx_verification;

/* The options of the command line that belong to it, static. */
SBX_PUBLIC const struct sbx_option *sbx_verification_options(size_t *ret_count);

/* A new one, for the calling user, owned by the caller; NULL when memory is short. */
SBX_PUBLIC struct sbx_verification *sbx_verification_new(void);
SBX_PUBLIC void sbx_verification_free(struct sbx_verification *verification);

/* Sets "need" (names of checks and groups, separated by commas; they add up), "as-user"
 * (UID:GID) or "bwrap" (a path). -EINVAL when the name is unknown or the value is wrong;
 * nothing has changed then. */
SBX_PUBLIC int sbx_verification_set(struct sbx_verification *verification,
                                    const char *name, const char *value,
                                    struct sbx_error *err);

/*
 * Makes all checks, and waits for them: a second or two. For single-threaded programs
 * that reap no children but those they know: it forks one process, below which all
 * happens, and of which nothing is left. 0 when it could be done, whatever was found;
 * -EPERM when only root could act for that user, -EIO, -ENOMEM ...
 */
SBX_PUBLIC int sbx_verification_run(struct sbx_verification *verification,
                                    struct sbx_error *err);

/* What was found: as JSON (one line with its line feed), as a table for people. NULL
 * before it was run, and when memory is short. The strings are the verification's, until
 * it is run again. */
SBX_PUBLIC const char *sbx_verification_json(struct sbx_verification *verification);
SBX_PUBLIC const char *sbx_verification_text(struct sbx_verification *verification);

/* 1: the minimal sandbox has run, and all that is needed holds; else 0. What does not
 * apply here holds where its group is needed, and does not where it is itself. */
SBX_PUBLIC int sbx_verification_holds(const struct sbx_verification *verification);

/*
 * --- executions ---
 *
 * What `sbxd` does: commands that are started under an id and outlive whoever has asked
 * for them, also this process; see sbxd(8). These functions are in a library of their
 * own, libsbx-supervisor.
 *
 * Each execution lives in processes of its own and in a place of the state directory.
 * One process at a time has that open; the next one finds what goes on, and what has
 * ended. All calls are for one thread.
 */
struct sbx_supervisor;

/* The options of sbxd, static. */
SBX_PUBLIC const struct sbx_option *sbx_supervisor_options(size_t *ret_count);

/* A new one, owned by the caller; NULL when memory is short. Freeing it leaves the
 * executions alone. */
SBX_PUBLIC struct sbx_supervisor *sbx_supervisor_new(void);
SBX_PUBLIC void sbx_supervisor_free(struct sbx_supervisor *supervisor);

/* As sbx_spec_set. */
SBX_PUBLIC int sbx_supervisor_set(struct sbx_supervisor *supervisor, const char *name,
                                  const char *value, struct sbx_error *err);

/* Opens the state directory, and finds the executions in it; raises the soft limit of
 * this process's descriptors to the hard one, since an execution needs two. -EBUSY:
 * another process has it open. One that has failed may be tried again. */
SBX_PUBLIC int sbx_supervisor_open(struct sbx_supervisor *supervisor,
                                   struct sbx_error *err);

/* Serves it over HTTP on a Unix socket until SIGTERM, SIGINT or a request ends that; the
 * executions go on. Opens it if that was not done. Is made for a process that does
 * nothing else: / becomes its working directory, and SIGTERM, SIGINT and SIGPIPE stay
 * blocked. 0, or a negative errno. */
SBX_PUBLIC int sbx_supervisor_serve(struct sbx_supervisor *supervisor,
                                    struct sbx_error *err);

/* For a program with no service: does what is due, waits for at most that long until
 * something has happened. 0 or a negative errno. */
SBX_PUBLIC int sbx_supervisor_step(struct sbx_supervisor *supervisor, uint64_t timeout_us,
                                   struct sbx_error *err);

/*
 * Starts the execution that a request (JSON, as for POST /v1/executions) describes. Opens
 * the state directory if that was not done. 1: it was started; 0: there is one of that id
 * and request already. -EINVAL: the request makes no sense; -EPERM: the operator does not
 * allow it; -EEXIST: the id is taken by another request; -EDQUOT: too many run.
 * *ret_snapshot: JSON, for the caller to free.
 */
SBX_PUBLIC int sbx_supervisor_start(struct sbx_supervisor *supervisor,
                                    const char *request, size_t length,
                                    char **ret_snapshot, struct sbx_error *err);

/* As the answers of the service: JSON, for the caller to free. -ENOENT: no such id. */
SBX_PUBLIC int sbx_supervisor_show(struct sbx_supervisor *supervisor, const char *id,
                                   char **ret_snapshot, struct sbx_error *err);
SBX_PUBLIC int sbx_supervisor_list(struct sbx_supervisor *supervisor, char **ret_list,
                                   struct sbx_error *err);
SBX_PUBLIC int sbx_supervisor_events(struct sbx_supervisor *supervisor, const char *id,
                                     uint64_t after, char **ret_events,
                                     struct sbx_error *err);

/* A part of what a command wrote. */
struct sbx_output {
    uint64_t offset;    /* of the first byte in the buffer */
    uint64_t gap_bytes; /* dropped between what was asked for and that */
    size_t length;      /* bytes in the buffer; 0: nothing more (yet) */
    int ended;          /* nothing will come behind them */
};

/* What is wanted of it. */
struct sbx_output_wish {
    int stream;      /* 1: stdout, 2: stderr */
    uint64_t offset; /* from there on */
    void *buffer;
    size_t size;
};

/* Reads what is kept, as far as it is there. Where the command is to pause when nobody
 * reads, all before the offset counts as taken. */
SBX_PUBLIC int sbx_supervisor_output(struct sbx_supervisor *supervisor, const char *id,
                                     const struct sbx_output_wish *wish,
                                     struct sbx_output *ret_output,
                                     struct sbx_error *err);

/* Orders, which never wait: that it was accepted says nothing about what came of it.
 * -ENOENT; -ESRCH: it is over. */
SBX_PUBLIC int sbx_supervisor_cancel(struct sbx_supervisor *supervisor, const char *id,
                                     struct sbx_error *err);
SBX_PUBLIC int sbx_supervisor_signal(struct sbx_supervisor *supervisor, const char *id,
                                     int signal_number, struct sbx_error *err);

SBX_PUBLIC int sbx_supervisor_pause(struct sbx_supervisor *supervisor, const char *id,
                                    struct sbx_error *err);
SBX_PUBLIC int sbx_supervisor_resume(struct sbx_supervisor *supervisor, const char *id,
                                     struct sbx_error *err);

/* Bytes for its standard input, at most 1 MiB, all of them or none; what waits to be read
 * there has that bound too. `data` NULL: its end. -EPIPE: it is not open. */
SBX_PUBLIC int sbx_supervisor_write(struct sbx_supervisor *supervisor, const char *id,
                                    const char *data, size_t length,
                                    struct sbx_error *err);

/* Forgets one that is settled: 0. One that runs is cancelled, and forgotten when it is
 * settled: -EINPROGRESS. */
SBX_PUBLIC int sbx_supervisor_remove(struct sbx_supervisor *supervisor, const char *id,
                                     struct sbx_error *err);

/*
 * --- a client of sbxd ---
 */
struct sbx_client;
struct sbx_reply;

/* One request. */
struct sbx_call {
    const char *method; /* "GET" ... */
    const char *path;   /* with its query: "/v1/executions/x/events?after=3" */
    const char *body;   /* NULL: none */
    size_t length;
    uint64_t timeout_us; /* for all of it; 0: for ever */
};

/* For the service on that socket; NULL: where an sbxd of this user has it. Connects with
 * the first call, and again when the service was restarted. NULL when memory is short. */
SBX_PUBLIC struct sbx_client *sbx_client_new(const char *socket_path);
SBX_PUBLIC void sbx_client_free(struct sbx_client *client);

/* Where it would connect to. */
SBX_PUBLIC const char *sbx_client_socket(const struct sbx_client *client);

/* Asks, and waits for the answer, whatever its status is. 0 and a reply, owned by the
 * caller; -ENOENT, -ECONNREFUSED: nobody serves there; -ETIMEDOUT; -EPROTO: what answers
 * is no HTTP; -EMSGSIZE: its body has more than 16 MiB; -EPIPE: it was cut off. No
 * request is sent twice. */
SBX_PUBLIC int sbx_client_call(struct sbx_client *client, const struct sbx_call *call,
                               struct sbx_reply **ret_reply, struct sbx_error *err);

SBX_PUBLIC void sbx_reply_free(struct sbx_reply *reply);
SBX_PUBLIC int sbx_reply_status(const struct sbx_reply *reply);
/* The value of a header, whatever its case; NULL: it is not there. */
SBX_PUBLIC const char *sbx_reply_header(const struct sbx_reply *reply, const char *name);
/* Terminated behind its last byte. */
SBX_PUBLIC const char *sbx_reply_body(const struct sbx_reply *reply, size_t *ret_length);

/* The whole of the program sbx-keeper, as sbx_monitor_main. In libsbx. */
SBX_PUBLIC int sbx_keeper_main(int argc, char *argv[]);

/* "0.1.0" */
SBX_PUBLIC const char *sbx_version(void);

#ifdef __cplusplus
}
#endif

#endif
