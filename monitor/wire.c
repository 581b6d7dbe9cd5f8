/*
 * wire.c - see wire.h. The specification as text is a row of NUL-terminated strings, each
 * with a tag in front: F flag; O option, and V its value; D the directory (a descriptor)
 * that the path of the next option starts at; I progress interval; A argument of the
 * command; E the end.
 */
#include "monitor/wire.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum tag {
    TAG_FLAG = 'F',
    TAG_OPTION = 'O',
    TAG_VALUE = 'V',
    TAG_DIRECTORY = 'D',
    TAG_INTERVAL = 'I',
    TAG_ARGUMENT = 'A',
    TAG_END = 'E',
};

/* --- frames --- */

static int wait_for_room(int socket, uint64_t deadline_us)
{
    uint64_t now = sbx_clock_us();
    if (deadline_us == 0) {
        return -EAGAIN;
    }
    if (now >= deadline_us) {
        return -ETIMEDOUT;
    }
    uint64_t rest_ms = (deadline_us - now) / 1000U + 1;
    struct pollfd fd = {.fd = socket, .events = POLLOUT};
    (void)poll(&fd, 1, rest_ms < INT_MAX ? (int)rest_ms : INT_MAX);
    return 0;
}

int sbx_wire_send(int socket, const void *frame, size_t size, uint64_t deadline_us)
{
    for (;;) {
        if (send(socket, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
            return 0;
        }
        if (errno == ECONNRESET) {
            return -EPIPE; /* gone, with something of ours unread */
        }
        if (errno == EAGAIN) {
            int r = wait_for_room(socket, deadline_us);
            if (r < 0) {
                return r;
            }
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}

int sbx_wire_send_text(int socket, const char *text, size_t length, uint64_t deadline_us)
{
    struct sbx_wire_text chunk = {.head = {SBX_WIRE_TEXT, (int32_t)getpid()}};
    while (length > 0) {
        size_t part = length < sizeof chunk.text ? length : sizeof chunk.text;
        memcpy(chunk.text, text, part);
        int r = sbx_wire_send(socket, &chunk, offsetof(struct sbx_wire_text, text) + part,
                              deadline_us);
        if (r < 0) {
            return r;
        }
        text += part;
        length -= part;
    }
    return 0;
}

static bool is_whole(const union sbx_wire_frame *frame, size_t size)
{
    if (size < sizeof frame->head) {
        return false;
    }
    switch ((enum sbx_wire_kind)frame->head.kind) {
    case SBX_WIRE_SPEC:
        return size == sizeof frame->spec;
    case SBX_WIRE_HELLO:
        return size == sizeof frame->head;
    case SBX_WIRE_PROGRESS:
        return size == sizeof frame->progress;
    case SBX_WIRE_RESULT:
        return size == sizeof frame->result;
    case SBX_WIRE_TEXT:
        return size > offsetof(struct sbx_wire_text, text);
    case SBX_WIRE_NOTICE:
        return size > offsetof(struct sbx_wire_notice, text) &&
               size <= sizeof frame->notice && ((const char *)frame)[size - 1] == '\0';
    }
    return false;
}

ssize_t sbx_wire_receive(int socket, union sbx_wire_frame *ret_frame)
{
    /* The kernel tells once of a peer that has left something of ours unread. What it has
     * sent is there all the same. */
    for (int resets = 0;;) {
        ssize_t size = recv(socket, ret_frame, sizeof *ret_frame, MSG_DONTWAIT);
        if (size > 0) {
            return is_whole(ret_frame, (size_t)size) ? size : -EBADMSG;
        }
        if (size == 0) {
            return 0;
        }
        if (errno != EINTR && (errno != ECONNRESET || ++resets > 1)) {
            return -errno;
        }
    }
}

/* --- a specification as text --- */

struct pack {
    char *text; /* NULL: only measured */
    size_t used;
};

static void put(struct pack *pack, enum tag tag, const char *string)
{
    size_t size = strlen(string) + 1;
    if (pack->text != NULL) {
        pack->text[pack->used] = (char)tag;
        memcpy(pack->text + pack->used + 1, string, size);
    }
    pack->used += 1 + size;
}

static void put_number(struct pack *pack, enum tag tag, uint64_t number)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, number);
    put(pack, tag, digits);
}

/* Options whose relative path means the directory in which it was set, and where the
 * specification holds that. */
static const struct {
    const char *option;
    size_t field;
} directories[] = {
    {"cgroup", offsetof(struct sbx_spec, attach.cgroup_directory_fd)},
    {"report", offsetof(struct sbx_spec, report_directory_fd)},
    {"chdir", offsetof(struct sbx_spec, start.directory_fd)},
    {"log", offsetof(struct sbx_spec, log.directory_fd)},
    {"timeline", offsetof(struct sbx_spec, log.directory_fd)},
    {"stdin", offsetof(struct sbx_spec, streams[0].directory_fd)},
    {"stdout", offsetof(struct sbx_spec, streams[1].directory_fd)},
    {"stderr", offsetof(struct sbx_spec, streams[2].directory_fd)},
    {"cgroup-root", offsetof(struct sbx_spec, cgroup_root_directory_fd)},
};

static int directory_of(const struct sbx_spec *spec, const struct sbx_setting *setting)
{
    int fd = -1;
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        if (strcmp(directories[i].option, setting->name) == 0) {
            memcpy(&fd, (const char *)spec + directories[i].field, sizeof fd);
        }
    }
    return fd;
}

static void put_option(struct pack *pack, const char *name, const char *value)
{
    put(pack, value != NULL ? TAG_OPTION : TAG_FLAG, name);
    if (value != NULL) {
        put(pack, TAG_VALUE, value);
    }
}

/* A file with variables has been read, once and for all. What it said comes before what
 * single options say, wherever it stood. */
static void put_variables(struct pack *pack, const struct sbx_spec *spec)
{
    for (size_t i = 0; i < spec->environment.from_files.count; i++) {
        put_option(pack, "env", spec->environment.from_files.items[i]);
    }
}

static void put_spec(struct pack *pack, const struct sbx_spec *spec)
{
    const struct sbx_setting *setting = spec->settings.first;
    put_variables(pack, spec);
    for (; setting != NULL; setting = setting->next) {
        int directory = directory_of(spec, setting);
        if (strcmp(setting->name, "env-from") == 0) {
            continue;
        }
        if (directory >= 0) {
            put_number(pack, TAG_DIRECTORY, (uint64_t)directory);
        }
        put_option(pack, setting->name, setting->value);
    }
    if (spec->progress_us != 0) {
        put_number(pack, TAG_INTERVAL, spec->progress_us);
    }
    for (size_t i = 0; spec->argv != NULL && spec->argv[i] != NULL; i++) {
        put(pack, TAG_ARGUMENT, spec->argv[i]);
    }
    put(pack, TAG_END, "");
}

int sbx_wire_pack(const struct sbx_spec *spec, char **ret_text, size_t *ret_length,
                  struct sbx_error *err)
{
    struct pack pack = {.text = NULL};
    put_spec(&pack, spec);
    if (pack.used > SBX_WIRE_SPEC_MAX) {
        return sbx_error_set(err, E2BIG, SBX_STAGE_CHECK,
                             "command and options are %zu bytes long (accepted: %zu)",
                             pack.used, SBX_WIRE_SPEC_MAX);
    }
    pack.text = malloc(pack.used);
    if (pack.text == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH,
                             "no memory for a specification of %zu bytes", pack.used);
    }
    pack.used = 0;
    put_spec(&pack, spec);
    *ret_text = pack.text;
    *ret_length = pack.used;
    return 0;
}

/* One string of the text; false at its end, or where what is left is none. */
struct walk {
    const char *text;
    size_t length;
    enum tag tag;
    const char *string;
};

static bool next(struct walk *walk)
{
    const char *end =
        walk->length > 1 ? memchr(walk->text + 1, '\0', walk->length - 1) : NULL;
    if (end == NULL) {
        return false;
    }
    walk->tag = (enum tag)walk->text[0];
    walk->string = walk->text + 1;
    walk->length -= (size_t)(end + 1 - walk->text);
    walk->text = end + 1;
    return true;
}

struct replay {
    struct sbx_spec *spec;
    int here;           /* the working directory while it is another; -1: it is none */
    const char *option; /* waits for its value */
    const char **arguments;
    size_t count;
    bool ended;
};

static int refuse(struct sbx_error *err)
{
    return sbx_error_set(err, EPROTO, SBX_STAGE_LAUNCH,
                         "the specification did not arrive as a whole");
}

static int replay_interval(struct sbx_spec *spec, const char *digits,
                           struct sbx_error *err)
{
    uint64_t interval_us = 0;
    if (sbx_text_count(digits, &interval_us) < 0) {
        return refuse(err);
    }
    return sbx_spec_set_progress(spec, interval_us, err);
}

static int enter(struct replay *replay, const char *digits, struct sbx_error *err)
{
    uint64_t fd = 0;
    if (sbx_text_count(digits, &fd) < 0 || fd > INT_MAX) {
        return refuse(err);
    }
    if (replay->here < 0) {
        replay->here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return replay->here < 0 || fchdir((int)fd) < 0
               ? sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "working directory: %s",
                               sbx_errno_text(errno).text)
               : 0;
}

static int come_back(struct replay *replay, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int here = sbx_fd_steal(&replay->here);
    return here >= 0 && fchdir(here) < 0
               ? sbx_error_set(err, errno, SBX_STAGE_LAUNCH, "working directory: %s",
                               sbx_errno_text(errno).text)
               : 0;
}

static int replay_value(struct replay *replay, const char *option, const char *value,
                        struct sbx_error *err)
{
    int r = sbx_spec_set(replay->spec, option, value, err);
    int back = come_back(replay, r < 0 ? NULL : err);
    return r < 0 ? r : back;
}

static int replay_one(struct replay *replay, const struct walk *walk,
                      struct sbx_error *err)
{
    const char *option = replay->option;
    if ((option != NULL) != (walk->tag == TAG_VALUE)) {
        return refuse(err);
    }
    replay->option = NULL;
    switch (walk->tag) {
    case TAG_FLAG:
        return sbx_spec_set(replay->spec, walk->string, NULL, err);
    case TAG_OPTION:
        replay->option = walk->string;
        return 0;
    case TAG_VALUE:
        return replay_value(replay, option, walk->string, err);
    case TAG_DIRECTORY:
        return enter(replay, walk->string, err);
    case TAG_INTERVAL:
        return replay_interval(replay->spec, walk->string, err);
    case TAG_ARGUMENT:
        replay->arguments[replay->count++] = walk->string;
        return 0;
    case TAG_END:
        replay->ended = true;
        return walk->length == 0 ? 0 : refuse(err);
    }
    return refuse(err);
}

static size_t count_arguments(const char *text, size_t length)
{
    size_t count = 0;
    struct walk walk = {.text = text, .length = length};
    while (next(&walk)) {
        count += walk.tag == TAG_ARGUMENT ? 1 : 0;
    }
    return count;
}

int sbx_wire_replay(const char *text, size_t length, struct sbx_spec *spec,
                    struct sbx_error *err)
{
    struct replay replay = {.spec = spec, .here = -1};
    replay.arguments =
        calloc(count_arguments(text, length) + 1, sizeof *replay.arguments);
    if (replay.arguments == NULL) {
        return sbx_error_set(err, ENOMEM, SBX_STAGE_LAUNCH, "no memory for a command");
    }
    struct walk walk = {.text = text, .length = length};
    int r = 0;
    while (r == 0 && !replay.ended && next(&walk)) {
        r = replay_one(&replay, &walk, err);
    }
    if (r == 0 && !replay.ended) {
        r = refuse(err);
    }
    if (r == 0 && replay.count > 0) {
        r = sbx_spec_set_command(spec, replay.arguments, err);
    }
    free(replay.arguments);
    (void)come_back(&replay, NULL);
    return r;
}

bool sbx_wire_names_fd(const char *option)
{
    static const char ending[] = "-fd";
    size_t length = strlen(option);
    return length >= sizeof ending &&
           strcmp(option + length - (sizeof ending - 1), ending) == 0;
}

size_t sbx_wire_fds(const char *text, size_t length, int *fds, size_t max)
{
    struct walk walk = {.text = text, .length = length};
    size_t count = 0;
    bool wanted = false;
    while (count < max && next(&walk)) {
        uint64_t number = 0;
        if (((wanted && walk.tag == TAG_VALUE) || walk.tag == TAG_DIRECTORY) &&
            sbx_text_count(walk.string, &number) == 0 && number <= INT_MAX) {
            fds[count++] = (int)number;
        }
        wanted = walk.tag == TAG_OPTION && sbx_wire_names_fd(walk.string);
    }
    return count;
}
