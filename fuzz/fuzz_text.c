/*
 * fuzz_text.c - every parser of base/text.h and base/cpus.h, and the escape, on any
 * bytes.
 *
 * Beside memory safety: results are untouched on failure; what is accepted comes out the
 * same when it is printed and parsed again; numbers agree with a second computation in
 * 128 bits; an escaped text can be undone, is printable UTF-8, and a smaller buffer holds
 * a beginning of what a larger one holds.
 */
#include "fuzz/fuzz.h"

#include "base/cpus.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define UNTOUCHED UINT64_C(0x5A5A5A5A5A5A5A5A)
#define TEXT_MAX 4096

__extension__ typedef unsigned __int128 wide;

typedef int parse_function(const char *text, uint64_t *ret_value);

static bool is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

static wide unit_factor(const char *unit, bool duration)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } durations[] = {{"", 1000000},
                     {"s", 1000000},
                     {"us", 1},
                     {"ms", 1000},
                     {"m", UINT64_C(60000000)},
                     {"h", UINT64_C(3600000000)},
                     {"d", UINT64_C(86400000000)}};
    if (duration) {
        for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
            if (strcmp(durations[i].name, unit) == 0) {
                return durations[i].factor;
            }
        }
        return 0;
    }
    const char *letters = "KMGT";
    const char *letter = *unit != '\0' ? strchr(letters, *unit) : NULL;
    if (letter == NULL) {
        return *unit == '\0' || strcmp(unit, "B") == 0;
    }
    bool decimal = strcmp(unit + 1, "B") == 0;
    if (!decimal && unit[1] != '\0' && strcmp(unit + 1, "iB") != 0) {
        return 0;
    }
    wide factor = 1;
    for (const char *step = letters; step <= letter; step++) {
        factor *= decimal ? 1000 : 1024;
    }
    return factor;
}

/* What an accepted text has to mean. False where 128 bits do not suffice to tell. */
static bool compute(const char *text, bool duration, wide *ret_value, bool *ret_exact)
{
    wide number = 0;
    wide divisor = 1;
    const char *at = text;
    unsigned digits = 0;
    for (bool fraction = false; is_digit(*at) || (*at == '.' && !fraction); at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        if (++digits > 24) {
            return false;
        }
        const uint64_t figure = (uint64_t)(*at - '0');
        number = number * 10 + figure;
        divisor *= fraction ? 10 : 1;
    }
    wide factor = unit_factor(at, duration);
    SBX_MUST(factor != 0);
    if (factor > (~(wide)0) / (number + 1)) {
        return false;
    }
    *ret_value = number * factor / divisor;
    *ret_exact = number * factor % divisor == 0;
    return true;
}

static void check_number(parse_function *parse, const char *text, bool duration)
{
    uint64_t value = UNTOUCHED;
    int result = parse(text, &value);
    SBX_MUST(result == 0 || result == -EINVAL || result == -ERANGE);
    if (result < 0) {
        SBX_MUST(value == UNTOUCHED);
    }
    if (result == -EINVAL) {
        return;
    }
    /* What has the form of a number has no more than these, and begins like one. */
    SBX_MUST(strspn(text, "0123456789.usmhdBKMGTi") == strlen(text));
    SBX_MUST(is_digit(text[0]) && !(text[0] == '0' && is_digit(text[1])));
    wide wanted = 0;
    bool exact = false;
    if (compute(text, duration, &wanted, &exact)) {
        SBX_MUST(exact || !duration);
        SBX_MUST((wanted > UINT64_MAX) == (result == -ERANGE));
        SBX_MUST(result < 0 || (uint64_t)wanted == value);
    }
    if (result == 0) {
        char printed[32];
        uint64_t again = UNTOUCHED;
        (void)snprintf(printed, sizeof printed, "%" PRIu64 "%s", value,
                       duration ? "us" : "B");
        SBX_MUST(parse(printed, &again) == 0 && again == value);
    }
}

static void check_count(const char *text)
{
    uint64_t value = UNTOUCHED;
    int result = sbx_text_count(text, &value);
    if (result < 0) {
        SBX_MUST(value == UNTOUCHED && (result == -EINVAL || result == -ERANGE));
        SBX_MUST(result == -EINVAL || strlen(text) >= 20);
        return;
    }
    /* The only spelling. */
    char printed[32];
    (void)snprintf(printed, sizeof printed, "%" PRIu64, value);
    SBX_MUST(strcmp(printed, text) == 0);
}

static void check_signal(const char *text)
{
    int number = -5;
    int result = sbx_text_signal(text, &number);
    if (result < 0) {
        SBX_MUST(number == -5 && (result == -EINVAL || result == -ERANGE));
        return;
    }
    SBX_MUST(number >= 1 && number <= SIGRTMAX);
    char name[SBX_SIGNAL_NAME_SIZE];
    int again = -5;
    SBX_MUST(sbx_text_signal_name(number, name) == name);
    bool named = number < 32 || number >= SIGRTMIN;
    SBX_MUST(sbx_text_signal(name, &again) == (named ? 0 : -EINVAL));
    SBX_MUST(again == (named ? number : -5));
}

/* Each processor in the set is one that a number or a range of the text names. */
static void check_cpus(const char *text)
{
    struct sbx_cpus cpus;
    struct sbx_cpus before;
    memset(&cpus, 0x5a, sizeof cpus);
    before = cpus;
    int result = sbx_cpus_parse(text, &cpus);
    if (result < 0) {
        SBX_MUST(result == -EINVAL || result == -ERANGE);
        SBX_MUST(memcmp(&cpus, &before, sizeof cpus) == 0);
        SBX_MUST(result == -EINVAL || strspn(text, "0123456789,-") == strlen(text));
        return;
    }
    struct sbx_cpus wanted;
    memset(&wanted, 0, sizeof wanted);
    for (const char *at = text; *at != '\0'; at += *at == ',') {
        char *end = NULL;
        unsigned long first = strtoul(at, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        SBX_MUST(first <= last && last < SBX_CPU_MAX && end != at);
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            wanted.words[cpu / SBX_CPU_WORD_BITS] |= 1UL << cpu % SBX_CPU_WORD_BITS;
        }
        at = end;
    }
    SBX_MUST(memcmp(&cpus, &wanted, sizeof cpus) == 0);
}

static unsigned hex_value(char digit)
{
    return is_digit(digit) ? (unsigned)(digit - '0') : (unsigned)(digit - 'A') + 10;
}

/* Undoes the escape and compares with the source. */
static void check_undone(const char *escaped, size_t used, const char *source,
                         size_t length)
{
    size_t at = 0;
    for (size_t i = 0; i < used; i++) {
        unsigned char byte = (unsigned char)escaped[i];
        SBX_MUST(byte >= 0x20 && byte != 0x7F);
        if (byte == '\\') {
            SBX_MUST(i + 3 < used && escaped[i + 1] == 'x');
            byte = (unsigned char)(hex_value(escaped[i + 2]) << 4 |
                                   hex_value(escaped[i + 3]));
            i += 3;
        }
        SBX_MUST(at < length && (unsigned char)source[at] == byte);
        at++;
    }
    SBX_MUST(at == length);
}

static void check_escape(const char *source, size_t length)
{
    static char whole[4 * TEXT_MAX + 1];
    static char again[4 * TEXT_MAX + 1];
    size_t used = sbx_text_escape(whole, sizeof whole, source, length);
    SBX_MUST(whole[used] == '\0' && used >= length);
    check_undone(whole, used, source, length);
    /* Nothing is left but backslashes: those are what it makes. */
    for (char *mark = whole; (mark = strchr(mark, '\\')) != NULL;) {
        *mark = '/';
    }
    SBX_MUST(sbx_text_escape(again, sizeof again, whole, used) == used);
    SBX_MUST(memcmp(again, whole, used) == 0);
    size_t small = used > 0 ? (size_t)(unsigned char)whole[0] % (used + 1) : 0;
    char *cut = malloc(small + 1);
    SBX_MUST(cut != NULL);
    size_t cut_used = sbx_text_escape(cut, small + 1, source, length);
    SBX_MUST(cut_used <= small && cut[cut_used] == '\0');
    /* Short by less than one character. */
    SBX_MUST(small == used ? cut_used == used : small - cut_used < 8);
    for (size_t i = 0; i < cut_used; i++) {
        SBX_MUST(cut[i] == whole[i] || (cut[i] == '\\' && whole[i] == '/'));
    }
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > TEXT_MAX) {
        return 0;
    }
    char *text = malloc(size + 1);
    SBX_MUST(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    check_escape(text, size);
    check_number(sbx_text_duration, text, true);
    check_number(sbx_text_size, text, false);
    check_count(text);
    check_signal(text);
    check_cpus(text);
    free(text);
    return 0;
}
