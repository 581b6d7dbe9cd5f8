/*
 * service.c - see service.h.
 */
#include "bench/service.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UP_TRIES 5000
#define CALL_US UINT64_C(60000000)
#define BODY_MAX ((size_t)1024 * 1024)

static _Noreturn void become(const struct sbx_bench_service *service)
{
    char socket[SBX_BENCH_PATH + 16];
    char state[SBX_BENCH_PATH + 16];
    (void)snprintf(socket, sizeof(socket), "%s/socket", service->directory);
    (void)snprintf(state, sizeof(state), "%s/state", service->directory);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
        setenv("SBX_KEEPER", SBX_BENCH_KEEPER, 1) == 0 &&
        setenv("SBX_RUN", SBX_BENCH_RUN, 1) == 0) {
        (void)execl(SBX_BENCH_SBXD, SBX_BENCH_SBXD, "--socket", socket, "--state", state,
                    (char *)NULL);
    }
    _exit(96);
}

static bool is_served(const struct sbx_bench_service *service)
{
    const struct sbx_call call = {
        .method = "GET", .path = "/v1/stats", .timeout_us = CALL_US};
    struct sbx_reply *reply = NULL;
    bool served = sbx_client_call(service->client, &call, &reply, NULL) == 0 &&
                  sbx_reply_status(reply) == 200;
    sbx_reply_free(reply);
    return served;
}

void sbx_bench_service_start(const struct sbx_bench *bench,
                             struct sbx_bench_service *service)
{
    char socket[SBX_BENCH_PATH + 16];
    (void)snprintf(service->directory, sizeof(service->directory), "%s/sbxd",
                   bench->directory);
    (void)snprintf(socket, sizeof(socket), "%s/socket", service->directory);
    if (mkdir(service->directory, 0700) < 0) {
        sbx_bench_fail("%s: %s", service->directory, strerror(errno));
    }
    service->pid = fork();
    if (service->pid == 0) {
        become(service);
    }
    service->client = sbx_client_new(socket);
    if (service->pid < 0 || service->client == NULL) {
        sbx_bench_fail("sbxd: %s", strerror(errno));
    }
    for (int i = 0; !is_served(service); i++) {
        if (i == UP_TRIES || waitpid(service->pid, NULL, WNOHANG) != 0) {
            sbx_bench_fail("sbxd does not serve");
        }
        (void)usleep(1000);
    }
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void sbx_bench_service_stop(struct sbx_bench_service *service)
{
    int status = 0;
    (void)sbx_bench_ask(service, 202, "POST", "/v1/shutdown", "{'cancel': true}");
    if (waitpid(service->pid, &status, 0) != service->pid || status != 0) {
        sbx_bench_fail("sbxd has ended with %d", status);
    }
    sbx_client_free(service->client);
    service->client = NULL;
    (void)nftw(service->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *sbx_bench_ask(const struct sbx_bench_service *service, int status,
                          const char *method, const char *path, const char *body)
{
    static char text[BODY_MAX];
    struct sbx_error error = {0};
    struct sbx_reply *reply = NULL;
    SBX_AUTO_FREE char *json = strdup(body != NULL ? body : "");
    for (char *quote = json; quote != NULL && (quote = strchr(quote, '\'')) != NULL;) {
        *quote = '"';
    }
    const struct sbx_call call = {.method = method,
                                  .path = path,
                                  .body = body != NULL ? json : NULL,
                                  .length = body != NULL ? strlen(json) : 0,
                                  .timeout_us = CALL_US};
    if (sbx_client_call(service->client, &call, &reply, &error) < 0) {
        sbx_bench_fail("%s %s: %s", method, path, error.message);
    }
    size_t length = 0;
    const char *answer = sbx_reply_body(reply, &length);
    (void)snprintf(text, sizeof(text), "%s", length > 0 ? answer : "");
    if (sbx_reply_status(reply) != status) {
        sbx_bench_fail("%s %s: status %d: %s", method, path, sbx_reply_status(reply),
                       text);
    }
    sbx_reply_free(reply);
    return text;
}

double sbx_bench_pss(pid_t pid)
{
    char path[64];
    char text[4096];
    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    if (sbx_fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0) {
        return 0;
    }
    const char *found = strstr(text, "\nPss:");
    return found != NULL ? strtod(found + strlen("\nPss:"), NULL) : 0;
}

static size_t add_children(pid_t parent, pid_t *pids, size_t count, size_t max)
{
    static char list[64 * 1024];
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                   (int)parent);
    SBX_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, list, sizeof(list) - 1) : 0;
    list[length > 0 ? length : 0] = '\0';
    char *at = list;
    for (char *blank; count < max && (blank = strchr(at, ' ')) != NULL; at = blank + 1) {
        pids[count++] = (pid_t)strtol(at, NULL, 10);
    }
    return count;
}

size_t sbx_bench_family(pid_t root, pid_t *ret_pids, size_t max)
{
    size_t count = add_children(root, ret_pids, 0, max);
    for (size_t i = 0; i < count; i++) {
        count = add_children(ret_pids[i], ret_pids, count, max);
    }
    return count;
}
