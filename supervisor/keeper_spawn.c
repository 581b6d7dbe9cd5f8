/*
 * keeper_spawn.c - sbxd's part of a keeper: the order that it gets, and its start. The
 * rest is in keeper.c, in another program.
 */
#include "supervisor/keeper.h"

#include "base/error.h"
#include "base/fd.h"
#include "monitor/spawn.h"
#include "monitor/wire.h"
#include "supervisor/keeper_order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define NUMBER_SIZE 12
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int fail(struct sbx_error *err, int code, const char *what)
{
    return sbx_error_set(err, code, SBX_STAGE_LAUNCH, "%s: %s", what,
                         sbx_errno_text(code).text);
}

/* The order as a descriptor, or a negative errno. */
static int make_order(const struct sbx_request *request, uint64_t descriptors_soft,
                      struct sbx_error *err)
{
    SBX_AUTO_FREE char *text = NULL;
    size_t length = 0;
    int r = sbx_wire_pack(request->spec, &text, &length, err);
    if (r < 0) {
        return r;
    }
    const struct sbx_keeper_order order = {
        .magic = SBX_KEEPER_MAGIC,
        .protocol = SBX_KEEPER_PROTOCOL,
        .stdin_kind = (uint32_t)request->stdin_kind,
        .spec_length = length,
        .stdin_length = request->stdin_length,
        .output_limit_bytes = request->facts.output_limit_bytes,
        .event_limit_count = request->facts.event_limit_count,
        .pause_when_full = request->facts.pause_when_full,
        .descriptors_soft = descriptors_soft,
    };
    SBX_AUTO_CLOSE int fd = memfd_create("sbx-order", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fail(err, errno, "memfd_create");
    }
    r = sbx_fd_write_all(fd, &order, sizeof order);
    r = r < 0 ? r : sbx_fd_write_all(fd, text, length);
    if (r == 0 && request->stdin_length > 0) {
        r = sbx_fd_write_all(fd, request->stdin_data, request->stdin_length);
    }
    if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        r = -errno;
    }
    return r < 0 ? fail(err, -r, "the order of a keeper") : sbx_fd_steal(&fd);
}

int sbx_keeper_spawn(const struct sbx_request *request, struct sbx_place *place,
                     const struct sbx_keeper_means *means, int *ret_control,
                     struct sbx_error *err)
{
    int ends[2];
    SBX_AUTO_CLOSE int order = make_order(request, means->descriptors_soft, err);
    if (order < 0) {
        return order;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        return fail(err, errno, "socketpair");
    }
    SBX_AUTO_CLOSE int mine = ends[0];
    SBX_AUTO_CLOSE int theirs = ends[1];
    const int fds[] = {theirs, place->directory, place->lock, order};
    char numbers[4][NUMBER_SIZE];
    char name[] = "sbx-keeper";
    char *argv[] = {name, numbers[0], numbers[1], numbers[2], numbers[3], NULL};
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(numbers[i], NUMBER_SIZE, "%d", fds[i]);
    }
    const struct sbx_spawn spawn = {
        .path = means->program, .argv = argv, .envp = environ, .fds = fds, .fd_count = 4};
    SBX_AUTO_CLOSE int pidfd = -1;
    int r = sbx_spawn_orphan(&spawn, &pidfd, err);
    if (r < 0) {
        sbx_error_prefix(err, "sbx-keeper cannot be started");
        return r;
    }
    sbx_fd_drop(&place->lock);
    *ret_control = sbx_fd_steal(&mine);
    return 0;
}
