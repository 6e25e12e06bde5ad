// Reserves inside each other, and who may spawn with a budget.
#include "check.h"

static janus_budget_t pool = {.ops = 5000, .spawn_count = 50, .channel_ops = 50}, each = {.ops = 10}, inner_reserve = {.ops = 100},
                      outer_reserve = {.ops = 120};

static int64_t draws(void *arg)
{
    int32_t *code = arg;
    *code = janus_budget_recharge((janus_budget_t){.ops = 80});
    IS(*code == JANUS_OK ? 90 : 10, janus_budget_get_current().ops);
    return 0;
}

static int64_t draws_less(void *arg)
{
    (void)arg;
    IS(JANUS_OK, janus_budget_recharge((janus_budget_t){.ops = 80})); // as much as is left
    IS(10 + 20, janus_budget_get_current().ops);
    return 0;
}

// A nursery with a reserve: what it is depends on what is around.
static int64_t opens_inside(void *arg)
{
    (void)arg;
    janus_nursery_t *inner =
        janus_nursery_create_with(NULL, &(janus_nursery_config_t){.task_budget = &each, .reserve = &inner_reserve});
    if (inner == NULL)
        return 1;
    int32_t code = 1;
    IS(0, janus_nursery_await(inner, janus_nursery_spawn(inner, draws, &code)));
    IS(JANUS_OK, code);
    IS(0, janus_nursery_await(inner, janus_nursery_spawn(inner, draws_less, NULL))); // 20 of 100
    IS(0, janus_nursery_await_all(inner));
    return janus_nursery_destroy(inner);
}

static int64_t opens_far_inside(void *arg)
{
    janus_nursery_t *between = janus_nursery_create();
    int64_t code = janus_nursery_await(between, janus_nursery_spawn(between, opens_inside, arg));
    IS(JANUS_OK, janus_nursery_destroy(between));
    return code;
}

static int64_t inside(janus_nursery_config_t config, janus_task_fn task)
{
    config.others_go_on = true;
    janus_nursery_t *outer = janus_nursery_create_with(NULL, &config);
    CHECK(outer != NULL);
    int64_t code = janus_nursery_await(outer, janus_nursery_spawn(outer, task, NULL));
    IS(JANUS_OK, janus_nursery_destroy(outer));
    return code;
}

static int64_t leaf(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t branches(void *arg)
{
    int64_t may = *(int64_t *)arg;
    janus_nursery_t *inner = janus_nursery_create();
    for (int64_t i = 0; i < may; i++)
        CHECK(janus_nursery_spawn(inner, leaf, NULL) != 0);
    IS(0, janus_nursery_spawn(inner, leaf, NULL));
    SAYS("`spawn_count`");
    return 0;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(1));
    IS(0, opens_inside(NULL)); // inside nothing
    IS(0, inside((janus_nursery_config_t){0}, opens_inside));
    IS(0, inside((janus_nursery_config_t){.reserve = &pool}, opens_inside));
    IS(0, inside((janus_nursery_config_t){.reserve = &pool}, opens_far_inside));
    // A budget without a reserve: one would be budget out of nothing.
    IS(1, inside((janus_nursery_config_t){.budget = &pool, .task_budget = &pool}, opens_inside));
    janus_nursery_t *around = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.budget = &pool});
    CHECK(janus_nursery_create_with(NULL, &(janus_nursery_config_t){.reserve = &inner_reserve}) == NULL);
    SAYS("give a `reserve` to the outermost");
    IS(JANUS_OK, janus_nursery_destroy(around));
    // The thread is inside one that has a reserve, which is all there is: 120 for two times 100.
    around = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.reserve = &outer_reserve});
    IS(0, opens_inside(NULL));
    janus_nursery_t *inner =
        janus_nursery_create_with(NULL, &(janus_nursery_config_t){.task_budget = &each, .reserve = &inner_reserve});
    int32_t code;
    CHECK(janus_nursery_spawn(inner, draws_less, &code) != 0); // 20 are left
    janus_nursery_await_all(inner);
    IS(JANUS_OK, janus_nursery_destroy(inner));
    IS(JANUS_OK, janus_nursery_destroy(around));

    // A pool is for tasks of the nursery; what these may start stands in `task_budget`.
    janus_budget_t may_spawn = {.ops = 1000, .spawn_count = 3};
    int64_t none = 0, three = 3;
    janus_nursery_t *nursery = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.budget = &pool});
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, branches, &none)));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    nursery = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.budget = &pool, .task_budget = &may_spawn});
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, branches, &three)));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("reserves");
}
