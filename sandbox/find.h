/*
 * find.h - where bubblewrap is, and where our own programs are that others execute.
 */
#ifndef SBX_SANDBOX_FIND_H
#define SBX_SANDBOX_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* The first bwrap in the absolute directories of PATH. false: there is none. */
bool sbx_find_bwrap(char ret_path[static PATH_MAX], struct stat *ret_status);

/*
 * A program of ours: where the environment variable says (which a setuid program does not
 * look at); else beside the program that we are (a build tree), or where it lies beside
 * an installed one; else `installed`. false: there is no such file; ret_path is where it
 * should be then.
 */
bool sbx_find_ours(const char *name, const char *variable, const char *installed,
                   char ret_path[static PATH_MAX], struct stat *ret_status);

#endif
