/*
 * notice.h - what happens in a run, told to who has forked it while it happens: each
 * thing once, in order, before the result.
 *
 * Sent by the guard, or by the monitor when that is gone: what has been sent lies in
 * memory that both share. Never waits: what does not fit beside a result is sent with the
 * next news, or not at all.
 */
#ifndef SBX_MONITOR_NOTICE_H
#define SBX_MONITOR_NOTICE_H

#include "monitor/record.h"

#include <stdatomic.h>
#include <stdint.h>

/* What the monitor has to tell, as bits; the value of SBX_MESSAGE_NEWS. */
#define SBX_NEWS_STARTED 1U
#define SBX_NEWS_WARNING 2U
#define SBX_NEWS_BREACH 4U

/* In memory that guard and monitor share; zeros to begin with. */
struct sbx_notice_area {
    _Atomic uint32_t news;     /* bits: it may be told */
    _Atomic uint32_t sent;     /* bits: started, breach */
    _Atomic uint32_t warnings; /* so many were sent */
};

/* Sends what was not sent yet of what is in `news`, and of all earlier ones. */
void sbx_notice_send(int socket, struct sbx_notice_area *area,
                     const struct sbx_record *record, unsigned news);

/* The run is over, and the record complete: what belongs to the report belongs here. */
void sbx_notice_send_rest(int socket, struct sbx_notice_area *area,
                          const struct sbx_record *record);

#endif
