/*
 * sbxctl_options.c - the commands of sbxctl and the options of each: parser, help and
 * completion follow these tables. Whatever of sbx-watch and sbx-run can be in a request
 * is in their own.
 */
#include "tools/sbxctl.h"

#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define OPTIONS(table) .options = (table), .options_count = COUNT(table)

/* With every command, before and behind its name. */
static const struct sbx_option common_options[] = {
    {"socket", 0, "PATH", "Other",
     "of the service (default SBX_SOCKET, or where sbxd of this user has it)"},
    {"json", 0, NULL, "Other", "print JSON, as the service answers"},
    {"help", 'h', NULL, "Other", "print this text, or that of the command, and exit"},
    {"version", 'V', NULL, "Other", "print the version and exit"},
};

static const struct sbx_option start_options[] = {
    {"id", 0, "ID", "Execution", "its id; without, one is made and printed"},
    {"wait", 0, NULL, "Execution", "wait for its end, and end as it does"},
    {"follow", 'f', NULL, "Execution", "the same, and copy its output to ours meanwhile"},
    {"request", 0, "FILE|-", "Execution",
     "the request as JSON, from a file or our stdin; options and command go over what it "
     "has"},
    {"launcher", 0, "WORD", "Execution", "put before the command; repeatable"},
    {"stdin", 0, "null|open|-", "Execution",
     "standard input: nothing, a pipe for `sbxctl stdin`, or all of ours (default null)"},
    {"retention", 0, "DUR", "Execution",
     "keep the result that long after the end (default: that of sbxd, 15m)"},
    {"output-limit", 0, "SIZE", "Execution",
     "keep that much of each stream (default 64K)"},
    {"event-limit", 0, "N", "Execution", "keep that many events (default 512)"},
    {"when-full", 0, "drop|pause", "Execution",
     "drop what is beyond that, or let the command wait for a reader (default drop)"},
    {"sandbox", 0, NULL, "Execution",
     "confine it as sbx-run does; --sandbox-NAME for each option NAME of sbx-run"},
};

static const struct sbx_option events_options[] = {
    {"after", 0, "N", "Command", "those behind number N"},
    {"follow", 'f', NULL, "Command", "go on until it has finished"},
};

static const struct sbx_option logs_options[] = {
    {"stderr", 0, NULL, "Command", "its standard error instead of its standard output"},
    {"both", 0, NULL, "Command", "both, to our stdout and stderr"},
    {"offset", 0, "N", "Command", "from byte N of the stream on"},
    {"follow", 'f', NULL, "Command", "go on until it has ended"},
};

static const struct sbx_option stdin_options[] = {
    {"close", 0, NULL, "Command", "and close it behind that"},
};

static const struct sbx_option wait_options[] = {
    {"wait", 0, "DUR", "Command", "return when nothing of it is left, or that is over"},
};

static const struct sbx_option shutdown_options[] = {
    {"cancel", 0, NULL, "Command", "end all executions first"},
};

static const struct sbx_ctl_command commands[] = {
    {"start", "[OPTION]... [--] COMMAND [ARG]...", "start a command, and print its id",
     OPTIONS(start_options), -1, sbx_ctl_start},
    {"list", "", "what there is", NULL, 0, 0, sbx_ctl_list},
    {"show", "ID", "how one of them is, or how it ended", NULL, 0, 1, sbx_ctl_show},
    {"events", "[--after N] [-f] ID", "what happened", OPTIONS(events_options), 1,
     sbx_ctl_events},
    {"logs", "[--stderr|--both] [--offset N] [-f] ID", "what it wrote",
     OPTIONS(logs_options), 1, sbx_ctl_logs},
    {"stdin", "[--close] ID", "write our standard input to its own",
     OPTIONS(stdin_options), 1, sbx_ctl_stdin},
    {"signal", "ID SIG", "send a signal to its process group", NULL, 0, 2,
     sbx_ctl_signal},
    {"pause", "ID", "hold all of its processes", NULL, 0, 1, sbx_ctl_pause},
    {"resume", "ID", "let them go on", NULL, 0, 1, sbx_ctl_resume},
    {"cancel", "[--wait DUR] ID", "end it in order", OPTIONS(wait_options), 1,
     sbx_ctl_cancel},
    {"rm", "[--wait DUR] ID", "forget it; one that runs is cancelled first",
     OPTIONS(wait_options), 1, sbx_ctl_rm},
    {"stats", "", "numbers of the service", NULL, 0, 0, sbx_ctl_stats},
    {"metrics", "", "the same in the text format of Prometheus", NULL, 0, 0,
     sbx_ctl_metrics},
    {"verify", "", "what the host can hold for the user of sbxd", NULL, 0, 0,
     sbx_ctl_verify},
    {"shutdown", "[--cancel]", "end the service; executions go on",
     OPTIONS(shutdown_options), 0, sbx_ctl_shutdown},
};

const struct sbx_ctl_command *sbx_ctl_commands(size_t *ret_count)
{
    *ret_count = COUNT(commands);
    return commands;
}

const struct sbx_option *sbx_ctl_common_options(size_t *ret_count)
{
    *ret_count = COUNT(common_options);
    return common_options;
}

const char *sbx_ctl_value(const struct sbx_ctl *ctl, const char *name)
{
    for (size_t i = 0; i < ctl->command->options_count; i++) {
        if (strcmp(ctl->command->options[i].name, name) == 0) {
            return ctl->values[i];
        }
    }
    return NULL;
}
