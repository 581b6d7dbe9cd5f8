/*
 * log_journal.c - lines for the journal, by libsystemd, which is loaded at the first one.
 *
 * The library says nothing when there is no journal, and waits when the journal is busy.
 * So its socket is looked at before: whether somebody is there, and has room. MESSAGE is
 * the line as text; every key is a field of its own beside it, SBX_ in front of it.
 */
#include "monitor/log_sinks.h"

#include "base/fd.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#define LIBRARY "libsystemd.so.0"
#define SOCKET_PATH "/run/systemd/journal/socket"
#define PREFIX "SBX_"
#define KEY_ROOM 64 /* also for a word of ours */
/* MESSAGE, PRIORITY, SYSLOG_IDENTIFIER */
#define OWN_FIELDS 3

struct sbx_log_journal {
    void *library;
    int (*sendv)(const struct iovec *fields, int count);
    char storage[SBX_LOG_STORAGE_SIZE + SBX_LOG_FIELD_MAX * KEY_ROOM + SBX_LOG_TEXT_SIZE];
};

static struct sbx_log_journal *load(void)
{
    SBX_AUTO_FREE struct sbx_log_journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return NULL;
    }
    /* Never unloaded: it keeps a socket of its own, and threads' storage. */
    journal->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (journal->library == NULL) {
        return NULL;
    }
    journal->sendv =
        (__typeof__(journal->sendv))dlsym(journal->library, "sd_journal_sendv");
    if (journal->sendv == NULL) {
        (void)dlclose(journal->library);
        return NULL;
    }
    struct sbx_log_journal *loaded = journal;
    journal = NULL;
    return loaded;
}

/* 0: there is a journal, and it would take a message now. */
static int look(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
    SBX_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        return -errno;
    }
    struct pollfd entry = {.fd = fd, .events = POLLOUT};
    return poll(&entry, 1, 0) > 0 && (entry.revents & POLLOUT) != 0 ? 0 : -EAGAIN;
}

/* PREFIXKEY=value, the key in capitals. */
static struct iovec make_field(char *text, const char *prefix, const char *key,
                               const char *value)
{
    char *end = stpcpy(text, prefix);
    for (; *key != '\0'; key++) {
        bool small = *key >= 'a' && *key <= 'z';
        *end++ = small ? (char)(*key - 'a' + 'A') : *key;
    }
    *end++ = '=';
    end = stpcpy(end, value);
    return (struct iovec){text, (size_t)(end - text)};
}

static int send_fields(struct sbx_log_journal *journal,
                       const struct sbx_log_fields *fields,
                       const struct sbx_log_line *line, const char *message)
{
    struct iovec list[SBX_LOG_FIELD_MAX + OWN_FIELDS];
    char severity[] = {(char)('0' + sbx_log_severity(line->level)), '\0'};
    size_t count = 0;
    char *text = journal->storage;
    list[count++] = make_field(text, "", "message", message);
    text += list[0].iov_len;
    list[count++] = make_field(text, "", "priority", severity);
    text += list[1].iov_len;
    list[count++] = make_field(text, "", "syslog_identifier", "sbx-watch");
    text += list[2].iov_len;
    for (size_t i = 0; i < fields->count; i++) {
        const struct sbx_log_field *field = &fields->list[i];
        list[count] = make_field(text, PREFIX, field->key, field->value);
        text += list[count++].iov_len;
    }
    return journal->sendv(list, (int)count);
}

int sbx_log_journal_put(struct sbx_log_journal **journal,
                        const struct sbx_log_fields *fields,
                        const struct sbx_log_line *line, enum sbx_log_form form)
{
    int r = look();
    if (r < 0) {
        return r;
    }
    if (*journal == NULL) {
        *journal = load();
    }
    if (*journal == NULL) {
        return -ELIBACC;
    }
    char message[SBX_LOG_TEXT_SIZE];
    (void)sbx_log_text(fields, form, true, message);
    return send_fields(*journal, fields, line, message);
}

void sbx_log_journal_free(struct sbx_log_journal *journal)
{
    if (journal != NULL) {
        (void)dlclose(journal->library);
        free(journal);
    }
}
