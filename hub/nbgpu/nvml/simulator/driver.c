/* Handles, faults, and the calls that find devices. What is nowhere here fails as "Function Not Found". */
#include "simulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SOURCE_HASH
#define SOURCE_HASH "unknown"
#endif

EXPORT const char nbgpu_simulated[] = "nbgpu-simulator " SOURCE_HASH; /* tells this library from the real one */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static device_t *handles = NULL;
static unsigned initialised = 0;

int is_initialised(void) {
    pthread_mutex_lock(&lock);
    int answer = initialised > 0;
    pthread_mutex_unlock(&lock);
    return answer;
}

int is_handle(const device_t *device) {
    const device_t *known;
    pthread_mutex_lock(&lock);
    for (known = handles; known != NULL && known != device; known = known->next)
        ;
    pthread_mutex_unlock(&lock);
    return known != NULL;
}

int give_handle(const char *root, const char *uuid, device_t **out) {
    device_t *known;
    pthread_mutex_lock(&lock);
    for (known = handles; known != NULL; known = known->next)
        if (strcmp(known->root, root) == 0 && strcmp(known->uuid, uuid) == 0)
            break;
    if (known == NULL && (known = calloc(1, sizeof *known)) != NULL) {
        snprintf(known->root, sizeof known->root, "%s", root);
        snprintf(known->uuid, sizeof known->uuid, "%s", uuid);
        known->next = handles;
        handles = known;
    }
    pthread_mutex_unlock(&lock);
    *out = known;
    return known != NULL ? SUCCESS : UNKNOWN;
}

static void wait_a_little(void) {
    struct timespec span = {0, 5000000};
    nanosleep(&span, NULL);
}

/* Load the driver's state and apply a fault of `call`; a HANG lasts until the file says otherwise. */
static int begin_driver(const char *call, char root[ROOT_SIZE], state_t *state) {
    int fault;
    simulator_root(root);
    for (;;) {
        if (!load_driver(root, state))
            return DRIVER_NOT_LOADED;
        fault = find_fault(state, call);
        if (fault != HANG)
            return fault;
        wait_a_little();
    }
}

int is_mig(const state_t *state) {
    char parent[UUID_SIZE];
    return !state->restricted && get_text(state, "parent", parent, sizeof parent);
}

/* Load a device's state; refuse as the real driver does: lost, faults, MIG handles, a parent seen from a container. */
int begin(const device_t *device, const char *call, int on, state_t *state) {
    int fault;
    if (!is_initialised())
        return UNINITIALIZED;
    if (!is_handle(device))
        return INVALID_ARGUMENT;
    for (;;) {
        if (!load_device(device->root, device->uuid, state))
            return GPU_IS_LOST;
        fault = state->restricted ? SUCCESS : find_fault(state, call);
        if (fault != HANG)
            break;
        wait_a_little();
    }
    if (fault != SUCCESS)
        return fault;
    if (is_mig(state))
        return on & (ON_MIG | ONLY_MIG) ? SUCCESS : NOT_SUPPORTED;
    if (on & ONLY_MIG)
        return INVALID_ARGUMENT;
    return state->restricted && !(on & ON_RESTRICTED) ? NO_PERMISSION : SUCCESS;
}

int copy_text(const char *text, char *out, unsigned size) {
    if (out == NULL || size == 0)
        return INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return SUCCESS;
}

int unsigned_key(const device_t *device, const char *call, int on, const char *key, unsigned *out) {
    state_t state;
    unsigned long long value;
    int code = begin(device, call, on, &state);
    if (code != SUCCESS)
        return code;
    if (out == NULL)
        return INVALID_ARGUMENT;
    if (!get_number(&state, key, &value))
        return NOT_SUPPORTED;
    *out = (unsigned)value;
    return SUCCESS;
}


EXPORT int nvmlInitWithFlags(unsigned flags) {
    char root[ROOT_SIZE];
    state_t state;
    int code = begin_driver("nvmlInit", root, &state);
    (void)flags;
    if (code != SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    initialised++;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlInit(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    int code = UNINITIALIZED;
    pthread_mutex_lock(&lock);
    if (initialised > 0) {
        initialised--;
        code = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT const char *nvmlErrorString(int code) { return describe_error(code); }

static int driver_text(const char *call, const char *key, char *out, unsigned size) {
    char root[ROOT_SIZE];
    char value[256];
    state_t state;
    int code = is_initialised() ? begin_driver(call, root, &state) : UNINITIALIZED;
    if (code != SUCCESS)
        return code;
    return get_text(&state, key, value, sizeof value) ? copy_text(value, out, size) : NOT_SUPPORTED;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    return driver_text("nvmlSystemGetDriverVersion", "driver_version", out, size);
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    return driver_text("nvmlSystemGetNVMLVersion", "driver_version", out, size);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    char root[ROOT_SIZE];
    unsigned long long value;
    state_t state;
    int code = is_initialised() ? begin_driver("nvmlSystemGetCudaDriverVersion", root, &state) : UNINITIALIZED;
    if (code != SUCCESS)
        return code;
    if (!get_number(&state, "cuda_version", &value) || value > 1000000)
        return NOT_SUPPORTED;
    *out = (int)value;
    return SUCCESS;
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }


EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    char root[ROOT_SIZE];
    list_t list;
    state_t state;
    int code = is_initialised() ? begin_driver("nvmlDeviceGetCount", root, &state) : UNINITIALIZED;
    if (code != SUCCESS)
        return code;
    list_gpus(root, &list);
    *out = list.count;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

/* A handle comes only after the device's own fault of `call`, so that a lost GPU fails here too. */
int checked_handle(const char *root, const char *uuid, const char *call, device_t **out) {
    state_t state;
    device_t *device;
    int code = give_handle(root, uuid, &device);
    if (code == SUCCESS)
        code = begin(device, call, ON_MIG | ON_RESTRICTED, &state);
    if (code == SUCCESS)
        *out = device;
    return code;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t **out) {
    char root[ROOT_SIZE];
    list_t list;
    if (!is_initialised())
        return UNINITIALIZED;
    simulator_root(root);
    list_gpus(root, &list);
    if (index >= list.count)
        return INVALID_ARGUMENT;
    return checked_handle(root, list.entries[index].uuid, "nvmlDeviceGetHandleByIndex", out);
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, device_t **out) {
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, device_t **out) {
    char root[ROOT_SIZE];
    state_t state;
    if (!is_initialised())
        return UNINITIALIZED;
    simulator_root(root);
    if (uuid == NULL || !load_device(root, uuid, &state))
        return NOT_FOUND;
    return checked_handle(root, uuid, "nvmlDeviceGetHandleByUUID", out);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device_t **out) {
    char root[ROOT_SIZE];
    char own[32];
    list_t list;
    state_t state;
    if (!is_initialised())
        return UNINITIALIZED;
    simulator_root(root);
    list_gpus(root, &list);
    for (unsigned i = 0; bus != NULL && i < list.count; i++)
        if (load_device(root, list.entries[i].uuid, &state) &&
            get_text(&state, "pci_bus_id", own, sizeof own) && strcmp(own, bus) == 0)
            return checked_handle(root, list.entries[i].uuid, "nvmlDeviceGetHandleByPciBusId", out);
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetIndex(device_t *device, unsigned *out) {
    list_t list;
    state_t state;
    int code = begin(device, "nvmlDeviceGetIndex", ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    list_gpus(device->root, &list);
    for (unsigned i = 0; i < list.count; i++)
        if (strcmp(list.entries[i].uuid, device->uuid) == 0) {
            *out = i;
            return SUCCESS;
        }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetMinorNumber(device_t *device, unsigned *out) { return nvmlDeviceGetIndex(device, out); }

