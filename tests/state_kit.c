/*
 * state_kit.c - see state_kit.h.
 */
#include "tests/state_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct sbx_state *sbx_kit_state(void)
{
    char path[SBX_FIXTURE_PATH_SIZE];
    struct sbx_state *state = NULL;
    struct sbx_error err = {0};
    int r = sbx_state_open(sbx_fixture_path(path, "state"), &state, &err);
    ck_assert_msg(r == 0, "%s", err.message);
    return state;
}

struct sbx_facts sbx_kit_facts(const char *id)
{
    struct sbx_facts facts = {.created_real_us = UINT64_C(1790000000123456),
                              .retention_us = UINT64_MAX,
                              .output_limit_bytes = 65536,
                              .event_limit_count = 512,
                              .pause_when_full = true,
                              .uid = UINT32_MAX,
                              .boot = "is set by the place"};
    (void)snprintf(facts.id, sizeof facts.id, "%s", id);
    for (size_t i = 0; i < SBX_DIGEST_SIZE; i++) {
        facts.digest[i] = (unsigned char)(i * 37 + 250);
    }
    return facts;
}

struct sbx_place sbx_kit_reserve(struct sbx_state *state, const char *id)
{
    struct sbx_place place = {.directory = -1, .lock = -1};
    struct sbx_error err = {0};
    const struct sbx_facts facts = sbx_kit_facts(id);
    int r = sbx_state_reserve(state, &facts, &place, &err);
    ck_assert_msg(r == 0, "%s", err.message);
    ck_assert_int_ge(place.directory, 0);
    ck_assert_int_ge(place.lock, 0);
    return place;
}

static bool count_one(const char *id, void *context)
{
    (void)id;
    (*(unsigned *)context)++;
    return true;
}

unsigned sbx_kit_count(struct sbx_state *state)
{
    unsigned count = 0;
    ck_assert_int_eq(sbx_state_list(state, count_one, &count), 0);
    return count;
}

unsigned sbx_kit_entries(const struct sbx_state *state, const char *name)
{
    int fd = openat(state->directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    DIR *list = fdopendir(fd);
    ck_assert_ptr_nonnull(list);
    unsigned count = 0;
    while (readdir(list) != NULL) {
        count++;
    }
    (void)closedir(list);
    return count - 2;
}

void sbx_kit_put(int directory, const char *name, const void *data, size_t size)
{
    (void)unlinkat(directory, name, 0);
    SBX_AUTO_CLOSE int fd =
        openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sbx_fd_write_all(fd, data, size), 0);
}
