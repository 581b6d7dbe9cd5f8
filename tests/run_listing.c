/*
 * run_listing.c - takes and compares listings of a directory.
 *
 * A walk with nftw(3), so one at a time in a process. A file that is written to with the
 * same size within the clock's granularity of the file system is not seen as changed:
 * what matters here is that nothing comes or goes, and tests compare contents where those
 * do.
 */
#include "tests/run_listing.h"

#include <check.h>
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENTRIES_MAX 4096
#define NAME_SIZE 512
#define EXPECTED_SIZE 1024

struct entry {
    char *path; /* below the directory */
    mode_t mode;
    off_t size;
    struct timespec changed;
};

struct sbx_listing {
    size_t count;
    struct entry entries[ENTRIES_MAX];
};

/* The walk under way. */
static struct {
    struct sbx_listing *listing;
    size_t skip; /* length of the directory's own path */
    const char *but;
} walk;

static bool begins_with_one_of(const char *path, const char *prefixes)
{
    char copy[NAME_SIZE];
    char *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", prefixes);
    for (const char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        if (strncmp(path, word, strlen(word)) == 0) {
            return true;
        }
    }
    return false;
}

static int add_entry(const char *path, const struct stat *status, int type,
                     struct FTW *place)
{
    struct sbx_listing *listing = walk.listing;
    (void)type;
    if (place->level == 0 || begins_with_one_of(path + walk.skip, walk.but)) {
        return 0;
    }
    if (listing->count == ENTRIES_MAX) {
        return ENFILE;
    }
    struct entry *entry = &listing->entries[listing->count++];
    *entry = (struct entry){.path = strdup(path + walk.skip), .mode = status->st_mode};
    if (!S_ISDIR(status->st_mode)) {
        entry->size = status->st_size;
        entry->changed = status->st_mtim;
    }
    return entry->path != NULL ? 0 : ENOMEM;
}

struct sbx_listing *sbx_listing_take(const char *directory, const char *but)
{
    struct sbx_listing *listing = calloc(1, sizeof(*listing));
    ck_assert_ptr_nonnull(listing);
    walk.listing = listing;
    walk.skip = strlen(directory) + 1;
    walk.but = but;
    int error = nftw(directory, add_entry, 16, FTW_PHYS);
    ck_assert_msg(error == 0, "cannot list %s: %s", directory,
                  strerror(error > 0 ? error : errno));
    return listing;
}

void sbx_listing_free(struct sbx_listing *listing)
{
    for (size_t i = 0; listing != NULL && i < listing->count; i++) {
        free(listing->entries[i].path);
    }
    free(listing);
}

static const struct entry *find(const struct sbx_listing *listing, const char *path)
{
    for (size_t i = 0; i < listing->count; i++) {
        if (strcmp(listing->entries[i].path, path) == 0) {
            return &listing->entries[i];
        }
    }
    return NULL;
}

static bool same(const struct entry *a, const struct entry *b)
{
    return a->mode == b->mode && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* The path of an expected name; *ret_gone: it has a "-". */
static void expected_path(const char *word, const char *prefix, bool *ret_gone,
                          char path[static NAME_SIZE])
{
    *ret_gone = word[0] == '-';
    word += *ret_gone ? 1 : 0;
    if (strncmp(word, "../", 3) == 0) {
        (void)snprintf(path, NAME_SIZE, "%s", word + 3);
    } else {
        (void)snprintf(path, NAME_SIZE, "%s/%s", prefix, word);
    }
}

static bool is_expected(const char *path, const char *prefix, const char *expected,
                        bool gone)
{
    char copy[EXPECTED_SIZE];
    char *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", expected);
    for (const char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char wanted[NAME_SIZE];
        bool is_gone;
        expected_path(word, prefix, &is_gone, wanted);
        if (is_gone == gone && strcmp(wanted, path) == 0) {
            return true;
        }
    }
    return false;
}

static void say(char text[static SBX_LISTING_TEXT_SIZE], const char *what,
                const char *path)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, SBX_LISTING_TEXT_SIZE - used, "%s%s %s",
                   used > 0 ? ", " : "", what, path);
}

static void compare_expected(const struct sbx_listing *before,
                             const struct sbx_listing *after, const char *prefix,
                             const char *word, char text[static SBX_LISTING_TEXT_SIZE])
{
    char wanted[NAME_SIZE];
    bool gone;
    expected_path(word, prefix, &gone, wanted);
    const struct entry *old = find(before, wanted);
    const struct entry *new = find(after, wanted);
    if (gone ? new != NULL : new == NULL) {
        say(text, gone ? "not gone:" : "missing:", wanted);
    } else if (!gone && old != NULL && same(old, new)) {
        say(text, "not changed:", wanted);
    }
}

void sbx_listing_compare(const struct sbx_listing *before,
                         const struct sbx_listing *after, const char *prefix,
                         const char *expected, char text[static SBX_LISTING_TEXT_SIZE])
{
    char copy[EXPECTED_SIZE];
    char *rest = NULL;
    text[0] = '\0';
    for (size_t i = 0; i < after->count; i++) {
        const struct entry *new = &after->entries[i];
        const struct entry *old = find(before, new->path);
        bool differs = old == NULL || !same(old, new);
        if (differs && !is_expected(new->path, prefix, expected, false)) {
            say(text, old == NULL ? "new:" : "changed:", new->path);
        }
    }
    for (size_t i = 0; i < before->count; i++) {
        const char *path = before->entries[i].path;
        if (find(after, path) == NULL && !is_expected(path, prefix, expected, true)) {
            say(text, "gone:", path);
        }
    }
    (void)snprintf(copy, sizeof(copy), "%s", expected);
    for (const char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        compare_expected(before, after, prefix, word, text);
    }
}
