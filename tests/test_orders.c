/*
 * test_orders.c - the file of orders that sbx-inner gets: taken apart as it was made, and
 * refused whole when anything in it is not as agreed.
 */
#include "sandbox/inner.h"
#include "tests/fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))
#define FILE_MAX 2048

struct file {
    size_t size;
    char data[FILE_MAX];
};

static const char strings[] = "/work\0prog\0name\0\0an argument\0A=1\0B=\0C=x=y\0-:/m\0"
                              "7?/a b";
#define ARGUMENTS 3
#define VARIABLES 3
#define PLACES 2

/* Good orders, with `tail` behind the head. */
static struct file make(const void *tail, size_t tail_size)
{
    struct sbx_orders head = {
        .magic = SBX_ORDERS_MAGIC,
        .status_fd = 5,
        .stderr_fd = 6,
        .seccomp_fd = -1,
        .removes = 1,
        .ignored = 1U << (SIGHUP - 1) | UINT64_C(1) << 63,
        .ceiling_count = 2,
        .argument_count = ARGUMENTS,
        .environment_count = VARIABLES,
        .place_count = PLACES,
        .ceilings = {{.resource = RLIMIT_NOFILE, .soft = 5, .hard = 6},
                     {.resource = RLIMIT_AS, .soft = 0, .hard = UINT64_MAX}},
    };
    struct file file = {.size = sizeof head + tail_size};
    ck_assert_uint_le(file.size, FILE_MAX);
    head.size = (uint32_t)file.size;
    memcpy(file.data, &head, sizeof head);
    memcpy(file.data + sizeof head, tail, tail_size);
    return file;
}

static int parse(const struct file *file, struct sbx_inner_orders *ret,
                 const char **table, struct sbx_error *err)
{
    return sbx_inner_orders_parse(file->data, file->size, table, ret, err);
}

static const struct sbx_ceiling *ceiling_of(const struct sbx_inner_orders *orders,
                                            int resource)
{
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        if (sbx_ceiling_kinds[i].resource == resource) {
            return &orders->ceilings[i];
        }
    }
    ck_abort_msg("resource %d", resource);
}

START_TEST(good_orders_are_taken_apart)
{
    const char *table[FILE_MAX];
    struct file file = make(strings, sizeof strings);
    struct sbx_inner_orders orders;
    int asked = 0;
    ck_assert_uint_le(sbx_inner_table_room(file.size), FILE_MAX);
    ck_assert_int_eq(parse(&file, &orders, table, NULL), 0);
    ck_assert_int_eq(orders.head.status_fd, 5);
    ck_assert_str_eq(orders.directory, "/work");
    ck_assert_str_eq(orders.file, "prog");
    ck_assert_str_eq(orders.arguments[1], "name");
    ck_assert_str_eq(orders.arguments[2], "");
    ck_assert_str_eq(orders.arguments[3], "an argument");
    ck_assert_ptr_null(orders.arguments[4]);
    ck_assert_str_eq(orders.environment[0], "A=1");
    ck_assert_str_eq(orders.environment[1], "B=");
    ck_assert_str_eq(orders.environment[2], "C=x=y");
    ck_assert_ptr_null(orders.environment[3]);
    ck_assert_str_eq(orders.places[0], "-:/m");
    ck_assert_str_eq(orders.places[1], "7?/a b");
    ck_assert_ptr_null(orders.places[2]);
    for (int i = 0; i < SBX_CEILING_COUNT; i++) {
        asked += orders.ceilings[i].asked ? 1 : 0;
    }
    ck_assert_int_eq(asked, 2);
    const struct sbx_ceiling *nofile = ceiling_of(&orders, RLIMIT_NOFILE);
    ck_assert(nofile->asked && nofile->soft == 5 && nofile->hard == 6);
    const struct sbx_ceiling *as = ceiling_of(&orders, RLIMIT_AS);
    ck_assert(as->asked && as->soft == 0 && as->hard == RLIM_INFINITY);
}
END_TEST

/* Every field that can be wrong, set to a wrong value. */
#define FIELD(field, value)                                                              \
    {                                                                                    \
#field " = " #value, offsetof(struct sbx_orders, field),                         \
            sizeof(((struct sbx_orders *)0)->field), (uint64_t)(value)                   \
    }

static const struct wrong_field {
    const char *name;
    size_t offset;
    size_t size;
    uint64_t value;
} wrong_fields[] = {
    FIELD(magic, 0),
    FIELD(size, 0),
    FIELD(size, 1),
    FIELD(size, UINT32_MAX),
    FIELD(status_fd, 2),
    FIELD(status_fd, -1),
    FIELD(status_fd, INT32_MIN),
    FIELD(status_fd, 6),
    FIELD(stderr_fd, -2),
    FIELD(stderr_fd, 5),
    FIELD(seccomp_fd, -2),
    FIELD(seccomp_fd, 0),
    FIELD(seccomp_fd, 2),
    FIELD(seccomp_fd, 5),
    FIELD(seccomp_fd, 6),
    FIELD(removes, 2),
    FIELD(ignored, 1U << (SIGKILL - 1)),
    FIELD(ignored, 1U << (SIGSTOP - 1)),
    FIELD(ceiling_count, SBX_ORDERS_CEILINGS + 1),
    FIELD(ceiling_count, UINT32_MAX),
    FIELD(ceiling_count, 4), /* the third and the fourth are twice RLIMIT_CPU */
    FIELD(argument_count, 0),
    FIELD(argument_count, ARGUMENTS - 1),
    FIELD(argument_count, ARGUMENTS + 1),
    FIELD(argument_count, UINT32_MAX),
    FIELD(place_count, 0),
    FIELD(place_count, PLACES - 1),
    FIELD(place_count, PLACES + 1),
    FIELD(place_count, UINT32_MAX),
    FIELD(environment_count, 0),
    FIELD(environment_count, VARIABLES - 1),
    FIELD(environment_count, VARIABLES + 1),
    FIELD(environment_count, UINT32_MAX),
    FIELD(ceilings[0].resource, -1),
    FIELD(ceilings[0].resource, 16),
    FIELD(ceilings[0].resource, RLIMIT_AS),
    FIELD(ceilings[0].unused, 1),
    FIELD(ceilings[0].soft, 7),
    FIELD(ceilings[0].hard, 4),
};

static void refuse(const struct file *file, const char *what)
{
    const char *table[FILE_MAX];
    struct sbx_inner_orders orders;
    struct sbx_inner_orders before;
    struct sbx_error error = {.code = 0};
    memset(&orders, 0x5a, sizeof orders);
    before = orders;
    ck_assert_msg(parse(file, &orders, table, &error) == -EINVAL, "taken: %s", what);
    ck_assert_int_eq(error.code, EINVAL);
    ck_assert_int_eq((int)error.stage, SBX_STAGE_LAUNCH);
    ck_assert_ptr_eq(strstr(error.message, "orders: "), error.message);
    ck_assert_int_eq(memcmp(&orders, &before, sizeof orders), 0);
}

START_TEST(wrong_fields_are_refused)
{
    const struct wrong_field *row = &wrong_fields[_i];
    struct file file = make(strings, sizeof strings);
    memcpy(file.data + row->offset, &row->value, row->size);
    refuse(&file, row->name);
}
END_TEST

#define TAIL(text)                                                                       \
    {                                                                                    \
        text, sizeof(text) - 1                                                           \
    }

#define GOOD_PLACES "-:/m\0-:/n\0"

static const struct tail {
    const char *data;
    size_t size;
} tails[] = {
    TAIL(""),
    TAIL("/"),
    TAIL("/\0"),
    TAIL("/\0prog"),
    TAIL("/\0prog\0"),
    TAIL("/\0prog\0name\0\0an"),
    TAIL("work\0prog\0name\0\0an\0A=1\0B=2\0C=3\0" GOOD_PLACES),
    TAIL("\0prog\0name\0\0an\0A=1\0B=2\0C=3\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3"),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3\0\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3\0" GOOD_PLACES "\0"),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3\0D=4\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3\0-:/m\0"),
    TAIL("/\0prog\0name\0\0an\0A=1\0B2\0C=3\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0=2\0C=3\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0\0C=3\0" GOOD_PLACES),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3 or no end of it"),
    TAIL("/\0prog\0name\0\0an\0A=1\0B=2\0C=3\0-:/m\0-:/n or no end of it"),
};

START_TEST(wrong_strings_are_refused)
{
    struct file file = make(tails[_i].data, tails[_i].size);
    refuse(&file, tails[_i].data);
}
END_TEST

/* Cut anywhere, and with the size put right so that only the cut is wrong. */
START_TEST(orders_cut_short_are_refused)
{
    for (size_t size = 0; size < sizeof(struct sbx_orders) + sizeof strings; size++) {
        struct file file = make(strings, sizeof strings);
        uint32_t number = (uint32_t)size;
        memcpy(file.data + offsetof(struct sbx_orders, size), &number, sizeof number);
        file.size = size;
        refuse(&file, "cut");
    }
}
END_TEST

START_TEST(an_environment_may_be_empty)
{
    const char *table[FILE_MAX];
    struct file file = make("/\0prog\0a\0b\0c", 13);
    struct sbx_inner_orders orders;
    uint32_t none = 0;
    memcpy(file.data + offsetof(struct sbx_orders, environment_count), &none,
           sizeof none);
    memcpy(file.data + offsetof(struct sbx_orders, place_count), &none, sizeof none);
    ck_assert_int_eq(parse(&file, &orders, table, NULL), 0);
    ck_assert_ptr_null(orders.environment[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("orders");
    TCase *orders = sbx_fixture_case(suite, "orders", 30);
    tcase_add_test(orders, good_orders_are_taken_apart);
    tcase_add_loop_test(orders, wrong_fields_are_refused, 0, LENGTH(wrong_fields));
    tcase_add_loop_test(orders, wrong_strings_are_refused, 0, LENGTH(tails));
    tcase_add_test(orders, orders_cut_short_are_refused);
    tcase_add_test(orders, an_environment_may_be_empty);
    return sbx_fixture_run(suite);
}
