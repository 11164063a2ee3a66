/* Fills nodes with pods: the innermost loop of the planner's search. What it means is said in joiner/planning/packing.py, which also has the
 * same loop in numpy, for machines that this was not compiled for; tests compare the two.
 *
 * One call fills many nodes ("rows") that know nothing of each other. A row takes, again and again, some pods of the item that is worth
 * most for what it takes of the room that is left. Items that no longer fit leave the race, since room only shrinks.
 *
 * No library, no system call, no memory of its own: it runs wherever its instruction set does. Amounts are whole numbers below 2^53, at most
 * MOST_RESOURCES kinds of them. Arrays are dense, the last index the fastest.
 */

#ifndef DIGEST
#define DIGEST "0000000000000000000000000000000000000000000000000000000000000000"
#endif
const char source[] = DIGEST; /* of this file, so that a library can tell what it was made from */

typedef long long whole;

enum { MOST_RESOURCES = 64 };

/* The problem, the same in every call. */
struct problem {
    whole items, resources, caps, width;
    const double *room;          /* offers x resources */
    const unsigned char *open;   /* offers x items: whether the item may go there */
    const double *need;          /* items x resources */
    const double *most;          /* items: how many of it one node may have */
    const whole *rules;          /* items x width: the caps that an item is under, then -1 */
    const unsigned char *capped; /* caps x items */
    const whole *limit;          /* caps: how many pods under it one node may have */
};

/* What one row is doing. */
struct race {
    whole racing;
    whole *list;                   /* items x 2: position among the active, and item, of those that still fit */
    double *need, *worth, *most;   /* resources x items, items, items: of those that still fit */
    double *score;
    double free[MOST_RESOURCES];
    whole *used;
};

/* Takes a number of pods off what may still come under the caps of their item. */
static void narrow(const struct problem *p, struct race *r, whole item, whole number) {
    for (whole column = 0; column < p->width; column++) {
        whole rule = p->rules[item * p->width + column];
        if (rule < 0) return;
        r->used[rule] += number;
        double still = p->limit[rule] > r->used[rule] ? (double)(p->limit[rule] - r->used[rule]) : 0.0;
        const unsigned char *member = p->capped + rule * p->items;
        for (whole at = 0; at < r->racing; at++)
            if (member[r->list[2 * at + 1]] && r->most[at] > still) r->most[at] = still;
    }
}

/* Those that no longer fit leave. */
static void thin_out(const struct problem *p, struct race *r) {
    whole kept = 0;
    for (whole at = 0; at < r->racing; at++) {
        whole fits = r->most[at] >= 1;
        for (whole k = 0; k < p->resources; k++) fits &= r->need[k * p->items + at] <= r->free[k];
        if (!fits) continue;
        for (whole k = 0; k < p->resources; k++) r->need[k * p->items + kept] = r->need[k * p->items + at];
        r->worth[kept] = r->worth[at];
        r->most[kept] = r->most[at];
        r->list[2 * kept] = r->list[2 * at];
        r->list[2 * kept + 1] = r->list[2 * at + 1];
        kept++;
    }
    r->racing = kept;
}

/* Which of those that fit is worth most for what it takes; the first of equals. */
static whole choose(const struct problem *p, struct race *r, const double *tiny, const double *tilt) {
    for (whole k = 0; k < p->resources; k++) {
        double weight = (tilt ? tilt[k] : 1.0) / (r->free[k] > tiny[k] ? r->free[k] : tiny[k]);
        const double *need = r->need + k * p->items;
        if (k == 0)
            for (whole at = 0; at < r->racing; at++) r->score[at] = weight * need[at];
        else
            for (whole at = 0; at < r->racing; at++) r->score[at] += weight * need[at];
    }
    for (whole at = 0; at < r->racing; at++) r->score[at] = r->worth[at] / r->score[at];
    whole best = 0;
    for (whole at = 1; at < r->racing; at++)
        if (r->score[at] > r->score[best]) best = at;
    return best;
}

/* offers: rows. active: width of the rows, items in question. demand, worth: of the active items, by row where the step is not 0.
 * share: rows. tilt: rows x resources, or null. counts: rows x width, what rows hold already, and in the end what they hold.
 * reals: items x (resources + 3). wholes: 2 x items + caps. */
void fill(const struct problem *p, whole rows, whole width, const whole *offers, const whole *active, const double *demand,
          whole demand_step, const double *worth, whole worth_step, const double *share, const double *tilt, whole *counts, double *reals,
          whole *wholes) {
    struct race race, *r = &race;
    r->list = wholes;
    r->used = wholes + 2 * p->items;
    r->need = reals;
    r->worth = reals + p->resources * p->items;
    r->most = r->worth + p->items;
    r->score = r->most + p->items;
    for (whole row = 0; row < rows; row++) {
        const double *room = p->room + offers[row] * p->resources, *lean = tilt ? tilt + row * p->resources : 0;
        const unsigned char *open = p->open + offers[row] * p->items;
        whole *taken = counts + row * width;
        double tiny[MOST_RESOURCES];
        for (whole k = 0; k < p->resources; k++) r->free[k] = room[k];
        for (whole cap = 0; cap < p->caps; cap++) r->used[cap] = 0;
        r->racing = 0;
        for (whole at = 0; at < width; at++) {
            whole item = active[at];
            double wanted = demand[row * demand_step + at], value = worth[row * worth_step + at];
            if (wanted > p->most[item]) wanted = p->most[item];
            if (taken[at])
                for (whole k = 0; k < p->resources; k++) r->free[k] -= (double)taken[at] * p->need[item * p->resources + k];
            if (!open[item] || !(value > 0) || wanted - (double)taken[at] < 1) continue;
            for (whole k = 0; k < p->resources; k++) r->need[k * p->items + r->racing] = p->need[item * p->resources + k];
            r->worth[r->racing] = value;
            r->most[r->racing] = wanted - (double)taken[at];
            r->list[2 * r->racing] = at;
            r->list[2 * r->racing + 1] = item;
            r->racing++;
        }
        for (whole at = 0; at < width && p->width; at++)
            if (taken[at]) narrow(p, r, active[at], taken[at]);
        for (whole k = 0; k < p->resources; k++) tiny[k] = 1e-3 * r->free[k] + 1e-6;
        for (thin_out(p, r); r->racing; thin_out(p, r)) {
            whole best = choose(p, r, tiny, lean);
            double number = r->most[best];
            for (whole k = 0; k < p->resources; k++) {
                double each = r->need[k * p->items + best];
                if (each > 0) {
                    double fitting = (double)(whole)(r->free[k] / each + 1e-9);
                    if (fitting < number) number = fitting;
                }
            }
            number = (double)(whole)((double)(whole)number * share[row]);
            if (number < 1) number = 1;
            taken[r->list[2 * best]] += (whole)number;
            r->most[best] -= number;
            for (whole k = 0; k < p->resources; k++) r->free[k] -= number * r->need[k * p->items + best];
            if (p->width) narrow(p, r, r->list[2 * best + 1], (whole)number);
        }
    }
}
