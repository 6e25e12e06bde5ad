// What a spawn and an await cost, and a value through a channel: nanoseconds of CPU time, on one worker. Run by hand:
//   cargo build --release -p bursar-surface-capi
//   cc -O2 -Icrates/surface-capi/include crates/surface-capi/tests/c/speed.c target/release/libjanus.a -lm -o target/speed
//   target/speed
#include "check.h"

#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // other programs on the machine do not count
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int64_t nothing(void *arg)
{
    (void)arg;
    return 0;
}

enum { BATCH = 1000 };

static int64_t measures(void *arg)
{
    int rounds = (int)(intptr_t)arg;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        janus_nursery_t *nursery = janus_nursery_create();
        for (int j = 0; j < BATCH; j++)
            janus_nursery_spawn(nursery, nothing, NULL);
        IS(0, janus_nursery_await_all(nursery));
        IS(JANUS_OK, janus_nursery_destroy(nursery));
    }
    printf("spawn, and await_all for %d: %.0f ns a task\n", BATCH, (now() - begun) / rounds / BATCH);

    janus_nursery_t *nursery = janus_nursery_create();
    begun = now();
    for (int i = 0; i < rounds * 100; i++)
        IS(0, janus_nursery_await(nursery, janus_nursery_spawn(nursery, nothing, NULL)));
    printf("spawn and await, one by one: %.0f ns a task\n", (now() - begun) / rounds / 100);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    begun = now();
    for (int i = 0; i < rounds * 100; i++) {
        nursery = janus_nursery_create();
        IS(0, janus_nursery_await_all(nursery));
        IS(JANUS_OK, janus_nursery_destroy(nursery));
    }
    printf("a nursery without tasks: %.0f ns\n", (now() - begun) / rounds / 100);

    janus_channel_t *channel = janus_channel_create(64);
    int64_t value;
    begun = now();
    for (int i = 0; i < rounds * 100; i++) {
        janus_channel_send(channel, i);
        janus_channel_recv(channel, &value);
    }
    printf("send and recv, nobody waits: %.0f ns\n", (now() - begun) / rounds / 100);
    IS(JANUS_OK, janus_channel_destroy(channel));

    begun = now();
    for (int i = 0; i < rounds * 100; i++)
        janus_scheduler_yield();
    printf("yield with nobody else: %.0f ns\n", (now() - begun) / rounds / 100);
    return 0;
}

int main(int argc, char **argv)
{
    begin();
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    IS(JANUS_OK, janus_rt_init(1));
    janus_nursery_t *nursery = janus_nursery_create();
    CHECK(janus_nursery_spawn(nursery, measures, (void *)(intptr_t)rounds) != 0);
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    return janus_rt_shutdown();
}
