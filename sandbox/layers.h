/*
 * layers.h - which layer of a host refuses what a sandbox needs, and what helps: sysctl,
 * a security module, seccomp, a missing or too old package, permissions.
 *
 * Facts read from the host, and small experiments in processes of our own that end at
 * once. Used where bubblewrap has failed, to say why, and by the verification. For
 * single-threaded programs: the experiments fork.
 */
#ifndef SBX_SANDBOX_LAYERS_H
#define SBX_SANDBOX_LAYERS_H

#include <sbx/sbx.h>
#include <stdbool.h>
#include <sys/types.h>

#define SBX_LAYER_TEXT_SIZE 240
#define SBX_LAYER_NAME_SIZE 32

/* What was found out about one need. */
struct sbx_layer {
    bool ok;
    char layer[SBX_LAYER_NAME_SIZE];   /* "sysctl", "apparmor", "selinux", "seccomp",
                         "package", "kernel", "permissions", "proc"; empty when ok */
    char detail[SBX_LAYER_TEXT_SIZE];  /* what was seen: "max_user_namespaces is 0" */
    char remedy[SBX_LAYER_TEXT_SIZE];  /* what helps; empty when ok */
    char version[SBX_LAYER_NAME_SIZE]; /* of bubblewrap, where that was asked: "0.8.0" */
};

/* The oldest bubblewrap that has all that we need. */
#define SBX_BWRAP_MAJOR 0
#define SBX_BWRAP_MINOR 8

/*
 * Each makes its experiment with the identity uid:gid (that of the calling process, or
 * any for root), and fills in *ret. They return 0, or a negative errno when the
 * experiment could not be made at all.
 */
int sbx_layer_user_namespaces(uid_t uid, gid_t gid, struct sbx_layer *ret);
/* A new procfs in a PID namespace inside of a user namespace: refused where the /proc
 * that we see is itself covered in places, as in containers. */
int sbx_layer_nested_proc(uid_t uid, gid_t gid, struct sbx_layer *ret);
/* Runs `path --version`, with a bound. `path` is absolute; NULL: none was found in PATH.
 */
int sbx_layer_bwrap(const char *path, uid_t uid, gid_t gid, struct sbx_layer *ret);

/* Whether one of them stands in the way of a sandbox that was tried and has failed: the
 * first one, in *ret. `wants_proc`: it was to have a procfs. */
bool sbx_layer_find(const char *bwrap, uid_t uid, gid_t gid, bool wants_proc,
                    struct sbx_layer *ret);

/* Puts that at the end of a failure's message: " (LAYER: DETAIL; REMEDY)". */
void sbx_layer_explain(const char *bwrap, uid_t uid, gid_t gid, bool wants_proc,
                       struct sbx_error *err);

/* --- what the above is made of --- */

/* Becomes that user, without groups, for good; or is it already. Another one's processes
 * cannot look into it: so its own files in /proc cannot be written either. 0 or a
 * negative errno. */
int sbx_layer_become(uid_t uid, gid_t gid);

/* The step of an experiment at which the kernel said no. */
enum sbx_layer_step {
    SBX_LAYER_IDENTITY = 0, /* becoming that user */
    SBX_LAYER_USER,         /* the user namespace */
    SBX_LAYER_MAP,          /* its uid_map and gid_map */
    SBX_LAYER_MOUNT_SPACE,  /* a mount namespace in it */
    SBX_LAYER_MOUNT,        /* a mount in that */
    SBX_LAYER_PID_SPACE,    /* a PID namespace in it */
    SBX_LAYER_PROC          /* a procfs in that */
};

/* Who is to blame when `step` has failed with `code` (a positive errno value) for a
 * process of that user: told from sysctls, status, attr/current and mountinfo below
 * `proc_fd`, the root of a /proc. */
void sbx_layer_blame(int proc_fd, enum sbx_layer_step step, int code, uid_t uid,
                     struct sbx_layer *ret);

/* Reads the version out of what `bwrap --version` prints, and compares it. -EINVAL when
 * it is no such text. */
int sbx_layer_bwrap_version(const char *text,
                            char ret_version[static SBX_LAYER_NAME_SIZE],
                            bool *ret_new_enough);

#endif
