/*
 * log_kit.h - reading back what a log says: a parser for key=value lines, and a host of
 * the run's own with a syslog and a journal that are only sockets.
 *
 * The host is a mount namespace in which /dev and /run are directories of the test.
 */
#ifndef SBX_TESTS_LOG_KIT_H
#define SBX_TESTS_LOG_KIT_H

#include "tests/trial.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* One line without its line feed, as an object: numbers as integers, all else as strings,
 * escapes left as they are. Fails the test unless it is one, by the rules of log.h. */
json_t *sbx_kit_parse_kv(const char *line, size_t length);

/* The lines of a text or of a file, each parsed; JSON objects when they begin with a
 * brace. Lines that begin with "sbx-watch:" are skipped. */
json_t *sbx_kit_lines(const char *text);
json_t *sbx_kit_file_lines(const char *path);

/* Those among the lines with that event. */
size_t sbx_kit_count(const json_t *lines, const char *event);
/* The only one; fails the test else. Borrowed. */
const json_t *sbx_kit_only(const json_t *lines, const char *event);
/* A string of it, or "" when absent. */
const char *sbx_kit_string(const json_t *line, const char *key);
json_int_t sbx_kit_integer(const json_t *line, const char *key);

struct sbx_kit_host {
    int syslog;  /* -1: there is none */
    int journal; /* likewise */
    bool stream; /* syslog is a stream socket */
    char dev[SBX_FIXTURE_PATH_SIZE];
    char run[SBX_FIXTURE_PATH_SIZE];
    char hidden[SBX_FIXTURE_PATH_SIZE]; /* a file of the real host that is empty there */
};

/* False, and a visible skip, where no such host can be made. */
bool sbx_kit_host_open(struct sbx_kit_host *host, bool with_sockets, bool stream);
void sbx_kit_host_close(struct sbx_kit_host *host);

/* For sbx_trial.prepare; context: the host. */
void sbx_kit_enter_host(const struct sbx_trial *trial);

/* What has arrived so far: lines without the syslog header, which is checked ("<12>Nov 30
 * 02:03:04 sbx-watch[123]: "); with the severity as "severity". */
json_t *sbx_kit_syslog_lines(struct sbx_kit_host *host);
/* Entries with all their fields: "SBX_EVENT": "breach". "event" is that field again. */
json_t *sbx_kit_journal_entries(struct sbx_kit_host *host);

#endif
