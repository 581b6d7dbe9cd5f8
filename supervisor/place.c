/*
 * place.c - the place of one execution: reserved, found, removed (see place.h).
 *
 * A place comes into being and goes by a rename of a directory. So it is there as a whole
 * or not at all, whenever sbxd is killed; what is left in `new` is removed later.
 */
#include "supervisor/place.h"

#include "base/error.h"
#include "base/fd.h"
#include "supervisor/file.h"
#include "supervisor/place_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define REMOVE_BUDGET ((size_t)4096)

void sbx_place_close(struct sbx_place *place)
{
    sbx_fd_drop(&place->directory);
    sbx_fd_drop(&place->lock);
}

/* --- made ------------------------------------------------------------------------------
 */

static int write_facts(int directory, const struct sbx_facts *facts,
                       struct sbx_error *err)
{
    char text[SBX_FACTS_TEXT_SIZE];
    struct sbx_facts here = *facts;
    sbx_boot_id(here.boot);
    ssize_t length = sbx_facts_write(&here, text);
    if (length < 0) {
        return sbx_error_set(err, (int)-length, SBX_STAGE_LAUNCH,
                             "the facts of an execution do not fit");
    }
    SBX_AUTO_CLOSE int fd = sbx_file_create(directory, "request", 0, err);
    if (fd < 0) {
        return fd;
    }
    int r = sbx_file_write(fd, text, (size_t)length, 0);
    return r < 0 ? sbx_error_set(err, -r, SBX_STAGE_LAUNCH,
                                 "cannot write the file request: %s",
                                 sbx_errno_text(-r).text)
                 : 0;
}

/* All that is in a new place. */
static int furnish(struct sbx_place *place, const struct sbx_facts *facts,
                   struct sbx_error *err)
{
    place->lock = sbx_file_create(place->directory, "lock", 0, err);
    if (place->lock < 0) {
        return place->lock;
    }
    if (flock(place->lock, LOCK_EX | LOCK_NB) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "cannot lock a new place: %s",
                             sbx_errno_text(errno).text);
    }
    int r = write_facts(place->directory, facts, err);
    return r < 0 ? r : sbx_page_create(place->directory, err);
}

/* Gives the place its name if nothing has it. 0 or a negative errno. */
static int publish(const struct sbx_state *state, const char *name, const char *id)
{
    if (renameat2(state->new_places, name, state->executions, id, RENAME_NOREPLACE) ==
        0) {
        return 0;
    }
    if (errno != ENOSYS && errno != EINVAL) {
        return -errno;
    }
    /* A file system that cannot do that: an empty directory takes the name, and is
     * replaced, which nothing else can be. */
    if (mkdirat(state->executions, id, S_IRWXU) < 0) {
        return -errno;
    }
    if (renameat(state->new_places, name, state->executions, id) < 0) {
        int code = errno;
        (void)unlinkat(state->executions, id, AT_REMOVEDIR);
        return -code;
    }
    return 0;
}

static int make_place(const struct sbx_state *state, const char *name,
                      struct sbx_place *place, struct sbx_error *err)
{
    if (mkdirat(state->new_places, name, S_IRWXU) < 0) {
        return sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "cannot make a place: %s",
                             sbx_errno_text(errno).text);
    }
    int fd = sbx_open_own_directory(state->new_places, name);
    if (fd < 0) {
        return sbx_error_set(err, -fd, SBX_STAGE_LAUNCH, "cannot open a new place: %s",
                             sbx_errno_text(-fd).text);
    }
    place->directory = fd;
    return 0;
}

static void give_up(const struct sbx_state *state, const char *name,
                    struct sbx_place *place)
{
    static const char *const files[] = {"lock", "request", "page"};
    for (size_t i = 0; place->directory >= 0 && i < sizeof files / sizeof files[0]; i++) {
        (void)unlinkat(place->directory, files[i], 0);
    }
    (void)unlinkat(state->new_places, name, AT_REMOVEDIR);
    sbx_place_close(place);
}

int sbx_state_reserve(struct sbx_state *state, const struct sbx_facts *facts,
                      struct sbx_place *ret_place, struct sbx_error *err)
{
    char name[SBX_ID_SIZE];
    struct sbx_place place = {.directory = -1, .lock = -1};
    int r = sbx_id_is_valid(facts->id) ? sbx_id_make(name) : -EINVAL;
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "cannot reserve an id: %s",
                             sbx_errno_text(-r).text);
    }
    r = make_place(state, name, &place, err);
    if (r == 0) {
        r = furnish(&place, facts, err);
    }
    if (r == 0) {
        r = publish(state, name, facts->id);
        if (r < 0) {
            (void)sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "cannot reserve the id %s: %s",
                                facts->id, sbx_errno_text(-r).text);
        }
    }
    if (r < 0) {
        give_up(state, name, &place);
        return r;
    }
    *ret_place = place;
    return 0;
}

/* --- found -----------------------------------------------------------------------------
 */

static int read_facts(int directory, const char *id, struct sbx_facts *ret_facts)
{
    char text[SBX_FACTS_TEXT_SIZE];
    uint64_t size = 0;
    struct sbx_facts facts;
    SBX_AUTO_CLOSE int fd = sbx_file_open(directory, "request", O_RDONLY, &size);
    if (fd < 0) {
        return fd == -ENOENT ? -EBADMSG : fd;
    }
    int r = size <= sizeof text ? sbx_file_read(fd, text, (size_t)size, 0) : -EBADMSG;
    if (r == 0) {
        r = sbx_facts_read(text, (size_t)size, &facts);
    }
    if (r == 0 && strcmp(facts.id, id) != 0) {
        r = -EBADMSG;
    }
    if (r == 0) {
        *ret_facts = facts;
    }
    return r;
}

int sbx_state_find(struct sbx_state *state, const char *id, struct sbx_place *ret_place,
                   struct sbx_facts *ret_facts, struct sbx_error *err)
{
    if (!sbx_id_is_valid(id)) {
        return sbx_error_set(err, ENOENT, SBX_STAGE_CHECK, "no id can be spelled so");
    }
    int directory =
        openat(state->executions, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) {
        int code =
            errno == ENOTDIR || errno == ELOOP || errno == EACCES ? EBADMSG : errno;
        if (code == EBADMSG) {
            *ret_place = (struct sbx_place){.directory = -1, .lock = -1};
        }
        return sbx_error_set(err, code, SBX_STAGE_CHECK, "execution %s: %s", id,
                             sbx_errno_text(code).text);
    }
    struct sbx_place place = {.directory = directory, .lock = -1};
    int r = read_facts(directory, id, ret_facts);
    if (r < 0) {
        (void)sbx_error_set(err, -r, SBX_STAGE_CHECK,
                            "execution %s: its file request cannot be used: %s", id,
                            sbx_errno_text(-r).text);
    }
    if (r < 0 && r != -EBADMSG) {
        sbx_place_close(&place);
        return r;
    }
    *ret_place = place;
    return r;
}

bool sbx_place_is_held(int directory)
{
    uint64_t size = 0;
    SBX_AUTO_CLOSE int fd = sbx_file_open(directory, "lock", O_RDONLY, &size);
    if (fd < 0) {
        return fd != -ENOENT && fd != -EBADMSG;
    }
    /* A lock of its own, since a copy of the holder's descriptor would be given it. */
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

bool sbx_place_is_free(int directory)
{
    uint64_t size = 0;
    SBX_AUTO_CLOSE int fd = sbx_file_open(directory, "lock", O_RDONLY, &size);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0;
}

/* --- removed ---------------------------------------------------------------------------
 */

int sbx_state_remove(struct sbx_state *state, const char *id, struct sbx_error *err)
{
    int r = sbx_id_is_valid(id)
                ? sbx_discard_move(state->executions, id, state->new_places)
                : -ENOENT;
    if (r < 0) {
        return sbx_error_set(err, -r, SBX_STAGE_CHECK, "cannot remove execution %s: %s",
                             id, sbx_errno_text(-r).text);
    }
    (void)sbx_discard_all(state->new_places, REMOVE_BUDGET);
    return 0;
}
