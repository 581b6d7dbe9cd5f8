/*
 * facts.c - ids, and the file `request` of a place: what is known of an execution from
 * its start on, as one line of JSON. Written once by sbxd; read as something that a
 * command of the same user may have written: each key once, each of its own form, nothing
 * else.
 */
#include "supervisor/place.h"

#include "base/fd.h"
#include "base/text.h"
#include "monitor/flatten.h"
#include "monitor/json.h"
#include "supervisor/place_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define ID_RANDOM_SIZE 16
#define FORMAT "sbx.place/1"

/* --- ids --------------------------------------------------------------------------- */

static bool is_among(char c, const char *others)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(others, c) != NULL);
}

bool sbx_id_is_valid(const char *id)
{
    if (!is_among(id[0], "")) {
        return false;
    }
    size_t length = 1;
    while (length < SBX_ID_SIZE && is_among(id[length], "._:-")) {
        length++;
    }
    return length < SBX_ID_SIZE && id[length] == '\0';
}

static void spell(const unsigned char *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *text++ = digits[bytes[i] >> 4U];
        *text++ = digits[bytes[i] & 15U];
    }
    *text = '\0';
}

int sbx_id_make(char id[static SBX_ID_SIZE])
{
    unsigned char bytes[ID_RANDOM_SIZE];
    ssize_t size;
    do {
        size = getrandom(bytes, sizeof bytes, 0);
    } while (size < 0 && errno == EINTR);
    if (size != (ssize_t)sizeof bytes) {
        return size < 0 ? -errno : -EIO;
    }
    spell(bytes, sizeof bytes, id);
    return 0;
}

/* --- the running kernel --------------------------------------------------------------
 */

/* "" or as the kernel spells it: 8-4-4-4-12 hexadecimal digits. */
static bool is_boot_id(const char *text)
{
    size_t length = strlen(text);
    return (length == 0 || length == SBX_BOOT_SIZE - 1) &&
           strspn(text, "0123456789abcdef-") == length;
}

void sbx_boot_id(char boot[static SBX_BOOT_SIZE])
{
    char text[64];
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id",
                                         text, sizeof text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    bool known = length > 0 && is_boot_id(text);
    (void)snprintf(boot, SBX_BOOT_SIZE, "%.*s", SBX_BOOT_SIZE - 1, known ? text : "");
}

/* --- the file ------------------------------------------------------------------------
 */

ssize_t sbx_facts_write(const struct sbx_facts *facts,
                        char buffer[static SBX_FACTS_TEXT_SIZE])
{
    char digest[2 * SBX_DIGEST_SIZE + 1];
    spell(facts->digest, sizeof facts->digest, digest);
    struct sbx_json json;
    sbx_json_init(&json, buffer, SBX_FACTS_TEXT_SIZE);
    sbx_json_object(&json, NULL);
    sbx_json_string(&json, "format", FORMAT);
    sbx_json_string(&json, "id", facts->id);
    sbx_json_number(&json, "created_real_us", facts->created_real_us);
    sbx_json_number(&json, "retention_us", facts->retention_us);
    sbx_json_number(&json, "output_limit_bytes", facts->output_limit_bytes);
    sbx_json_number(&json, "event_limit_count", facts->event_limit_count);
    sbx_json_bool(&json, "pause_when_full", facts->pause_when_full);
    sbx_json_number(&json, "uid", facts->uid);
    sbx_json_string(&json, "digest", digest);
    sbx_json_string(&json, "boot", facts->boot);
    sbx_json_close(&json);
    return sbx_json_finish(&json);
}

/* The longest value that any key may have, and its terminator. */
#define VALUE_SIZE SBX_ID_SIZE

/* A string without anything that is escaped, without its quotes. */
static bool take_string(const struct sbx_flat *flat, char text[static VALUE_SIZE])
{
    size_t length = flat->length;
    if (length < 2 || length - 2 >= VALUE_SIZE || flat->value[0] != '"' ||
        memchr(flat->value, '\\', length) != NULL) {
        return false;
    }
    memcpy(text, flat->value + 1, length - 2);
    text[length - 2] = '\0';
    return true;
}

static bool take_number(const struct sbx_flat *flat, uint64_t *ret_number)
{
    char text[VALUE_SIZE];
    if (flat->length >= sizeof text) {
        return false;
    }
    memcpy(text, flat->value, flat->length);
    text[flat->length] = '\0';
    return sbx_text_count(text, ret_number) == 0;
}

static bool take_bool(const struct sbx_flat *flat, bool *ret_value)
{
    bool yes = flat->length == 4 && memcmp(flat->value, "true", 4) == 0;
    bool no = flat->length == 5 && memcmp(flat->value, "false", 5) == 0;
    *ret_value = yes;
    return yes || no;
}

static int digit_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

static bool take_digest(const char *text, unsigned char digest[static SBX_DIGEST_SIZE])
{
    if (strlen(text) != (size_t)2 * SBX_DIGEST_SIZE) {
        return false;
    }
    for (size_t i = 0; i < SBX_DIGEST_SIZE; i++) {
        int high = digit_value(text[2 * i]);
        int low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

enum key {
    KEY_FORMAT,
    KEY_ID,
    KEY_CREATED,
    KEY_RETENTION,
    KEY_OUTPUT,
    KEY_EVENTS,
    KEY_PAUSE,
    KEY_UID,
    KEY_DIGEST,
    KEY_BOOT,
    KEY_COUNT
};

static const char *const key_names[KEY_COUNT] = {"format",
                                                 "id",
                                                 "created_real_us",
                                                 "retention_us",
                                                 "output_limit_bytes",
                                                 "event_limit_count",
                                                 "pause_when_full",
                                                 "uid",
                                                 "digest",
                                                 "boot"};

struct parse {
    struct sbx_facts facts;
    unsigned found; /* bits */
    bool wrong;
};

static bool take_text(enum key key, const struct sbx_flat *flat, struct sbx_facts *facts)
{
    char text[VALUE_SIZE];
    if (!take_string(flat, text)) {
        return false;
    }
    if (key == KEY_FORMAT) {
        return strcmp(text, FORMAT) == 0;
    }
    if (key == KEY_DIGEST) {
        return take_digest(text, facts->digest);
    }
    if (key == KEY_ID) {
        (void)snprintf(facts->id, sizeof facts->id, "%s", text);
        return sbx_id_is_valid(text);
    }
    if (!is_boot_id(text)) {
        return false;
    }
    (void)snprintf(facts->boot, sizeof facts->boot, "%.*s", SBX_BOOT_SIZE - 1, text);
    return true;
}

static bool take(enum key key, const struct sbx_flat *flat, struct sbx_facts *facts)
{
    uint64_t uid = 0;
    switch (key) {
    case KEY_CREATED:
        return take_number(flat, &facts->created_real_us);
    case KEY_RETENTION:
        return take_number(flat, &facts->retention_us);
    case KEY_OUTPUT:
        return take_number(flat, &facts->output_limit_bytes);
    case KEY_EVENTS:
        return take_number(flat, &facts->event_limit_count);
    case KEY_PAUSE:
        return take_bool(flat, &facts->pause_when_full);
    case KEY_UID:
        if (!take_number(flat, &uid) || uid > UINT32_MAX) {
            return false;
        }
        facts->uid = (uint32_t)uid;
        return true;
    case KEY_FORMAT:
    case KEY_ID:
    case KEY_DIGEST:
    case KEY_BOOT:
        return take_text(key, flat, facts);
    case KEY_COUNT:
        break;
    }
    return false;
}

static bool look(const struct sbx_flat *flat, void *context)
{
    struct parse *parse = context;
    unsigned key = 0;
    while (key < KEY_COUNT && strcmp(flat->path, key_names[key]) != 0) {
        key++;
    }
    parse->wrong = key == KEY_COUNT || (parse->found & (1U << key)) != 0 ||
                   !take((enum key)key, flat, &parse->facts);
    parse->found |= 1U << key;
    return !parse->wrong;
}

int sbx_facts_read(const char *text, size_t length, struct sbx_facts *ret_facts)
{
    struct parse parse = {0};
    if (memchr(text, '\0', length) != NULL) {
        return -EBADMSG;
    }
    /* A list has its numbers for paths, and an object in an object has dots: neither has
     * our keys. */
    if (sbx_flatten(text, length, look, &parse) < 0 || parse.wrong ||
        parse.found != (1U << KEY_COUNT) - 1) {
        return -EBADMSG;
    }
    *ret_facts = parse.facts;
    return 0;
}
