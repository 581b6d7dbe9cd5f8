/*
 * text.c - beside start.c, those functions of the C library that sbx-inner's
 * sources call and that need no kernel. Plain rather than fast: nothing here is long.
 *
 * snprintf knows %s %c %d %% and the unsigned %u %lu %zu %ju, without widths.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* --- memory and strings --- */

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    void *begin = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return begin;
}

void *memset(void *memory, int value, size_t size)
{
    void *begin = memory;
    __asm__ volatile("rep stosb" : "+D"(memory), "+c"(size) : "a"(value) : "memory");
    return begin;
}

void *memmove(void *to, const void *from, size_t size)
{
    char *target = to;
    const char *source = from;
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, size); /* forwards, byte by byte */
    }
    while (size > 0) {
        size--;
        target[size] = source[size];
    }
    return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
    const unsigned char *a = one;
    const unsigned char *b = other;
    for (size_t i = 0; i < size; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

void *memchr(const void *memory, int wanted, size_t size)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == (unsigned char)wanted) {
            return (void *)(uintptr_t)(bytes + i);
        }
    }
    return NULL;
}

size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    return length;
}

char *strchr(const char *text, int wanted)
{
    for (;; text++) {
        if (*text == (char)wanted) {
            return (char *)(uintptr_t)text;
        }
        if (*text == '\0') {
            return NULL;
        }
    }
}

size_t strcspn(const char *text, const char *any)
{
    size_t length = 0;
    while (text[length] != '\0' && strchr(any, text[length]) == NULL) {
        length++;
    }
    return length;
}

int strncmp(const char *one, const char *other, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (one[i] != other[i]) {
            return (unsigned char)one[i] < (unsigned char)other[i] ? -1 : 1;
        }
        if (one[i] == '\0') {
            break;
        }
    }
    return 0;
}

char *strncat(char *restrict to, const char *restrict from, size_t size)
{
    char *next = to + strlen(to);
    while (size > 0 && *from != '\0') {
        *next++ = *from++;
        size--;
    }
    *next = '\0';
    return to;
}

/* --- formatting --- */

struct output {
    char *buffer;
    size_t size;
    size_t length; /* of all of it, also of what found no room */
};

static void put(struct output *output, char letter)
{
    if (output->length + 1 < output->size) {
        output->buffer[output->length] = letter;
    }
    output->length++;
}

static void put_text(struct output *output, const char *text)
{
    while (*text != '\0') {
        put(output, *text++);
    }
}

static void put_number(struct output *output, uintmax_t number)
{
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put_text(output, digits + at);
}

static void put_signed(struct output *output, int number)
{
    if (number < 0) {
        put(output, '-');
    }
    put_number(output, number < 0 ? -(uintmax_t)number : (uintmax_t)number);
}

int vsnprintf(char *restrict buffer, size_t size, const char *restrict format,
              va_list args)
{
    struct output output = {.buffer = buffer, .size = size};
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            put(&output, *format);
            continue;
        }
        format++;
        bool is_long = *format == 'l' || *format == 'z' || *format == 'j';
        format += is_long ? 1 : 0;
        switch (*format) {
        case 's':
            put_text(&output, va_arg(args, const char *));
            break;
        case 'c':
            put(&output, (char)va_arg(args, int));
            break;
        case 'd':
            if (is_long) {
                __builtin_trap();
            }
            put_signed(&output, va_arg(args, int));
            break;
        case 'u':
            put_number(&output,
                       is_long ? va_arg(args, unsigned long) : va_arg(args, unsigned));
            break;
        case '%':
            put(&output, '%');
            break;
        default:
            __builtin_trap(); /* a test of ours would see it */
        }
    }
    if (size > 0) {
        buffer[output.length < size ? output.length : size - 1] = '\0';
    }
    return (int)output.length;
}

int snprintf(char *restrict buffer, size_t size, const char *restrict format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(buffer, size, format, args);
    va_end(args);
    return length;
}

/* --- why something failed --- */

/* What the calls of sbx-inner may answer; worded as the C library does. */
static const struct reason {
    int code;
    const char *name;
    const char *text;
} reasons[] = {
#define REASON(code, text)                                                               \
    {                                                                                    \
        code, #code, text                                                                \
    }
    REASON(EPERM, "Operation not permitted"),
    REASON(ENOENT, "No such file or directory"),
    REASON(ESRCH, "No such process"),
    REASON(EINTR, "Interrupted system call"),
    REASON(EIO, "Input/output error"),
    REASON(ENXIO, "No such device or address"),
    REASON(E2BIG, "Argument list too long"),
    REASON(ENOEXEC, "Exec format error"),
    REASON(EBADF, "Bad file descriptor"),
    REASON(ECHILD, "No child processes"),
    REASON(EAGAIN, "Resource temporarily unavailable"),
    REASON(ENOMEM, "Cannot allocate memory"),
    REASON(EACCES, "Permission denied"),
    REASON(EFAULT, "Bad address"),
    REASON(EBUSY, "Device or resource busy"),
    REASON(EEXIST, "File exists"),
    REASON(ENODEV, "No such device"),
    REASON(ENOTDIR, "Not a directory"),
    REASON(EISDIR, "Is a directory"),
    REASON(EINVAL, "Invalid argument"),
    REASON(ENFILE, "Too many open files in system"),
    REASON(EMFILE, "Too many open files"),
    REASON(ETXTBSY, "Text file busy"),
    REASON(EFBIG, "File too large"),
    REASON(ENOSPC, "No space left on device"),
    REASON(ESPIPE, "Illegal seek"),
    REASON(EROFS, "Read-only file system"),
    REASON(EPIPE, "Broken pipe"),
    REASON(ENAMETOOLONG, "File name too long"),
    REASON(ENOSYS, "Function not implemented"),
    REASON(ELOOP, "Too many levels of symbolic links"),
    REASON(ENODATA, "No data available"),
    REASON(EPROTO, "Protocol error"),
    REASON(EOVERFLOW, "Value too large for defined data type"),
    REASON(ELIBBAD, "Accessing a corrupted shared library"),
    REASON(ENOTSOCK, "Socket operation on non-socket"),
    REASON(EPROTOTYPE, "Protocol wrong type for socket"),
    REASON(EOPNOTSUPP, "Operation not supported"),
    REASON(ETIMEDOUT, "Connection timed out"),
    REASON(ESTALE, "Stale file handle"),
    REASON(EREMOTEIO, "Remote I/O error"),
    REASON(EDQUOT, "Disk quota exceeded"),
    REASON(ENOKEY, "Required key not available"),
    REASON(EKEYREJECTED, "Key was rejected by service"),
};

static const struct reason *find_reason(int code)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].code == code) {
            return &reasons[i];
        }
    }
    return NULL;
}

const char *strerrorname_np(int code)
{
    const struct reason *reason = find_reason(code);
    return reason != NULL ? reason->name : NULL;
}

const char *strerrordesc_np(int code)
{
    const struct reason *reason = find_reason(code);
    return reason != NULL ? reason->text : NULL;
}
