/*
 * A policy of your own: cheap devices first. Work goes to the device with the lowest price, and
 * to the next when its queue is as long as work should wait for.
 */
#include <muster/muster.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PICKS 12

static const char devices[] = "[{\"name\": \"owned\", \"items_per_s\": 1e6},"
                              " {\"name\": \"rented\", \"items_per_s\": 8e6}]";

/* What a policy keeps is its own: it is asked by one thread at a time. */
struct prices {
    uint64_t patience; /* units that may wait for a cheaper device */
    double owned, rented;
};

static int choose_cheapest(void *state, const struct muster_hints *hints,
                           const struct muster_candidate *const *candidates, size_t count)
{
    const struct prices *prices = state;
    int best = -1;
    double best_price = 0;
    (void)hints;
    for (size_t i = 0; i < count; i++) {
        bool is_owned = strcmp(candidates[i]->info->name, "owned") == 0;
        double price = is_owned ? prices->owned : prices->rented;
        if (candidates[i]->load->queue_depth >= prices->patience)
            continue;
        if (best < 0 || price < best_price) {
            best = (int)i;
            best_price = price;
        }
    }
    return best;
}

/* Picks without giving back, so that the queues fill; gives how many went to each device. */
static muster_status pick_all(struct muster *m, int *to_owned, int *refused,
                              struct muster_error *err)
{
    struct prices prices = { .patience = 5, .owned = 0.1, .rented = 2.5 };
    const struct muster_policy policy = { sizeof policy, "cheapest", &prices, choose_cheapest };
    for (int i = 0; i < PICKS; i++) {
        struct muster_device_info info = { .size = sizeof info };
        muster_device device;
        muster_lease lease;
        muster_status status = muster_pick(m, &policy, NULL, &lease, &device, err);
        *refused += status == MUSTER_E_NO_DEVICE;
        if (status == MUSTER_E_NO_DEVICE)
            continue;
        if (status || (status = muster_device_info(m, device, &info, err)))
            return status;
        *to_owned += strcmp(info.name, "owned") == 0;
        printf("unit %2d goes to %s, which is %s\n", i, info.id, info.name);
    }
    return MUSTER_OK;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    int to_owned = 0, refused = 0;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = devices;
    muster_status status = muster_open(&m, &options, &err);
    if (status == MUSTER_OK)
        status = pick_all(m, &to_owned, &refused, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    printf("%d to the owned device, %d must wait\n", to_owned, refused);
    return status != MUSTER_OK || to_owned != 5 || refused != 2;
}
