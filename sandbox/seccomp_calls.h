/*
 * seccomp_calls.h - what the default filter refuses: the table, see seccomp.h. Private to
 * seccomp.c and its test.
 *
 * The numbers are written out rather than taken from the headers of the machine that
 * builds: those of two architectures do not go together in one file, and those of an old
 * machine do not know the newer calls, which would then be let through. They are part of
 * the kernel's promise to programs and never change; the test compares those that the
 * headers here know.
 */
#ifndef SBX_SANDBOX_SECCOMP_CALLS_H
#define SBX_SANDBOX_SECCOMP_CALLS_H

#include <stddef.h>

enum sbx_seccomp_rule {
    SBX_RULE_REFUSE,   /* EPERM */
    SBX_RULE_UNKNOWN,  /* ENOSYS */
    SBX_RULE_CLONE,    /* EPERM with a flag that makes a namespace */
    SBX_RULE_UNSHARE,  /* likewise; knows one flag more */
    SBX_RULE_SETTING,  /* EPERM for the limits of process 1 */
    SBX_RULE_FIRST,    /* EPERM for process 1 */
    SBX_RULE_PRIORITY, /* likewise, and for groups and users, which may have it */
    SBX_RULE_TERMINAL  /* EPERM for requests that put words in a terminal's mouth */
};

enum sbx_seccomp_machine {
    SBX_MACHINE_X86_64,
    SBX_MACHINE_I386,
    SBX_MACHINE_AARCH64,
    SBX_MACHINE_COUNT
};

struct sbx_seccomp_call {
    const char *name;
    short numbers[SBX_MACHINE_COUNT]; /* -1: not there */
    enum sbx_seccomp_rule rule;
};

const struct sbx_seccomp_call *sbx_seccomp_calls(size_t *ret_count);

#endif
