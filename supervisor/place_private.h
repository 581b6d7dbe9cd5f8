/*
 * place_private.h - the state directory as the files see it that make it up: state.c
 * (opening, lock, key, listing), discard.c (removing what lies in `new`), place.c (one
 * place), facts.c (its file `request`).
 */
#ifndef SBX_SUPERVISOR_PLACE_PRIVATE_H
#define SBX_SUPERVISOR_PLACE_PRIVATE_H

#include "supervisor/place.h"

#include <stddef.h>

struct sbx_state {
    int directory;
    int lock;
    int new_places; /* STATE/new */
    int executions;
    unsigned char key[SBX_KEY_SIZE];
};

/* Opens a directory below another one, or below nothing (AT_FDCWD and a path), that
 * belongs to this user and that nobody else may write to. A descriptor or a negative
 * errno; -EPERM with a message. */
int sbx_state_open_directory(int parent, const char *name, struct sbx_error *err);

/* Opens a directory of ours whatever mode it has, and gives it 0700; follows no link. A
 * descriptor or a negative errno. */
int sbx_open_own_directory(int parent, const char *name);

/* Moves what has that name to `top`, under a random one. 0 or a negative errno. */
int sbx_discard_move(int parent, const char *name, int top);

/* Removes what is in that directory, with at most `budget` steps, and follows no link.
 * What cannot be removed stays. Whether it is empty now. */
bool sbx_discard_all(int directory, size_t budget);

#define SBX_FACTS_TEXT_SIZE 1024

/* The text of the file `request`. Its length, or a negative errno. */
ssize_t sbx_facts_write(const struct sbx_facts *facts,
                        char buffer[static SBX_FACTS_TEXT_SIZE]);

/* Takes such a text, and nothing else. 0 or -EBADMSG. */
int sbx_facts_read(const char *text, size_t length, struct sbx_facts *ret_facts);

/* Makes the file `page` of a new place. 0 or a negative errno. */
int sbx_page_create(int directory, struct sbx_error *err);

#endif
