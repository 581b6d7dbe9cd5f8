/*
 * fingerprint.c - see fingerprint.h. Allocates one context and nothing else; what is
 * hashed is never copied.
 */
#include "supervisor/fingerprint.h"

#include <nettle/hmac.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SBX_DIGEST_SIZE == SHA256_DIGEST_SIZE, "the digest is one of SHA-256");

struct sbx_fingerprint {
    struct hmac_sha256_ctx context;
};

struct sbx_fingerprint *sbx_fingerprint_new(const unsigned char key[static SBX_KEY_SIZE])
{
    struct sbx_fingerprint *fingerprint = calloc(1, sizeof *fingerprint);
    if (fingerprint != NULL) {
        hmac_sha256_set_key(&fingerprint->context, SBX_KEY_SIZE, key);
    }
    return fingerprint;
}

/* The length has the same eight bytes on every machine: a state directory may outlive
 * one. */
static void add_bytes(struct sbx_fingerprint *fingerprint, const void *data,
                      size_t length)
{
    uint8_t prefix[8];
    for (size_t i = 0; i < sizeof prefix; i++) {
        prefix[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
    hmac_sha256_update(&fingerprint->context, sizeof prefix, prefix);
    if (length > 0) {
        hmac_sha256_update(&fingerprint->context, length, data);
    }
}

void sbx_fingerprint_add(struct sbx_fingerprint *fingerprint, const char *name,
                         const void *value, size_t length)
{
    add_bytes(fingerprint, name, strlen(name));
    add_bytes(fingerprint, value, length);
}

void sbx_fingerprint_digest(struct sbx_fingerprint *fingerprint,
                            unsigned char ret_digest[static SBX_DIGEST_SIZE])
{
    hmac_sha256_digest(&fingerprint->context, SBX_DIGEST_SIZE, ret_digest);
}

void sbx_fingerprint_free(struct sbx_fingerprint *fingerprint)
{
    if (fingerprint != NULL) {
        explicit_bzero(fingerprint, sizeof *fingerprint);
        free(fingerprint);
    }
}
