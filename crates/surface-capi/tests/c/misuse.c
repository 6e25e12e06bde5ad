// Whatever a program passes, it gets a code.
#include "check.h"

#include <pthread.h>

static int64_t succeeds(void *arg)
{
    (void)arg;
    return 0;
}

static int64_t waits(void *arg)
{
    (void)arg;
    return janus_scheduler_sleep(LONG);
}

// Every function, with a handle that is none.
static void refuse_all(void *wrong)
{
    int64_t value = 7;
    janus_exhausted_t exhausted;
    janus_budget_t budget = {0};
    IS(JANUS_INVALID_HANDLE, janus_scheduler_shutdown(wrong));
    IS(JANUS_INVALID_HANDLE, janus_scheduler_run(wrong, succeeds, NULL));
    CHECK(janus_nursery_create_on(wrong) == NULL);
    IS(0, janus_nursery_spawn(wrong, succeeds, NULL));
    IS(0, janus_nursery_spawn_with(wrong, succeeds, NULL, NULL));
    IS(JANUS_INVALID_HANDLE, janus_nursery_await(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_nursery_await_all(wrong));
    IS(JANUS_INVALID_HANDLE, janus_nursery_poll(wrong));
    IS(JANUS_INVALID_HANDLE, janus_nursery_cancel(wrong));
    IS(JANUS_INVALID_HANDLE, janus_nursery_destroy(wrong));
    IS(JANUS_INVALID_HANDLE, janus_nursery_task_count(wrong));
    IS(JANUS_INVALID_HANDLE, janus_nursery_is_cancelled(wrong));
    IS(JANUS_INVALID_HANDLE, janus_supervisor_poll_exhausted(wrong, &exhausted));
    IS(JANUS_INVALID_HANDLE, janus_supervisor_wait_exhausted(wrong, 0, &exhausted));
    IS(JANUS_INVALID_HANDLE, janus_supervisor_refuse(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_budget_recharge_child(wrong, 1, budget));
    IS(JANUS_INVALID_HANDLE, janus_channel_send(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_channel_send_timeout(wrong, 1, 1));
    IS(JANUS_INVALID_HANDLE, janus_channel_try_send(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_channel_recv(wrong, &value));
    IS(JANUS_INVALID_HANDLE, janus_channel_recv_timeout(wrong, &value, 1));
    IS(JANUS_INVALID_HANDLE, janus_channel_try_recv(wrong, &value));
    IS(JANUS_INVALID_HANDLE, janus_channel_close(wrong));
    IS(JANUS_INVALID_HANDLE, janus_channel_is_closed(wrong));
    IS(JANUS_INVALID_HANDLE, janus_channel_len(wrong));
    IS(JANUS_INVALID_HANDLE, janus_channel_destroy(wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_add_recv(wrong, wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_add_send(wrong, wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_select_add_cancel(wrong, wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_add_timeout(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_select_add_default(wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_wait(wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_get_status(wrong));
    IS(JANUS_INVALID_HANDLE, janus_select_get_recv_value(wrong, &value));
    IS(JANUS_INVALID_HANDLE, janus_select_destroy(wrong));
    IS(JANUS_INVALID_HANDLE, janus_cancel_token_cancel(wrong));
    IS(JANUS_INVALID_HANDLE, janus_cancel_token_is_cancelled(wrong));
    IS(JANUS_INVALID_HANDLE, janus_cancel_token_attach(wrong, wrong));
    IS(JANUS_INVALID_HANDLE, janus_cancel_token_wait(wrong, 1));
    IS(JANUS_INVALID_HANDLE, janus_cancel_token_destroy(wrong));
    IS(7, value);
}

static void *elsewhere(void *arg)
{
    IS(JANUS_NOT_OWNER, janus_nursery_destroy(arg));
    SAYS("janus_nursery_cancel");
    IS(JANUS_PENDING, janus_nursery_await_all(arg));
    IS(0, janus_nursery_await(arg, janus_nursery_spawn(arg, succeeds, NULL))); // but spawn and await a task it may
    return NULL;
}

static void *receives(void *arg)
{
    int64_t value;
    int code;
    while ((code = janus_channel_recv(arg, &value)) == JANUS_OK)
        ;
    CHECK(code == JANUS_CLOSED || code == JANUS_INVALID_HANDLE); // it was destroyed meanwhile, or before
    return NULL;
}

static void *creates_and_ends(void *arg)
{
    janus_nursery_t **left = arg;
    *left = janus_nursery_create();
    CHECK(janus_nursery_spawn(*left, waits, NULL) != 0);
    return NULL; // never destroys it
}

static int64_t creates_and_returns(void *arg)
{
    creates_and_ends(arg);
    return 0;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    int on_stack;
    void *heap = malloc(64);
    refuse_all(NULL);
    SAYS("NULL is not a");
    refuse_all(&on_stack);
    refuse_all(heap);
    refuse_all((void *)(uintptr_t)succeeds);
    refuse_all((void *)UINTPTR_MAX);
    free(heap);
    // Anything at all, with the kinds of real handles among it.
    uint64_t random = 88172645463325252;
    for (int i = 0; i < 2000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t kinds = (uint64_t)"SNCLT"[i % 5] << 56;
        refuse_all((void *)(uintptr_t)(kinds | (random >> 8) | UINT64_C(1) << 31));
    }

    // Of another kind, stale, twice.
    janus_channel_t *channel = janus_channel_create(1);
    janus_select_t *select = janus_select_create();
    IS(JANUS_INVALID_HANDLE, janus_nursery_cancel((janus_nursery_t *)channel));
    SAYS("is not a nursery");
    IS(JANUS_INVALID_HANDLE, janus_channel_send((janus_channel_t *)select, 1));
    IS(JANUS_OK, janus_select_destroy(select));
    IS(JANUS_INVALID_HANDLE, janus_select_destroy(select));
    SAYS("was destroyed");
    janus_select_t *next = janus_select_create(); // in the same place, and the old handle is still none
    IS(JANUS_INVALID_HANDLE, janus_select_wait(select));
    IS(JANUS_OK, janus_select_destroy(next));

    // NULL and odd addresses for results, functions, configs.
    char bytes[32] = {0};
    int64_t *odd = (int64_t *)(void *)(bytes + 1 + ((uintptr_t)bytes & 1));
    IS(JANUS_OK, janus_channel_send(channel, 3));
    IS(JANUS_INVALID_ARGUMENT, janus_channel_recv(channel, NULL));
    SAYS("`value` is NULL");
    IS(JANUS_INVALID_ARGUMENT, janus_channel_try_recv(channel, odd));
    SAYS("not a multiple");
    IS(1, janus_channel_len(channel)); // nothing was taken
    janus_nursery_t *nursery = janus_nursery_create();
    IS(0, janus_nursery_spawn(nursery, (janus_task_fn)NULL, NULL));
    IS(0, janus_nursery_spawn_noarg(nursery, (janus_task_noarg_fn)NULL));
    SAYS("int64_t");
    CHECK(janus_nursery_create_with(NULL, (const janus_nursery_config_t *)(const void *)odd) == NULL);
    IS(JANUS_INVALID_ARGUMENT, janus_supervisor_poll_exhausted(nursery, NULL));
    IS(JANUS_INVALID_ARGUMENT, janus_nursery_await(nursery, 0));
    IS(JANUS_INVALID_ARGUMENT, janus_nursery_await(nursery, 12345));
    SAYS("12345 is no task");
    CHECK(janus_last_error(NULL, 0) > 10);
    char few[5];
    CHECK(janus_last_error(few, sizeof few) > 4);
    IS(4, strlen(few)); // cut, with a NUL
    IS(JANUS_NOT_ACTIVE, janus_task_panic("not a task"));

    // A nursery belongs to what created it.
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, elsewhere, nursery) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_INVALID_HANDLE, janus_nursery_destroy(nursery));

    // An outer one ends the inner ones first, whose handles stay until they are destroyed.
    janus_nursery_t *outer = janus_nursery_create(), *inner = janus_nursery_create();
    CHECK(janus_nursery_spawn(inner, waits, NULL) != 0);
    IS(JANUS_OK, janus_nursery_destroy(outer));
    IS(JANUS_CANCELLED, janus_nursery_await_all(inner));
    IS(JANUS_OK, janus_nursery_destroy(inner));

    // What created it ends: the handle is none any more.
    janus_nursery_t *left;
    CHECK(pthread_create(&thread, NULL, creates_and_ends, &left) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    IS(JANUS_INVALID_HANDLE, janus_nursery_destroy(left));
    SAYS("its owner has ended");
    nursery = janus_nursery_create();
    IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, creates_and_returns, &left)));
    IS(JANUS_INVALID_HANDLE, janus_nursery_cancel(left));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // Destroyed while others use it.
    for (int round = 0; round < 50; round++) {
        janus_channel_t *shared = janus_channel_create(4);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, receives, shared) == 0);
        for (int i = 0; i < round; i++)
            IS(JANUS_OK, janus_channel_send(shared, i));
        IS(JANUS_OK, janus_channel_destroy(shared));
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    IS(JANUS_OK, janus_channel_destroy(channel));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("misuse");
}
