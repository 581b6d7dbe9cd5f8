/*
 * setting.h - what was set in a specification by name, in order, so that another process
 * can set it again (monitor/wire.h). Only what was accepted is kept. Knows no option.
 */
#ifndef SBX_MONITOR_SETTING_H
#define SBX_MONITOR_SETTING_H

struct sbx_setting {
    struct sbx_setting *next;
    const char *name; /* static: of the option table */
    char *value;      /* owned; NULL: a flag */
};

/* Zeros: none. */
struct sbx_settings {
    struct sbx_setting *first;
    struct sbx_setting *last;
};

/* Of the name only the pointer is kept; `value` is copied. NULL when memory is short. */
struct sbx_setting *sbx_setting_new(const char *name, const char *value);
void sbx_setting_free(struct sbx_setting *setting);

/* The list owns it from now on. */
void sbx_settings_add(struct sbx_settings *settings, struct sbx_setting *setting);
void sbx_settings_done(struct sbx_settings *settings);

#endif
