/*
 * fingerprint.h - whether two requests ask for the same: a keyed hash over what was
 * asked for, as a row of (name, value) pairs.
 *
 * The key never leaves the state directory, so that the digest beside an execution tells
 * nothing about the values in its environment, even where there are only a few to guess.
 * nettle is known to fingerprint.c alone.
 */
#ifndef SBX_SUPERVISOR_FINGERPRINT_H
#define SBX_SUPERVISOR_FINGERPRINT_H

#include "supervisor/place.h"

#include <stddef.h>

struct sbx_fingerprint;

/* HMAC-SHA256 under `key`. NULL when memory is short. */
struct sbx_fingerprint *sbx_fingerprint_new(const unsigned char key[static SBX_KEY_SIZE]);

/* Each with its length in front: no two rows of pairs are the same bytes. */
void sbx_fingerprint_add(struct sbx_fingerprint *fingerprint, const char *name,
                         const void *value, size_t length);

/* Of all that was added. It is of no use afterwards but to be freed. */
void sbx_fingerprint_digest(struct sbx_fingerprint *fingerprint,
                            unsigned char ret_digest[static SBX_DIGEST_SIZE]);

/* Leaves nothing of the key in memory. NULL is allowed. */
void sbx_fingerprint_free(struct sbx_fingerprint *fingerprint);

#endif
