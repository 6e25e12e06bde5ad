// Waiting for single tasks: many wait for one, some give up, and very many are never waited for.
#include "check.h"

#include <pthread.h>

static janus_nursery_t *nursery;
static janus_channel_t *gate;
static janus_task_t held;
static atomic_int learned;

static int64_t passes_on(void *arg)
{
    (void)arg;
    int64_t value;
    IS(JANUS_OK, janus_channel_recv(gate, &value));
    return value;
}

static void *learns(void *arg)
{
    (void)arg;
    IS(9, janus_nursery_await(nursery, held));
    SAYS("returned 9");
    atomic_fetch_add(&learned, 1);
    return NULL;
}

static int64_t gives_up(void *arg)
{
    (void)arg;
    int64_t code = janus_nursery_await(nursery, held);
    IS(JANUS_CANCELLED, code);
    return code;
}

static int64_t returns(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

enum { WAITING = 4, MANY = 20000 };

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    gate = janus_channel_create(1);
    janus_nursery_config_t config = {.others_go_on = true};
    nursery = janus_nursery_create_with(NULL, &config);
    held = janus_nursery_spawn(nursery, passes_on, NULL);

    pthread_t threads[WAITING];
    for (int i = 0; i < WAITING; i++)
        CHECK(pthread_create(&threads[i], NULL, learns, NULL) == 0);
    janus_nursery_t *others = janus_nursery_create();
    janus_task_t first = janus_nursery_spawn(others, gives_up, NULL), second = janus_nursery_spawn(others, gives_up, NULL);
    IS(JANUS_OK, janus_scheduler_sleep(5 * MILLISECOND)); // most of them wait by now; those that do not, later
    IS(JANUS_OK, janus_nursery_cancel(others));
    IS(JANUS_CANCELLED, janus_nursery_await(others, first));
    IS(JANUS_CANCELLED, janus_nursery_await(others, second));
    IS(JANUS_OK, janus_nursery_destroy(others));

    // Meanwhile very many come and go, and each is still known by its number.
    janus_task_t numbers[MANY / 1000];
    for (int i = 0; i < MANY; i++) {
        janus_task_t number = janus_nursery_spawn(nursery, returns, (void *)(intptr_t)(i % 1000 == 0 ? i + 1 : 0));
        CHECK(number != 0);
        if (i % 1000 == 0)
            numbers[i / 1000] = number;
        if (i % 500 == 0)
            IS(i % 1000 == 0 ? i + 1 : 0, janus_nursery_await(nursery, number));
    }
    for (int i = 0; i < MANY / 1000; i++) {
        IS(i * 1000 + 1, janus_nursery_await(nursery, numbers[i]));
        IS(0, janus_nursery_await(nursery, numbers[i] + 1));
    }

    IS(JANUS_OK, janus_channel_send(gate, 9));
    for (int i = 0; i < WAITING; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    IS(WAITING, atomic_load(&learned));
    IS(9, janus_nursery_await(nursery, held));
    IS(1, janus_nursery_await_all(nursery)); // the first that failed
    IS(9, janus_nursery_await(nursery, held));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_channel_destroy(gate));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("awaits");
}
