// What went wrong is said in words of C.
#include "check.h"

static void in_words_of_c(const char *what, const char *text)
{
    static const char *of_rust[] = {"::", "()", ".rs", ".workers", "NurseryOptions", "Runtime", "CapBudget", "CapSpawn", "max_fibers", "ledger", "#["};
    for (size_t i = 0; i < sizeof of_rust / sizeof *of_rust; i++)
        if (strstr(text, of_rust[i]) != NULL)
            fail_at(__FILE__, __LINE__, what, text);
    if (strstr(text, what) == NULL)
        fail_at(__FILE__, __LINE__, what, text);
}

static void says(const char *what)
{
    char said[1024];
    janus_last_error(said, sizeof said);
    in_words_of_c(what, said);
}

static int64_t returns(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

static int64_t waits(void *arg)
{
    (void)arg;
    return janus_scheduler_sleep(LONG);
}

static int64_t spends(void *arg)
{
    (void)arg;
    while (janus_budget_charge(10) == JANUS_OK)
        ;
    says("`ops`");
    return 0;
}

static int64_t sends(void *arg)
{
    (void)arg;
    janus_channel_t *channel = janus_channel_create(4);
    IS(JANUS_BUDGET_EXHAUSTED, janus_channel_send(channel, 1));
    says("`channel_ops`");
    return janus_channel_destroy(channel);
}

static int64_t spawns_inside(void *arg)
{
    (void)arg;
    janus_nursery_t *inner = janus_nursery_create();
    IS(0, janus_nursery_spawn(inner, returns, NULL));
    says("`task_budget`");
    return 0;
}

static int64_t recharges(void *arg)
{
    (void)arg;
    IS(JANUS_NOT_ALLOWED, janus_budget_recharge((janus_budget_t){.ops = 5}));
    says("`reserve`");
    return 0;
}

static int64_t descends(void *arg)
{
    volatile char frame[2000];
    frame[0] = 1;
    int code = janus_scheduler_yield();
    if (code == JANUS_STACK_OVERFLOW) {
        says("`stack_bytes`");
        return 0;
    }
    return code != JANUS_OK ? code : descends(arg) + frame[0] - 1;
}

static int64_t receives(void *arg)
{
    int64_t value;
    return janus_channel_recv(arg, &value);
}

static int64_t computes(void *arg)
{
    (void)arg;
    usleep(1500000); // blocks its worker
    return 0;
}

static int64_t verdict_of(janus_nursery_config_t config, janus_task_fn task, void *arg)
{
    janus_nursery_t *nursery = janus_nursery_create_with(NULL, &config);
    CHECK(nursery != NULL);
    CHECK(janus_nursery_spawn(nursery, task, arg) != 0);
    int64_t verdict = janus_nursery_await_all(nursery);
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    return verdict;
}

int main(void)
{
    begin();
    CHECK(janus_scheduler_create((janus_scheduler_config_t){.worker_count = 257}) == NULL);
    says("pass 0 for one for each CPU");
    CHECK(janus_scheduler_create((janus_scheduler_config_t){.stack_bytes = 1}) == NULL);
    says("`stack_bytes`");
    IS(JANUS_INVALID_ARGUMENT, janus_rt_init(1000));
    says("256");

    // The line of the watchdog goes to the standard error.
    FILE *lines = tmpfile();
    CHECK(lines != NULL);
    int before = dup(2), file = fileno(lines);
    CHECK(before >= 0 && dup2(file, 2) == 2);
    IS(JANUS_OK, janus_rt_init(1));
    janus_nursery_config_t usual = {0};
    IS(0, verdict_of(usual, computes, NULL));
    CHECK(dup2(before, 2) == 2);
    char line[1024] = "";
    CHECK(pread(file, line, sizeof line - 1, 0) > 0);
    in_words_of_c("janus: task", line);
    in_words_of_c("`on_thread`", line);
    fclose(lines);

    IS(5, verdict_of(usual, returns, (void *)5));
    says("returned 5");
    janus_budget_t pool = {.ops = 5000, .spawn_count = 10}, one = {.ops = 50, .spawn_count = 1}, each = {.ops = 100};
    IS(JANUS_BUDGET_EXHAUSTED, verdict_of((janus_nursery_config_t){.budget = &pool, .task_budget = &each}, spends, NULL));
    says("`recharges`");
    IS(JANUS_BUDGET_EXHAUSTED, verdict_of((janus_nursery_config_t){.budget = &pool}, sends, NULL));
    says("`task_budget`");
    IS(0, verdict_of((janus_nursery_config_t){.budget = &pool}, spawns_inside, NULL));
    IS(0, verdict_of((janus_nursery_config_t){.budget = &pool}, recharges, NULL));
    IS(0, verdict_of(usual, recharges, NULL));
    IS(0, verdict_of(usual, descends, NULL));
    IS(JANUS_CANCELLED, verdict_of((janus_nursery_config_t){.name = "late", .timeout_nanoseconds = MILLISECOND}, waits, NULL));
    says("`timeout_nanoseconds`");
    says("nursery `late`");

    janus_nursery_t *nursery = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.spawn_limit = 1});
    CHECK(janus_nursery_spawn(nursery, returns, NULL) != 0);
    IS(0, janus_nursery_spawn(nursery, returns, NULL));
    says("`spawn_limit`");
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    nursery = janus_nursery_create_with(NULL, &(janus_nursery_config_t){.budget = &one});
    CHECK(janus_nursery_spawn(nursery, returns, NULL) != 0);
    IS(0, janus_nursery_spawn(nursery, returns, NULL));
    says("`spawn_count`");
    janus_nursery_await_all(nursery);
    IS(0, janus_nursery_spawn(nursery, returns, NULL));
    says("takes no more tasks");
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // More stack than there is, and nothing for one that asks.
    nursery = janus_nursery_create();
    IS(0, janus_nursery_spawn_with(nursery, returns, NULL, &(janus_task_config_t){.stack_bytes = SIZE_MAX}));
    says("above the limit of 1073741824");
    IS(0, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));
    nursery = janus_nursery_create_with(
        NULL, &(janus_nursery_config_t){.budget = &pool, .task_budget = &each, .is_supervised = true});
    CHECK(janus_nursery_spawn(nursery, spends, NULL) != 0);
    janus_exhausted_t exhausted;
    IS(1, janus_supervisor_wait_exhausted(nursery, LONG, &exhausted));
    IS(JANUS_INVALID_ARGUMENT, janus_budget_recharge_child(nursery, exhausted.task, (janus_budget_t){0}));
    says("`missing`");
    IS(JANUS_OK, janus_budget_recharge_child(nursery, exhausted.task, (janus_budget_t){.ops = 20}));
    IS(1, janus_supervisor_wait_exhausted(nursery, LONG, &exhausted));
    IS(JANUS_OK, janus_supervisor_refuse(nursery, exhausted.task));
    IS(JANUS_BUDGET_EXHAUSTED, janus_nursery_await_all(nursery));
    IS(JANUS_OK, janus_nursery_destroy(nursery));

    // A runtime with a seed.
    janus_scheduler_t *seeded = janus_scheduler_create((janus_scheduler_config_t){.deterministic_seed = 7});
    CHECK(janus_nursery_create_on(seeded) == NULL);
    says("inside a run of it");
    janus_channel_t *channel = janus_channel_create(0);
    CHECK(janus_scheduler_run(seeded, receives, channel) != 0);
    says("`deterministic_seed` of 7");
    IS(JANUS_OK, janus_channel_destroy(channel));
    IS(JANUS_OK, janus_scheduler_shutdown(seeded));
    IS(JANUS_OK, janus_rt_shutdown());
    return done("words");
}
