/*
 * page.c - the file `page` of a place: how far an execution is, as plain words that its
 * keeper writes through a mapping, and everybody reads with pread.
 *
 * What is read is held against what it can be: a command of the same user may write here.
 */
#include "supervisor/place.h"

#include "base/error.h"
#include "base/fd.h"
#include "supervisor/file.h"
#include "supervisor/place_private.h"
#include "supervisor/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

#define NAME "page"

_Static_assert(sizeof(struct sbx_page) <= SBX_FILE_PAGE, "it is one page");

int sbx_page_create(int directory, struct sbx_error *err)
{
    SBX_AUTO_CLOSE int fd = sbx_file_create(directory, NAME, SBX_FILE_PAGE, err);
    if (fd < 0) {
        return fd;
    }
    const struct sbx_page page = {.magic = SBX_PAGE_MAGIC};
    int r = sbx_file_write(fd, &page, sizeof page, 0);
    return r < 0
               ? sbx_error_set(err, -r, SBX_STAGE_LAUNCH, "cannot write the file %s: %s",
                               NAME, sbx_errno_text(-r).text)
               : 0;
}

static int open_page(int directory, int access)
{
    uint64_t size = 0;
    SBX_AUTO_CLOSE int fd = sbx_file_open(directory, NAME, access, &size);
    if (fd >= 0 && size != SBX_FILE_PAGE) {
        return -EBADMSG;
    }
    return fd < 0 ? fd : sbx_fd_steal(&fd);
}

int sbx_page_read(int directory, struct sbx_page *ret_page)
{
    struct sbx_page page = {0};
    uint32_t phase = 0;
    SBX_AUTO_CLOSE int fd = open_page(directory, O_RDONLY);
    if (fd < 0) {
        return fd;
    }
    /* The phase first: what belongs to it was written before it. */
    int r = sbx_file_read(fd, &phase, sizeof phase, offsetof(struct sbx_page, phase));
    atomic_thread_fence(memory_order_seq_cst);
    if (r == 0) {
        r = sbx_file_read(fd, &page, sizeof page, 0);
    }
    if (r < 0) {
        return r;
    }
    page.phase = phase;
    if (page.magic != SBX_PAGE_MAGIC || phase > SBX_PHASE_FINISHED ||
        page.status > SBX_EXECUTION_LOST || page.leader_pid < 0 || page.keeper_pid < 0) {
        return -EBADMSG;
    }
    *ret_page = page;
    return 0;
}

int sbx_page_write(int directory, const struct sbx_page *page)
{
    SBX_AUTO_CLOSE int fd = open_page(directory, O_RDWR);
    if (fd < 0) {
        return fd;
    }
    struct sbx_page copy = *page;
    uint32_t phase = page->phase;
    uint32_t before = 0;
    copy.magic = SBX_PAGE_MAGIC;
    int r = sbx_file_read(fd, &before, sizeof before, offsetof(struct sbx_page, phase));
    copy.phase = before;
    if (r == 0) {
        r = sbx_file_write(fd, &copy, sizeof copy, 0);
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (r == 0) {
        r = sbx_file_write(fd, &phase, sizeof phase, offsetof(struct sbx_page, phase));
    }
    return r;
}

struct sbx_page *sbx_page_map(int directory)
{
    SBX_AUTO_CLOSE int fd = open_page(directory, O_RDWR);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    void *memory = mmap(NULL, SBX_FILE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void sbx_page_unmap(struct sbx_page *page)
{
    if (page != NULL) {
        (void)munmap(page, SBX_FILE_PAGE);
    }
}
