/*
 * request_values.c - values of a request as they would stand on a command line, which is
 * the only form that options know.
 *
 * A number of JSON is taken for what it says: integers as they are, fractions as the
 * shortest decimal that means the same double, written without exponent, so that 0.1 is
 * a tenth and not what binary makes of it. One that is no such number (too large to be
 * exact, not a whole microsecond) is refused. Never depends on the locale.
 */
#include "supervisor/request_private.h"

#include "base/error.h"
#include "base/text.h"
#include "monitor/option_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above it not every whole number is a double. */
#define REAL_LIMIT 9007199254740992.0
#define REAL_DIGITS 17
/* "0.", 324 zeros, digits. */
#define NUMBER_SIZE 360

/* --- messages --- */

int sbx_request_refuse(struct sbx_error *err, int code, const char *key,
                       const char *format, ...)
{
    char text[SBX_ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return sbx_error_set(err, code, SBX_STAGE_OPTIONS, "%s: %s", key, text);
}

int sbx_request_no_memory(struct sbx_error *err)
{
    return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "no memory for the request");
}

int sbx_request_blame(const char *key, int result, struct sbx_error *err)
{
    static const char option[] = "option --";
    char text[SBX_ERROR_MESSAGE_SIZE];
    int code = result == -ENOMEM ? ENOMEM : EINVAL;
    if (err == NULL) {
        return -code;
    }
    const char *rest = err->message;
    if (strncmp(rest, option, sizeof option - 1) == 0) {
        const char *colon = strstr(rest, ": ");
        rest = colon != NULL ? colon + 2 : rest;
    }
    (void)snprintf(text, sizeof text, "%s", rest);
    return sbx_request_refuse(err, code, key, "%s", text);
}

const char *sbx_value_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

/* --- kinds --- */

enum sbx_value_kind sbx_value_kind_of(const struct sbx_option *option)
{
    static const struct {
        const char *word; /* begins the table's */
        enum sbx_value_kind kind;
    } kinds[] = {
        {"DUR", SBX_VALUE_DURATION},  {"SIZE", SBX_VALUE_SIZE},
        {"PERCENT", SBX_VALUE_COUNT}, {"SIG", SBX_VALUE_SIGNAL},
        {"PATH", SBX_VALUE_PATH},     {"FILE", SBX_VALUE_PATH},
        {"DIR", SBX_VALUE_PATH},
    };
    if (option->value == NULL) {
        return SBX_VALUE_FLAG;
    }
    if (strcmp(option->value, "N") == 0) {
        return SBX_VALUE_COUNT;
    }
    for (size_t i = 0; i < SBX_LENGTH(kinds); i++) {
        if (strncmp(option->value, kinds[i].word, strlen(kinds[i].word)) == 0) {
            return kinds[i].kind;
        }
    }
    return SBX_VALUE_TEXT;
}

static bool takes_numbers(enum sbx_value_kind kind)
{
    return kind == SBX_VALUE_DURATION || kind == SBX_VALUE_SIZE ||
           kind == SBX_VALUE_COUNT || kind == SBX_VALUE_SIGNAL ||
           kind == SBX_VALUE_CEILING;
}

/* --- numbers --- */

/* d1d2d3... * 10^(exponent - 1) without an exponent. */
static void write_plain(char text[static NUMBER_SIZE], const char *digits, int exponent)
{
    int count = (int)strlen(digits);
    char *at = text;
    if (exponent <= 0) {
        *at++ = '0';
        *at++ = '.';
        for (int i = exponent; i < 0; i++) {
            *at++ = '0';
        }
    }
    for (int i = 0; i < count || i < exponent; i++) {
        if (i == exponent && i > 0) {
            *at++ = '.';
        }
        *at++ = i < count ? digits[i] : '0';
    }
    *at = '\0';
}

/* The shortest row of digits that reads back as the same number. */
static int real_text(double real, char text[static NUMBER_SIZE])
{
    char scientific[64];
    char digits[REAL_DIGITS + 1];
    size_t used = 0;
    if (!(real >= 0 && real < REAL_LIMIT)) {
        return -ERANGE;
    }
    for (int precision = 0; precision < REAL_DIGITS; precision++) {
        (void)snprintf(scientific, sizeof scientific, "%.*e", precision, real);
        if (strtod(scientific, NULL) == real) { /* NOLINT(clang-diagnostic-float-equal) */
            break;
        }
    }
    const char *at = scientific;
    for (; *at != 'e' && *at != '\0'; at++) { /* the point is the locale's */
        if (*at >= '0' && *at <= '9' && used < REAL_DIGITS) {
            digits[used++] = *at;
        }
    }
    digits[used] = '\0';
    int exponent = *at == 'e' ? (int)strtol(at + 1, NULL, 10) : 0;
    write_plain(text, digits, exponent + 1);
    return 0;
}

static int number_text(const json_t *value, const char *key, char **ret_text,
                       struct sbx_error *err)
{
    char text[NUMBER_SIZE];
    if (json_is_integer(value)) {
        (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
    } else if (real_text(json_real_value(value), text) < 0) {
        return sbx_request_refuse(err, EINVAL, key,
                                  "is out of range (accepted: a number from 0 to 2^53, "
                                  "or the same as text)");
    }
    *ret_text = strdup(text);
    return *ret_text != NULL ? 0 : sbx_request_no_memory(err);
}

int sbx_value_text(const json_t *value, enum sbx_value_kind kind, const char *key,
                   char **ret_text, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    if (json_is_number(value) && takes_numbers(kind)) {
        return number_text(value, key, ret_text, err);
    }
    if (!json_is_string(value)) {
        return sbx_request_refuse(err, EINVAL, key, "is %s (accepted: a string%s)",
                                  sbx_value_type(value),
                                  takes_numbers(kind) ? " or a number" : "");
    }
    const char *string = json_string_value(value);
    if (kind == SBX_VALUE_PATH && string[0] != '/') {
        return sbx_request_refuse(err, EINVAL, key, "'%s' is no absolute path",
                                  sbx_option_quote(quoted, string));
    }
    char *text = strdup(string);
    if (text == NULL) {
        return sbx_request_no_memory(err);
    }
    *ret_text = text;
    return 0;
}

char *sbx_value_canonical(enum sbx_value_kind kind, const char *text)
{
    char canonical[NUMBER_SIZE];
    char name[SBX_SIGNAL_NAME_SIZE];
    uint64_t number = 0;
    int signal_number = 0;
    (void)snprintf(canonical, sizeof canonical, "%s", "");
    if (kind == SBX_VALUE_DURATION && sbx_text_duration(text, &number) == 0) {
        (void)snprintf(canonical, sizeof canonical, "%" PRIu64 "us", number);
    } else if (kind == SBX_VALUE_SIZE && sbx_text_size(text, &number) == 0) {
        (void)snprintf(canonical, sizeof canonical, "%" PRIu64, number);
    } else if (kind == SBX_VALUE_SIGNAL && sbx_text_signal(text, &signal_number) == 0) {
        /* A name may be of no signal that a number can be (SIG33): those stay numbers. */
        (void)sbx_text_signal_name(signal_number, name);
        (void)snprintf(canonical, sizeof canonical, "%d", signal_number);
        if (sbx_text_signal(name, &signal_number) == 0) {
            (void)snprintf(canonical, sizeof canonical, "%s", name);
        }
    }
    return strdup(canonical[0] != '\0' ? canonical : text);
}

/* --- base64 --- */

static int sextet(char letter)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = letter != '\0' ? strchr(alphabet, letter) : NULL;
    return found != NULL ? (int)(found - alphabet) : -1;
}

/* Four letters as up to three bytes; how many, or -EINVAL. Bits that are left over are
 * zeros: there is one spelling of any data. */
static int decode_group(const char *group, bool last, char bytes[static 3])
{
    int count = 3;
    unsigned bits = 0;
    if (last && group[3] == '=') {
        count = group[2] == '=' ? 1 : 2;
    }
    for (int i = 0; i < 4; i++) {
        int value = i <= count ? sextet(group[i]) : 0;
        if (value < 0) {
            return -EINVAL;
        }
        bits = bits << 6 | (unsigned)value;
    }
    if ((count == 1 && (bits & 0xFFFFU) != 0) || (count == 2 && (bits & 0xFFU) != 0)) {
        return -EINVAL;
    }
    for (int i = 0; i < 3; i++) {
        bytes[i] = (char)(bits >> (16 - 8 * i) & 0xFFU);
    }
    return count;
}

int sbx_value_base64(const char *text, size_t length, char **ret_data, size_t *ret_length)
{
    if (length % 4 != 0) {
        return -EINVAL;
    }
    char *data = malloc(length / 4 * 3 + 1);
    if (data == NULL) {
        return -ENOMEM;
    }
    size_t used = 0;
    for (size_t at = 0; at < length; at += 4) {
        char bytes[3];
        int count = decode_group(text + at, at + 4 == length, bytes);
        if (count < 0) {
            free(data);
            return count;
        }
        memcpy(data + used, bytes, (size_t)count);
        used += (size_t)count;
    }
    *ret_data = data;
    *ret_length = used;
    return 0;
}
