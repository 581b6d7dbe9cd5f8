/*
 * test_request_policy.c - what an operator allows, and what another user may ask of
 * sbxd, run as root and as somebody else; and that a sandbox which a request describes is
 * one, with the variables of the request inside and nowhere else.
 */
#include "tests/fixture.h"
#include "tests/request_kit.h"

#include "monitor/environment.h"
#include "monitor/spec.h"
#include "sandbox/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 60
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WITH(members) "{\"command\":\"a\"," members "}"
#define NOBODY 65534

/* Bits: whose request it is, what the operator wants. */
#define STRANGER 1U
#define FORCED 2U
#define MEMORY 4U /* max-memory 1M */
#define SMALL 8U  /* bounds of one hour, 16K, 100 events */
#define ROOT 16U  /* as root alone */
#define USER 32U  /* as any other alone */

static struct sbx_request_policy policy_of(unsigned bits)
{
    struct sbx_request_policy policy =
        (bits & STRANGER) != 0 ? sbx_request_kit_stranger() : sbx_request_kit_policy();
    policy.force_sandbox = (bits & FORCED) != 0;
    policy.max_memory_bytes = (bits & MEMORY) != 0 ? UINT64_C(1) << 20 : 0;
    if ((bits & SMALL) != 0) {
        policy.max_output_bytes = UINT64_C(16) << 10;
        policy.max_events_count = 100;
        policy.max_retention_us = UINT64_C(3600000000);
    }
    return policy;
}

static bool applies(unsigned bits)
{
    return geteuid() == 0 ? (bits & USER) == 0 : (bits & ROOT) == 0;
}

static const struct {
    unsigned bits;
    const char *json;
    const char *fragment;
} refused[] = {
    {MEMORY, WITH("\"limits\":{\"memory\":1048577}"),
     "limits.memory: 1048577 bytes are more than the operator allows (max-memory: "
     "1048576"},
    {MEMORY, WITH("\"limits\":{\"swap\":1}"), "limits.swap: 1 bytes beside"},
    {MEMORY, WITH("\"limits\":{\"memory\":\"512K\",\"swap\":\"513K\"}"), "limits.swap: "},
    {MEMORY, WITH("\"limits\":{\"memory\":1,\"swap\":9223372036854775807}"),
     "limits.swap: "},
    {MEMORY, WITH("\"sandbox\":{\"tmp_size\":\"2M\"}"),
     "sandbox.tmp_size: 2097152 bytes"},
    {MEMORY, WITH("\"strays\":\"keep\""), "strays: 'keep'"},
    {MEMORY, WITH("\"interval\":\"2s\""), "interval: is more"},
    {SMALL, WITH("\"output_limit\":\"17K\""),
     "output_limit: 17408 is more than the operator allows (max-output: 16384 bytes)"},
    {SMALL, WITH("\"event_limit\":101"), "event_limit: 101 is more"},
    {SMALL, WITH("\"retention\":\"61m\""), "retention: 3660000000 is more"},
    {STRANGER, WITH("\"stdout\":\"/tmp/x\""), "stdout: is not for other users"},
    {STRANGER, WITH("\"stderr\":\"/tmp/x\""), "stderr: is not for other users"},
    {STRANGER, WITH("\"env_from\":\"/no/such\""), "env_from: is not for other users"},
    {STRANGER, WITH("\"cgroup_root\":\"/g\""), "cgroup_root: is not for other users"},
    {STRANGER, WITH("\"env\":{\"HOME\":null}"), "env.HOME: null takes"},
    {STRANGER, WITH("\"sandbox\":{\"as_user\":\"4242:4243\"}"),
     "sandbox.as_user: is not"},
    {STRANGER, WITH("\"strays\":\"keep\""), "strays: 'keep'"},
    {STRANGER | ROOT, WITH("\"user\":\"0:0\""), "user: 0:0 is not who asks, 4242:4243"},
    {STRANGER | ROOT, WITH("\"user\":\"4242:0\""), "user: 4242:0 is not who asks"},
    {STRANGER, WITH("\"user\":\"1:1\""), "user: 1:1 is not who asks"},
    {STRANGER, WITH("\"ceilings\":{\"nofile\":\"unlimited\"}"), "ceilings.nofile: "},
    {STRANGER | FORCED, WITH("\"sandbox\":{\"seccomp\":\"none\"}"), "sandbox.seccomp: "},
    {STRANGER | FORCED, WITH("\"sandbox\":{\"bwrap\":\"/tmp/x\"}"), "sandbox.bwrap: "},
    {STRANGER | FORCED | USER, WITH("\"sandbox\":{\"bind\":\"/x\"}"), "sandbox.bind: "},
    {STRANGER | FORCED | USER, WITH("\"sandbox\":{\"ro_bind\":\"/x\"}"),
     "sandbox.ro_bind: "},
    {STRANGER | FORCED | USER, WITH("\"sandbox\":{\"no_default_masks\":true}"),
     "sandbox.no_default_masks: "},
};

static void try_refused(void)
{
    struct rlimit files;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    ck_assert(files.rlim_max != RLIM_INFINITY);
    for (size_t i = 0; i < LENGTH(refused); i++) {
        const struct sbx_request_policy policy = policy_of(refused[i].bits);
        if (applies(refused[i].bits)) {
            sbx_request_kit_refused(refused[i].json, &policy, EPERM, refused[i].fragment);
        }
    }
}

static const char path_given[] = "Oenv|VPATH=/usr/local/bin:/usr/bin:/bin|";
#define WALL "Owall|V120000000us|"
#define ROOT_DIRECTORY "Ochdir|V/|"
#define MEGABYTE "Omemory|V1048576|"

/* "@" in a line stands for the default PATH. */
static const struct {
    unsigned bits;
    const char *json;
    const char *line;
} allowed[] = {
    {MEMORY, "{\"command\":\"a\"}", WALL MEGABYTE ROOT_DIRECTORY "Aa|E"},
    {MEMORY, WITH("\"limits\":{\"memory\":1048576}"),
     WALL MEGABYTE ROOT_DIRECTORY "Aa|E"},
    {MEMORY, WITH("\"limits\":{\"memory\":\"512K\",\"swap\":\"512K\"}"),
     WALL "Omemory|V524288|Oswap|V524288|" ROOT_DIRECTORY "Aa|E"},
    {MEMORY | STRANGER | USER, WITH("\"strays\":\"wait\""),
     "Ostrays|Vwait|Fclear-env|" WALL MEGABYTE ROOT_DIRECTORY "@Aa|E"},
    {STRANGER | ROOT, "{\"command\":\"a\"}",
     "Fclear-env|Ouser|V4242:4243|" WALL ROOT_DIRECTORY "@Aa|E"},
    {STRANGER | ROOT, WITH("\"user\":\"4242:4243\",\"clear_env\":false"),
     "Fclear-env|Ouser|V4242:4243|" WALL ROOT_DIRECTORY "@Aa|E"},
    {STRANGER | USER, "{\"command\":\"a\"}", "Fclear-env|" WALL ROOT_DIRECTORY "@Aa|E"},
    {STRANGER | USER, WITH("\"env\":{\"PATH\":\"/x\"},\"ceilings\":{\"nofile\":8}"),
     "Fclear-env|" WALL "Orlimit|Vnofile=8|" ROOT_DIRECTORY "@Oenv|VPATH=/x|Aa|E"},
    {STRANGER | USER, WITH("\"sandbox\":{\"seccomp\":\"none\",\"bwrap\":\"/b\"}"),
     "Fclear-env|" WALL ROOT_DIRECTORY "@A" SBX_TEST_SANDBOX_PROGRAM
     "|A--seccomp=none|A--bwrap=/b|A--|Aa|E"},
    {FORCED, WITH("\"sandbox\":{\"seccomp\":\"none\",\"bind\":\"/x\",\"bwrap\":\"/b\"}"),
     WALL ROOT_DIRECTORY "A" SBX_TEST_SANDBOX_PROGRAM
                         "|A--bind=/x|A--seccomp=none|A--bwrap=/b|A--|Aa|E"},
};

static void expand(const char *line, char *buffer, size_t size)
{
    const char *mark = strchr(line, '@');
    int before = mark != NULL ? (int)(mark - line) : (int)strlen(line);
    (void)snprintf(buffer, size, "%.*s%s%s", before, line, mark != NULL ? path_given : "",
                   mark != NULL ? mark + 1 : "");
}

static void try_allowed(void)
{
    for (size_t i = 0; i < LENGTH(allowed); i++) {
        const struct sbx_request_policy policy = policy_of(allowed[i].bits);
        char expected[1024];
        if (!applies(allowed[i].bits)) {
            continue;
        }
        expand(allowed[i].line, expected, sizeof expected);
        struct sbx_request *request = sbx_request_kit_parse(allowed[i].json, &policy);
        char *line = sbx_request_kit_line(request);
        ck_assert_str_eq(line, expected);
        ck_assert_uint_eq(request->facts.uid, policy.uid);
        free(line);
        sbx_request_free(request);
    }
}

static void try_bounds(void)
{
    const struct sbx_request_policy policy = policy_of(SMALL);
    struct sbx_request *request = sbx_request_kit_parse("{\"command\":\"a\"}", &policy);
    ck_assert_uint_eq(request->facts.output_limit_bytes, 16384);
    ck_assert_uint_eq(request->facts.event_limit_count, 100);
    ck_assert_uint_eq(request->facts.retention_us, 900000000);
    sbx_request_free(request);
}

/* What is filled in is as good as what is written down. */
static void try_same(void)
{
    const struct sbx_request_policy policy = policy_of(STRANGER | FORCED | MEMORY);
    ck_assert(sbx_request_kit_same("{\"command\":\"a\"}",
                                   WITH("\"sandbox\":{},\"clear_env\":true,"
                                        "\"limits\":{\"memory\":\"1M\"}"),
                                   &policy));
    if (geteuid() == 0) {
        ck_assert(sbx_request_kit_same("{\"command\":\"a\"}",
                                       WITH("\"user\":\"4242:4243\""), &policy));
    }
}

/* A forced sandbox is one, whatever the request is. */
static void try_forced(void)
{
    static const char *const requests[] = {"{\"command\":\"a\"}",
                                           WITH("\"launcher\":[\"/bin/evil\"]"),
                                           WITH("\"sandbox\":{\"proc\":true}")};
    for (size_t i = 0; i < LENGTH(requests); i++) {
        const struct sbx_request_policy policy = policy_of(STRANGER | FORCED);
        struct sbx_request *request = sbx_request_kit_parse(requests[i], &policy);
        char **argv = request->spec->argv;
        ck_assert_str_eq(argv[0], SBX_TEST_SANDBOX_PROGRAM);
        size_t at = 1;
        while (strncmp(argv[at], "--", 2) == 0 && argv[at][2] != '\0') {
            ck_assert_ptr_null(strstr(argv[at], "seccomp"));
            at++;
        }
        ck_assert_str_eq(argv[at], "--");
        sbx_request_free(request);
    }
}

static void (*const tries[])(void) = {try_refused, try_allowed, try_bounds, try_same,
                                      try_forced};

START_TEST(test_policy)
{
    for (size_t i = 0; i < LENGTH(tries); i++) {
        tries[i]();
    }
}
END_TEST

START_TEST(test_policy_as_another_user)
{
    if (geteuid() == 0) {
        ck_assert_int_eq(seteuid(NOBODY), 0);
        for (size_t i = 0; i < LENGTH(tries); i++) {
            tries[i]();
        }
        ck_assert_int_eq(seteuid(0), 0);
    }
}
END_TEST

/* --- the sandbox, really --- */

/* Executes the command line of a request with its environment and nothing else, as the
 * monitor does, and returns how that has ended; what it writes is in `output`. */
static int execute(const struct sbx_request *request, char *output, size_t size)
{
    static const char *const nothing[] = {"PATH=/nonexistent", NULL};
    const char **environment = NULL;
    int pipe_fds[2];
    int status = -1;
    size_t used = 0;
    ck_assert_int_eq(
        sbx_environment_make(&request->spec->environment, nothing, NULL, &environment),
        0);
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(pipe_fds[1], STDOUT_FILENO);
        if (chdir(request->spec->start.directory) == 0) {
            (void)execve(request->spec->argv[0], request->spec->argv,
                         (char *const *)(uintptr_t)environment);
        }
        _exit(99);
    }
    (void)close(pipe_fds[1]);
    ssize_t length;
    while ((length = read(pipe_fds[0], output + used, size - 1 - used)) > 0) {
        used += (size_t)length;
    }
    output[used] = '\0';
    (void)close(pipe_fds[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    free(environment);
    return status;
}

START_TEST(test_sandbox_runs)
{
    static const struct {
        const char *members;
        const char *seen; /* of PATH inside */
    } rows[] = {
        {"\"clear_env\":true,\"env\":{\"TOKEN\":\"to ken\"}", "PATH=/usr/"},
        {"\"env\":{\"TOKEN\":\"to ken\",\"PATH\":\"/bin:/x y\"}", "PATH=/bin:/x y\n"},
    };
    char path[PATH_MAX];
    struct stat found;
    if (!sbx_find_bwrap(path, &found)) {
        (void)fputs("skipped: bubblewrap is not installed\n", stderr);
        return;
    }
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char json[512];
        char output[4096];
        (void)snprintf(json, sizeof json,
                       "{\"command\":\"/usr/bin/env\",\"cwd\":\"%s\",\"sandbox\":"
                       "{\"bind\":\"%s\",\"ceilings\":{\"nofile\":64}},%s}",
                       sbx_fixture_dir(), sbx_fixture_dir(), rows[i].members);
        struct sbx_request_policy policy = sbx_request_kit_policy();
        policy.sandbox_program = SBX_TEST_RUN;
        struct sbx_request *request = sbx_request_kit_parse(json, &policy);
        for (size_t j = 0; request->spec->argv[j] != NULL; j++) {
            ck_assert_ptr_null(strstr(request->spec->argv[j], "to ken"));
        }
        int status = execute(request, output, sizeof output);
        ck_assert_msg(status == 0, "status %d: %s", status, output);
        ck_assert_msg(strstr(output, "TOKEN=to ken\n") != NULL, "%s", output);
        ck_assert_msg(strstr(output, rows[i].seen) != NULL, "%s", output);
        sbx_request_free(request);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request_policy");
    TCase *policy = sbx_fixture_case(suite, "policy", CASE_SECONDS);
    tcase_add_test(policy, test_policy);
    tcase_add_test(policy, test_policy_as_another_user);
    tcase_add_test(policy, test_sandbox_runs);
    return sbx_fixture_run(suite);
}
