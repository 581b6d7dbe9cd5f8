/*
 * seccomp.c - the default filter: its table, and the program made from it. See seccomp.h.
 *
 * The program looks at the architecture, and then finds the call's number by binary
 * search: about a dozen instructions for a call that is let through. It is made of such
 * instructions only that the kernel (from 5.11 on) can find out by itself which calls are
 * always let through, and does not run it at all for them.
 */
#include "sandbox/seccomp.h"

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/seccomp_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The table also says what is let through on purpose, by not having it:
 *   ptrace, process_vm_readv, personality, modify_ldt: debuggers, and Wine;
 *   adjtimex: with no capability it only reads;
 *   name_to_handle_at: it takes open_by_handle_at to make use of a handle. */
static const struct sbx_seccomp_call calls[] = {
    /* Keys belong to the user, not to the sandbox, and outlive it. */
    {"keyctl", {250, 288, 219}, SBX_RULE_REFUSE},
    {"add_key", {248, 286, 217}, SBX_RULE_REFUSE},
    {"request_key", {249, 287, 218}, SBX_RULE_REFUSE},
    /* Large parts of the kernel, with many holes in the past. */
    {"bpf", {321, 357, 280}, SBX_RULE_REFUSE},
    {"userfaultfd", {323, 374, 282}, SBX_RULE_REFUSE},
    {"perf_event_open", {298, 336, 241}, SBX_RULE_REFUSE},
    /* Its requests are done by threads of the kernel that no filter looks at. */
    {"io_uring_setup", {425, 425, 425}, SBX_RULE_REFUSE},
    {"io_uring_enter", {426, 426, 426}, SBX_RULE_REFUSE},
    {"io_uring_register", {427, 427, 427}, SBX_RULE_REFUSE},
    {"kexec_load", {246, 283, 104}, SBX_RULE_REFUSE},
    {"kexec_file_load", {320, -1, 294}, SBX_RULE_REFUSE},
    /* What a sandbox looks like is settled. */
    {"mount", {165, 21, 40}, SBX_RULE_REFUSE},
    {"umount", {-1, 22, -1}, SBX_RULE_REFUSE}, /* the older call, without flags */
    {"umount2", {166, 52, 39}, SBX_RULE_REFUSE},
    {"pivot_root", {155, 217, 41}, SBX_RULE_REFUSE},
    {"chroot", {161, 61, 51}, SBX_RULE_REFUSE},
    {"open_tree", {428, 428, 428}, SBX_RULE_REFUSE},
    {"open_tree_attr", {467, 467, 467}, SBX_RULE_REFUSE},
    {"move_mount", {429, 429, 429}, SBX_RULE_REFUSE},
    {"fsopen", {430, 430, 430}, SBX_RULE_REFUSE},
    {"fsconfig", {431, 431, 431}, SBX_RULE_REFUSE},
    {"fsmount", {432, 432, 432}, SBX_RULE_REFUSE},
    {"fspick", {433, 433, 433}, SBX_RULE_REFUSE},
    {"mount_setattr", {442, 442, 442}, SBX_RULE_REFUSE},
    /* A user namespace of one's own comes with all capabilities in it, and so opens
     * what the kernel has behind them. */
    {"setns", {308, 346, 268}, SBX_RULE_REFUSE},
    {"unshare(CLONE_NEWUSER)", {272, 310, 97}, SBX_RULE_UNSHARE},
    {"clone(CLONE_NEWUSER)", {56, 120, 220}, SBX_RULE_CLONE},
    {"clone3", {435, 435, 435}, SBX_RULE_UNKNOWN}, /* its flags are in memory */
    {"init_module", {175, 128, 105}, SBX_RULE_REFUSE},
    {"finit_module", {313, 350, 273}, SBX_RULE_REFUSE},
    {"delete_module", {176, 129, 106}, SBX_RULE_REFUSE},
    {"create_module", {174, 127, -1}, SBX_RULE_REFUSE},
    {"swapon", {167, 87, 224}, SBX_RULE_REFUSE},
    {"swapoff", {168, 115, 225}, SBX_RULE_REFUSE},
    {"reboot", {169, 88, 142}, SBX_RULE_REFUSE},
    {"acct", {163, 51, 89}, SBX_RULE_REFUSE},
    {"quotactl", {179, 131, 60}, SBX_RULE_REFUSE},
    {"quotactl_fd", {443, 443, 443}, SBX_RULE_REFUSE},
    {"nfsservctl", {180, 169, 42}, SBX_RULE_REFUSE},
    {"lookup_dcookie", {212, 253, 18}, SBX_RULE_REFUSE},
    {"vhangup", {153, 111, 58}, SBX_RULE_REFUSE},
    /* Opens files by number, past every directory's permissions and every mount. */
    {"open_by_handle_at", {304, 342, 265}, SBX_RULE_REFUSE},
    /* There is one clock for the whole machine. */
    {"stime", {-1, 25, -1}, SBX_RULE_REFUSE},
    {"settimeofday", {164, 79, 170}, SBX_RULE_REFUSE},
    {"clock_settime", {227, 264, 112}, SBX_RULE_REFUSE},
    {"clock_settime64", {-1, 404, -1}, SBX_RULE_REFUSE},
    {"clock_adjtime", {305, 343, 266}, SBX_RULE_REFUSE}, /* also clocks of devices */
    {"clock_adjtime64", {-1, 405, -1}, SBX_RULE_REFUSE},
    {"syslog", {103, 103, 116}, SBX_RULE_REFUSE}, /* the kernel's log, with addresses */
    {"uselib", {134, 86, -1}, SBX_RULE_REFUSE},
    {"ustat", {136, 62, -1}, SBX_RULE_REFUSE},
    {"iopl", {172, 110, -1}, SBX_RULE_REFUSE},
    {"ioperm", {173, 101, -1}, SBX_RULE_REFUSE},
    {"vm86", {-1, 166, -1}, SBX_RULE_REFUSE},
    {"vm86old", {-1, 113, -1}, SBX_RULE_REFUSE},
    /* Process 1 is ours, and of the same user: a limit on its processor time would end
     * it; and if it yields to all others, these keep it from hearing of an end, or from
     * ending itself, for as long as they like. */
    {"prlimit64(1)", {302, 340, 261}, SBX_RULE_SETTING},
    {"setpriority(1)", {141, 97, 140}, SBX_RULE_PRIORITY},
    {"sched_setparam(1)", {142, 154, 118}, SBX_RULE_FIRST},
    {"sched_setscheduler(1)", {144, 156, 119}, SBX_RULE_FIRST},
    {"sched_setattr(1)", {314, 351, 274}, SBX_RULE_FIRST},
    {"sched_setaffinity(1)", {203, 241, 122}, SBX_RULE_FIRST},
    {"ioctl(TIOCSTI)", {16, 54, 29}, SBX_RULE_TERMINAL},
    {"ioctl(TIOCLINUX)", {16, 54, 29}, SBX_RULE_TERMINAL},
};

const struct sbx_seccomp_call *sbx_seccomp_calls(size_t *ret_count)
{
    *ret_count = LENGTH(calls);
    return calls;
}

const char *const *sbx_seccomp_refused(size_t *ret_count)
{
    static const char *names[LENGTH(calls)];
    for (size_t i = 0; i < LENGTH(calls); i++) {
        names[i] = calls[i].name;
    }
    *ret_count = LENGTH(calls);
    return names;
}

/* --- the program --- */

/* Where the kernel and the C library call these numbers differently, or not at all. */
#define REQUEST_STI 0x5412U   /* TIOCSTI */
#define REQUEST_LINUX 0x541CU /* TIOCLINUX */
#define X32_BIT 0x40000000U
#define NO_CALL 0xffffffffU /* a tracer's way to skip a call */

#define NAMESPACES                                                                       \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |       \
     CLONE_NEWPID | CLONE_NEWNET)
/* In clone's flags this bit is of the number of the signal. */
#define TIME_NAMESPACE 0x80U

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)

/* Arguments are 64 bits; of flags and requests the kernel takes the lower 32. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half comes first");
#define LOWER(argument) ((uint32_t)offsetof(struct seccomp_data, args[argument]))
#define UPPER(argument) (LOWER(argument) + 4)

#define PROGRAM_MAX 1024

struct draft {
    struct sock_filter code[PROGRAM_MAX];
    size_t count;
};

static void put(struct draft *draft, uint16_t code, uint32_t value, size_t if_true,
                size_t if_false)
{
    draft->code[draft->count++] = (struct sock_filter){
        .code = code, .k = value, .jt = (uint8_t)if_true, .jf = (uint8_t)if_false};
}

static void load(struct draft *draft, uint32_t offset)
{
    put(draft, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void end_with(struct draft *draft, uint32_t action)
{
    put(draft, BPF_RET | BPF_K, action, 0, 0);
}

/* `action` if the value compares so, else on. */
static void end_if(struct draft *draft, uint16_t comparison, uint32_t value,
                   uint32_t action)
{
    put(draft, (uint16_t)(BPF_JMP | BPF_K | comparison), value, 0, 1);
    end_with(draft, action);
}

static void put_rule(struct draft *draft, enum sbx_seccomp_rule rule)
{
    switch (rule) {
    case SBX_RULE_REFUSE:
        end_with(draft, REFUSE);
        return;
    case SBX_RULE_UNKNOWN:
        end_with(draft, UNKNOWN);
        return;
    case SBX_RULE_CLONE:
        load(draft, LOWER(0));
        end_if(draft, BPF_JSET, NAMESPACES, REFUSE);
        break;
    case SBX_RULE_UNSHARE:
        load(draft, LOWER(0));
        end_if(draft, BPF_JSET, NAMESPACES | TIME_NAMESPACE, REFUSE);
        break;
    case SBX_RULE_SETTING:
        load(draft, LOWER(0));
        put(draft, BPF_JMP | BPF_K | BPF_JEQ, 1, 1, 0);
        end_with(draft, SECCOMP_RET_ALLOW);
        load(draft, LOWER(2)); /* the new limit; without one it is only read */
        end_if(draft, BPF_JSET, 0xffffffffU, REFUSE);
        load(draft, UPPER(2));
        end_if(draft, BPF_JSET, 0xffffffffU, REFUSE);
        break;
    case SBX_RULE_FIRST:
        load(draft, LOWER(0));
        end_if(draft, BPF_JEQ, 1, REFUSE);
        break;
    case SBX_RULE_PRIORITY:
        load(draft, LOWER(0));
        end_if(draft, BPF_JGE, PRIO_PROCESS + 1, REFUSE);
        load(draft, LOWER(1));
        end_if(draft, BPF_JEQ, 1, REFUSE);
        break;
    case SBX_RULE_TERMINAL:
        load(draft, LOWER(1));
        end_if(draft, BPF_JEQ, REQUEST_STI, REFUSE);
        end_if(draft, BPF_JEQ, REQUEST_LINUX, REFUSE);
        break;
    }
    end_with(draft, SECCOMP_RET_ALLOW);
}

struct entry {
    uint32_t number;
    enum sbx_seccomp_rule rule;
};

/* The calls of one machine by their numbers, each once. */
static size_t sort_calls(enum sbx_seccomp_machine machine,
                         struct entry entries[static LENGTH(calls)])
{
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(calls); i++) {
        short number = calls[i].numbers[machine];
        size_t place = count;
        while (place > 0 && (int)entries[place - 1].number > number) {
            place--;
        }
        bool twice = place > 0 && (int)entries[place - 1].number == number;
        if (number < 0 || twice) {
            continue;
        }
        memmove(&entries[place + 1], &entries[place], (count - place) * sizeof *entries);
        entries[place] =
            (struct entry){.number = (uint32_t)number, .rule = calls[i].rule};
        count++;
    }
    return count;
}

/* A middle entry says in which half to go on, down to blocks whose entries are tried one
 * after the other. Every jump in it is far below 256, all that its offset can say. */
#define BLOCK 4

static void put_block(struct draft *draft, const struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t test = draft->count;
        put(draft, BPF_JMP | BPF_K | BPF_JEQ, entries[i].number, 0, 0);
        put_rule(draft, entries[i].rule);
        draft->code[test].jf = (uint8_t)(draft->count - test - 1);
    }
    end_with(draft, SECCOMP_RET_ALLOW);
}

/* Calls itself as often as the logarithm of the table says. */
static void put_tree(struct draft *draft, const struct entry *entries, size_t count)
{
    if (count <= BLOCK) {
        put_block(draft, entries, count);
        return;
    }
    size_t half = count / 2;
    size_t test = draft->count;
    put(draft, BPF_JMP | BPF_K | BPF_JGE, entries[half].number, 0, 0);
    put_tree(draft, entries, half);
    draft->code[test].jt = (uint8_t)(draft->count - test - 1);
    put_tree(draft, entries + half, count - half);
}

/* All of one machine: what is not its architecture goes on behind it. */
static void put_machine(struct draft *draft, enum sbx_seccomp_machine machine,
                        uint32_t architecture)
{
    struct entry entries[LENGTH(calls)];
    size_t count = sort_calls(machine, entries);
    put(draft, BPF_JMP | BPF_K | BPF_JEQ, architecture, 1, 0);
    size_t beyond = draft->count; /* a jump of 32 bits */
    put(draft, BPF_JMP | BPF_JA, 0, 0, 0);
    load(draft, (uint32_t)offsetof(struct seccomp_data, nr));
    if (machine == SBX_MACHINE_X86_64) {
        end_if(draft, BPF_JEQ, NO_CALL, SECCOMP_RET_ALLOW);
        put(draft, BPF_JMP | BPF_K | BPF_JGE, X32_BIT, 0, 1);
        end_with(draft, REFUSE);
    }
    put_tree(draft, entries, count);
    draft->code[beyond].k = (uint32_t)(draft->count - beyond - 1);
}

/* False: no table for this architecture. */
static bool make(struct draft *draft)
{
    load(draft, (uint32_t)offsetof(struct seccomp_data, arch));
#if defined(__x86_64__)
    put_machine(draft, SBX_MACHINE_X86_64, AUDIT_ARCH_X86_64);
    put_machine(draft, SBX_MACHINE_I386, AUDIT_ARCH_I386);
#elif defined(__aarch64__)
    put_machine(draft, SBX_MACHINE_AARCH64, AUDIT_ARCH_AARCH64);
#else
    return false;
#endif
    end_with(draft, REFUSE);
    return true;
}

int sbx_seccomp_default(struct sock_filter **ret_program, size_t *ret_count,
                        struct sbx_error *err)
{
    SBX_AUTO_FREE struct draft *draft = calloc(1, sizeof *draft);
    if (draft == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "seccomp filter: %s",
                             sbx_errno_text(ENOMEM).text);
    }
    if (!make(draft)) {
        return sbx_error_set(err, EOPNOTSUPP, SBX_STAGE_CHECK,
                             "seccomp filter: no default for this architecture; give one "
                             "with --seccomp FD (EOPNOTSUPP)");
    }
    struct sock_filter *program = calloc(draft->count, sizeof *program);
    if (program == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_CHECK, "seccomp filter: %s",
                             sbx_errno_text(ENOMEM).text);
    }
    memcpy(program, draft->code, draft->count * sizeof *program);
    *ret_program = program;
    *ret_count = draft->count;
    return 0;
}
