/*
 * seccomp.h - the default system call filter of a sandbox: what a confined worker never
 * needs and the kernel has had its holes in. A BPF program made at run time from one
 * table; the plan shows the table's names.
 *
 * Defence in depth: the sandbox's other walls do not depend on it. Refused calls fail
 * with EPERM (clone3 with ENOSYS, after which the C library uses clone, whose flags a
 * filter can see), nothing is killed.
 */
#ifndef SBX_SANDBOX_SECCOMP_H
#define SBX_SANDBOX_SECCOMP_H

#include <sbx/sbx.h>
#include <stddef.h>

struct sock_filter;

/* What the default filter refuses, in the order of the table: "keyctl", "bpf", ...,
 * "clone(CLONE_NEWUSER)", "ioctl(TIOCSTI)". Static. */
const char *const *sbx_seccomp_refused(size_t *ret_count);

/* The program, allocated, for the caller to free; *ret_count instructions. Calls of
 * another architecture than ours are refused by the same table where we know its numbers
 * (i386 beside x86-64), all of them where not. 0, -ENOMEM, -EOPNOTSUPP on an architecture
 * without table. */
int sbx_seccomp_default(struct sock_filter **ret_program, size_t *ret_count,
                        struct sbx_error *err);

/* Reads a program from a descriptor of the caller's, from where it stands, to the end:
 * whole instructions, 1 to 4096 of them (what the kernel takes). 0, -EINVAL, -EBADF,
 * -ETIMEDOUT after 10 s, ...
 */
int sbx_seccomp_read(int fd, struct sock_filter **ret_program, size_t *ret_count,
                     struct sbx_error *err);

#endif
