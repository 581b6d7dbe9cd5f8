/*
 * keeper_input.c - what the command is to read: a pipe, and a bounded queue in front of
 * it. Bytes of a request are a queue that was filled before the start.
 */
#include "supervisor/keeper_private.h"

#include "base/fd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void drop_queue(struct sbx_keeper_input *input)
{
    free(input->data);
    input->data = NULL;
    input->used = 0;
    input->length = 0;
}

void sbx_keeper_close_input(struct sbx_keeper *keeper)
{
    struct sbx_keeper_input *input = &keeper->input;
    sbx_source_free(input->source);
    input->source = NULL;
    sbx_fd_drop(&input->pipe);
    drop_queue(input);
    atomic_store(&keeper->page->stdin_open, 0);
}

/* All is written, as far as it can be now. */
static void settle(struct sbx_keeper *keeper)
{
    struct sbx_keeper_input *input = &keeper->input;
    if (input->used < input->length) {
        return;
    }
    drop_queue(input);
    sbx_source_free(input->source);
    input->source = NULL;
    if (input->closes) {
        sbx_keeper_close_input(keeper);
    }
}

static void on_room(void *context)
{
    struct sbx_keeper *keeper = context;
    struct sbx_keeper_input *input = &keeper->input;
    while (input->used < input->length) {
        ssize_t written =
            write(input->pipe, input->data + input->used, input->length - input->used);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && errno == EAGAIN) {
            return;
        }
        if (written < 0) { /* nobody will read it */
            sbx_keeper_close_input(keeper);
            return;
        }
        input->used += (size_t)written;
    }
    settle(keeper);
}

/* Writes what can be written at once, and the rest when there is room. */
static int begin(struct sbx_keeper *keeper)
{
    struct sbx_keeper_input *input = &keeper->input;
    on_room(keeper);
    if (input->pipe < 0 || input->used >= input->length || input->source != NULL) {
        return 0;
    }
    return sbx_loop_add_writer(keeper->loop, input->pipe, on_room, keeper,
                               &input->source);
}

int sbx_keeper_open_input(struct sbx_keeper *keeper, char *data, size_t length)
{
    struct sbx_keeper_input *input = &keeper->input;
    input->data = data;
    input->length = length;
    return begin(keeper);
}

/* Makes room behind what waits, for `more` bytes. */
static int grow(struct sbx_keeper_input *input, size_t more)
{
    size_t waiting = input->length - input->used;
    char *data = malloc(waiting + more);
    if (data == NULL) {
        return ENOMEM;
    }
    if (waiting > 0) {
        memcpy(data, input->data + input->used, waiting);
    }
    free(input->data);
    input->data = data;
    input->used = 0;
    input->length = waiting;
    return 0;
}

int sbx_keeper_feed(struct sbx_keeper *keeper, const char *data, size_t length,
                    bool closes)
{
    struct sbx_keeper_input *input = &keeper->input;
    if (input->pipe < 0 || input->closes) {
        return EPIPE;
    }
    size_t waiting = input->length - input->used;
    if (waiting > SBX_STDIN_MAX || length > SBX_STDIN_MAX - waiting) {
        return EAGAIN;
    }
    if (length > 0) {
        int code = grow(input, length);
        if (code != 0) {
            return code;
        }
        memcpy(input->data + input->length, data, length);
        input->length += length;
    }
    input->closes = closes;
    if (closes) {
        atomic_store(&keeper->page->stdin_open, 0);
    }
    /* Where no event can be had it is tried again with the next order. */
    (void)begin(keeper);
    return 0;
}
