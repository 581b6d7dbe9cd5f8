/*
 * state_kit.h - a state directory below the test's own, and places in it. Every function
 * fails the test when something goes wrong.
 */
#ifndef SBX_TESTS_STATE_KIT_H
#define SBX_TESTS_STATE_KIT_H

#include "supervisor/place.h"
#include "supervisor/place_private.h"
#include "tests/fixture.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Opens "state". */
struct sbx_state *sbx_kit_state(void);

/* Facts with values that are easily lost. */
struct sbx_facts sbx_kit_facts(const char *id);

struct sbx_place sbx_kit_reserve(struct sbx_state *state, const char *id);

/* How many places are listed. */
unsigned sbx_kit_count(struct sbx_state *state);

/* How many entries a directory of the state has ("new"). */
unsigned sbx_kit_entries(const struct sbx_state *state, const char *name);

/* A file with that in it, instead of what had the name. */
void sbx_kit_put(int directory, const char *name, const void *data, size_t size);

#endif
