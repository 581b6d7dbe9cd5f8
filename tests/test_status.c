/*
 * test_status.c - what an execution is called, from its report: by a table of reports as
 * the writer spells them, and of what is none.
 */
#include "supervisor/status.h"

#include "tests/fixture.h"

#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const struct row {
    const char *report;
    enum sbx_execution_status status;
} rows[] = {
    {"{\"outcome\":\"exited\",\"exit_code\":0}\n", SBX_EXECUTION_COMPLETED},
    {"{\"outcome\":\"exited\",\"exit_code\":0,\"termination\":{\"survivors\":[]}}\n",
     SBX_EXECUTION_COMPLETED},
    {"{\"outcome\":\"exited\",\"exit_code\":1}\n", SBX_EXECUTION_FAILED},
    {"{\"outcome\":\"exited\"}\n", SBX_EXECUTION_FAILED},
    {"{\"outcome\":\"signaled\",\"signal\":\"SIGSEGV\"}\n", SBX_EXECUTION_FAILED},
    {"{\"outcome\":\"launch-failed\",\"error\":{\"stage\":\"exec\"}}\n",
     SBX_EXECUTION_FAILED},
    {"{\"outcome\":\"cancelled\",\"exit_code\":0}\n", SBX_EXECUTION_CANCELLED},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"wall\"}}\n",
     SBX_EXECUTION_TIMED_OUT},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"idle\"}}\n",
     SBX_EXECUTION_TIMED_OUT},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"cpu\"}}\n",
     SBX_EXECUTION_BREACHED},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"memory\"}}\n",
     SBX_EXECUTION_BREACHED},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"ceiling\",\"name\":\"cpu\"}}\n",
     SBX_EXECUTION_BREACHED},
    /* Ended because a process of ours was killed. */
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"caller-lost\"}}\n",
     SBX_EXECUTION_LOST},
    {"{\"outcome\":\"breach\",\"breach\":{\"reason\":\"guard-lost\"}}\n",
     SBX_EXECUTION_LOST},
    {"{\"outcome\":\"lost\"}\n", SBX_EXECUTION_LOST},
    /* Somebody is left, whatever else is said. */
    {"{\"outcome\":\"exited\",\"exit_code\":0,\"termination\":{\"survivors\":[{\"pid\":7,"
     "\"name\":\"x\"}]}}\n",
     SBX_EXECUTION_FAILED},
    {"{\"outcome\":\"cancelled\",\"termination\":{\"survivors\":[{\"pid\":7}]}}\n",
     SBX_EXECUTION_FAILED},
    /* A value that only begins like one of these, and what is no report. */
    {"{\"outcome\":\"exited-not\",\"exit_code\":0}\n", SBX_EXECUTION_LOST},
    {"{\"outcome\":\"exited\",\"exit_code\":01}\n", SBX_EXECUTION_FAILED},
    {"{\"outcomes\":\"exited\"}\n", SBX_EXECUTION_LOST},
    {"[]\n", SBX_EXECUTION_LOST},
    {"{\"outcome\":\"exi", SBX_EXECUTION_LOST},
    {"", SBX_EXECUTION_LOST},
};

START_TEST(a_report_has_one_status)
{
    const struct row *row = &rows[_i];
    enum sbx_execution_status status =
        sbx_execution_status_of(row->report, strlen(row->report));
    ck_assert_msg(status == row->status, "%s is %s", row->report,
                  sbx_execution_status_name(status));
}
END_TEST

START_TEST(every_status_has_a_name)
{
    static const char *const names[] = {"running",  "completed", "failed", "timed_out",
                                        "breached", "cancelled", "lost"};
    for (size_t i = 0; i < LENGTH(names); i++) {
        ck_assert_str_eq(sbx_execution_status_name((enum sbx_execution_status)i),
                         names[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *table = sbx_fixture_case(suite, "table", 20);
    tcase_add_loop_test(table, a_report_has_one_status, 0, (int)LENGTH(rows));
    tcase_add_test(table, every_status_has_a_name);
    return sbx_fixture_run(suite);
}
