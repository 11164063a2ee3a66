/* The innermost loops of the planner: filling nodes with pods, sampling their first pods, ruin and recreate, and finding the best node.
 *
 * node_filling.py documents `fill` and implements it in numpy, for machines without a compiled library; tests compare the two. sampling.py
 * does so for `seed`: its random numbers differ, so only the distribution is the same. ruin_recreate.py documents `repack`, and
 * column_pricing.py `best_node`.
 *
 * The code uses no library and no system call, and allocates no memory. Amounts are whole numbers below 2^53, of at most MOST_RESOURCES
 * kinds. Arrays are dense; the last index varies fastest.
 */

#ifndef DIGEST
#define DIGEST "0000000000000000000000000000000000000000000000000000000000000000"
#endif
const char source[] = DIGEST; /* of this file; a test compares it with the source */

typedef long long whole;
typedef unsigned long long bits;

enum { COUNTED = 1, REQUIRES = 2 };
enum { MOST_RESOURCES = 64, MOST_TAKEN = 4, MOST_MADE = 24, MOST_VIEWS = 6 };

/* The number of offers that are tried for each node. It is smaller in plans with many nodes: trying further nodes saves more there. */
enum { OFFERS_TRIED = 12, OFFERS_TRIED_OF_MANY = 8, MANY_NODES = 64 };

/* In plans with fewer nodes any two nodes may be repacked; in larger plans those with the highest loss are preferred. */
enum { FEW_NODES = 32 };

#ifdef __x86_64__
static void cpuid(unsigned leaf, unsigned *a, unsigned *b, unsigned *c) {
    unsigned d;
    __asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(d) : "a"(leaf), "c"(0));
}

/* Returns whether the processor has all instructions of x86_64_v3, and the operating system saves the registers. */
int has_avx2(void) {
    const unsigned fma = 1u << 12, movbe = 1u << 22, saved = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const unsigned bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8, lzcnt = 1u << 5;
    unsigned a, b, c, most;
    cpuid(0, &most, &b, &c);
    if (most < 7) return 0;
    cpuid(1, &a, &b, &c);
    if (~c & (fma | movbe | saved | avx | f16c)) return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(b) : "c"(0));
    if (~a & 6u) return 0;
    cpuid(7, &a, &b, &c);
    if (~b & (bmi1 | avx2 | bmi2)) return 0;
    cpuid(0x80000001u, &a, &b, &c);
    return (c & lzcnt) != 0;
}
#else
int has_avx2(void) { return 0; }
#endif

/* The problem; it is the same in every call. */
struct problem {
    whole items, resources, caps, width, offers;
    const double *allocatable;          /* offers x resources */
    const unsigned char *open;   /* offers x items: whether the offer accepts the item */
    const double *need;          /* items x resources */
    const double *most;          /* items: the largest number on one node */
    const whole *rules;          /* items x width: the caps that concern the item, then -1 */
    const unsigned char *part;   /* caps x items: COUNTS, ASKS, both or neither */
    const whole *limit;          /* caps: the largest number of counted pods on a node with a pod that requires the cap */
    const double *price;         /* offers, ascending */
    const whole *domain;         /* offers: the number of the topology domain, as far as pods constrain it */
};

/* A node that is being filled. */
struct node_fill {
    whole fitting_items;                /* the number of items that still fit */
    whole *list;                 /* items x 2: their positions in `active`, and the items */
    double *need, *worth, *most; /* resources x items, items, items: of these items */
    double *score;
    whole *used, *required; /* caps: counted pods, pods that require the cap */
    double free[MOST_RESOURCES];
};

static void divide_buffers(const struct problem *p, struct node_fill *r, double *reals, whole *wholes) {
    r->list = wholes;
    r->used = wholes + 2 * p->items;
    r->required = r->used + p->caps;
    r->need = reals;
    r->worth = reals + p->resources * p->items;
    r->most = r->worth + p->items;
    r->score = r->most + p->items;
}

/* Reduces what the caps of an item still allow by a number of placed pods. */
static void apply_caps(const struct problem *p, struct node_fill *r, whole item, whole number) {
    for (whole column = 0; column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) return;
        const unsigned char *part = p->part + rule * p->items;
        if (part[item] & COUNTED) r->used[rule] += number;
        if (part[item] & REQUIRES) r->required[rule] += number;
        whole over = r->used[rule] > p->limit[rule], required = r->required[rule];
        double still = over ? 0.0 : (double)(p->limit[rule] - r->used[rule]);
        for (whole at = 0; at < r->fitting_items; at++) {
            unsigned char its = part[r->list[2 * at + 1]];
            if (its & COUNTED) {
                if ((required || its & REQUIRES) && r->most[at] > still) r->most[at] = still;
            } else if (its & REQUIRES && over) {
                r->most[at] = 0;
            }
        }
    }
}

/* Computes the score of each item: its worth divided by the share of the free resources that it takes; negative if it no longer fits. If
 * the number of resources is a constant, this is a loop without branches. */
static inline __attribute__((always_inline)) void score_items(const struct problem *p, struct node_fill *r, const double *weight,
                                                              whole resources) {
    const double *restrict need = r->need, *restrict worth = r->worth, *restrict most = r->most;
    double *restrict score = r->score;
    for (whole at = 0; at < r->fitting_items; at++) {
        double takes = 0;
        int fits = most[at] >= 1;
        for (whole k = 0; k < resources; k++) {
            double each = need[k * p->items + at];
            takes += weight[k] * each;
            fits &= each <= r->free[k];
        }
        score[at] = fits ? worth[at] / takes : -1.0;
    }
}

/* Removes the items that no longer fit; they cannot fit later. */
static void remove_unfitting(const struct problem *p, struct node_fill *r) {
    whole kept = 0;
    for (whole at = 0; at < r->fitting_items; at++) {
        if (r->score[at] < 0) continue;
        for (whole k = 0; k < p->resources; k++) r->need[k * p->items + kept] = r->need[k * p->items + at];
        r->worth[kept] = r->worth[at];
        r->most[kept] = r->most[at];
        r->score[kept] = r->score[at];
        r->list[2 * kept] = r->list[2 * at];
        r->list[2 * kept + 1] = r->list[2 * at + 1];
        kept++;
    }
    r->fitting_items = kept;
}

/* Returns the fitting item with the highest score, the first of equal ones; -1 if no item fits. */
static whole best_item(const struct problem *p, struct node_fill *r, const double *smallest, const double *scale) {
    double weight[MOST_RESOURCES];
    for (whole k = 0; k < p->resources; k++) weight[k] = (scale ? scale[k] : 1.0) / (r->free[k] > smallest[k] ? r->free[k] : smallest[k]);
    if (p->resources == 3)
        score_items(p, r, weight, 3);
    else if (p->resources == 4)
        score_items(p, r, weight, 4);
    else
        score_items(p, r, weight, p->resources);
    whole fitting = 0, best = -1;
    double most = -1.0;
    for (whole at = 0; at < r->fitting_items; at++) {
        fitting += r->score[at] >= 0;
        if (r->score[at] > most) {
            most = r->score[at];
            best = at;
        }
    }
    if (best < 0 || 8 * fitting > 7 * r->fitting_items) return best;
    for (whole at = 0, before = best; at < before; at++) best -= r->score[at] < 0;
    remove_unfitting(p, r);
    return best;
}

/* Fills one node of an offer, in addition to the pods that it holds (`taken`). */
static void fill_one(const struct problem *p, struct node_fill *r, whole offer, whole width, const whole *active, const double *demand,
                     const double *worth, double share, const double *scale, whole *taken) {
    const double *allocatable = p->allocatable + offer * p->resources;
    const unsigned char *open = p->open + offer * p->items;
    double smallest[MOST_RESOURCES];
    for (whole k = 0; k < p->resources; k++) r->free[k] = allocatable[k];
    for (whole cap = 0; cap < 2 * p->caps; cap++) r->used[cap] = 0; /* and `required` */
    r->fitting_items = 0;
    for (whole at = 0; at < width; at++) {
        whole item = active[at];
        double wanted = demand[at] < p->most[item] ? demand[at] : p->most[item];
        if (taken[at])
            for (whole k = 0; k < p->resources; k++) r->free[k] -= (double)taken[at] * p->need[item * p->resources + k];
        if (!open[item] || !(worth[at] > 0) || wanted - (double)taken[at] < 1) continue;
        for (whole k = 0; k < p->resources; k++) r->need[k * p->items + r->fitting_items] = p->need[item * p->resources + k];
        r->worth[r->fitting_items] = worth[at];
        r->most[r->fitting_items] = wanted - (double)taken[at];
        r->list[2 * r->fitting_items] = at;
        r->list[2 * r->fitting_items + 1] = item;
        r->fitting_items++;
    }
    for (whole at = 0; at < width && p->width; at++)
        if (taken[at]) apply_caps(p, r, active[at], taken[at]);
    for (whole k = 0; k < p->resources; k++) smallest[k] = 1e-3 * r->free[k] + 1e-6;
    for (whole best = best_item(p, r, smallest, scale); best >= 0; best = best_item(p, r, smallest, scale)) {
        double number = r->most[best];
        for (whole k = 0; k < p->resources; k++) {
            double each = r->need[k * p->items + best];
            if (each > 0) {
                double fitting = (double)(whole)(r->free[k] / each + 1e-9);
                if (fitting < number) number = fitting;
            }
        }
        number = (double)(whole)((double)(whole)number * share);
        if (number < 1) number = 1;
        taken[r->list[2 * best]] += (whole)number;
        r->most[best] -= number;
        for (whole k = 0; k < p->resources; k++) r->free[k] -= number * r->need[k * p->items + best];
        if (p->width) apply_caps(p, r, r->list[2 * best + 1], (whole)number);
    }
}

/* Fills many independent nodes ("rows"). offers: rows. active: the items, width of them. demand, worth: of the active items, for each row
 * unless the step is 0. share: rows. scale: rows x resources, or null. counts: rows x width, the pods of each row before and after the
 * call. reals: items x (resources + 3). wholes: 2 x (items + caps). */
void fill(const struct problem *p, whole rows, whole width, const whole *offers, const whole *active, const double *demand,
          whole demand_step, const double *worth, whole worth_step, const double *share, const double *scale, whole *counts, double *reals,
          whole *wholes) {
    struct node_fill node_fill;
    divide_buffers(p, &node_fill, reals, wholes);
    for (whole row = 0; row < rows; row++)
        fill_one(p, &node_fill, offers[row], width, active, demand + row * demand_step, worth + row * worth_step, share[row],
                 scale ? scale + row * p->resources : 0, counts + row * width);
}

static bits next_random(bits *random) { /* xorshift64* */
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 2685821657736338717ULL;
}

static whole random_below(bits *random, whole number) { return (whole)((next_random(random) >> 33) % (bits)number); }

static double random_unit(bits *random) { return (double)(next_random(random) >> 11) * (1.0 / 9007199254740992.0); }

/* Adds a number of pods to the counts of the caps of their item. */
static void count(const struct problem *p, whole item, whole number, whole *used, whole *required) {
    for (whole column = 0; number && column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) return;
        unsigned char part = p->part[rule * p->items + item];
        if (part & COUNTED) used[rule] += number;
        if (part & REQUIRES) required[rule] += number;
    }
}

/* Returns how many pods of an item the caps still allow on a node. */
static whole allowed_by_caps(const struct problem *p, whole item, whole number, const whole *used, const whole *required) {
    for (whole column = 0; column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) break;
        unsigned char part = p->part[rule * p->items + item];
        whole still = p->limit[rule] - used[rule];
        if (part & REQUIRES && still < 0) return 0;
        if (part & COUNTED && (part & REQUIRES || required[rule]) && still < number) number = still;
    }
    return number;
}

/* Samples the first pods of each row: the mean mix, rounded at random, then as much of it in random order as resources and caps allow.
 * offers: rows. active: the items, width of them. mean: rows x width, 0 if the row's offer does not accept the item (`open` is not read).
 * demand: of the active items. random: the state of the random numbers. counts: rows x width, the result. wholes: items + 2 x caps. */
void seed(const struct problem *p, whole rows, whole width, const whole *offers, const whole *active, const double *mean,
          const double *demand, bits *random, whole *counts, whole *wholes) {
    whole *order = wholes, *used = wholes + p->items, *required = used + p->caps;
    for (whole row = 0; row < rows; row++) {
        double free[MOST_RESOURCES];
        whole number = 0, *mine = counts + row * width;
        for (whole k = 0; k < p->resources; k++) free[k] = p->allocatable[offers[row] * p->resources + k];
        for (whole cap = 0; cap < 2 * p->caps; cap++) used[cap] = 0; /* and `required` */
        for (whole at = 0; at < width; at++) {
            mine[at] = 0;
            if (!(mean[row * width + at] > 0)) continue;
            double wanted = mean[row * width + at] + random_unit(random);
            if (wanted > demand[at]) wanted = demand[at];
            if (wanted > p->most[active[at]]) wanted = p->most[active[at]];
            if (wanted < 1) continue;
            mine[at] = (whole)wanted;
            order[number++] = at;
        }
        for (whole last = number - 1; last > 0; last--) {
            whole other = random_below(random, last + 1), swap = order[last];
            order[last] = order[other];
            order[other] = swap;
        }
        for (whole next = 0; next < number; next++) {
            whole at = order[next], item = active[at], taken = allowed_by_caps(p, item, mine[at], used, required);
            const double *need = p->need + item * p->resources;
            for (whole k = 0; k < p->resources; k++)
                if (need[k] > 0 && free[k] < (double)taken * need[k]) taken = (whole)(free[k] / need[k] + 1e-9);
            mine[at] = taken;
            for (whole k = 0; k < p->resources; k++) free[k] -= (double)taken * need[k];
            count(p, item, taken, used, required);
        }
    }
}

/* A plan that is being improved: its nodes and their pods. */
struct plan {
    whole *nodes;   /* the number of nodes */
    whole *offer;   /* nodes */
    whole *counts;  /* nodes x items */
    double *loss;   /* nodes: price minus the worth of the pods */
    whole most;     /* the capacity of the arrays, in nodes */
};

/* Returns whether exactly these pods fit on a node of the offer. */
static whole holds(const struct problem *p, whole offer, whole width, const whole *active, const whole *counts, const double *need) {
    const double *allocatable = p->allocatable + offer * p->resources;
    const unsigned char *open = p->open + offer * p->items;
    for (whole k = 0; k < p->resources; k++)
        if (need[k] > allocatable[k]) return 0;
    for (whole at = 0; at < width; at++)
        if (counts[at] && !open[active[at]]) return 0;
    return 1;
}

/* Returns whether the caps allow all these pods on one node. */
static whole within_caps(const struct problem *p, whole width, const whole *active, const whole *counts, whole *used) {
    whole *required = used + p->caps;
    for (whole cap = 0; cap < 2 * p->caps; cap++) used[cap] = 0;
    for (whole at = 0; at < width; at++) {
        if ((double)counts[at] > p->most[active[at]]) return 0;
        count(p, active[at], counts[at], used, required);
    }
    for (whole cap = 0; cap < p->caps; cap++)
        if (required[cap] && used[cap] > p->limit[cap]) return 0;
    return 1;
}

/* Returns the cheapest offer below a price that holds these pods; the number of offers if there is none. */
static whole cheapest(const struct problem *p, whole width, const whole *active, const whole *counts, double under) {
    double need[MOST_RESOURCES];
    for (whole k = 0; k < p->resources; k++) need[k] = 0;
    for (whole at = 0; at < width; at++)
        if (counts[at])
            for (whole k = 0; k < p->resources; k++) need[k] += (double)counts[at] * p->need[active[at] * p->resources + k];
    for (whole offer = 0; offer < p->offers && p->price[offer] < under; offer++)
        if (holds(p, offer, width, active, counts, need)) return offer;
    return p->offers;
}

/* Returns a random node, with a probability proportional to its loss. With `near`, only nodes of the same domain are considered, unless
 * none of them has a loss. */
static whole pick_by_loss(const struct problem *p, const struct plan *plan, bits *random, whole near) {
    double all = 0;
    whole wanted = near < 0 ? -1 : p->domain[plan->offer[near]];
    for (whole node = 0; node < *plan->nodes; node++)
        if (plan->loss[node] > 0 && (wanted < 0 || p->domain[plan->offer[node]] == wanted)) all += plan->loss[node];
    double remaining = all * random_unit(random);
    for (whole node = 0; node < *plan->nodes; node++) {
        if (plan->loss[node] > 0 && (wanted < 0 || p->domain[plan->offer[node]] == wanted)) remaining -= plan->loss[node];
        if (remaining < 0) return node;
    }
    return random_below(random, *plan->nodes);
}

/* Returns a random node; nodes with a high loss, and with `near` nodes of the same domain, are more likely. */
static whole pick(const struct problem *p, const struct plan *plan, bits *random, whole near) {
    whole by_loss = *plan->nodes < FEW_NODES ? near < 0 && random_below(random, 2) : random_below(random, 10) > 0;
    if (by_loss) return pick_by_loss(p, plan, random, near);
    whole best = random_below(random, *plan->nodes);
    for (whole iteration = 0; iteration < 3; iteration++) {
        whole other = random_below(random, *plan->nodes);
        if (near >= 0) {
            whole wanted = p->domain[plan->offer[near]];
            whole mine = p->domain[plan->offer[best]] == wanted, its = p->domain[plan->offer[other]] == wanted;
            if (its != mine) {
                if (its) best = other;
                continue;
            }
        }
        if (iteration < 2 && plan->loss[other] > plan->loss[best]) best = other;
    }
    return best;
}

/* Buffers of `repack`. */
struct buffers {
    struct node_fill node_fill;
    whole *active, *left, *taken, *best, *made; /* items each, made: MOST_MADE x items */
    whole *usable, open;                        /* offers that accept some of the pods, in order of price, and their number */
    double *demand, *worth;                     /* items each */
    whole offers[MOST_MADE];
    double cells;                               /* the number of items that were considered */
};

static whole accepts_any(const struct problem *p, whole offer, whole width, const whole *active) {
    for (whole at = 0; at < width; at++)
        if (p->open[offer * p->items + active[at]]) return 1;
    return 0;
}

/* Returns an offer to try: one that the plan uses, or any; in one domain, or in any if `domain` is negative. */
static whole pick_offer(const struct problem *p, const struct plan *plan, struct buffers *b, whole width, whole domain,
                        whole affordable, whole known, bits *random) {
    for (whole iteration = 0; known && iteration < 6; iteration++) {
        whole offer = plan->offer[random_below(random, *plan->nodes)];
        if ((domain < 0 || p->domain[offer] == domain) && accepts_any(p, offer, width, b->active)) return offer;
    }
    return b->usable[random_below(random, affordable)];
}

/* Packs all remaining pods on new nodes, each with the best ratio of worth to price among some offers. Returns the number of nodes, or -1
 * if they would cost more than `before`. While nodes are filled, `fill_worth` is the worth of the pods. */
static whole pack_again(const struct problem *p, const struct plan *plan, struct buffers *b, whole width, whole domain,
                        const double *true_worth, const double *fill_worth, double before, double noise, bits *random) {
    static const double shares[4] = {1.0, 1.0, 0.5, 0.34};
    double scale[MOST_RESOURCES], cost = 0, share = shares[random_below(random, 4)];
    whole number = 0, weighted = random_below(random, 2), few = random_below(random, 3) == 0;
    for (whole k = 0; k < p->resources; k++) scale[k] = 0.4 + 1.2 * random_unit(random);
    for (whole at = 0; at < width; at++) b->worth[at] = fill_worth[b->active[at]] * (1.0 + noise * (2.0 * random_unit(random) - 1.0));
    double remaining = 0;
    for (whole at = 0; at < width; at++) remaining += (double)b->left[at] * true_worth[b->active[at]];
    while (1) {
        whole affordable = 0; /* offers are in order of price: only those below the remaining amount */
        for (whole low = 0, high = b->open; low < high; affordable = low) {
            whole middle = (low + high) / 2;
            if (p->price[b->usable[middle]] < before - cost + 1e-9) low = middle + 1; else high = middle;
        }
        if (!affordable || number == MOST_MADE) return -1;
        double under = before - cost + 1e-9;
        whole ending = p->offers;
        if (within_caps(p, width, b->active, b->left, b->node_fill.used)) ending = cheapest(p, width, b->active, b->left, under);
        double best_ratio = 0, best_held = 0;
        whole best_offer = -1;
        for (whole at = 0; at < width; at++) b->demand[at] = (double)b->left[at];
        whole seen[OFFERS_TRIED], different = 0, attempts = *plan->nodes < MANY_NODES ? OFFERS_TRIED : OFFERS_TRIED_OF_MANY;
        for (whole attempt = 0; attempt < attempts; attempt++) {
            whole offer = pick_offer(p, plan, b, width, domain, affordable, few || attempt & 1, random), again = p->price[offer] > under;
            for (whole at = 0; at < different; at++) again |= seen[at] == offer;
            if (again) continue;
            seen[different++] = offer;
            for (whole at = 0; at < width; at++) b->taken[at] = 0;
            fill_one(p, &b->node_fill, offer, width, b->active, b->demand, b->worth, share, weighted ? scale : 0, b->taken);
            b->cells += (double)width;
            double held = 0;
            for (whole at = 0; at < width; at++) held += (double)b->taken[at] * true_worth[b->active[at]];
            double ratio = held / p->price[offer];
            if (ratio > best_ratio) {
                best_ratio = ratio;
                best_held = held;
                best_offer = offer;
                whole *swap = b->best;
                b->best = b->taken;
                b->taken = swap;
            }
        }
        if (ending < p->offers && (best_offer < 0 || p->price[ending] <= p->price[best_offer] + (remaining - best_held) / best_ratio)) {
            for (whole at = 0; at < width; at++) b->made[number * p->items + at] = b->left[at];
            b->offers[number++] = ending;
            return number;
        }
        if (best_offer < 0) return -1;
        whole sized = cheapest(p, width, b->active, b->best, p->price[best_offer]);
        if (sized < p->offers) best_offer = sized;
        cost += p->price[best_offer];
        remaining -= best_held;
        whole more = 0;
        for (whole at = 0; at < width; at++) {
            b->made[number * p->items + at] = b->best[at];
            b->left[at] -= b->best[at];
            more |= b->left[at];
        }
        b->offers[number++] = best_offer;
        if (!more) return cost < before + 1e-9 ? number : -1;
        if (cost + 0.999 * remaining > before) return -1; /* no node is worth more than its price, except for rounding */
    }
}

/* Replaces the removed nodes by the packed ones. */
static void replace_nodes(const struct problem *p, struct plan *plan, struct buffers *b, whole width, const double *worth,
                          const whole *removed, whole taken, whole made) {
    for (whole number = 0; number < made || number < taken; number++) {
        whole node = number < taken ? removed[number] : *plan->nodes;
        if (number >= made) { /* fewer nodes than before: the last node moves into the gap; gaps are filled from the end */
            whole last = --*plan->nodes;
            if (node != last) {
                plan->offer[node] = plan->offer[last];
                plan->loss[node] = plan->loss[last];
                for (whole item = 0; item < p->items; item++) plan->counts[node * p->items + item] = plan->counts[last * p->items + item];
            }
            continue;
        }
        if (number >= taken) ++*plan->nodes;
        double value = 0;
        whole *counts = plan->counts + node * p->items;
        for (whole item = 0; item < p->items; item++) counts[item] = 0;
        for (whole at = 0; at < width; at++) {
            counts[b->active[at]] = b->made[number * p->items + at];
            value += (double)counts[b->active[at]] * worth[b->active[at]];
        }
        plan->offer[node] = b->offers[number];
        plan->loss[node] = p->price[b->offers[number]] - value;
    }
}

/* Removes a few nodes and packs their pods again, `iterations` times. A result is kept if it costs no more than before plus a random part
 * of `slack`. nodes: the number of nodes before and after; most: the capacity of the arrays in nodes. offer: most. counts: most x items.
 * loss: most. worth: items. fill_worth: items, their worth while some nodes are filled: higher for items that few offers accept.
 * random: the state of the random numbers. reals: items x (resources + 5). wholes: items x (6 + MOST_MADE) + 2 x caps + offers. Returns
 * the amount that was saved; cells: the number of items that were considered. */
double repack(const struct problem *p, whole *nodes, whole most, whole *offer, whole *counts, double *loss, const double *worth,
              const double *fill_worth, whole iterations, double slack, bits *random, double *reals, whole *wholes, double *cells) {
    struct plan plan = {nodes, offer, counts, loss, most};
    struct buffers buffers, *b = &buffers;
    divide_buffers(p, &b->node_fill, reals, wholes);
    b->demand = reals + p->items * (p->resources + 3);
    b->worth = b->demand + p->items;
    b->active = wholes + 2 * (p->items + p->caps);
    b->left = b->active + p->items;
    b->taken = b->left + p->items;
    b->best = b->taken + p->items;
    b->made = b->best + p->items;
    b->usable = b->made + MOST_MADE * p->items;
    b->cells = 0;
    double saved = 0;
    for (whole iteration = 0; iteration < iterations && *nodes > 1; iteration++) {
        whole removed[MOST_TAKEN], taken = 0, wanted = 2 + random_below(random, MOST_TAKEN - 1), width = 0;
        double before = 0;
        if (wanted > *nodes) wanted = *nodes;
        for (whole tries = 0; taken < wanted && tries < 3 * MOST_TAKEN; tries++) {
            whole node = pick(p, &plan, random, taken ? removed[0] : -1), known = 0;
            for (whole at = 0; at < taken; at++) known |= removed[at] == node;
            if (!known) removed[taken++] = node;
        }
        for (whole at = 0; at < taken; at++) before += p->price[offer[removed[at]]];
        for (whole item = 0; item < p->items; item++) {
            whole number = 0;
            for (whole at = 0; at < taken; at++) number += counts[removed[at] * p->items + item];
            if (!number) continue;
            b->active[width] = item;
            b->left[width++] = number;
        }
        whole domain = p->domain[offer[removed[0]]];
        for (whole at = 1; at < taken; at++)
            if (p->domain[offer[removed[at]]] != domain) domain = -1;
        if (!random_below(random, 4)) domain = -1;
        b->open = 0;
        for (whole at = 0; at < p->offers && p->price[at] < before + slack + 1e-9; at++)
            if ((domain < 0 || p->domain[at] == domain) && accepts_any(p, at, width, b->active)) b->usable[b->open++] = at;
        b->cells += 0.1 * (double)(p->items * taken + p->offers);
        double noise = 0.5 * random_unit(random) * random_unit(random), most_paid = before + slack * random_unit(random);
        whole made = pack_again(p, &plan, b, width, domain, worth, random_below(random, 2) ? fill_worth : worth, most_paid, noise, random);
        if (made < 0 || *nodes + made - taken > most) continue;
        double after = 0;
        for (whole at = 0; at < made; at++) after += p->price[b->offers[at]];
        if (after > most_paid + 1e-9) continue;
        for (whole at = 1; at < taken; at++) /* in ascending order, so that gaps are filled from the end */
            for (whole back = at; back && removed[back] < removed[back - 1]; back--) {
                whole swap = removed[back];
                removed[back] = removed[back - 1];
                removed[back - 1] = swap;
            }
        if (made < taken) { /* of the gaps, the largest positions come first */
            for (whole low = made, high = taken - 1; low < high; low++, high--) {
                whole swap = removed[low];
                removed[low] = removed[high];
                removed[high] = swap;
            }
        }
        replace_nodes(p, &plan, b, width, worth, removed, taken, made);
        saved += before - after;
    }
    *cells = b->cells;
    return saved;
}

/* The state of the search for the best node. Pods are tried in the order of their worth by the first view. A view is a price for each
 * resource. By each view, the worth of the free resources is at most their price times the best ratio of the pods that are tried later. */
struct search {
    whole number, views;
    double *need, *worth, *most;  /* number x resources, number, number */
    double *takes, *later;        /* views x number: a pod's price; views x (number + 1): the best ratio from here on */
    whole *order, *now;           /* number: the position in `active`, and the number on the node */
    double *ratio;                /* number */
    double free[MOST_RESOURCES], open[MOST_VIEWS], value;
    double rounding_error[MOST_VIEWS];      /* views: an upper bound of the rounding error of `open` */
};

static const double INFINITE = 1e300;

static void put(const struct problem *p, struct search *t, whole at, double number) {
    for (whole k = 0; k < p->resources; k++) t->free[k] -= number * t->need[at * p->resources + k];
    for (whole view = 0; view < t->views; view++) t->open[view] -= number * t->takes[view * t->number + at];
    t->value += number * t->worth[at];
}

/* Returns an upper bound of the node's worth if only pods from this one on are added. */
static double upper_bound(const struct search *t, whole at, whole views) {
    double least = INFINITE;
    for (whole view = 0; view < views; view++) {
        double ratio = t->later[view * (t->number + 1) + at], most = (t->open[view] + t->rounding_error[view]) * ratio;
        if (ratio < INFINITE && most < least) least = most;
    }
    return t->value + least;
}

static double fitting(const struct problem *p, const struct search *t, whole at) {
    double number = t->most[at];
    for (whole k = 0; k < p->resources; k++) {
        double each = t->need[at * p->resources + k];
        if (each > 0 && t->free[k] < number * each) number = (double)(whole)(t->free[k] / each);
    }
    return number;
}

static void begin_search(const struct problem *p, struct search *t, whole offer, whole width, const whole *active, const double *demand,
                  const double *worth, const double *rates) {
    whole number = 0;
    for (whole at = 0; at < width; at++) {
        whole item = active[at];
        double most = demand[at] < p->most[item] ? demand[at] : p->most[item], takes = 0;
        if (!p->open[offer * p->items + item] || !(worth[at] > 0) || most < 1) continue;
        for (whole k = 0; k < p->resources; k++) takes += rates[k] * p->need[item * p->resources + k];
        double ratio = takes > 0 ? worth[at] / takes : INFINITE;
        whole here = number++;
        for (; here > 0 && t->ratio[here - 1] < ratio; here--) {
            t->ratio[here] = t->ratio[here - 1];
            t->order[here] = t->order[here - 1];
        }
        t->ratio[here] = ratio;
        t->order[here] = at;
    }
    t->number = number;
    t->value = 0;
    for (whole k = 0; k < p->resources; k++) t->free[k] = p->allocatable[offer * p->resources + k];
    for (whole at = 0; at < number; at++) {
        whole item = active[t->order[at]];
        for (whole k = 0; k < p->resources; k++) t->need[at * p->resources + k] = p->need[item * p->resources + k];
        t->worth[at] = worth[t->order[at]];
        t->most[at] = demand[t->order[at]] < p->most[item] ? demand[t->order[at]] : p->most[item];
        t->now[at] = 0;
    }
    for (whole view = 0; view < t->views; view++) {
        const double *rate = rates + view * p->resources;
        double *later = t->later + view * (number + 1);
        t->open[view] = 0;
        for (whole k = 0; k < p->resources; k++) t->open[view] += rate[k] * t->free[k];
        t->rounding_error[view] = 1e-8 * t->open[view];
        later[number] = 0;
        for (whole at = number - 1; at >= 0; at--) {
            double takes = 0;
            for (whole k = 0; k < p->resources; k++) takes += rate[k] * t->need[at * p->resources + k];
            double ratio = takes > t->rounding_error[view] * 1e-6 ? t->worth[at] / takes : INFINITE; /* a negligible amount counts as 0 */
            t->takes[view * number + at] = takes;
            later[at] = ratio > later[at + 1] ? ratio : later[at + 1];
        }
    }
}

/* Returns an upper bound of the worth of all nodes that were not tried when the search ends early. Resources that a removed pod leaves free
 * are, by the first view, worth no more than the pod. */
static double bound_of_untried(const struct problem *p, struct search *t, whole at) {
    double most = upper_bound(t, at, 1);
    for (whole before = at - 1; before >= 0; before--) {
        if (!t->now[before]) continue;
        put(p, t, before, -1);
        double other = upper_bound(t, before + 1, 1);
        if (other > most) most = other;
        put(p, t, before, -(double)(t->now[before] - 1));
    }
    return most;
}

/* Finds the pods with the highest total worth that fit on one node, by branch and bound; caps are not considered. Only nodes that are worth
 * more than `enough` are found. rates: views x resources, not negative. counts: kept x width, the last nodes that were better than all
 * before; found: their number. proven: an upper bound of the worth of all nodes. The search ends after `most_steps` steps; `proven` is then
 * less tight. reals: items x (resources + 3 + 2 x views) + views. wholes: 2 x items. Returns the number of steps. */
whole best_node(const struct problem *p, whole offer, whole width, const whole *active, const double *demand, const double *worth,
              const double *rates, whole views, double enough, whole most_steps, whole *counts, whole kept, whole *found, double *proven,
              double *reals, whole *wholes) {
    struct search search, *t = &search;
    t->views = views;
    t->need = reals;
    t->worth = t->need + p->items * p->resources;
    t->most = t->worth + p->items;
    t->ratio = t->most + p->items;
    t->takes = t->ratio + p->items;
    t->later = t->takes + views * p->items;
    t->order = wholes;
    t->now = wholes + p->items;
    begin_search(p, t, offer, width, active, demand, worth, rates);
    double best = enough;
    whole at = 0, steps = 0;
    *found = 0;
    while (1) {
        for (; at < t->number && upper_bound(t, at, views) > best; at++, steps++) {
            double number = fitting(p, t, at);
            t->now[at] = (whole)number;
            if (number > 0) put(p, t, at, number);
        }
        steps++;
        if (at == t->number && t->value > best) {
            best = t->value;
            whole *row = counts + (*found)++ % kept * width;
            for (whole other = 0; other < width; other++) row[other] = 0;
            for (whole other = 0; other < at; other++) row[t->order[other]] = t->now[other];
        }
        if (steps > most_steps) {
            double open = bound_of_untried(p, t, at);
            *proven = open > best ? open : best;
            return steps;
        }
        do at--; while (at >= 0 && !t->now[at]);
        if (at < 0) break;
        t->now[at]--;
        put(p, t, at, -1);
        at++;
    }
    *proven = best;
    return steps;
}
