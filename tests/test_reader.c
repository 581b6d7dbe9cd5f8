/*
 * test_reader.c - the process that reads for the monitor what may block: limits hold when
 * it hangs or is killed, it is replaced, and it leaves nothing behind.
 *
 * A reader that hangs in the kernel at a member's memory lock is played by one that is
 * stopped: the monitor cannot tell the two apart.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "monitor/pss.h"
#include "tests/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND SBX_US_PER_S

static bool has_name(pid_t pid, const char *name)
{
    char path[64];
    char text[64];
    (void)snprintf(path, sizeof path, "/proc/%d/comm", pid);
    ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text);
    return length > 0 && strncmp(text, name, strlen(name)) == 0;
}

/* The guard's child of that name; waits for it. */
static pid_t find_child(pid_t guard, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", guard, guard);
    for (uint64_t until = sbx_clock_us() + 20 * SECOND; sbx_clock_us() < until;) {
        char text[256];
        ssize_t length = sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof text);
        for (char *next = text; length > 0 && *next != '\0';) {
            char *end = next;
            pid_t pid = (pid_t)strtol(next, &end, 10);
            if (end == next) {
                break;
            }
            if (has_name(pid, name)) {
                return pid;
            }
            next = end;
        }
        (void)poll(NULL, 0, 2);
    }
    ck_abort_msg("no %s below %d", name, guard);
    return 0;
}

static void touch_file(const char *path)
{
    SBX_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
}

static void start_growing(struct sbx_trial *trial, const char *options,
                          const char *const *command)
{
    trial->options = options;
    trial->command = command;
    sbx_trial_start(trial);
    sbx_trial_wait_output(trial, "up", 20);
}

START_TEST(a_hung_reader_does_not_stop_the_memory_limit)
{
    static const char *const command[] = {"@measure_grow", "@/go", "300", NULL};
    struct sbx_trial trial = {0};
    char go[SBX_FIXTURE_PATH_SIZE];
    start_growing(&trial, "--memory 100M --wall 50", command);
    pid_t reader = find_child(trial.pid, "sbx-reader");
    ck_assert_int_eq(kill(reader, SIGSTOP), 0);
    touch_file(sbx_trial_path(&trial, go, "go"));
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_hung_reader_does_not_stop_the_deadline)
{
    static const char *const command[] = {"@measure_grow", "@/go", "50", NULL};
    struct sbx_trial trial = {0};
    char go[SBX_FIXTURE_PATH_SIZE];
    start_growing(&trial, "--wall 2 --grace 1", command);
    ck_assert_int_eq(kill(find_child(trial.pid, "sbx-reader"), SIGSTOP), 0);
    touch_file(sbx_trial_path(&trial, go, "go"));
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 124, "breach", "wall");
    sbx_trial_expect_empty(&trial);
    ck_assert_uint_lt(trial.elapsed_us, 20 * SECOND);
    sbx_trial_done(&trial);
}
END_TEST

START_TEST(a_killed_reader_does_not_stop_the_memory_limit)
{
    static const char *const command[] = {"@measure_grow", "@/go", "300", NULL};
    struct sbx_trial trial = {0};
    char go[SBX_FIXTURE_PATH_SIZE];
    start_growing(&trial, "--memory 100M --wall 50", command);
    ck_assert_int_eq(kill(find_child(trial.pid, "sbx-reader"), SIGKILL), 0);
    touch_file(sbx_trial_path(&trial, go, "go"));
    sbx_trial_wait(&trial);
    sbx_trial_expect(&trial, 124, "breach", "memory");
    sbx_trial_expect_empty(&trial);
    sbx_trial_done(&trial);
}
END_TEST

/* --- the two sides without a guard: we hold the reader ourselves --- */

struct bench {
    struct sbx_pss_area *area;
    struct sbx_pair_link link;
    struct sbx_pss *pss;
    int guard_end;  /* what the monitor tells the guard comes out here */
    int reader_end; /* kept for the next reader */
    int proc_fd;
};

static pid_t start_reader(const struct bench *bench)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        sbx_pss_serve(bench->area, bench->reader_end);
        _exit(0);
    }
    return pid;
}

static void set_up(struct bench *bench)
{
    int pair[2];
    int reader[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reader), 0);
    void *memory = mmap(NULL, sizeof *bench->area, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(memory != MAP_FAILED);
    *bench = (struct bench){.area = memory,
                            .link = {.socket = pair[0], .reader_socket = reader[0]},
                            .guard_end = pair[1],
                            .reader_end = reader[1],
                            .proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    ck_assert_int_eq(sbx_pss_new(bench->proc_fd, bench->area, &bench->link, &bench->pss),
                     0);
}

static void tear_down(struct bench *bench, pid_t reader)
{
    sbx_pss_free(bench->pss);
    (void)close(bench->link.socket);
    (void)close(bench->link.reader_socket);
    (void)close(bench->guard_end);
    (void)close(bench->reader_end);
    (void)close(bench->proc_fd);
    ck_assert_int_eq(waitpid(reader, NULL, 0), reader); /* end of file ends it */
    ck_assert_int_eq(munmap(bench->area, sizeof *bench->area), 0);
}

/* One request for ourselves, repeated while no reader has said that it is there. */
static int request(struct bench *bench, uint64_t wait_us)
{
    int r = -EAGAIN;
    for (uint64_t until = sbx_clock_us() + 20 * SECOND; sbx_clock_us() < until;) {
        sbx_pss_restart(bench->pss);
        ck_assert_ptr_nonnull(sbx_pss_add(bench->pss, getpid(), 0));
        r = sbx_pss_read(bench->pss, wait_us);
        if (r != -EAGAIN) {
            break;
        }
        (void)poll(NULL, 0, 2);
    }
    return r;
}

START_TEST(a_reader_answers)
{
    struct bench bench;
    set_up(&bench);
    ck_assert_int_eq(sbx_pss_read(bench.pss, 0), -EAGAIN); /* there is none yet */
    pid_t reader = start_reader(&bench);
    ck_assert_int_eq(request(&bench, 20 * SECOND), 0);
    const struct sbx_pss_entry *entry = sbx_pss_entry_at(bench.pss, 0);
    ck_assert_int_eq(entry->state, SBX_PSS_DONE);
    ck_assert_uint_gt(entry->pss_bytes, 4096);
    tear_down(&bench, reader);
}
END_TEST

START_TEST(a_reader_that_hangs_is_given_up_and_replaced)
{
    struct bench bench;
    struct sbx_pair_message message;
    set_up(&bench);
    pid_t first = start_reader(&bench);
    ck_assert_int_eq(request(&bench, 20 * SECOND), 0);
    int stopped = 0;
    ck_assert_int_eq(kill(first, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(first, &stopped, WUNTRACED), first);
    ck_assert_int_eq(request(&bench, 5000), -ETIME);
    ck_assert_int_eq(sbx_pss_entry_at(bench.pss, 0)->state, SBX_PSS_PENDING);
    ck_assert_int_eq(sbx_pair_receive(bench.guard_end, &message), 1);
    ck_assert_int_eq(message.kind, SBX_MESSAGE_READER_HUNG);
    ck_assert_int_eq(sbx_pss_read(bench.pss, 0), -EAGAIN); /* it is not asked again */

    /* The request that the first one left in the socket is not answered by the next. */
    ck_assert_int_eq(kill(first, SIGKILL), 0);
    ck_assert_int_eq(waitpid(first, NULL, 0), first);
    pid_t second = start_reader(&bench);
    ck_assert_int_eq(request(&bench, 20 * SECOND), 0);
    ck_assert_int_eq(sbx_pss_entry_at(bench.pss, 0)->state, SBX_PSS_DONE);
    tear_down(&bench, second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reader");
    TCase *run = sbx_fixture_case(suite, "run", 90);
    tcase_add_test(run, a_hung_reader_does_not_stop_the_memory_limit);
    tcase_add_test(run, a_hung_reader_does_not_stop_the_deadline);
    tcase_add_test(run, a_killed_reader_does_not_stop_the_memory_limit);
    TCase *sides = sbx_fixture_case(suite, "sides", 60);
    tcase_add_test(sides, a_reader_answers);
    tcase_add_test(sides, a_reader_that_hangs_is_given_up_and_replaced);
    return sbx_fixture_run(suite);
}
