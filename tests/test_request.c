/*
 * test_request.c - requests: what comes of a good one, how a bad one is refused, and
 * which are the same. Tables of JSON; the specification is compared as it travels to the
 * keeper.
 */
#include "supervisor/request_private.h"
#include "tests/fixture.h"
#include "tests/request_kit.h"

#include "monitor/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CASE_SECONDS 60
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Of every request that does not say otherwise. */
#define WALL "Owall|V120000000us|"
#define ROOT "Ochdir|V/|"
#define INSIDE "A" SBX_TEST_SANDBOX_PROGRAM "|"

/* --- what comes of it --- */

static const struct {
    const char *json;
    const char *line;
} good[] = {
    {"{\"command\": \"a\"}", WALL ROOT "Aa|E"},
    {" {\"args\":[\"\",\"-x\",\"\\u00e9 \\n\"],\"command\":\"a b\"}\r\n",
     WALL ROOT "Aa b|A|A-x|A\u00e9 \n|E"},
    {"{\"command\":\"a\",\"launcher\":[\"nice\",\"-n\",\"5\"],\"args\":[\"b\"]}",
     WALL ROOT "Anice|A-n|A5|Aa|Ab|E"},
    {"{\"command\":\"a\",\"cwd\":\"/tmp\"}", WALL "Ochdir|V/tmp|Aa|E"},
    /* limits */
    {"{\"command\":\"a\",\"limits\":{\"wall\":\"6s\",\"cpu\":0.5,\"memory\":\"1G\","
     "\"processes\":10,\"threads\":\"20\",\"output\":\"1KB\",\"idle\":\"1.5m\","
     "\"swap\":1024,\"cpu_quota\":50,\"warn\":80}}",
     "Owall|V6000000us|Ocpu|V500000us|Omemory|V1073741824|Oprocesses|V10|Othreads|V20|"
     "Owarn|V80|Ooutput|V1000|Oidle|V90000000us|Oswap|V1024|Ocpu-quota|V50|" ROOT "Aa|E"},
    {"{\"command\":\"a\",\"limits\":{\"wall\":null}}", ROOT "Aa|E"},
    {"{\"command\":\"a\",\"limits\":{}}", WALL ROOT "Aa|E"},
    /* options at the top */
    {"{\"command\":\"a\",\"output_keep\":\"1M\",\"signal\":\"int\",\"grace\":0,"
     "\"linger\":\"1s\",\"strays\":\"wait\",\"backend\":\"cgroup2\",\"interval\":"
     "\"10ms\","
     "\"require\":[\"complete\",\"pid-namespace\"],\"pid_namespace\":true,"
     "\"new_session\":true,\"no_new_privs\":true,\"clear_env\":true,\"umask\":\"027\","
     "\"stdout\":\"/o\",\"stderr\":\"/e\",\"cgroup_root\":\"/g\"}",
     "Ooutput-keep|V1048576|Osignal|VSIGINT|Ograce|V0us|Olinger|V1000000us|Ostrays|Vwait|"
     "Obackend|Vcgroup2|Orequire|Vcomplete|Orequire|Vpid-namespace|Ointerval|V10000us|"
     "Ocgroup-root|V/g|Fpid-namespace|Fclear-env|Oumask|V27|Fnew-session|Fno-new-privs|"
     "Ostdout|V/o|Ostderr|V/e|" WALL ROOT "Aa|E"},
    {"{\"command\":\"a\",\"require\":\"complete\",\"signal\":15,\"new_session\":false}",
     "Osignal|VSIGTERM|Orequire|Vcomplete|" WALL ROOT "Aa|E"},
    {"{\"command\":\"a\",\"cpus\":\"0\",\"signal\":\"RTMIN+2\"}",
     "Osignal|VSIGRTMIN+2|Ocpus|V0|" WALL ROOT "Aa|E"},
    {"{\"command\":\"a\",\"ceilings\":{\"nofile\":64,\"cpu\":\"1:2\",\"as\":\"1G\","
     "\"core\":0,\"stack\":\"unlimited\",\"rttime\":1.5}}",
     WALL "Orlimit|Vas=1G|Orlimit|Vcore=0|Orlimit|Vcpu=1:2|Orlimit|Vnofile=64|"
          "Orlimit|Vrttime=1.5|Orlimit|Vstack=unlimited|" ROOT "Aa|E"},
    /* variables */
    {"{\"command\":\"a\",\"env\":{\"B\":\"x=y\",\"A\":\"\",\"HOME\":null,\"a.b\":\"c\"}}",
     WALL ROOT "Oenv|VA=|Oenv|VB=x=y|Oenv|VHOME|Oenv|Va.b=c|Aa|E"},
    /* a sandbox */
    {"{\"command\":\"a\",\"args\":[\"--\",\"b\"],\"launcher\":[\"nice\"],\"cwd\":\"/w\","
     "\"env\":{\"TOKEN\":\"secret\",\"PATH\":\"/x\"},"
     "\"sandbox\":{\"bind\":[\"/w\",\"/a:/b\"],\"ro_bind\":\"/r\",\"mask\":[\"/w/m\"],"
     "\"no_default_masks\":true,\"network\":\"none\",\"self_exe\":\"/w/x\","
     "\"strict_stdin\":true,\"tmp_size\":\"2M\",\"seccomp\":\"none\",\"bwrap\":\"/bw\","
     "\"proc\":false,\"ceilings\":{\"nofile\":64,\"cpu\":\"5s\"}}}",
     WALL ROOT "Oenv|VPATH=/x|Oenv|VTOKEN=secret|" INSIDE
               "A--bind=/w|A--bind=/a:/b|A--ro-bind=/r|A--mask=/w/m|A--no-default-masks|"
               "A--network=none|A--self-exe=/w/x|A--strict-stdin|A--tmp-size=2097152|"
               "A--seccomp=none|A--bwrap=/bw|A--rlimit=cpu=5s|A--rlimit=nofile=64|"
               "A--chdir=/w|A--env=PATH|A--env=TOKEN|A--|Anice|Aa|A--|Ab|E"},
    {"{\"command\":\"a\",\"clear_env\":true,\"sandbox\":{\"proc\":true,\"bwrap\":\"/b\","
     "\"as_user\":\"7:8\"}}",
     "Fclear-env|" WALL ROOT INSIDE "A--proc|A--as-user=7:8|A--bwrap=/b|A--|Aa|E"},
};

START_TEST(test_good)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(good); i++) {
        struct sbx_request *request = sbx_request_kit_parse(good[i].json, &policy);
        char *line = sbx_request_kit_line(request);
        ck_assert_str_eq(line, good[i].line);
        free(line);
        sbx_request_free(request);
    }
}
END_TEST

/* Whoever has PATH in the environment of sbx-run does not choose bubblewrap by it. */
START_TEST(test_bwrap_is_named)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    const char *json = "{\"command\":\"a\",\"sandbox\":{},\"env\":{\"PATH\":\"/evil\"}}";
    struct sbx_request *request = sbx_request_kit_parse(json, &policy);
    const char *const *argv = (const char *const *)request->spec->argv;
    ck_assert_str_eq(argv[0], SBX_TEST_SANDBOX_PROGRAM);
    ck_assert_int_eq(strncmp(argv[1], "--bwrap=/", strlen("--bwrap=/")), 0);
    ck_assert_ptr_null(strstr(argv[1], "evil"));
    ck_assert_str_eq(argv[2], "--env=PATH");
    sbx_request_free(request);
}
END_TEST

START_TEST(test_variables_from_a_file)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    char path[SBX_FIXTURE_PATH_SIZE];
    char json[2 * SBX_FIXTURE_PATH_SIZE];
    static const char text[] = "A=1\n# remark\nB=2\n";
    int fd =
        open(sbx_fixture_path(path, "variables"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    (void)close(fd);
    (void)snprintf(json, sizeof json,
                   "{\"command\":\"a\",\"env_from\":\"%s\",\"env\":{\"A\":\"3\"},"
                   "\"sandbox\":{\"bwrap\":\"/b\"}}",
                   path);
    struct sbx_request *request = sbx_request_kit_parse(json, &policy);
    char *line = sbx_request_kit_line(request);
    ck_assert_str_eq(line, "Oenv|VA=1|Oenv|VB=2|" WALL ROOT "Oenv|VA=3|" INSIDE
                           "A--bwrap=/b|A--env=A|A--env=B|A--env=A|A--|Aa|E");
    free(line);
    sbx_request_free(request);

    /* A pipe would hold up the service. */
    ck_assert_int_eq(mkfifo(sbx_fixture_path(path, "pipe"), 0600), 0);
    (void)snprintf(json, sizeof json, "{\"command\":\"a\",\"env_from\":[\"%s\"]}", path);
    sbx_request_kit_refused(json, &policy, EINVAL, "env_from: ");
    (void)snprintf(json, sizeof json, "{\"command\":\"a\",\"env_from\":[\"%s/no\"]}",
                   path);
    sbx_request_kit_refused(json, &policy, EINVAL, "env_from: ");
}
END_TEST

START_TEST(test_facts)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    struct sbx_request *request = sbx_request_kit_parse("{\"command\":\"a\"}", &policy);
    ck_assert_str_eq(request->facts.id, "");
    ck_assert_uint_eq(request->facts.retention_us, 900000000);
    ck_assert_uint_eq(request->facts.output_limit_bytes, 65536);
    ck_assert_uint_eq(request->facts.event_limit_count, 512);
    ck_assert_uint_eq(request->facts.uid, geteuid());
    ck_assert(!request->facts.pause_when_full);
    sbx_request_free(request);
    request = sbx_request_kit_parse(
        "{\"command\":\"a\",\"id\":\"Job-1:x.y_z\",\"retention\":\"1h\","
        "\"output_limit\":\"1M\",\"event_limit\":8,\"when_full\":\"pause\"}",
        &policy);
    ck_assert_str_eq(request->facts.id, "Job-1:x.y_z");
    ck_assert_uint_eq(request->facts.retention_us, 3600000000);
    ck_assert_uint_eq(request->facts.output_limit_bytes, 1048576);
    ck_assert_uint_eq(request->facts.event_limit_count, 8);
    ck_assert(request->facts.pause_when_full);
    sbx_request_free(request);
}
END_TEST

START_TEST(test_stdin)
{
    static const struct {
        const char *value;
        enum sbx_request_stdin kind;
        const char *data;
        size_t length;
    } rows[] = {
        {"\"null\"", SBX_REQUEST_STDIN_NULL, NULL, 0},
        {"\"open\"", SBX_REQUEST_STDIN_OPEN, NULL, 0},
        {"{\"data\":\"\"}", SBX_REQUEST_STDIN_DATA, "", 0},
        {"{\"data\":\"a\\n\\u00e9\"}", SBX_REQUEST_STDIN_DATA, "a\n\xC3\xA9", 4},
        {"{\"data_base64\":\"\"}", SBX_REQUEST_STDIN_DATA, "", 0},
        {"{\"data_base64\":\"AA==\"}", SBX_REQUEST_STDIN_DATA, "\0", 1},
        {"{\"data_base64\":\"AAE=\"}", SBX_REQUEST_STDIN_DATA, "\0\1", 2},
        {"{\"data_base64\":\"+/+/\"}", SBX_REQUEST_STDIN_DATA, "\xFB\xFF\xBF", 3},
        {"{\"data_base64\":\"+/+/QUI=\"}", SBX_REQUEST_STDIN_DATA,
         "\xFB\xFF\xBF"
         "AB",
         5},
    };
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char json[128];
        (void)snprintf(json, sizeof json, "{\"command\":\"a\",\"stdin\":%s}",
                       rows[i].value);
        struct sbx_request *request = sbx_request_kit_parse(json, &policy);
        ck_assert_int_eq(request->stdin_kind, rows[i].kind);
        ck_assert_uint_eq(request->stdin_length, rows[i].length);
        ck_assert_int_eq(request->stdin_data != NULL, rows[i].data != NULL);
        if (rows[i].length > 0) {
            ck_assert_mem_eq(request->stdin_data, rows[i].data, rows[i].length);
        }
        sbx_request_free(request);
    }
}
END_TEST

/* --- numbers --- */

START_TEST(test_numbers)
{
    static const struct {
        const char *wall;
        uint64_t wall_us;
    } rows[] = {
        {"6", 6000000},
        {"6.0", 6000000},
        {"0.1", 100000},
        {"0.3", 300000},
        {"1e2", 100000000},
        {"1.5e-3", 1500},
        {"0.000001", 1},
        {"1e-6", 1},
        {"123456.789012", 123456789012},
        {"1000000.1", 1000000100000},
        {"9007199254740991", 0}, /* refused */
        {"\"1.5h\"", 5400000000},
        {"9223372036854", UINT64_C(9223372036854000000)},
    };
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char json[128];
        (void)snprintf(json, sizeof json, "{\"command\":\"a\",\"limits\":{\"wall\":%s}}",
                       rows[i].wall);
        if (rows[i].wall_us == 0) {
            sbx_request_kit_refused(json, &policy, EINVAL, "limits.wall: ");
            continue;
        }
        struct sbx_request *request = sbx_request_kit_parse(json, &policy);
        ck_assert_msg(request->spec->limits.wall_us == rows[i].wall_us, "%s: %llu", json,
                      (unsigned long long)request->spec->limits.wall_us);
        sbx_request_free(request);
    }
}
END_TEST

/* --- what is refused --- */

/* The message begins with this; a request that needs no more than a command is written as
 * what follows it. */
#define WITH(members) "{\"command\":\"a\"," members "}"

static const struct {
    const char *json;
    const char *fragment;
} bad[] = {
    {"", "request: not JSON"},
    {"{", "request: not JSON"},
    {"nonsense", "request: not JSON"},
    {"[]", "request: is an array"},
    {"3", "request: not JSON"},
    {"{\"command\":\"a\"}x", "request: not JSON"},
    {"{\"command\":\"a\"}{}", "request: not JSON"},
    {"{\"command\":\"a\",}", "request: not JSON"},
    {"{'command':'a'}", "request: not JSON"},
    {"\xEF\xBB\xBF{\"command\":\"a\"}", "request: not JSON"},
    {"{\"command\":\"a\",\"command\":\"b\"}", "duplicate object key"},
    {"{\"command\":\"\xFF\"}", "request: not JSON"},
    {"{\"command\":\"\xC0\x80\"}", "request: not JSON"},
    {"{\"command\":\"\\ud800\"}", "request: not JSON"},
    {"{\"command\":\"a\\u0000b\"}", "request: not JSON"},
    {"{\"comm\\u0000and\":\"a\"}", "request: not JSON"},
    {WITH("\"args\":[\"\\u0000\"]"), "request: not JSON"},
    {WITH("\"grace\":1e999"), "request: not JSON"},
    {WITH("\"grace\":99999999999999999999"), "request: not JSON"},
    {WITH("\"grace\":NaN"), "request: not JSON"},
    {WITH("\"grace\":01"), "request: not JSON"},
    {WITH("\"env\":{\"TOKEN\":\"secret\" \"x\":1}"), "request: not JSON"},
    /* keys */
    {"{}", "command: is missing"},
    {"{\"command\":\"\"}", "command: is empty"},
    {"{\"command\":[\"a\"]}", "command: is an array"},
    {"{\"command\":null}", "command: is null"},
    {WITH("\"argv\":[]"), "argv: unknown key"},
    {WITH("\"\":1"), ": unknown key"},
    {WITH("\"Command\":1"), "Command: unknown key"},
    {WITH("\"clear-env\":true"), "clear-env: unknown key"},
    {WITH("\"wall\":1"), "wall: unknown key (it is one of limits)"},
    {WITH("\"network\":\"none\""), "network: unknown key (it is one of sandbox)"},
    {WITH("\"limits\":{\"grace\":1}"), "limits.grace: unknown key (it is one at the top"},
    {WITH("\"limits\":{\"wal\":1}"), "limits.wal: unknown key"},
    {WITH("\"sandbox\":{\"binds\":1}"), "sandbox.binds: unknown key"},
    {WITH("\"ceilings\":{\"files\":1}"), "ceilings.files: unknown key"},
    {WITH("\"sandbox\":{\"ceilings\":{\"x\":1}}"), "sandbox.ceilings.x: unknown key"},
    {WITH("\"a\\nb\":1"), "a\\x0Ab: unknown key"},
    {WITH("\"report\":\"/x\""), "report: unknown key"},
    {WITH("\"report_fd\":1"), "report_fd: unknown key"},
    {WITH("\"log\":\"stderr\""), "log: unknown key"},
    {WITH("\"timeline\":\"/x\""), "timeline: unknown key"},
    {WITH("\"keep_fd\":3"), "keep_fd: unknown key"},
    {WITH("\"detach\":true"), "detach: unknown key"},
    {WITH("\"die_with_parent\":true"), "die_with_parent: unknown key"},
    {WITH("\"pid\":1"), "pid: unknown key"},
    {WITH("\"cgroup\":\"/\""), "cgroup: unknown key"},
    {WITH("\"chdir\":\"/\""), "chdir: unknown key"},
    {WITH("\"rlimit\":\"core=0\""), "rlimit: unknown key"},
    {WITH("\"sandbox\":{\"chdir\":\"/\"}"), "sandbox.chdir: unknown key"},
    {WITH("\"sandbox\":{\"env\":[]}"), "sandbox.env: unknown key"},
    {WITH("\"sandbox\":{\"env_from\":[]}"), "sandbox.env_from: unknown key"},
    {WITH("\"sandbox\":{\"rlimit\":[]}"), "sandbox.rlimit: unknown key"},
    /* types */
    {WITH("\"args\":\"b\""), "args: is a string"},
    {WITH("\"args\":[\"b\",1]"), "args: its entry 1 is a number"},
    {WITH("\"launcher\":[\"\"]"), "launcher: begins with an empty"},
    {WITH("\"launcher\":{}"), "launcher: is an object"},
    {WITH("\"limits\":[]"), "limits: is an array"},
    {WITH("\"limits\":null"), "limits: is null"},
    {WITH("\"ceilings\":1"), "ceilings: is a number"},
    {WITH("\"sandbox\":true"), "sandbox: is a boolean"},
    {WITH("\"sandbox\":null"), "sandbox: is null"},
    {WITH("\"sandbox\":{\"ceilings\":[]}"), "sandbox.ceilings: is an array"},
    {WITH("\"env\":[]"), "env: is an array"},
    {WITH("\"env\":{\"A\":1}"), "env.A: is a number"},
    {WITH("\"grace\":true"), "grace: is a boolean"},
    {WITH("\"grace\":false"), "grace: is a boolean"},
    {WITH("\"grace\":null"), "grace: is null"},
    {WITH("\"grace\":[1]"), "grace: is an array"},
    {WITH("\"umask\":18"), "umask: is a number"},
    {WITH("\"pid_namespace\":1"), "pid_namespace: is a number"},
    {WITH("\"pid_namespace\":\"true\""), "pid_namespace: is a string"},
    {WITH("\"pid_namespace\":null"), "pid_namespace: is null"},
    {WITH("\"require\":[[\"complete\"]]"), "require: is an array"},
    {WITH("\"id\":1"), "id: is a number"},
    {WITH("\"limits\":{\"cpu\":null}"), "limits.cpu: is null"},
    {WITH("\"sandbox\":{\"bind\":[1]}"), "sandbox.bind: is a number"},
    /* values */
    {WITH("\"limits\":{\"wall\":0}"), "limits.wall: '0' is out of range"},
    {WITH("\"limits\":{\"wall\":0.0}"), "limits.wall: '0' is out of range"},
    {WITH("\"limits\":{\"wall\":-0.0}"), "limits.wall: '0' is out of range"},
    {WITH("\"limits\":{\"wall\":-1}"), "limits.wall: '-1' is not a duration"},
    {WITH("\"limits\":{\"wall\":-1.5}"), "limits.wall: is out of range"},
    {WITH("\"limits\":{\"wall\":1e300}"), "limits.wall: is out of range"},
    {WITH("\"limits\":{\"wall\":1e-7}"), "limits.wall: '0.0000001' is not"},
    {WITH("\"limits\":{\"wall\":5e-324}"), "limits.wall: '0.000"},
    {WITH("\"limits\":{\"wall\":0.30000000000000004}"), "limits.wall: '0.3000"},
    {WITH("\"limits\":{\"wall\":9223372036854775807}"),
     "limits.wall: '9223372036854775807'"},
    {WITH("\"limits\":{\"wall\":\"6 s\"}"), "limits.wall: '6 s' is not a duration"},
    {WITH("\"limits\":{\"wall\":\"\"}"), "limits.wall: '' is not a duration"},
    {WITH("\"limits\":{\"memory\":1.5}"), "limits.memory: '1.5' is not a size"},
    {WITH("\"limits\":{\"processes\":1.5}"), "limits.processes: '1.5' is not"},
    {WITH("\"limits\":{\"processes\":0}"), "limits.processes: '0' is out of range"},
    {WITH("\"limits\":{\"swap\":1}"), "limits.swap: needs"},
    {WITH("\"limits\":{\"cpu_quota\":10},\"backend\":\"proc\""),
     "limits.cpu_quota: needs a cgroup"},
    {WITH("\"require\":\"pid-namespace\""), "require: 'pid-namespace'"},
    {WITH("\"strays\":\"eat\""), "strays: 'eat' is unknown"},
    {WITH("\"signal\":\"STOP\""), "signal: 'STOP' would stop"},
    {WITH("\"signal\":0"), "signal: '0' is not a signal"},
    {WITH("\"umask\":\"0888\""), "umask: '0888' is not a mode"},
    {WITH("\"user\":\"root\""), "user: 'root' is not a user"},
    {WITH("\"interval\":\"1us\""), "interval: '1us' is out of range"},
    {WITH("\"ceilings\":{\"nofile\":-1}"), "ceilings.nofile: "},
    {WITH("\"ceilings\":{\"nofile\":\"2:1\"}"), "ceilings.nofile: "},
    {WITH("\"ceilings\":{\"nofile\":null}"), "ceilings.nofile: is null"},
    {WITH("\"ceilings\":{\"nofile\":1.5}"), "ceilings.nofile: "},
    {WITH("\"sandbox\":{\"ceilings\":{\"nofile\":\"1:2\"}}"),
     "sandbox.ceilings.nofile: "},
    {WITH("\"id\":\"\""), "id: '' is no id"},
    {WITH("\"id\":\"../x\""), "id: '../x' is no id"},
    {WITH("\"id\":\".x\""), "id: '.x' is no id"},
    {WITH("\"retention\":0"), "retention: '0' is out of range"},
    {WITH("\"output_limit\":1023"), "output_limit: '1023' is out of range"},
    {WITH("\"event_limit\":7"), "event_limit: '7' is out of range"},
    {WITH("\"when_full\":\"wait\""), "when_full: 'wait' is unknown"},
    {WITH("\"when_full\":true"), "when_full: is a boolean"},
    {WITH("\"env\":{\"\":\"x\"}"), "env.: is no name"},
    {WITH("\"env\":{\"A=B\":\"x\"}"), "env.A=B: is no name"},
    {WITH("\"sandbox\":{},\"env\":{\"a-b\":\"secret\"}"), "env.a-b: 'a-b' is not a name"},
    {WITH("\"sandbox\":{},\"env\":{\"LD_PRELOAD\":\"x\"}"), "env.LD_PRELOAD: would act"},
    {WITH("\"sandbox\":{},\"env\":{\"SBX_INNER\":\"x\"}"), "env.SBX_INNER: would act"},
    {WITH("\"sandbox\":{},\"env\":{\"GLIBC_TUNABLES\":null}"), "env.GLIBC_TUNABLES: "},
    /* paths */
    {WITH("\"cwd\":\"work\""), "cwd: 'work' is no absolute path"},
    {WITH("\"cwd\":\"\""), "cwd: '' is no absolute path"},
    {WITH("\"stdout\":\"o\""), "stdout: 'o' is no absolute path"},
    {WITH("\"env_from\":\"e\""), "env_from: 'e' is no absolute path"},
    {WITH("\"cgroup_root\":\"g\""), "cgroup_root: 'g' is no absolute path"},
    {WITH("\"sandbox\":{\"bind\":[\"/a\",\"b\"]}"), "sandbox.bind: 'b' is no absolute"},
    {WITH("\"sandbox\":{\"ro_bind\":[\"b:/x\"]}"),
     "sandbox.ro_bind: 'b:/x' is no absolute"},
    {WITH("\"sandbox\":{\"bind\":\"/a:/b:rw\"}"), "sandbox.bind: '/a:/b:rw' has a mode"},
    {WITH("\"sandbox\":{\"mask\":\"m\"}"), "sandbox.mask: 'm' is no absolute path"},
    {WITH("\"sandbox\":{\"self_exe\":\"m\"}"), "sandbox.self_exe: 'm' is no absolute"},
    {WITH("\"sandbox\":{\"bwrap\":\"bwrap\"}"), "sandbox.bwrap: 'bwrap' is no absolute"},
    {WITH("\"sandbox\":{\"network\":\"some\"}"), "sandbox.network: 'some' is unknown"},
    {WITH("\"sandbox\":{\"tmp_size\":1}"), "sandbox.tmp_size: '1' is out of range"},
    {WITH("\"sandbox\":{\"seccomp\":\"5\"}"), "sandbox.seccomp: is no filter"},
    {WITH("\"sandbox\":{\"seccomp\":5}"), "sandbox.seccomp: is a number"},
    /* stdin */
    {WITH("\"stdin\":null"), "stdin: is something else"},
    {WITH("\"stdin\":\"inherit\""), "stdin: is something else"},
    {WITH("\"stdin\":\"/dev/null\""), "stdin: is something else"},
    {WITH("\"stdin\":{}"), "stdin: is an object of something else"},
    {WITH("\"stdin\":{\"data\":\"\",\"data_base64\":\"\"}"), "stdin: is an object of"},
    {WITH("\"stdin\":{\"text\":\"\"}"), "stdin: is an object of something else"},
    {WITH("\"stdin\":{\"data\":1}"), "stdin.data: is a number"},
    {WITH("\"stdin\":{\"data_base64\":null}"), "stdin.data_base64: is null"},
    {WITH("\"stdin\":{\"data_base64\":\"A\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"AA\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"AB==\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"AAB=\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"A===\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"====\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"A=A=\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"AA==AAAA\"}"), "stdin.data_base64: is not"},
    {WITH("\"stdin\":{\"data_base64\":\"AA-_\"}"), "stdin.data_base64: is not base64"},
    {WITH("\"stdin\":{\"data_base64\":\"AAA\\n\"}"), "stdin.data_base64: is not base64"},
};

START_TEST(test_bad)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(bad); i++) {
        sbx_request_kit_refused(bad[i].json, &policy, EINVAL, bad[i].fragment);
    }
}
END_TEST

/* --- hostile texts --- */

static char *repeat(const char *head, const char *piece, size_t count, const char *tail)
{
    size_t size = strlen(head) + strlen(piece) * count + strlen(tail) + 1;
    char *text = malloc(size);
    ck_assert_ptr_nonnull(text);
    char *at = stpcpy(text, head);
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, piece);
    }
    (void)strcpy(at, tail);
    return text;
}

START_TEST(test_hostile)
{
    static const struct {
        const char *head;
        const char *piece;
        size_t count;
        const char *tail;
        const char *fragment;
    } rows[] = {
        {"", "[", 100000, "", "request: too many values"},
        {"", "[", 60000, "", "request: not JSON"},
        {"", "{\"a\":", 60000, "1", "request: not JSON"},
        {"{\"command\":\"a\",\"args\":[\"\"", ",\"\"", 70000, "]}",
         "request: too many values"},
        {"{\"command\":\"a\",\"x\":\"", "y", 9 << 20, "\"}", "request: "},
        {"{\"command\":\"a\",\"", "k", 1 << 20, "\":1}", "unknown key"},
        {"{\"command\":\"a\",\"limits\":{\"wall\":\"", "9", 1 << 20, "\"}}",
         "limits.wall: '9999"},
        {"{\"command\":\"a\",\"limits\":{\"wall\":", "9", 1 << 16, "}}",
         "request: not JSON"},
        {"{\"command\":\"a\",\"id\":\"", "x", 129, "\"}", "id: 'xxxx"},
        {"{\"command\":\"a\",\"ceilings\":{\"", "x", 1 << 16, "\":1}}", "ceilings.xxx"},
        {"{\"command\":\"a\",\"env\":{\"", "=", 1 << 16, "\":\"\"}}", "env.==="},
    };
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(rows); i++) {
        char *json = repeat(rows[i].head, rows[i].piece, rows[i].count, rows[i].tail);
        sbx_request_kit_refused(json, &policy, EINVAL, rows[i].fragment);
        free(json);
    }
}
END_TEST

START_TEST(test_large)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    char *json = repeat("{\"command\":\"a\",\"args\":[\"", "x", 1 << 20, "\"]}");
    struct sbx_request *request = sbx_request_kit_parse(json, &policy);
    ck_assert_uint_eq(strlen(request->spec->argv[1]), 1 << 20);
    free(sbx_request_kit_line(request));
    sbx_request_free(request);
    free(json);
    json = repeat("{\"command\":\"a\",\"args\":[\"\"", ",\"y\"", 60000, "]}");
    request = sbx_request_kit_parse(json, &policy);
    ck_assert_str_eq(request->spec->argv[60001], "y");
    ck_assert_ptr_null(request->spec->argv[60002]);
    sbx_request_free(request);
    free(json);
    json = repeat("{\"command\":\"a\",\"id\":\"", "x", 128, "\"}");
    request = sbx_request_kit_parse(json, &policy);
    ck_assert_uint_eq(strlen(request->facts.id), 128);
    sbx_request_free(request);
    free(json);
}
END_TEST

/* Cut anywhere, or with a zero anywhere, it is no request. */
START_TEST(test_cut)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    const char *json = good[LENGTH(good) - 2].json;
    size_t length = strlen(json);
    struct sbx_request *request = NULL;
    for (size_t i = 0; i < length; i++) {
        char *part = malloc(length);
        ck_assert_ptr_nonnull(part);
        memcpy(part, json, length);
        ck_assert_int_eq(sbx_request_parse(part, i, &policy, &request, NULL), -EINVAL);
        part[i] = '\0';
        ck_assert_int_eq(sbx_request_parse(part, length, &policy, &request, NULL),
                         -EINVAL);
        free(part);
    }
    ck_assert_int_eq(
        sbx_request_parse("{\"command\":\"a\"}\0x", 17, &policy, &request, NULL),
        -EINVAL);
    ck_assert_int_eq(sbx_request_parse(NULL, 0, &policy, &request, NULL), -EINVAL);
    ck_assert_ptr_null(request);
}
END_TEST

/* --- which are the same --- */

static const struct {
    const char *one;
    const char *other;
} same[] = {
    {"{\"command\":\"a\"}", WITH("\"args\":[]")},
    {"{\"command\":\"a\"}", WITH("\"launcher\":[],\"env\":{},\"limits\":{}")},
    {"{\"command\":\"a\"}", WITH("\"limits\":{\"wall\":120},\"stdin\":\"null\"")},
    {"{\"command\":\"a\"}", WITH("\"signal\":\"TERM\",\"strays\":\"kill\",\"linger\":0")},
    {"{\"command\":\"a\"}", WITH("\"when_full\":\"drop\",\"output_limit\":\"64K\"")},
    {"{\"command\":\"a\"}", WITH("\"event_limit\":512,\"retention\":\"15m\"")},
    {"{\"command\":\"a\"}", WITH("\"pid_namespace\":false,\"cwd\":\"/\"")},
    {"{\"command\":\"a\"}", WITH("\"interval\":0.25,\"limits\":{\"warn\":90}")},
    {"{\"command\":\"a\"}", WITH("\"require\":[],\"ceilings\":{},\"env_from\":[]")},
    {"{\"command\":\"a\"}", WITH("\"id\":\"x\"")},
    {WITH("\"id\":\"y\""), WITH("\"id\":\"x\"")},
    {WITH("\"args\":[\"b\"]"), "{\"args\":[\"b\"],\"command\":\"a\"}"},
    {WITH("\"limits\":{\"memory\":\"1K\"}"), WITH("\"limits\":{\"memory\":1024}")},
    {WITH("\"limits\":{\"wall\":6}"), WITH("\"limits\":{\"wall\":\"6s\"}")},
    {WITH("\"limits\":{\"wall\":6.0}"), WITH("\"limits\":{\"wall\":\"6000ms\"}")},
    {WITH("\"limits\":{\"wall\":6,\"cpu\":1}"),
     WITH("\"limits\":{\"cpu\":1,\"wall\":6}")},
    {WITH("\"signal\":\"USR1\""), WITH("\"signal\":10")},
    {WITH("\"umask\":\"022\""), WITH("\"umask\":\"22\"")},
    {WITH("\"require\":\"complete\""), WITH("\"require\":[\"complete\"]")},
    {WITH("\"ceilings\":{\"nofile\":64}"), WITH("\"ceilings\":{\"nofile\":\"64:64\"}")},
    {WITH("\"ceilings\":{\"as\":1024,\"cpu\":1}"),
     WITH("\"ceilings\":{\"cpu\":\"1:2\",\"as\":\"1K\"}")},
    {WITH("\"env\":{\"A\":\"1\",\"B\":\"2\"}"),
     WITH("\"env\":{\"B\":\"2\",\"A\":\"1\"}")},
    {WITH("\"stdin\":{\"data\":\"AB\"}"), WITH("\"stdin\":{\"data_base64\":\"QUI=\"}")},
    {WITH("\"sandbox\":{}"), WITH("\"sandbox\":{\"network\":\"host\",\"proc\":false}")},
    {WITH("\"sandbox\":{}"), WITH("\"sandbox\":{\"seccomp\":\"default\",\"bind\":[]}")},
    {WITH("\"sandbox\":{\"bind\":\"/x\"}"), WITH("\"sandbox\":{\"bind\":[\"/x\"]}")},
    {WITH("\"sandbox\":{\"tmp_size\":\"1M\"}"),
     WITH("\"sandbox\":{\"tmp_size\":1048576}")},
    {WITH("\"sandbox\":{\"ceilings\":{\"as\":\"1M\"}}"),
     WITH("\"sandbox\":{\"ceilings\":{\"as\":1048576}}")},
    {WITH("\"sandbox\":{\"bind\":\"/x\",\"mask\":\"/y\"}"),
     WITH("\"sandbox\":{\"mask\":\"/y\",\"bind\":\"/x\"}")},
};

START_TEST(test_same)
{
    const struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(same); i++) {
        ck_assert_msg(sbx_request_kit_same(same[i].one, same[i].other, &policy),
                      "%s is another request than %s", same[i].one, same[i].other);
    }
}
END_TEST

/* Any two of these. */
static const char *const different[] = {
    "{\"command\":\"a\"}",
    "{\"command\":\"b\"}",
    WITH("\"args\":[\"\"]"),
    WITH("\"args\":[\"\",\"\"]"),
    WITH("\"args\":[\"b\"]"),
    WITH("\"args\":[\"b\",\"c\"]"),
    WITH("\"args\":[\"bc\"]"),
    WITH("\"args\":[\"c\",\"b\"]"),
    WITH("\"launcher\":[\"b\"]"),
    "{\"launcher\":[\"a\"],\"command\":\"b\"}",
    WITH("\"cwd\":\"/tmp\""),
    WITH("\"env\":{\"A\":\"1\"}"),
    WITH("\"env\":{\"A\":\"2\"}"),
    WITH("\"env\":{\"A\":null}"),
    WITH("\"env\":{\"A\":\"\"}"),
    WITH("\"env\":{\"A\":\"1\",\"B\":\"\"}"),
    WITH("\"env\":{\"A\":\"1\"},\"clear_env\":true"),
    WITH("\"stdin\":\"open\""),
    WITH("\"stdin\":{\"data\":\"\"}"),
    WITH("\"stdin\":{\"data\":\"A\"}"),
    WITH("\"stdin\":{\"data\":\"B\"}"),
    WITH("\"limits\":{\"wall\":6}"),
    WITH("\"limits\":{\"wall\":null}"),
    WITH("\"limits\":{\"wall\":7}"),
    WITH("\"limits\":{\"cpu\":6}"),
    WITH("\"grace\":2"), /* given: breaches of memory have one too */
    WITH("\"signal\":\"INT\""),
    WITH("\"strays\":\"wait\""),
    WITH("\"retention\":1"),
    WITH("\"output_limit\":\"1M\""),
    WITH("\"event_limit\":9"),
    WITH("\"when_full\":\"pause\""),
    WITH("\"ceilings\":{\"nofile\":64}"),
    WITH("\"ceilings\":{\"nofile\":\"63:64\"}"),
    WITH("\"sandbox\":{}"),
    WITH("\"sandbox\":{\"network\":\"none\"}"),
    WITH("\"sandbox\":{\"proc\":true}"),
    WITH("\"sandbox\":{\"bind\":\"/x\"}"),
    WITH("\"sandbox\":{\"ro_bind\":\"/x\"}"),
    WITH("\"sandbox\":{\"bind\":[\"/x\",\"/y\"]}"),
    WITH("\"sandbox\":{\"ceilings\":{\"nofile\":64}}"),
    WITH("\"sandbox\":{},\"ceilings\":{\"nofile\":64}"),
    WITH("\"sandbox\":{\"seccomp\":\"none\"}"),
    WITH("\"sandbox\":{},\"cwd\":\"/\""),
    WITH("\"sandbox\":{},\"env\":{\"A\":\"1\"}"),
};

START_TEST(test_different)
{
    unsigned char digests[LENGTH(different)][SBX_DIGEST_SIZE];
    struct sbx_request_policy policy = sbx_request_kit_policy();
    for (size_t i = 0; i < LENGTH(different); i++) {
        struct sbx_request *request = sbx_request_kit_parse(different[i], &policy);
        memcpy(digests[i], request->facts.digest, SBX_DIGEST_SIZE);
        sbx_request_free(request);
        for (size_t j = 0; j < i; j++) {
            ck_assert_msg(memcmp(digests[i], digests[j], SBX_DIGEST_SIZE) != 0,
                          "%s is the same request as %s", different[i], different[j]);
        }
    }
    /* Of somebody else, and under another key. */
    unsigned char other[SBX_KEY_SIZE] = "another key";
    policy.uid++;
    struct sbx_request *request = sbx_request_kit_parse(different[0], &policy);
    ck_assert_mem_ne(request->facts.digest, digests[0], SBX_DIGEST_SIZE);
    sbx_request_free(request);
    policy.uid--;
    policy.key = other;
    request = sbx_request_kit_parse(different[0], &policy);
    ck_assert_mem_ne(request->facts.digest, digests[0], SBX_DIGEST_SIZE);
    sbx_request_free(request);
}
END_TEST

/* --- which options are keys --- */

/* Each option of the two tables stands here, or a request can do what nobody has thought
 * of. Behind '!': it is no key. */
static const struct {
    enum sbx_section section;
    const char *options;
} known[] = {
    {SBX_SECTION_TOP,
     " output-keep signal grace linger strays backend require interval cgroup-root "
     "pid-namespace env-from clear-env user cpus umask new-session no-new-privs stdout "
     "stderr "},
    {SBX_SECTION_LIMITS,
     " wall cpu memory processes threads warn output idle swap cpu-quota "},
    {SBX_SECTION_SANDBOX,
     " bind ro-bind mask no-default-masks network proc self-exe as-user strict-stdin "
     "tmp-size seccomp bwrap "},
};
static const char not_of_run[] =
    " report quiet report-fd format log log-level log-format verbose timeline keep-fd "
    "die-with-parent chdir env detach stdin preserve-status breach-status pid enforce "
    "cgroup rlimit ";
static const char not_of_sandbox[] = " chdir env env-from rlimit ";

static bool is_among(const char *list, const char *name)
{
    char word[SBX_KEY_NAME_SIZE + 2];
    (void)snprintf(word, sizeof word, " %s ", name);
    return strstr(list, word) != NULL;
}

static size_t count_words(const char *list)
{
    size_t count = 0;
    for (const char *at = list + 1; *at != '\0'; at++) {
        count += *at == ' ' ? 1 : 0;
    }
    return count;
}

START_TEST(test_every_option_is_thought_of)
{
    char key[SBX_KEY_NAME_SIZE];
    for (size_t i = 0; i < LENGTH(known); i++) {
        size_t count = 0;
        size_t keys = 0;
        const struct sbx_option *options = sbx_section_options(known[i].section, &count);
        for (size_t j = 0; j < count; j++) {
            const char *name = options[j].name;
            bool is_key = sbx_request_key(&options[j], known[i].section, key);
            keys += is_key ? 1 : 0;
            ck_assert_msg(is_key == is_among(known[i].options, name),
                          "--%s: is it a key of section %zu?", name, i);
            ck_assert(!is_key || strchr(key, '-') == NULL);
            bool of_sandbox = known[i].section == SBX_SECTION_SANDBOX;
            bool listed = is_among(of_sandbox ? not_of_sandbox : not_of_run, name);
            bool elsewhere = !of_sandbox && is_among(known[1 - i].options, name);
            ck_assert_msg(is_key + listed + elsewhere == 1,
                          "--%s is neither a key nor listed as none", name);
        }
        ck_assert_uint_eq(keys, count_words(known[i].options));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request");
    TCase *what = sbx_fixture_case(suite, "what comes of it", CASE_SECONDS);
    tcase_add_test(what, test_good);
    tcase_add_test(what, test_bwrap_is_named);
    tcase_add_test(what, test_variables_from_a_file);
    tcase_add_test(what, test_facts);
    tcase_add_test(what, test_stdin);
    tcase_add_test(what, test_numbers);
    TCase *refused = sbx_fixture_case(suite, "what is refused", CASE_SECONDS);
    tcase_add_test(refused, test_bad);
    tcase_add_test(refused, test_hostile);
    tcase_add_test(refused, test_large);
    tcase_add_test(refused, test_cut);
    TCase *alike = sbx_fixture_case(suite, "which are the same", CASE_SECONDS);
    tcase_add_test(alike, test_same);
    tcase_add_test(alike, test_different);
    tcase_add_test(alike, test_every_option_is_thought_of);
    return sbx_fixture_run(suite);
}
