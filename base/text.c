/*
 * text.c - see text.h. Exact integer arithmetic throughout: no floating point, no strto*,
 * no <ctype.h>, so neither the locale nor a wrap-around can change what a text means.
 */
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {"", 1000000},    {"us", 1},          {"ms", 1000},       {"s", 1000000},
    {"m", 60000000U}, {"h", 3600000000U}, {"d", 86400000000U}};

static const struct unit size_units[] = {
    {"", 1},
    {"B", 1},
    {"K", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"T", UINT64_C(1) << 40},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", UINT64_C(1000000000000)},
};

/* A text of the form DIGITS[.DIGITS][REST], in its parts. */
struct decimal {
    const char *whole;
    size_t whole_length;
    const char *fraction;
    size_t fraction_length;
    const char *rest;
};

static size_t count_digits(const char *text)
{
    size_t length = 0;
    while (text[length] >= '0' && text[length] <= '9') {
        length++;
    }
    return length;
}

static bool split_decimal(const char *text, struct decimal *ret_parts)
{
    struct decimal parts = {.whole = text, .whole_length = count_digits(text)};
    if (parts.whole_length == 0 || (parts.whole_length > 1 && text[0] == '0')) {
        return false;
    }
    parts.rest = text + parts.whole_length;
    if (*parts.rest == '.') {
        parts.fraction = parts.rest + 1;
        parts.fraction_length = count_digits(parts.fraction);
        if (parts.fraction_length == 0) {
            return false;
        }
        parts.rest = parts.fraction + parts.fraction_length;
    }
    *ret_parts = parts;
    return true;
}

static int read_digits(const char *digits, size_t length, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value)) {
            return -ERANGE;
        }
    }
    *ret_value = value;
    return 0;
}

/*
 * The fraction 0.d1d2...dn times factor, rounded down; *ret_exact tells whether anything
 * was lost. Worked from the last digit to the first, so that any number of digits fits:
 * the value in hand stays below factor, and since the addend is a whole number, rounding
 * at each step gives the same as rounding once.
 */
static uint64_t scale_fraction(const struct decimal *parts, uint64_t factor,
                               bool *ret_exact)
{
    uint64_t value = 0;
    bool exact = true;
    for (size_t i = parts->fraction_length; i > 0; i--) {
        value += (uint64_t)(parts->fraction[i - 1] - '0') * factor;
        exact = exact && value % 10 == 0;
        value /= 10;
    }
    *ret_exact = exact;
    return value;
}

static const struct unit *find_unit(const char *name, const struct unit *units,
                                    size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].name, name) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

static int scale_decimal(const struct decimal *parts, uint64_t factor, uint64_t fraction,
                         uint64_t *ret_value)
{
    uint64_t value = 0;
    int result = read_digits(parts->whole, parts->whole_length, &value);
    if (result < 0) {
        return result;
    }
    if (__builtin_mul_overflow(value, factor, &value) ||
        __builtin_add_overflow(value, fraction, &value)) {
        return -ERANGE;
    }
    *ret_value = value;
    return 0;
}

int sbx_text_duration(const char *text, uint64_t *ret_us)
{
    struct decimal parts;
    if (!split_decimal(text, &parts)) {
        return -EINVAL;
    }
    const struct unit *unit =
        find_unit(parts.rest, duration_units, LENGTH(duration_units));
    if (unit == NULL) {
        return -EINVAL;
    }
    bool exact = true;
    uint64_t fraction = scale_fraction(&parts, unit->factor, &exact);
    if (!exact) {
        return -EINVAL;
    }
    return scale_decimal(&parts, unit->factor, fraction, ret_us);
}

int sbx_text_size(const char *text, uint64_t *ret_bytes)
{
    struct decimal parts;
    if (!split_decimal(text, &parts)) {
        return -EINVAL;
    }
    const struct unit *unit = find_unit(parts.rest, size_units, LENGTH(size_units));
    if (unit == NULL) {
        return -EINVAL;
    }
    bool exact = true;
    uint64_t fraction = scale_fraction(&parts, unit->factor, &exact);
    /* 1.1G is no whole number of bytes, yet everybody knows what it means; 1.5 bytes
     * means nothing. */
    if (!exact && unit->factor == 1) {
        return -EINVAL;
    }
    return scale_decimal(&parts, unit->factor, fraction, ret_bytes);
}

int sbx_text_count(const char *text, uint64_t *ret_count)
{
    struct decimal parts;
    if (!split_decimal(text, &parts) || parts.fraction != NULL || *parts.rest != '\0') {
        return -EINVAL;
    }
    return read_digits(parts.whole, parts.whole_length, ret_count);
}

struct signal_name {
    const char *name;
    int number;
};

/* The first name of a number is the one that is printed. */
static const struct signal_name signal_names[] = {
    {"HUP", SIGHUP},       {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"ILL", SIGILL},
    {"TRAP", SIGTRAP},     {"ABRT", SIGABRT},     {"BUS", SIGBUS},   {"FPE", SIGFPE},
    {"KILL", SIGKILL},     {"USR1", SIGUSR1},     {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE},     {"ALRM", SIGALRM},     {"TERM", SIGTERM},
#ifdef SIGSTKFLT
    {"STKFLT", SIGSTKFLT},
#endif
    {"CHLD", SIGCHLD},     {"CONT", SIGCONT},     {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN},     {"TTOU", SIGTTOU},     {"URG", SIGURG},   {"XCPU", SIGXCPU},
    {"XFSZ", SIGXFSZ},     {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH},
    {"IO", SIGIO},         {"PWR", SIGPWR},       {"SYS", SIGSYS},   {"IOT", SIGIOT},
    {"CLD", SIGCHLD},      {"POLL", SIGPOLL}};

/* ASCII only: toupper of a Turkish locale would not find "int". */
static char to_upper(char letter)
{
    return letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : letter;
}

/* Whether text begins with the upper-case prefix, in any case. */
static bool begins_with(const char *text, const char *prefix)
{
    size_t i = 0;
    while (prefix[i] != '\0' && to_upper(text[i]) == prefix[i]) {
        i++;
    }
    return prefix[i] == '\0';
}

/* "", or a sign and an offset, from `base` towards the other end of the real-time range.
 */
static int realtime_signal(const char *offset_text, char sign, int base, int *ret_signal)
{
    uint64_t offset = 0;
    if (*offset_text != '\0') {
        if (*offset_text != sign) {
            return -EINVAL;
        }
        int result = sbx_text_count(offset_text + 1, &offset);
        if (result < 0) {
            return result;
        }
    }
    if (offset > (uint64_t)(SIGRTMAX - SIGRTMIN)) {
        return -ERANGE;
    }
    *ret_signal = sign == '+' ? base + (int)offset : base - (int)offset;
    return 0;
}

static int numbered_signal(const char *text, int *ret_signal)
{
    uint64_t number = 0;
    int result = sbx_text_count(text, &number);
    if (result < 0) {
        return result;
    }
    if (number < 1 || number > (uint64_t)SIGRTMAX) {
        return -ERANGE;
    }
    *ret_signal = (int)number;
    return 0;
}

int sbx_text_signal(const char *text, int *ret_signal)
{
    if (*text >= '0' && *text <= '9') {
        return numbered_signal(text, ret_signal);
    }
    const char *name = begins_with(text, "SIG") ? text + 3 : text;
    if (begins_with(name, "RTMIN")) {
        return realtime_signal(name + 5, '+', SIGRTMIN, ret_signal);
    }
    if (begins_with(name, "RTMAX")) {
        return realtime_signal(name + 5, '-', SIGRTMAX, ret_signal);
    }
    for (size_t i = 0; i < LENGTH(signal_names); i++) {
        const char *candidate = signal_names[i].name;
        if (begins_with(name, candidate) && name[strlen(candidate)] == '\0') {
            *ret_signal = signal_names[i].number;
            return 0;
        }
    }
    return -EINVAL;
}

const char *sbx_text_signal_name(int signal_number,
                                 char buffer[static SBX_SIGNAL_NAME_SIZE])
{
    for (size_t i = 0; i < LENGTH(signal_names); i++) {
        if (signal_names[i].number == signal_number) {
            (void)snprintf(buffer, SBX_SIGNAL_NAME_SIZE, "SIG%s", signal_names[i].name);
            return buffer;
        }
    }
    if (signal_number == SIGRTMIN) {
        (void)snprintf(buffer, SBX_SIGNAL_NAME_SIZE, "SIGRTMIN");
    } else if (signal_number > SIGRTMIN && signal_number <= SIGRTMAX) {
        (void)snprintf(buffer, SBX_SIGNAL_NAME_SIZE, "SIGRTMIN+%d",
                       signal_number - SIGRTMIN);
    } else {
        (void)snprintf(buffer, SBX_SIGNAL_NAME_SIZE, "SIG%d", signal_number);
    }
    return buffer;
}

/*
 * Length of the valid UTF-8 sequence at the start of source, 0 when there is none. The
 * bounds of the second byte are those of RFC 3629: they exclude overlong forms, the
 * surrogates and what lies above U+10FFFF.
 */
static size_t utf8_length(const unsigned char *source, size_t length)
{
    unsigned char first = source[0];
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xC2 || first > 0xF4) {
        return 0;
    }
    size_t wanted = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length < wanted) {
        return 0;
    }
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (source[1] < low || source[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < wanted; i++) {
        if (source[i] < 0x80 || source[i] > 0xBF) {
            return 0;
        }
    }
    return wanted;
}

static bool is_plain(const unsigned char *character, size_t length)
{
    if (length == 1) {
        return character[0] >= 0x20 && character[0] != 0x7F && character[0] != '\\';
    }
    return length > 2 || character[0] != 0xC2 || character[1] > 0x9F;
}

/* One character or stray byte at the start of a source. */
struct piece {
    size_t length;  /* in the source */
    bool plain;     /* stands as it is; else every byte is escaped */
    size_t written; /* length in the result */
};

static struct piece next_piece(const unsigned char *source, size_t length)
{
    size_t valid = utf8_length(source, length);
    bool plain = valid > 0 && is_plain(source, valid);
    size_t taken = valid > 0 ? valid : 1;
    return (struct piece){taken, plain, plain ? taken : 4 * taken};
}

static void escape_bytes(char *buffer, const unsigned char *source, size_t length)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < length; i++) {
        *buffer++ = '\\';
        *buffer++ = 'x';
        *buffer++ = hex[source[i] >> 4];
        *buffer++ = hex[source[i] & 0xF];
    }
}

size_t sbx_text_escape(char *buffer, size_t size, const char *source, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)source;
    size_t used = 0;
    for (size_t at = 0; at < length;) {
        struct piece piece = next_piece(bytes + at, length - at);
        if (used + piece.written >= size) {
            break;
        }
        if (piece.plain) {
            memcpy(buffer + used, source + at, piece.length);
        } else {
            escape_bytes(buffer + used, bytes + at, piece.length);
        }
        used += piece.written;
        at += piece.length;
    }
    if (size > 0) {
        buffer[used] = '\0';
    }
    return used;
}
