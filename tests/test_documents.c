/*
 * test_documents.c - for each program the option table, its `--help`, its manual page and
 * the README name the same options, with the same letters and arguments, and none that
 * does not exist.
 *
 * How an option is written: in the help at the start of a line; in the manual on a line
 * of its own in the section OPTIONS; in the README in the first column of the option
 * table. Changed copies of each text prove that the comparison notices.
 */
#include "sandbox/verify.h"
#include "supervisor/request_private.h"
#include "tests/fixture.h"

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE (256 * 1024)
#define HEAD_SIZE 128
#define OPTIONS_MAX 128
#define HELP_COLUMN 32
#define SOURCE SBX_TEST_DATA "/../../"

/* Not in the tables: the fronts themselves answer these. */
static const struct sbx_option watch_own[] = {{"help", 'h', NULL, "", ""},
                                              {"version", 'V', NULL, "", ""}};
static const struct sbx_option run_own[] = {{"plan", 0, NULL, "", ""},
                                            {"help", 'h', NULL, "", ""},
                                            {"version", 'V', NULL, "", ""}};

/* The programs, and where their options are told. */
static const struct tool {
    const char *name;
    const struct sbx_option *(*tables[3])(size_t *ret_count);
    const struct sbx_option *own;
    size_t own_count;
    const char *manual;
    const char *readme_table; /* the first line of its table */
} tools[] = {
    {"sbx-watch",
     {sbx_options, sbx_verification_options, NULL},
     watch_own,
     2,
     "docs/sbx-watch.1.scd",
     "\n| option |"},
    {"sbx-run",
     {sbx_sandbox_options, NULL},
     run_own,
     3,
     "docs/sbx-run.1.scd",
     "\n| option of sbx-run |"},
    {"sbxd",
     {sbx_supervisor_options, NULL},
     watch_own,
     2,
     "docs/sbxd.8.scd",
     "\n| option of sbxd |"},
};
#define TOOL_COUNT (int)(sizeof tools / sizeof tools[0])
static const struct tool *tool; /* of this test */

/* Option I, those of the front behind those of its tables; NULL behind the last. */
static const struct sbx_option *option_at(size_t i)
{
    size_t count = 0;
    for (size_t table = 0; tool->tables[table] != NULL; table++) {
        const struct sbx_option *options = tool->tables[table](&count);
        if (i < count) {
            return &options[i];
        }
        i -= count;
    }
    return i < tool->own_count ? &tool->own[i] : NULL;
}

/* How one kind of document writes an option. */
struct document {
    const char *name;
    void (*head)(const struct sbx_option *option, char head[static HEAD_SIZE]);
    /* Whether a line, that stands at `line` in the text, is about an option. */
    bool (*concerns)(const char *text, const char *line);
    char after; /* what may follow a head, besides the end of the line */
};

static void help_head(const struct sbx_option *option, char head[static HEAD_SIZE])
{
    char letter[8] = "    ";
    if (option->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    (void)snprintf(head, HEAD_SIZE, "  %s--%s%s%s", letter, option->name,
                   option->value != NULL ? " " : "",
                   option->value != NULL ? option->value : "");
}

static bool help_concerns(const char *text, const char *line)
{
    (void)text;
    const char *word = line + strspn(line, " ");
    return word != line && *word == '-';
}

static void manual_head(const struct sbx_option *option, char head[static HEAD_SIZE])
{
    char letter[16] = "";
    if (option->letter != 0) {
        (void)snprintf(letter, sizeof letter, "*-%c*, ", option->letter);
    }
    (void)snprintf(head, HEAD_SIZE, "%s*--%s*%s%s%s", letter, option->name,
                   option->value != NULL ? " _" : "",
                   option->value != NULL ? option->value : "",
                   option->value != NULL ? "_" : "");
}

static bool manual_concerns(const char *text, const char *line)
{
    const char *start = strstr(text, "\n# OPTIONS\n");
    const char *end = start != NULL ? strstr(start + 1, "\n# ") : NULL;
    return end != NULL && line > start && line < end && strncmp(line, "*-", 2) == 0;
}

/* As a cell of a table: the bar has a backslash. */
static void readme_head(const struct sbx_option *option, char head[static HEAD_SIZE])
{
    char plain[HEAD_SIZE];
    help_head(option, plain);
    size_t used = (size_t)snprintf(head, HEAD_SIZE, "| `");
    for (const char *from = plain + strspn(plain, " "); *from != '\0'; from++) {
        if (*from == '|') {
            head[used++] = '\\';
        }
        head[used++] = *from;
        ck_assert_uint_lt(used, HEAD_SIZE - 4);
    }
    (void)snprintf(head + used, HEAD_SIZE - used, "` |");
}

static bool readme_concerns(const char *text, const char *line)
{
    const char *start = strstr(text, tool->readme_table);
    const char *end = start != NULL ? strstr(start, "\n\n") : NULL;
    return end != NULL && line > start && line < end && strncmp(line, "| `-", 4) == 0;
}

static const struct document help = {"--help", help_head, help_concerns, ' '};
static const struct document manual = {"the manual", manual_head, manual_concerns, '\n'};
static const struct document readme = {"README.md", readme_head, readme_concerns, ' '};

static bool begins_with_head(const char *line, const char *head, char after)
{
    size_t length = strlen(head);
    return strncmp(line, head, length) == 0 &&
           (line[length] == after || line[length] == '\n');
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL && end[1] != '\0' ? end + 1 : NULL;
}

/* Lines about the option of that head. */
static unsigned count_lines(const struct document *document, const char *text,
                            const char *head)
{
    unsigned found = 0;
    for (const char *line = text; line != NULL; line = next_line(line)) {
        found += begins_with_head(line, head, document->after) &&
                 document->concerns(text, line); /* last: it looks at all of the text */
    }
    return found;
}

static char heads[OPTIONS_MAX][HEAD_SIZE];

static size_t make_heads(const struct document *document)
{
    size_t count = 0;
    for (; option_at(count) != NULL; count++) {
        ck_assert_uint_lt(count, OPTIONS_MAX);
        document->head(option_at(count), heads[count]);
    }
    return count;
}

static bool is_known(const struct document *document, const char *line, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (begins_with_head(line, heads[i], document->after)) {
            return true;
        }
    }
    return false;
}

/* Says what is wrong, if anything: "" when the document agrees with the table. */
static const char *compare(const struct document *document, const char *text)
{
    static char complaint[512];
    size_t count = make_heads(document);
    complaint[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        unsigned found = count_lines(document, text, heads[i]);
        if (found != 1) {
            (void)snprintf(complaint, sizeof complaint, "%s has %u lines '%s'",
                           document->name, found, heads[i]);
            return complaint;
        }
    }
    for (const char *line = text; line != NULL; line = next_line(line)) {
        if (document->concerns(text, line) && !is_known(document, line, count)) {
            (void)snprintf(complaint, sizeof complaint,
                           "%s has a line that the table lacks: %.*s", document->name,
                           (int)strcspn(line, "\n"), line);
            return complaint;
        }
    }
    return complaint;
}

static void read_stream(FILE *stream, const char *name, char text[static TEXT_SIZE])
{
    ck_assert_msg(stream != NULL, "cannot open %s", name);
    size_t length = fread(text, 1, TEXT_SIZE - 1, stream);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_lt(length, TEXT_SIZE - 1);
    text[length] = '\0';
}

static void read_source(const char *name, char text[static TEXT_SIZE])
{
    FILE *stream = fopen(name, "re");
    read_stream(stream, name, text);
    ck_assert_int_eq(fclose(stream), 0);
}

static void read_manual(char text[static TEXT_SIZE])
{
    char path[SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s%s", SOURCE, tool->manual);
    read_source(path, text);
}

static void read_help(char text[static TEXT_SIZE])
{
    char command[SBX_FIXTURE_PATH_SIZE];
    /* They lie beside each other. */
    (void)snprintf(command, sizeof command, "'%.*s/%s' --help",
                   (int)(strrchr(sbx_fixture_watch(), '/') - sbx_fixture_watch()),
                   sbx_fixture_watch(), tool->name);
    FILE *stream = popen(command, "re");
    read_stream(stream, command, text);
    ck_assert_int_eq(pclose(stream), 0);
}

/* Only the lines about options, between `start` and `end`: a document is compared with
 * the table some hundred times. */
static void keep_lines(const struct document *document, char *whole, const char *start,
                       const char *end)
{
    char *kept = calloc(1, TEXT_SIZE);
    ck_assert_ptr_nonnull(kept);
    char *at = stpcpy(stpcpy(kept, start), "\n");
    for (const char *line = whole; line != NULL; line = next_line(line)) {
        if (document->concerns(whole, line)) {
            size_t length = strcspn(line, "\n");
            memcpy(at, line, length);
            at[length] = '\n';
            at += length + 1;
        }
    }
    (void)strcpy(at, end);
    (void)strcpy(whole, kept);
    free(kept);
}

/* The text agrees; without any one of its lines about an option, or with one that is
 * renamed, it does not. */
static void check_document(const struct document *document, const char *text)
{
    ck_assert_str_eq(compare(document, text), "");
    char *changed = malloc(TEXT_SIZE);
    ck_assert_ptr_nonnull(changed);
    unsigned lines = 0;
    for (const char *line = text; line != NULL; line = next_line(line)) {
        if (!document->concerns(text, line)) {
            continue;
        }
        lines++;
        size_t before = (size_t)(line - text);
        const char *rest = next_line(line);
        memcpy(changed, text, before);
        (void)strcpy(changed + before, rest != NULL ? rest : "");
        ck_assert_msg(compare(document, changed)[0] != '\0', "unnoticed: lacks '%.*s'",
                      (int)strcspn(line, "\n"), line);
        (void)strcpy(changed, text);
        /* One line more, with a name that no option has. */
        char extra[HEAD_SIZE];
        const struct sbx_option none = {"no-such-option", 0, "DUR", "", ""};
        document->head(&none, extra);
        (void)snprintf(changed + before, TEXT_SIZE - before, "%s\n%s", extra,
                       text + before);
        ck_assert_msg(compare(document, changed)[0] != '\0', "unnoticed: '%s'", extra);
    }
    ck_assert_uint_gt(lines, tool->own_count);
    free(changed);
}

static char text[TEXT_SIZE];

START_TEST(test_help)
{
    tool = &tools[_i];
    read_help(text);
    keep_lines(&help, text, "", "");
    check_document(&help, text);
}
END_TEST

/* Wrapped, and aligned: nothing starts between the names and the column of the texts. */
START_TEST(test_help_layout)
{
    tool = &tools[_i];
    read_help(text);
    for (const char *line = text; line != NULL; line = next_line(line)) {
        size_t length = strcspn(line, "\n");
        ck_assert_msg(length <= 80, "%zu columns: %.*s", length, (int)length, line);
        ck_assert_msg(length == 0 || line[length - 1] != ' ', "blank at the end: %.*s",
                      (int)length, line);
        size_t indent = strspn(line, " ");
        ck_assert_msg(indent == 0 || indent == 2 || indent == 6 || indent == HELP_COLUMN,
                      "indented by %zu: %.*s", indent, (int)length, line);
    }
}
END_TEST

START_TEST(test_manual)
{
    tool = &tools[_i];
    read_manual(text);
    keep_lines(&manual, text, "\n# OPTIONS\n", "\n# ");
    check_document(&manual, text);
}
END_TEST

/* Wherever the manual names an option of ours in bold, there is one. */
START_TEST(test_manual_names)
{
    tool = &tools[_i];
    read_manual(text);
    unsigned names = 0;
    for (const char *at = text; (at = strstr(at, "*--")) != NULL; at += 3) {
        size_t length = strspn(at + 3, "abcdefghijklmnopqrstuvwxyz-");
        bool known = length == 0; /* the end of the options */
        const struct sbx_option *option = NULL;
        for (size_t i = 0; !known && (option = option_at(i)) != NULL; i++) {
            known = strlen(option->name) == length &&
                    strncmp(option->name, at + 3, length) == 0;
        }
        ck_assert_msg(known, "no such option: --%.*s", (int)length, at + 3);
        names++;
    }
    ck_assert_uint_gt(names, tool->own_count);
}
END_TEST

START_TEST(test_readme)
{
    tool = &tools[_i];
    read_source(SOURCE "README.md", text);
    keep_lines(&readme, text, tool->readme_table, "\n\n");
    check_document(&readme, text);
}
END_TEST

/* The manual tells of every check of a verification but the many ceilings, and both it
 * and the README of every group that can be needed; so does the error about a wrong need.
 */
START_TEST(test_checks)
{
    static char readme_text[TEXT_SIZE];
    struct sbx_error error = {0};
    struct sbx_verification *verification = sbx_verification_new();
    read_source(SOURCE "docs/sbx-watch.1.scd", text);
    read_source(SOURCE "README.md", readme_text);
    ck_assert_int_lt(sbx_verification_set(verification, "need", "?", &error), 0);
    const char *section = strstr(text, "\n# VERIFICATION\n");
    ck_assert_ptr_nonnull(section);
    *strstr(section + 1, "\n# ") = '\0';
    for (size_t i = 0; i < sbx_check_count; i++) {
        const struct sbx_check_kind *kind = &sbx_check_kinds[i];
        char quoted[HEAD_SIZE];
        ck_assert_msg(strncmp(kind->name, "ceiling-", 8) == 0 ||
                          strstr(section, kind->name) != NULL,
                      "the manual lacks the check %s", kind->name);
        if (kind->group == NULL) {
            continue;
        }
        (void)snprintf(quoted, sizeof quoted, ":  %s\n", kind->group);
        ck_assert_msg(strstr(section, quoted) != NULL, "the manual lacks %s",
                      kind->group);
        (void)snprintf(quoted, sizeof quoted, "`%s`", kind->group);
        ck_assert_msg(strstr(readme_text, quoted) != NULL, "the README lacks %s",
                      kind->group);
        (void)snprintf(quoted, sizeof quoted, " %s", kind->group);
        ck_assert_msg(strstr(error.message, quoted) != NULL, "the error lacks %s",
                      kind->group);
    }
    sbx_verification_free(verification);
}
END_TEST

/* A word of a table of the manual, where an underscore has a backslash; as "wall" among
 * others, or alone. */
static bool names_key(const char *section, const char *key)
{
    char escaped[HEAD_SIZE];
    size_t used = 0;
    for (; *key != '\0'; key++) {
        if (*key == '_') {
            escaped[used++] = '\\';
        }
        escaped[used++] = *key;
        ck_assert_uint_lt(used, HEAD_SIZE - 2);
    }
    escaped[used] = '\0';
    for (const char *at = section; (at = strstr(at, escaped)) != NULL; at++) {
        if (strchr("_ \n", at[-1]) != NULL && strchr("_ ,.\n", at[used]) != NULL) {
            return true;
        }
    }
    return false;
}

/* The manual tells of every key of a request but those of a sandbox, which are in that of
 * sbx-run. */
START_TEST(test_request_keys)
{
    static const enum sbx_section sections[] = {SBX_SECTION_TOP, SBX_SECTION_LIMITS};
    char key[SBX_KEY_NAME_SIZE];
    unsigned keys = 0;
    read_source(SOURCE "docs/sbxd.8.scd", text);
    char *section = strstr(text, "\n# A REQUEST\n");
    ck_assert_ptr_nonnull(section);
    *strstr(section + 1, "\n# ") = '\0';
    ck_assert(!names_key(section, "no_such_key"));
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        size_t count = 0;
        const struct sbx_option *options = sbx_section_options(sections[i], &count);
        for (size_t j = 0; j < count; j++) {
            if (sbx_request_key(&options[j], sections[i], key)) {
                ck_assert_msg(names_key(section, key), "the manual lacks key %s", key);
                keys++;
            }
        }
    }
    for (const char *const *other = sbx_section_others(SBX_SECTION_TOP); *other != NULL;
         other++) {
        ck_assert_msg(names_key(section, *other), "the manual lacks key %s", *other);
    }
    ck_assert_uint_gt(keys, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("documents");
    TCase *documents = sbx_fixture_case(suite, "documents", 60);
    tcase_add_loop_test(documents, test_help, 0, TOOL_COUNT);
    tcase_add_loop_test(documents, test_help_layout, 0, TOOL_COUNT);
    tcase_add_loop_test(documents, test_manual, 0, TOOL_COUNT);
    tcase_add_loop_test(documents, test_manual_names, 0, TOOL_COUNT);
    tcase_add_loop_test(documents, test_readme, 0, TOOL_COUNT);
    tcase_add_test(documents, test_checks);
    tcase_add_test(documents, test_request_keys);
    return sbx_fixture_run(suite);
}
