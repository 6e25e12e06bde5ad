// Several runtimes in one process, one of them in virtual time.
#include "check.h"

static int64_t sends_on(void *arg)
{
    janus_channel_t **pair = arg;
    int64_t value;
    while (janus_channel_recv(pair[0], &value) == JANUS_OK)
        IS(JANUS_OK, janus_channel_send(pair[1], value + 1));
    return janus_channel_close(pair[1]);
}

static janus_channel_t *order;

static int64_t notes(void *arg)
{
    for (int i = 0; i < 4; i++) {
        IS(JANUS_OK, janus_channel_send(order, (int64_t)(intptr_t)arg));
        IS(JANUS_OK, janus_scheduler_yield());
    }
    return 0;
}

static int64_t races(void *arg)
{
    (void)arg;
    IS(JANUS_OK, janus_scheduler_sleep(LONG)); // takes no time: the clock is virtual
    janus_nursery_t *nursery = janus_nursery_create();
    for (intptr_t i = 1; i < 8; i++)
        IS(JANUS_OK, janus_scheduler_spawn(notes, (void *)i)); // into the nursery it created last
    int64_t verdict = janus_nursery_await_all(nursery);
    IS(JANUS_NOT_ACTIVE, janus_scheduler_spawn(notes, NULL)); // that has ended
    SAYS("NurseryNotActive");
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    return verdict;
}

static uint64_t run_with(uint64_t seed)
{
    janus_scheduler_config_t config = {.worker_count = 4, .deterministic_seed = seed};
    janus_scheduler_t *scheduler = janus_scheduler_create(config);
    CHECK(scheduler != NULL);
    CHECK(janus_nursery_create_on(scheduler) == NULL); // it has no threads
    order = janus_channel_create(JANUS_CHANNEL_UNBOUNDED);
    IS(0, janus_scheduler_run(scheduler, races, NULL));
    uint64_t hash = 0;
    int64_t value;
    while (janus_channel_try_recv(order, &value) == JANUS_OK)
        hash = hash * 31 + (uint64_t)value;
    IS(JANUS_OK, janus_channel_destroy(order));
    IS(JANUS_OK, janus_scheduler_shutdown(scheduler));
    return hash;
}

static int64_t fails(void *arg)
{
    (void)arg;
    return 99;
}

static int64_t waits(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    return janus_scheduler_sleep(LONG);
}

static int64_t ends_its_own(void *arg)
{
    IS(JANUS_OK, janus_scheduler_shutdown(arg)); // it cannot wait for itself: it is cancelled like all others
    IS(JANUS_CANCELLED, janus_scheduler_sleep(LONG));
    return JANUS_CANCELLED;
}

int main(void)
{
    begin();
    CHECK(strlen(janus_version()) >= 5);
    CHECK(janus_nursery_create() == NULL); // there is none yet
    SAYS("janus_rt_init");

    // A chain through two runtimes and the common one.
    IS(JANUS_OK, janus_rt_init(1));
    IS(JANUS_OK, janus_rt_init(1)); // another library of the program needs it as well
    janus_scheduler_config_t config = {.worker_count = 1};
    janus_scheduler_t *first = janus_scheduler_create(config), *second = janus_scheduler_create(config);
    CHECK(first != NULL && second != NULL && first != second);
    janus_channel_t *a = janus_channel_create(1), *b = janus_channel_create(1), *c = janus_channel_create(1), *d = janus_channel_create(1);
    janus_channel_t *steps[3][2] = {{a, b}, {b, c}, {c, d}};
    janus_nursery_t *on_first = janus_nursery_create_on(first), *on_second = janus_nursery_create_on(second), *on_common;
    CHECK(on_first != NULL && on_second != NULL);
    on_common = janus_nursery_create();
    CHECK(janus_nursery_spawn(on_first, sends_on, steps[0]) != 0);
    CHECK(janus_nursery_spawn(on_second, sends_on, steps[1]) != 0);
    CHECK(janus_nursery_spawn(on_common, sends_on, steps[2]) != 0);
    int64_t value;
    for (int64_t i = 0; i < 200; i++) {
        IS(JANUS_OK, janus_channel_send(a, i));
        IS(JANUS_OK, janus_channel_recv(d, &value));
        IS(i + 3, value);
    }
    IS(JANUS_OK, janus_channel_close(a));
    IS(0, janus_nursery_await_all(on_common));
    IS(0, janus_nursery_await_all(on_second));
    IS(0, janus_nursery_await_all(on_first));
    IS(JANUS_OK, janus_nursery_destroy(on_first)); // in any order, once they have ended
    IS(JANUS_OK, janus_nursery_destroy(on_common));
    IS(JANUS_OK, janus_nursery_destroy(on_second));
    IS(99, janus_scheduler_run(first, fails, NULL));

    // A runtime that ends ends what runs on it.
    atomic_bool is_up = false;
    janus_nursery_t *left = janus_nursery_create_on(second);
    CHECK(janus_nursery_spawn(left, waits, &is_up) != 0);
    while (!atomic_load(&is_up))
        usleep(100);
    IS(JANUS_OK, janus_scheduler_shutdown(second));
    IS(JANUS_CANCELLED, janus_nursery_await_all(left));
    IS(JANUS_OK, janus_nursery_destroy(left));
    IS(JANUS_INVALID_HANDLE, janus_scheduler_shutdown(second));
    CHECK(janus_nursery_create_on(second) == NULL);
    IS(JANUS_OK, janus_scheduler_shutdown(first));

    // A task ends the runtime it runs on.
    janus_scheduler_t *third = janus_scheduler_create(config);
    janus_nursery_t *on_third = janus_nursery_create_on(third);
    CHECK(janus_nursery_spawn(on_third, ends_its_own, third) != 0);
    IS(JANUS_CANCELLED, janus_nursery_await_all(on_third));
    IS(JANUS_OK, janus_nursery_destroy(on_third));

    IS(JANUS_OK, janus_rt_shutdown());
    janus_nursery_t *still = janus_nursery_create(); // it was started twice
    CHECK(still != NULL);
    IS(JANUS_OK, janus_nursery_destroy(still));
    IS(JANUS_OK, janus_rt_shutdown());
    IS(JANUS_NOT_ACTIVE, janus_rt_shutdown());
    CHECK(janus_nursery_create() == NULL);

    // The same seed, the same order.
    bool differ = false;
    for (uint64_t seed = 1; seed < 6; seed++) {
        uint64_t hash = run_with(seed);
        IS(hash, run_with(seed));
        differ |= hash != run_with(seed + 100);
    }
    CHECK(differ);

    janus_scheduler_config_t nonsense = {.worker_count = 1000};
    CHECK(janus_scheduler_create(nonsense) == NULL);
    SAYS("256");
    nonsense = (janus_scheduler_config_t){.stack_bytes = 1};
    CHECK(janus_scheduler_create(nonsense) == NULL);
    IS(JANUS_OK, janus_channel_destroy(a) | janus_channel_destroy(b) | janus_channel_destroy(c) | janus_channel_destroy(d));
    return done("runtimes");
}
