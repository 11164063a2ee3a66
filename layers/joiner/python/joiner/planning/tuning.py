"""The sizes at which the search changes its method, and how its effort is divided.

They were chosen by plans of the recorded cases (``bench/plan_prices.py``): each is the size from which the other method
finds cheaper plans in the same time, or from which a method takes too long. Change one only with that benchmark. The
total effort is in ``effort.py``. Other numerical tolerances, and what a step of a loop costs, stand beside their loops.
"""

from typing import Final

TINY: Final = 1e-9
"""Prices ($/h) and numbers of pods that differ by less are equal."""

# Which stages run, by the number of pods.

FEW_PODS: Final = 40
"""Up to this number of pods, first-fit always runs for comparison, sequential placement runs if the arrays cannot
express every rule, and single pods are swapped between two nodes."""
MOST_REPAIRED_PODS: Final = 300
"""Up to this number of pods, domains are emptied of pods that keep others out."""
MOST_REORDERED_PODS: Final = 2_000
"""Up to this number of pods, a packing is realized in up to ORDERS orders while pods are left; with more pods that
takes too long."""
ORDERS: Final = 5
MOST_PROVEN_PODS: Final = 2_000
"""With more pods, the bound of the relaxation is close. With fewer, the effort limits the exact search."""
MOST_FIRST_FIT_PODS: Final = 3_000
"""With more pods, first-fit costs more time than the comparison is worth."""
MOST_SEQUENTIAL_PODS: Final = 3_000
"""With more pods, sequential placement of all of them takes minutes; remaining pods stay pending until the next plan.
"""

# Estimates of time, for deadlines.

PODS_PER_COMPILE_TIME: Final = 12_000
"""Realizing a packing takes about as long as compiling its problem, and as long again for each such number of pods."""
PODS_PER_NODE_TIME: Final = 25
"""With many nodes and few kinds of pods, realizing one node takes as long as compiling so many pods."""
LEAST_PODS_FOR_TIME: Final = 1000
"""With fewer pods, compiling takes longer than realizing, whatever the number of nodes."""
REORDERING_MARGIN: Final = 4.0
"""One more order, and the steps after it, take this many times as long as realizing once."""
FIRST_FIT_SECONDS_OF_PAIR: Final = 5e-6
"""The time of first-fit for each pair of an item and a node."""
FIRST_FIT_SHARE: Final = 0.1
"""The maximum share of the remaining time for first-fit."""

# Packing: which method, by the number of nodes in the relaxation and the number of items (kinds of pods).

MOST_EXACT_PARTS: Final = 1024
"""Up to this number of subsets of the batch, the packing is exact. Ten different pods have this many subsets; the work
grows with the square."""
MOST_GREEDY_NODES: Final = 12
"""Up to this number of nodes, randomized greedy attempts make the first packing."""
MOST_ANNEALED_NODES: Final = 100
"""Up to this number of nodes, and above MOST_GREEDY_NODES, a packing without further improvements
(ANNEALING_PATIENCE) continues with ANNEALING_WARMTH, which finds better packings than restarts."""
ANNEALING_PATIENCE: Final = 100
ANNEALING_WARMTH: Final = 0.02
LEAST_COLUMN_NODES: Final = 60
"""From this number of nodes on, column generation comes first: ruin and recreate finds only nearby packings."""
FEW_ITEMS: Final = 120
"""Up to this number of items, or with COLUMN_NODES_PER_ITEM nodes for each item, column generation is fast enough;
otherwise it is used only with COLUMN_STEPS steps. For more items, the result for a part is repeated."""
COLUMN_NODES_PER_ITEM: Final = 2
COLUMN_STEPS: Final = 1500.0
COLUMN_SHARE: Final = 0.5
"""The share of the effort for columns; REPEATING_COLUMN_SHARE if patterns repeat, as they do with
REPEATING_NODES_PER_ITEM times as many nodes as items."""
REPEATING_COLUMN_SHARE: Final = 0.9
REPEATING_NODES_PER_ITEM: Final = 4
PART_NODES: Final = 1000
"""What is found for this number of nodes is valid for further nodes: of a larger plan only a part is searched, and
repeated."""
LEFT_OVER_SHARE: Final = 0.06
"""The maximum share of pods, about, that does not divide evenly and is packed separately."""
PART_SHARE: Final = 0.75
"""The share of the effort for the part."""
MOST_JOINT_PARTS: Final = 8
"""A packing of more independent parts is searched part by part."""
FIRST_ATTEMPTS: Final = 3
NEXT_ATTEMPTS: Final = 3
MOST_RESTARTS: Final = 12
"""The search ends after this many restarts in succession without an improvement."""
RESTART_PATIENCE: Final = 80
"""The patience of later restarts."""

# Placement: how much is tried.

SHARE_OF_FIRST_PROOF: Final = 0.25
"""The share of the effort in which the first plan may be proven to be optimal."""

SMALL_GAP: Final = 1.02
"""A small plan with rules between pods whose price is above its bound by more than this factor is placed sequentially
as well."""
ALL_OFFERS_PODS: Final = 64
"""Up to this number of pods, every promising offer is tried; above it, only OFFER_SHORTLIST."""
OFFER_SHORTLIST: Final = 24
MOST_LOCAL_SEARCH_PODS: Final = 64
MOST_LOCAL_SEARCH_NODES: Final = 12
MOST_PARTITION_NODES: Final = 4
"""Up to this number of nodes, every partition of the pods is tried (``exhaustive_partition``)."""
MOST_PARTITION_PODS: Final = 7
"""Seven pods have 877 partitions; each further pod makes it about four times as many."""
MOST_SUBSET_PODS: Final = 7
"""The maximum number of pods of which every subset is placed in every possible way, if not all can be placed."""
MOST_REPAIRED_NODES: Final = 12
"""The maximum number of nodes considered for the pods of one attempt to place pending pods."""
MOST_EMPTIED_NODES: Final = 2
"""The maximum number of nodes that are emptied at a time for pending pods."""
REPAIR_STEPS: Final = 300.0
"""The maximum effort of placing pending pods, in steps, beyond that of the search."""
MOST_EXCHANGED_PODS: Final = 100
"""Up to this number of pods that some node could hold, placed pods leave their nodes for pending ones. Of more pods, a
trial changes too small a part of the plan to be worth its time."""
EXCHANGE_STEPS: Final = 300.0
"""The maximum effort of exchanges of placed pods for pending pods, in steps, beyond that of the search."""
EXCHANGE_PATIENCE: Final = 600
"""The exchanges end after this many trials in succession that place no more pods."""
GROUP_REPAIR_STEPS: Final = 6.0
"""The maximum effort of one attempt to place pods of one group, in steps, where not every subset is tried."""
MOST_PLAN_CHECKS: Final = 60
"""The maximum number of exchanges of nodes with pods that the rules of other pods count: each one requires a check of
the whole plan. It limits the exchanges for preferences and those for cheaper nodes separately."""
