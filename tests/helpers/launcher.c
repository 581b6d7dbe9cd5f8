/*
 * launcher CMD [ARG]... - starts a command as launchers of containers do: forks twice, so
 * that the supervisor is nobody's child, in a session of its own; waits on a pipe for the
 * command's status, and exits with it. The command is the init of a PID namespace, and
 * none of the launcher's processes does anything about signals.
 *
 * launcher --init CMD… puts an init of its own, which never executes anything, around the
 * command; launcher --plain CMD… makes no namespace, and keeps TERM and INT from itself.
 */
#include "helper.h"

#include <sched.h>

#define SIGNAL_BASE 128

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        helper_fail(path);
    }
}

/* Ordinary users may make a PID namespace only in a user namespace. */
static void unshare_pids(void)
{
    char map[64];
    if (geteuid() == 0) {
        if (unshare(CLONE_NEWPID) < 0) {
            helper_fail("unshare");
        }
        return;
    }
    unsigned uid = geteuid();
    unsigned gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0) {
        helper_fail("unshare");
    }
    (void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", map);
    (void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
    write_file("/proc/self/gid_map", map);
}

static void guard_signals(int how)
{
    sigset_t both;
    (void)sigemptyset(&both);
    (void)sigaddset(&both, SIGTERM);
    (void)sigaddset(&both, SIGINT);
    (void)sigprocmask(how, &both, NULL);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) != pid) {
        if (errno != EINTR) {
            helper_fail("waitpid");
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : SIGNAL_BASE + WTERMSIG(status);
}

static _Noreturn void execute(char **argv)
{
    guard_signals(SIG_UNBLOCK);
    (void)execvp(argv[0], argv);
    helper_fail("exec");
}

static _Noreturn void supervise(char **argv, int to_front, int with_namespace, int init)
{
    helper_new_session();
    if (with_namespace) {
        unshare_pids();
    }
    pid_t pid = helper_fork();
    if (pid == 0 && init) {
        pid_t command = helper_fork();
        if (command == 0) {
            execute(argv);
        }
        _exit(wait_for(command));
    }
    if (pid == 0) {
        execute(argv);
    }
    char status = (char)wait_for(pid);
    _exit(write(to_front, &status, 1) == 1 ? 0 : 93);
}

int main(int argc, char **argv)
{
    helper_bound(HELPER_LIFETIME_SECONDS);
    int plain = argc > 1 && strcmp(argv[1], "--plain") == 0;
    int init = argc > 1 && strcmp(argv[1], "--init") == 0;
    char **command = argv + 1 + (plain || init ? 1 : 0);
    int ends[2];
    if (pipe(ends) < 0 || *command == NULL) {
        helper_fail("pipe");
    }
    if (plain) {
        guard_signals(SIG_BLOCK);
    }
    pid_t between = helper_fork();
    if (between == 0) {
        if (helper_fork() == 0) {
            (void)close(ends[0]);
            supervise(command, ends[1], !plain, init);
        }
        _exit(0);
    }
    (void)wait_for(between);
    (void)close(ends[1]);
    char status = 0;
    ssize_t got;
    while ((got = read(ends[0], &status, 1)) < 0 && errno == EINTR) {
    }
    _exit(got == 1 ? (unsigned char)status : 94);
}
