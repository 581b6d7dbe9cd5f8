/*
 * report_samples.h - one record of each way a run can end, for the tests of the report.
 *
 * Each sample is a specification and a record as a run would leave them; the golden tests
 * say what they must look like, the schema tests that the schema takes them.
 */
#ifndef SBX_TESTS_REPORT_SAMPLES_H
#define SBX_TESTS_REPORT_SAMPLES_H

#include "monitor/report.h"

#include <stddef.h>

struct sample {
    const char *name;
    void (*fill)(struct sbx_spec *spec, struct sbx_record *record);
};

extern const struct sample samples[];
extern const size_t sample_count;

/* Defaults of a specification, and the sample on top of them. What the specification
 * points to is static. */
void sample_spec(struct sbx_spec *spec);
void sample_fill(const struct sample *sample, struct sbx_spec *spec,
                 struct sbx_record *record);

/* The sample of that name; fails the test when there is none. */
const struct sample *sample_find(const char *name);

/* Index into sbx_ceiling_kinds; fails the test when there is none. */
int sample_ceiling(const char *name);

#endif
