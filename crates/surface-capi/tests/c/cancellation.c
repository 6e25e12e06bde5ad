// Cancellation: by token, by a nursery around, with grace; and C code that does not listen.
#include "check.h"

static atomic_int started, stopped, rounds;
static atomic_bool may_stop;

static int64_t waits(void *arg)
{
    (void)arg;
    atomic_fetch_add(&started, 1);
    int code = janus_scheduler_sleep(LONG);
    atomic_fetch_add(&stopped, 1);
    return code;
}

static int64_t opens_and_forgets(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        janus_nursery_t *inside = janus_nursery_create();
        CHECK(janus_nursery_spawn(inside, waits, NULL) != 0);
    }
    atomic_fetch_add(&started, 1);
    return janus_scheduler_sleep(LONG); // never destroys them: its end does
}

static int64_t does_not_listen(void *arg)
{
    (void)arg;
    atomic_fetch_add(&started, 1);
    while (!atomic_load(&may_stop)) // no call that waits: it goes on until it returns
        if (janus_task_is_cancelled())
            atomic_fetch_add(&rounds, 1);
    return 0;
}

static int64_t holds_on(void *arg)
{
    janus_channel_t *channel = arg;
    int64_t value;
    atomic_fetch_add(&started, 1);
    while (!janus_task_is_cancelled())
        janus_scheduler_yield();
    int code = janus_channel_recv(channel, &value); // in the time of grace it still works
    IS(JANUS_OK, code);
    IS(11, value);
    return 0;
}

static int64_t cancels(void *arg)
{
    return janus_cancel_token_cancel(arg);
}

static void until_started(int number)
{
    while (atomic_load(&started) < number)
        usleep(100);
    atomic_store(&started, 0);
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));

    // One token, several nurseries, and one that comes too late.
    janus_cancel_token_t *token = janus_cancel_token_create();
    janus_nursery_t *outer = janus_nursery_create(), *inner = janus_nursery_create();
    for (int i = 0; i < 5; i++) {
        CHECK(janus_nursery_spawn(outer, waits, NULL) != 0);
        CHECK(janus_nursery_spawn(inner, waits, NULL) != 0);
    }
    until_started(10);
    IS(JANUS_OK, janus_cancel_token_attach(token, outer));
    IS(0, janus_cancel_token_is_cancelled(token));
    IS(JANUS_TIMED_OUT, janus_cancel_token_wait(token, MILLISECOND));
    IS(JANUS_OK, janus_cancel_token_cancel(token));
    IS(JANUS_OK, janus_cancel_token_cancel(token)); // again it does nothing
    IS(1, janus_cancel_token_is_cancelled(token));
    IS(JANUS_CANCELLED, janus_nursery_await_all(inner)); // it is inside
    IS(JANUS_CANCELLED, janus_nursery_await_all(outer));
    IS(10, atomic_load(&stopped));
    IS(JANUS_OK, janus_nursery_destroy(inner));
    IS(JANUS_OK, janus_nursery_destroy(outer));
    janus_nursery_t *late = janus_nursery_create();
    IS(JANUS_OK, janus_cancel_token_attach(token, late));
    IS(0, janus_nursery_spawn(late, waits, NULL));
    SAYS("cancelled");
    IS(JANUS_OK, janus_nursery_destroy(late));
    IS(JANUS_OK, janus_cancel_token_wait(token, LONG));
    IS(JANUS_OK, janus_cancel_token_destroy(token));

    // A task that waits for a token.
    token = janus_cancel_token_create();
    janus_nursery_t *nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(nursery, cancels, token) != 0);
    IS(JANUS_OK, janus_cancel_token_wait(token, LONG));
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_cancel_token_destroy(token));

    // Everything below ends: children of children too, also if no task destroys its nurseries.
    atomic_store(&started, 0);
    atomic_store(&stopped, 0);
    nursery = janus_nursery_create();
    for (int i = 0; i < 4; i++)
        CHECK(janus_nursery_spawn(nursery, opens_and_forgets, NULL) != 0);
    until_started(4 * 4);
    IS(JANUS_OK, janus_nursery_destroy(nursery)); // cancels and waits
    IS(4 * 3, atomic_load(&stopped));

    // C code that calls nothing is not stopped, and is waited for.
    nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(nursery, does_not_listen, NULL) != 0);
    until_started(1);
    IS(JANUS_OK, janus_nursery_cancel(nursery));
    while (atomic_load(&rounds) < 100)
        usleep(100);
    atomic_store(&may_stop, true);
    IS(JANUS_CANCELLED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // With a time of grace a task is told, and may go on.
    janus_channel_t *channel = janus_channel_create(1);
    janus_nursery_config_t graceful = {.grace_nanoseconds = LONG};
    nursery = janus_nursery_create_with(NULL, &graceful);
    CHECK(janus_nursery_spawn(nursery, holds_on, channel) != 0);
    until_started(1);
    IS(JANUS_OK, janus_nursery_cancel(nursery));
    IS(JANUS_OK, janus_channel_send(channel, 11));
    IS(JANUS_CANCELLED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_channel_destroy(channel));

    IS(JANUS_OK, janus_rt_shutdown());
    return done("cancellation");
}
