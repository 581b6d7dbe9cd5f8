/*
 * seccomp_numbers.h - what the kernel's headers on this machine call the numbers of
 * system calls, for three machines: each table is made in a file of its own, since their
 * headers define the same names.
 *
 * A name that the headers do not know stays as it is written and so is no number.
 */
#ifndef SBX_TESTS_SECCOMP_NUMBERS_H
#define SBX_TESTS_SECCOMP_NUMBERS_H

struct sbx_kit_number {
    const char *name;
    const char *number; /* digits, or else unknown */
};

/* Ended by a NULL name; empty where there are no such headers. */
extern const struct sbx_kit_number sbx_kit_numbers_x86_64[];
extern const struct sbx_kit_number sbx_kit_numbers_i386[];
extern const struct sbx_kit_number sbx_kit_numbers_aarch64[];

#define SBX_TEXT_OF(expanded) #expanded
#define SBX_NUMBER(name, value)                                                          \
    {                                                                                    \
        name, SBX_TEXT_OF(value)                                                         \
    }
#define SBX_CALL(name) SBX_NUMBER(#name, __NR_##name)

/* clang-format off */
#define SBX_KIT_NUMBERS                                                                  \
    SBX_CALL(keyctl), SBX_CALL(add_key), SBX_CALL(request_key), SBX_CALL(bpf),           \
    SBX_CALL(userfaultfd), SBX_CALL(perf_event_open), SBX_CALL(io_uring_setup),          \
    SBX_CALL(io_uring_enter), SBX_CALL(io_uring_register), SBX_CALL(kexec_load),         \
    SBX_CALL(kexec_file_load), SBX_CALL(mount), SBX_CALL(umount), SBX_CALL(umount2),     \
    SBX_CALL(pivot_root), SBX_CALL(chroot), SBX_CALL(open_tree),                         \
    SBX_CALL(open_tree_attr), SBX_CALL(move_mount), SBX_CALL(fsopen),                    \
    SBX_CALL(fsconfig), SBX_CALL(fsmount), SBX_CALL(fspick), SBX_CALL(mount_setattr),    \
    SBX_CALL(setns), SBX_CALL(unshare), SBX_CALL(clone), SBX_CALL(clone3),               \
    SBX_CALL(init_module), SBX_CALL(finit_module), SBX_CALL(delete_module),              \
    SBX_CALL(create_module), SBX_CALL(swapon), SBX_CALL(swapoff), SBX_CALL(reboot),      \
    SBX_CALL(acct), SBX_CALL(quotactl), SBX_CALL(quotactl_fd), SBX_CALL(nfsservctl),     \
    SBX_CALL(lookup_dcookie), SBX_CALL(vhangup), SBX_CALL(open_by_handle_at),            \
    SBX_CALL(stime), SBX_CALL(settimeofday), SBX_CALL(clock_settime),                    \
    SBX_CALL(clock_settime64), SBX_CALL(clock_adjtime), SBX_CALL(clock_adjtime64),       \
    SBX_CALL(syslog), SBX_CALL(uselib), SBX_CALL(ustat), SBX_CALL(iopl),                 \
    SBX_CALL(ioperm), SBX_CALL(vm86), SBX_CALL(vm86old), SBX_CALL(prlimit64),            \
    SBX_CALL(setpriority), SBX_CALL(sched_setparam), SBX_CALL(sched_setscheduler),       \
    SBX_CALL(sched_setattr), SBX_CALL(sched_setaffinity), SBX_CALL(ioctl)
/* clang-format on */

#endif
