/*
 * test_options.c - what each option does to a specification, and that a wrong one does
 * nothing but say why. The command line itself is in test_front.c.
 */
#include "monitor/spec.h"

#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define FIELD(member) offsetof(struct sbx_spec, member)

static struct sbx_spec *new_spec(void)
{
    struct sbx_spec *spec = sbx_spec_new();
    ck_assert_ptr_nonnull(spec);
    return spec;
}

static void set(struct sbx_spec *spec, const char *name, const char *value)
{
    struct sbx_error error = {0};
    int result = sbx_spec_set(spec, name, value, &error);
    ck_assert_msg(result == 0, "--%s %s: %s", name, value != NULL ? value : "",
                  error.message);
}

START_TEST(test_table)
{
    size_t count = 0;
    const struct sbx_option *options = sbx_options(&count);
    ck_assert_uint_gt(count, 0);
    for (size_t i = 0; i < count; i++) {
        const struct sbx_option *option = &options[i];
        ck_assert_str_ne(option->name, "help");
        ck_assert_str_ne(option->name, "version");
        ck_assert_int_ne(option->letter, 'h');
        ck_assert_int_ne(option->letter, 'V');
        ck_assert_msg(option->name[0] != '-' && strpbrk(option->name, "=_ ") == NULL,
                      "name '%s'", option->name);
        ck_assert_ptr_null(strchr(option->help, '\n'));
        ck_assert_str_ne(option->help, "");
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(options[k].name, option->name);
            ck_assert_msg(option->letter == 0 || options[k].letter != option->letter,
                          "letter %c twice", option->letter);
            /* Neighbours: a heading does not come back after another one. */
            ck_assert_msg(strcmp(options[k].group, option->group) != 0 ||
                              strcmp(options[i - 1].group, option->group) == 0,
                          "heading '%s' twice", option->group);
        }
    }
}
END_TEST

START_TEST(test_defaults)
{
    struct sbx_spec *spec = new_spec();
    ck_assert_ptr_null(spec->argv);
    ck_assert_uint_eq(spec->limits.wall_us, 0);
    ck_assert_uint_eq(spec->limits.cpu_us, 0);
    ck_assert_uint_eq(spec->limits.memory_bytes, 0);
    ck_assert_uint_eq(spec->limits.processes_count, 0);
    ck_assert_uint_eq(spec->limits.threads_count, 0);
    ck_assert_uint_eq(spec->warn_percent, 90);
    ck_assert_int_eq(spec->signal, SIGTERM);
    ck_assert_uint_eq(spec->grace_us, 2000000);
    ck_assert(!spec->grace_asked);
    ck_assert_uint_eq(spec->linger_us, 0);
    ck_assert_int_eq(spec->strays, SBX_STRAYS_KILL);
    ck_assert_int_eq(spec->backend, SBX_BACKEND_AUTO);
    ck_assert_uint_eq(spec->require, 0);
    ck_assert_uint_eq(spec->interval_us, 250000);
    ck_assert_uint_eq(spec->limits.swap_bytes, 0);
    ck_assert_uint_eq(spec->limits.cpu_quota_percent, 0);
    ck_assert_ptr_null(spec->cgroup_root);
    ck_assert_int_eq(spec->cgroup_root_directory_fd, -1);
    ck_assert_ptr_null(spec->report_path);
    ck_assert_int_eq(spec->report_directory_fd, -1);
    ck_assert_int_eq(spec->report_fd, 0);
    ck_assert_int_eq(spec->format, SBX_FORMAT_JSON);
    ck_assert(!spec->detach);
    ck_assert_int_eq(spec->breach_status, 124);
    ck_assert_int_eq(spec->attach.pid, 0);
    ck_assert(!spec->attach.enforce);
    ck_assert_ptr_null(spec->attach.never);
    ck_assert_ptr_null(spec->attach.enforced);
    ck_assert(!spec->environment.clear);
    ck_assert_uint_eq(spec->environment.from_files.count, 0);
    ck_assert_uint_eq(spec->environment.given.count, 0);
    ck_assert(!spec->start.new_session && !spec->start.no_new_privs);
    ck_assert(!spec->start.cpus_asked && !spec->start.umask_asked);
    ck_assert(!spec->start.user_asked);
    ck_assert_ptr_null(spec->start.directory);
    ck_assert_int_eq(spec->start.directory_fd, -1);
    ck_assert_uint_eq(spec->log.target_count, 0);
    ck_assert_int_eq(spec->log.level, SBX_LOG_INFO);
    ck_assert_int_eq(spec->log.form, SBX_LOG_KV);
    ck_assert(!spec->log.verbose);
    ck_assert_ptr_null(spec->log.timeline_path);
    ck_assert_int_eq(spec->log.directory_fd, -1);
    ck_assert_uint_eq(spec->limits.output_bytes, 0);
    ck_assert_uint_eq(spec->limits.idle_us, 0);
    ck_assert_uint_eq(spec->output_keep_bytes, 0);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_null(spec->streams[i].path);
        ck_assert_int_eq(spec->streams[i].directory_fd, -1);
    }
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        ck_assert(!spec->ceilings[i].asked);
    }
    sbx_spec_free(spec);
    sbx_spec_free(NULL);
}
END_TEST

struct number_row {
    const char *name;
    const char *value;
    size_t field;
    uint64_t wanted;
};

static const struct number_row numbers[] = {
    {"wall", "5", FIELD(limits.wall_us), 5000000},
    {"wall", "1us", FIELD(limits.wall_us), 1},
    {"wall", "9223372036854775807us", FIELD(limits.wall_us), INT64_MAX},
    {"cpu", "1.5m", FIELD(limits.cpu_us), 90000000},
    {"memory", "200M", FIELD(limits.memory_bytes), 209715200},
    {"memory", "1.1G", FIELD(limits.memory_bytes), 1181116006},
    {"processes", "20", FIELD(limits.processes_count), 20},
    {"threads", "1", FIELD(limits.threads_count), 1},
    {"output", "1G", FIELD(limits.output_bytes), 1073741824},
    {"output", "1", FIELD(limits.output_bytes), 1},
    {"output-keep", "64K", FIELD(output_keep_bytes), 65536},
    {"idle", "1.5s", FIELD(limits.idle_us), 1500000},
    {"swap", "1", FIELD(limits.swap_bytes), 1},
    {"swap", "1.5G", FIELD(limits.swap_bytes), 1610612736},
    {"cpu-quota", "1", FIELD(limits.cpu_quota_percent), 1},
    {"cpu-quota", "100000", FIELD(limits.cpu_quota_percent), 100000},
    {"warn", "1", FIELD(warn_percent), 1},
    {"warn", "100", FIELD(warn_percent), 100},
    {"grace", "0", FIELD(grace_us), 0},
    {"grace", "1.5s", FIELD(grace_us), 1500000},
    {"linger", "0", FIELD(linger_us), 0},
    {"linger", "500ms", FIELD(linger_us), 500000},
    {"interval", "1ms", FIELD(interval_us), 1000},
    {"interval", "1s", FIELD(interval_us), 1000000},
};

START_TEST(test_number)
{
    const struct number_row *row = &numbers[_i];
    struct sbx_spec *spec = new_spec();
    set(spec, row->name, row->value);
    uint64_t got = 0;
    memcpy(&got, (const char *)spec + row->field, sizeof got);
    ck_assert_uint_eq(got, row->wanted);
    ck_assert_int_eq(spec->grace_asked, strcmp(row->name, "grace") == 0);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_last_one_wins)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "wall", "5");
    set(spec, "wall", "7");
    ck_assert_uint_eq(spec->limits.wall_us, 7000000);
    set(spec, "strays", "keep");
    ck_assert_int_eq(spec->strays, SBX_STRAYS_KEEP);
    set(spec, "strays", "wait");
    ck_assert_int_eq(spec->strays, SBX_STRAYS_WAIT);
    set(spec, "strays", "kill");
    ck_assert_int_eq(spec->strays, SBX_STRAYS_KILL);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_words_and_flags)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "backend", "proc");
    ck_assert_int_eq(spec->backend, SBX_BACKEND_PROC);
    set(spec, "backend", "cgroup2");
    ck_assert_int_eq(spec->backend, SBX_BACKEND_CGROUP2);
    set(spec, "backend", "auto");
    ck_assert_int_eq(spec->backend, SBX_BACKEND_AUTO);
    /* These add up. */
    set(spec, "require", "complete");
    ck_assert_uint_eq(spec->require, 1U << SBX_REQUIRE_COMPLETE);
    set(spec, "require", "kernel-limits");
    set(spec, "require", "kernel-limits");
    ck_assert_uint_eq(spec->require,
                      1U << SBX_REQUIRE_COMPLETE | 1U << SBX_REQUIRE_KERNEL_LIMITS);
    set(spec, "require", "cgroup2");
    ck_assert_uint_eq(spec->require, 1U << SBX_REQUIRE_COMPLETE |
                                         1U << SBX_REQUIRE_KERNEL_LIMITS |
                                         1U << SBX_REQUIRE_CGROUP2);
    set(spec, "require", "pid-namespace");
    ck_assert_uint_eq(spec->require, 15);
    ck_assert(!spec->pid_namespace);
    set(spec, "pid-namespace", NULL);
    ck_assert(spec->pid_namespace);
    ck_assert(!spec->quiet);
    set(spec, "quiet", NULL);
    ck_assert(spec->quiet);
    set(spec, "log-level", "error");
    ck_assert_int_eq(spec->log.level, SBX_LOG_ERROR);
    set(spec, "log-level", "debug");
    ck_assert_int_eq(spec->log.level, SBX_LOG_DEBUG);
    set(spec, "log-level", "warning");
    ck_assert_int_eq(sbx_log_level_of(&spec->log), SBX_LOG_WARNING);
    set(spec, "log-format", "json");
    ck_assert_int_eq(spec->log.form, SBX_LOG_JSON);
    set(spec, "log-format", "kv");
    ck_assert_int_eq(spec->log.form, SBX_LOG_KV);
    set(spec, "verbose", NULL);
    ck_assert(spec->log.verbose);
    ck_assert_int_eq(sbx_log_level_of(&spec->log), SBX_LOG_DEBUG);
    ck_assert(!spec->die_with_parent);
    set(spec, "die-with-parent", NULL);
    ck_assert(spec->die_with_parent);
    set(spec, "format", "text");
    ck_assert_int_eq(spec->format, SBX_FORMAT_TEXT);
    set(spec, "format", "kv");
    ck_assert_int_eq(spec->format, SBX_FORMAT_KV);
    set(spec, "format", "json");
    ck_assert_int_eq(spec->format, SBX_FORMAT_JSON);
    set(spec, "detach", NULL);
    ck_assert(spec->detach);
    set(spec, "report-fd", "2");
    ck_assert_int_eq(spec->report_fd, 2);
    ck_assert(!spec->preserve_status);
    set(spec, "preserve-status", NULL);
    ck_assert(spec->preserve_status);
    set(spec, "breach-status", "255");
    ck_assert_int_eq(spec->breach_status, 255);
    set(spec, "breach-status", "1");
    ck_assert_int_eq(spec->breach_status, 1);
    set(spec, "signal", "INT");
    ck_assert_int_eq(spec->signal, SIGINT);
    set(spec, "signal", "kill");
    ck_assert_int_eq(spec->signal, SIGKILL);
    set(spec, "signal", "RTMIN+1");
    ck_assert_int_eq(spec->signal, SIGRTMIN + 1);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_cgroup)
{
    struct sbx_spec *spec = new_spec();
    ck_assert(!sbx_spec_attaches(spec));
    set(spec, "cgroup", "a/b");
    ck_assert_str_eq(spec->attach.cgroup, "a/b");
    ck_assert_int_gt(spec->attach.cgroup_directory_fd, 2);
    set(spec, "cgroup", "/a");
    ck_assert_str_eq(spec->attach.cgroup, "/a");
    ck_assert_int_eq(spec->attach.cgroup_directory_fd, -1);
    ck_assert(sbx_spec_attaches(spec));
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_streams)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "stdin", "null");
    ck_assert_str_eq(spec->streams[0].path, "/dev/null");
    ck_assert_int_eq(spec->streams[0].directory_fd, -1);
    set(spec, "stdin", "./null");
    ck_assert_str_eq(spec->streams[0].path, "./null");
    ck_assert_int_gt(spec->streams[0].directory_fd, 2);
    set(spec, "stdin", "inherit");
    ck_assert_ptr_null(spec->streams[0].path);
    ck_assert_int_eq(spec->streams[0].directory_fd, -1);
    set(spec, "stdout", "a");
    set(spec, "stdout", "-");
    ck_assert_str_eq(spec->streams[1].path, "-");
    ck_assert_int_gt(spec->streams[1].directory_fd, 2);
    set(spec, "stderr", "null"); /* only standard input knows that word */
    ck_assert_str_eq(spec->streams[2].path, "null");
    /* What holds the directory is no descriptor of the caller's. */
    char number[16];
    (void)snprintf(number, sizeof number, "%d", spec->streams[2].directory_fd);
    ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", number, NULL), -EBADF);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_ceilings_add_up)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "rlimit", "nofile=64");
    set(spec, "rlimit", "core=0");
    set(spec, "rlimit", "nofile=32:64");
    size_t asked = 0;
    for (size_t i = 0; i < SBX_CEILING_COUNT; i++) {
        asked += spec->ceilings[i].asked ? 1 : 0;
        if (strcmp(sbx_ceiling_kinds[i].name, "nofile") == 0) {
            ck_assert_uint_eq(spec->ceilings[i].soft, 32);
            ck_assert_uint_eq(spec->ceilings[i].hard, 64);
        }
    }
    ck_assert_uint_eq(asked, 2);
    sbx_spec_free(spec);
}
END_TEST

struct bad_row {
    const char *name;
    const char *value; /* NULL: none given */
    int result;
    const char *says; /* a part of the message beside the option's name */
};

static const struct bad_row bad[] = {
    {"wall", "0", -ERANGE, "'0' is out of range (accepted: digits"},
    {"wall", "0s", -ERANGE, "above 0"},
    {"wall", "0.0", -ERANGE, "above 0"},
    {"wall", "5x", -EINVAL, "'5x' is not a duration (accepted: digits"},
    {"wall", "", -EINVAL, "'' is not a duration"},
    {"wall", "-1", -EINVAL, "'-1' is not a duration"},
    {"wall", "1e30", -EINVAL, "'1e30' is not a duration"},
    {"wall", "0,5", -EINVAL, "'0,5' is not a duration"},
    {"wall", "5s garbage", -EINVAL, "'5s garbage' is not a duration"},
    {"wall", "5\n", -EINVAL, "'5\\x0A' is not a duration"},
    {"wall", "99999999999999999999", -ERANGE, "'99999999999999999999' is out of range"},
    {"wall", "9223372036854775808us", -ERANGE, "out of range"},
    {"wall", NULL, -EINVAL, "needs a value (DUR)"},
    {"cpu", "0", -ERANGE, "above 0"},
    {"cpu", "nan", -EINVAL, "'nan' is not a duration"},
    {"memory", "0", -ERANGE, "above 0"},
    {"memory", "0.0001K", -ERANGE, "above 0"},
    {"memory", "512m", -EINVAL, "'512m' is not a size (accepted: digits"},
    {"memory", "50%", -EINVAL, "'50%' is not a size"},
    {"memory", "-1", -EINVAL, "'-1' is not a size"},
    {"memory", "8388608T", -ERANGE, "out of range"},
    {"processes", "0", -ERANGE, "above 0"},
    {"processes", "1.5", -EINVAL,
     "'1.5' is not a number (accepted: digits, no leading zero"},
    {"processes", "unlimited", -EINVAL, "is not a number"},
    {"threads", "0", -ERANGE, "above 0"},
    {"threads", "0x10", -EINVAL, "'0x10' is not a number"},
    {"output", "0", -ERANGE, "above 0"},
    {"output", "1g", -EINVAL, "'1g' is not a size"},
    {"output-keep", "0", -ERANGE, "above 0"},
    {"output-keep", "all", -EINVAL, "'all' is not a size"},
    {"idle", "0", -ERANGE, "above 0"},
    {"idle", "5x", -EINVAL, "'5x' is not a duration"},
    {"stdin", "", -EINVAL, "'' is not a path (accepted: a path, null, inherit)"},
    {"stdin", NULL, -EINVAL, "needs a value (FILE|null|inherit)"},
    {"stdout", "", -EINVAL, "'' is not a path (accepted: a path)"},
    {"stderr", "", -EINVAL, "'' is not a path (accepted: a path)"},
    {"warn", "0", -ERANGE, "1 to 100"},
    {"warn", "101", -ERANGE, "1 to 100"},
    {"warn", "90%", -EINVAL, "'90%' is not a number"},
    {"rlimit", "nofile", -EINVAL, "nofile"},
    {"rlimit", "nofile=-1", -EINVAL, "nofile=-1"},
    {"rlimit", "nofiles=1", -EINVAL, "nofiles=1"},
    {"rlimit", "nofile=64:32", -EINVAL, "nofile=64:32"},
    {"signal", "STOP", -EINVAL, "would stop the processes"},
    {"signal", "TSTP", -EINVAL, "would stop the processes"},
    {"signal", "ttin", -EINVAL, "would stop the processes"},
    {"signal", "SIGTTOU", -EINVAL, "would stop the processes"},
    {"signal", "19", -EINVAL, "would stop the processes"},
    {"signal", "0", -ERANGE, "'0' is not a signal (accepted: a name such as TERM"},
    {"signal", "TERMINATE", -EINVAL, "'TERMINATE' is not a signal"},
    {"grace", "-1", -EINVAL, "0 or more"},
    {"grace", "soon", -EINVAL, "'soon' is not a duration"},
    {"linger", "", -EINVAL, "0 or more"},
    {"strays", "maybe", -EINVAL, "'maybe' is unknown (accepted: kill, wait, keep)"},
    {"strays", "KILL", -EINVAL, "accepted: kill, wait, keep"},
    {"strays", "kil", -EINVAL, "accepted: kill, wait, keep"},
    {"swap", "0", -ERANGE, "above 0"},
    {"swap", "max", -EINVAL, "'max' is not a size"},
    {"cpu-quota", "0", -ERANGE, "1 to 100000"},
    {"cpu-quota", "100001", -ERANGE, "1 to 100000"},
    {"cpu-quota", "50%", -EINVAL, "'50%' is not a number"},
    {"cpu-quota", "0.5", -EINVAL, "'0.5' is not a number"},
    {"backend", "cgroup", -EINVAL, "'cgroup' is unknown (accepted: auto, cgroup2, proc)"},
    {"require", "best-effort", -EINVAL,
     "(accepted: complete, cgroup2, pid-namespace, kernel-limits)"},
    {"require", "complete,cgroup2", -EINVAL, "'complete,cgroup2' is unknown"},
    {"require", "", -EINVAL, "'' is unknown"},
    {"cgroup-root", "", -EINVAL, "'' is not a path (accepted: the path of a cgroup v2"},
    {"cgroup-root", NULL, -EINVAL, "needs a value (PATH)"},
    {"interval", "0", -ERANGE, "at least 1ms"},
    {"interval", "999us", -ERANGE, "at least 1ms"},
    {"report", "", -EINVAL, "'' is not a path"},
    {"report", NULL, -EINVAL, "needs a value (FILE)"},
    {"keep-fd", "2", -ERANGE, "above 2"},
    {"keep-fd", "3000000000", -ERANGE, "above 2"},
    {"keep-fd", "4294967300", -ERANGE, "above 2"},
    {"keep-fd", "-1", -EINVAL, "'-1' is not a number"},
    {"keep-fd", "2000000000", -EBADF, "descriptor 2000000000 is not open"},
    {"chdir", "", -EINVAL, "'' is not a path (accepted: a directory)"},
    {"chdir", NULL, -EINVAL, "needs a value (DIR)"},
    {"env", "", -EINVAL, "the name is empty (accepted: NAME, to take the caller's"},
    {"env", "=x", -EINVAL, "the name is empty"},
    {"env", NULL, -EINVAL, "needs a value (NAME[=VALUE])"},
    {"env-from", "", -EINVAL, "'' is not a path"},
    {"env-from", "/", -EISDIR, "'/': is a directory (EISDIR)"},
    {"env-from", "/nowhere/at/all", -ENOENT,
     "'/nowhere/at/all': no such file or directory (ENOENT)"},
    {"env-from", "/dev/zero", -EFBIG, "'/dev/zero': is larger than 1 MiB"},
    {"clear-env", "1", -EINVAL, "takes no value"},
    {"user", "", -EINVAL, "'' is not a user (accepted: UID or UID:GID, in digits"},
    {"user", ":", -EINVAL, "is not a user"},
    {"user", "1000:", -EINVAL, "is not a user"},
    {"user", ":1000", -EINVAL, "is not a user"},
    {"user", "nobody", -EINVAL, "'nobody' is not a user"},
    {"user", "1000:nogroup", -EINVAL, "is not a user"},
    {"user", "1000:1000:1000", -EINVAL, "is not a user"},
    {"user", "1000.1000", -EINVAL, "is not a user"},
    {"user", "-1", -EINVAL, "is not a user"},
    {"user", "+0:0", -EINVAL, "is not a user"},
    {"user", "00:0", -EINVAL, "is not a user"},
    {"user", "0:00", -EINVAL, "is not a user"},
    {"user", "0x0:0", -EINVAL, "is not a user"},
    {"user", " 0:0", -EINVAL, "is not a user"},
    {"user", "4294967295:0", -EINVAL, "at most 4294967294"},
    {"user", "0:4294967295", -EINVAL, "at most 4294967294"},
    {"user", "4294967296:0", -EINVAL, "at most 4294967294"},
    {"user", "18446744073709551616:0", -EINVAL, "at most 4294967294"},
    {"user", "4294967294", -ENOENT, "uid 4294967294 has no entry in /etc/passwd"},
    {"cpus", "", -EINVAL, "'' is not a list of CPUs (accepted: numbers and ranges"},
    {"cpus", "0-", -EINVAL, "'0-' is not a list of CPUs"},
    {"cpus", "8192", -ERANGE, "'8192' is out of range"},
    {"umask", "", -EINVAL, "'' is not a mode (accepted: 1 to 4 octal digits"},
    {"umask", "8", -EINVAL, "'8' is not a mode"},
    {"umask", "1000", -EINVAL, "0 to 0777"},
    {"umask", "00022", -EINVAL, "1 to 4 octal digits"},
    {"umask", "0x1", -EINVAL, "is not a mode"},
    {"umask", "-22", -EINVAL, "is not a mode"},
    {"umask", "u=rwx", -EINVAL, "is not a mode"},
    {"umask", "22 ", -EINVAL, "is not a mode"},
    {"new-session", "1", -EINVAL, "takes no value"},
    {"no-new-privs", "1", -EINVAL, "takes no value"},
    {"report-fd", "0", -ERANGE, "above 0"},
    {"report-fd", "3000000000", -ERANGE, "above 0"},
    {"report-fd", "-1", -EINVAL, "'-1' is not a number"},
    {"report-fd", "2000000000", -EBADF, "descriptor 2000000000 is not open"},
    {"report-fd", NULL, -EINVAL, "needs a value (N)"},
    {"format", "yaml", -EINVAL, "'yaml' is unknown (accepted: json, kv, text)"},
    {"format", "JSON", -EINVAL, "accepted: json, kv, text"},
    {"format", "", -EINVAL, "accepted: json, kv, text"},
    {"detach", "1", -EINVAL, "takes no value"},
    {"breach-status", "0", -ERANGE, "1 to 255"},
    {"breach-status", "256", -ERANGE, "1 to 255"},
    {"quiet", "yes", -EINVAL, "takes no value, 'yes' given"},
    {"quiet", "", -EINVAL, "takes no value"},
    {"log", "", -EINVAL,
     "'' is not a sink (accepted: stderr, file:PATH, syslog, journal)"},
    {"log", "file", -EINVAL, "'file' is not a sink"},
    {"log", "file:", -EINVAL, "'file:' is not a sink"},
    {"log", "Stderr", -EINVAL, "'Stderr' is not a sink"},
    {"log", "stderr ", -EINVAL, "'stderr ' is not a sink"},
    {"log", "run.log", -EINVAL, "'run.log' is not a sink"},
    {"log", "syslog:user", -EINVAL, "'syslog:user' is not a sink"},
    {"log", NULL, -EINVAL, "needs a value (SINK)"},
    {"log-level", "warn", -EINVAL, "accepted: error, warning, info, debug"},
    {"log-level", "", -EINVAL, "'' is unknown"},
    {"log-format", "text", -EINVAL, "accepted: kv, json"},
    {"verbose", "2", -EINVAL, "takes no value"},
    {"timeline", "", -EINVAL, "'' is not a path"},
    {"cgroup", "", -EINVAL, "'' is not a path (accepted: a directory of cgroup2, or a"},
    {"cgroup", NULL, -EINVAL, "needs a value (PATH)"},
    {"die-with-parent", "1", -EINVAL, "takes no value"},
    {"preserve-status", "1", -EINVAL, "takes no value"},
};

/* A specification in which every kind of field is other than the default. */
static struct sbx_spec *filled_spec(void)
{
    static const char *const command[] = {"true", "x", NULL};
    struct sbx_spec *spec = new_spec();
    set(spec, "wall", "3");
    set(spec, "memory", "3M");
    set(spec, "grace", "3");
    set(spec, "strays", "keep");
    set(spec, "report", "relative/report");
    set(spec, "rlimit", "nofile=33");
    set(spec, "chdir", "relative");
    set(spec, "cgroup-root", "relative");
    set(spec, "cpu-quota", "3");
    set(spec, "env", "A=1");
    set(spec, "user", "1:2");
    set(spec, "cpus", "3");
    set(spec, "umask", "3");
    ck_assert_int_eq(sbx_spec_set_command(spec, command, NULL), 0);
    return spec;
}

START_TEST(test_bad)
{
    const struct bad_row *row = &bad[_i];
    struct sbx_spec *spec = filled_spec();
    struct sbx_spec before;
    memcpy(&before, spec, sizeof before);
    struct sbx_error error = {0};
    int result = sbx_spec_set(spec, row->name, row->value, &error);
    ck_assert_msg(result == row->result, "%d, expected %d: %s", result, row->result,
                  error.message);
    ck_assert_int_eq(error.code, -result);
    ck_assert_int_eq(error.stage, SBX_STAGE_OPTIONS);
    char head[64];
    (void)snprintf(head, sizeof head, "option --%s: ", row->name);
    ck_assert_msg(strncmp(error.message, head, strlen(head)) == 0, "%s", error.message);
    ck_assert_msg(strstr(error.message, row->says) != NULL, "'%s' lacks '%s'",
                  error.message, row->says);
    ck_assert_ptr_null(strchr(error.message, '\n'));
    ck_assert_int_eq(sbx_spec_set(spec, row->name, row->value, NULL), row->result);
    ck_assert_mem_eq(&before, spec, sizeof before);
    ck_assert_str_eq(spec->report_path, "relative/report");
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_unknown)
{
    static const char *const names[] = {"",       "wal",  "walls", "WALL", "--wall",
                                        "wall=5", "help", "pids",  "w"};
    struct sbx_spec *spec = new_spec();
    for (size_t i = 0; i < LENGTH(names); i++) {
        struct sbx_error error = {0};
        ck_assert_int_eq(sbx_spec_set(spec, names[i], "5", &error), -EINVAL);
        char wanted[64];
        (void)snprintf(wanted, sizeof wanted, "unknown option --%s", names[i]);
        ck_assert_str_eq(error.message, wanted);
    }
    sbx_spec_free(spec);
}
END_TEST

/* However long and odd a value is, the message is one line that still says what would
 * have been right. */
START_TEST(test_message_is_bounded)
{
    char value[20000];
    memset(value, '\n', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct sbx_spec *spec = new_spec();
    struct sbx_error error = {0};
    ck_assert_int_eq(sbx_spec_set(spec, "memory", value, &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.message, "\\x0A...' is not a size (accepted: "));
    ck_assert_ptr_nonnull(strstr(error.message, "above 0)"));
    ck_assert_ptr_null(strchr(error.message, '\n'));
    ck_assert_int_eq(sbx_spec_set(spec, value, NULL, &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.message, "\\x0A..."));
    sbx_spec_free(spec);
}
END_TEST

static void expect_directory(int fd, const char *path)
{
    struct stat held;
    struct stat wanted;
    ck_assert_int_eq(fstat(fd, &held), 0);
    ck_assert_int_eq(stat(path, &wanted), 0);
    ck_assert_uint_eq(held.st_ino, wanted.st_ino);
    ck_assert_uint_eq(held.st_dev, wanted.st_dev);
}

START_TEST(test_report_path)
{
    struct sbx_spec *spec = new_spec();
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    set(spec, "report", "r.json");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_str_eq(spec->report_path, "r.json");
    ck_assert_int_gt(spec->report_directory_fd, 2);
    ck_assert_int_eq(fcntl(spec->report_directory_fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(spec->report_directory_fd, F_GETFL) & O_PATH, O_PATH);
    expect_directory(spec->report_directory_fd, sbx_fixture_dir());
    set(spec, "report", "other.json");
    expect_directory(spec->report_directory_fd, "/");
    set(spec, "report", "/abs/r.json");
    ck_assert_str_eq(spec->report_path, "/abs/r.json");
    ck_assert_int_eq(spec->report_directory_fd, -1);
    set(spec, "report", "./-");
    ck_assert_int_gt(spec->report_directory_fd, 2);
    set(spec, "report", "-");
    ck_assert_str_eq(spec->report_path, "-");
    ck_assert_int_eq(spec->report_directory_fd, -1);
    set(spec, "report", "r.json"); /* released by free: the fixture counts */
    sbx_spec_free(spec);
}
END_TEST

/* A closed standard stream: what we hold must not take its place. */
START_TEST(test_report_without_stdin)
{
    int saved = fcntl(0, F_DUPFD_CLOEXEC, 10);
    ck_assert_int_ge(saved, 10);
    ck_assert_int_eq(close(0), 0);
    struct sbx_spec *spec = new_spec();
    set(spec, "report", "r.json");
    ck_assert_int_gt(spec->report_directory_fd, 2);
    ck_assert_int_eq(fcntl(0, F_GETFD), -1);
    sbx_spec_free(spec);
    ck_assert_int_eq(dup2(saved, 0), 0);
    ck_assert_int_eq(close(saved), 0);
}
END_TEST

START_TEST(test_keep_fd)
{
    char text[16];
    struct sbx_error error = {0};
    struct sbx_spec *spec = new_spec();
    int fds[SBX_KEEP_FD_MAX + 1];
    for (size_t i = 0; i < LENGTH(fds); i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fds[i], 3);
        (void)snprintf(text, sizeof text, "%d", fds[i]);
        if (i < SBX_KEEP_FD_MAX) {
            set(spec, "keep-fd", text);
            set(spec, "keep-fd", text); /* once more changes nothing */
            ck_assert_uint_eq(spec->keep_fd_count, i + 1);
            ck_assert_int_eq(spec->keep_fds[i], fds[i]);
        } else {
            ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", text, &error), -ERANGE);
            ck_assert_ptr_nonnull(strstr(error.message, "one too many (accepted: 64)"));
            ck_assert_uint_eq(spec->keep_fd_count, SBX_KEEP_FD_MAX);
        }
    }
    for (size_t i = 0; i < LENGTH(fds); i++) {
        ck_assert_int_eq(close(fds[i]), 0);
    }
    sbx_spec_free(spec);
}
END_TEST

/* The caller's descriptor N was not open, and ours happens to have that number: the
 * command must not get it. */
START_TEST(test_keep_fd_is_not_ours)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "report", "r.json");
    char text[16];
    (void)snprintf(text, sizeof text, "%d", spec->report_directory_fd);
    ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", text, NULL), -EBADF);
    ck_assert_uint_eq(spec->keep_fd_count, 0);
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_chdir)
{
    struct sbx_spec *spec = new_spec();
    char text[16];
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    set(spec, "chdir", "work");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_str_eq(spec->start.directory, "work");
    ck_assert_int_gt(spec->start.directory_fd, 2);
    ck_assert_int_eq(fcntl(spec->start.directory_fd, F_GETFD), FD_CLOEXEC);
    expect_directory(spec->start.directory_fd, sbx_fixture_dir());
    (void)snprintf(text, sizeof text, "%d", spec->start.directory_fd);
    ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", text, NULL), -EBADF);
    set(spec, "chdir", "/abs");
    ck_assert_str_eq(spec->start.directory, "/abs");
    ck_assert_int_eq(spec->start.directory_fd, -1);
    set(spec, "chdir", ".."); /* released by free: the fixture counts */
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_cgroup_root)
{
    struct sbx_spec *spec = new_spec();
    char text[16];
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    set(spec, "cgroup-root", "jobs");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_str_eq(spec->cgroup_root, "jobs");
    ck_assert_int_gt(spec->cgroup_root_directory_fd, 2);
    ck_assert_int_eq(fcntl(spec->cgroup_root_directory_fd, F_GETFD), FD_CLOEXEC);
    expect_directory(spec->cgroup_root_directory_fd, sbx_fixture_dir());
    (void)snprintf(text, sizeof text, "%d", spec->cgroup_root_directory_fd);
    ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", text, NULL), -EBADF);
    set(spec, "cgroup-root", "/jobs");
    ck_assert_str_eq(spec->cgroup_root, "/jobs");
    ck_assert_int_eq(spec->cgroup_root_directory_fd, -1);
    set(spec, "cgroup-root", "a/b"); /* released by free: the fixture counts */
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_start)
{
    struct sbx_spec *spec = new_spec();
    set(spec, "user", "1000:4294967294");
    ck_assert(spec->start.user_asked);
    ck_assert_uint_eq(spec->start.uid, 1000);
    ck_assert_uint_eq(spec->start.gid, 4294967294U);
    set(spec, "user", "0"); /* the one entry that every passwd file has */
    ck_assert_uint_eq(spec->start.uid, 0);
    ck_assert_uint_eq(spec->start.gid, 0);
    set(spec, "cpus", "1,8191");
    ck_assert(spec->start.cpus_asked);
    ck_assert(sbx_cpus_has(&spec->start.cpus, 8191));
    set(spec, "cpus", "0");
    ck_assert(sbx_cpus_has(&spec->start.cpus, 0));
    ck_assert(!sbx_cpus_has(&spec->start.cpus, 1));
    set(spec, "umask", "0777");
    ck_assert(spec->start.umask_asked);
    ck_assert_uint_eq(spec->start.umask, 0777);
    set(spec, "umask", "0");
    ck_assert_uint_eq(spec->start.umask, 0);
    set(spec, "umask", "22");
    ck_assert_uint_eq(spec->start.umask, 022);
    set(spec, "new-session", NULL);
    set(spec, "no-new-privs", NULL);
    ck_assert(spec->start.new_session && spec->start.no_new_privs);
    sbx_spec_free(spec);
}
END_TEST

/* Adds up; and what a wrong file holds is in no message. */
START_TEST(test_env)
{
    static const char wrong[] = "A=1\nB secret\n";
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_error error = {0};
    struct sbx_spec *spec = new_spec();
    FILE *file = fopen(sbx_fixture_path(path, "variables"), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(wrong, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    set(spec, "env", "A=1");
    set(spec, "env", "A");
    set(spec, "env", "B==");
    ck_assert_uint_eq(spec->environment.given.count, 3);
    ck_assert_str_eq(spec->environment.given.items[2], "B==");
    ck_assert_int_eq(sbx_spec_set(spec, "env-from", path, &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.message, "/variables': line 2 is not NAME=VALUE"));
    ck_assert_ptr_null(strstr(error.message, "secret"));
    ck_assert_uint_eq(spec->environment.from_files.count, 0);
    ck_assert_int_eq(truncate(path, 4), 0);
    set(spec, "env-from", path);
    set(spec, "env-from", path);
    ck_assert_uint_eq(spec->environment.from_files.count, 2);
    ck_assert_str_eq(spec->environment.from_files.items[1], "A=1");
    set(spec, "clear-env", NULL);
    ck_assert(spec->environment.clear);
    /* As large as may be, and larger. */
    ck_assert_int_eq(truncate(path, (off_t)SBX_ENVIRONMENT_FILE_MAX + 1), 0);
    ck_assert_int_eq(sbx_spec_set(spec, "env-from", path, NULL), -EFBIG);
    ck_assert_int_eq(truncate(path, (off_t)SBX_ENVIRONMENT_FILE_MAX), 0);
    ck_assert_int_eq(sbx_spec_set(spec, "env-from", path, &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.message, "entry 2 is not NAME=VALUE"));
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_log)
{
    struct sbx_spec *spec = new_spec();
    const struct sbx_log_plan *plan = &spec->log;
    ck_assert_int_eq(chdir(sbx_fixture_dir()), 0);
    set(spec, "log", "file:/abs");
    ck_assert_int_eq(plan->directory_fd, -1);
    set(spec, "log", "file:a");
    ck_assert_int_gt(plan->directory_fd, 2);
    ck_assert_int_eq(fcntl(plan->directory_fd, F_GETFD), FD_CLOEXEC);
    expect_directory(plan->directory_fd, sbx_fixture_dir());
    set(spec, "timeline", "t.csv");
    set(spec, "timeline", "t.jsonl");
    ck_assert_str_eq(plan->timeline_path, "t.jsonl");
    static const char *const more[] = {"stderr",      "syslog",     "journal",
                                       "file:stderr", "file:file:", "file:b"};
    for (size_t i = 0; i < LENGTH(more); i++) {
        set(spec, "log", more[i]);
        set(spec, "log", more[i]); /* the same again is no other one */
        ck_assert_uint_eq(plan->target_count, 3 + i);
    }
    ck_assert_int_eq(plan->targets[2].kind, SBX_LOG_STDERR);
    ck_assert_int_eq(plan->targets[6].kind, SBX_LOG_FILE);
    ck_assert_str_eq(plan->targets[6].path, "file:");
    struct sbx_error error = {0};
    ck_assert_int_eq(sbx_spec_set(spec, "log", "file:c", &error), -ERANGE);
    ck_assert_ptr_nonnull(
        strstr(error.message, "'file:c' is one too many (accepted: 8)"));
    set(spec, "log", "file:a");
    /* Nothing is made before the run. */
    ck_assert_int_eq(access("a", F_OK), -1);
    ck_assert_int_eq(access("t.jsonl", F_OK), -1);
    char text[16];
    (void)snprintf(text, sizeof text, "%d", plan->directory_fd);
    ck_assert_int_eq(sbx_spec_set(spec, "keep-fd", text, NULL), -EBADF);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(sbx_spec_set(spec, "timeline", "t", &error), -EINVAL);
    ck_assert_ptr_nonnull(strstr(error.message, "give an absolute path"));
    set(spec, "timeline", "/t");
    ck_assert_str_eq(plan->timeline_path, "/t");
    sbx_spec_free(spec);
}
END_TEST

START_TEST(test_command)
{
    char word[] = "word";
    const char *const command[] = {"prog", word, "", NULL};
    const char *const empty[] = {NULL};
    struct sbx_error error = {0};
    struct sbx_spec *spec = new_spec();
    ck_assert_int_eq(sbx_spec_set_command(spec, empty, &error), -EINVAL);
    ck_assert_str_eq(error.message, "no command given");
    ck_assert_int_eq(sbx_spec_set_command(spec, NULL, NULL), -EINVAL);
    ck_assert_ptr_null(spec->argv);
    ck_assert_int_eq(sbx_spec_set_command(spec, command, NULL), 0);
    word[0] = 'W';
    ck_assert_str_eq(spec->argv[0], "prog");
    ck_assert_str_eq(spec->argv[1], "word");
    ck_assert_str_eq(spec->argv[2], "");
    ck_assert_ptr_null(spec->argv[3]);
    ck_assert_int_eq(sbx_spec_set_command(spec, empty, NULL), -EINVAL);
    ck_assert_str_eq(spec->argv[0], "prog");
    ck_assert_int_eq(sbx_spec_set_command(spec, command + 1, NULL), 0);
    ck_assert_str_eq(spec->argv[0], "Word");
    sbx_spec_free(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *table = sbx_fixture_case(suite, "table", 20);
    tcase_add_test(table, test_table);
    tcase_add_test(table, test_defaults);
    TCase *good = sbx_fixture_case(suite, "good", 20);
    tcase_add_loop_test(good, test_number, 0, LENGTH(numbers));
    tcase_add_test(good, test_last_one_wins);
    tcase_add_test(good, test_words_and_flags);
    tcase_add_test(good, test_cgroup);
    tcase_add_test(good, test_streams);
    tcase_add_test(good, test_ceilings_add_up);
    TCase *wrong = sbx_fixture_case(suite, "bad", 20);
    tcase_add_loop_test(wrong, test_bad, 0, LENGTH(bad));
    tcase_add_test(wrong, test_unknown);
    tcase_add_test(wrong, test_message_is_bounded);
    TCase *held = sbx_fixture_case(suite, "held", 20);
    tcase_add_test(held, test_report_path);
    tcase_add_test(held, test_report_without_stdin);
    tcase_add_test(held, test_keep_fd);
    tcase_add_test(held, test_keep_fd_is_not_ours);
    tcase_add_test(held, test_chdir);
    tcase_add_test(held, test_cgroup_root);
    tcase_add_test(held, test_env);
    tcase_add_test(good, test_start);
    tcase_add_test(held, test_log);
    tcase_add_test(held, test_command);
    return sbx_fixture_run(suite);
}
