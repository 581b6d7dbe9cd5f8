/*
 * text.h - strict parsing of what people write, and safe spelling of what processes are
 * called.
 *
 * Every parser takes a NUL-terminated string and accepts it whole or not at all: no
 * blanks, no sign, no octal or hexadecimal notation, no exponent, no wrap-around, no
 * locale. Results are untouched on failure. Nothing here allocates.
 */
#ifndef SBX_BASE_TEXT_H
#define SBX_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/*
 * All return 0, -EINVAL (not of the form) or -ERANGE (of the form, but not
 * representable). Zero parses: whether it makes sense is the caller's question.
 */

/* Digits, an optional fraction, an optional unit of `us ms s m h d`; a bare number is
 * seconds. At most 2^64-1 us; a fraction below 1 us is -EINVAL unless its digits are
 * zeros. "010" is refused (a leading zero reads as octal elsewhere), "0.5" is not. */
int sbx_text_duration(const char *text, uint64_t *ret_us);

/* Digits, an optional fraction, an optional unit: `K M G T` or `KiB MiB GiB TiB` (1024),
 * `KB MB GB TB` (1000), `B`. A value that is no whole number of bytes (1.1G) is rounded
 * down, which no comparison with a whole number can tell; a fraction of `B` itself is
 * -EINVAL. */
int sbx_text_size(const char *text, uint64_t *ret_bytes);

/* Digits only. */
int sbx_text_count(const char *text, uint64_t *ret_count);

/* "TERM", "SIGTERM", "term" or "15", also "RTMIN+2", "RTMAX-1". Numbers 1 to SIGRTMAX. */
int sbx_text_signal(const char *text, int *ret_signal);

#define SBX_SIGNAL_NAME_SIZE 16

/* "SIGTERM", "SIGRTMIN+2"; "SIG99" for a number that has no name. Returns buffer. */
const char *sbx_text_signal_name(int signal_number,
                                 char buffer[static SBX_SIGNAL_NAME_SIZE]);

/*
 * Copies `length` bytes of source as UTF-8 text: a byte that is not part of valid UTF-8,
 * a control character (below 0x20, 0x7f, and U+0080 to U+009F) or a backslash becomes
 * \xHH (upper case). Always terminates; never cuts inside a character or an escape; what
 * does not fit is left out. Returns the number of bytes written without the terminator.
 */
size_t sbx_text_escape(char *buffer, size_t size, const char *source, size_t length);

#endif
