/*
 * command_line.h - what the programs in here have in common: messages, the help of an
 * option table, and standard streams that are open.
 *
 * Like they themselves it sees nothing of the project but <sbx/sbx.h>.
 */
#ifndef SBX_TOOLS_COMMAND_LINE_H
#define SBX_TOOLS_COMMAND_LINE_H

#include <sbx/sbx.h>
#include <stddef.h>

/* One line on stderr: "PROGRAM: WHATMESSAGEHINT". The reader may be gone: that must not
 * turn our exit status into a death by SIGPIPE, nor may one that reads nothing, or a
 * terminal, make us wait for ever. SIGPIPE and SIGTTOU are ignored from then on, and
 * SIGALRM is ours. */
void sbx_line_complain(const char *program, const char *what, const char *message,
                       const char *hint);

/* By name, or by letter where name is NULL. NULL: there is none. */
const struct sbx_option *sbx_line_find(const struct sbx_option *table, size_t count,
                                       const char *name, char letter);

/* On stdout, under their headings, wrapped. */
void sbx_line_print_options(const struct sbx_option *table, size_t count);

/* Exit status: 0, or 125 and a complaint when not all could be written. */
int sbx_line_close_stdout(const char *program);

/* Puts /dev/null in place of those of 0 to 2 that are closed: else the next file that is
 * opened would become the command's standard stream. 0 or a negative errno. */
int sbx_line_open_standard_streams(void);

#endif
