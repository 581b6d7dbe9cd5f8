/*
 * servant.h - a process of ours beside guard and monitor, for work that may block without
 * end on what the user gave us (a full pipe, a dead disk): only the servant hangs then.
 *
 * The guard forks it before the monitor, so that it is no child of the monitor: the proof
 * that no child is left and the tree know nothing of it. Guard and monitor both hold its
 * pidfd, so either can wait for it and end it, whatever becomes of the other.
 */
#ifndef SBX_REAPER_SERVANT_H
#define SBX_REAPER_SERVANT_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_servant {
    pid_t pid; /* 0: none */
    int pidfd; /* -1: none */
};

#define SBX_NO_SERVANT ((struct sbx_servant){.pid = 0, .pidfd = -1})

/*
 * Forks a servant called `name`, which does `serve` and exits. It has every signal
 * blocked, in a process group of its own, out of reach of the terminal. It has to close
 * what it does not need. 0, or a negative errno and nothing was started.
 */
int sbx_servant_start(struct sbx_servant *servant, const char *name,
                      void (*serve)(void *context), void *context, struct sbx_error *err);

/* In a servant: closes every descriptor but these. A pipe that it does not know of would
 * never end. */
void sbx_servant_keep_only(const int fds[], size_t count);

/* True when it has ended, or there is none. Waits until then (CLOCK_MONOTONIC). */
bool sbx_servant_wait(const struct sbx_servant *servant, uint64_t until_us);

/* Lets it go on if somebody has stopped it: a command of the same user can. */
void sbx_servant_continue(const struct sbx_servant *servant);

/* SIGKILL. */
void sbx_servant_kill(const struct sbx_servant *servant);

/* Kills it, and waits with a bound until it is gone; reaps it if it is the caller's
 * child. Closes the pidfd. */
void sbx_servant_done(struct sbx_servant *servant);

#endif
