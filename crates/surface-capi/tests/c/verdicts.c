// What a nursery is worth: each code once.
#include "check.h"

static int64_t succeeds(void)
{
    return 0;
}

static int64_t returns(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

static atomic_int started, cancelled;

static int64_t waits(void *arg)
{
    (void)arg;
    atomic_fetch_add(&started, 1);
    IS(JANUS_CANCELLED, janus_scheduler_sleep(LONG));
    IS(JANUS_CANCELLED, janus_scheduler_sleep(LONG)); // at once: it was told
    IS(JANUS_CANCELLED, janus_scheduler_yield());
    IS(1, janus_task_is_cancelled());
    SAYS("was cancelled");
    atomic_fetch_add(&cancelled, 1);
    return JANUS_CANCELLED;
}

static int64_t panics(void *arg)
{
    (void)arg;
    IS(JANUS_OK, janus_task_panic("the sky fell"));
    return 0; // whatever it returns
}

static int64_t spends(void *arg)
{
    (void)arg;
    for (;;) {
        int code = janus_budget_charge(10);
        if (code != JANUS_OK) {
            IS(JANUS_BUDGET_EXHAUSTED, code);
            IS(JANUS_BUDGET_EXHAUSTED, janus_scheduler_yield()); // it stays so
            return 0;                                            // and is the verdict, whatever it returns
        }
    }
}

static int64_t recurses(volatile char *above)
{
    volatile char frame[512];
    frame[0] = above[0];
    int code = janus_scheduler_yield();
    if (code != JANUS_OK)
        return code; // the library looks before it begins: the task goes on
    return recurses(frame) + frame[0];
}

static int64_t goes_deep(void *arg)
{
    (void)arg;
    volatile char frame[1] = {0};
    IS(JANUS_STACK_OVERFLOW, recurses(frame));
    SAYS("stack");
    IS(JANUS_OK, janus_scheduler_yield());
    return 0;
}

static int64_t asks(void *arg)
{
    IS(JANUS_PENDING, janus_nursery_await_all(arg)); // it cannot wait for itself
    SAYS("only what created it");
    IS(JANUS_NOT_OWNER, janus_nursery_destroy(arg));
    return 0;
}

static int64_t verdict_of(janus_task_fn task, void *arg)
{
    janus_nursery_t *nursery = janus_nursery_create();
    janus_task_t number = janus_nursery_spawn(nursery, task, arg);
    CHECK(number != 0);
    int64_t verdict = janus_nursery_await_all(nursery);
    IS(verdict, janus_nursery_await_all(nursery)); // says the same again
    IS(verdict, janus_nursery_await(nursery, number));
    IS(0, janus_nursery_task_count(nursery));
    IS(0, janus_nursery_spawn(nursery, returns, NULL)); // it takes no more
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    return verdict;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));

    janus_nursery_t *nursery = janus_nursery_create();
    for (int i = 0; i < 100; i++)
        CHECK(janus_nursery_spawn_noarg(nursery, succeeds) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    IS(42, verdict_of(returns, (void *)(intptr_t)42)); // a child's own code
    IS(-1234567890123, verdict_of(returns, (void *)(intptr_t)-1234567890123));
    IS(JANUS_PANICKED, verdict_of(panics, NULL));
    IS(0, verdict_of(goes_deep, NULL));

    // Cancelled by a sibling that fails; the code is that of the failure.
    nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(nursery, waits, NULL) != 0);
    CHECK(janus_nursery_spawn(nursery, returns, (void *)(intptr_t)7) != 0);
    IS(JANUS_CANCELLED, janus_scheduler_sleep(LONG)); // what its owner does is inside it
    IS(7, janus_nursery_await_all(nursery));
    SAYS("returned 7");
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_scheduler_yield()); // outside again

    // Cancelled by its owner.
    nursery = janus_nursery_create();
    int before = atomic_load(&started);
    janus_task_t waiter = janus_nursery_spawn(nursery, waits, NULL);
    while (atomic_load(&started) == before)
        usleep(100); // one that has not begun is cancelled without a call
    IS(0, janus_nursery_is_cancelled(nursery));
    IS(JANUS_PENDING, janus_nursery_poll(nursery));
    IS(JANUS_OK, janus_nursery_cancel(nursery));
    IS(1, janus_nursery_is_cancelled(nursery));
    IS(JANUS_CANCELLED, janus_nursery_await(nursery, waiter));
    IS(JANUS_CANCELLED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Out of time.
    janus_nursery_config_t hasty = {.name = "hasty", .timeout_nanoseconds = MILLISECOND};
    nursery = janus_nursery_create_with(NULL, &hasty);
    janus_nursery_spawn(nursery, waits, NULL); // or time is up before it
    IS(JANUS_CANCELLED, janus_nursery_await_all(nursery));
    SAYS("hasty");
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Out of budget.
    janus_budget_t budget = {.ops = 1000, .memory = 1 << 20, .spawn_count = 4, .channel_ops = 10, .syscalls = 1};
    janus_nursery_config_t frugal = {.budget = &budget};
    nursery = janus_nursery_create_with(NULL, &frugal);
    CHECK(janus_nursery_spawn(nursery, spends, NULL) != 0);
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Others go on, and the first failure is the verdict.
    janus_nursery_config_t patient = {.others_go_on = true};
    nursery = janus_nursery_create_with(NULL, &patient);
    janus_task_t first = janus_nursery_spawn(nursery, returns, (void *)(intptr_t)5);
    IS(5, janus_nursery_await(nursery, first));
    CHECK(janus_nursery_spawn(nursery, returns, (void *)(intptr_t)6) != 0);
    CHECK(janus_nursery_spawn(nursery, asks, nursery) != 0);
    IS(5, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    CHECK(atomic_load(&cancelled) >= 1);
    IS(JANUS_OK, janus_rt_shutdown());
    return done("verdicts");
}
