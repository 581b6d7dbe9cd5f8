/*
 * terminal.h - the controlling terminal: who is in the foreground, and job control for
 * the command.
 *
 * Whenever our group is in the foreground, the command gets a process group of its own
 * and that group the terminal: ^C and ^Z are between the user and the command. When 0, 1
 * or 2 is a pipe, other programs of the same pipeline need the terminal too (`sbx-watch …
 * | less`): then the command stays in our group. The terminal is taken back only from the
 * command: after `bg` it is the shell's, and a shell that loses it ends. All callers have
 * SIGTTOU blocked.
 */
#ifndef SBX_REAPER_TERMINAL_H
#define SBX_REAPER_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct sbx_terminal {
    int fd;          /* the controlling terminal, -1: none */
    bool foreground; /* our group had it when we started */
    bool shared;     /* in a pipeline: the command stays in our group */
};

/* Looks; never fails: without a terminal fd is -1. */
void sbx_terminal_open(struct sbx_terminal *terminal);
void sbx_terminal_close(struct sbx_terminal *terminal);

/* Whether the command gets the terminal when our group is in the foreground. */
bool sbx_terminal_hands_over(const struct sbx_terminal *terminal);

/* Gives it to a group. Errors are not ours to solve (it may have been hung up): ignored.
 */
void sbx_terminal_give(const struct sbx_terminal *terminal, pid_t pgid);

/* Takes it back for our group: from the command's group, or from a group that is no more
 * (a shell below us ended). From anybody else: nothing happens. */
void sbx_terminal_take(const struct sbx_terminal *terminal, pid_t command_pgid);

/* True while our own group is in the foreground. */
bool sbx_terminal_is_ours(const struct sbx_terminal *terminal);

/* True while that group is. */
bool sbx_terminal_is_held_by(const struct sbx_terminal *terminal, pid_t pgid);

/* Stops the calling process by the default action of a job control signal, as a shell
 * expects it of its jobs. True when it was stopped and continued; false where the kernel
 * does not stop it (an orphaned group has no shell to continue it). SIGCONT is blocked;
 * the one that continued us is taken. */
bool sbx_terminal_stop_self(int signal_number);

#endif
