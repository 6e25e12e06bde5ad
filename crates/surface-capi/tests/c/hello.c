// Two tasks, a channel, and the main thread that waits for both.
#include "janus.h"

#include <inttypes.h>
#include <stdio.h>

static janus_channel_t *squares;

static int64_t square(void *arg)
{
    int64_t number = *(int64_t *)arg;
    return janus_channel_send(squares, number * number);
}

int main(void)
{
    if (janus_rt_init(0) != JANUS_OK) {
        char why[256];
        janus_last_error(why, sizeof why);
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    squares = janus_channel_create(4);

    int64_t three = 3, four = 4, sum = 0;
    janus_nursery_t *nursery = janus_nursery_create();
    janus_nursery_spawn(nursery, square, &three);
    janus_nursery_spawn(nursery, square, &four);
    for (int i = 0; i < 2; i++) {
        int64_t value;
        if (janus_channel_recv(squares, &value) != JANUS_OK)
            break; // a task failed: the verdict says why
        sum += value;
    }
    int64_t verdict = janus_nursery_await_all(nursery); // none of them runs any more
    janus_nursery_destroy(nursery);

    janus_channel_destroy(squares);
    janus_rt_shutdown();
    printf("%" PRId64 "\n", sum);
    return verdict == 0 && sum == 25 ? 0 : 1;
}
