// Budgets: what tasks have, give themselves, and get of a supervisor.
#include "check.h"

static int64_t looks(void *arg)
{
    janus_budget_t *seen = arg;
    *seen = janus_budget_get_current();
    return 0;
}

static int64_t spends(void *arg)
{
    uint32_t ops = (uint32_t)(uintptr_t)arg;
    return janus_budget_charge(ops);
}

static int64_t recharges(void *arg)
{
    (void)arg;
    janus_budget_t more = {.ops = 300};
    IS(JANUS_OK, janus_budget_recharge(more));
    IS(400, janus_budget_get_current().ops);
    more.ops = 1000000;
    IS(JANUS_OK, janus_budget_recharge(more)); // as much as there is left
    IS(600, janus_budget_get_current().ops);
    IS(JANUS_NOT_ALLOWED, janus_budget_recharge(more)); // and that is spent
    return 0;
}

static int64_t opens_inside(void *arg)
{
    (void)arg;
    uint32_t before = janus_budget_get_current().ops;
    janus_budget_t pool = {.ops = 400, .spawn_count = 2};
    janus_nursery_config_t config = {.budget = &pool};
    janus_nursery_t *inside = janus_nursery_create_with(NULL, &config);
    CHECK(inside != NULL);
    janus_task_t task = janus_nursery_spawn(inside, spends, (void *)(uintptr_t)250);
    IS(0, janus_nursery_await(inside, task));
    IS(0, janus_nursery_await_all(inside));
    IS(JANUS_OK, janus_nursery_destroy(inside));
    uint32_t after = janus_budget_get_current().ops;
    CHECK(after <= before - 250 && after >= before - 400); // what was spent is gone, the rest is back
    return 0;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    IS(UINT32_MAX, janus_budget_get_current().ops); // a thread has no limit

    janus_budget_t pool = {.ops = 10000, .memory = 1 << 20, .spawn_count = 20, .channel_ops = 500, .syscalls = 5};
    janus_budget_t each = {.ops = 100, .memory = 4096, .spawn_count = 0, .channel_ops = 7, .syscalls = 1}, seen;

    janus_nursery_config_t config = {.budget = &pool, .task_budget = &each};
    janus_nursery_t *nursery = janus_nursery_create_with(NULL, &config);
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, looks, &seen)));
    IS(100, seen.ops);
    IS(7, seen.channel_ops);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // A reserve from which tasks recharge themselves.
    janus_budget_t reserve = {.ops = 500};
    config.reserve = &reserve;
    nursery = janus_nursery_create_with(NULL, &config);
    CHECK(janus_nursery_spawn(nursery, recharges, NULL) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    config.reserve = NULL;
    IS(JANUS_NOT_ALLOWED, janus_budget_recharge(each)); // a thread has none

    // A supervisor: one task gets more, another does not.
    config.is_supervised = true;
    config.others_go_on = true;
    nursery = janus_nursery_create_with(NULL, &config);
    janus_exhausted_t exhausted;
    IS(0, janus_supervisor_poll_exhausted(nursery, &exhausted));
    janus_task_t lucky = janus_nursery_spawn(nursery, spends, (void *)(uintptr_t)150);
    IS(1, janus_supervisor_wait_exhausted(nursery, LONG, &exhausted));
    IS(lucky, exhausted.task);
    IS(JANUS_COMPONENT_OPS, exhausted.component);
    IS(100, exhausted.granted);
    IS(50, exhausted.missing);
    IS(0, janus_supervisor_poll_exhausted(nursery, &exhausted)); // it was told
    janus_budget_t more = {.ops = 50};
    IS(JANUS_OK, janus_budget_recharge_child(nursery, lucky, more));
    IS(0, janus_nursery_await(nursery, lucky));
    IS(JANUS_NOT_ACTIVE, janus_budget_recharge_child(nursery, lucky, more));
    SAYS("waits for no answer");
    janus_task_t unlucky = janus_nursery_spawn(nursery, spends, (void *)(uintptr_t)101);
    IS(1, janus_supervisor_wait_exhausted(nursery, LONG, &exhausted));
    IS(unlucky, exhausted.task);
    IS(1, exhausted.missing);
    janus_budget_t wrong = {.syscalls = 1};
    IS(JANUS_BUDGET_EXHAUSTED, janus_budget_recharge_child(nursery, unlucky, wrong)); // it needs something else
    IS(JANUS_OK, janus_supervisor_refuse(nursery, unlucky));
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await(nursery, unlucky));
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Only what is limited can be supervised.
    nursery = janus_nursery_create();
    IS(JANUS_NOT_ACTIVE, janus_supervisor_poll_exhausted(nursery, &exhausted));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // The pool of a nursery inside a task comes out of the task's budget.
    janus_budget_t large = {.ops = 5000, .memory = 1 << 20, .spawn_count = 10, .channel_ops = 100, .syscalls = 5};
    janus_nursery_config_t outer = {.budget = &pool, .task_budget = &large};
    nursery = janus_nursery_create_with(NULL, &outer);
    CHECK(janus_nursery_spawn(nursery, opens_inside, NULL) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Spawns are a budget as well.
    janus_budget_t two = {.ops = 1000, .spawn_count = 2};
    janus_nursery_config_t few = {.budget = &two};
    nursery = janus_nursery_create_with(NULL, &few);
    CHECK(janus_nursery_spawn(nursery, looks, &seen) != 0);
    CHECK(janus_nursery_spawn(nursery, looks, &seen) != 0);
    IS(0, janus_nursery_spawn(nursery, looks, &seen));
    SAYS("SpawnBudgetExhausted");
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    IS(JANUS_OK, janus_rt_shutdown());
    return done("budgets");
}
