/*
 * report.h - what a finished record becomes: JSON text, an exit status, one line, and its
 * way to where the user wants it.
 *
 * Makes no decision about the run: what the record says is what the report says.
 * Allocates nothing while it writes, so that a guard whose memory is short can still
 * publish. Format in report.c, status and line in outcome.c, destinations in publish.c.
 */
#ifndef SBX_MONITOR_REPORT_H
#define SBX_MONITOR_REPORT_H

#include "monitor/record.h"
#include "monitor/spec.h"

#include <sbx/sbx.h>
#include <stddef.h>
#include <sys/stat.h>

#define SBX_REPORT_SCHEMA "sbx.report/1"

/* How many bytes of JSON the arguments of the command may take. */
#define SBX_REPORT_COMMAND_SIZE ((size_t)128 * 1024)

/* Large enough for every list at its cap and for a command of SBX_REPORT_COMMAND_SIZE
 * escaped bytes. */
#define SBX_REPORT_SIZE ((size_t)256 * 1024)

/*
 * Writes the report as one line of JSON with a line feed at its end, schema
 * "sbx.report/1" (docs/report.schema.json). A command too long for its share is cut to
 * whole arguments and `command_count` says how many there were. Returns the length, or
 * -ENOBUFS (cannot happen with a buffer of SBX_REPORT_SIZE).
 */
ssize_t sbx_report_format(const struct sbx_spec *spec, const struct sbx_record *record,
                          char *buffer, size_t size);

/* The value of "breach" in a report: an object, without line feed. The length, or
 * -ENOBUFS. */
ssize_t sbx_report_breach(const struct sbx_breach *breach, char *buffer, size_t size);

/*
 * The report in the form that spec->format asks for: `json` (SBX_REPORT_SIZE) receives it
 * as JSON, `other` (SBX_RENDER_SIZE) in any other form. *ret_text is one of the two. The
 * length, or a negative errno.
 */
ssize_t sbx_report_render(const struct sbx_spec *spec, const struct sbx_record *record,
                          char *json, char *other, const char **ret_text);

/* Whether the specification asks for a report anywhere. */
bool sbx_report_wanted(const struct sbx_spec *spec);

/*
 * Puts the text where spec->report_path says, and into the descriptor spec->report_fd, in
 * place, whatever kind it is; both get it if both are asked for, and the error of one
 * does not keep it from the other. Of paths: "-" is stderr; a regular or absent file is
 * replaced atomically (temporary file in the same directory, fsync, rename; no temporary
 * file is left on failure); anything else (a device, a FIFO, a socket, a file that is a
 * mount point of its own) is written in place without waiting for ever for an absent
 * reader. Symlinks are followed as open(2) would, so the file that they lead to is the
 * one replaced; a link of /proc (where /dev/stdout leads) is written in place, at the
 * end. The descriptor spec->report_directory_fd, held since the start, is what relative
 * paths are resolved against. No signal of the writing (SIGPIPE, SIGXFSZ, SIGTTOU)
 * reaches the caller. 0, also without a path, or a negative errno, stage report.
 */
int sbx_report_publish(const struct sbx_spec *spec, const char *text, size_t length,
                       struct sbx_error *err);

/* Fails early, before anything runs, when the report could not be written there (no such
 * directory, not writable). Changes nothing. 0 or a negative errno, stage report. */
int sbx_report_check(const struct sbx_spec *spec, struct sbx_error *err);

/* Whether the report will stand in place of this file, which exists. */
bool sbx_report_replaces(const struct sbx_spec *spec, const struct stat *file);

/* The exit status that the contract gives to this record: see the table in docs and
 * manual. */
int sbx_report_status(const struct sbx_spec *spec, const struct sbx_record *record);

/* The one line for stderr that a breach, strays, survivors, a failed launch or a lost
 * monitor deserve, without line feed: "sbx-watch: breach: wall limit 2s, observed
 * 2.001s". Empty when there is nothing to say; with spec->quiet only a failed launch,
 * survivors and a lost monitor speak. Returns buffer. */
#define SBX_REPORT_LINE_SIZE 1024
const char *sbx_report_line(const struct sbx_spec *spec, const struct sbx_record *record,
                            char buffer[static SBX_REPORT_LINE_SIZE]);

/*
 * Spells a message of ours (at most `length` bytes, up to a NUL) as valid text of one
 * line: like sbx_text_escape, but a backslash stays one, since names in messages are
 * escaped already. Returns the number of bytes written; SBX_REPORT_PROSE_SIZE(length)
 * always suffices.
 */
#define SBX_REPORT_PROSE_SIZE(length) (4 * (length) + 16)
size_t sbx_report_prose(char *buffer, size_t size, const char *message, size_t length);

#endif
