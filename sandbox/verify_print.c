/*
 * verify_print.c - what a verification has found, as JSON (docs/verify.schema.json) and
 * as a table for people.
 */
#include "sandbox/verify.h"

#include "base/text.h"
#include "monitor/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_SIZE ((size_t)256 * 1024)
#define TEXT_SIZE ((size_t)128 * 1024)
#define NAME_WIDTH 20

static const char *version_of(const struct sbx_verification *verification)
{
    return verification->board->findings[sbx_check_find("bubblewrap")].layer.version;
}

static void write_text(struct sbx_json *json, const char *key, const char *text)
{
    if (text[0] != '\0') {
        sbx_json_bytes(json, key, text, strlen(text));
    }
}

/* --- JSON --- */

static void write_check(struct sbx_json *json, size_t index,
                        const struct sbx_finding *finding)
{
    sbx_json_object(json, NULL);
    sbx_json_string(json, "name", sbx_check_kinds[index].name);
    if (finding->verdict != SBX_VERDICT_NOT_APPLICABLE) {
        sbx_json_bool(json, "ok", finding->verdict == SBX_VERDICT_YES);
    }
    write_text(json, "detail", finding->layer.detail);
    if (finding->verdict == SBX_VERDICT_NO) {
        write_text(json, "layer", finding->layer.layer);
        write_text(json, "remedy", finding->layer.remedy);
    }
    sbx_json_close(json);
}

static void write_needs(struct sbx_json *json,
                        const struct sbx_verification *verification)
{
    sbx_json_array(json, "need");
    for (size_t i = 0; i < verification->need_count; i++) {
        sbx_json_string(json, NULL, verification->needs[i]);
    }
    sbx_json_close(json);
    sbx_json_array(json, "missing");
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (!sbx_verification_check_holds(verification, i)) {
            sbx_json_string(json, NULL, sbx_check_kinds[i].name);
        }
    }
    sbx_json_close(json);
}

static ssize_t write_json(const struct sbx_verification *verification, char *buffer)
{
    struct sbx_json json;
    sbx_json_init(&json, buffer, JSON_SIZE);
    sbx_json_object(&json, NULL);
    sbx_json_string(&json, "schema", "sbx.verify/1");
    sbx_json_bool(&json, "supported", sbx_verification_is_yes(verification, "sandbox"));
    sbx_json_bool(&json, "network_isolation",
                  sbx_verification_is_yes(verification, "network"));
    sbx_json_bool(&json, "resource_limits",
                  sbx_verification_group_holds(verification, "limits"));
    sbx_json_bool(&json, "holds", sbx_verification_holds(verification) != 0);
    sbx_json_number(&json, "uid", verification->uid);
    sbx_json_number(&json, "gid", verification->gid);
    write_text(&json, "kernel", verification->kernel);
    write_text(&json, "bwrap", verification->found_bwrap);
    write_text(&json, "bwrap_version", version_of(verification));
    sbx_json_number(&json, "took_us", verification->board->took_us);
    write_needs(&json, verification);
    sbx_json_array(&json, "checks");
    for (size_t i = 0; i < sbx_check_count; i++) {
        write_check(&json, i, &verification->board->findings[i]);
    }
    sbx_json_close(&json);
    sbx_json_close(&json);
    return sbx_json_finish(&json);
}

const char *sbx_verification_json(struct sbx_verification *verification)
{
    if (verification->board == NULL) {
        return NULL;
    }
    if (verification->json == NULL) {
        char *buffer = malloc(JSON_SIZE);
        if (buffer != NULL && write_json(verification, buffer) < 0) {
            free(buffer);
            buffer = NULL;
        }
        verification->json = buffer;
    }
    return verification->json;
}

/* --- for people --- */

static const char *word_of(enum sbx_verdict verdict)
{
    switch (verdict) {
    case SBX_VERDICT_YES:
        return "yes";
    case SBX_VERDICT_NOT_APPLICABLE:
        return "n.a.";
    case SBX_VERDICT_OPEN:
    case SBX_VERDICT_NO:
        break;
    }
    return "no";
}

/* There may be names from outside in it. */
static void print_escaped(FILE *stream, const char *text)
{
    char escaped[4 * SBX_LAYER_TEXT_SIZE];
    (void)sbx_text_escape(escaped, sizeof escaped, text, strlen(text));
    (void)fputs(escaped, stream);
}

static void print_check(FILE *stream, size_t index, const struct sbx_finding *finding)
{
    const struct sbx_layer *layer = &finding->layer;
    (void)fprintf(stream, "%-5s%-*s ", word_of(finding->verdict), NAME_WIDTH,
                  sbx_check_kinds[index].name);
    print_escaped(stream, layer->detail);
    if (finding->verdict == SBX_VERDICT_NO) {
        (void)fprintf(stream, " [%s]%s%s", layer->layer,
                      layer->remedy[0] != '\0' ? " remedy: " : "", layer->remedy);
    }
    (void)fputc('\n', stream);
}

static void print_all(FILE *stream, const struct sbx_verification *verification)
{
    (void)fprintf(stream, "user %u:%u, kernel %s, ", verification->uid, verification->gid,
                  verification->kernel);
    print_escaped(stream, verification->found_bwrap[0] != '\0' ? verification->found_bwrap
                                                               : "no bubblewrap");
    (void)fprintf(stream, "%s%s, verified in %" PRIu64 " ms\n\n",
                  version_of(verification)[0] != '\0' ? " " : "",
                  version_of(verification), verification->board->took_us / 1000);
    for (size_t i = 0; i < sbx_check_count; i++) {
        print_check(stream, i, &verification->board->findings[i]);
    }
    const char *separator = "\nneeded, and does not hold: ";
    for (size_t i = 0; i < sbx_check_count; i++) {
        if (!sbx_verification_check_holds(verification, i)) {
            (void)fprintf(stream, "%s%s", separator, sbx_check_kinds[i].name);
            separator = ", ";
        }
    }
    if (separator[1] == ' ') {
        (void)fputc('\n', stream);
    }
    (void)fputs(sbx_verification_is_yes(verification, "sandbox")
                    ? "\nsandboxes are supported here\n"
                    : "\nsandboxes are not supported here\n",
                stream);
}

const char *sbx_verification_text(struct sbx_verification *verification)
{
    if (verification->board == NULL || verification->text != NULL) {
        return verification->text;
    }
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream == NULL) {
        return NULL;
    }
    print_all(stream, verification);
    bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return NULL;
    }
    verification->text = text;
    return text;
}
