// Arguments that are literals with commas, for every function that is a macro as well.
#include "check.h"

typedef struct {
    int64_t first, second;
} pair;

static int64_t sums(void *arg)
{
    pair *numbers = arg;
    return numbers->first + numbers->second;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(1));
    janus_nursery_config_t apart = {.others_go_on = true};
    janus_nursery_t *nursery = janus_nursery_create_with(NULL, &apart);
    janus_task_t first = janus_nursery_spawn(nursery, sums, &(pair){1, 2});
    janus_task_t second = janus_nursery_spawn_with(
        nursery, sums, &(pair){3, 4}, &(janus_task_config_t){.name = "the second", .stack_bytes = 1 << 20});
    IS(JANUS_OK, janus_scheduler_spawn(sums, &(pair){5, -5}));
    IS(3, janus_nursery_await(nursery, first));
    IS(7, janus_nursery_await(nursery, second));
    IS(3, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    janus_scheduler_t *scheduler = janus_scheduler_create((janus_scheduler_config_t){.worker_count = 1, .deterministic_seed = 2});
    IS(11, janus_scheduler_run(scheduler, sums, &(pair){5, 6}));
    IS(JANUS_OK, janus_scheduler_shutdown(scheduler));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("literals");
}
