// The same header in C++.
#include "janus.h"

#include <cstdio>

static int64_t doubles(void *arg)
{
    *static_cast<int64_t *>(arg) *= 2;
    return janus_scheduler_yield();
}

int main()
{
    if (janus_rt_init(1) != JANUS_OK)
        return 1;
    int64_t value = 21;
    janus_nursery_t *nursery = janus_nursery_create();
    janus_nursery_spawn(nursery, doubles, &value);
    int64_t verdict = janus_nursery_await_all(nursery);
    janus_nursery_destroy(nursery);
    janus_rt_shutdown();
    std::puts(value == 42 ? "from_cpp: ok" : "from_cpp: wrong");
    return verdict == 0 && value == 42 ? 0 : 1;
}
