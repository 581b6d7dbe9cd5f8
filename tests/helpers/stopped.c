/*
 * stopped [FILE] - a leader with a child that has stopped itself (SIGSTOP).
 * stopped --leader [FILE] - a leader that stops itself.
 *
 * With FILE, the stopped one has a handler for TERM, which it can run only when it is
 * continued: it writes FILE and exits 3. Of a stopped leader, "up" comes just before.
 */
#include "helper.h"

#include <fcntl.h>

static const char *file;

static void on_term(int signal_number)
{
    (void)signal_number;
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "term\n", 5) != 5) {
        _exit(4);
    }
    _exit(3);
}

static _Noreturn void stop(void)
{
    (void)raise(SIGSTOP);
    helper_idle();
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    int leader = argc > 1 && strcmp(argv[1], "--leader") == 0;
    file = argc > 1 + leader ? argv[1 + leader] : NULL;
    if (file != NULL) {
        (void)signal(SIGTERM, on_term);
    }
    if (leader) {
        helper_up();
        stop();
    }
    pid_t child = helper_fork();
    if (child == 0) {
        stop();
    }
    (void)signal(SIGTERM, SIG_DFL);
    int status;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
        helper_fail("the child has not stopped");
    }
    helper_say("up %d\n", (int)child);
    helper_idle();
}
