/*
 * option_rules.c - see option_rules.h. Values are strict (base/text.h): one that does not
 * parse, or lies outside the bounds of its rule, leaves the specification as it was.
 */
#include "monitor/option_rules.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct sbx_number_kind sbx_kind_duration = {
    .noun = "a duration",
    .form = "digits with an optional fraction and one of us ms s m h d, at most to the "
            "microsecond; a bare number is seconds",
    .parse = sbx_text_duration,
};

const struct sbx_number_kind sbx_kind_size = {
    .noun = "a size",
    .form = "digits with an optional fraction and one of K M G T (1024, also KiB) or KB "
            "MB GB TB (1000); a bare number is bytes",
    .parse = sbx_text_size,
};

const struct sbx_number_kind sbx_kind_count = {
    .noun = "a number",
    .form = "digits, no leading zero",
    .parse = sbx_text_count,
};

const char *sbx_option_quote(char buffer[static SBX_QUOTE_SIZE], const char *text)
{
    static const char more[] = "...";
    size_t length = strnlen(text, SBX_QUOTE_SIZE);
    size_t room = SBX_QUOTE_SIZE - (sizeof more - 1);
    size_t used = sbx_text_escape(buffer, room, text, length);
    /* Cut, if the text in full would have given more than what was written. */
    char full[4 * SBX_QUOTE_SIZE + 1];
    if (sbx_text_escape(full, sizeof full, text, length) > used) {
        memcpy(buffer + used, more, sizeof more);
    }
    return buffer;
}

int sbx_option_number(const struct sbx_rule *rule, const char *value,
                      uint64_t *ret_number, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    uint64_t number = 0;
    int result = rule->kind->parse(value, &number);
    if (result == -EINVAL) {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is not %s (accepted: %s; %s)", rule->name,
                             sbx_option_quote(quoted, value), rule->kind->noun,
                             rule->kind->form, rule->bounds);
    }
    if (result < 0 || number < rule->minimum || number > rule->maximum) {
        return sbx_error_set(err, ERANGE, SBX_STAGE_OPTIONS,
                             "option --%s: '%s' is out of range (accepted: %s; %s)",
                             rule->name, sbx_option_quote(quoted, value),
                             rule->kind->form, rule->bounds);
    }
    *ret_number = number;
    return 0;
}

/* Index of value in words, or -EINVAL. */
int sbx_option_word(const struct sbx_rule *rule, const char *value, struct sbx_error *err)
{
    char quoted[SBX_QUOTE_SIZE];
    for (int i = 0; rule->words[i] != NULL; i++) {
        if (strcmp(rule->words[i], value) == 0) {
            return i;
        }
    }
    return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                         "option --%s: '%s' is unknown (accepted: %s)", rule->name,
                         sbx_option_quote(quoted, value), rule->bounds);
}

int sbx_set_number(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                   struct sbx_error *err)
{
    uint64_t number = 0;
    int result = sbx_option_number(rule, value, &number, err);
    if (result == 0) {
        memcpy((char *)spec + rule->field, &number, sizeof number);
    }
    return result;
}

int sbx_set_flag(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err)
{
    (void)value;
    (void)err;
    const bool yes = true;
    memcpy((char *)spec + rule->field, &yes, sizeof yes);
    return 0;
}

int sbx_set_int(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                struct sbx_error *err)
{
    uint64_t number = 0;
    int result = sbx_option_number(rule, value, &number, err);
    if (result == 0) {
        const int small = (int)number;
        memcpy((char *)spec + rule->field, &small, sizeof small);
    }
    return result;
}

int sbx_set_word(struct sbx_spec *spec, const struct sbx_rule *rule, const char *value,
                 struct sbx_error *err)
{
    int word = sbx_option_word(rule, value, err);
    if (word < 0) {
        return word;
    }
    memcpy((char *)spec + rule->field, &word, sizeof word);
    return 0;
}

int sbx_option_path(const struct sbx_rule *rule, const char *value, const char *accepted,
                    char **path, struct sbx_error *err)
{
    if (*value == '\0') {
        return sbx_error_set(err, EINVAL, SBX_STAGE_OPTIONS,
                             "option --%s: '' is not a path (accepted: %s)", rule->name,
                             accepted);
    }
    char *copy = strdup(value);
    if (copy == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_OPTIONS, "option --%s: no memory",
                             rule->name);
    }
    free(*path);
    *path = copy;
    return 0;
}
