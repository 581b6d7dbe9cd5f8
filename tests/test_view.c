/*
 * test_view.c - executions as JSON: what a snapshot says at which time, how bytes of a
 * command stand in events, and what is left out. On executions that are made up, with
 * real files.
 */
#include "supervisor/view.h"

#include "base/fd.h"
#include "supervisor/file.h"
#include "supervisor/journal.h"
#include "tests/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define AT_US UINT64_C(1764457000123456)
#define AT_TEXT "2025-11-29T22:56:40.123456Z"

/* --- in place of the core --- */

struct sbx_execution {
    struct sbx_facts facts;
    int directory;
    enum sbx_execution_status status;
    uint64_t finished_us;
    bool core_has_report;
};

static struct sbx_execution listed[3];
static size_t listed_count;

const struct sbx_facts *sbx_execution_facts(const struct sbx_execution *execution)
{
    return &execution->facts;
}

int sbx_execution_directory(const struct sbx_execution *execution)
{
    return execution->directory;
}

enum sbx_execution_status sbx_execution_status(const struct sbx_execution *execution)
{
    return execution->status;
}

uint64_t sbx_execution_finished_us(const struct sbx_execution *execution)
{
    return execution->finished_us;
}

char *sbx_execution_report(const struct sbx_execution *execution, size_t *ret_length)
{
    static const char report[] = "{\"outcome\":\"lost\",\"by\":\"core\"}";
    if (!execution->core_has_report) {
        return NULL;
    }
    *ret_length = strlen(report);
    return strdup(report);
}

void sbx_supervisor_each(struct sbx_supervisor *supervisor, const struct sbx_peer *peer,
                         sbx_execution_callback *callback, void *context)
{
    (void)supervisor;
    (void)peer;
    for (size_t i = 0; i < listed_count && callback(&listed[i], context); i++) {
    }
}

void sbx_supervisor_stats_get(const struct sbx_supervisor *supervisor,
                              struct sbx_supervisor_stats *ret_stats)
{
    (void)supervisor;
    uint64_t *words = (uint64_t *)ret_stats;
    for (size_t i = 0; i < sizeof *ret_stats / sizeof *words; i++) {
        words[i] = 100 + i;
    }
}

/* --- one that is made up --- */

static struct sbx_execution made(void)
{
    struct sbx_execution execution = {
        .facts = {.id = "it", .created_real_us = AT_US},
        .directory = open(sbx_fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    ck_assert_int_ge(execution.directory, 0);
    return execution;
}

static struct sbx_journal *journal_of(const struct sbx_execution *execution,
                                      uint64_t count)
{
    struct sbx_error error = {.message = ""};
    struct sbx_journal *journal = NULL;
    int r = sbx_journal_create(execution->directory, "events", count, &journal, &error);
    ck_assert_msg(r == 0, "%s", error.message);
    return journal;
}

static void write_file(const char *name, const char *text, size_t length)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    int fd = open(sbx_fixture_path(path, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                  0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, text, length), 0);
    (void)close(fd);
}

/* A line of JSON, for the caller to decref. */
static json_t *parse(char *text)
{
    ck_assert_ptr_nonnull(text);
    size_t length = strlen(text);
    ck_assert_uint_gt(length, 0);
    ck_assert_ptr_eq(strchr(text, '\n'), text + length - 1);
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(value != NULL, "%s", text);
    free(text);
    return value;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* --- snapshots --- */

START_TEST(snapshots)
{
    struct sbx_execution execution = made();
    /* Nothing but the place is there. */
    json_t *snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_str_eq(text_of(snapshot, "id"), "it");
    ck_assert_str_eq(text_of(snapshot, "status"), "running");
    ck_assert_str_eq(text_of(snapshot, "created_at"), AT_TEXT);
    ck_assert_int_eq(json_integer_value(json_object_get(snapshot, "latest_sequence")), 0);
    ck_assert_uint_eq(json_object_size(snapshot), 4);
    json_decref(snapshot);
    /* It runs. */
    const struct sbx_page page = {.magic = SBX_PAGE_MAGIC,
                                  .phase = SBX_PHASE_RUNNING,
                                  .stdin_open = 1,
                                  .started_real_us = AT_US};
    char file[SBX_FILE_PAGE] = "";
    memcpy(file, &page, sizeof page);
    write_file("page", file, sizeof file);
    struct sbx_journal *journal = journal_of(&execution, 8);
    (void)sbx_journal_append(journal, &(struct sbx_event){.type = SBX_EVENT_STARTED});
    snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_str_eq(text_of(snapshot, "started_at"), AT_TEXT);
    ck_assert(json_is_false(json_object_get(snapshot, "paused")));
    ck_assert(json_is_true(json_object_get(snapshot, "stdin_open")));
    ck_assert_int_eq(json_integer_value(json_object_get(snapshot, "latest_sequence")), 1);
    json_decref(snapshot);
    /* It is over: with the report that lies there, or the core's, which comes first. */
    execution.status = SBX_EXECUTION_COMPLETED;
    execution.finished_us = AT_US;
    write_file("report.json", "{\"outcome\":\"exited\"}\n", 21);
    snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_str_eq(text_of(snapshot, "finished_at"), AT_TEXT);
    ck_assert_str_eq(text_of(json_object_get(snapshot, "report"), "outcome"), "exited");
    ck_assert_ptr_null(json_object_get(snapshot, "paused"));
    json_decref(snapshot);
    execution.core_has_report = true;
    snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_str_eq(text_of(json_object_get(snapshot, "report"), "by"), "core");
    json_decref(snapshot);
    sbx_journal_close(journal);
    (void)close(execution.directory);
}
END_TEST

/* What is no report does not spoil what is known. */
START_TEST(no_reports)
{
    static const char *const texts[] = {"", "{", "{\"outcome\":\"\xff\"}", "garbage"};
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_execution execution = made();
    execution.status = SBX_EXECUTION_LOST;
    execution.finished_us = AT_US;
    for (size_t i = 0; i < LENGTH(texts); i++) {
        write_file("report.json", texts[i], strlen(texts[i]));
        json_t *snapshot = parse(sbx_view_snapshot(&execution));
        ck_assert_str_eq(text_of(snapshot, "status"), "lost");
        ck_assert_ptr_null(json_object_get(snapshot, "report"));
        json_decref(snapshot);
    }
    (void)sbx_fixture_path(path, "report.json");
    ck_assert_int_eq(truncate(path, (off_t)1 << 30), 0);
    json_t *snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_ptr_null(json_object_get(snapshot, "report"));
    json_decref(snapshot);
    /* Neither followed nor waited for. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    snapshot = parse(sbx_view_snapshot(&execution));
    ck_assert_ptr_null(json_object_get(snapshot, "report"));
    json_decref(snapshot);
    (void)close(execution.directory);
}
END_TEST

START_TEST(lists)
{
    json_t *list = parse(sbx_view_list(NULL, NULL));
    ck_assert_uint_eq(json_array_size(json_object_get(list, "executions")), 0);
    json_decref(list);
    for (listed_count = 0; listed_count < LENGTH(listed); listed_count++) {
        listed[listed_count] = made();
    }
    listed[1].status = SBX_EXECUTION_FAILED;
    listed[1].finished_us = AT_US;
    write_file("report.json", "{\"outcome\":\"signaled\"}\n", 23);
    list = parse(sbx_view_list(NULL, NULL));
    const json_t *items = json_object_get(list, "executions");
    ck_assert_uint_eq(json_array_size(items), LENGTH(listed));
    ck_assert_str_eq(text_of(json_array_get(items, 1), "outcome"), "signaled");
    ck_assert_ptr_null(json_object_get(json_array_get(items, 0), "outcome"));
    ck_assert_ptr_null(json_object_get(json_array_get(items, 1), "report"));
    json_decref(list);
    for (size_t i = 0; i < LENGTH(listed); i++) {
        (void)close(listed[i].directory);
    }
}
END_TEST

/* --- events --- */

struct bytes {
    const char *data;
    size_t length;
    const char *text;   /* NULL: none */
    const char *base64; /* NULL: none */
};

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct bytes shown[] = {
    {BYTES("plain"), "plain", NULL},
    {BYTES(""), "", NULL},
    {BYTES("a\tb\r\n\x1b[1m\x7f"), "a\tb\r\n\x1b[1m\x7f", NULL},
    {BYTES("\"\\/"), "\"\\/", NULL},
    {BYTES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\x89"),
     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\x89", NULL},
    {BYTES("\xe2\x82"), NULL, "4oI="}, /* cut inside of a character, */
    {BYTES("\xac"), NULL, "rA=="},     /* and its rest */
    {BYTES("a\0b"), NULL, "YQBi"},
    {BYTES("\xff\xfe\xfd\xfc"), NULL, "//79/A=="},
    {BYTES("\xc0\x80"), NULL, "wIA="},             /* not the shortest form */
    {BYTES("\xed\xa0\x80"), NULL, "7aCA"},         /* half of a pair */
    {BYTES("\xf4\x90\x80\x80"), NULL, "9JCAgA=="}, /* beyond the last */
};

START_TEST(event_bytes)
{
    struct sbx_execution execution = made();
    struct sbx_journal *journal = journal_of(&execution, 64);
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(shown); i++) {
        const struct sbx_event event = {.type = i % 2 == 0 ? SBX_EVENT_STDOUT
                                                           : SBX_EVENT_STDERR,
                                        .at_real_us = AT_US,
                                        .offset = 10 * i,
                                        .length = shown[i].length,
                                        .data = shown[i].data};
        (void)sbx_journal_append(journal, &event);
    }
    json_t *events = parse(sbx_view_events(&execution, 0, &count));
    const json_t *list = json_object_get(events, "events");
    ck_assert_uint_eq(count, LENGTH(shown));
    ck_assert_uint_eq(json_array_size(list), count);
    for (size_t i = 0; i < count; i++) {
        const json_t *event = json_array_get(list, i);
        const json_t *text = json_object_get(event, "data");
        const json_t *base64 = json_object_get(event, "data_base64");
        ck_assert_str_eq(text_of(event, "type"), i % 2 == 0 ? "stdout" : "stderr");
        ck_assert_str_eq(text_of(event, "at"), AT_TEXT);
        ck_assert_int_eq(json_integer_value(json_object_get(event, "offset")),
                         (json_int_t)(10 * i));
        ck_assert_int_eq(json_integer_value(json_object_get(event, "length")),
                         (json_int_t)shown[i].length);
        ck_assert_msg((shown[i].text != NULL) == (text != NULL) &&
                          (shown[i].base64 != NULL) == (base64 != NULL),
                      "bytes %zu", i);
        ck_assert(shown[i].text == NULL ||
                  strcmp(json_string_value(text), shown[i].text) == 0);
        ck_assert(shown[i].base64 == NULL ||
                  strcmp(json_string_value(base64), shown[i].base64) == 0);
    }
    json_decref(events);
    sbx_journal_close(journal);
    (void)close(execution.directory);
}
END_TEST

START_TEST(event_types)
{
    struct sbx_execution execution = made();
    struct sbx_journal *journal = journal_of(&execution, 64);
    const struct sbx_event written[] = {
        {.type = SBX_EVENT_STARTED, .value = 4711},
        {.type = SBX_EVENT_WARNING, .length = 4, .data = "near"},
        {.type = SBX_EVENT_BREACH, .length = 17, .data = "{\"reason\":\"wall\"}"},
        {.type = SBX_EVENT_BREACH, .length = 4, .data = "none"},
        {.type = SBX_EVENT_GAP, .stream = 2, .offset = 100, .value = 50},
        {.type = SBX_EVENT_FINISHED, .value = SBX_EXECUTION_TIMED_OUT},
    };
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(written); i++) {
        (void)sbx_journal_append(journal, &written[i]);
    }
    /* The end is not shown before the core knows it. */
    json_t *events = parse(sbx_view_events(&execution, 4, &count));
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(json_integer_value(json_object_get(events, "latest_sequence")), 5);
    json_decref(events);
    execution.status = SBX_EXECUTION_TIMED_OUT;
    write_file("report.json", "{\"outcome\":\"breach\"}\n", 21);
    events = parse(sbx_view_events(&execution, 0, &count));
    ck_assert_uint_eq(count, LENGTH(written));
    const json_t *list = json_object_get(events, "events");
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 0), "pid")),
                     4711);
    ck_assert_str_eq(text_of(json_array_get(list, 1), "message"), "near");
    ck_assert_str_eq(
        text_of(json_object_get(json_array_get(list, 2), "breach"), "reason"), "wall");
    ck_assert_ptr_null(json_object_get(json_array_get(list, 3), "breach"));
    const json_t *gap = json_array_get(list, 4);
    ck_assert_str_eq(text_of(gap, "stream"), "stderr");
    ck_assert_int_eq(json_integer_value(json_object_get(gap, "offset")), 100);
    ck_assert_int_eq(json_integer_value(json_object_get(gap, "length")), 50);
    const json_t *end = json_array_get(list, 5);
    ck_assert_str_eq(text_of(end, "type"), "finished");
    ck_assert_str_eq(text_of(end, "status"), "timed_out");
    ck_assert_str_eq(text_of(json_object_get(end, "report"), "outcome"), "breach");
    ck_assert_int_eq(json_integer_value(json_object_get(events, "latest_sequence")), 6);
    json_decref(events);
    sbx_journal_close(journal);
    (void)close(execution.directory);
}
END_TEST

/* What was dropped is told, and the bound of an answer leaves the rest to the next. */
START_TEST(event_bounds)
{
    enum { COUNT = 1000 };
    static char data[SBX_EVENT_DATA_MAX];
    struct sbx_execution execution = made();
    size_t count = 0;
    uint64_t after = 0;
    json_t *events = parse(sbx_view_events(&execution, 7, &count));
    ck_assert_uint_eq(count, 0); /* there is no file yet */
    ck_assert(json_is_false(json_object_get(events, "expired")));
    json_decref(events);
    struct sbx_journal *journal = journal_of(&execution, 2 * COUNT);
    memset(data, 1, sizeof data); /* which takes six bytes each */
    const struct sbx_event event = {
        .type = SBX_EVENT_STDOUT, .length = sizeof data, .data = data};
    for (int i = 0; i < COUNT; i++) {
        (void)sbx_journal_append(journal, &event);
    }
    struct sbx_journal_state state;
    ck_assert_int_eq(sbx_journal_look(execution.directory, "events", &state), 0);
    ck_assert_uint_gt(state.first_sequence, 1);
    bool first = true;
    do {
        char *text = sbx_view_events(&execution, after, &count);
        ck_assert_ptr_nonnull(text);
        ck_assert_uint_le(strlen(text), (size_t)1024 * 1024);
        events = parse(text);
        const json_t *list = json_object_get(events, "events");
        ck_assert_uint_gt(count, 0);
        ck_assert(json_is_true(json_object_get(events, "expired")) == first);
        uint64_t sequence = (uint64_t)json_integer_value(
            json_object_get(json_array_get(list, 0), "sequence"));
        ck_assert_uint_eq(sequence, first ? state.first_sequence : after + 1);
        after = sequence + count - 1;
        first = false;
        json_decref(events);
    } while (after < COUNT);
    ck_assert_uint_eq(after, COUNT);
    json_decref(parse(sbx_view_events(&execution, UINT64_MAX, &count)));
    ck_assert_uint_eq(count, 0);
    sbx_journal_close(journal);
    (void)close(execution.directory);
}
END_TEST

/* --- errors, numbers, bodies --- */

START_TEST(errors)
{
    json_t *value = parse(sbx_view_error("bad_request", "what \"is\" it"));
    ck_assert_str_eq(text_of(json_object_get(value, "error"), "code"), "bad_request");
    ck_assert_str_eq(text_of(json_object_get(value, "error"), "message"),
                     "what \"is\" it");
    json_decref(value);
    value = parse(sbx_view_error("x", "a\xff"));
    ck_assert_str_eq(text_of(json_object_get(value, "error"), "message"), "a\\xFF");
    json_decref(value);
}
END_TEST

START_TEST(numbers)
{
    char line[128];
    struct sbx_supervisor_stats stats;
    sbx_supervisor_stats_get(NULL, &stats);
    json_t *value = parse(sbx_view_stats(NULL));
    char *metrics = sbx_view_metrics(NULL);
    ck_assert_ptr_nonnull(metrics);
    const struct {
        const char *key;
        const char *name;
        uint64_t number;
    } expected[] = {
        {"active_count", "executions_active", stats.active_count},
        {"retained_count", "executions_retained", stats.retained_count},
        {"started_total", "executions_started_total", stats.started_total},
        {"adopted_total", "executions_adopted_total", stats.adopted_total},
        {"evicted_total", "executions_evicted_total", stats.evicted_total},
        {"expired_total", "executions_expired_total", stats.expired_total},
        {"refused_total", "executions_refused_total", stats.refused_total},
        {"conflicts_total", "executions_conflicts_total", stats.conflicts_total},
        {"waiters_count", "waiters", stats.waiters_count},
    };
    for (size_t i = 0; i < LENGTH(expected); i++) {
        ck_assert_int_eq(json_integer_value(json_object_get(value, expected[i].key)),
                         (json_int_t)expected[i].number);
        (void)snprintf(line, sizeof line, "\nsbx_%s %llu\n", expected[i].name,
                       (unsigned long long)expected[i].number);
        ck_assert_msg(strstr(metrics, line) != NULL, "%s", line);
    }
    ck_assert_uint_eq(json_object_size(value), LENGTH(expected) + 1);
    const json_t *finished = json_object_get(value, "finished_total");
    ck_assert_uint_eq(json_object_size(finished), 6);
    for (size_t i = 1; i < LENGTH(stats.finished_total); i++) {
        const char *name = sbx_execution_status_name((enum sbx_execution_status)i);
        ck_assert_int_eq(json_integer_value(json_object_get(finished, name)),
                         (json_int_t)stats.finished_total[i]);
        (void)snprintf(line, sizeof line,
                       "\nsbx_executions_finished_total{status=\"%s\"} %llu\n", name,
                       (unsigned long long)stats.finished_total[i]);
        ck_assert_msg(strstr(metrics, line) != NULL, "%s", line);
    }
    free(metrics);
    json_decref(value);
}
END_TEST

START_TEST(bodies)
{
    static const struct {
        const char *body;
        int number; /* 0: refused */
    } signals[] = {
        {"{\"signal\":\"USR1\"}", SIGUSR1},
        {"{\"signal\":\"sigterm\"}", SIGTERM},
        {"{\"signal\":9}", 9},
        {"{\"signal\":\"9\"}", 9},
        {"{\"signal\":\"RTMIN+1\"}", 0},
        {"{}", 0},
        {"{\"signal\":null}", 0},
        {"{\"signal\":1e3}", 0},
        {"{\"signal\":-9}", 0},
        {"{\"signal\":65536}", 0},
        {"{\"signal\":\"KILL\\u0000\"}", 0},
        {"{\"signal\":\"X\"}", 0},
        {"{\"signal\":1,\"signal\":2}", 0},
        {"{\"signal\":1}x", 0},
        {"[]", 0},
        {"\"USR1\"", 0},
        {"", 0},
    };
    static const struct {
        const char *body;
        int cancel; /* -1: refused */
    } shutdowns[] = {{"", 0},
                     {"{}", 0},
                     {"{\"cancel\":false}", 0},
                     {"{\"cancel\":true}", 1},
                     {"{\"cancel\":\"true\"}", -1},
                     {"{\"cancel\":null}", -1},
                     {"{\"force\":true}", -1},
                     {"true", -1}};
    for (size_t i = 0; i < LENGTH(signals); i++) {
        struct sbx_error error = {.message = ""};
        int number = -7;
        const char *body = signals[i].body;
        int wanted = strstr(body, "RTMIN") != NULL ? SIGRTMIN + 1 : signals[i].number;
        int r = sbx_view_parse_signal(body, strlen(body), &number, &error);
        ck_assert_msg(r == (wanted != 0 ? 0 : -EINVAL), "%s: %d", body, r);
        ck_assert_int_eq(number, wanted != 0 ? wanted : -7);
        ck_assert((r < 0) == (error.message[0] != '\0'));
    }
    for (size_t i = 0; i < LENGTH(shutdowns); i++) {
        bool cancel = shutdowns[i].cancel != 1;
        bool before = cancel;
        const char *body = shutdowns[i].body;
        int r = sbx_view_parse_shutdown(body, strlen(body), &cancel, NULL);
        ck_assert_msg(r == (shutdowns[i].cancel >= 0 ? 0 : -EINVAL), "%s: %d", body, r);
        ck_assert(cancel == (r == 0 ? shutdowns[i].cancel == 1 : before));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("view");
    TCase *views = sbx_fixture_case(suite, "views", 30);
    tcase_add_test(views, snapshots);
    tcase_add_test(views, no_reports);
    tcase_add_test(views, lists);
    tcase_add_test(views, event_bytes);
    tcase_add_test(views, event_types);
    tcase_add_test(views, event_bounds);
    tcase_add_test(views, errors);
    tcase_add_test(views, numbers);
    tcase_add_test(views, bodies);
    return sbx_fixture_run(suite);
}
