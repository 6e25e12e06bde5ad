// Does not compile: the task returns int, not int64_t.
#include "janus.h"

static int task(void *arg)
{
    (void)arg;
    return 0;
}

int main(void)
{
    janus_nursery_t *nursery = janus_nursery_create();
    return janus_nursery_spawn(nursery, task, NULL) == 0;
}
