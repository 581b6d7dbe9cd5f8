/*
 * launch_faults.h - makes system calls of the launch go wrong, in the caller or in the
 * child, by the linker's --wrap (CMakeLists.txt has the list of calls, launch_faults.c
 * what stands in for them).
 */
#ifndef SBX_TESTS_LAUNCH_FAULTS_H
#define SBX_TESTS_LAUNCH_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

enum kind {
    FAIL = 0, /* -1 with errno `with` */
    LIE,      /* says success, with a wrong result: see launch_faults.c for each call */
    PARTLY,   /* writes `with` bytes, and says so */
    RAISE,    /* raises signal `with`, then goes on */
    EXIT,     /* _exit(with) */
    HANG,     /* never comes back */
};

struct fault {
    const char *call; /* NULL: none */
    enum kind kind;
    int with;
    int skip;  /* so many calls, of those that no row before it took, go through */
    int times; /* 0 is once */
    bool in_caller;
};

#define FAULT_MAX 6
#define ALWAYS 1000000

/* A fault in the child, in the caller; further fields may follow. */
#define CHILD(name, how, value, ...)                                                     \
    {                                                                                    \
        .call = name, .kind = how, .with = value, __VA_ARGS__                            \
    }
#define CALLER(name, how, value, ...)                                                    \
    {                                                                                    \
        .call = name, .kind = how, .with = value, .in_caller = true, __VA_ARGS__         \
    }

/* From now on the calling process, and those that it forks, meet these faults. */
void sbx_faults_begin(const struct fault *rows, size_t count);

/* No more faults. Returns whether the caller has meanwhile aimed a signal or a group at a
 * pid that is no single process of its own (-1, 0, 1). */
bool sbx_faults_end(void);

#endif
