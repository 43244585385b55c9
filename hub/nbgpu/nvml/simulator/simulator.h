/* The simulated driver: a small libnvidia-ml.so.1 that answers from a tree of text files.
 *
 * Layout of the tree (its root is NBGPU_SIMULATOR_ROOT, else DEFAULT_ROOT):
 *   driver/state           key=value lines of the driver: driver_version, cuda_version, faults
 *   devices/<uuid>/state   key=value lines of one GPU, or of one MIG instance (it has a `parent`)
 * Every call reads its file anew. A fault is a line `fault.<call>=<error>` or `fault.*=<error>`.
 */
#ifndef NBGPU_SIMULATOR_H
#define NBGPU_SIMULATOR_H

#include <stddef.h>

#define DEFAULT_ROOT "/run/nbgpu-simulator"
#define ROOT_SIZE 1024
#define PATH_SIZE 1280
#define UUID_SIZE 96
#define STATE_SIZE 16384 /* a longer file is read up to here */
#define VALUE_SIZE 4096
#define MAX_ENTRIES 128

/* NVML's return codes, by the numbers that its documentation gives. */
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    UNKNOWN = 999,
};

/* One state file in memory. `restricted` marks a parent GPU known only through its MIG instance's file. */
typedef struct {
    char text[STATE_SIZE];
    int restricted;
} state_t;

typedef struct {
    char uuid[UUID_SIZE];
    unsigned long long order;
} entry_t;

typedef struct {
    entry_t entries[MAX_ENTRIES];
    unsigned count;
} list_t;

void simulator_root(char root[ROOT_SIZE]);
int load_driver(const char *root, state_t *state);
int load_device(const char *root, const char *uuid, state_t *state); /* 0: no such device */

int get_text(const state_t *state, const char *key, char *out, size_t size); /* 0: no such key */
int get_number(const state_t *state, const char *key, unsigned long long *out);

void list_gpus(const char *root, list_t *list);
void list_migs(const char *root, const char *parent, list_t *list);

int find_fault(const state_t *state, const char *call); /* a return code, SUCCESS without one, or HANG */
#define HANG (-1)
const char *describe_error(int code);

#define EXPORT __attribute__((visibility("default")))

/* A handle: made once for a (root, uuid), kept until the process ends, as handles may be held for ever. */
typedef struct device {
    char root[ROOT_SIZE];
    char uuid[UUID_SIZE];
    struct device *next;
} device_t;

/* Which handles a call answers on, beside a whole GPU's. */
enum { WHOLE = 0, ON_MIG = 1, ON_RESTRICTED = 2, ONLY_MIG = 4 };

int is_initialised(void);
int is_handle(const device_t *device);
int is_mig(const state_t *state);
int give_handle(const char *root, const char *uuid, device_t **out);
int checked_handle(const char *root, const char *uuid, const char *call, device_t **out);
int begin(const device_t *device, const char *call, int on, state_t *state);
int copy_text(const char *text, char *out, unsigned size);
int unsigned_key(const device_t *device, const char *call, int on, const char *key, unsigned *out);

#endif
