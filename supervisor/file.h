/*
 * file.h - the files of an execution, below the descriptor of its directory: made with
 * all of their blocks, and read by those who cannot trust what is in them.
 *
 * A command that runs as the same user may write to these files, cut them short, or put
 * something else in their place. Readers never map them, never follow a link, never wait
 * at a FIFO. Inside of this room, for stream.c, journal.c, page.c and place.c.
 */
#ifndef SBX_SUPERVISOR_FILE_H
#define SBX_SUPERVISOR_FILE_H

#include <sbx/sbx.h>
#include <stddef.h>
#include <stdint.h>

#define SBX_FILE_PAGE ((size_t)4096)

/* Makes `name`, which is not there yet, with mode 0600 and `size` zeroes that have their
 * blocks. A descriptor for reading and writing, or a negative errno, and no file is left.
 */
int sbx_file_create(int directory, const char *name, size_t size, struct sbx_error *err);

/* The same, mapped for reading and writing, without a descriptor, and under a name of its
 * own until sbx_file_show. 0 or a negative errno, and no file is left. */
int sbx_file_create_mapped(int directory, const char *name, size_t size,
                           void **ret_memory, struct sbx_error *err);

/* Such a file gets its name: what there is to be known of it is in it, so that no reader
 * meets half of that. 0 or a negative errno, -EEXIST: the name is taken; no file is left
 * then, and the mapping is gone. */
int sbx_file_show(int directory, const char *name, void *memory, size_t size,
                  struct sbx_error *err);

/* Gives back the blocks of the whole pages in [from, to) of such a mapping, which hold
 * nothing that anybody will read. Where the file system cannot do that they stay. */
void sbx_file_give_back(void *memory, size_t from, size_t to);

/* Opens what is there with O_RDONLY or O_RDWR, and says how large it is. A descriptor;
 * -ENOENT; -EBADMSG: it is no regular file, or cannot be had; -EMFILE, -ENFILE, -ENOMEM.
 */
int sbx_file_open(int directory, const char *name, int access, uint64_t *ret_size);

/* All of these bytes or -EBADMSG. */
int sbx_file_read(int fd, void *buffer, size_t size, uint64_t offset);

/* All of these bytes or a negative errno. */
int sbx_file_write(int fd, const void *data, size_t size, uint64_t offset);

#endif
