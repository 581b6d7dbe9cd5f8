/*
 * boost.h - scheduling priority for the one that watches and sweeps.
 *
 * Each setsid() gives a bomb a scheduling group of its own, so that at normal priority a
 * monitor gets one share among a thousand: it samples late, misses its deadline, and its
 * sweep loses the race. What is allowed is taken, and nothing is an error: an ordinary
 * user is refused all of it.
 */
#ifndef SBX_REAPER_BOOST_H
#define SBX_REAPER_BOOST_H

#include <sys/types.h>

/* The calling process's nice value to its best. What it forks later starts at normal
 * priority. Nothing is put back. */
void sbx_boost(void);

/* The nice value of a session of one's own (autogroup), which is what counts between
 * sessions. Nothing for a process that does not lead its session. */
void sbx_boost_session(int proc_fd);

/* For a process that wants to run and is not let: SCHED_RR. A session of one's own,
 * however good its nice value, has been seen to wait for half a minute on kernel 6.18
 * while a crowd in another one called sched_yield. */
void sbx_boost_starved(pid_t pid);

/* For a race with a bomb by a process that could not have a session of its own (job
 * control keeps it in its caller's): SCHED_RR. */
void sbx_boost_sweep(void);

#endif
