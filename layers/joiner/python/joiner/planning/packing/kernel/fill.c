/* Filling nodes with pods, what they begin with, taking plans apart, and the best node there can be: the planner's innermost loops.
 *
 * What filling means is said in joiner/planning/packing.py, which also has it in numpy, for machines that this was not compiled for; tests
 * compare the two. What nodes begin with is in seeding.py, in numpy as well: its dice are others, so the two agree in law only. What taking
 * apart means is said in neighbourhoods.py, and what the best node is for in pricing.py.
 *
 * No library, no system call, no memory of its own: this runs wherever its instruction set does. Amounts are whole numbers below 2^53, of
 * at most MOST_RESOURCES kinds. Arrays are dense, the last index the fastest.
 */

#ifndef DIGEST
#define DIGEST "0000000000000000000000000000000000000000000000000000000000000000"
#endif
const char source[] = DIGEST; /* of this file, so that a library can tell what it was made from */

typedef long long whole;
typedef unsigned long long bits;

enum { COUNTS = 1, ASKS = 2 };
enum { MOST_RESOURCES = 64, MOST_TAKEN = 4, MOST_MADE = 24, MOST_VIEWS = 6 };

/* How many offers are looked at for each node: fewer where a plan has many nodes, because there is more to gain by turning to others. */
enum { LOOKED_AT = 12, BRIEFLY = 8, MANY_NODES = 64 };

/* Of so few nodes any two may be worth a try; of more, those that lose most are looked for. */
enum { FEW_NODES = 32 };

#ifdef __x86_64__
static void cpuid(unsigned leaf, unsigned *a, unsigned *b, unsigned *c) {
    unsigned d;
    __asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(d) : "a"(leaf), "c"(0));
}

/* Whether this processor has all that x86_64_v3 may use, and its system saves the registers. */
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

/* The problem, the same in every call. */
struct problem {
    whole items, resources, caps, width, offers;
    const double *room;          /* offers x resources */
    const unsigned char *open;   /* offers x items: whether the item may go there */
    const double *need;          /* items x resources */
    const double *most;          /* items: how many of it one node may have */
    const whole *rules;          /* items x width: the caps that an item has a part in, then -1 */
    const unsigned char *part;   /* caps x items: COUNTS, ASKS, both or neither */
    const whole *limit;          /* caps: how many pods that count one node may have where somebody asks */
    const double *price;         /* offers, ascending */
    const whole *domain;         /* offers: a number for where it is, as far as pods care */
};

/* One node while it is filled. */
struct race {
    whole racing;                /* how many items still fit */
    whole *list;                 /* items x 2: of those, the position among the active, and the item */
    double *need, *worth, *most; /* resources x items, items, items: of those */
    double *score;
    whole *used, *asked; /* caps: pods that count, pods that ask */
    double free[MOST_RESOURCES];
};

static void lay_out(const struct problem *p, struct race *r, double *reals, whole *wholes) {
    r->list = wholes;
    r->used = wholes + 2 * p->items;
    r->asked = r->used + p->caps;
    r->need = reals;
    r->worth = reals + p->resources * p->items;
    r->most = r->worth + p->items;
    r->score = r->most + p->items;
}

/* Takes a number of pods that came off what may still come under the caps of their item. */
static void narrow(const struct problem *p, struct race *r, whole item, whole number) {
    for (whole column = 0; column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) return;
        const unsigned char *part = p->part + rule * p->items;
        if (part[item] & COUNTS) r->used[rule] += number;
        if (part[item] & ASKS) r->asked[rule] += number;
        whole over = r->used[rule] > p->limit[rule], asked = r->asked[rule];
        double still = over ? 0.0 : (double)(p->limit[rule] - r->used[rule]);
        for (whole at = 0; at < r->racing; at++) {
            unsigned char its = part[r->list[2 * at + 1]];
            if (its & COUNTS) {
                if ((asked || its & ASKS) && r->most[at] > still) r->most[at] = still;
            } else if (its & ASKS && over) {
                r->most[at] = 0;
            }
        }
    }
}

/* What each is worth for what it takes of what is left; below 0 for those that no longer fit. For a number of resources that the compiler
 * knows, this is a loop without branches. */
static inline __attribute__((always_inline)) void appraise(const struct problem *p, struct race *r, const double *weight, whole resources) {
    const double *restrict need = r->need, *restrict worth = r->worth, *restrict most = r->most;
    double *restrict score = r->score;
    for (whole at = 0; at < r->racing; at++) {
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

/* Those that no longer fit leave: they never will again. */
static void thin_out(const struct problem *p, struct race *r) {
    whole kept = 0;
    for (whole at = 0; at < r->racing; at++) {
        if (r->score[at] < 0) continue;
        for (whole k = 0; k < p->resources; k++) r->need[k * p->items + kept] = r->need[k * p->items + at];
        r->worth[kept] = r->worth[at];
        r->most[kept] = r->most[at];
        r->score[kept] = r->score[at];
        r->list[2 * kept] = r->list[2 * at];
        r->list[2 * kept + 1] = r->list[2 * at + 1];
        kept++;
    }
    r->racing = kept;
}

/* Which of those that fit is worth most for what it takes; the first of equals. None: -1. */
static whole choose(const struct problem *p, struct race *r, const double *tiny, const double *tilt) {
    double weight[MOST_RESOURCES];
    for (whole k = 0; k < p->resources; k++) weight[k] = (tilt ? tilt[k] : 1.0) / (r->free[k] > tiny[k] ? r->free[k] : tiny[k]);
    if (p->resources == 3)
        appraise(p, r, weight, 3);
    else if (p->resources == 4)
        appraise(p, r, weight, 4);
    else
        appraise(p, r, weight, p->resources);
    whole fitting = 0, best = -1;
    double most = -1.0;
    for (whole at = 0; at < r->racing; at++) {
        fitting += r->score[at] >= 0;
        if (r->score[at] > most) {
            most = r->score[at];
            best = at;
        }
    }
    if (best < 0 || 8 * fitting > 7 * r->racing) return best;
    for (whole at = 0, before = best; at < before; at++) best -= r->score[at] < 0;
    thin_out(p, r);
    return best;
}

/* One node of an offer, filled from what it holds already (taken) up. */
static void fill_one(const struct problem *p, struct race *r, whole offer, whole width, const whole *active, const double *demand,
                     const double *worth, double share, const double *tilt, whole *taken) {
    const double *room = p->room + offer * p->resources;
    const unsigned char *open = p->open + offer * p->items;
    double tiny[MOST_RESOURCES];
    for (whole k = 0; k < p->resources; k++) r->free[k] = room[k];
    for (whole cap = 0; cap < 2 * p->caps; cap++) r->used[cap] = 0; /* and those that ask */
    r->racing = 0;
    for (whole at = 0; at < width; at++) {
        whole item = active[at];
        double wanted = demand[at] < p->most[item] ? demand[at] : p->most[item];
        if (taken[at])
            for (whole k = 0; k < p->resources; k++) r->free[k] -= (double)taken[at] * p->need[item * p->resources + k];
        if (!open[item] || !(worth[at] > 0) || wanted - (double)taken[at] < 1) continue;
        for (whole k = 0; k < p->resources; k++) r->need[k * p->items + r->racing] = p->need[item * p->resources + k];
        r->worth[r->racing] = worth[at];
        r->most[r->racing] = wanted - (double)taken[at];
        r->list[2 * r->racing] = at;
        r->list[2 * r->racing + 1] = item;
        r->racing++;
    }
    for (whole at = 0; at < width && p->width; at++)
        if (taken[at]) narrow(p, r, active[at], taken[at]);
    for (whole k = 0; k < p->resources; k++) tiny[k] = 1e-3 * r->free[k] + 1e-6;
    for (whole best = choose(p, r, tiny, tilt); best >= 0; best = choose(p, r, tiny, tilt)) {
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
        if (p->width) narrow(p, r, r->list[2 * best + 1], (whole)number);
    }
}

/* Many nodes ("rows") that know nothing of each other. offers: rows. active: the items in question, width of them. demand, worth: of the
 * active, by row where the step is not 0. share: rows. tilt: rows x resources, or null. counts: rows x width, what rows hold already, and
 * in the end what they hold. reals: items x (resources + 3). wholes: 2 x (items + caps). */
void fill(const struct problem *p, whole rows, whole width, const whole *offers, const whole *active, const double *demand,
          whole demand_step, const double *worth, whole worth_step, const double *share, const double *tilt, whole *counts, double *reals,
          whole *wholes) {
    struct race race;
    lay_out(p, &race, reals, wholes);
    for (whole row = 0; row < rows; row++)
        fill_one(p, &race, offers[row], width, active, demand + row * demand_step, worth + row * worth_step, share[row],
                 tilt ? tilt + row * p->resources : 0, counts + row * width);
}

static bits roll(bits *dice) { /* xorshift64* */
    *dice ^= *dice >> 12;
    *dice ^= *dice << 25;
    *dice ^= *dice >> 27;
    return *dice * 2685821657736338717ULL;
}

static whole below(bits *dice, whole number) { return (whole)((roll(dice) >> 33) % (bits)number); }

static double chance(bits *dice) { return (double)(roll(dice) >> 11) * (1.0 / 9007199254740992.0); }

/* Counts a number of pods under the caps that their item has a part in. */
static void count(const struct problem *p, whole item, whole number, whole *used, whole *asked) {
    for (whole column = 0; number && column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) return;
        unsigned char part = p->part[rule * p->items + item];
        if (part & COUNTS) used[rule] += number;
        if (part & ASKS) asked[rule] += number;
    }
}

/* How many of an item may still come to a node under the caps that it has a part in. */
static whole bearable(const struct problem *p, whole item, whole number, const whole *used, const whole *asked) {
    for (whole column = 0; column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) break;
        unsigned char part = p->part[rule * p->items + item];
        whole still = p->limit[rule] - used[rule];
        if (part & ASKS && still < 0) return 0;
        if (part & COUNTS && (part & ASKS || asked[rule]) && still < number) number = still;
    }
    return number;
}

/* What rows begin with: the mean mix, rounded at random, and of that in random order as much as room and caps allow. offers: rows. active:
 * the items in question, width of them. mean: rows x width; 0 where an item is closed to the row's offer, which is not asked again. demand:
 * of the active. dice: their state. counts: rows x width, what rows hold in the end. wholes: items + 2 x caps. */
void seed(const struct problem *p, whole rows, whole width, const whole *offers, const whole *active, const double *mean,
          const double *demand, bits *dice, whole *counts, whole *wholes) {
    whole *order = wholes, *used = wholes + p->items, *asked = used + p->caps;
    for (whole row = 0; row < rows; row++) {
        double free[MOST_RESOURCES];
        whole number = 0, *mine = counts + row * width;
        for (whole k = 0; k < p->resources; k++) free[k] = p->room[offers[row] * p->resources + k];
        for (whole cap = 0; cap < 2 * p->caps; cap++) used[cap] = 0; /* and those that ask */
        for (whole at = 0; at < width; at++) {
            mine[at] = 0;
            if (!(mean[row * width + at] > 0)) continue;
            double wanted = mean[row * width + at] + chance(dice);
            if (wanted > demand[at]) wanted = demand[at];
            if (wanted > p->most[active[at]]) wanted = p->most[active[at]];
            if (wanted < 1) continue;
            mine[at] = (whole)wanted;
            order[number++] = at;
        }
        for (whole last = number - 1; last > 0; last--) {
            whole other = below(dice, last + 1), swap = order[last];
            order[last] = order[other];
            order[other] = swap;
        }
        for (whole next = 0; next < number; next++) {
            whole at = order[next], item = active[at], taken = bearable(p, item, mine[at], used, asked);
            const double *need = p->need + item * p->resources;
            for (whole k = 0; k < p->resources; k++)
                if (need[k] > 0 && free[k] < (double)taken * need[k]) taken = (whole)(free[k] / need[k] + 1e-9);
            mine[at] = taken;
            for (whole k = 0; k < p->resources; k++) free[k] -= (double)taken * need[k];
            count(p, item, taken, used, asked);
        }
    }
}

/* A plan that is being taken apart: nodes of it, and what they hold. */
struct plan {
    whole *nodes;   /* how many there are */
    whole *offer;   /* nodes */
    whole *counts;  /* nodes x items */
    double *loss;   /* nodes: price less what its pods are worth */
    whole most;     /* how many nodes there is room for */
};

/* Whether a node of this offer could have exactly these pods. */
static whole holds(const struct problem *p, whole offer, whole width, const whole *active, const whole *counts, const double *need) {
    const double *room = p->room + offer * p->resources;
    const unsigned char *open = p->open + offer * p->items;
    for (whole k = 0; k < p->resources; k++)
        if (need[k] > room[k]) return 0;
    for (whole at = 0; at < width; at++)
        if (counts[at] && !open[active[at]]) return 0;
    return 1;
}

/* Whether one node may have all these pods, as far as caps go. */
static whole within_caps(const struct problem *p, whole width, const whole *active, const whole *counts, whole *used) {
    whole *asked = used + p->caps;
    for (whole cap = 0; cap < 2 * p->caps; cap++) used[cap] = 0;
    for (whole at = 0; at < width; at++) {
        if ((double)counts[at] > p->most[active[at]]) return 0;
        count(p, active[at], counts[at], used, asked);
    }
    for (whole cap = 0; cap < p->caps; cap++)
        if (asked[cap] && used[cap] > p->limit[cap]) return 0;
    return 1;
}

/* The cheapest offer below a price that holds these pods; offers where there is none. */
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

/* A node, as likely as it costs more than its pods are worth; beside another one, in the same domain, unless no node
 * there loses anything. */
static whole pick_by_loss(const struct problem *p, const struct plan *plan, bits *dice, whole beside) {
    double all = 0;
    whole wanted = beside < 0 ? -1 : p->domain[plan->offer[beside]];
    for (whole node = 0; node < *plan->nodes; node++)
        if (plan->loss[node] > 0 && (wanted < 0 || p->domain[plan->offer[node]] == wanted)) all += plan->loss[node];
    double rest = all * chance(dice);
    for (whole node = 0; node < *plan->nodes; node++) {
        if (plan->loss[node] > 0 && (wanted < 0 || p->domain[plan->offer[node]] == wanted)) rest -= plan->loss[node];
        if (rest < 0) return node;
    }
    return below(dice, *plan->nodes);
}

/* A node that costs more than its pods are worth, more likely than not; beside another one, it is likely to be in the same domain. */
static whole pick(const struct problem *p, const struct plan *plan, bits *dice, whole beside) {
    whole by_loss = *plan->nodes < FEW_NODES ? beside < 0 && below(dice, 2) : below(dice, 10) > 0;
    if (by_loss) return pick_by_loss(p, plan, dice, beside);
    whole best = below(dice, *plan->nodes);
    for (whole turn = 0; turn < 3; turn++) {
        whole other = below(dice, *plan->nodes);
        if (beside >= 0) {
            whole wanted = p->domain[plan->offer[beside]];
            whole mine = p->domain[plan->offer[best]] == wanted, its = p->domain[plan->offer[other]] == wanted;
            if (its != mine) {
                if (its) best = other;
                continue;
            }
        }
        if (turn < 2 && plan->loss[other] > plan->loss[best]) best = other;
    }
    return best;
}

/* What taking a few nodes apart works with. */
struct bench {
    struct race race;
    whole *active, *left, *taken, *best, *made; /* items each, made: MOST_MADE x items */
    whole *usable, open;                        /* offers that some of the pods may use, in order of price, and how many */
    double *demand, *worth;                     /* items each */
    whole offers[MOST_MADE];
    double cells;                               /* how much was filled */
};

static whole of_use(const struct problem *p, whole offer, whole width, const whole *active) {
    for (whole at = 0; at < width; at++)
        if (p->open[offer * p->items + active[at]]) return 1;
    return 0;
}

/* An offer to look at: one that the plan uses elsewhere, or any; in one domain, or in any if that is negative. */
static whole look_at(const struct problem *p, const struct plan *plan, struct bench *b, whole width, whole home, whole dearest, whole known,
                     bits *dice) {
    for (whole turn = 0; known && turn < 6; turn++) {
        whole offer = plan->offer[below(dice, *plan->nodes)];
        if ((home < 0 || p->domain[offer] == home) && of_use(p, offer, width, b->active)) return offer;
    }
    return b->usable[below(dice, dearest)];
}

/* Nodes for everything that is left, each the best for its price among some offers, as long as they stay below a price. Answers how many,
 * or -1. While nodes are filled, pods are worth what lure says. */
static whole pack_anew(const struct problem *p, const struct plan *plan, struct bench *b, whole width, whole home, const double *true_worth,
                       const double *lure, double before, double noise, bits *dice) {
    static const double shares[4] = {1.0, 1.0, 0.5, 0.34};
    double tilt[MOST_RESOURCES], cost = 0, share = shares[below(dice, 4)];
    whole number = 0, tilted = below(dice, 2), few = below(dice, 3) == 0;
    for (whole k = 0; k < p->resources; k++) tilt[k] = 0.4 + 1.2 * chance(dice);
    for (whole at = 0; at < width; at++) b->worth[at] = lure[b->active[at]] * (1.0 + noise * (2.0 * chance(dice) - 1.0));
    double rest = 0;
    for (whole at = 0; at < width; at++) rest += (double)b->left[at] * true_worth[b->active[at]];
    while (1) {
        whole dearest = 0; /* offers are in order of price: only those below what may still be spent */
        for (whole low = 0, high = b->open; low < high; dearest = low) {
            whole middle = (low + high) / 2;
            if (p->price[b->usable[middle]] < before - cost + 1e-9) low = middle + 1; else high = middle;
        }
        if (!dearest || number == MOST_MADE) return -1;
        double under = before - cost + 1e-9;
        whole ending = p->offers;
        if (within_caps(p, width, b->active, b->left, b->race.used)) ending = cheapest(p, width, b->active, b->left, under);
        double best_ratio = 0, best_held = 0;
        whole best_offer = -1;
        for (whole at = 0; at < width; at++) b->demand[at] = (double)b->left[at];
        whole seen[LOOKED_AT], different = 0, looks = *plan->nodes < MANY_NODES ? LOOKED_AT : BRIEFLY;
        for (whole look = 0; look < looks; look++) {
            whole offer = look_at(p, plan, b, width, home, dearest, few || look & 1, dice), again = p->price[offer] > under;
            for (whole at = 0; at < different; at++) again |= seen[at] == offer;
            if (again) continue;
            seen[different++] = offer;
            for (whole at = 0; at < width; at++) b->taken[at] = 0;
            fill_one(p, &b->race, offer, width, b->active, b->demand, b->worth, share, tilted ? tilt : 0, b->taken);
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
        if (ending < p->offers && (best_offer < 0 || p->price[ending] <= p->price[best_offer] + (rest - best_held) / best_ratio)) {
            for (whole at = 0; at < width; at++) b->made[number * p->items + at] = b->left[at];
            b->offers[number++] = ending;
            return number;
        }
        if (best_offer < 0) return -1;
        whole sized = cheapest(p, width, b->active, b->best, p->price[best_offer]);
        if (sized < p->offers) best_offer = sized;
        cost += p->price[best_offer];
        rest -= best_held;
        whole more = 0;
        for (whole at = 0; at < width; at++) {
            b->made[number * p->items + at] = b->best[at];
            b->left[at] -= b->best[at];
            more |= b->left[at];
        }
        b->offers[number++] = best_offer;
        if (!more) return cost < before + 1e-9 ? number : -1;
        if (cost + 0.999 * rest > before) return -1; /* no node is worth more than its price, but for what prudence adds */
    }
}

/* Puts packed nodes in the place of those taken apart. */
static void put_back(const struct problem *p, struct plan *plan, struct bench *b, whole width, const double *worth, const whole *gone,
                     whole taken, whole made) {
    for (whole number = 0; number < made || number < taken; number++) {
        whole node = number < taken ? gone[number] : *plan->nodes;
        if (number >= made) { /* fewer than before: the last node moves into the gap; gaps are filled from the end */
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

/* Takes a few nodes apart and packs their pods anew, so many times; what is no dearer stays, and what is dearer by less than some chance of
 * slack. nodes: how many there are, and in the end how many there are; most: room for how many. offer: most. counts: most x items. loss:
 * most. worth: items. lure: items, what they are worth while some nodes are filled: more, where they can go to few. dice: their state.
 * reals: items x (resources + 5). wholes: items x (6 + MOST_MADE) + 2 x caps + offers. Answers how much was saved; cells: how much work it
 * was. */
double repack(const struct problem *p, whole *nodes, whole most, whole *offer, whole *counts, double *loss, const double *worth,
              const double *lure, whole turns, double slack, bits *dice, double *reals, whole *wholes, double *cells) {
    struct plan plan = {nodes, offer, counts, loss, most};
    struct bench bench, *b = &bench;
    lay_out(p, &b->race, reals, wholes);
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
    for (whole turn = 0; turn < turns && *nodes > 1; turn++) {
        whole gone[MOST_TAKEN], taken = 0, wanted = 2 + below(dice, MOST_TAKEN - 1), width = 0;
        double before = 0;
        if (wanted > *nodes) wanted = *nodes;
        for (whole tries = 0; taken < wanted && tries < 3 * MOST_TAKEN; tries++) {
            whole node = pick(p, &plan, dice, taken ? gone[0] : -1), known = 0;
            for (whole at = 0; at < taken; at++) known |= gone[at] == node;
            if (!known) gone[taken++] = node;
        }
        for (whole at = 0; at < taken; at++) before += p->price[offer[gone[at]]];
        for (whole item = 0; item < p->items; item++) {
            whole number = 0;
            for (whole at = 0; at < taken; at++) number += counts[gone[at] * p->items + item];
            if (!number) continue;
            b->active[width] = item;
            b->left[width++] = number;
        }
        whole home = p->domain[offer[gone[0]]];
        for (whole at = 1; at < taken; at++)
            if (p->domain[offer[gone[at]]] != home) home = -1;
        if (!below(dice, 4)) home = -1;
        b->open = 0;
        for (whole at = 0; at < p->offers && p->price[at] < before + slack + 1e-9; at++)
            if ((home < 0 || p->domain[at] == home) && of_use(p, at, width, b->active)) b->usable[b->open++] = at;
        b->cells += 0.1 * (double)(p->items * taken + p->offers);
        double noise = 0.5 * chance(dice) * chance(dice), most_paid = before + slack * chance(dice);
        whole made = pack_anew(p, &plan, b, width, home, worth, below(dice, 2) ? lure : worth, most_paid, noise, dice);
        if (made < 0 || *nodes + made - taken > most) continue;
        double after = 0;
        for (whole at = 0; at < made; at++) after += p->price[b->offers[at]];
        if (after > most_paid + 1e-9) continue;
        for (whole at = 1; at < taken; at++) /* the largest positions last, so that gaps are filled from the end */
            for (whole back = at; back && gone[back] < gone[back - 1]; back--) {
                whole swap = gone[back];
                gone[back] = gone[back - 1];
                gone[back - 1] = swap;
            }
        if (made < taken) { /* gaps: the largest positions first */
            for (whole low = made, high = taken - 1; low < high; low++, high--) {
                whole swap = gone[low];
                gone[low] = gone[high];
                gone[high] = swap;
            }
        }
        put_back(p, &plan, b, width, worth, gone, taken, made);
        saved += before - after;
    }
    *cells = b->cells;
    return saved;
}

/* One node that is being tried: pods in the order in which they are tried, those first that are worth most by the first view. A view is a
 * price for each resource; by it, what is still free cannot become worth more than its price times the best ratio of those who come
 * later. */
struct trial {
    whole number, views;
    double *need, *worth, *most;  /* number x resources, number, number */
    double *takes, *later;        /* views x number: what a pod takes by this view; views x (number + 1): the best ratio from here on */
    whole *order, *now;           /* number: the position among the active, and how many are on the node */
    double *ratio;                /* number */
    double free[MOST_RESOURCES], open[MOST_VIEWS], value;
    double slip[MOST_VIEWS];      /* views: more than what all sums of the open can err */
};

static const double ENDLESS = 1e300;

static void put(const struct problem *p, struct trial *t, whole at, double number) {
    for (whole k = 0; k < p->resources; k++) t->free[k] -= number * t->need[at * p->resources + k];
    for (whole view = 0; view < t->views; view++) t->open[view] -= number * t->takes[view * t->number + at];
    t->value += number * t->worth[at];
}

/* What the node could become worth at most if only those from this one on may still come. */
static double hope(const struct trial *t, whole at, whole views) {
    double least = ENDLESS;
    for (whole view = 0; view < views; view++) {
        double ratio = t->later[view * (t->number + 1) + at], most = (t->open[view] + t->slip[view]) * ratio;
        if (ratio < ENDLESS && most < least) least = most;
    }
    return t->value + least;
}

static double fitting(const struct problem *p, const struct trial *t, whole at) {
    double number = t->most[at];
    for (whole k = 0; k < p->resources; k++) {
        double each = t->need[at * p->resources + k];
        if (each > 0 && t->free[k] < number * each) number = (double)(whole)(t->free[k] / each);
    }
    return number;
}

static void begin(const struct problem *p, struct trial *t, whole offer, whole width, const whole *active, const double *demand,
                  const double *worth, const double *rates) {
    whole number = 0;
    for (whole at = 0; at < width; at++) {
        whole item = active[at];
        double most = demand[at] < p->most[item] ? demand[at] : p->most[item], takes = 0;
        if (!p->open[offer * p->items + item] || !(worth[at] > 0) || most < 1) continue;
        for (whole k = 0; k < p->resources; k++) takes += rates[k] * p->need[item * p->resources + k];
        double ratio = takes > 0 ? worth[at] / takes : ENDLESS;
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
    for (whole k = 0; k < p->resources; k++) t->free[k] = p->room[offer * p->resources + k];
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
        t->slip[view] = 1e-8 * t->open[view];
        later[number] = 0;
        for (whole at = number - 1; at >= 0; at--) {
            double takes = 0;
            for (whole k = 0; k < p->resources; k++) takes += rate[k] * t->need[at * p->resources + k];
            double ratio = takes > t->slip[view] * 1e-6 ? t->worth[at] / takes : ENDLESS; /* next to nothing is nothing */
            t->takes[view * number + at] = takes;
            later[at] = ratio > later[at + 1] ? ratio : later[at + 1];
        }
    }
}

/* Whatever was not tried yet, when trying ends early: what it could be worth at most. Fewer of one pod leave room that, by the first view,
 * is worth no more than the pod. */
static double untried(const struct problem *p, struct trial *t, whole at) {
    double most = hope(t, at, 1);
    for (whole before = at - 1; before >= 0; before--) {
        if (!t->now[before]) continue;
        put(p, t, before, -1);
        double other = hope(t, before + 1, 1);
        if (other > most) most = other;
        put(p, t, before, -(double)(t->now[before] - 1));
    }
    return most;
}

/* The pods that are worth most of all that fit onto one node together, caps on several kinds of pods aside: everything is tried that could
 * be worth more than what was found before, and more than enough. rates: views x resources, none below 0. counts: kept x width, the last
 * ones found that were better than all before; found: how many there were. proven: no node is worth more. After so many steps as patience
 * allows it ends, and what is proven is less sharp. reals: items x (resources + 3 + 2 x views) + views. wholes: 2 x items. Answers the
 * steps. */
whole dearest(const struct problem *p, whole offer, whole width, const whole *active, const double *demand, const double *worth,
              const double *rates, whole views, double enough, whole patience, whole *counts, whole kept, whole *found, double *proven,
              double *reals, whole *wholes) {
    struct trial trial, *t = &trial;
    t->views = views;
    t->need = reals;
    t->worth = t->need + p->items * p->resources;
    t->most = t->worth + p->items;
    t->ratio = t->most + p->items;
    t->takes = t->ratio + p->items;
    t->later = t->takes + views * p->items;
    t->order = wholes;
    t->now = wholes + p->items;
    begin(p, t, offer, width, active, demand, worth, rates);
    double best = enough;
    whole at = 0, steps = 0;
    *found = 0;
    while (1) {
        for (; at < t->number && hope(t, at, views) > best; at++, steps++) {
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
        if (steps > patience) {
            double open = untried(p, t, at);
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
