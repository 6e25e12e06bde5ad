// Select: receive, send, a time, a default, a token.
#include "check.h"

static int64_t answers(void *arg)
{
    janus_channel_t **pair = arg;
    int64_t value;
    IS(JANUS_OK, janus_channel_recv(pair[0], &value));
    IS(JANUS_OK, janus_channel_send(pair[1], value + 1));
    return 0;
}

static int64_t waits(void *arg)
{
    int code = janus_select_wait(arg);
    IS(JANUS_CANCELLED, code);
    return code;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    int64_t value = 0;

    janus_channel_t *requests = janus_channel_create(0), *replies = janus_channel_create(1);
    janus_select_t *select = janus_select_create();
    IS(JANUS_INVALID_ARGUMENT, janus_select_wait(select)); // it would wait for ever
    IS(JANUS_NOT_ACTIVE, janus_select_get_status(select));
    IS(0, janus_select_add_recv(select, replies));
    IS(1, janus_select_add_default(select));
    IS(1, janus_select_wait(select));
    IS(JANUS_NOT_ACTIVE, janus_select_get_recv_value(select, &value));
    IS(JANUS_OK, janus_select_destroy(select));

    select = janus_select_create();
    IS(0, janus_select_add_timeout(select, LONG));
    IS(1, janus_select_add_timeout(select, MILLISECOND)); // the shorter counts
    IS(2, janus_select_add_recv(select, replies));
    IS(1, janus_select_wait(select));
    IS(JANUS_OK, janus_select_get_status(select));
    IS(JANUS_OK, janus_select_destroy(select));

    janus_nursery_t *nursery = janus_nursery_create();
    janus_channel_t *pair[2] = {requests, replies};
    CHECK(janus_nursery_spawn(nursery, answers, pair) != 0);
    select = janus_select_create();
    IS(0, janus_select_add_send(select, requests, 41));
    IS(1, janus_select_add_recv(select, replies));
    IS(0, janus_select_wait(select)); // nothing was asked yet
    IS(1, janus_select_wait(select)); // the same select again: none receives another request
    IS(JANUS_OK, janus_select_get_recv_value(select, &value));
    IS(42, value);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_channel_close(requests));
    IS(0, janus_select_wait(select)); // a closed channel is possible, and says so
    IS(JANUS_CLOSED, janus_select_get_status(select));
    IS(JANUS_OK, janus_select_destroy(select));

    // A token is a case.
    janus_cancel_token_t *token = janus_cancel_token_create();
    select = janus_select_create();
    IS(0, janus_select_add_recv(select, replies));
    IS(1, janus_select_add_cancel(select, token));
    IS(JANUS_OK, janus_cancel_token_cancel(token));
    IS(1, janus_select_wait(select));
    IS(JANUS_OK, janus_select_destroy(select));
    IS(JANUS_OK, janus_cancel_token_destroy(token));

    // One at a time waits for a select; a cancellation ends it, and it can be used again.
    select = janus_select_create();
    IS(0, janus_select_add_recv(select, replies));
    nursery = janus_nursery_create();
    janus_task_t waiting = janus_nursery_spawn(nursery, waits, select);
    while (janus_select_add_timeout(select, LONG) != JANUS_BUSY)
        janus_scheduler_yield(); // until it waits, cases are added
    IS(JANUS_BUSY, janus_select_wait(select));
    IS(JANUS_OK, janus_nursery_cancel(nursery));
    IS(JANUS_CANCELLED, janus_nursery_await(nursery, waiting));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_channel_send(replies, 9));
    IS(JANUS_OK, janus_select_destroy(select));

    IS(JANUS_OK, janus_channel_destroy(requests));
    IS(JANUS_OK, janus_channel_destroy(replies));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("select");
}
