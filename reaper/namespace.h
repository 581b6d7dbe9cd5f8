/*
 * namespace.h - a PID namespace that a run makes for its command (--pid-namespace): what
 * its processes tell the monitor and the guard.
 *
 *     monitor -> front -> init -> command
 *                         ^^^^^^^^^^^^^^^ in the namespace
 *
 * The leader that the monitor launches is the front: outside, so that it is an ordinary
 * child with a pid, a process group and a place in the terminal's foreground. The init
 * holds the namespace and reaps in it; with it all others end, the kernel sees to that.
 * None of the two ever executes anything. The front ends with the command. An init that
 * is left with others goes on until they are gone or it is killed, so that they can
 * linger, be waited for, be named and be kept as everywhere else.
 *
 * What they know lies in memory that they share with guard and monitor: an exit status
 * can be handed on by imitating it, but not a core dump, nor the processor time of a
 * process that somebody else has reaped.
 */
#ifndef SBX_REAPER_NAMESPACE_H
#define SBX_REAPER_NAMESPACE_H

#include <stdatomic.h>
#include <stdint.h>

#define SBX_NAMESPACE_INIT_NAME "sbx-init"

/* All zeros before a launch. pids as they are outside, unless it says otherwise. Each
 * word has one writer; `ended` and `heir_ended_us` are set after what they speak for. */
struct sbx_namespace_note {
    _Atomic int init_pid;    /* written by the kernel, before the init runs */
    _Atomic int command_pid; /* by the command's process, before it executes anything */
    _Atomic int executed;    /* the command was */
    _Atomic int ended;       /* the command; these two say how */
    _Atomic int status;      /* its wait status */
    _Atomic uint64_t cpu_us; /* its own, without children */
    /* Somebody else whose end may count (monitor/heir.c): his pid inside, set by the
     * monitor, and his wait status once the init has reaped him. */
    _Atomic int heir_pid_inside;
    _Atomic int heir_status;
    _Atomic uint64_t heir_ended_us; /* CLOCK_MONOTONIC; 0: not yet */
};

#endif
