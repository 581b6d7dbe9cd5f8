/*
 * plan_arguments.c - the plan as arguments of bubblewrap (0.8 and later).
 *
 * What is fresh and is not to be written, the root among it, becomes read-only at the
 * end, when the last mount point in it has been made.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "sandbox/orders.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Mounts take 7 at most, one or two of them once more at the end. */
#define ARGUMENTS_FIXED 64
#define ARGUMENTS_EACH 10

static void add(struct sbx_plan *plan, enum sbx_argument_kind kind, const char *text)
{
    plan->arguments[plan->argument_count++] =
        (struct sbx_argument){.kind = kind, .text = text};
}

static void add_text(struct sbx_plan *plan, const char *text)
{
    add(plan, SBX_ARGUMENT_TEXT, text);
}

static void add_texts(struct sbx_plan *plan, const char *const *texts)
{
    for (size_t i = 0; texts[i] != NULL; i++) {
        add_text(plan, texts[i]);
    }
}

static void add_policy(struct sbx_plan *plan)
{
    static const char *const policy[] = {"--unshare-user",
                                         "--unshare-pid",
                                         "--unshare-ipc",
                                         "--unshare-uts",
                                         "--unshare-cgroup",
                                         "--die-with-parent",
                                         "--new-session",
                                         "--as-pid-1",
                                         "--cap-drop",
                                         "ALL",
                                         NULL};
    add_text(plan, plan->bwrap);
    add_texts(plan, policy);
    /* With set-user-id rights it cannot: the default filter is what holds there. */
    if (!plan->bwrap_is_setuid) {
        add_text(plan, "--disable-userns");
    }
    if (plan->network == SBX_NETWORK_NONE) {
        add_text(plan, "--unshare-net");
    }
    add_text(plan, "--json-status-fd");
    add(plan, SBX_ARGUMENT_STATUS, "{status}");
}

static void add_source(struct sbx_plan *plan, const struct sbx_mount *mount)
{
    bool plain = mount->why == SBX_WHY_SYSTEM;
    add(plan, plain ? SBX_ARGUMENT_TEXT : SBX_ARGUMENT_SOURCE, mount->source);
    plan->arguments[plan->argument_count - 1].mount = mount;
}

static void add_tmpfs(struct sbx_plan *plan, const struct sbx_mount *mount)
{
    add_text(plan, "--perms");
    add_text(plan, strcmp(mount->destination, "/run") == 0 ? "0755" : "1777");
    if (plan->tmp_size_bytes != 0) {
        add_text(plan, "--size");
        add_text(plan, sbx_plan_text(plan, "%" PRIu64, plan->tmp_size_bytes));
    }
    add_text(plan, "--tmpfs");
}

static void add_mount(struct sbx_plan *plan, const struct sbx_mount *mount)
{
    switch (mount->kind) {
    case SBX_MOUNT_BIND:
    case SBX_MOUNT_RO_BIND:
        add_text(plan, mount->kind == SBX_MOUNT_BIND ? "--bind" : "--ro-bind");
        add_source(plan, mount);
        break;
    case SBX_MOUNT_SYMLINK:
        add_text(plan, "--symlink");
        add_text(plan, mount->source);
        break;
    case SBX_MOUNT_TMPFS:
        add_tmpfs(plan, mount);
        break;
    case SBX_MOUNT_DEV:
        add_text(plan, "--dev");
        break;
    case SBX_MOUNT_PROC:
        add_text(plan, "--proc");
        break;
    case SBX_MOUNT_DIRECTORY:
        add_text(plan, "--dir");
        break;
    case SBX_MOUNT_MASK: {
        static const char *const mask[] = {"--perms", "0755", "--tmpfs", NULL};
        add_texts(plan, mask);
        break;
    }
    case SBX_MOUNT_MASK_FILE: /* a device where none may be used */
        add_text(plan, "--ro-bind");
        add_text(plan, "/dev/null");
        break;
    default:
        break;
    }
    add_text(plan, mount->destination);
}

static void add_endings(struct sbx_plan *plan)
{
    static const char *const inner[] = {"--perms", "0555", "--file", NULL};
    static const char inner_path[] = SBX_INNER_PATH;
    static const char *const start[] = {"--chdir", "/", "--", inner_path, NULL};
    for (size_t i = 0; i < plan->mount_count; i++) {
        const struct sbx_mount *mount = &plan->mounts[i];
        /* In /proc, files such as sys/kernel/core_pattern ask for the host's uid 0, not
         * for a capability: whoever is confined as root could write them. */
        if (mount->kind == SBX_MOUNT_MASK || mount->kind == SBX_MOUNT_DEV ||
            mount->kind == SBX_MOUNT_PROC) {
            add_text(plan, "--remount-ro");
            add_text(plan, mount->destination);
        }
    }
    add_texts(plan, inner);
    add(plan, SBX_ARGUMENT_INNER, "{inner}");
    add_text(plan, inner_path);
    if (!plan->root_is_shown) {
        add_text(plan, "--remount-ro");
        add_text(plan, "/");
    }
    add_texts(plan, start);
    add(plan, SBX_ARGUMENT_ORDERS, "{orders}");
}

int sbx_plan_arguments(struct sbx_plan *plan, struct sbx_error *err)
{
    size_t most = ARGUMENTS_FIXED + ARGUMENTS_EACH * plan->mount_count;
    (void)err;
    plan->arguments = calloc(most, sizeof *plan->arguments);
    if (plan->arguments == NULL) {
        plan->no_memory = true;
        return 0;
    }
    add_policy(plan);
    for (size_t i = 0; i < plan->mount_count; i++) {
        add_mount(plan, &plan->mounts[i]);
    }
    add_endings(plan);
    return 0;
}
