/* The main of a CUnit suite: a table of named tests, run with CUnit's own report. */
#ifndef PODSIM_TESTS_CHECK_H
#define PODSIM_TESTS_CHECK_H

#include <CUnit/Basic.h>

struct check {
    const char *name;
    void (*run)(void);
};

/* Runs the table; the return value is main's. */
static inline int check_main(const char *suite, const struct check *checks, size_t count)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite registered = CU_add_suite(suite, NULL, NULL);
    for (size_t i = 0; registered != NULL && i < count; i++)
        if (CU_add_test(registered, checks[i].name, checks[i].run) == NULL)
            return 1;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_ErrorCode ran = CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    unsigned tests = CU_get_number_of_tests_run();
    CU_cleanup_registry();
    return ran == CUE_SUCCESS && failures == 0 && tests == count ? 0 : 1;
}

#define CHECK_MAIN(suite, checks)                                                        \
    int main(void)                                                                       \
    {                                                                                    \
        return check_main(suite, checks, sizeof(checks) / sizeof((checks)[0]));          \
    }

/* Relative to the larger magnitude. */
#define CHECK_CLOSE(actual, expected, relative)                                          \
    do {                                                                                 \
        double check_a = (actual), check_e = (expected);                                 \
        double check_m = check_a < 0 ? -check_a : check_a;                               \
        double check_n = check_e < 0 ? -check_e : check_e;                               \
        double check_d = check_a > check_e ? check_a - check_e : check_e - check_a;      \
        CU_ASSERT(check_d <= (relative) * (check_m > check_n ? check_m : check_n));      \
    } while (0)

#endif
