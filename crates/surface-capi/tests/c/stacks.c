// Large frames, names, and tasks that have a thread to themselves.
#include "check.h"

#include <poll.h>

static int64_t needs_much(void *arg)
{
    volatile char large[8 << 20];
    for (size_t i = 0; i < sizeof large; i += 4096)
        large[i] = 1;
    *(int *)arg = large[4096];
    return janus_scheduler_yield();
}

static int64_t blocks(void *arg)
{
    int *ends = arg;
    char byte;
    if (read(ends[0], &byte, 1) != 1) // blocks its thread, and no worker
        return 1;
    return byte == 'x' ? 0 : 2;
}

static int64_t fails(void *arg)
{
    (void)arg;
    return 3;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(1)); // one worker: a task that blocked it would stop all
    janus_nursery_t *nursery = janus_nursery_create();
    int seen = 0, ends[2];
    janus_task_config_t large = {.name = "large", .stack_bytes = 16 << 20};
    janus_task_t task = janus_nursery_spawn_with(nursery, needs_much, &seen, &large);
    IS(0, janus_nursery_await(nursery, task));
    IS(1, seen);

    CHECK(pipe(ends) == 0);
    janus_task_config_t apart = {.on_thread = true};
    janus_task_t blocked = janus_nursery_spawn_with(nursery, blocks, ends, &apart);
    seen = 0;
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn_with(nursery, needs_much, &seen, &large))); // meanwhile
    IS(1, seen);
    CHECK(write(ends[1], "x", 1) == 1);
    IS(0, janus_nursery_await(nursery, blocked));
    close(ends[0]);
    close(ends[1]);

    janus_task_config_t named = {.name = "the third"};
    task = janus_nursery_spawn_with(nursery, fails, NULL, &named);
    IS(3, janus_nursery_await(nursery, task));
    SAYS("the third");
    IS(3, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("stacks");
}
