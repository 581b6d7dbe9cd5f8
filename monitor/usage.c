/*
 * usage.c - see usage.h. Every part of the line is left out while it is not known.
 * Telling is a best effort: a stderr that takes nothing now gets nothing, since the one
 * who tells is the guard. Never allocates, never waits.
 */
#include "monitor/usage.h"

#include "base/clock.h"
#include "monitor/human.h"
#include "monitor/sink.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Numbers of a sample that is older say so. */
#define FRESH_US (1 * SBX_US_PER_S)

typedef const char *human_function(uint64_t number, char buffer[static SBX_HUMAN_SIZE]);

struct line {
    char *buffer;
    size_t used;
    bool begun; /* something stands in it */
};

static void __attribute__((format(printf, 2, 3)))
add(struct line *line, const char *format, ...)
{
    size_t room = SBX_USAGE_LINE_SIZE - line->used;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->buffer + line->used, room, format, args);
    va_end(args);
    if (length > 0) {
        line->used += (size_t)length < room ? (size_t)length : room - 1;
    }
}

static const char *count(uint64_t number, char buffer[static SBX_HUMAN_SIZE])
{
    (void)snprintf(buffer, SBX_HUMAN_SIZE, "%" PRIu64, number);
    return buffer;
}

/* ", NAME VALUE of LIMIT"; a limit of 0 was not asked for. */
static void add_value(struct line *line, const char *name, human_function *human,
                      uint64_t value, uint64_t limit)
{
    char text[SBX_HUMAN_SIZE];
    add(line, "%s%s %s", line->begun ? ", " : "", name, human(value, text));
    if (limit != 0) {
        add(line, " of %s", human(limit, text));
    }
    line->begun = true;
}

static void add_memory(struct line *line, const struct sbx_spec *spec,
                       const struct sbx_record *record)
{
    char text[SBX_HUMAN_SIZE];
    const struct sbx_current *current = &record->current;
    add_value(line, current->memory_is_bound ? "memory up to" : "memory", sbx_human_bytes,
              current->memory_bytes, spec->limits.memory_bytes);
    if (record->usage.memory_peak_bytes != SBX_UNKNOWN) {
        add(line, " (peak %s)", sbx_human_bytes(record->usage.memory_peak_bytes, text));
    }
}

size_t sbx_usage_line(const struct sbx_spec *spec, const struct sbx_record *record,
                      uint64_t now_us, char buffer[static SBX_USAGE_LINE_SIZE])
{
    struct line line = {.buffer = buffer};
    char text[SBX_HUMAN_SIZE];
    const struct sbx_current *current = &record->current;
    const struct sbx_limits *limits = &spec->limits;
    add(&line, "sbx-watch: usage: ");
    if (current->launched_us == 0) {
        add(&line, "nothing has been started yet");
    } else {
        uint64_t wall = record->usage.wall_us; /* fixed once the leader has ended */
        wall = wall != SBX_UNKNOWN ? wall : now_us - current->launched_us;
        add_value(&line, "wall", sbx_human_us, wall, limits->wall_us);
    }
    if (record->usage.cpu_us != SBX_UNKNOWN) {
        add_value(&line, "cpu", sbx_human_us, record->usage.cpu_us, limits->cpu_us);
    }
    if (record->usage.output_bytes != SBX_UNKNOWN) {
        add_value(&line, "output", sbx_human_bytes, record->usage.output_bytes,
                  limits->output_bytes);
    }
    if (current->sampled_us != 0) {
        add_memory(&line, spec, record);
        add_value(&line, "processes", count, current->processes, limits->processes_count);
        add_value(&line, "threads", count, current->threads, limits->threads_count);
        uint64_t age = now_us - current->sampled_us;
        if (now_us > current->sampled_us && age > FRESH_US) {
            add(&line, "; sampled %s ago", sbx_human_us(age, text));
        }
    }
    add(&line, "\n");
    return line.used;
}

void sbx_usage_tell(const struct sbx_spec *spec, const struct sbx_record *record)
{
    char text[SBX_USAGE_LINE_SIZE];
    size_t length = sbx_usage_line(spec, record, sbx_clock_us(), text);
    (void)sbx_sink_try(STDERR_FILENO, text, length);
}
