/*
 * log_kit.c - see log_kit.h. Parsers are strict: what they do not expect fails the test.
 */
#include "tests/log_kit.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_SIZE (256UL * 1024)
#define HARNESS_STATUS 93

static const char key_bytes[] = "abcdefghijklmnopqrstuvwxyz_";

static bool is_integer(const char *value)
{
    size_t digits = strspn(value, "0123456789");
    return digits > 0 && digits < 20 && value[digits] == '\0';
}

static void add_value(json_t *object, const char *key, const char *value, bool quoted)
{
    ck_assert_msg(json_object_get(object, key) == NULL, "key %s twice", key);
    json_t *item = !quoted && is_integer(value)
                       ? json_integer((json_int_t)strtoll(value, NULL, 10))
                       : json_string(value);
    ck_assert_msg(item != NULL, "%s is not UTF-8: %s", key, value);
    ck_assert_int_eq(json_object_set_new(object, key, item), 0);
}

json_t *sbx_kit_parse_kv(const char *line, size_t length)
{
    static char copy[TEXT_SIZE];
    json_t *object = json_object();
    ck_assert_uint_lt(length, sizeof(copy));
    memcpy(copy, line, length);
    copy[length] = '\0';
    ck_assert_uint_eq(strlen(copy), length);
    ck_assert_msg(strpbrk(copy, "\r\n\t\f\v") == NULL, "control character: %s", copy);
    for (char *next = copy; *next != '\0';) {
        char *key = next;
        size_t key_length = strspn(key, key_bytes);
        ck_assert_msg(key_length > 0 && key[key_length] == '=', "no key at: %s", next);
        key[key_length] = '\0';
        char *value = key + key_length + 1;
        bool quoted = *value == '"';
        value += quoted ? 1 : 0;
        char *end = value + strcspn(value, quoted ? "\"" : " \"");
        bool last = *end == '\0';
        ck_assert_msg(!quoted || !last, "no quote at the end: %s", value);
        if (quoted) {
            *end++ = '\0';
            last = *end == '\0';
        }
        ck_assert_msg(last || *end == ' ', "no blank behind %s: %s", key, end);
        *end = '\0';
        add_value(object, key, value, quoted);
        next = last ? end : end + 1;
    }
    return object;
}

static json_t *parse_line(const char *line, size_t length)
{
    json_error_t error;
    if (line[0] != '{') {
        return sbx_kit_parse_kv(line, length);
    }
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(object != NULL, "%s: %.*s", error.text, (int)length, line);
    return object;
}

json_t *sbx_kit_lines(const char *text)
{
    json_t *lines = json_array();
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        ck_assert_msg(text[length] == '\n', "an unfinished line: %s", text);
        if (strncmp(text, "sbx-watch:", 10) != 0) {
            ck_assert_int_eq(json_array_append_new(lines, parse_line(text, length)), 0);
        }
        text += length + 1;
    }
    return lines;
}

json_t *sbx_kit_file_lines(const char *path)
{
    static char text[TEXT_SIZE];
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ssize_t length = read(fd, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    return sbx_kit_lines(text);
}

const char *sbx_kit_string(const json_t *line, const char *key)
{
    const char *value = json_string_value(json_object_get(line, key));
    return value != NULL ? value : "";
}

json_int_t sbx_kit_integer(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    ck_assert_msg(json_is_integer(value), "%s is no number", key);
    return json_integer_value(value);
}

size_t sbx_kit_count(const json_t *lines, const char *event)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        count += strcmp(sbx_kit_string(line, "event"), event) == 0 ? 1U : 0U;
    }
    return count;
}

const json_t *sbx_kit_only(const json_t *lines, const char *event)
{
    const json_t *found = NULL;
    char *dump = json_dumps(lines, 0);
    ck_assert_msg(sbx_kit_count(lines, event) == 1, "not one %s in %s", event, dump);
    free(dump);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        found = strcmp(sbx_kit_string(line, "event"), event) == 0 ? line : found;
    }
    return found;
}

/* --- a host of its own --- */

static int listen_at(const char *directory, const char *name, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length =
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory, name);
    ck_assert_int_lt(length, (int)sizeof(address.sun_path));
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(chmod(address.sun_path, 0666), 0);
    ck_assert(type != SOCK_STREAM || listen(fd, 4) == 0);
    return fd;
}

static void make_below(const char *directory, const char *name)
{
    char path[2 * SBX_FIXTURE_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s%s", directory, name);
    ck_assert_msg(mkdir(path, 0755) == 0, "%s: %s", path, strerror(errno));
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0) {
        _exit(HARNESS_STATUS);
    }
}

/* Root of a namespace of users first, where we are not root. */
static bool unshare_mounts(void)
{
    char map[64];
    unsigned uid = getuid();
    unsigned gid = getgid();
    if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        return false;
    }
    if (uid != 0) {
        write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
        write_text("/proc/self/uid_map", map);
        (void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
        write_text("/proc/self/gid_map", map);
    }
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool bind_over(const char *from, const char *to)
{
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0;
}

static bool enter(const struct sbx_kit_host *host)
{
    static const char *const devices[] = {"null", "zero", "full"};
    bool good = unshare_mounts();
    for (size_t i = 0; good && i < sizeof(devices) / sizeof(devices[0]); i++) {
        char real[64];
        char ours[SBX_FIXTURE_PATH_SIZE + 16];
        (void)snprintf(real, sizeof(real), "/dev/%s", devices[i]);
        (void)snprintf(ours, sizeof(ours), "%s/%s", host->dev, devices[i]);
        good = bind_over(real, ours);
    }
    good = good && (host->hidden[0] == '\0' || bind_over("/dev/null", host->hidden));
    return good && bind_over(host->dev, "/dev") && bind_over(host->run, "/run");
}

void sbx_kit_enter_host(const struct sbx_trial *trial)
{
    if (!enter(trial->context)) {
        _exit(HARNESS_STATUS);
    }
}

/* Whether it can be entered, found out by doing so. */
static bool can_enter(const struct sbx_kit_host *host)
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(enter(host) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool sbx_kit_host_open(struct sbx_kit_host *host, bool with_sockets, bool stream)
{
    static const char *const devices[] = {"null", "zero", "full"};
    *host = (struct sbx_kit_host){.syslog = -1, .journal = -1, .stream = stream};
    (void)sbx_fixture_path(host->dev, "dev");
    (void)sbx_fixture_path(host->run, "run");
    make_below(host->dev, "");
    make_below(host->run, "");
    make_below(host->run, "/systemd");
    make_below(host->run, "/systemd/journal");
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        char path[SBX_FIXTURE_PATH_SIZE + 16];
        (void)snprintf(path, sizeof(path), "%s/%s", host->dev, devices[i]);
        SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        ck_assert_int_ge(fd, 0);
    }
    if (!can_enter(host)) {
        (void)fprintf(stderr, "# SKIP: no mount namespace of one's own here\n");
        return false;
    }
    if (with_sockets) {
        host->syslog = listen_at(host->dev, "log", stream ? SOCK_STREAM : SOCK_DGRAM);
        host->journal = listen_at(host->run, "systemd/journal/socket", SOCK_DGRAM);
    }
    return true;
}

void sbx_kit_host_close(struct sbx_kit_host *host)
{
    sbx_fd_drop(&host->syslog);
    sbx_fd_drop(&host->journal);
}

/* "<12>Nov 30 02:03:04 sbx-watch[123]: " is taken apart; the rest is returned. */
static json_t *parse_syslog(const char *text, size_t length)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4];
    unsigned priority = 0;
    unsigned at[4];
    int pid = 0;
    int used = 0;
    int got = sscanf(text, "<%u>%3s %2u %2u:%2u:%2u sbx-watch[%d]: %n", &priority, month,
                     &at[0], &at[1], &at[2], &at[3], &pid, &used);
    ck_assert_msg(got == 7 && used > 0, "no header: %s", text);
    ck_assert_ptr_nonnull(strstr(months, month));
    ck_assert_msg(at[0] >= 1 && at[0] <= 31 && at[1] < 24 && at[2] < 60 && at[3] < 61,
                  "no time: %s", text);
    ck_assert_uint_eq(priority / 8, 1); /* user */
    json_t *line = parse_line(text + used, length - (size_t)used);
    ck_assert_int_eq(json_object_set_new(line, "severity", json_integer(priority % 8)),
                     0);
    ck_assert_int_eq(json_object_set_new(line, "syslog_pid", json_integer(pid)), 0);
    return line;
}

json_t *sbx_kit_syslog_lines(struct sbx_kit_host *host)
{
    static char text[TEXT_SIZE];
    json_t *lines = json_array();
    if (!host->stream) {
        ssize_t length;
        while ((length = recv(host->syslog, text, sizeof(text) - 1, 0)) > 0) {
            text[length] = '\0';
            (void)json_array_append_new(lines, parse_syslog(text, (size_t)length));
        }
        return lines;
    }
    SBX_AUTO_CLOSE int fd = accept4(host->syslog, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    size_t used = 0;
    ssize_t length;
    while ((length = read(fd, text + used, sizeof(text) - used)) > 0) {
        used += (size_t)length;
    }
    for (char *next = text; next < text + used; next += strlen(next) + 1) {
        ck_assert_ptr_nonnull(memchr(next, '\0', used - (size_t)(next - text)));
        (void)json_array_append_new(lines, parse_syslog(next, strlen(next)));
    }
    return lines;
}

/* NAME=VALUE LF, or NAME LF, length as 64 bits little endian, value, LF. */
static char *parse_field(json_t *entry, char *field, char *end)
{
    char *line_feed = memchr(field, '\n', (size_t)(end - field));
    ck_assert_ptr_nonnull(line_feed);
    char *equals = memchr(field, '=', (size_t)(line_feed - field));
    char *value = NULL;
    uint64_t length = 0;
    if (equals != NULL) {
        *equals = '\0';
        value = equals + 1;
        length = (uint64_t)(line_feed - value);
    } else {
        *line_feed = '\0';
        ck_assert_int_gt(end - line_feed, 9);
        memcpy(&length, line_feed + 1, sizeof(length));
        value = line_feed + 1 + sizeof(length);
        ck_assert_uint_lt(length, (uint64_t)(end - value));
    }
    ck_assert_int_eq(value[length], '\n');
    ck_assert_ptr_null(json_object_get(entry, field));
    (void)json_object_set_new(entry, field, json_stringn(value, length));
    return value + length + 1;
}

json_t *sbx_kit_journal_entries(struct sbx_kit_host *host)
{
    static char text[TEXT_SIZE];
    json_t *entries = json_array();
    ssize_t length;
    while ((length = recv(host->journal, text, sizeof(text), 0)) > 0) {
        json_t *entry = json_object();
        for (char *next = text; next < text + length;) {
            next = parse_field(entry, next, text + length);
        }
        const char *event = sbx_kit_string(entry, "SBX_EVENT");
        (void)json_object_set_new(entry, "event", json_string(event));
        (void)json_array_append_new(entries, entry);
    }
    return entries;
}
