/*
 * sbx-monitor.c - the processes of a run that a program has started through the library:
 * guard and monitor, in a program of their own, because the caller may have threads.
 *
 * Sees nothing of the project but <sbx/sbx.h>, which has all of it in one function. Has
 * no options: what it is to do comes through a descriptor.
 */
#include <sbx/sbx.h>

#include <unistd.h>

int main(int argc, char *argv[])
{
    int status = sbx_monitor_main(argc, argv);
    if (argc < 2) {
        static const char message[] =
            "sbx-monitor: is started by programs that use libsbx; see sbx-watch\n";
        ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
        (void)written;
    }
    return status;
}
