/* What the programs share: a check that says what was there instead, and an end to those that hang. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include "janus.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
#define LONG (UINT64_C(3600) * 1000 * MILLISECOND)

/* The number is what it should be; else the program ends. */
#define IS(expected, actual) is_at(__FILE__, __LINE__, #actual, (int64_t)(expected), (int64_t)(actual))

#define CHECK(holds)                                                           \
    do {                                                                       \
        if (!(holds)) fail_at(__FILE__, __LINE__, #holds, "does not hold");    \
    } while (0)

/* The last error of the caller says so. */
#define SAYS(part)                                                                                  \
    do {                                                                                            \
        char said[512];                                                                             \
        janus_last_error(said, sizeof said);                                                        \
        if (strstr(said, part) == NULL) fail_at(__FILE__, __LINE__, part, said);                    \
    } while (0)

static inline void fail_at(const char *file, int line, const char *what, const char *instead)
{
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, instead);
    _exit(1);
}

static inline void is_at(const char *file, int line, const char *what, int64_t expected, int64_t actual)
{
    if (expected != actual) {
        char said[512] = "", instead[700];
        janus_last_error(said, sizeof said);
        snprintf(instead, sizeof instead, "%" PRId64 ", not %" PRId64 "; the last error: %s", actual, expected, said);
        fail_at(file, line, what, instead);
    }
}

static inline void begin(void)
{
    alarm(100);
}

static inline int done(const char *name)
{
    printf("%s: ok\n", name);
    return 0;
}

#endif
