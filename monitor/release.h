/*
 * release.h - the command's standard streams, in the processes of ours that have them
 * too: once the command has its own, those that wait for their ends wait for it alone.
 */
#ifndef SBX_MONITOR_RELEASE_H
#define SBX_MONITOR_RELEASE_H

#include "monitor/spec.h"

/* Bits of descriptors 0 to 2. */
#define SBX_RELEASE_DETACHED 0x3U /* standard error is still ours to speak on */
#define SBX_RELEASE_ALL 0x7U

/* Of these, what guard and monitor do not need themselves: report and captured output may
 * have to go there by their hands. */
unsigned sbx_release_unneeded(const struct sbx_spec *spec, unsigned streams);

/* Puts /dev/null in their place. */
void sbx_release_streams(unsigned streams);

#endif
