// Children of the process: what is the parent's is refused there, nothing waits for it, and there is a way out.
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static janus_channel_t *requests;
static janus_nursery_t *nursery, *inner;
static janus_scheduler_t *scheduler, *seeded;
static janus_cancel_token_t *token;
static janus_task_t task;
static atomic_int ran;

static int64_t serves(void *arg)
{
    (void)arg;
    int64_t value;
    while (janus_channel_recv(requests, &value) == JANUS_OK)
        ;
    return 0;
}

static int64_t counts(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

// Runs in a child; that ends with 0 within its time.
#define IN_CHILD(body)                                              \
    do {                                                            \
        pid_t child_ = fork();                                      \
        CHECK(child_ >= 0);                                         \
        if (child_ == 0) {                                          \
            alarm(40);                                              \
            body;                                                   \
            _exit(0);                                               \
        }                                                           \
        int status_;                                                \
        CHECK(waitpid(child_, &status_, 0) == child_);              \
        if (status_ != 0) {                                         \
            fprintf(stderr, "%s:%d: status %x\n", __FILE__, __LINE__, status_); \
            _exit(1);                                               \
        }                                                           \
    } while (0)

static void is_refused(int64_t code)
{
    IS(JANUS_NOT_ACTIVE, code);
    SAYS("fork");
}

static void works_here(void)
{
    janus_nursery_t *own = janus_nursery_create();
    CHECK(own != NULL);
    int before = atomic_load(&ran);
    for (int i = 0; i < 20; i++)
        CHECK(janus_nursery_spawn(own, counts, NULL) != 0);
    IS(0, janus_nursery_await_all(own));
    IS(before + 20, atomic_load(&ran));
    IS(JANUS_OK, janus_nursery_destroy(own));
}

static int64_t forks(void *arg)
{
    (void)arg;
    int64_t value;
    janus_nursery_t *own = janus_nursery_create();
    CHECK(janus_nursery_spawn(own, serves, NULL) != 0);
    IN_CHILD({
        is_refused(janus_scheduler_yield());
        is_refused(janus_scheduler_sleep(1000));
        is_refused(janus_channel_try_send(requests, 1));
        is_refused(janus_channel_recv_timeout(requests, &value, 1000));
        is_refused(janus_budget_charge(1));
        is_refused(janus_nursery_await_all(own));
        IS(0, janus_nursery_spawn(own, counts, NULL));
        CHECK(janus_nursery_create() == NULL);
        SAYS("_exit");
        IS(JANUS_OK, janus_nursery_destroy(own));
        IS(JANUS_OK, janus_rt_shutdown());
        IS(JANUS_OK, janus_rt_shutdown());
        IS(JANUS_OK, janus_rt_init(1));
        CHECK(janus_nursery_create() == NULL); // it is a task of the parent still
        IS(JANUS_OK, janus_rt_shutdown());
    });
    pid_t child = fork();
    if (child == 0) {
        alarm(40);
        CHECK(freopen("/dev/null", "w", stderr) != NULL);
        return 0; // must not go on as a worker of the parent
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    IS(JANUS_OK, janus_nursery_destroy(own));
    return 0;
}

int main(void)
{
    begin();
    IS(JANUS_OK, janus_rt_init(2));
    IS(JANUS_OK, janus_rt_init(2));
    requests = janus_channel_create(1);
    token = janus_cancel_token_create();
    scheduler = janus_scheduler_create((janus_scheduler_config_t){.worker_count = 1});
    seeded = janus_scheduler_create((janus_scheduler_config_t){.deterministic_seed = 4});
    nursery = janus_nursery_create();
    inner = janus_nursery_create_on(scheduler);
    IS(JANUS_OK, janus_cancel_token_attach(token, nursery));
    task = janus_nursery_spawn(nursery, serves, NULL);
    CHECK(task != 0 && janus_nursery_spawn(inner, serves, NULL) != 0);

    // Every use of what is the parent's.
    IN_CHILD({
        janus_exhausted_t exhausted;
        IS(0, janus_nursery_spawn(nursery, counts, NULL));
        SAYS("janus_rt_init");
        IS(JANUS_NOT_ACTIVE, janus_scheduler_spawn(counts, NULL)); // it is in no nursery here
        is_refused(janus_nursery_await(nursery, task));
        is_refused(janus_nursery_await_all(nursery));
        is_refused(janus_nursery_poll(nursery));
        is_refused(janus_nursery_cancel(nursery));
        is_refused(janus_nursery_task_count(nursery));
        is_refused(janus_nursery_is_cancelled(nursery));
        is_refused(janus_cancel_token_attach(token, nursery));
        is_refused(janus_supervisor_poll_exhausted(nursery, &exhausted));
        is_refused(janus_scheduler_run(scheduler, counts, NULL));
        is_refused(janus_scheduler_run(seeded, counts, NULL));
        is_refused(janus_rt_init(1));
        SAYS("janus_rt_shutdown");
        CHECK(janus_nursery_create() == NULL);
        SAYS("janus_rt_shutdown");
        CHECK(janus_nursery_create_on(scheduler) == NULL);
        SAYS("janus_scheduler_shutdown");
        IS(JANUS_OK, janus_cancel_token_cancel(token)); // there is nothing to be cancelled here
        IS(JANUS_OK, janus_scheduler_sleep(MILLISECOND));
        IS(JANUS_OK, janus_scheduler_yield());
    });
    // Nothing waits for the parent's tasks.
    IN_CHILD({
        IS(JANUS_OK, janus_nursery_destroy(nursery)); // the outer one first
        IS(JANUS_OK, janus_nursery_destroy(inner));
        IS(JANUS_INVALID_HANDLE, janus_nursery_destroy(inner));
    });
    IN_CHILD({
        IS(JANUS_OK, janus_scheduler_shutdown(scheduler));
        IS(JANUS_OK, janus_scheduler_shutdown(seeded));
        IS(JANUS_OK, janus_rt_shutdown());
    });
    fflush(NULL);
    IN_CHILD(exit(0)); // with its nurseries open
    IN_CHILD(IS(JANUS_OK, janus_scheduler_sleep(1)); exit(0));
    // The way out; and again in a child of the child.
    IN_CHILD({
        IS(JANUS_OK, janus_rt_shutdown());
        is_refused(janus_rt_init(1)); // the parent called it twice
        IS(JANUS_OK, janus_rt_shutdown());
        IS(JANUS_OK, janus_rt_init(1));
        works_here();
        janus_scheduler_t *other = janus_scheduler_create((janus_scheduler_config_t){.deterministic_seed = 5});
        IS(0, janus_scheduler_run(other, counts, NULL));
        janus_nursery_t *own = janus_nursery_create();
        IN_CHILD({
            IS(0, janus_nursery_spawn(own, counts, NULL));
            IS(JANUS_OK, janus_rt_shutdown());
            IS(JANUS_OK, janus_rt_init(1));
            works_here();
        });
        IS(JANUS_OK, janus_nursery_destroy(own));
        IS(JANUS_OK, janus_nursery_destroy(nursery));
        works_here();
        IS(JANUS_OK, janus_rt_shutdown());
    });
    // Inside a task, on a worker and on a thread of its own.
    janus_nursery_t *forking = janus_nursery_create();
    janus_task_config_t apart = {.on_thread = true};
    IS(0, janus_nursery_await(forking, janus_nursery_spawn(forking, forks, NULL)));
    IS(0, janus_nursery_await(forking, janus_nursery_spawn_with(forking, forks, NULL, &apart)));
    IS(JANUS_OK, janus_nursery_destroy(forking));

    // And the parent goes on.
    works_here();
    IS(JANUS_OK, janus_channel_close(requests));
    IS(0, janus_nursery_await_all(inner));
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(inner));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    IS(JANUS_OK, janus_scheduler_shutdown(scheduler));
    IS(JANUS_OK, janus_scheduler_shutdown(seeded));
    IS(JANUS_OK, janus_rt_shutdown());
    IS(JANUS_OK, janus_rt_shutdown());
    return done("forks");
}
