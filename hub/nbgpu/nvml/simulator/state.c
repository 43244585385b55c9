/* Reading the state tree: files, keys, lists of devices, faults. Malformed input reads as "not there". */
#include "simulator.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    int code;
    const char *text;
} ERRORS[] = {
    {"SUCCESS", SUCCESS, "Success"},
    {"UNINITIALIZED", UNINITIALIZED, "Uninitialized"},
    {"INVALID_ARGUMENT", INVALID_ARGUMENT, "Invalid Argument"},
    {"NOT_SUPPORTED", NOT_SUPPORTED, "Not Supported"},
    {"NO_PERMISSION", NO_PERMISSION, "Insufficient Permissions"},
    {"NOT_FOUND", NOT_FOUND, "Not Found"},
    {"INSUFFICIENT_SIZE", INSUFFICIENT_SIZE, "Insufficient Size"},
    {"DRIVER_NOT_LOADED", DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {"TIMEOUT", 10, "Timeout"},
    {"LIBRARY_NOT_FOUND", 12, "NVML Shared Library Not Found"},
    {"FUNCTION_NOT_FOUND", 13, "Function Not Found"},
    {"GPU_IS_LOST", GPU_IS_LOST, "GPU is lost"},
    {"RESET_REQUIRED", 16, "GPU requires restart"},
    {"OPERATING_SYSTEM", 17, "The operating system has blocked the request"},
    {"LIB_RM_VERSION_MISMATCH", 18, "Driver/library version mismatch"},
    {"IN_USE", 19, "In use by another client"},
    {"MEMORY", 20, "Insufficient Memory"},
    {"NO_DATA", 21, "No data"},
    {"NOT_READY", 27, "System is not in ready state"},
    {"UNKNOWN", UNKNOWN, "Unknown Error"},
    {"HANG", HANG, "Hang"},
};

void simulator_root(char root[ROOT_SIZE]) {
    const char *set = getenv("NBGPU_SIMULATOR_ROOT");
    snprintf(root, ROOT_SIZE, "%s", set != NULL && *set != '\0' ? set : DEFAULT_ROOT);
}

/* Read a regular file; whatever can't be read is an empty state. NUL bytes become spaces. */
static int load_file(const char *path, state_t *state) {
    size_t used = 0;
    ssize_t got = 0;
    struct stat about;
    int file;

    state->text[0] = '\0';
    state->restricted = 0;
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (file < 0)
        return 0;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(file);
        return 0;
    }
    while (used < STATE_SIZE - 1) {
        got = read(file, state->text + used, STATE_SIZE - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(file);
    for (size_t i = 0; i < used; i++)
        if (state->text[i] == '\0')
            state->text[i] = ' ';
    state->text[used] = '\0';
    return 1;
}

int load_driver(const char *root, state_t *state) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/driver/state", root);
    return load_file(path, state);
}

/* A folder's name as a device: no path separators, no dots first, not too long. */
static int is_uuid(const char *name) {
    size_t length = strlen(name);
    return length > 0 && length < UUID_SIZE && name[0] != '.' && strchr(name, '/') == NULL;
}

static int load_own(const char *root, const char *uuid, state_t *state) {
    char path[PATH_SIZE];
    if (!is_uuid(uuid))
        return 0;
    snprintf(path, sizeof path, "%s/devices/%s/state", root, uuid);
    return load_file(path, state);
}

int get_text(const state_t *state, const char *key, char *out, size_t size) {
    size_t key_length = strlen(key);
    const char *line = state->text;
    while (line != NULL && *line != '\0') {
        const char *end = strchr(line, '\n');
        size_t length = end != NULL ? (size_t)(end - line) : strlen(line);
        if (length > key_length && line[key_length] == '=' && strncmp(line, key, key_length) == 0) {
            size_t value_length = length - key_length - 1;
            if (value_length >= size)
                value_length = size - 1;
            memcpy(out, line + key_length + 1, value_length);
            out[value_length] = '\0';
            return 1;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return 0;
}

int get_number(const state_t *state, const char *key, unsigned long long *out) {
    char value[32];
    char *end = NULL;
    if (!get_text(state, key, value, sizeof value) || value[0] < '0' || value[0] > '9')
        return 0;
    errno = 0;
    *out = strtoull(value, &end, 10);
    return errno == 0 && end != NULL && *end == '\0';
}

static void add_entry(list_t *list, const char *uuid, unsigned long long order) {
    unsigned place = list->count;
    for (unsigned i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].uuid, uuid) == 0)
            return;
    if (list->count == MAX_ENTRIES)
        return;
    while (place > 0 && (list->entries[place - 1].order > order ||
                         (list->entries[place - 1].order == order && strcmp(list->entries[place - 1].uuid, uuid) > 0))) {
        list->entries[place] = list->entries[place - 1];
        place--;
    }
    snprintf(list->entries[place].uuid, UUID_SIZE, "%s", uuid);
    list->entries[place].order = order;
    list->count++;
}

/* Visit each device's file. With `parent` NULL: GPUs, and the unseen parents of MIG instances; else its instances. */
static void list_devices(const char *root, const char *parent, list_t *list) {
    char path[PATH_SIZE];
    char own_parent[UUID_SIZE];
    state_t state, unused;
    struct dirent *folder;
    DIR *devices;

    list->count = 0;
    snprintf(path, sizeof path, "%s/devices", root);
    devices = opendir(path);
    if (devices == NULL)
        return;
    while ((folder = readdir(devices)) != NULL) {
        unsigned long long order = 0;
        int is_mig;
        if (!load_own(root, folder->d_name, &state))
            continue;
        get_number(&state, "index", &order);
        is_mig = get_text(&state, "parent", own_parent, sizeof own_parent);
        if (parent != NULL && is_mig && strcmp(own_parent, parent) == 0)
            add_entry(list, folder->d_name, order);
        else if (parent == NULL && !is_mig)
            add_entry(list, folder->d_name, order);
        else if (parent == NULL && is_uuid(own_parent) && !load_own(root, own_parent, &unused)) {
            order = 0;
            get_number(&state, "parent_index", &order);
            add_entry(list, own_parent, order);
        }
    }
    closedir(devices);
}

void list_gpus(const char *root, list_t *list) {
    list_devices(root, NULL, list);
}

void list_migs(const char *root, const char *parent, list_t *list) {
    list_devices(root, parent, list);
}

int load_device(const char *root, const char *uuid, state_t *state) {
    list_t migs;
    if (load_own(root, uuid, state))
        return 1;
    list_migs(root, uuid, &migs);
    if (migs.count == 0 || !load_own(root, migs.entries[0].uuid, state))
        return 0;
    state->restricted = 1;
    return 1;
}

int find_fault(const state_t *state, const char *call) {
    char key[128];
    char name[64];
    snprintf(key, sizeof key, "fault.%s", call);
    if (!get_text(state, key, name, sizeof name) && !get_text(state, "fault.*", name, sizeof name))
        return SUCCESS;
    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++)
        if (strcmp(ERRORS[i].name, name) == 0)
            return ERRORS[i].code;
    return UNKNOWN;
}

const char *describe_error(int code) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++)
        if (ERRORS[i].code == code)
            return ERRORS[i].text;
    return "Unknown Error";
}
