/*
 * release.c - see release.h.
 */
#include "monitor/release.h"

#include "base/fd.h"
#include "monitor/capture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bool is_needed(const struct sbx_spec *spec, int stream)
{
    if (stream == STDIN_FILENO) {
        return false;
    }
    bool said = stream == STDERR_FILENO && spec->report_path != NULL &&
                strcmp(spec->report_path, "-") == 0;
    return said || spec->report_fd == stream ||
           (sbx_capture_is_wanted(spec) && spec->streams[stream].path == NULL);
}

unsigned sbx_release_unneeded(const struct sbx_spec *spec, unsigned streams)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        if (is_needed(spec, stream)) {
            streams &= ~(1U << (unsigned)stream);
        }
    }
    return streams;
}

void sbx_release_streams(unsigned streams)
{
    if (streams == 0) {
        return;
    }
    SBX_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO && null >= 0; stream++) {
        if ((streams & 1U << (unsigned)stream) != 0) {
            (void)dup2(null, stream);
        }
    }
}
