/* Xid events. A device's key `xid_events` is `number:xid,number:xid`, numbers rising: each is told once to every set that
 * was registered before. */
#include "simulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XID_CRITICAL 8ULL
#define NO_INSTANCE 0xffffffffU
#define TIMED_OUT 10

typedef struct watched {
    device_t *device;
    unsigned long long told; /* the highest number so far */
    struct watched *next;
} watched_t;

typedef struct {
    watched_t *first;
} event_set_t;

typedef struct {
    device_t *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} event_t;

/* Find the first event after `told`: its number and xid. */
static int find_event(const device_t *device, unsigned long long told, unsigned long long *number, unsigned *xid) {
    char text[VALUE_SIZE];
    char *rest = text;
    char *item;
    state_t state;
    if (!load_device(device->root, device->uuid, &state) || !get_text(&state, "xid_events", text, sizeof text))
        return 0;
    while ((item = strtok_r(rest, ",", &rest)) != NULL)
        if (sscanf(item, "%18llu:%9u", number, xid) == 2 && *number > told)
            return 1;
    return 0;
}

EXPORT int nvmlEventSetCreate(event_set_t **out) {
    if (!is_initialised())
        return UNINITIALIZED;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? SUCCESS : UNKNOWN;
}

EXPORT int nvmlEventSetFree(event_set_t *set) {
    watched_t *next;
    for (watched_t *each = set->first; each != NULL; each = next) {
        next = each->next;
        free(each);
    }
    free(set);
    return SUCCESS;
}

EXPORT int nvmlDeviceRegisterEvents(device_t *device, unsigned long long types, event_set_t *set) {
    unsigned long long number;
    unsigned xid;
    watched_t *watched;
    state_t state;
    int code = begin(device, "nvmlDeviceRegisterEvents", WHOLE, &state);
    if (code != SUCCESS)
        return code;
    if (!(types & XID_CRITICAL))
        return NOT_SUPPORTED;
    watched = calloc(1, sizeof *watched);
    if (watched == NULL)
        return UNKNOWN;
    watched->device = device;
    while (find_event(device, watched->told, &number, &xid)) /* what was before is not told */
        watched->told = number;
    watched->next = set->first;
    set->first = watched;
    return SUCCESS;
}

EXPORT int nvmlEventSetWait_v2(event_set_t *set, event_t *out, unsigned timeout_ms) {
    struct timespec span = {0, 5000000};
    for (unsigned waited = 0;; waited += 5) {
        if (!is_initialised())
            return UNINITIALIZED;
        for (watched_t *each = set->first; each != NULL; each = each->next) {
            unsigned long long number;
            unsigned xid;
            if (!find_event(each->device, each->told, &number, &xid))
                continue;
            each->told = number;
            *out = (event_t){each->device, XID_CRITICAL, xid, NO_INSTANCE, NO_INSTANCE};
            return SUCCESS;
        }
        if (waited >= timeout_ms)
            return TIMED_OUT;
        nanosleep(&span, NULL);
    }
}
