/* What a device does: memory, load, sensors, processes. Processes are `pid:bytes,pid:bytes`; bytes may be
 * missing, as under WSL and for MIG. */
#include "simulator.h"

#include <stdio.h>
#include <string.h>

#define NOT_REPORTED 0xffffffffffffffffULL
#define PROCESSES_MAX 2048


static int memory(device_t *device, unsigned long long *total, unsigned long long *free_, unsigned long long *used) {
    state_t state;
    int code = begin(device, "nvmlDeviceGetMemoryInfo", ON_MIG, &state);
    if (code != SUCCESS)
        return code;
    if (!get_number(&state, "memory_total", total))
        return NOT_SUPPORTED;
    *used = 0;
    get_number(&state, "memory_used", used);
    *free_ = *total > *used ? *total - *used : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(device_t *device, unsigned long long out[3]) {
    return memory(device, &out[0], &out[1], &out[2]);
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free_, used;
} memory_v2_t;

EXPORT int nvmlDeviceGetMemoryInfo_v2(device_t *device, memory_v2_t *out) {
    out->reserved = 0;
    return memory(device, &out->total, &out->free_, &out->used);
}

EXPORT int nvmlDeviceGetUtilizationRates(device_t *device, unsigned out[2]) {
    unsigned long long bus = 0;
    state_t state;
    int code = unsigned_key(device, "nvmlDeviceGetUtilizationRates", WHOLE, "gpu_utilization", &out[0]);
    if (code != SUCCESS)
        return code;
    if (load_device(device->root, device->uuid, &state))
        get_number(&state, "memory_utilization", &bus);
    out[1] = (unsigned)bus;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTemperature(device_t *device, unsigned sensor, unsigned *out) {
    (void)sensor;
    return unsigned_key(device, "nvmlDeviceGetTemperature", WHOLE, "temperature", out);
}

EXPORT int nvmlDeviceGetTemperatureV(device_t *device, unsigned out[3]) { /* version, sensor, temperature */
    return unsigned_key(device, "nvmlDeviceGetTemperatureV", WHOLE, "temperature", &out[2]);
}

EXPORT int nvmlDeviceGetPowerUsage(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetPowerUsage", WHOLE, "power", out);
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetEnforcedPowerLimit", WHOLE, "power_limit", out);
}

EXPORT int nvmlDeviceGetPowerManagementLimit(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetPowerManagementLimit", WHOLE, "power_limit", out);
}

EXPORT int nvmlDeviceGetClockInfo(device_t *device, unsigned type, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetClockInfo", WHOLE, type == 2 ? "memory_clock" : "sm_clock", out);
}

EXPORT int nvmlDeviceGetMaxClockInfo(device_t *device, unsigned type, unsigned *out) {
    const char *key = type == 2 ? "memory_clock_max" : "sm_clock_max";
    return unsigned_key(device, "nvmlDeviceGetMaxClockInfo", WHOLE, key, out);
}

EXPORT int nvmlDeviceGetFanSpeed(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetFanSpeed", WHOLE, "fan_speed", out);
}

EXPORT int nvmlDeviceGetPerformanceState(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetPerformanceState", WHOLE, "performance_state", out);
}

EXPORT int nvmlDeviceGetTotalEccErrors(device_t *device, unsigned type, unsigned counter, unsigned long long *out) {
    const char *key = type == 0 ? "ecc_corrected" : "ecc_uncorrected";
    unsigned value = 0;
    int code = unsigned_key(device, "nvmlDeviceGetTotalEccErrors", WHOLE, key, &value);
    (void)counter;
    if (code == SUCCESS)
        *out = value;
    return code;
}


static unsigned parse_processes(char *text, unsigned pids[], unsigned long long bytes[], unsigned max) {
    unsigned count = 0;
    char *rest = text;
    char *item;
    while (count < max && (item = strtok_r(rest, ",", &rest)) != NULL) {
        unsigned pid;
        unsigned long long used = NOT_REPORTED;
        if (sscanf(item, "%9u:%18llu", &pid, &used) < 1)
            continue;
        pids[count] = pid;
        bytes[count++] = used;
    }
    return count;
}

/* Fill NVML's array: 16 bytes an item in the first version (pid, bytes), 24 since (pid, bytes, two instance ids). */
static int processes(device_t *device, const char *call, unsigned *count, char *out, size_t stride) {
    char text[VALUE_SIZE];
    unsigned pids[PROCESSES_MAX];
    unsigned long long bytes[PROCESSES_MAX], instance;
    unsigned found = 0, room;
    state_t state;
    int code = begin(device, call, ON_MIG, &state);
    if (code != SUCCESS)
        return code;
    if (strcmp(call, "nvmlDeviceGetComputeRunningProcesses") == 0 &&
        get_text(&state, "processes", text, sizeof text))
        found = parse_processes(text, pids, bytes, PROCESSES_MAX);
    room = *count;
    *count = found;
    if (found > room || (found > 0 && out == NULL))
        return INSUFFICIENT_SIZE;
    if (!get_number(&state, "gpu_instance_id", &instance))
        instance = 0xffffffff;
    for (unsigned i = 0; i < found; i++) {
        unsigned ids[2] = {(unsigned)instance, instance == 0xffffffff ? 0xffffffff : 0};
        memset(out + i * stride, 0, stride);
        memcpy(out + i * stride, &pids[i], sizeof pids[i]);
        memcpy(out + i * stride + 8, &bytes[i], sizeof bytes[i]);
        if (stride >= 24)
            memcpy(out + i * stride + 16, ids, sizeof ids);
    }
    return SUCCESS;
}

#define PROCESS_CALLS(call)                                                                                            \
    EXPORT int call(device_t *device, unsigned *count, char *out) { return processes(device, #call, count, out, 16); } \
    EXPORT int call##_v2(device_t *device, unsigned *count, char *out) {                                               \
        return processes(device, #call, count, out, 24);                                                               \
    }                                                                                                                  \
    EXPORT int call##_v3(device_t *device, unsigned *count, char *out) {                                               \
        return processes(device, #call, count, out, 24);                                                               \
    }

PROCESS_CALLS(nvmlDeviceGetComputeRunningProcesses)
PROCESS_CALLS(nvmlDeviceGetGraphicsRunningProcesses)
PROCESS_CALLS(nvmlDeviceGetMPSComputeRunningProcesses)


typedef struct {
    unsigned pid;
    unsigned long long time_stamp;
    unsigned sm, memory, encoder, decoder;
} process_utilization_t;

/* `process_utilization` is `pid:percent,pid:percent`; empty: nothing newer than asked for. */
EXPORT int nvmlDeviceGetProcessUtilization(device_t *device, process_utilization_t *out, unsigned *count,
                                           unsigned long long newer_than) {
    char text[VALUE_SIZE];
    unsigned pids[PROCESSES_MAX];
    unsigned long long percent[PROCESSES_MAX];
    unsigned found, room;
    state_t state;
    int code = begin(device, "nvmlDeviceGetProcessUtilization", WHOLE, &state);
    (void)newer_than;
    if (code != SUCCESS)
        return code;
    if (!get_text(&state, "process_utilization", text, sizeof text))
        return NOT_SUPPORTED;
    found = parse_processes(text, pids, percent, PROCESSES_MAX);
    room = *count;
    *count = found;
    if (found == 0)
        return NOT_FOUND;
    if (out == NULL || found > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++)
        out[i] = (process_utilization_t){pids[i], newer_than + 1, (unsigned)percent[i], 0, 0, 0};
    return SUCCESS;
}
