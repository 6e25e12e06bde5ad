// Four threads do all of it at once, on one runtime.
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, TASKS = 8, VALUES = 20 };

// What the threads share: they also use each other's.
static janus_channel_t *common;
static janus_nursery_t *common_nursery;
static atomic_int_fast64_t sent, received, refused;

static int64_t produces(void *arg)
{
    for (int64_t i = 0; i < VALUES; i++) {
        int code = janus_channel_send(arg, i);
        if (code != JANUS_OK)
            return code;
    }
    return 0;
}

static int64_t consumes(void *arg)
{
    janus_select_t *select = janus_select_create();
    IS(0, janus_select_add_recv(select, arg));
    IS(1, janus_select_add_send(select, common, 1));
    int64_t value, sum = 0;
    int code;
    while ((code = janus_select_wait(select)) >= 0) {
        if (code == 1) {
            atomic_fetch_add(&sent, 1);
        } else if (janus_select_get_recv_value(select, &value) == JANUS_OK) {
            sum += value;
        } else {
            break; // closed
        }
    }
    IS(JANUS_OK, janus_select_destroy(select));
    return code >= 0 ? 0 : code;
}

static int64_t drains(void *arg)
{
    (void)arg;
    int64_t value;
    while (janus_channel_recv(common, &value) == JANUS_OK)
        atomic_fetch_add(&received, value);
    return 0;
}

static int64_t spends(void *arg)
{
    return janus_budget_charge((uint32_t)(uintptr_t)arg);
}

static int64_t waits(void *arg)
{
    (void)arg;
    return janus_scheduler_sleep(LONG);
}

static int64_t nests(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0)
        return 0;
    janus_nursery_t *inside = janus_nursery_create();
    for (int i = 0; i < 2; i++)
        if (janus_nursery_spawn(inside, nests, (void *)(depth - 1)) == 0)
            CHECK(janus_nursery_is_cancelled(inside) == 1); // with the one around it
    if (depth % 2 == 0)
        return janus_nursery_await_all(inside); // and never destroys it
    int64_t code = janus_nursery_await_all(inside);
    IS(JANUS_OK, janus_nursery_destroy(inside));
    return code;
}

static void round_of(uint64_t number)
{
    // Channels and select.
    janus_nursery_t *nursery = janus_nursery_create();
    janus_channel_t *own = janus_channel_create(number % 3);
    janus_nursery_t *producers = janus_nursery_create();
    for (int i = 0; i < TASKS; i++) {
        CHECK(janus_nursery_spawn(nursery, consumes, own) != 0);
        CHECK(janus_nursery_spawn(producers, produces, own) != 0);
    }
    IS(0, janus_nursery_await_all(producers));
    IS(JANUS_OK, janus_nursery_destroy(producers));
    IS(JANUS_OK, janus_channel_close(own));
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_channel_destroy(own));

    // Budgets: one task is given more, one is refused.
    janus_budget_t pool = {.ops = 10000, .spawn_count = 9}, each = {.ops = 100}, more = {.ops = 100};
    janus_nursery_config_t config = {.budget = &pool, .task_budget = &each, .is_supervised = true, .others_go_on = true};
    nursery = janus_nursery_create_with(NULL, &config);
    janus_task_t lucky = janus_nursery_spawn(nursery, spends, (void *)(uintptr_t)150);
    janus_task_t unlucky = janus_nursery_spawn(nursery, spends, (void *)(uintptr_t)160);
    for (int i = 0; i < 2; i++) {
        janus_exhausted_t exhausted;
        IS(1, janus_supervisor_wait_exhausted(nursery, LONG, &exhausted));
        if (exhausted.task == lucky)
            IS(JANUS_OK, janus_budget_recharge_child(nursery, lucky, more));
        else
            IS(JANUS_OK, janus_supervisor_refuse(nursery, unlucky));
    }
    IS(0, janus_nursery_await(nursery, lucky));
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Cancellation, and nurseries in nurseries.
    janus_cancel_token_t *token = janus_cancel_token_create();
    nursery = janus_nursery_create();
    IS(JANUS_OK, janus_cancel_token_attach(token, nursery));
    for (int i = 0; i < TASKS; i++)
        CHECK(janus_nursery_spawn(nursery, i % 2 ? waits : nests, (void *)(intptr_t)(i % 4)) != 0);
    IS(JANUS_OK, janus_cancel_token_cancel(token));
    IS(JANUS_CANCELLED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_cancel_token_destroy(token));

    nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(nursery, nests, (void *)(intptr_t)4) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // What belongs to another thread.
    janus_task_t task = janus_nursery_spawn(common_nursery, nests, (void *)(intptr_t)1);
    if (task == 0)
        atomic_fetch_add(&refused, 1);
    else
        IS(0, janus_nursery_await(common_nursery, task));
    IS(JANUS_NOT_OWNER, janus_nursery_destroy(common_nursery));
    IS(JANUS_PENDING, janus_nursery_await_all(common_nursery));
}

static void *does_all(void *arg)
{
    const int rounds = (int)(intptr_t)arg;
    for (int i = 0; i < rounds; i++)
        round_of((uint64_t)i);
    return NULL;
}

int main(int argc, char **argv)
{
    begin();
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    IS(JANUS_OK, janus_rt_init(0));
    common = janus_channel_create(16);
    common_nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(common_nursery, drains, NULL) != 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, does_all, (void *)(intptr_t)rounds) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    IS(JANUS_OK, janus_channel_close(common));
    IS(0, janus_nursery_await_all(common_nursery));
    IS(JANUS_OK, janus_nursery_destroy(common_nursery));
    IS(JANUS_OK, janus_channel_destroy(common));
    IS(0, atomic_load(&refused));
    IS(atomic_load(&sent), atomic_load(&received)); // each value once
    IS(JANUS_OK, janus_rt_shutdown());
    return done("four_threads");
}
