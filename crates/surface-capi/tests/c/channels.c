// Channels: full, empty, closed; values come once and in order.
#include "check.h"

enum { SENDERS = 4, EACH = 500 };

static janus_channel_t *numbers;

static int64_t sends(void *arg)
{
    int64_t from = (int64_t)(intptr_t)arg * EACH;
    for (int64_t i = 0; i < EACH; i++)
        IS(JANUS_OK, janus_channel_send(numbers, from + i));
    return 0;
}

static int64_t receives(void *arg)
{
    int64_t *sum = arg, value;
    int code;
    while ((code = janus_channel_recv(numbers, &value)) == JANUS_OK)
        *sum += value;
    IS(JANUS_CLOSED, code);
    return 0;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(0));
    int64_t value = -1;

    numbers = janus_channel_create(2);
    IS(JANUS_EMPTY, janus_channel_try_recv(numbers, &value));
    IS(JANUS_TIMED_OUT, janus_channel_recv_timeout(numbers, &value, MILLISECOND));
    IS(-1, value);
    IS(JANUS_OK, janus_channel_try_send(numbers, 1));
    IS(JANUS_OK, janus_channel_send(numbers, 2));
    IS(2, janus_channel_len(numbers));
    IS(JANUS_FULL, janus_channel_try_send(numbers, 3));
    SAYS("full");
    IS(JANUS_TIMED_OUT, janus_channel_send_timeout(numbers, 3, MILLISECOND));
    IS(JANUS_OK, janus_channel_try_recv(numbers, &value));
    IS(1, value);
    IS(0, janus_channel_is_closed(numbers));
    IS(JANUS_OK, janus_channel_close(numbers));
    IS(1, janus_channel_is_closed(numbers));
    IS(JANUS_CLOSED, janus_channel_send(numbers, 4));
    IS(JANUS_OK, janus_channel_recv(numbers, &value)); // what was sent can be received
    IS(2, value);
    IS(JANUS_CLOSED, janus_channel_recv(numbers, &value));
    IS(JANUS_CLOSED, janus_channel_try_recv(numbers, &value));
    IS(2, value);
    IS(JANUS_OK, janus_channel_destroy(numbers));

    numbers = janus_channel_create(JANUS_CHANNEL_UNBOUNDED);
    for (int64_t i = 0; i < 1000; i++)
        IS(JANUS_OK, janus_channel_send(numbers, i));
    for (int64_t i = 0; i < 1000; i++) {
        IS(JANUS_OK, janus_channel_recv(numbers, &value));
        IS(i, value);
    }
    IS(JANUS_OK, janus_channel_destroy(numbers));
    CHECK(janus_channel_create((size_t)JANUS_CHANNEL_CAPACITY_MAX + 1) == NULL);
    SAYS("the limit is");

    // Without a buffer, and with one: many send, many receive.
    for (size_t capacity = 0; capacity < 64; capacity += 21) {
        numbers = janus_channel_create(capacity);
        janus_nursery_t *all = janus_nursery_create(), *senders;
        int64_t sums[3] = {0};
        for (int i = 0; i < 3; i++)
            CHECK(janus_nursery_spawn(all, receives, &sums[i]) != 0);
        senders = janus_nursery_create();
        for (intptr_t i = 0; i < SENDERS; i++)
            CHECK(janus_nursery_spawn(senders, sends, (void *)i) != 0);
        IS(0, janus_nursery_await_all(senders));
        IS(JANUS_OK, janus_nursery_destroy(senders));
        IS(JANUS_OK, janus_channel_close(numbers));
        IS(0, janus_nursery_await_all(all));
        IS(JANUS_OK, janus_nursery_destroy(all));
        IS((int64_t)SENDERS * EACH * (SENDERS * EACH - 1) / 2, sums[0] + sums[1] + sums[2]);
        IS(JANUS_OK, janus_channel_destroy(numbers));
    }
    IS(JANUS_OK, janus_rt_shutdown());
    return done("channels");
}
