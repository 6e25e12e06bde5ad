/* A stand-in for NVIDIA's library, with the few symbols that are asked for.
 *
 * FAKE_NVML: the cards, as TOTAL:USED in MiB, separated by commas; empty for a driver without a card.
 * FAKE_NVML_PROCESSES: a file with a line CARD PID MiB for each process that uses one. Read at each question.
 * FAKE_NVML_ASKED: a pipe; its reader gets a byte when a query was answered with a process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, CARDS = 64 };

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };

static unsigned long long totals[CARDS], useds[CARDS];
static unsigned count;

int nvmlInit_v2(void) {
    const char *at = getenv("FAKE_NVML");
    int length;
    count = 0;
    while (at && count < CARDS && sscanf(at, "%llu:%llu%n", &totals[count], &useds[count], &length) == 2) {
        count++;
        at += length;
        if (*at != ',') break;
        at++;
    }
    return SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "580.0");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *number) {
    *number = count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= count) return INVALID_ARGUMENT;
    *device = (void *)(unsigned long)(index + 1);
    return SUCCESS;
}

static unsigned index_of(void *device) { return (unsigned)(unsigned long)device - 1; }

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *info) {
    unsigned card = index_of(device);
    info->total = totals[card] << 20;
    info->used = useds[card] << 20;
    info->free = info->total - info->used;
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    (void)device;
    snprintf(text, length, "Stand-in");
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "GPU-fake-%u", index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *number, struct process *into) {
    const char *path = getenv("FAKE_NVML_PROCESSES");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned card, pid, found = 0, room = into ? *number : 0;
    unsigned long long used;
    while (file && fscanf(file, "%u %u %llu", &card, &pid, &used) == 3) {
        if (card != index_of(device)) continue;
        if (found < room) into[found] = (struct process){ pid, used << 20, 0, 0 };
        found++;
    }
    if (file) fclose(file);
    if (found > 0 && into && getenv("FAKE_NVML_ASKED")) {
        int notifier = open(getenv("FAKE_NVML_ASKED"), O_WRONLY | O_NONBLOCK); /* fails without a reader */
        if (notifier >= 0) close(notifier);
    }
    *number = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *number, struct process *into) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, number, into);
}
