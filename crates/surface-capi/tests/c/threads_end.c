// A thread that ends with nurseries open: no task of them is left when it has ended.
#include "check.h"

#include <pthread.h>

typedef struct {
    atomic_int *ended; // how many before this one
    int order;
    int64_t *lent;
    atomic_bool *runs;
} job;

static int64_t cleans_up(void *arg)
{
    job *job = arg;
    atomic_store(job->runs, true);
    while (janus_scheduler_sleep(MILLISECOND) == JANUS_OK)
        ;
    usleep(30000); // takes its time
    *job->lent += 1;
    job->order = atomic_fetch_add(job->ended, 1);
    return JANUS_CANCELLED;
}

typedef struct {
    job outer, inner;
    atomic_bool outer_runs, inner_runs;
    atomic_int ended;
    int64_t *lent;
    bool by_exit;
} owner;

static _Thread_local int64_t own; // there until the thread has ended
static pthread_key_t late;
static atomic_int refused;

static void opens_too_late(void *arg)
{
    CHECK(janus_nursery_create() == NULL);
    SAYS("the thread is ending");
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void *opens_and_ends(void *arg)
{
    owner *owner = arg;
    CHECK(pthread_setspecific(late, &refused) == 0);
    owner->outer = (job){&owner->ended, -1, &own, &owner->outer_runs};
    owner->inner = (job){&owner->ended, -1, owner->lent, &owner->inner_runs};
    janus_nursery_t *outer = janus_nursery_create();
    janus_task_config_t apart = {.on_thread = true};
    CHECK(janus_nursery_spawn_with(outer, cleans_up, &owner->outer, &apart) != 0);
    janus_nursery_t *inner = janus_nursery_create();
    CHECK(janus_nursery_spawn(inner, cleans_up, &owner->inner) != 0);
    while (!atomic_load(&owner->outer_runs) || !atomic_load(&owner->inner_runs))
        usleep(100);
    if (owner->by_exit)
        pthread_exit(inner);
    return inner; // neither is destroyed
}

static int64_t is_stuck(void *arg)
{
    int *ends = arg;
    char byte;
    CHECK(write(ends[3], "x", 1) == 1);
    return read(ends[0], &byte, 1);
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    CHECK(pthread_key_create(&late, opens_too_late) == 0);
    for (int round = 0; round < 6; round++) {
        owner *left = calloc(1, sizeof *left);
        left->lent = calloc(1, sizeof *left->lent);
        left->by_exit = round % 2;
        pthread_t thread;
        void *inner;
        CHECK(pthread_create(&thread, NULL, opens_and_ends, left) == 0);
        CHECK(pthread_join(thread, &inner) == 0);
        IS(2, atomic_load(&left->ended)); // not one of them runs any more
        IS(0, left->inner.order);
        IS(1, left->outer.order);
        IS(1, *left->lent);
        IS(JANUS_INVALID_HANDLE, janus_nursery_poll(inner));
        free(left->lent);
        free(left);
        IS(round + 1, atomic_load(&refused));
    }
    IS(JANUS_OK, janus_rt_shutdown());

    // The end of the process waits for nothing, as it waits for no thread.
    static int ends[4];
    char byte;
    IS(JANUS_OK, janus_rt_init(1));
    CHECK(pipe(ends) == 0 && pipe(ends + 2) == 0);
    janus_task_config_t apart = {.on_thread = true};
    CHECK(janus_nursery_spawn_with(janus_nursery_create(), is_stuck, ends, &apart) != 0);
    CHECK(read(ends[2], &byte, 1) == 1); // it runs
    return done("threads_end");
}
