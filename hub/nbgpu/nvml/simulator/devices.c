/* What a device is: name, place, NVLink peers, MIG. */
#include "simulator.h"

#include <stdio.h>
#include <string.h>


static int hex_digit(char digit) {
    static const char DIGITS[] = "0123456789abcdef";
    const char *found = digit != '\0' ? strchr(DIGITS, digit) : NULL;
    return found != NULL ? (int)(found - DIGITS) : -1;
}

EXPORT int nvmlDeviceGetName(device_t *device, char *out, unsigned size) {
    char value[256], profile[64], name[384];
    state_t state;
    size_t used = 0;
    int code = begin(device, "nvmlDeviceGetName", ON_MIG | ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    if (get_text(&state, "name_hex", value, sizeof value)) { /* any bytes: what broken drivers return */
        while (hex_digit(value[2 * used]) >= 0 && hex_digit(value[2 * used + 1]) >= 0) {
            name[used] = (char)(hex_digit(value[2 * used]) * 16 + hex_digit(value[2 * used + 1]));
            used++;
        }
        name[used] = '\0';
        return copy_text(name, out, size);
    }
    if (!get_text(&state, "name", value, sizeof value))
        return NOT_SUPPORTED;
    if (is_mig(&state) && get_text(&state, "mig_profile", profile, sizeof profile))
        snprintf(name, sizeof name, "%s MIG %s", value, profile);
    else
        snprintf(name, sizeof name, "%s", value);
    return copy_text(name, out, size);
}

EXPORT int nvmlDeviceGetUUID(device_t *device, char *out, unsigned size) {
    state_t state;
    int code = begin(device, "nvmlDeviceGetUUID", ON_MIG | ON_RESTRICTED, &state);
    return code == SUCCESS ? copy_text(device->uuid, out, size) : code;
}

EXPORT int nvmlDeviceGetArchitecture(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetArchitecture", ON_MIG | ON_RESTRICTED, "architecture", out);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(device_t *device, int *major, int *minor) {
    char value[16];
    state_t state;
    int code = begin(device, "nvmlDeviceGetCudaComputeCapability", ON_MIG | ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    if (!get_text(&state, "compute_capability", value, sizeof value) ||
        sscanf(value, "%3d.%3d", major, minor) != 2)
        return NOT_SUPPORTED;
    return SUCCESS;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;

static int fill_pci(const state_t *state, pci_t *out) {
    char value[32];
    memset(out, 0, sizeof *out);
    if (!get_text(state, "pci_bus_id", value, sizeof value) ||
        sscanf(value, "%8x:%2x:%2x", &out->domain, &out->bus, &out->device) != 3)
        return NOT_SUPPORTED;
    snprintf(out->bus_id, sizeof out->bus_id, "%s", value);
    snprintf(out->legacy, sizeof out->legacy, "%04x:%02x:%02x.0", out->domain & 0xffff, out->bus, out->device);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(device_t *device, pci_t *out) {
    state_t state;
    int code = begin(device, "nvmlDeviceGetPciInfo", ON_RESTRICTED, &state);
    return code == SUCCESS ? fill_pci(&state, out) : code;
}

EXPORT int nvmlDeviceGetPciInfo_v2(device_t *device, pci_t *out) { return nvmlDeviceGetPciInfo_v3(device, out); }

EXPORT int nvmlDeviceGetNumaNodeId(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetNumaNodeId", WHOLE, "numa_node", out);
}

/* --- NVLink: link number i goes to the i-th of nvlink_peers --- */

static int find_peer(const state_t *state, unsigned link, char peer[UUID_SIZE]) {
    char peers[VALUE_SIZE];
    char *rest = peers;
    char *item;
    if (!get_text(state, "nvlink_peers", peers, sizeof peers))
        return 0;
    while ((item = strtok_r(rest, ",", &rest)) != NULL)
        if (link-- == 0) {
            snprintf(peer, UUID_SIZE, "%s", item);
            return 1;
        }
    return 0;
}

EXPORT int nvmlDeviceGetNvLinkState(device_t *device, unsigned link, unsigned *out) {
    char peer[UUID_SIZE];
    state_t state;
    int code = begin(device, "nvmlDeviceGetNvLinkState", WHOLE, &state);
    if (code != SUCCESS)
        return code;
    if (!find_peer(&state, 0, peer))
        return NOT_SUPPORTED;
    *out = find_peer(&state, link, peer) ? 1 : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t *device, unsigned link, pci_t *out) {
    char peer[UUID_SIZE];
    state_t state, other;
    int code = begin(device, "nvmlDeviceGetNvLinkRemotePciInfo", WHOLE, &state);
    if (code != SUCCESS)
        return code;
    if (!find_peer(&state, link, peer) || !load_device(device->root, peer, &other))
        return INVALID_ARGUMENT;
    return fill_pci(&other, out);
}

EXPORT int nvmlDeviceGetP2PStatus(device_t *device, device_t *other, int index, int *out) {
    char peer[UUID_SIZE];
    state_t state;
    int code = begin(device, "nvmlDeviceGetP2PStatus", WHOLE, &state);
    if (code != SUCCESS)
        return code;
    if (!is_handle(other))
        return INVALID_ARGUMENT;
    *out = 5; /* NVML_P2P_STATUS_NOT_SUPPORTED */
    for (unsigned link = 0; index == 2 /* NVLINK */ && find_peer(&state, link, peer); link++)
        if (strcmp(peer, other->uuid) == 0)
            *out = 0;
    return SUCCESS;
}

/* --- MIG --- */

EXPORT int nvmlDeviceGetMigMode(device_t *device, unsigned *current, unsigned *pending) {
    unsigned long long value = 1; /* a parent known through its instance is in MIG mode */
    state_t state;
    int code = begin(device, "nvmlDeviceGetMigMode", ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    if (!state.restricted && !get_number(&state, "mig_enabled", &value))
        return NOT_SUPPORTED;
    *current = *pending = value != 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(device_t *device, unsigned *out) {
    unsigned long long value;
    state_t state;
    int code = begin(device, "nvmlDeviceGetMaxMigDeviceCount", ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    *out = state.restricted || get_number(&state, "mig_enabled", &value) ? 7 : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device_t *device, unsigned index, device_t **out) {
    list_t list;
    state_t state;
    int code = begin(device, "nvmlDeviceGetMigDeviceHandleByIndex", ON_RESTRICTED, &state);
    if (code != SUCCESS)
        return code;
    list_migs(device->root, device->uuid, &list);
    if (index >= list.count)
        return NOT_FOUND;
    return checked_handle(device->root, list.entries[index].uuid, "nvmlDeviceGetMigDeviceHandleByIndex", out);
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device_t *device, device_t **out) {
    char parent[UUID_SIZE];
    state_t state;
    int code = begin(device, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", ONLY_MIG, &state);
    if (code != SUCCESS)
        return code;
    if (!get_text(&state, "parent", parent, sizeof parent))
        return NOT_FOUND;
    return give_handle(device->root, parent, out);
}

EXPORT int nvmlDeviceIsMigDeviceHandle(device_t *device, unsigned *out) {
    state_t state;
    int code = begin(device, "nvmlDeviceIsMigDeviceHandle", ON_MIG | ON_RESTRICTED, &state);
    if (code == SUCCESS)
        *out = is_mig(&state);
    return code;
}

EXPORT int nvmlDeviceGetGpuInstanceId(device_t *device, unsigned *out) {
    return unsigned_key(device, "nvmlDeviceGetGpuInstanceId", ONLY_MIG, "gpu_instance_id", out);
}

EXPORT int nvmlDeviceGetComputeInstanceId(device_t *device, unsigned *out) {
    state_t state;
    int code = begin(device, "nvmlDeviceGetComputeInstanceId", ONLY_MIG, &state);
    if (code == SUCCESS)
        *out = 0;
    return code;
}

typedef struct {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} attributes_t;

EXPORT int nvmlDeviceGetAttributes_v2(device_t *device, attributes_t *out) {
    char profile[64];
    unsigned long long memory = 0;
    state_t state;
    int code = begin(device, "nvmlDeviceGetAttributes", ONLY_MIG, &state);
    if (code != SUCCESS)
        return code;
    memset(out, 0, sizeof *out);
    if (!get_text(&state, "mig_profile", profile, sizeof profile) || sscanf(profile, "%2ug", &out->gpu_slices) != 1)
        return NOT_SUPPORTED;
    get_number(&state, "memory_total", &memory);
    out->compute_slices = out->gpu_slices;
    out->memory_mib = memory >> 20;
    return SUCCESS;
}

