/*
 * setting.c - see setting.h. A list of single entries, so that an entry is there before
 * its option is tried, and the specification is untouched when that fails.
 */
#include "monitor/setting.h"

#include <stdlib.h>
#include <string.h>

struct sbx_setting *sbx_setting_new(const char *name, const char *value)
{
    struct sbx_setting *setting = calloc(1, sizeof *setting);
    if (setting == NULL) {
        return NULL;
    }
    setting->name = name;
    if (value != NULL) {
        setting->value = strdup(value);
        if (setting->value == NULL) {
            free(setting);
            return NULL;
        }
    }
    return setting;
}

void sbx_setting_free(struct sbx_setting *setting)
{
    if (setting != NULL) {
        free(setting->value);
        free(setting);
    }
}

void sbx_settings_add(struct sbx_settings *settings, struct sbx_setting *setting)
{
    if (settings->last != NULL) {
        settings->last->next = setting;
    } else {
        settings->first = setting;
    }
    settings->last = setting;
}

void sbx_settings_done(struct sbx_settings *settings)
{
    while (settings->first != NULL) {
        struct sbx_setting *setting = settings->first;
        settings->first = setting->next;
        sbx_setting_free(setting);
    }
    settings->last = NULL;
}
