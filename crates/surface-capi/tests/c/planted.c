// A bug for the sanitizer to find: a task uses memory that was freed.
#include "check.h"

static int64_t frees(void *arg)
{
    free(arg);
    return 0;
}

static int64_t uses(void *arg)
{
    IS(JANUS_OK, janus_scheduler_yield());
    return *(volatile int *)arg;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(1));
    int *lent = calloc(1, sizeof *lent);
    janus_nursery_t *nursery = janus_nursery_create();
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, frees, lent)));
    CHECK(janus_nursery_spawn(nursery, uses, lent) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    return janus_rt_shutdown();
}
