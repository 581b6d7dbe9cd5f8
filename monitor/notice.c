/*
 * notice.c - see notice.h. Reads the record while the monitor writes it: of a warning,
 * only what its count speaks for, and of a breach, only when the monitor has said that it
 * is there.
 */
#include "monitor/notice.h"

#include "base/clock.h"
#include "monitor/handle.h"
#include "monitor/report.h"
#include "monitor/wire.h"

#include <linux/sockios.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of the socket, so much may be filled with progress and notices that nobody reads: more
 * than progress alone may, and little enough for a result to fit beside it. */
#define NOTICE_SHARE 65536

static bool has_room(int socket)
{
    int unread = 0;
    return ioctl(socket, SIOCOUTQ, &unread) == 0 && unread <= NOTICE_SHARE;
}

static bool send_one(int socket, struct sbx_wire_notice *frame)
{
    frame->head = (struct sbx_wire_head){SBX_WIRE_NOTICE, (int32_t)getpid()};
    frame->text[sizeof frame->text - 1] = '\0';
    size_t size = offsetof(struct sbx_wire_notice, text) + strlen(frame->text) + 1;
    return has_room(socket) && sbx_wire_send(socket, frame, size, 0) == 0;
}

static bool send_started(int socket, const struct sbx_record *record)
{
    struct sbx_wire_notice frame = {.kind = SBX_NOTICE_STARTED,
                                    .leader_pid = (int32_t)record->leader_pid,
                                    .at_real_us = record->started_real_us};
    return send_one(socket, &frame);
}

static bool send_warning(int socket, const struct sbx_record *record, uint32_t index)
{
    struct sbx_wire_notice frame = {.kind = SBX_NOTICE_WARNING,
                                    .index = (int32_t)index,
                                    .at_real_us = sbx_clock_real_us()};
    (void)sbx_report_prose(frame.text, sizeof frame.text, record->warnings[index],
                           SBX_WARNING_SIZE);
    return send_one(socket, &frame);
}

static bool send_breach(int socket, const struct sbx_record *record)
{
    struct sbx_wire_notice frame = {.kind = SBX_NOTICE_BREACH};
    uint64_t at_us = record->breach.at_us != SBX_UNKNOWN ? record->breach.at_us : 0;
    frame.at_real_us = sbx_clock_add(record->started_real_us, at_us);
    return sbx_report_breach(&record->breach, frame.text, sizeof frame.text) > 0 &&
           send_one(socket, &frame);
}

/* True: there is nothing of it that is not sent. */
static bool tell_once(uint32_t bit, int socket, struct sbx_notice_area *area,
                      const struct sbx_record *record)
{
    if ((atomic_load(&area->news) & bit) == 0 || (atomic_load(&area->sent) & bit) != 0) {
        return true;
    }
    bool sent = bit == SBX_NEWS_STARTED ? send_started(socket, record)
                                        : send_breach(socket, record);
    if (sent) {
        (void)atomic_fetch_or(&area->sent, bit);
    }
    return sent;
}

static bool tell_warnings(int socket, struct sbx_notice_area *area,
                          const struct sbx_record *record)
{
    uint64_t count = __atomic_load_n(&record->warnings_count, __ATOMIC_ACQUIRE);
    uint32_t last = count < SBX_WARNING_MAX ? (uint32_t)count : SBX_WARNING_MAX;
    for (uint32_t i = atomic_load(&area->warnings); i < last; i++) {
        if (!send_warning(socket, record, i)) {
            return false;
        }
        atomic_store(&area->warnings, i + 1);
    }
    return true;
}

void sbx_notice_send(int socket, struct sbx_notice_area *area,
                     const struct sbx_record *record, unsigned news)
{
    (void)atomic_fetch_or(&area->news, news);
    if (tell_once(SBX_NEWS_STARTED, socket, area, record) &&
        tell_warnings(socket, area, record)) {
        (void)tell_once(SBX_NEWS_BREACH, socket, area, record);
    }
}

void sbx_notice_send_rest(int socket, struct sbx_notice_area *area,
                          const struct sbx_record *record)
{
    unsigned news = SBX_NEWS_WARNING;
    news |= record->leader_pid > 0 ? SBX_NEWS_STARTED : 0U;
    news |= record->outcome == SBX_OUTCOME_BREACH ? SBX_NEWS_BREACH : 0U;
    sbx_notice_send(socket, area, record, news);
}
