/*
 * run_check.c - compares what has come of a scene with its table, and collects all that
 * is not as it should be.
 */
#include "tests/run_check.h"

#include "base/fd.h"
#include "tests/run_listing.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_SIZE (64UL * 1024)

void sbx_play_complain(struct sbx_play *play, const char *format, ...)
{
    char text[4096];
    char *all = NULL;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const char *old = play->complaint != NULL ? play->complaint : "";
    ck_assert_int_ge(asprintf(&all, "%s\n    %s", old, text), 0);
    free(play->complaint);
    play->complaint = all;
}

char *sbx_play_read(const struct sbx_play *play, const char *name)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    char *text = calloc(1, TEXT_SIZE);
    ck_assert_ptr_nonnull(text);
    SBX_AUTO_CLOSE int fd = open(sbx_play_path(play, path, name), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ck_assert_int_ge(read(fd, text, TEXT_SIZE - 1), 0);
    }
    return text;
}

/* What stands for "%LETTER"; NULL: it is nothing of ours. */
static const char *meaning(const struct sbx_play *play, char letter,
                           char buffer[static SBX_FIXTURE_PATH_SIZE])
{
    switch (letter) {
    case 'W':
        return sbx_play_path(play, buffer, "work");
    case 'H':
        return sbx_fixture_path(buffer, "h");
    case 'D':
        return play->directory;
    case 'U':
        return play->user;
    default:
        return NULL;
    }
}

char *sbx_play_expanded(const struct sbx_play *play, const char *text)
{
    char *result = calloc(1, TEXT_SIZE);
    ck_assert_ptr_nonnull(result);
    size_t used = 0;
    while (*text != '\0') {
        char buffer[SBX_FIXTURE_PATH_SIZE];
        char letter[2] = {*text, '\0'};
        const char *piece = *text == '%' ? meaning(play, text[1], buffer) : NULL;
        text += piece != NULL ? 2 : 1;
        piece = piece != NULL ? piece : letter;
        size_t length = strlen(piece);
        ck_assert_uint_lt(used + length, TEXT_SIZE);
        (void)memcpy(result + used, piece, length + 1);
        used += length;
    }
    return result;
}

static void check_status(struct sbx_play *play)
{
    const struct sbx_scene *scene = play->scene;
    int status = play->wait_status;
    if (scene->signal != 0 ? !WIFSIGNALED(status) || WTERMSIG(status) != scene->signal
                           : !WIFEXITED(status) || WEXITSTATUS(status) != scene->status) {
        sbx_play_complain(play, "%s %d, expected %s %d",
                          WIFSIGNALED(status) ? "signal" : "status",
                          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                          scene->signal != 0 ? "signal" : "status",
                          scene->signal != 0 ? scene->signal : scene->status);
    }
    const char *line_feed = strchr(play->err, '\n');
    bool anything = scene->err != NULL && strcmp(scene->err, "*") == 0;
    if (scene->status == 125 && scene->launcher == NULL && !anything &&
        (strncmp(play->err, "sbx-run: ", 9) != 0 || line_feed == NULL ||
         line_feed[1] != '\0')) {
        sbx_play_complain(play,
                          "standard error is not one line that begins with sbx-run:");
    }
}

static void check_out(struct sbx_play *play)
{
    const char *text = play->scene->out != NULL ? play->scene->out : "";
    char *wanted = sbx_play_expanded(play, text);
    if (strcmp(text, "*") != 0 && strcmp(wanted, play->out) != 0) {
        sbx_play_complain(play, "standard output is not: %s", wanted);
    }
    free(wanted);
}

static void check_err(struct sbx_play *play)
{
    const char *text = play->scene->err;
    if (text == NULL) {
        if (play->err[0] != '\0') {
            sbx_play_complain(play, "something on standard error");
        }
        return;
    }
    char *wanted = sbx_play_expanded(play, text);
    char *rest = NULL;
    for (const char *piece = strtok_r(wanted, "|", &rest); piece != NULL;
         piece = strtok_r(NULL, "|", &rest)) {
        if (strcmp(piece, "*") != 0 && strstr(play->err, piece) == NULL) {
            sbx_play_complain(play, "standard error has no: %s", piece);
        }
    }
    free(wanted);
}

static void check_never(struct sbx_play *play)
{
    const char *text = play->scene->never;
    if (text != NULL &&
        (strstr(play->out, text) != NULL || strstr(play->err, text) != NULL)) {
        sbx_play_complain(play, "it has said: %s", text);
    }
}

static void check_leavings(struct sbx_play *play)
{
    char text[SBX_LISTING_TEXT_SIZE];
    const char *leaves = play->scene->leaves;
    struct sbx_listing *after = sbx_listing_take(play->directory, SBX_PLAY_OWN_NAMES);
    sbx_listing_compare(play->listing, after, "work", leaves != NULL ? leaves : "", text);
    if (text[0] != '\0' && (leaves == NULL || strcmp(leaves, "*") != 0)) {
        sbx_play_complain(play, "files: %s", text);
    }
    sbx_listing_free(after);
    sbx_listing_free(play->listing);
    play->listing = NULL;
}

static const json_t *report_item(const json_t *item, const char *path)
{
    char copy[256];
    char *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &rest); key != NULL && item != NULL;
         key = strtok_r(NULL, ".", &rest)) {
        item = json_is_array(item) ? json_array_get(item, strtoul(key, NULL, 10))
                                   : json_object_get(item, key);
    }
    return item;
}

static void check_item(struct sbx_play *play, const json_t *report, char *word)
{
    char *equals = strchr(word, '=');
    ck_assert_ptr_nonnull(equals);
    *equals = '\0';
    const json_t *item = report_item(report, word);
    char *dump = json_dumps(item, JSON_ENCODE_ANY);
    const char *value = json_is_string(item) ? json_string_value(item)
                        : dump != NULL       ? dump
                                             : "absent";
    if (strcmp(value, equals + 1) != 0) {
        sbx_play_complain(play, "report: %s is %s, not %s", word, value, equals + 1);
    }
    free(dump);
}

static void check_report(struct sbx_play *play)
{
    char words[1024];
    char *rest = NULL;
    json_error_t error;
    if (play->scene->report == NULL) {
        return;
    }
    char *text = sbx_play_read(play, "report");
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (report == NULL) {
        sbx_play_complain(play, "the report is no JSON: %s", text);
    } else {
        sbx_fixture_collect(text);
    }
    (void)snprintf(words, sizeof(words), "%s", play->scene->report);
    for (char *word = strtok_r(words, " ", &rest); word != NULL && report != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        check_item(play, report, word);
    }
    if (play->complaint != NULL) {
        sbx_play_complain(play, "report: %s", text);
    }
    json_decref(report);
    free(text);
}

/* It is said of every sandbox of theirs, and has a scene of its own. */
static void drop_remark_on_setuid(struct sbx_play *play)
{
    static const char remark[] =
        "sbx-run: warning: /tmp, /run and /dev/shm have no bound";
    char *at = play->identity == SBX_AS_SETUID ? strstr(play->err, remark) : NULL;
    if (at != NULL) {
        const char *next = at + strcspn(at, "\n") + 1;
        (void)memmove(at, next, strlen(next) + 1);
    }
}

void sbx_play_check(struct sbx_play *play)
{
    play->out = sbx_play_read(play, "out");
    play->err = sbx_play_read(play, "err");
    drop_remark_on_setuid(play);
    check_status(play);
    check_out(play);
    check_err(play);
    check_never(play);
    check_leavings(play);
    check_report(play);
}
