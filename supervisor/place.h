/*
 * place.h - the state directory, and the place of each execution in it.
 *
 *     STATE/lock            held (flock) by the sbxd that serves it
 *     STATE/key             32 random bytes, mode 0600: of the fingerprints
 *     STATE/new/            places that are being made, or removed
 *     STATE/executions/ID/  lock request page events stdout stderr report.json control,
 *                           and spare while it runs
 *
 * A place is made under another name and renamed when it is complete: an ID that is there
 * is reserved. Its lock is taken before that and passed on to the keeper and to all
 * processes of the run: it is free when the last of them is gone, and only then. Every
 * file of a place is opened below its directory's descriptor without following links.
 */
#ifndef SBX_SUPERVISOR_PLACE_H
#define SBX_SUPERVISOR_PLACE_H

#include <sbx/sbx.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SBX_ID_SIZE 129 /* with its terminator */
#define SBX_KEY_SIZE 32
#define SBX_DIGEST_SIZE 32
#define SBX_BOOT_SIZE 37

/* ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$ */
bool sbx_id_is_valid(const char *id);

/* A new one: 128 random bits as hexadecimal digits. 0 or a negative errno. */
int sbx_id_make(char id[static SBX_ID_SIZE]);

/* --- what is known of an execution from its start on: the file `request` --- */

struct sbx_facts {
    char id[SBX_ID_SIZE];
    uint64_t created_real_us;
    uint64_t retention_us;
    uint64_t output_limit_bytes;
    uint64_t event_limit_count;
    bool pause_when_full;
    uint32_t uid;                          /* of who asked for it */
    unsigned char digest[SBX_DIGEST_SIZE]; /* HMAC of the request */
    char boot[SBX_BOOT_SIZE];              /* boot id of the kernel: set by the place */
};

/* --- how far it is: the file `page`, mapped by the keeper, read by everybody --- */

enum sbx_phase {
    SBX_PHASE_RESERVED = 0, /* nothing has run */
    SBX_PHASE_LAUNCHING,    /* from here on something may have */
    SBX_PHASE_RUNNING,
    SBX_PHASE_FINISHED, /* journal, streams and report are complete */
};

/* Plain words, each written by the keeper alone (by sbxd where the keeper is gone). */
struct sbx_page {
    uint64_t magic; /* SBX_PAGE_MAGIC */
    _Atomic uint32_t phase;
    _Atomic uint32_t status;     /* enum sbx_execution_status, from FINISHED on */
    _Atomic uint32_t stdin_open; /* more can be written to it */
    _Atomic uint32_t paused;
    _Atomic uint64_t started_real_us;  /* 0: not yet */
    _Atomic uint64_t finished_real_us; /* 0: not yet */
    _Atomic int32_t leader_pid;        /* 0: not known */
    _Atomic int32_t keeper_pid;        /* 0: not known */
};
#define SBX_PAGE_MAGIC UINT64_C(0x3167617065786273)

/* --- the state directory --- */

struct sbx_state;

/* Makes what is missing (mode 0700, 0600), takes the lock, reads or makes the key, and
 * empties `new`. -EBUSY: another sbxd has the lock (the message has its pid where it is
 * known). -EPERM: it belongs to somebody else, or others may write to it. */
int sbx_state_open(const char *path, struct sbx_state **ret_state, struct sbx_error *err);
void sbx_state_close(struct sbx_state *state);
const unsigned char *sbx_state_key(const struct sbx_state *state);

/* Called with the name of each place that is there. False ends it. */
typedef bool sbx_state_callback(const char *id, void *context);
int sbx_state_list(struct sbx_state *state, sbx_state_callback *callback, void *context);

/* --- one place --- */

struct sbx_place {
    int directory; /* -1: none */
    int lock;      /* held; -1: not by this process */
};

/* Reserves the ID of `facts` (which is valid): a place with `lock`, `request` and a
 * zeroed `page` appears. Both descriptors are the caller's. -EEXIST: the ID is taken;
 * -ENOSPC ...
 */
int sbx_state_reserve(struct sbx_state *state, const struct sbx_facts *facts,
                      struct sbx_place *ret_place, struct sbx_error *err);

/* Opens one that is there, without its lock. -ENOENT; -EBADMSG: it is damaged (its
 * directory is returned all the same, or -1 where there is none that can be opened). */
int sbx_state_find(struct sbx_state *state, const char *id, struct sbx_place *ret_place,
                   struct sbx_facts *ret_facts, struct sbx_error *err);

/* The ID is free when this returns 0, even if files are left in `new` to be removed
 * later. Removes nothing but what is in that place, follows no link. */
int sbx_state_remove(struct sbx_state *state, const char *id, struct sbx_error *err);

/* Whether any process of the run still holds the lock, or may: "yes" also where that
 * cannot be found out now (no descriptor, no memory). A lock that is gone is held by
 * nobody. */
bool sbx_place_is_held(int directory);

/* Whether nobody holds it for certain: it is there, and could be taken. */
bool sbx_place_is_free(int directory);

/* The boot id of the running kernel, "" where it cannot be read. */
void sbx_boot_id(char boot[static SBX_BOOT_SIZE]);

/* Reads the page. 0; -ENOENT; -EBADMSG. */
int sbx_page_read(int directory, struct sbx_page *ret_page);

/* Writes it, the phase last, without a mapping: for sbxd, which a process that is left of
 * the command must not end by cutting the file short. 0; -ENOENT; -EBADMSG. */
int sbx_page_write(int directory, const struct sbx_page *page);

/* For the keeper: maps it for writing; its blocks are there since the place was reserved.
 * NULL and errno.
 */
struct sbx_page *sbx_page_map(int directory);
void sbx_page_unmap(struct sbx_page *page);

/* The report in a place, terminated, for the caller to free, and when it was written
 * (microseconds since the epoch). NULL: there is none. */
char *sbx_place_report(int directory, size_t *ret_length, uint64_t *ret_written_us);

/* Room for a report on a disk that is full by the time that there is one: a file with all
 * of its blocks. 0 or a negative errno. */
int sbx_place_spare_report(int directory, struct sbx_error *err);

/* Gives that room back; before, where no report lies in the place, and there is one that
 * could not be published (NULL: there is none), it becomes the report. */
void sbx_place_use_spare(int directory, const char *report, size_t length);

void sbx_place_close(struct sbx_place *place);

#endif
